//! The first screen: what is won and what is lost, in three sentences, and each duel in a line.

use std::fmt::Write;

use super::{escape, has_quick, times};
use crate::findings::{Duel, EVEN, Shown, Standing, agreements, duels};

/// What all figures together say.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// What is won.
    pub won: String,
    /// What is lost.
    pub lost: String,
    /// How the papers' numbers and the simulator's compare.
    pub papers: String,
}

/// Works it out.
#[must_use]
pub fn verdict(shown: &[Shown]) -> Verdict {
    let duels = duels(shown);
    let all: Vec<&Standing> = duels.iter().flat_map(|duel| &duel.standings).collect();
    let won = all.iter().filter(|one| one.ratio > EVEN).count();
    let lost = all.iter().filter(|one| one.ratio < 1.0 / EVEN).count();
    // One duel for each figure: on the fewest and on the most.
    let ends: Vec<_> = duels.iter().filter_map(Duel::ends).collect();
    let first = ends.iter().filter(|(first, _)| first.ratio > EVEN).count();
    let mut last: Vec<f64> = ends.iter().map(|(_, last)| last.ratio).collect();
    last.retain(|ratio| *ratio > EVEN);
    last.sort_by(f64::total_cmp);
    let by = last.get(last.len() / 2).map_or(String::new(), |median| {
        format!(", half of those by {} or more", times(*median))
    });
    let won = format!(
        "Won: {won} of {} duels with what people use today and with other libraries: {} of {} workloads on the most threads{by}, and {first} on the fewest.",
        all.len(),
        last.len(),
        ends.len(),
    );
    let to = rivals(&all);
    let lost = match lost {
        0 => "Lost: none of them.".to_owned(),
        lost => format!("Lost: {lost} of them, most often to {to}."),
    };
    Verdict {
        won,
        lost,
        papers: papers(shown),
    }
}

/// Who wins most often against percolog.
fn rivals(all: &[&Standing]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for one in all.iter().filter(|one| one.ratio < 1.0 / EVEN) {
        match counts.iter_mut().find(|(name, _)| *name == one.rival) {
            Some((_, count)) => *count += 1,
            None => counts.push((&one.rival, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
        .iter()
        .take(4)
        .map(|(name, count)| format!("{name} ({count})"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn papers(shown: &[Shown]) -> String {
    let mut ratios: Vec<f64> = shown
        .iter()
        .flat_map(Shown::comparisons)
        .filter_map(|comparison| comparison.ratio())
        .map(|ratio| if ratio < 1.0 { 1.0 / ratio } else { ratio })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let agreements = agreements(shown);
    let mut errors: Vec<f64> = agreements.iter().map(|one| one.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let mut text = match ratios.get(ratios.len() / 2) {
        Some(median) => format!(
            "The papers: of {} numbers that they state, half are met within a factor of {median:.2}",
            ratios.len()
        ),
        None => "The papers: none of their numbers was made again".to_owned(),
    };
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    if let Some(error) = errors.get(errors.len() / 2) {
        let _ = write!(
            text,
            "; of {} ratios that were both measured here and simulated, half agree within {:.0} %",
            errors.len(),
            100.0 * error
        );
    }
    text.push('.');
    text
}

/// The screen.
pub(super) fn screen(shown: &[Shown]) -> String {
    let mut text = String::from("<header>\n<h1>percolog: won and lost</h1>\n");
    if shown.is_empty() {
        text.push_str(
            "<p>Nothing has been made yet: <code>lab figures run</code>.</p>\n</header>\n",
        );
        return text;
    }
    let verdict = verdict(shown);
    for sentence in [&verdict.won, &verdict.lost, &verdict.papers] {
        let (word, rest) = sentence.split_once(':').unwrap_or(("", sentence));
        let _ = writeln!(
            text,
            "<p class=\"verdict\"><strong>{}:</strong>{}</p>",
            escape(word),
            escape(rest)
        );
    }
    if has_quick(shown) {
        text.push_str(
            "<p class=\"quick\">This is a quick look: few values, measured shortly. <code>lab figures run --full</code> makes figures to judge by.</p>\n",
        );
    }
    text.push_str("</header>\n");
    let duels = duels(shown);
    if !duels.is_empty() {
        text.push_str(&table(&duels));
    }
    text
}

/// Each duel in a line.
fn table(duels: &[Duel]) -> String {
    let mut text = String::from(
        "<section id=\"duels\">\n<h3>Every duel</h3>\n<p class=\"about\">How many times as good percolog's best is as the best of what people use today and of other \
         libraries; below 1 it loses. Each links to its figure, which shows everybody.</p>\n<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Workload</th>\
         <th scope=\"col\">fewest</th><th scope=\"col\">most</th><th scope=\"col\">worst</th><th scope=\"col\">best</th></tr></thead>\n<tbody>\n",
    );
    for duel in duels {
        let (Some((first, last)), Some(worst), Some(best)) =
            (duel.ends(), duel.worst(), duel.best())
        else {
            continue;
        };
        let cell = |ratio: f64, x: u64| {
            let class = match ratio {
                ratio if ratio > EVEN => "won",
                ratio if ratio < 1.0 / EVEN => "lost",
                _ => "even",
            };
            format!(
                "<td class=\"{class}\">{} <small>at {x}</small></td>",
                times(ratio)
            )
        };
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\"><a href=\"#{}\">{}</a></th>{}{}{}{}</tr>",
            escape(&duel.figure),
            escape(&duel.title),
            cell(first.ratio, first.x),
            cell(last.ratio, last.x),
            cell(worst.ratio, worst.x),
            cell(best.ratio, best.x),
        );
    }
    text.push_str("</tbody></table></div>\n</section>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::some;

    #[test]
    fn three_sentences_say_what_is_won_and_lost() {
        let shown = some();
        let verdict = verdict(&shown);
        assert!(verdict.won.starts_with("Won: "), "{}", verdict.won);
        assert!(verdict.lost.starts_with("Lost: "), "{}", verdict.lost);
        assert!(
            verdict.papers.starts_with("The papers: "),
            "{}",
            verdict.papers
        );
        for sentence in [&verdict.won, &verdict.lost, &verdict.papers] {
            assert!(sentence.ends_with('.'));
        }
    }
}
