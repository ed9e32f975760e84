//! What a replay found, on the terminal.

use super::Sheet;
use super::gain::percent;
use crate::report::screen;
use percolog_cli::format::{left, number, plural, ratio, right, threads, wrap};
use percolog_cli::output::Output;

/// One subsystem.
pub(super) fn sheet(output: &Output, sheet: &Sheet) -> String {
    let mut text = format!("\n{}", screen::section(output, &sheet.section));
    // The section ends with a blank line, which belongs behind the tables.
    text.truncate(text.trim_end().len());
    text.push('\n');
    let per_read = match sheet.reads {
        0 => "no reads".to_owned(),
        reads => format!("{} : 1 read", number(sheet.updates as f64 / reads as f64)),
    };
    text.push_str(&output.faint(&wrap(
        &format!(
            "{} of {}, {per_read}",
            plural(sheet.updates, "update"),
            plural(sheet.objects as u64, "object")
        ),
        "",
    )));
    text.push('\n');
    for logs in &sheet.logs {
        let all = logs.carried_out + logs.absorbed;
        text.push_str(&output.faint(&wrap(
            &format!(
                "{} on {}: {} of {all} operations absorbed, {} merges, {} of them by updaters",
                logs.implementation,
                threads(logs.threads),
                logs.absorbed,
                logs.merges,
                logs.merges_by_updaters
            ),
            "",
        )));
        text.push('\n');
    }
    if !sheet.moved.is_empty() {
        text.push_str(&format!("\n{}\n", output.faint(
            "simulated           cores   transfers/update   upgrades/update   transfers/fork   waiting   going on",
        )));
        for moved in &sheet.moved {
            let fork = moved.transfers_per_fork.map_or("–".to_owned(), number);
            text.push_str(&format!(
                "{}{}{}{}{}{}{}\n",
                left(moved.implementation, 18),
                right(&moved.cores.to_string(), 7),
                right(&number(moved.transfers_per_update), 19),
                right(&number(moved.upgrades_per_update), 18),
                right(&fork, 17),
                right(&percent(moved.waiting), 10),
                right(
                    &number(moved.calls_per_second_before_the_last_look / 1e6),
                    11
                ),
            ));
        }
        text.push_str(&output.faint(
            "(going on: millions of updates and reads a second without the last look at each object)\n",
        ));
    }
    text
}

/// Which subsystem would gain.
pub(super) fn summary(output: &Output, sheets: &[Sheet]) -> String {
    let mut text = format!("\n{}\n", output.strong("What would gain"));
    for sheet in sheets {
        for (row, gain) in sheet.gains.iter().enumerate() {
            let name = if row == 0 { sheet.section.title } else { "" };
            // With the longest of everything that follows, 100 columns.
            let shown = right(&ratio(gain.ratio), 5);
            let shown = if gain.is_one() {
                output.good(&shown)
            } else {
                shown
            };
            text.push_str(&format!(
                "{}{}{shown}  {}\n",
                left(name, 22),
                left(&gain.instrument(), 34),
                if gain.is_one() {
                    gain.implementation.to_owned()
                } else {
                    match gain.rival {
                        Some(rival) if gain.ratio >= 1.0 => {
                            format!("{}, no better than {rival}", gain.implementation)
                        }
                        _ => "no gain".to_owned(),
                    }
                }
            ));
        }
    }
    text.push_str(&output.faint(&wrap(
        "(× against mutex, of the subsystem's own updates and reads; what was measured is about this machine, what was simulated about \
         the described one)",
        "",
    )));
    text.push_str("\n\n");
    text
}
