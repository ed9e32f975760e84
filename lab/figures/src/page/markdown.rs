//! The same in Markdown: figure by figure ours, published and their ratio, and every duel that is lost.

use std::fmt::Write;

use super::chart::short;
use super::{times, verdict};
use crate::findings::{EVEN, Shown, duels, unsettled};

/// A cell must not end its table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The tables.
#[must_use]
pub fn markdown(shown: &[Shown]) -> String {
    let verdict = verdict(shown);
    let mut text = format!("{}\n{}\n{}\n", verdict.won, verdict.lost, verdict.papers);
    let settled: Vec<(usize, usize)> = shown
        .iter()
        .map(unsettled)
        .map(|(cells, known)| (cells.len(), known))
        .collect();
    let sum = |part: fn(&(usize, usize)) -> usize| settled.iter().map(part).sum::<usize>();
    if sum(|one| one.1) > 0 {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = writeln!(
            text,
            "Of {} simulated cells of duels, {} had not settled when they were counted; the page names them.",
            sum(|one| one.1),
            sum(|one| one.0)
        );
    }
    text.push_str("\n### What the papers state, and ours\n\n");
    text.push_str(
        "| figure | what | at | published | ours | ratio |\n|---|---|---:|---:|---:|---:|\n",
    );
    for one in shown {
        for comparison in one.comparisons() {
            let source = one.figure.source.as_ref().map(ToString::to_string);
            let dash = || "—".to_owned();
            // Writing to a String cannot fail: `let _` drops a result that is always Ok.
            let _ = writeln!(
                text,
                "| {} (`{}`) | {} | {} {} | {} | {} | {} |",
                cell(&source.unwrap_or_default()),
                one.figure.name,
                cell(comparison.name),
                comparison.x,
                cell(&one.figure.x.label),
                short(comparison.published),
                comparison.ours.map_or_else(dash, short),
                comparison
                    .ratio()
                    .map_or_else(dash, |ratio| format!("{ratio:.2}")),
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
