//! The same in Markdown: figure by figure ours, published and their ratio, and every duel that is lost.

use std::fmt::Write;

use super::chart::short;
use super::{times, verdict};
use crate::findings::{Doubt, EVEN, FEWEST, Settling, Shown, duels, settling};
use crate::store::Found;

/// A cell must not end its table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// A place of what was published, in words.
fn at(shown: &Shown, x: f64) -> String {
    match x {
        x if x >= 0.0 && x.fract() == 0.0 => shown.figure.x.in_words(x as u64),
        x => format!("{x} {}", shown.figure.x.label),
    }
}

/// How many simulated cells are compared with nothing, and how many had settled.
fn counted(shown: &[Shown]) -> String {
    let cells = shown.iter().flat_map(|one| &one.results.cells);
    let simulated = cells.filter(|found| found.is_simulated()).count();
    if simulated == 0 {
        return String::new();
    }
    let doubts = shown.iter().flat_map(Shown::doubts);
    let doubts: Vec<(&Found, Doubt)> = doubts.filter(|(found, _)| found.is_simulated()).collect();
    let superseded = |(_, doubt): &&(&Found, Doubt)| *doubt == Doubt::Superseded;
    let gone = doubts.iter().filter(superseded).count();
    let settlings: Vec<Settling<'_>> = shown.iter().map(settling).collect();
    let sum = |part: fn(&Settling<'_>) -> usize| settlings.iter().map(part).sum::<usize>();
    format!(
        "Of {simulated} simulated cells, {} are compared with nothing: {gone} are superseded, and {} counted too little. Whether the others had settled when they \
         were counted is known of {}: {} had not; the page names them.\n",
        doubts.len(),
        doubts.len() - gone,
        sum(|one| one.known),
        sum(|one| one.unsettled.len()),
    )
}

/// Which figures have cells that are compared with nothing.
fn in_doubt(shown: &[Shown]) -> String {
    let mut text = String::new();
    for one in shown {
        let doubts = one.doubts();
        if doubts.is_empty() {
            continue;
        }
        let superseded = |(_, doubt): &&(&Found, Doubt)| *doubt == Doubt::Superseded;
        let gone = doubts.iter().filter(superseded).count();
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = writeln!(
            text,
            "| {} (`{}`) | {} | {gone} | {} | {} |",
            cell(&one.figure.title),
            one.figure.name,
            one.results.cells.len(),
            doubts.len() - gone,
            cell(
                one.figure
                    .revision
                    .why
                    .as_deref()
                    .filter(|_| gone > 0)
                    .unwrap_or("")
            ),
        );
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\n### What is compared with nothing\n\nCells of an experiment that has been changed since, and cells that counted too little: fewer than {FEWEST} operations, no \
         reader or no writer that ever came, or a percentile of too few samples.\n\n\
         | figure | cells | superseded | counted too little | since |\n|---|---:|---:|---:|---|\n{text}"
    )
}

/// The tables.
#[must_use]
pub fn markdown(shown: &[Shown]) -> String {
    let verdict = verdict(shown);
    let mut text = format!("{}\n{}\n{}\n", verdict.won, verdict.lost, verdict.papers);
    text.push_str(&counted(shown));
    text.push_str("\n### What the papers state, and ours\n\n");
    text.push_str(
        "| figure | what | at | published | ours | of ours | ratio | |\n|---|---|---:|---:|---:|---|---:|---|\n",
    );
    for one in shown {
        for comparison in one.comparisons() {
            let source = one.figure.source.as_ref().map(ToString::to_string);
            let dash = || "—".to_owned();
            let whose = match (comparison.contender, comparison.saved_of) {
                (Some(name), Some(more)) => format!("{name}, less than {more}"),
                (name, _) => name.unwrap_or("—").to_owned(),
            };
            // Writing to a String cannot fail: `let _` drops a result that is always Ok.
            let _ = writeln!(
                text,
                "| {} (`{}`) | {} | {} | {} | {} | {} | {} | {} |",
                cell(&source.unwrap_or_default()),
                one.figure.name,
                cell(comparison.name),
                cell(&at(one, comparison.x)),
                short(comparison.published),
                comparison.ours.map_or_else(dash, short),
                cell(&whose),
                comparison
                    .ratio()
                    .map_or_else(dash, |ratio| format!("{ratio:.2}")),
                cell(&comparison.claim().to_string()),
            );
        }
    }
    text.push_str("\n### Every workload that percolog loses, and where\n\n");
    text.push_str("| workload | lost at | to | by at most | won at |\n|---|---|---|---:|---|\n");
    for (one, duel) in shown.iter().flat_map(|one| {
        duels(std::slice::from_ref(one))
            .into_iter()
            .map(move |duel| (one, duel))
    }) {
        let lost: Vec<_> = duel
            .standings
            .iter()
            .filter(|standing| standing.ratio < 1.0 / EVEN)
            .collect();
        if lost.is_empty() {
            continue;
        }
        let place = |standing: &&crate::findings::Standing| {
            let row = one.figure.rows.as_ref().zip(standing.row);
            match row {
                Some((axis, row)) => format!("{}/{}", standing.x, axis.name_of(row)),
                None => standing.x.to_string(),
            }
        };
        let won: Vec<String> = duel
            .standings
            .iter()
            .filter(|standing| standing.ratio > EVEN)
            .map(|standing| place(&standing))
            .collect();
        let mut rivals: Vec<&str> = lost.iter().map(|standing| &*standing.rival).collect();
        rivals.sort_unstable();
        rivals.dedup();
        let most = lost
            .iter()
            .map(|standing| 1.0 / standing.ratio)
            .fold(1.0, f64::max);
        let _ = writeln!(
            text,
            "| {} (`{}`, {}) | {} | {} | {} | {} |",
            cell(&duel.title),
            duel.figure,
            one.figure.machine,
            lost.iter().map(place).collect::<Vec<_>>().join(", "),
            cell(&rivals.join(", ")),
            times(most),
            won.join(", "),
        );
    }
    text.push_str(&in_doubt(shown));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::some;

    #[test]
    fn tables_have_as_many_cells_in_each_line() {
        let text = markdown(&some());
        let mut cells = None;
        for line in text.lines() {
            if line.starts_with('|') {
                let own = line.matches('|').count() - line.matches("\\|").count();
                assert!(cells.is_none_or(|cells| cells == own), "{line}");
                cells = Some(own);
            } else {
                cells = None;
            }
        }
    }
}
