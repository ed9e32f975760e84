//! Colours: what a contender is to the reader decides; each has a shape as well, for those who do not tell colours apart, and for paper.
//!
//! The colours are those of Okabe and Ito, made darker or lighter where the ground asks for it.

use plotters::style::RGBColor;

use crate::catalogue::{Contender, Role};

/// How a contender is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Its place in the style sheet.
    pub(crate) class: u8,
    /// The shape of its points.
    pub(crate) shape: Shape,
    /// Whether its line has gaps.
    pub(crate) dashed: bool,
}

/// The shape of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
    Down,
}

const SHAPES: [Shape; 5] = [
    Shape::Circle,
    Shape::Square,
    Shape::Triangle,
    Shape::Diamond,
    Shape::Down,
];

/// Places in the style sheet that are no contender's.
pub(super) const INK: RGBColor = of(0);
pub(super) const SOFT: RGBColor = of(1);
pub(super) const RULE: RGBColor = of(2);

/// The first place of each role, and how many there are.
const OURS: (u8, u8) = (10, 4);
const TODAY: (u8, u8) = (20, 2);
const PEERS: (u8, u8) = (30, 5);
const PAPERS: (u8, u8) = (40, 5);
const BOUNDS: (u8, u8) = (50, 2);

impl Look {
    /// The number that stands for its colour until it is replaced.
    pub(super) fn color(self) -> RGBColor {
        of(self.class)
    }
}

const fn of(class: u8) -> RGBColor {
    RGBColor(1, 2, class)
}

/// The looks of all contenders of a figure.
pub(crate) fn looks<'a>(contenders: impl IntoIterator<Item = &'a Contender>) -> Vec<Look> {
    let mut used = [0_u8; 5];
    contenders
        .into_iter()
        .enumerate()
        .map(|(at, contender)| {
            let (role, (first, many)) = match contender.role {
                Role::Ours => (0, OURS),
                Role::Today => (1, TODAY),
                Role::Peer => (2, PEERS),
                Role::Paper => (3, PAPERS),
                Role::Bound => (4, BOUNDS),
            };
            let number = used[role];
            used[role] += 1;
            Look {
                class: first + number % many,
                shape: SHAPES[at % SHAPES.len()],
                // A second round of the same colours is told apart by its line.
                dashed: number >= many || contender.role == Role::Bound,
            }
        })
        .collect()
}

/// Replaces the numbers by classes: `f` for what is filled, `s` for lines.
pub(super) fn classes(svg: &str) -> String {
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(at) = rest.find("=\"#0102") {
        let (before, after) = rest.split_at(at);
        // An ill-formed number is left as it is; the tests look for those.
        let class = after
            .get(7..9)
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(class) = class else {
            out.push_str(before);
            out.push_str(&after[..7]);
            rest = &after[7..];
            continue;
        };
        let (kept, letter) = if let Some(kept) = before.strip_suffix("fill") {
            (kept, 'f')
        } else if let Some(kept) = before.strip_suffix("stroke") {
            (kept, 's')
        } else {
            (before, 'f')
        };
        out.push_str(kept);
        out.push_str(&format!("class=\"{letter}{class}\""));
        rest = &after[10..];
    }
    out.push_str(rest);
    out
}

/// What the classes mean, in light, in dark and on paper.
pub(super) const STYLE: &str = include_str!("chart.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_classes() {
        assert_eq!(
            classes(r##"<circle fill="#01020A" stroke="none"/><line stroke="#010201"/>"##),
            r#"<circle class="f10" stroke="none"/><line class="s1"/>"#
        );
    }

    #[test]
    fn every_class_is_in_the_style_sheet() {
        let rooms = [OURS, TODAY, PEERS, PAPERS, BOUNDS];
        let contenders = rooms.iter().flat_map(|(first, many)| *first..first + many);
        for class in contenders.chain(0..4) {
            for letter in ['f', 's'] {
                assert!(
                    STYLE.contains(&format!(".{letter}{class}{{")),
                    "{letter}{class}"
                );
            }
        }
    }
}
