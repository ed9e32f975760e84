//! The scaling curve as text.

use std::fmt::Write as _;

use super::words::paragraph;
use crate::report::scaling::{Scaling, ScalingPoint};

/// How many points fit into a line.
const POINTS: usize = 12;
/// The columns of each.
const CELL: usize = 7;
/// What stands in front.
const NAME: usize = 10;

/// Bars of eighths, from none to full.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// How many lines the bars take.
const ROWS: usize = 2;

/// Writes the curve, and which runs failed.
pub(super) fn curve(text: &mut String, scaling: &Scaling) {
    let shown = thinned(scaling);
    let highest = scaling.highest().map_or(1.0, |(_, speedup)| speedup);
    for row in (0..ROWS).rev() {
        let mut line = " ".repeat(NAME);
        for point in &shown {
            let eighths = point.speedup.map_or(0, |speedup| {
                // What there is, is seen.
                ((speedup / highest * (8 * ROWS) as f64).round() as usize).max(1)
            });
            let bar = BARS[eighths.saturating_sub(8 * row).min(8)];
            let _ = write!(line, "{:>CELL$}", bar.to_string().repeat(3));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let mut cores = format!("{:<NAME$}", "cores");
    let mut speedups = format!("{:<NAME$}", "speed-up");
    for point in &shown {
        let _ = write!(cores, "{:>CELL$}", point.cores);
        let speedup = match point.speedup {
            Some(speedup) if speedup < 0.1 => format!("{speedup:.2}"),
            Some(speedup) => format!("{speedup:.1}"),
            None => "-".to_owned(),
        };
        let _ = write!(speedups, "{speedup:>CELL$}");
    }
    let _ = writeln!(text, "{cores}\n{speedups}");
    for point in &scaling.points {
        if let Some(why) = &point.failure {
            paragraph(text, &format!("{} cores: {why}", point.cores), "  ");
        }
    }
}

/// As many points as fit; the ends, and the highest of those that there are, among them.
fn thinned(scaling: &Scaling) -> Vec<&ScalingPoint> {
    let count = scaling.points.len();
    if count <= POINTS {
        return scaling.points.iter().collect();
    }
    let highest = scaling.highest().map(|(cores, _)| cores);
    let mut chosen: Vec<usize> = (0..POINTS - 1)
        .map(|index| index * (count - 1) / (POINTS - 2))
        .collect();
    chosen.extend(
        scaling
            .points
            .iter()
            .position(|point| Some(point.cores) == highest),
    );
    chosen.sort_unstable();
    chosen.dedup();
    chosen
        .into_iter()
        .map(|index| &scaling.points[index])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaling(speeds: &[(usize, Option<f64>)]) -> Scaling {
        let points = speeds.iter().map(|(cores, speed)| match speed {
            Some(speed) => ScalingPoint {
                cores: *cores,
                operations_per_ms: Some(*speed),
                ..ScalingPoint::default()
            },
            None => ScalingPoint::failed(*cores, "time was up"),
        });
        Scaling::of(points.collect(), None)
    }

    #[test]
    fn bars_are_as_high_as_the_speed() {
        let mut text = String::new();
        let speeds = [
            (1, Some(10.0)),
            (2, Some(20.0)),
            (4, Some(40.0)),
            (8, None),
            (48, Some(1.0)),
        ];
        curve(&mut text, &scaling(&speeds));
        assert_eq!(
            text,
            "                            ███\n\
             \x20             ▄▄▄    ███    ███           ▁▁▁\n\
             cores           1      2      4      8     48\n\
             speed-up      1.0    2.0    4.0      -    0.1\n\
             8 cores: time was up\n"
        );
    }

    #[test]
    fn many_points_are_thinned_but_for_the_ends_and_the_peak() {
        let speeds: Vec<_> = (1..=48)
            .map(|cores| (cores, Some(if cores == 7 { 100.0 } else { cores as f64 })))
            .collect();
        let mut text = String::new();
        curve(&mut text, &scaling(&speeds));
        assert!(
            text.lines()
                .all(|line| line.chars().count() <= super::super::WIDTH)
        );
        let cores: Vec<&str> = text
            .lines()
            .find_map(|line| line.strip_prefix("cores"))
            .expect("there are cores")
            .split_whitespace()
            .collect();
        assert!(cores.len() <= POINTS, "{cores:?}");
        assert_eq!((cores[0], cores[cores.len() - 1]), ("1", "48"));
        assert!(cores.contains(&"7"), "{cores:?}");
    }
}
