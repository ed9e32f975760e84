//! The scaling curve as inline SVG: both axes in powers of two, so that what scales ideally is a straight line.
//!
//! Made by hand, as the bars of `demo` are: a plotting library would bring a canvas, fonts and colours of its own, where the page's style
//! sheet has to decide, in light and in dark.

use std::fmt::Write;

use percolog_sim::report::{Scaling, ScalingPoint};

use super::text::{capital, percent, time};
use percolog_cli::format;
use percolog_cli::html::escape;

const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - 30.0;
const TOP: f64 = 20.0;
const BOTTOM: f64 = HEIGHT - 52.0;
/// The least distance between two labels of the axis.
const APART: f64 = 26.0;

/// The section of the page; nothing if there are not two points to connect.
pub(super) fn section(scaling: &Scaling) -> String {
    let Some(sentence) = scaling.sentence() else {
        return String::new();
    };
    let fewest = scaling.fewest().unwrap_or(1);
    format!(
        "<section id=\"scaling\">\n<h2>How it scales</h2>\n<p class=\"workload\">{}.</p>\n<figure>\n<figcaption>\
         <span class=\"unit\">speed-up over {}, by {}</span><span class=\"key\"><i class=\"best\"></i>simulated</span>\
         <span class=\"key\"><i class=\"today\"></i>ideal</span></figcaption>\n<div class=\"chart\">{}</div>\n</figure>\n\
         <details><summary>The figures</summary>\n{}</details>\n</section>\n",
        escape(&capital(&sentence)),
        format::plural(fewest as u64, "core"),
        scaling.measure.text(),
        chart(scaling),
        table(scaling),
    )
}

/// Positions of numbers of cores and of speed-ups.
struct Scale {
    cores: (f64, f64),
    speeds: (f64, f64),
}

impl Scale {
    fn of(scaling: &Scaling) -> Option<Self> {
        let cores = |point: &ScalingPoint| (point.cores as f64).log2();
        let first = cores(scaling.points.first()?);
        let last = cores(scaling.points.last()?);
        let fewest = (scaling.fewest()? as f64).log2();
        let speeds = scaling.curve().map(|(_, speedup)| speedup.log2());
        let (lowest, highest) = speeds.fold((0.0_f64, last - fewest), |(low, high), speed| {
            (low.min(speed), high.max(speed))
        });
        Some(Self {
            cores: (first, last.max(first + 1.0)),
            speeds: (lowest.floor(), highest.max(1.0)),
        })
    }

    fn x(&self, cores: f64) -> f64 {
        let (first, last) = self.cores;
        LEFT + (RIGHT - LEFT) * (cores.log2() - first) / (last - first)
    }

    fn y(&self, speedup: f64) -> f64 {
        let (lowest, highest) = self.speeds;
        BOTTOM - (BOTTOM - TOP) * (speedup.log2() - lowest) / (highest - lowest)
    }
}

