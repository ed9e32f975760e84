//! Namespaces, beside an array that somebody else keeps valid, and beside `sharded-slab`.

use percolog_bench::exchange::Place;
use percolog_bench::names::{ArrayNames, Lookups, Names, OurNames, SlabNames, given_out, lookups};

use crate::figures::{Line, Target, Unit, duel, on};
use crate::{Effort, Measured};

pub(crate) fn all(effort: Effort) -> Measured {
    let mut lines = Vec::new();
    for threads in [1, 2] {
        for values in [4096, 200_000] {
            let [array, ours, theirs] = duel(
                effort,
                threads,
                [
                    &|settings| lookups::<ArrayNames>(settings, values),
                    &|settings| lookups::<OurNames>(settings, values),
                    &|settings| lookups::<SlabNames>(settings, values),
                ],
            )?;
            let array = array.nanoseconds(threads);
            let line = |name: &str, value| {
                let name = format!("{name}, a lookup among {values}, {}", on(threads));
                Line::published(name, value, Unit::Nanoseconds)
                    .beside(<ArrayNames as Lookups>::NAME, array)
            };
            let ours = line(<OurNames as Names>::NAME, ours.nanoseconds(threads));
            lines.push(ours.target(Target::RatioAtMost(1.5)));
            lines.push(line(
                <SlabNames as Names>::NAME,
                theirs.nanoseconds(threads),
            ));
        }
        for (place, what) in [
            (Place::Here, "insert and remove here"),
            (Place::Elsewhere, "insert here and remove there"),
        ] {
            if (threads, place) == (1, Place::Elsewhere) {
                continue;
            }
            let [ours, theirs] = duel(
                effort,
                threads,
                [
                    &|settings| given_out::<OurNames>(settings, place),
                    &|settings| given_out::<SlabNames>(settings, place),
                ],
            )?;
            let name = format!("Namespace, {what}, {}", on(threads));
            lines.push(
                Line::published(name, ours.nanoseconds(threads), Unit::Nanoseconds)
                    .beside(<SlabNames as Names>::NAME, theirs.nanoseconds(threads)),
            );
        }
    }
    Ok(lines)
}
