//! Who wins, by two things that vary: each field has the colour of the best, its letter, and how many times better it is than the best of the
//! other side. The stronger the colour, the clearer.

use plotters::prelude::*;

use super::legend::centre_left;
use super::palette::{INK, SOFT};
use super::{Look, Room, TEXT, drawing, looks, short};
use crate::catalogue::Role;
use crate::findings::{EVEN, Series, Shown, best};

const FIELD: i32 = 44;
const LINE: i32 = 20;
const EDGE: i32 = 4;

/// The best at a place, and how many times better it is than the best of the other side.
struct Winner {
    at: usize,
    ratio: Option<f64>,
}

fn winner(shown: &Shown, series: &[Series<'_>], x: u64, row: Option<u64>) -> Option<Winner> {
    let ours = best(&shown.figure, series, |role| role == Role::Ours, x, row);
    let rival = best(&shown.figure, series, Role::is_rival, x, row);
    let at = |one: &Series<'_>| {
        let name = &one.contender.name;
        series
            .iter()
            .position(|known| known.contender.name == *name)
    };
    match (ours, rival) {
        (Some((ours, one)), Some((rival, other))) => {
            let ratio = shown.figure.y.better.ratio(one, other);
            let (winner, ratio) = if ratio >= 1.0 {
                (ours, ratio)
            } else {
                (rival, 1.0 / ratio)
            };
            Some(Winner {
                at: at(winner)?,
                ratio: Some(ratio),
            })
        }
        // Alone, and not only since all others are in doubt.
        (Some((alone, _)), None) | (None, Some((alone, _))) => Some(Winner {
            at: at(alone).filter(|_| !in_doubt(series, x, row))?,
            ratio: None,
        }),
        (None, None) => None,
    }
}

/// Whether somebody has a value at a place that is compared with nothing.
fn in_doubt(series: &[Series<'_>], x: u64, row: Option<u64>) -> bool {
    let mut points = series.iter().filter_map(|one| one.point(x, row));
    points.any(|point| point.doubt.is_some())
}

fn letter(at: usize) -> char {
    char::from(b'A' + (at % 26) as u8)
}

/// Draws it.
pub(super) fn draw(
    shown: &Shown,
    series: &[Series<'_>],
    room: Room,
) -> Result<String, Box<dyn std::error::Error>> {
    let figure = &shown.figure;
    let looks: Vec<Look> = looks(&figure.contenders);
    let (xs, rows) = (shown.xs(), shown.rows());
    let width = room.width() as i32;
    let left = match room {
        Room::Wide => 150,
        Room::Narrow => 86,
    };
    let entries: Vec<usize> = (0..series.len())
        .filter(|at| {
            let role = series[*at].contender.role;
            role == Role::Ours || role.is_rival()
        })
        .collect();
    let columns = match room {
        Room::Wide => 3,
        Room::Narrow => 1,
    };
    let lines = entries.len().div_ceil(columns) as i32;
    let top = 12 + LINE * lines + 34;
    let height = top + FIELD * rows.len() as i32 + 46;
    let each = (width - left - 4) / xs.len().max(1) as i32;
    let font = |color| ("sans-serif", TEXT).into_font().color(color);
    drawing((width as u32, height as u32), |root| {
        use plotters::style::text_anchor::{HPos, Pos, VPos};
        let centre = || Pos::new(HPos::Center, VPos::Center);
        for (place, &at) in entries.iter().enumerate() {
            let column = EDGE + (place % columns) as i32 * (width / columns as i32);
            let y = 14 + LINE * (place / columns) as i32;
            let swatch = [(column, y - 7), (column + 14, y + 7)];
            root.draw(&Rectangle::new(swatch, looks[at].color().filled()))?;
            let name = format!("{}  {}", letter(at), series[at].contender.name);
            let style = font(&INK).pos(centre_left());
            root.draw(&Text::new(name, (column + 20, y), style))?;
        }
        let axis = figure.rows.as_ref();
        let label = axis.map_or(String::new(), |axis| axis.label.clone());
        let style = font(&SOFT).pos(centre_left());
        root.draw(&Text::new(label, (EDGE, top - 16), style))?;
        for (down, row) in rows.iter().enumerate() {
            let upper = top + FIELD * down as i32;
            let name = axis.zip(*row).map(|(axis, row)| axis.name_of(row));
            let style = font(&SOFT).pos(Pos::new(HPos::Right, VPos::Center));
            let name = name.unwrap_or_default();
            root.draw(&Text::new(name, (left - 10, upper + FIELD / 2), style))?;
            for (right, x) in xs.iter().enumerate() {
                let start = left + each * right as i32;
                let field = [
                    (start + 1, upper + 1),
                    (start + each - 1, upper + FIELD - 1),
                ];
                let middle = (start + each / 2, upper + FIELD / 2);
                let Some(winner) = winner(shown, series, *x, *row) else {
                    if in_doubt(series, *x, *row) {
                        root.draw(&Text::new("×", middle, font(&SOFT).pos(centre())))?;
                    }
                    continue;
                };
                let ratio = winner.ratio.unwrap_or(1.0);
                // From a tint where it is even to nearly full where it is sixteen times better.
                let strength = 0.22 + 0.5 * (ratio.max(1.0).log2() / 4.0).clamp(0.0, 1.0);
                let color = looks[winner.at].color().mix(strength);
                root.draw(&Rectangle::new(field, color.filled()))?;
                let text = match winner.ratio {
                    Some(ratio) if ratio < EVEN => format!("{} even", letter(winner.at)),
                    Some(ratio) => format!("{} {}×", letter(winner.at), short(round(ratio))),
                    None => letter(winner.at).to_string(),
                };
                root.draw(&Text::new(text, middle, font(&INK).pos(centre())))?;
            }
        }
        let floor = top + FIELD * rows.len() as i32;
        for (right, x) in xs.iter().enumerate() {
            let at = left + each * right as i32 + each / 2;
            let name = figure.x.name_of(*x);
            root.draw(&Text::new(
                name,
                (at, floor + 14),
                font(&SOFT).pos(centre()),
            ))?;
        }
        let middle = left + each * xs.len() as i32 / 2;
        let label = figure.x.label.clone();
        root.draw(&Text::new(
            label,
            (middle, floor + 34),
            font(&SOFT).pos(centre()),
        ))?;
        Ok(())
    })
}

/// Two digits are enough for a ratio.
fn round(ratio: f64) -> f64 {
    if ratio >= 10.0 {
        ratio.round()
    } else {
        (ratio * 10.0).round() / 10.0
    }
}
