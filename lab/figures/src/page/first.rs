//! The first screen: what is won and what is lost, in three sentences, and each duel in a line.

use std::fmt::Write;

use super::{escape, has_quick, times};
use crate::findings::{Claim, Comparison, Doubt, Duel, EVEN, Shown, Standing, agreements, duels};

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
        "Won: {won} of {} duels with what people use today and with other libraries: {} of {} workloads on the most threads that can be compared{by}, and {first} on the fewest.",
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
    let comparisons: Vec<Comparison<'_>> = shown.iter().flat_map(Shown::comparisons).collect();
    let count =
        |wanted: fn(&Comparison<'_>) -> bool| comparisons.iter().filter(|one| wanted(one)).count();
    let mut ratios: Vec<f64> = comparisons
        .iter()
        .filter_map(Comparison::prediction)
        .map(|ratio| if ratio < 1.0 { 1.0 / ratio } else { ratio })
        .filter(|ratio| ratio.is_finite())
        .collect();
    ratios.sort_by(f64::total_cmp);
    let agreements = agreements(shown);
    let mut errors: Vec<f64> = agreements.iter().map(|one| one.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    let mut text = match ratios.get(ratios.len() / 2) {
        Some(median) => format!(
            "The papers: of {} numbers that they state, {} stand beside predictions, half of which are within a factor of {median:.2}",
            comparisons.len(),
            ratios.len()
        ),
        None => "The papers: none of their numbers was predicted".to_owned(),
    };
    let rest = [
        (
            count(|one| one.claim() == Claim::Fitted),
            "that something was fitted to",
        ),
        (
            count(|one| one.claim() == Claim::Measured),
            "beside what was measured and not simulated",
        ),
        (
            count(|one| one.doubt == Some(Doubt::Superseded)),
            "beside superseded cells",
        ),
        (
            count(|one| {
                one.doubt
                    .as_ref()
                    .is_some_and(|doubt| *doubt != Doubt::Superseded)
            }),
            "beside cells that counted too little",
        ),
        (
            count(|one| one.doubt.is_none() && matches!(one.claim(), Claim::NotComparable(_))),
            "beside something else",
        ),
        (
            count(|one| one.claim() == Claim::NotMade),
            "beside nothing that was made yet",
        ),
    ];
    let rest: Vec<String> = rest
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect();
    if !rest.is_empty() {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = write!(text, " (others: {})", rest.join(", "));
    }
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
    use crate::catalogue::{Kind, Published, Where};
    use crate::findings::tests::shown;
    use crate::page::tests::some;
    use percolog_cells::Values;

    #[test]
    fn predictions_are_counted_apart_from_what_was_fitted_superseded_or_counted_too_little() {
        let mut figure = shown(Kind::Curve, |_, _, _| 2.0);
        let made_on = |figure: &mut Shown, machine: Where| {
            for found in &mut figure.results.cells {
                found.cell.machine = machine.to_string();
            }
            figure.figure.machine = machine;
        };
        made_on(&mut figure, Where::Simulated("opteron-48".to_owned()));
        let names: Vec<String> = figure
            .figure
            .contenders
            .iter()
            .map(|one| one.name.clone())
            .collect();
        let published = |name: &str, value: f64, fitted: bool| Published {
            name: name.to_owned(),
            contender: Some(name.to_owned()),
            saved_of: None,
            fitted,
            not_comparable: None,
            points: vec![(1.0, value)],
            note: None,
        };
        figure.figure.published = vec![
            published(&names[0], 4.0, false),
            published(&names[1], 2.0, true),
            published(&names[2], 2.0, false),
            published(&names[3], 2.0, false),
            published(&names[4], 2.0, false),
        ];
        figure
            .results
            .cells
            .retain(|found| found.contender != names[4]);
        for found in figure.results.cells.iter_mut().filter(|found| found.x == 1) {
            if found.contender == names[2] {
                found.cell.revision += 1;
            } else if found.contender == names[3] {
                found.values[0] = found.values[0].clone().with(Values::OPERATIONS, 99.0);
            }
        }
        let said = papers(std::slice::from_ref(&figure));
        assert!(
            said.starts_with(
                "The papers: of 5 numbers that they state, 1 stand beside predictions, half of which are within a factor of 2.00 (others: 1 that something was \
                 fitted to, 1 beside superseded cells, 1 beside cells that counted too little, 1 beside nothing that was made yet)"
            ),
            "{said}"
        );
        figure.figure.published[0].not_comparable = Some("of the moon".to_owned());
        let claims = |figure: &Shown| -> Vec<String> {
            let all = figure.comparisons();
            all.iter().map(|one| one.claim().to_string()).collect()
        };
        assert_eq!(
            claims(&figure),
            [
                "× not comparable: of the moon",
                "fitted",
                "× not comparable: superseded",
                "× not comparable: 99 operations",
                "not made yet"
            ]
        );
        figure.figure.published[0].not_comparable = None;
        made_on(&mut figure, Where::Here);
        assert_eq!(claims(&figure)[0], "measured");
        assert!(papers(&[figure]).starts_with("The papers: none of their numbers was predicted"));
    }

    #[test]
    fn what_is_saved_is_compared_with_what_is_saved() {
        let mut figure = shown(Kind::Curve, |_, _, _| 2.0);
        let (less, more) = (
            figure.figure.contenders[0].name.clone(),
            figure.figure.contenders[1].name.clone(),
        );
        let factor = figure.figure.y.factor;
        for found in figure
            .results
            .cells
            .iter_mut()
            .filter(|found| found.contender == more)
        {
            let value = &figure.figure.y.value;
            found.values[0] = found.values[0].clone().with(value, 7.0 / factor);
        }
        figure.figure.published = vec![Published {
            name: "less".to_owned(),
            contender: Some(less),
            saved_of: Some(more),
            fitted: false,
            not_comparable: None,
            points: vec![(1.0, 10.0)],
            note: None,
        }];
        let ratio = figure.comparisons()[0].ratio().expect("both are there");
        assert!((ratio - 0.5).abs() < 1e-9);
    }

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
