//! The catalogue: each figure is one file, which says what is asked, what is run, on which machine, and what was published.

mod figure;
mod parse;

pub use figure::{
    Axis, AxisValues, Better, Contender, Figure, Kind, Need, Published, Quantity, Role, Source,
    TimeOf, Where, Word,
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
