//! Curves: a line for each contender, with what was published beside it.

use plotters::prelude::*;

use super::legend::{self, Entry};
use super::palette::{RULE, SOFT};
use super::{Look, Room, TEXT, axis, drawing, looks};
use crate::catalogue::Published;
use crate::findings::{Point, Series, Shown};

/// A line of points, or a published one.
struct Line {
    look: Look,
    points: Vec<(f64, f64)>,
    /// Those that are compared with nothing.
    doubted: Vec<(f64, f64)>,
    /// The least and the largest at each.
    spreads: Vec<(f64, f64, f64)>,
    hollow: bool,
    name: String,
}

/// Draws it.
pub(super) fn draw(
    shown: &Shown,
    series: &[Series<'_>],
    room: Room,
) -> Result<String, Box<dyn std::error::Error>> {
    let figure = &shown.figure;
    let looks = looks(&figure.contenders);
    let mut lines: Vec<Line> = series
        .iter()
        .zip(&looks)
        .filter(|(one, _)| !one.points.is_empty())
        .map(|(one, look)| Line {
            look: *look,
            points: places(one, |point| point.doubt.is_none()),
            doubted: places(one, |point| point.doubt.is_some()),
            spreads: one
                .points
                .iter()
                .filter(|point| point.doubt.is_none())
                .map(|point| (point.x as f64, point.y.least, point.y.largest))
                .collect(),
            hollow: false,
            name: one.contender.name.clone(),
        })
        .collect();
    // What is saved is on no axis.
    let drawn = |one: &&Published| one.saved_of.is_none();
    for published in figure.published.iter().filter(drawn) {
        let of = published.contender.as_ref();
        let at = of.and_then(|name| series.iter().position(|one| one.contender.name == *name));
        // What none of ours is compared with is drawn as the last paper form is.
        let look = at.map_or_else(|| looks[looks.len() - 1], |at| looks[at]);
        lines.push(Line {
            look,
            points: published.points.clone(),
            doubted: Vec::new(),
            spreads: Vec::new(),
            hollow: true,
            name: format!("published: {}", published.name),
        });
    }
    let all = || {
        lines
            .iter()
            .flat_map(|line| line.points.iter().chain(&line.doubted))
    };
    let log_y = figure.y.log && all().all(|(_, y)| *y > 0.0);
    let least = all().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let largest = all().map(|(_, y)| *y).fold(0.0, f64::max);
    let y = if log_y {
        axis::logarithmic(least, largest)
    } else {
        axis::linear(largest)
    };
    let mut xs: Vec<f64> = all().map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let (first, last) = (xs[0], xs[xs.len() - 1]);
    let log_x = first > 0.0 && last / first > 8.0;

    let entries: Vec<Entry> = lines
        .iter()
        .map(|line| Entry {
            look: line.look,
            name: line.name.clone(),
            hollow: line.hollow,
        })
        .collect();
    let (width, height) = (room.width(), room.height());
    let (_, legend_height) = legend::layout(&entries, width);
    let size = (width, height + legend_height as u32);
    let left: i32 = 62;
    let (right, top, bottom): (i32, i32, i32) = (22, legend_height + 22, 46);
    let plot_width = f64::from(width as i32 - left - right);
    let plot_height = f64::from(size.1 as i32 - top - bottom);
    let place_x = |x: f64| {
        let share = if log_x {
            (x / first).ln() / (last / first).ln()
        } else {
            (x - first) / (last - first).max(f64::MIN_POSITIVE)
        };
        f64::from(left) + share * plot_width
    };
    let place_y = |value: f64| {
        let share = if log_y {
            (value / y.low).ln() / (y.high / y.low).ln()
        } else {
            (value - y.low) / (y.high - y.low)
        };
        f64::from(top) + (1.0 - share) * plot_height
    };
    let pixel = |x: f64, value: f64| (place_x(x).round() as i32, place_y(value).round() as i32);
    let font = |color| ("sans-serif", TEXT).into_font().color(color);
    drawing(size, |root| {
        use plotters::style::text_anchor::{HPos, Pos, VPos};
        legend::draw(root, &entries, width)?;
        let unit = font(&SOFT).pos(Pos::new(HPos::Left, VPos::Center));
        root.draw(&Text::new(
            figure.y.label.clone(),
            (8, legend_height + 6),
            unit,
        ))?;
        for mark in &y.marks {
            let (_, at) = pixel(first, *mark);
            let line = vec![(left, at), (width as i32 - right, at)];
            root.draw(&PathElement::new(line, RULE.stroke_width(1)))?;
            let style = font(&SOFT).pos(Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(axis::written(*mark), (left - 8, at), style))?;
        }
        let floor = size.1 as i32 - bottom;
        let base = vec![(left, floor), (width as i32 - right, floor)];
        root.draw(&PathElement::new(base, SOFT.stroke_width(1)))?;
        for mark in axis::marks(&xs, place_x, 26.0) {
            let (at, _) = pixel(mark, y.high);
            let tick = vec![(at, floor), (at, floor + 5)];
            root.draw(&PathElement::new(tick, SOFT.stroke_width(1)))?;
            let style = font(&SOFT).pos(Pos::new(HPos::Center, VPos::Center));
            root.draw(&Text::new(
                figure.x.name_of(mark as u64),
                (at, floor + 15),
                style,
            ))?;
        }
        let centre = (f64::from(left) + plot_width / 2.0) as i32;
        let style = font(&SOFT).pos(Pos::new(HPos::Center, VPos::Center));
        let label = figure.x.label.clone();
        root.draw(&Text::new(label, (centre, floor + 34), style))?;

        // Those of others first, so that ours is never hidden.
        for line in lines.iter().rev() {
            let color = line.look.color();
            let path: Vec<(i32, i32)> = line.points.iter().map(|(x, y)| pixel(*x, *y)).collect();
            if !line.hollow {
                for (x, least, largest) in &line.spreads {
                    if largest > least && *least > 0.0 {
                        let bar = vec![pixel(*x, *least), pixel(*x, *largest)];
                        root.draw(&PathElement::new(bar, color.stroke_width(1)))?;
                    }
                }
                if line.look.dashed {
                    for pair in path.windows(2) {
                        dash(root, pair[0], pair[1], color)?;
                    }
                } else {
                    root.draw(&PathElement::new(path.clone(), color.stroke_width(2)))?;
                }
            }
            for (x, value) in &line.doubted {
                let (x, y) = pixel(*x, *value);
                for (left, right) in [(-4, 4), (4, -4)] {
                    let stroke = vec![(x + left, y - 4), (x + right, y + 4)];
                    root.draw(&PathElement::new(stroke, color.stroke_width(2)))?;
                }
            }
            for at in path {
                let size = if line.hollow { 6 } else { 4 };
                legend::point(root, at, line.look, size, line.hollow)?;
            }
        }
        Ok(())
    })
}

/// Some of a contender's points.
fn places(series: &Series<'_>, wanted: impl Fn(&Point<'_>) -> bool) -> Vec<(f64, f64)> {
    let points = series.points.iter().filter(|point| wanted(point));
    points
        .map(|point| (point.x as f64, point.y.median))
        .collect()
}

/// A line with gaps.
fn dash(
    root: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    from: (i32, i32),
    to: (i32, i32),
    color: RGBColor,
) -> super::Drawn {
    let (right, down) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
    let length = right.hypot(down);
    let mut at = 0.0;
    while at < length {
        let place = |at: f64| {
            let share = (at / length).min(1.0);
            (
                from.0 + (right * share).round() as i32,
                from.1 + (down * share).round() as i32,
            )
        };
        let piece = vec![place(at), place(at + 6.0)];
        root.draw(&PathElement::new(piece, color.stroke_width(2)))?;
        at += 11.0;
    }
    Ok(())
}
