//! The page: all figures in one file that opens anywhere, and each chart as a picture by itself.

mod chart;
mod figure;
mod first;
mod markdown;
mod tables;

use std::fmt::Write;

use crate::catalogue::Where;
use crate::findings::Shown;
use crate::run::Size;

pub use first::{Verdict, verdict};
pub use markdown::markdown;

/// How a page says who made it.
pub const MARK: &str = r#"<meta name="generator" content="lab figures">"#;

/// The groups, in the order of the page, and their headings.
const GROUPS: [(&str, &str); 11] = [
    ("peers", "Beside what people use today"),
    (
        "crossover",
        "Who wins, from which share of reads and on how many cores",
    ),
    (
        "regret",
        "How far from the best choice, without knowing the load",
    ),
    ("memory", "What it takes of memory"),
    ("oplog", "The OpLog thesis"),
    ("osdi10", "An Analysis of Linux Scalability to Many Cores"),
    ("sections", "Parallel Sections"),
    ("ldu", "LDU: lightweight concurrent deferred updates"),
    ("k42", "K42: clustered objects"),
    ("fidelity", "The simulator beside this machine"),
    ("", "More"),
];

/// Text that stands in HTML or SVG.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// The figures of a group.
fn of_group<'s>(shown: &'s [Shown], group: &str) -> Vec<&'s Shown> {
    let known = |name: &str| GROUPS.iter().any(|(group, _)| *group == name);
    shown
        .iter()
        .filter(|one| {
            let own = &one.figure.group;
            own == group || (group.is_empty() && !known(own))
        })
        .collect()
}

/// The whole page.
#[must_use]
pub fn html(shown: &[Shown]) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{MARK}\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>percolog: won and lost</title>\n\
         <style>\n{}{}</style>\n</head>\n<body>\n<main>\n",
        chart::style(),
        include_str!("page.css")
    );
    page.push_str(&first::screen(shown));
    for (group, heading) in GROUPS {
        let figures = of_group(shown, group);
        if figures.is_empty() {
            continue;
        }
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = writeln!(
            page,
            "<h2 class=\"group\" id=\"group-{}\">{}</h2>",
            escape(group),
            escape(heading)
        );
        for one in figures {
            page.push_str(&figure::section(one));
        }
    }
    page.push_str(&tables::fidelity(shown));
    page.push_str(&tables::effort());
    page.push_str(&tables::missing(shown));
    page.push_str(&tables::made(shown));
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

/// Each chart as a picture by itself: the figure's name, and the picture.
#[must_use]
pub fn pictures(shown: &[Shown], wanted: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    shown
        .iter()
        .filter(|one| wanted(&one.figure.name))
        .filter_map(|one| {
            let svg = chart::chart(one, chart::Room::Wide)?;
            Some((one.figure.name.clone(), chart::picture(&svg)))
        })
        .collect()
}

/// Where a figure was made, in words.
fn made_on(shown: &Shown) -> String {
    match &shown.figure.machine {
        Where::Here => format!(
            "Measured on {} ({} processors)",
            shown.results.host.processor, shown.results.host.processors
        ),
        Where::Simulated(machine) => format!("Simulated on {machine}"),
    }
}

/// Whether any of it is only a quick look.
fn has_quick(shown: &[Shown]) -> bool {
    shown.iter().any(|one| one.results.size == Size::Quick)
}

/// A ratio as people say it: `1/13`, `0.50×`, `3.2×`, `48×`, `1100×`.
fn times(ratio: f64) -> String {
    let rounded = |ratio: f64| {
        let scale = 10_f64.powi(ratio.log10() as i32 - 1).max(1.0);
        format!("{:.0}", (ratio / scale).round() * scale)
    };
    match ratio {
        ratio if ratio >= 10.0 => format!("{}×", rounded(ratio)),
        ratio if ratio >= 1.0 => format!("{ratio:.1}×"),
        ratio if ratio >= 0.1 => format!("{ratio:.2}×"),
        _ => format!("1/{}", rounded(1.0 / ratio)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Kind;
    use crate::findings::tests::shown;

    pub(super) fn some() -> Vec<Shown> {
        [Kind::Curve, Kind::Bars, Kind::Heat]
            .map(|kind| {
                shown(kind, |name, x, row| {
                    (name.len() as u64 * (1 + x + row.unwrap_or(0))) as f64
                })
            })
            .to_vec()
    }

    #[test]
    fn the_page_is_whole_and_asks_nobody_for_anything() {
        let shown = some();
        let page = html(&shown);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        for word in ["src=", "http-equiv", "<script", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
        for one in &shown {
            assert!(page.contains(&format!("id=\"{}\"", one.figure.name)));
            assert!(page.contains(&escape(&one.figure.question)));
        }
        let count = |word: &str| page.matches(word).count();
        for tag in ["section", "table", "details", "svg", "figure", "ul"] {
            let opened = count(&format!("<{tag}>")) + count(&format!("<{tag} "));
            assert_eq!(opened, count(&format!("</{tag}>")), "{tag}");
        }
    }

    #[test]
    fn a_page_of_nothing_says_so() {
        assert!(html(&[]).contains("Nothing has been made yet"));
    }

    #[test]
    fn text_cannot_become_markup() {
        let mut shown = some();
        shown[0].figure.title = "<b>\"&".to_owned();
        shown[0].results.cells[0].failure = Some("<i>failed".to_owned());
        let page = html(&shown);
        assert!(!page.contains("<b>\"&") && !page.contains("<i>failed"));
        assert!(page.contains("&lt;b&gt;&quot;&amp;"));
    }

    #[test]
    fn ratios_are_said_as_people_do() {
        for (ratio, text) in [
            (0.0003, "1/3300"),
            (0.034, "1/29"),
            (0.5, "0.50×"),
            (1.0, "1.0×"),
            (3.21, "3.2×"),
            (48.4, "48×"),
            (1130.0, "1100×"),
            (52_480.0, "52000×"),
        ] {
            assert_eq!(times(ratio), text);
        }
    }

    #[test]
    fn pictures_stand_by_themselves() {
        let pictures = pictures(&some(), |_| true);
        assert_eq!(pictures.len(), 3);
        for (_, picture) in pictures {
            assert!(picture.starts_with("<svg") && picture.contains("<style>"));
        }
    }
}
