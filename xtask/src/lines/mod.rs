//! `cargo xtask lines`: what it takes to write a structure for each core by hand, and with a log, as in
//! Figure 8-6 of the thesis.
//!
//! The thesis counts lines that were added to or changed in Linux. So that is what is counted here: the lines of code in which
//! the implementation for each core, and the one with a log, differ from the one behind a mutex; and, for themselves, the files
//! that they share. The whole files are counted as well: they hold nothing but one implementation. As in the thesis, the
//! logged ones are those without absorption, and what a log is made of (the library) is in no count, nor is what a kernel has for
//! data of each processor.

mod code;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::workspace::Workspace;

/// Where the files of [`SUBSYSTEMS`] and [`SHARED`] are.
const FOLDER: &str = "lab/papers/src/subsystem";

/// A subsystem of the thesis' figure.
struct Subsystem {
    title: &'static str,
    /// Where its [implementations](IMPLEMENTATIONS) are.
    folder: &'static str,
    /// The plain structure; `None`: the standard library's.
    plain: Option<&'static str>,
    /// Lines of code in the thesis (which calls the event queue inotify): for each core, with OpLog.
    published: [usize; 2],
}

const SUBSYSTEMS: [Subsystem; 3] = [
    Subsystem {
        title: "reverse map",
        folder: "rmap",
        plain: Some("interval_map.rs"),
        published: [473, 45],
    },
    Subsystem {
        title: "event queue",
        folder: "events",
        plain: None,
        published: [242, 11],
    },
    Subsystem {
        title: "open files list",
        folder: "open_files",
        plain: Some("table.rs"),
        published: [133, 8],
    },
];

/// Behind a mutex; for each core; with a log.
const IMPLEMENTATIONS: [&str; 3] = ["locked.rs", "percpu.rs", "logged.rs"];

/// What the ones for each core share, and what the ones with a log share.
const SHARED: [&str; 2] = ["slots.rs", "edits.rs"];

/// The counts of a row. What is not there is a dash.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    title: &'static str,
    plain: Option<usize>,
    mutex: Option<usize>,
    /// For each core, with a log.
    whole: [usize; 2],
    changed: [usize; 2],
    published: Option<[usize; 2]>,
}

/// Counts, and prints the table.
pub(crate) fn command(workspace: &Workspace, markdown: bool) -> Result<bool> {
    let rows = count(&workspace.root)?;
    print!(
        "{}",
        if markdown {
            in_markdown(&rows)
        } else {
            as_text(&rows)
        }
    );
    Ok(true)
}

fn count(root: &Path) -> Result<Vec<Row>> {
    let lines = |folder: &str, file: &str| -> Result<Vec<String>> {
        let path = root.join(FOLDER).join(folder).join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        code::lines(&text).with_context(|| path.display().to_string())
    };
    let mut rows = Vec::new();
    for subsystem in &SUBSYSTEMS {
        let [mutex, percpu, logged] = IMPLEMENTATIONS.map(|file| lines(subsystem.folder, file));
        let (mutex, others) = (mutex?, [percpu?, logged?]);
        let plain = subsystem.plain.map(|file| lines(subsystem.folder, file));
        rows.push(Row {
            title: subsystem.title,
            plain: plain.transpose()?.map(|lines| lines.len()),
            mutex: Some(mutex.len()),
            whole: others.each_ref().map(Vec::len),
            changed: others.each_ref().map(|other| code::changed(&mutex, other)),
            published: Some(subsystem.published),
        });
    }
    let [percpu, logged] = SHARED.map(|file| lines("", file));
    let shared = [percpu?.len(), logged?.len()];
    rows.push(Row {
        title: "shared by these",
        plain: None,
        mutex: None,
        whole: shared,
        changed: shared,
        published: None,
    });
    Ok(rows)
}

const HEADINGS: [&str; 9] = [
    "Lines of code",
    "plain",
    "mutex",
    "per core",
    "log",
    "changed: per core",
    "log",
    "thesis: per core",
    "OpLog",
];

fn cells(row: &Row) -> [String; 9] {
    let number = |count: Option<usize>| count.map_or_else(|| "–".to_owned(), |n| n.to_string());
    let [percpu, logged] = row.whole;
    let [percpu_changed, logged_changed] = row.changed;
    [
        row.title.to_owned(),
        number(row.plain),
        number(row.mutex),
        percpu.to_string(),
        logged.to_string(),
        percpu_changed.to_string(),
        logged_changed.to_string(),
        number(row.published.map(|[percpu, _]| percpu)),
        number(row.published.map(|[_, oplog]| oplog)),
    ]
}

/// Which file a number is of, and how it was counted.
fn files() -> String {
    let mut text = format!("Files of {FOLDER}, without blank lines, comments and tests:\n");
    for subsystem in &SUBSYSTEMS {
        let Subsystem {
            title,
            folder,
            plain,
            ..
        } = subsystem;
        let plain = plain.unwrap_or("(std)");
        let others = IMPLEMENTATIONS.join(", ");
        let _ = writeln!(text, "  {title}: in {folder}, {plain}, {others}");
    }
    let _ = writeln!(text, "  shared by these: {}", SHARED.join(", "));
    text.push_str(
        "changed: lines that are not in the one behind a mutex, in this order.\n\
         thesis: Figure 8-6, lines added to or changed in Linux.\n",
    );
    text
}

fn as_text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut line = |cells: [String; 9]| {
        let [first, rest @ ..] = cells;
        let _ = write!(text, "{first:<15}");
        for (cell, heading) in rest.iter().zip(&HEADINGS[1..]) {
            let _ = write!(
                text,
                "  {cell:>width$}",
                width = heading.chars().count().max(5)
            );
        }
        text.push('\n');
    };
    line(HEADINGS.map(str::to_owned));
    for row in rows {
        line(cells(row));
    }
    text + "\n" + &files()
}

fn in_markdown(rows: &[Row]) -> String {
    let mut text = format!("| {} |\n|---{}|\n", HEADINGS.join(" | "), "|--:".repeat(8));
    for row in rows {
        let _ = writeln!(text, "| {} |", cells(row).join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_there() {
        let workspace = Workspace::find().expect("this is a workspace");
        let rows = count(&workspace.root).expect("every file can be counted");
        assert_eq!(rows.len(), SUBSYSTEMS.len() + 1);
        for row in &rows {
            for (changed, whole) in row.changed.into_iter().zip(row.whole) {
                assert!(0 < changed && changed <= whole, "{row:?}");
            }
            if row.mutex.is_some() {
                assert!(
                    row.changed[0] < row.whole[0],
                    "they have much in common: {row:?}"
                );
            }
        }
    }

    #[test]
    fn the_guide_has_these_counts() {
        let workspace = Workspace::find().expect("this is a workspace");
        let guide = workspace.root.join("docs/your-program.md");
        let guide = fs::read_to_string(guide).expect("the page is there");
        let table = in_markdown(&count(&workspace.root).expect("every file can be counted"));
        assert!(
            guide.contains(&table),
            "`cargo xtask lines --markdown` prints\n{table}"
        );
    }

    #[test]
    fn tables_are_narrow() {
        let rows = [Row {
            title: "event queue",
            plain: None,
            mutex: Some(40),
            whole: [67, 45],
            changed: [35, 15],
            published: Some([242, 11]),
        }];
        let text = as_text(&rows);
        let wide = |line: &&str| line.chars().count() > 100;
        assert_eq!(text.lines().find(wide), None);
        assert_eq!(
            in_markdown(&rows).lines().last(),
            Some("| event queue | – | 40 | 67 | 45 | 35 | 15 | 242 | 11 |")
        );
    }
}
