//! A figure on the page: what is asked, the chart, what it says, what was published, and the numbers behind it.

use std::fmt::Write;

use super::chart::{self, Room};
use super::{escape, made_on, times};
use crate::catalogue::{Better, Kind};
use crate::findings::{
    Doubt, EVEN, Shown, Standing, duels, of_unknown_samples, settling, too_few_samples,
};
use crate::store::Found;

/// The figure's section.
pub(super) fn section(shown: &Shown) -> String {
    let figure = &shown.figure;
    let mut text = format!(
        "<section id=\"{}\">\n<h3>{}</h3>\n<p class=\"question\">{}</p>\n<p class=\"about\">{} {}.{}</p>\n",
        escape(&figure.name),
        escape(&figure.title),
        escape(&figure.question),
        escape(&figure.about),
        escape(&made_on(shown)),
        match figure.y.better {
            Better::More => " More is better.",
            Better::Less => " Less is better.",
        }
    );
    if let Some(source) = &figure.source {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = writeln!(
            text,
            "<p class=\"source\">{}</p>",
            escape(&source.to_string())
        );
    }
    let charts: Vec<String> = [Room::Wide, Room::Narrow]
        .into_iter()
        .filter_map(|room| chart::chart(shown, room))
        .collect();
    if !charts.is_empty() {
        let _ = writeln!(text, "<figure>{}</figure>", charts.join("\n"));
    }
    for sentence in sentences(shown) {
        let _ = writeln!(text, "<p class=\"finding\">{}</p>", escape(&sentence));
    }
    for warning in warnings(shown) {
        let _ = writeln!(text, "<p class=\"differs\">{}</p>", escape(&warning));
    }
    text.push_str(&published(shown));
    if let Some(differs) = &figure.differs {
        let _ = writeln!(text, "<p class=\"differs\">{}</p>", escape(differs));
    }
    let numbers = numbers(shown);
    if figure.kind == Kind::Table {
        text.push_str(&numbers);
    } else {
        let _ = writeln!(
            text,
            "<details><summary>The numbers</summary>\n{numbers}</details>"
        );
    }
    text.push_str("</section>\n");
    text
}

/// Where in a figure something is, in words.
fn place(shown: &Shown, x: u64, row: Option<u64>) -> String {
    let mut text = shown.figure.x.in_words(x);
    if let (Some(rows), Some(row)) = (&shown.figure.rows, row) {
        // Writing to a String cannot fail: `let _` drops a result that is always Ok.
        let _ = write!(text, ", {}: {}", rows.label, rows.name_of(row));
    }
    text
}