fn chart(scaling: &Scaling) -> String {
    let (Some(scale), Some(fewest), Some((most, _))) =
        (Scale::of(scaling), scaling.fewest(), scaling.last())
    else {
        return String::new();
    };
    let mut svg = String::new();
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    let _ = write!(
        svg,
        r#"<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#,
        escape(&scaling.sentence().unwrap_or_default())
    );
    let (lowest, highest) = scale.speeds;
    for power in (lowest as i32)..=(highest.floor() as i32) {
        let speedup = f64::from(power).exp2();
        let y = scale.y(speedup);
        let name = if speedup >= 1.0 {
            format!("{speedup}×")
        } else {
            format!("1/{}×", speedup.recip())
        };
        let _ = write!(
            svg,
            r#"<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{y:.1}" y2="{y:.1}"/><text class="name" x="{:.1}" y="{:.1}">{name}</text>"#,
            LEFT - 10.0,
            y + 4.5
        );
    }
    let mut last = f64::MIN;
    // The ends have labels in any case, so the last one is placed before those that might stand in its way.
    let end = scale.x(scaling.points.last().map_or(1, |point| point.cores) as f64);
    for point in &scaling.points {
        let x = scale.x(point.cores as f64);
        if x - last < APART || (end - x < APART && x < end) {
            continue;
        }
        last = x;
        let _ = write!(
            svg,
            r#"<text class="tick" x="{x:.1}" y="{:.1}">{}</text>"#,
            BOTTOM + 20.0,
            point.cores
        );
    }
    let _ = write!(
        svg,
        r#"<text class="tick" x="{:.1}" y="{:.1}">cores</text>"#,
        f64::midpoint(LEFT, RIGHT),
        HEIGHT - 8.0
    );
    let ideal = most as f64 / fewest as f64;
    let _ = write!(
        svg,
        r#"<path class="ideal" d="M{:.1} {:.1}L{:.1} {:.1}"/>"#,
        scale.x(fewest as f64),
        scale.y(1.0),
        scale.x(most as f64),
        scale.y(ideal)
    );
    if let Some(at) = scaling.stops_at {
        let x = scale.x(at as f64);
        let right = x > f64::midpoint(LEFT, RIGHT);
        let (anchor, dx) = if right { ("end", -8.0) } else { ("start", 8.0) };
        let _ = write!(
            svg,
            r#"<line class="stop" x1="{x:.1}" x2="{x:.1}" y1="{TOP}" y2="{BOTTOM}"/><text class="stop" text-anchor="{anchor}" x="{:.1}" y="{:.1}">stops growing at {}</text>"#,
            x + dx,
            // Away from the ideal line, which is low on the left and high on the right.
            if right { BOTTOM - 12.0 } else { TOP + 12.0 },
            format::plural(at as u64, "core")
        );
    }
    let path: Vec<String> = scaling
        .curve()
        .map(|(cores, speedup)| format!("{:.1} {:.1}", scale.x(cores as f64), scale.y(speedup)))
        .collect();
    let _ = write!(svg, r#"<path class="line" d="M{}"/>"#, path.join("L"));
    for point in &scaling.points {
        let x = scale.x(point.cores as f64);
        let cores = format::plural(point.cores as u64, "core");
        match (point.speedup, &point.failure) {
            (Some(speedup), _) => {
                let _ = write!(
                    svg,
                    r#"<circle class="best" cx="{x:.1}" cy="{:.1}" r="5"><title>{cores}: {}</title></circle>"#,
                    scale.y(speedup),
                    format::ratio(speedup)
                );
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("no figures");
                let _ = write!(
                    svg,
                    r#"<path class="failed" d="M{:.1} {:.1}l10 10m0 -10l-10 10"><title>{cores}: {}</title></path>"#,
                    x - 5.0,
                    BOTTOM - 12.0,
                    escape(why)
                );
            }
        }
    }
    if let Some((cores, speedup)) = scaling.last() {
        // On the side that the line does not come from.
        let falls = scaling
            .curve()
            .rev()
            .nth(1)
            .is_some_and(|(_, before)| before > speedup);
        let y = scale.y(speedup) + if falls { 24.0 } else { -14.0 };
        let _ = write!(
            svg,
            r#"<text class="figure" text-anchor="end" x="{:.1}" y="{:.1}">{}</text>"#,
            scale.x(cores as f64) + 6.0,
            y.clamp(TOP + 2.0, BOTTOM - 4.0),
            format::ratio(speedup)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn table(scaling: &Scaling) -> String {
    let mut table = String::from(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">cores</th><th scope=\"col\">speed-up</th>\
         <th scope=\"col\">time</th><th scope=\"col\">operations a ms</th><th scope=\"col\">transfers an operation</th>\
         <th scope=\"col\">waiting</th></tr></thead>\n<tbody>\n",
    );
    for point in &scaling.points {
        let _ = write!(table, "<tr><th scope=\"row\">{}</th>", point.cores);
        if let Some(why) = &point.failure {
            let _ = write!(table, "<td colspan=\"5\">{}</td>", escape(why));
        } else {
            for cell in [
                point.speedup.map(format::ratio),
                point.elapsed_ns.map(time),
                point.operations_per_ms.map(format::number),
                point.transfers_per_operation.map(format::number),
                point.stall_share.map(percent),
            ] {
                let _ = write!(table, "<td>{}</td>", cell.unwrap_or_else(|| "–".to_owned()));
            }
        }
        table.push_str("</tr>\n");
    }
    table.push_str("</tbody></table></div>\n");
    table
}
