//! Bars: one for each contender, in groups by what varies.

use plotters::prelude::*;

use super::legend::centre_left;
use super::palette::{INK, RULE, SOFT};
use super::{Room, TEXT, drawing, looks, short};
use crate::findings::{Series, Shown};

const BAR: i32 = 18;
const PITCH: i32 = 25;
const HEAD: i32 = 30;
const GAP: i32 = 14;
const TOP: i32 = 32;
const EDGE: i32 = 4;
/// How strong the colour of a bar is that is compared with nothing.
const PALE: f64 = 0.3;

/// Draws them.
pub(super) fn draw(
    shown: &Shown,
    series: &[Series<'_>],
    room: Room,
) -> Result<String, Box<dyn std::error::Error>> {
    let figure = &shown.figure;
    let looks = looks(&figure.contenders);
    let xs = shown.xs();
    let many = series.iter().filter(|one| !one.points.is_empty()).count() as i32;
    let width = room.width() as i32;
    let group = HEAD + PITCH * many + GAP;
    let height = TOP + group * xs.len() as i32;
    let left = match room {
        Room::Wide => 276,
        Room::Narrow => 150,
    };
    let right = width - 92;
    let points = || series.iter().flat_map(|one| &one.points);
    let largest = points().map(|point| point.y.largest).fold(0.0, f64::max);
    let least = points()
        .map(|point| point.y.median)
        .fold(f64::INFINITY, f64::min);
    // Where bars would vanish beside others, their lengths are logarithms.
    let log = figure.y.log && least > 0.0 && largest / least > 50.0;
    let place = |value: f64| {
        let share = if log {
            (value / (least / 2.0)).ln() / (largest / (least / 2.0)).ln()
        } else {
            value / largest.max(f64::MIN_POSITIVE)
        };
        left + (share.clamp(0.0, 1.0) * f64::from(right - left)).round() as i32
    };
    let font = |color| ("sans-serif", TEXT).into_font().color(color);
    // A name that would run into the bars ends with a dot.
    let longest = match room {
        Room::Wide => 35,
        Room::Narrow => 20,
    };
    let name = |name: &str| {
        if name.chars().count() > longest {
            let kept: String = name.chars().take(longest - 1).collect();
            format!("{}…", kept.trim_end())
        } else {
            name.to_owned()
        }
    };
    drawing((width as u32, height as u32), |root| {
        use plotters::style::text_anchor::{HPos, Pos, VPos};
        let unit = if log {
            format!("{} (bars: logarithms)", figure.y.label)
        } else {
            figure.y.label.clone()
        };
        root.draw(&Text::new(unit, (EDGE, 14), font(&SOFT).pos(centre_left())))?;
        for (at, x) in xs.iter().enumerate() {
            let top = TOP + group * at as i32;
            let heading = figure.x.in_words(*x);
            root.draw(&Text::new(
                heading,
                (EDGE, top + 10),
                font(&INK).pos(centre_left()),
            ))?;
            let line = vec![(0, top + 22), (width, top + 22)];
            root.draw(&PathElement::new(line, RULE.stroke_width(1)))?;
            let mut row = 0;
            for (one, look) in series.iter().zip(&looks) {
                if one.points.is_empty() {
                    continue;
                }
                let upper = top + HEAD + PITCH * row;
                row += 1;
                let middle = upper + BAR / 2;
                let style = font(&SOFT).pos(Pos::new(HPos::Right, VPos::Center));
                let shown_name = name(&one.contender.name);
                root.draw(&Text::new(shown_name, (left - 8, middle), style))?;
                let Some(point) = one.points.iter().find(|point| point.x == *x) else {
                    let style = font(&SOFT).pos(centre_left());
                    root.draw(&Text::new("—", (left, middle), style))?;
                    continue;
                };
                let end = place(point.y.median).max(left + 1);
                let bar = [(left, upper), (end, upper + BAR)];
                let strength = if point.doubt.is_some() { PALE } else { 1.0 };
                root.draw(&Rectangle::new(bar, look.color().mix(strength).filled()))?;
                let far = place(point.y.largest);
                if point.y.largest > point.y.least {
                    let spread = vec![(place(point.y.least), middle), (far, middle)];
                    root.draw(&PathElement::new(spread, INK.stroke_width(1)))?;
                }
                let style = font(&INK).pos(centre_left());
                let value = match point.doubt {
                    None => short(point.y.median),
                    Some(_) => format!("{} ×", short(point.y.median)),
                };
                root.draw(&Text::new(value, (end.max(far) + 8, middle), style))?;
            }
        }
        Ok(())
    })
}