/// What a figure says, in a sentence or two.
pub(super) fn sentences(shown: &Shown) -> Vec<String> {
    let duels = duels(std::slice::from_ref(shown));
    let Some(duel) = duels.first() else {
        return Vec::new();
    };
    let (Some((first, last)), Some(worst), Some(best)) = (duel.ends(), duel.worst(), duel.best())
    else {
        return Vec::new();
    };
    let say = |standing: &Standing| {
        let place = format!("at {}", place(shown, standing.x, standing.row));
        let Standing {
            ours, rival, ratio, ..
        } = standing;
        match *ratio {
            ratio if ratio > EVEN => {
                format!("{place} {ours} is {} as good as {rival}", times(ratio))
            }
            ratio if ratio < 1.0 / EVEN => {
                format!(
                    "{place} {rival} is {} as good as {ours}",
                    times(1.0 / ratio)
                )
            }
            _ => format!("{place} {ours} and {rival} are even"),
        }
    };
    if shown.figure.kind == Kind::Heat {
        let (won, lost) = duel.score();
        let even = duel.standings.len() - won - lost;
        return vec![
            capital(&format!(
                "percolog wins {won} fields, loses {lost}, and {even} are even"
            )),
            capital(&say(best)),
            capital(&say(worst)),
        ];
    }
    let mut sentences = vec![capital(&say(first))];
    for standing in [last, best, worst] {
        let sentence = capital(&say(standing));
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// What has to be known before the figure is believed: which cells are compared with nothing, and which had not settled.
fn warnings(shown: &Shown) -> Vec<String> {
    let mut warnings = Vec::new();
    let named = |found: &Found, what: &str| {
        let place = place(shown, found.x, found.row);
        format!("{} at {place} ({what})", found.contender)
    };
    let doubts = shown.doubts();
    let superseded = |doubt: &Doubt| *doubt == Doubt::Superseded;
    let gone = doubts.iter().filter(|(_, doubt)| superseded(doubt)).count();
    if gone > 0 {
        let why = match &shown.figure.revision.why {
            Some(why) => format!(" ({why})"),
            None => String::new(),
        };
        let all = doubts.len() == gone && shown.results.cells.len() == gone;
        let which = if all {
            "All".to_owned()
        } else {
            format!("{gone}")
        };
        warnings.push(format!(
            "Superseded: the experiment has been changed since{why}. {which} of the cells are of the earlier one; they are marked ×, compared with nothing, and will be made again."
        ));
    }
    let short: Vec<String> = doubts
        .iter()
        .filter(|(_, doubt)| !superseded(doubt))
        .map(|(found, doubt)| named(found, &doubt.to_string()))
        .collect();
    if !short.is_empty() {
        warnings.push(format!(
            "Marked × and compared with nothing, since too little was counted: {}.",
            short.join("; ")
        ));
    }
    let settling = settling(shown);
    let each: Vec<String> = settling
        .unsettled
        .iter()
        .map(|one| named(one.found, &format!("{:.2}", one.drift)))
        .collect();
    if !each.is_empty() {
        warnings.push(format!(
            "Had not settled when they were counted (how many times the operations of the first half of the time the second had): {}.",
            each.join("; ")
        ));
    }
    if settling.unknown > 0 {
        warnings.push(format!(
            "Whether {} had settled is not known.",
            match settling.known {
                0 => "they".to_owned(),
                _ => format!("{} of the cells", settling.unknown),
            }
        ));
    }
    let columns = shown.figure.columns.iter().chain([&shown.figure.y.value]);
    let unknown = |column: &&String| {
        let mut cells = shown.results.cells.iter();
        cells.any(|found| of_unknown_samples(found, column))
    };
    let mut unknown: Vec<String> = columns
        .filter(unknown)
        .map(|column| column_name(column))
        .collect();
    unknown.dedup();
    if !unknown.is_empty() {
        warnings.push(format!(
            "Of how many samples these percentiles are is not known: {}.",
            unknown.join("; ")
        ));
    }
    warnings
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    // A name stays as it is written.
    let first = match letters.next() {
        Some(first) if !text.starts_with("percolog") => first.to_uppercase().collect::<String>(),
        Some(first) => first.to_string(),
        None => String::new(),
    };
    format!("{first}{}.", letters.as_str())
}

/// The numbers that a paper states, beside ours.
fn published(shown: &Shown) -> String {
    let comparisons = shown.comparisons();
    if comparisons.is_empty() {
        return String::new();
    }
    let axis = &shown.figure.x;
    let mut text = format!(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">Published</th><th scope=\"col\">{}</th><th scope=\"col\">theirs</th><th scope=\"col\">ours</th>\
         <th scope=\"col\">ours / theirs</th><th scope=\"col\">ours is</th></tr></thead>\n<tbody>\n",
        escape(&axis.label)
    );
    for one in comparisons {
        let ours = one.ours.map_or_else(|| "—".to_owned(), chart::short);
        let ratio = one
            .ratio()
            .map_or_else(|| "—".to_owned(), |ratio| format!("{ratio:.2}"));
        let claim = escape(&one.claim().to_string());
        let x = if one.x.fract() == 0.0 && one.x >= 0.0 {
            axis.name_of(one.x as u64)
        } else {
            one.x.to_string()
        };
        let note: String = one
            .note
            .map(str::to_owned)
            .into_iter()
            .chain(one.contender.map(|name| format!("beside {name}")))
            .chain(one.saved_of.map(|name| format!("less than {name}")))
            .map(|note| format!(" <small>{}</small>", escape(&note)))
            .collect();
        let _ = writeln!(
            text,
            "<tr><th scope=\"row\">{}{note}</th><td>{}</td><td>{}</td><td>{ours}</td><td>{ratio}</td><td><small>{claim}</small></td></tr>",
            escape(one.name),
            escape(&x),
            chart::short(one.published),
        );
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// All numbers: a line for each contender and each value of what varies in a curve, with the further columns.
fn numbers(shown: &Shown) -> String {
    let figure = &shown.figure;
    let series = shown.series();
    let is_table = figure.kind == Kind::Table;
    let mut text =
        String::from("<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\"></th>");
    let _ = write!(text, "<th scope=\"col\">{}</th>", escape(&figure.x.label));
    if let Some(rows) = &figure.rows {
        let _ = write!(text, "<th scope=\"col\">{}</th>", escape(&rows.label));
    }
    if !is_table {
        let _ = write!(
            text,
            "<th scope=\"col\">{}</th><th scope=\"col\">least … most</th>",
            escape(&figure.y.label)
        );
    }
    for column in &figure.columns {
        let _ = write!(
            text,
            "<th scope=\"col\">{}</th>",
            escape(&column_name(column))
        );
    }
    let in_doubt = series
        .iter()
        .any(|one| one.points.iter().any(|point| point.doubt.is_some()));
    if in_doubt {
        text.push_str("<th scope=\"col\">compared with nothing</th>");
    }
    text.push_str("</tr></thead>\n<tbody>\n");
    for one in &series {
        let mut first = true;
        for point in &one.points {
            let name = if first { &*one.contender.name } else { "" };
            let _ = write!(
                text,
                "<tr{}><th scope=\"row\">{}</th><td>{}</td>",
                if first { " class=\"first\"" } else { "" },
                escape(name),
                escape(&figure.x.name_of(point.x))
            );
            first = false;
            if let Some((axis, row)) = figure.rows.as_ref().zip(point.row) {
                let _ = write!(text, "<td>{}</td>", escape(&axis.name_of(row)));
            }
            if !is_table {
                let spread = if point.y.largest > point.y.least {
                    format!(
                        "{} … {}",
                        chart::short(point.y.least),
                        chart::short(point.y.largest)
                    )
                } else {
                    String::new()
                };
                let _ = write!(
                    text,
                    "<td>{}</td><td><small>{spread}</small></td>",
                    chart::short(point.y.median)
                );
            }
            for column in &figure.columns {
                let value = point.found.median(column);
                let cell = value.map_or_else(|| "—".to_owned(), |value| chart::short(value.median));
                let few = too_few_samples(point.found, column).map_or(String::new(), |samples| {
                    format!(" <small>of {samples:.0}</small>")
                });
                let _ = write!(text, "<td>{cell}{few}</td>");
            }
            if in_doubt {
                let doubt = point.doubt.as_ref();
                let doubt = doubt.map_or(String::new(), |doubt| format!("× {doubt}"));
                let _ = write!(text, "<td><small>{}</small></td>", escape(&doubt));
            }
            text.push_str("</tr>\n");
        }
    }
    text.push_str("</tbody></table></div>\n");
    text
}

/// A value's name as a heading: its unit behind it.
pub(super) fn column_name(column: &str) -> String {
    match column {
        "lines" => return "lines moved an operation".to_owned(),
        "waiting" => return "share of time waiting".to_owned(),
        _ => {}
    }
    for (ending, unit) in [
        ("_ns", "ns"),
        ("_us", "µs"),
        ("_ms", "ms"),
        ("_cycles", "cycles"),
        ("_bytes", "bytes"),
    ] {
        if let Some(name) = column.strip_suffix(ending) {
            return format!("{}, {unit}", name.replace('_', " "));
        }
    }
    column.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_headed_by_words_and_units() {
        assert_eq!(column_name("read_p99_cycles"), "read p99, cycles");
        assert_eq!(column_name("hot_bytes"), "hot, bytes");
        assert_eq!(column_name("hits"), "hits");
    }

    #[test]
    fn a_name_keeps_its_small_letter() {
        assert_eq!(capital("percolog wins"), "percolog wins.");
        assert_eq!(capital("at 1 it loses"), "At 1 it loses.");
    }
}
