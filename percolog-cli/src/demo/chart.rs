//! The two curves of the page, as inline SVG: speed over the number of cores, both in powers of two. It is drawn for the width of a
//! telephone, and grows with the page.

use std::fmt::Write;

use super::simulate::{Point, Simulated};
use percolog_cli::format::ratio;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 270.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = WIDTH - 52.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// The chart: speeds as multiples of the program as it was found, on one core.
pub(super) fn curves(run: &Simulated) -> String {
    let Some(one) = run.before.first().map(|point| point.per_ms) else {
        return String::new();
    };
    let speeds = || {
        run.before
            .iter()
            .chain(&run.after)
            .map(|point| (point.per_ms / one).log2())
    };
    let low = speeds().fold(0.0, f64::min).floor();
    let high = speeds().fold(1.0, f64::max).ceil();
    let most = run
        .before
        .iter()
        .map(|point| point.cores)
        .fold(2, usize::max) as f64;
    let x = |cores: usize| LEFT + (RIGHT - LEFT) * (cores as f64).log2() / most.log2();
    let y = |speed: f64| BOTTOM - (BOTTOM - TOP) * (speed.log2() - low) / (high - low);
    // Writing to a String cannot fail: `let _` drops a result that is always Ok.
    let mut svg = format!(
        r#"<svg class="speed" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="speed by number of cores, before and after the fix">"#
    );
    for power in (low as i32)..=(high as i32) {
        let speed = f64::from(power).exp2();
        let name = if power >= 0 {
            format!("{speed}×")
        } else {
            format!("1/{}×", speed.recip())
        };
        let _ = write!(
            svg,
            r#"<line class="rule" x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}"/><text class="name" x="{:.1}" y="{:.1}">{name}</text>"#,
            LEFT - 7.0,
            y(speed) + 4.0,
            at = y(speed),
        );
    }
    for point in &run.before {
        let _ = write!(
            svg,
            r#"<text class="tick" x="{:.1}" y="{:.1}">{}</text>"#,
            x(point.cores),
            BOTTOM + 17.0,
            point.cores
        );
    }
    let _ = write!(
        svg,
        r#"<text class="tick" x="{:.1}" y="{:.1}">simulated cores</text>"#,
        f64::midpoint(LEFT, RIGHT),
        HEIGHT - 6.0
    );
    for (class, points) in [("peer", &run.before), ("best", &run.after)] {
        let places = |point: &Point| format!("{:.1} {:.1}", x(point.cores), y(point.per_ms / one));
        let path: Vec<String> = points.iter().map(places).collect();
        let _ = write!(
            svg,
            r#"<path class="{class} curve" d="M{}"/>"#,
            path.join("L")
        );
        for point in points {
            let speed = point.per_ms / one;
            let _ = write!(
                svg,
                r#"<circle class="{class}" cx="{:.1}" cy="{:.1}" r="3.5"><title>{} cores: {}</title></circle>"#,
                x(point.cores),
                y(speed),
                point.cores,
                ratio(speed)
            );
        }
        if let Some(last) = points.last() {
            let speed = last.per_ms / one;
            let _ = write!(
                svg,
                r#"<text class="figure" x="{:.1}" y="{:.1}">{}</text>"#,
                x(last.cores) + 8.0,
                y(speed) + 4.5,
                ratio(speed)
            );
        }
    }
    svg.push_str("</svg>");
    svg
}

/// Text of at most so many signs.
pub(super) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(most - 1).collect();
    short.push('…');
    short
}
