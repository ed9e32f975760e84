//! Charts as SVG. A plotting library draws them; a style sheet in each says what is light and what is dark.
//!
//! The library writes colours as numbers. Those that are used here mean nothing but a place in the style sheet, and are replaced by its
//! classes: so one drawing serves the page in both themes, in print, and as a picture by itself.

mod axis;
mod bars;
mod curve;
mod heat;
mod legend;
mod palette;

use plotters::prelude::*;

use crate::catalogue::Kind;
use crate::findings::Shown;

pub(super) use palette::{Look, looks};

/// How much room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A page on a desk, and a picture by itself.
    Wide,
    /// A phone.
    Narrow,
}

impl Room {
    fn width(self) -> u32 {
        match self {
            Self::Wide => 880,
            Self::Narrow => 400,
        }
    }

    fn height(self) -> u32 {
        match self {
            Self::Wide => 380,
            Self::Narrow => 330,
        }
    }
}

/// The sizes of letters: of what is to be read, and of the axes. (The library divides them by 1.24.)
const TEXT: f64 = 13.5 * 1.24;

/// What can go wrong in a drawing that is text: nothing that a user could change.
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// The chart of a figure; nothing for a table, and where there is nothing to draw.
pub(super) fn chart(shown: &Shown, room: Room) -> Option<String> {
    let series = shown.series();
    if series.iter().all(|one| one.points.is_empty()) {
        return None;
    }
    let drawn = match shown.figure.kind {
        Kind::Table => return None,
        Kind::Curve if shown.xs().len() > 1 => curve::draw(shown, &series, room),
        Kind::Curve | Kind::Bars => bars::draw(shown, &series, room),
        Kind::Heat => heat::draw(shown, &series, room),
    };
    drawn.ok().map(|svg| finish(&svg, shown, room))
}

/// A drawing of so many pixels, made by `draw`.
fn drawing(
    size: (u32, u32),
    draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Drawn,
) -> Result<String, Box<dyn std::error::Error>> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        draw(&root)?;
        root.present()?;
    }
    Ok(svg)
}

/// Puts classes in place of colours, and says what it is to those who do not see it.
fn finish(svg: &str, shown: &Shown, room: Room) -> String {
    let body = svg
        .find("xmlns=")
        .and_then(|start| svg[start..].find('>').map(|end| start + end + 1))
        .map_or(svg, |start| &svg[start..]);
    let height = attribute(svg, "height").unwrap_or_else(|| room.height().to_string());
    let label = format!("{}. {}", shown.figure.title, shown.figure.y.label);
    format!(
        "<svg class=\"{}\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" role=\"img\" aria-label=\"{}\">{}",
        match room {
            Room::Wide => "wide",
            Room::Narrow => "narrow",
        },
        room.width(),
        super::escape(&label),
        compact(&palette::classes(body))
    )
}

/// The same drawing without what every element of the library's has and the style sheet says once, or what is so anyhow.
fn compact(svg: &str) -> String {
    const SAID: [&str; 7] = [
        " dy=\"0.5ex\"",
        " opacity=\"1\"",
        " stroke=\"none\" stroke-width=\"1\"",
        " stroke-width=\"1\"",
        " text-anchor=\"start\"",
        " font-family=\"sans-serif\"",
        // What the library makes of `TEXT`.
        " font-size=\"13.499999999999998\"",
    ];
    let mut svg = svg.to_owned();
    for said in SAID {
        svg = svg.replace(said, "");
    }
    svg.replace("<polyline fill=\"none\"", "<polyline")
        .replace(" \"/>", "\"/>")
        .replace(">\n", ">")
        .replace("\n</text>", "</text>")
        .replace("/><", "/>\n<")
        .replace("</text><", "</text>\n<")
}

fn attribute(svg: &str, name: &str) -> Option<String> {
    let start = svg.find(&format!("{name}=\""))? + name.len() + 2;
    let end = svg[start..].find('"')? + start;
    Some(svg[start..end].to_owned())
}

/// The same as a picture by itself, with the style sheet in it.
pub(super) fn picture(svg: &str) -> String {
    let Some(end) = svg.find('>') else {
        return svg.to_owned();
    };
    format!(
        "{}<style>{}{}</style><rect class=\"ground\" x=\"0\" y=\"0\" width=\"100%\" height=\"100%\"/>{}",
        &svg[..=end],
        palette::STYLE,
        "svg{background:var(--sheet)}.ground{fill:var(--sheet)}",
        &svg[end + 1..]
    )
}

/// The style sheet of all charts.
pub(super) fn style() -> &'static str {
    palette::STYLE
}

/// A number as an axis or a cell shows it: three digits, and a letter for what is large.
pub(super) fn short(value: f64) -> String {
    let size = value.abs();
    let (scaled, letter) = match size {
        size if size >= 1e9 => (value / 1e9, " G"),
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let size = scaled.abs();
    let text = if size >= 100.0 || size == 0.0 {
        format!("{scaled:.0}")
    } else if size >= 10.0 {
        format!("{scaled:.1}")
    } else if size >= 0.01 {
        format!("{scaled:.2}")
    } else {
        format!("{scaled:.1e}")
    };
    let text = if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    };
    format!("{text}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::tests::shown;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.004, "4.0e-3"),
            (0.25, "0.25"),
            (1.0, "1"),
            (9.96, "9.96"),
            (12.34, "12.3"),
            (1234.0, "1234"),
            (49_963.0, "50 k"),
            (2_500_000.0, "2.5 M"),
            (5.2e9, "5.2 G"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn every_kind_is_drawn_in_classes_alone() {
        for kind in [Kind::Curve, Kind::Bars, Kind::Heat] {
            let shown = shown(kind, |name, x, row| {
                (name.len() as u64 * (x + row.unwrap_or(0))) as f64
            });
            for room in [Room::Wide, Room::Narrow] {
                let svg = chart(&shown, room).expect("there is something to draw");
                assert!(!svg.contains("=\"#"), "a colour that no theme knows");
                assert!(svg.ends_with("</svg>") || svg.ends_with("</svg>\n"));
                let picture = picture(&svg);
                assert!(picture.contains("prefers-color-scheme"));
            }
        }
    }

    #[test]
    fn one_value_of_what_varies_is_no_curve() {
        let mut shown = shown(Kind::Curve, |_, _, _| 3.0);
        shown.results.cells.retain(|found| found.x == 1);
        assert!(chart(&shown, Room::Wide).is_some());
        shown.results.cells.clear();
        assert_eq!(chart(&shown, Room::Wide), None);
    }
}
