//! The catalogue: each figure is one file, which says what is asked, what is run, on which machine, and what was published.

mod figure;
mod parse;

pub use figure::{
    Axis, AxisValues, Better, Contender, Figure, Kind, Need, Published, Quantity, Revision, Role,
    Source, TimeOf, Where, Word,
};
pub use parse::CatalogueError;

/// Group, name, and the file's content, in the order of both.
const FILES: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/catalogue.rs"));

/// All figures, by group and name.
///
/// # Errors
/// A file is not what a figure's file has to be: then this crate is wrong, and its tests say so.
pub fn all() -> Result<Vec<Figure>, CatalogueError> {
    FILES
        .iter()
        .map(|(group, name, text)| parse::figure(group, name, text))
        .collect()
}

/// The figures of these names; all if there are none. A group's name stands for its figures.
///
/// # Errors
/// A name is unknown, or as [`all`].
pub fn named(names: &[String]) -> Result<Vec<Figure>, CatalogueError> {
    let all = all()?;
    if names.is_empty() {
        return Ok(all);
    }
    for name in names {
        if !all.iter().any(|figure| figure.answers_to(name)) {
            let nearest = all
                .iter()
                .flat_map(|figure| [&figure.name, &figure.group])
                .min_by_key(|known| strsim::levenshtein(known, name))
                .filter(|known| strsim::levenshtein(known, name) <= name.len() / 2)
                .cloned();
            return Err(CatalogueError::NoSuchFigure {
                name: name.clone(),
                nearest,
            });
        }
    }
    let wanted = |figure: &Figure| names.iter().any(|name| figure.answers_to(name));
    Ok(all.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_figure() {
        let figures = all().expect("the catalogue is right");
        assert!(!figures.is_empty());
        let mut names: Vec<&str> = figures.iter().map(|figure| &*figure.name).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1], "a name is used twice");
        }
        for figure in &figures {
            for contender in &figure.contenders {
                let known = percolog_cells::all().any(|program| program.name == contender.program);
                assert!(known, "{}: no program {}", figure.name, contender.program);
            }
        }
    }

    #[test]
    fn published_numbers_stand_beside_what_they_are_of() {
        let figures = all().expect("the catalogue is right");
        let published = |wanted: &str| {
            let named = figures.iter().flat_map(|figure| {
                let all = figure.published.iter();
                all.map(move |published| (figure, published))
            });
            let found: Vec<_> = named
                .filter(|(_, published)| published.name.contains(wanted))
                .map(|(figure, published)| {
                    let name = published.contender.as_deref().expect("one of ours");
                    let contender = figure.contenders.iter().find(|one| one.name == name);
                    (&*figure.name, published, contender.expect("it is there"))
                })
                .collect();
            assert!(!found.is_empty(), "{wanted}");
            found
        };
        // What the thesis says of its log is beside percolog's, not beside what was written down of the thesis' here.
        for (figure, _, contender) in published("OpLog") {
            assert_eq!(contender.role, Role::Ours, "{figure}");
        }
        // The paper's sections read the time stamp counter, and have a fence.
        for (figure, _, contender) in published("PARSEC") {
            let reclaimer = contender.with["reclaimer"].to_string();
            assert_eq!(reclaimer, "percolog, TSC, fenced", "{figure}");
        }
        // A reverse map is no kernel: what one saves is beside what the other saves.
        for (figure, published, _) in published("rmap") {
            assert_eq!(
                published.saved_of.is_some(),
                figure == "exim-misses",
                "{figure}"
            );
        }
        // Everything that is said to be fitted, in the machines' files or in those of the figures.
        let fitted = figures.iter().flat_map(|figure| &figure.published);
        let fitted = fitted.filter(|published| published.fitted);
        let points: usize = fitted.map(|published| published.points.len()).sum();
        assert_eq!(points, 5);
    }

    #[test]
    fn figures_are_found_by_name_and_by_group() {
        let all = all().expect("the catalogue is right");
        let first = &all[0];
        let by_name = named(std::slice::from_ref(&first.name)).expect("it is there");
        assert_eq!(by_name.len(), 1);
        let by_group = named(std::slice::from_ref(&first.group)).expect("it is there");
        assert!(by_group.iter().all(|figure| figure.group == first.group));
        let wrong = format!("{}x", first.name);
        let error = named(&[wrong]).expect_err("there is none").to_string();
        assert!(
            error.contains(&format!("did you mean `{}`", first.name)),
            "{error}"
        );
    }
}
