//! What the user typed wrongly.

use crate::{assert_fine, assert_plain_and_narrow, assert_refused, folder, run};

#[test]
fn unknown_names_are_refused_with_the_nearest_one() {
    let folder = folder();
    for (arguments, part) in [
        (&["demoo"][..], "'demo'"),
        (&["docter"][..], "'doctor'"),
        (&["demo", "--thread", "1"][..], "'--threads'"),
        (&["demo", "--only", "counter"][..], "'counters'"),
        (&["trace", "imfo"][..], "'info'"),
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
        (&[][..], "a command is missing"),
        (&["trace"][..], "a command is missing"),
        (&["doctor", "who"][..], "'who'"),
        (&["record", "--", "true"][..], "--output"),
        (&["record", "--output", "x.trace"][..], "COMMAND"),
        (&["replay", "a", "b"][..], "'b'"),
    ] {
        assert_refused(&run(folder.path(), arguments), part);
    }
}

#[test]
fn absurd_numbers_are_refused() {
    let folder = folder();
    for command in ["demo", "replay"] {
        for (number, part) in [
            ("0", "at least one thread"),
            ("100000", "at most 512"),
            ("99999999999999999999999", "from 1 to 512"),
            ("1,0", "at least one thread"),
            ("two", "from 1 to 512"),
            ("1,,2", "from 1 to 512"),
            ("-3", "'-3'"),
        ] {
            assert_refused(&run(folder.path(), &[command, "--threads", number]), part);
        }
        for milliseconds in ["0", "10001", "-1", "soon"] {
            assert_refused(
                &run(folder.path(), &[command, "--cell-ms", milliseconds]),
                milliseconds,
            );
        }
    }
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
        &["replay", "--help"][..],
        &["record", "--help"][..],
        &["trace", "--help"][..],
        &["trace", "info", "--help"][..],
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
