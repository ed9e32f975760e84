//! What the user typed wrongly.

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run, stderr};

#[test]
fn unknown_names_are_refused_with_the_nearest_one() {
    let folder = folder();
    for (arguments, part) in [
        (&["demoo"][..], "'demo'"),
        (&["docter"][..], "'doctor'"),
        (&["demo", "--thread", "1"][..], "'--threads'"),
        (&["--jsn", "doctor"][..], "'--json'"),
    ] {
        let refused = run(folder.path(), arguments);
        assert_refused(&refused, part);
        assert_refused(&refused, "--help`");
    }
}

#[test]
fn missing_and_superfluous_arguments_are_refused() {
    let folder = folder();
    for (arguments, part) in [
        (&["--json"][..], "a command is missing"),
        (&["doctor", "who"][..], "'who'"),
        (&["demo", "quick"][..], "'quick'"),
        (
            &["sim", "assert", "--", "true"][..],
            "--max-transfers-per-op",
        ),
    ] {
        assert_refused(&run(folder.path(), arguments), part);
    }
}

#[test]
fn a_program_without_dashes_is_told_what_to_type() {
    let folder = folder();
    for (arguments, typed) in [
        (&["sim", "./x"][..], "type `percolog sim -- ./x`"),
        (
            &["advise", "--cores", "4", "./x", "-t{n}"][..],
            "type `percolog advise --cores 4 -- ./x -t{n}`",
        ),
    ] {
        assert_refused(&run(folder.path(), arguments), typed);
    }
}

#[test]
fn a_refusal_gives_the_terminal_no_orders() {
    let folder = folder();
    let refused = run(folder.path(), &["demo", "--output", "no\u{1b}[2Jx/y"]);
    assert_refused(&refused, "no\\u{1b}[2Jx/y");
}

#[test]
fn escape_sequences_that_were_typed_do_not_reach_the_terminal() {
    let folder = folder();
    for arguments in [
        &["\u{1b}[2Jdemo"][..],
        &["sim", "diff", "\u{1b}[2Ja.json", "b.json"],
        &["sim", "machines", "\u{9b}2J"],
    ] {
        let refused = run(folder.path(), arguments);
        assert_refused(&refused, "");
        let message = stderr(&refused);
        let order = message
            .chars()
            .find(|sign| sign.is_control() && *sign != '\n');
        assert_eq!(order, None, "{message:?}");
    }
}

#[test]
fn absurd_numbers_are_refused() {
    let folder = folder();
    for (number, part) in [
        ("0", "1..=512"),
        ("100000", "1..=512"),
        ("1,0", "1..=512"),
        ("two", "'two'"),
        ("1,,2", "''"),
        ("-3", "'-3'"),
    ] {
        assert_refused(&run(folder.path(), &["demo", "--threads", number]), part);
    }
}

#[test]
fn the_name_alone_prints_the_commands() {
    let folder = folder();
    let text = assert_fine(&run(folder.path(), &[]));
    for command in ["demo", "sim", "advise", "doctor"] {
        assert!(text.contains(command), "{text} lacks {command}");
    }
    assert_plain_and_narrow(&text);
}

#[test]
fn help_goes_to_stdout_and_fits() {
    let folder = folder();
    for arguments in [
        &["--help"][..],
        &["-h"][..],
        &["help", "demo"][..],
        &["demo", "--help"][..],
        &["doctor", "--help"][..],
        &["sim", "--help"][..],
        &["sim", "assert", "--help"][..],
        &["advise", "--help"][..],
    ] {
        let help = assert_fine(&run(folder.path(), arguments));
        assert!(help.contains("Usage: percolog"), "{help}");
        assert_plain_and_narrow(&help);
    }
    let version = assert_fine(&run(folder.path(), &["--version"]));
    assert_eq!(
        version.trim(),
        concat!("percolog ", env!("CARGO_PKG_VERSION"))
    );
}
