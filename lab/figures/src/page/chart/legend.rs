//! Names and shapes, above a chart.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::palette::{INK, SOFT, Shape};
use super::{Drawn, Look, TEXT};

/// A line of a legend.
const LINE: i32 = 21;

/// About what a name takes: nobody knows which font it will be shown in, so those that are wide in any are.
fn length(name: &str) -> i32 {
    let letter = |letter: char| match letter {
        'A'..='Z' | 'm' | 'w' | '<' | '>' | '%' | '+' | '=' => 10.4,
        _ => 7.2,
    };
    name.chars().map(letter).sum::<f64>().ceil() as i32
}

/// An entry: a look, a name, and whether it is hollow, as what was published is.
pub(super) struct Entry {
    pub(super) look: Look,
    pub(super) name: String,
    pub(super) hollow: bool,
}

/// Where each entry goes, and how high all of them are.
pub(super) fn layout(entries: &[Entry], width: u32) -> (Vec<(i32, i32)>, i32) {
    let width = width as i32 - 12;
    let (mut x, mut y) = (8, 6 + LINE / 2);
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        let own = 26 + length(&entry.name) + 14;
        if x + own > width && x > 8 {
            x = 8;
            y += LINE;
        }
        places.push((x, y));
        x += own;
    }
    (places, y + LINE / 2 + 4)
}

/// Draws it.
pub(super) fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    entries: &[Entry],
    width: u32,
) -> Drawn {
    let (places, _) = layout(entries, width);
    for (entry, (x, y)) in entries.iter().zip(places) {
        point(area, (x + 8, y), entry.look, 5, entry.hollow)?;
        let style = ("sans-serif", TEXT)
            .into_font()
            .color(if entry.hollow { &SOFT } else { &INK });
        let style = style.pos(centre_left());
        area.draw(&Text::new(entry.name.clone(), (x + 20, y), style))?;
    }
    Ok(())
}

/// Text that begins at its place, at half of its height.
pub(super) fn centre_left() -> plotters::style::text_anchor::Pos {
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    Pos::new(HPos::Left, VPos::Center)
}

/// Draws a point.
pub(super) fn point(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    (x, y): (i32, i32),
    look: Look,
    size: i32,
    hollow: bool,
) -> Drawn {
    let color = look.color();
    let corners: Vec<(i32, i32)> = match look.shape {
        Shape::Circle => {
            let style = if hollow {
                color.stroke_width(2)
            } else {
                color.filled()
            };
            area.draw(&Circle::new((x, y), size, style))?;
            return Ok(());
        }
        Shape::Square => vec![(-1, -1), (1, -1), (1, 1), (-1, 1)],
        Shape::Triangle => vec![(0, -1), (1, 1), (-1, 1)],
        Shape::Diamond => vec![(0, -1), (1, 0), (0, 1), (-1, 0)],
        Shape::Down => vec![(-1, -1), (1, -1), (0, 1)],
    };
    // A diamond of the same size looks smaller.
    let size = size + i32::from(look.shape == Shape::Diamond);
    let mut corners: Vec<(i32, i32)> = corners
        .into_iter()
        .map(|(right, down)| (x + right * size, y + down * size))
        .collect();
    if hollow {
        corners.push(corners[0]);
        area.draw(&PathElement::new(corners, color.stroke_width(2)))?;
    } else {
        area.draw(&Polygon::new(corners, color.filled()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_do_not_fit_go_to_the_next_line() {
        let entry = |name: &str| Entry {
            look: Look {
                class: 10,
                shape: Shape::Circle,
                dashed: false,
            },
            name: name.to_owned(),
            hollow: false,
        };
        let entries = [entry("one"), entry("two"), entry(&"long".repeat(10))];
        let (places, height) = layout(&entries, 400);
        assert_eq!(places[0].1, places[1].1);
        assert!(places[2].1 > places[1].1 && places[2].0 == places[0].0);
        assert!(height > places[2].1);
    }
}
