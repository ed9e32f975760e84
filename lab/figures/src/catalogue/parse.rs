//! A figure's file, checked: what it says has to make sense before anything is run.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::figure::{
    Axis, AxisValues, Contender, Figure, Kind, Need, Published, Quantity, Revision, Role, Source,
    TimeOf, Where, Word,
};

/// Why there is no figure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    /// A file of the catalogue is wrong.
    #[error("the catalogue's figure `{figure}`: {what}")]
    Wrong {
        /// Which.
        figure: String,
        /// What is wrong with it.
        what: String,
    },
    /// There is none of that name.
    #[error("there is no figure `{name}`{}; `lab figures list` names them", suggestion(.nearest.as_deref()))]
    NoSuchFigure {
        /// What was asked for.
        name: String,
        /// The name that is most like it.
        nearest: Option<String>,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or(String::new(), |name| format!(" (did you mean `{name}`?)"))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    question: String,
    about: String,
    source: Option<Source>,
    differs: Option<String>,
    kind: Kind,
    machine: String,
    #[serde(default)]
    parameters: BTreeMap<String, Word>,
    #[serde(default)]
    columns: Vec<String>,
    x: FileAxis,
    rows: Option<FileAxis>,
    y: Quantity,
    time: FileTime,
    contenders: Vec<FileContender>,
    #[serde(default)]
    published: Vec<Published>,
    #[serde(default)]
    revision: Revision,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAxis {
    parameter: String,
    label: String,
    values: FileValues,
    #[serde(default)]
    quick: Vec<u64>,
    #[serde(default)]
    names: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum FileValues {
    Listed(Vec<u64>),
    Word(String),
}

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTime {
    warm_up: Option<(u64, u64)>,
    cycles: Option<(u64, u64)>,
    milliseconds: Option<u64>,
    repetitions: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileContender {
    name: String,
    role: Role,
    program: String,
    #[serde(default)]
    with: BTreeMap<String, Word>,
    time: Option<FileTime>,
    needs: Option<Need>,
}

/// The longest name that a legend has room for.
const LONGEST_NAME: usize = 40;

/// Reads the file of a figure.
pub(super) fn figure(group: &str, name: &str, text: &str) -> Result<Figure, CatalogueError> {
    read(group, name, text).map_err(|what| CatalogueError::Wrong {
        figure: name.to_owned(),
        what,
    })
}

fn read(group: &str, name: &str, text: &str) -> Result<Figure, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let machine = match &*file.machine {
        "here" => Where::Here,
        name => {
            percolog_sim::machine::built_in(name).map_err(|error| error.to_string())?;
            Where::Simulated(name.to_owned())
        }
    };
    let time = time(file.time, &machine)?;
    let x = axis(file.x)?;
    let rows = file.rows.map(axis).transpose()?;
    require(
        rows.is_some() == (file.kind == Kind::Heat),
        "a heat map has `rows`, and nothing else does",
    )?;
    require(
        file.source.is_some() == file.differs.is_some(),
        "what is of a paper says what `differs`, and nothing else does",
    )?;
    require(
        file.source.is_some() || file.published.is_empty(),
        "what is `published` has a `source`",
    )?;
    require(
        x.values(1).first() == Some(&1) || x.parameter != "threads",
        "one thread is always shown",
    )?;
    require(
        file.kind != Kind::Table || !file.columns.is_empty(),
        "a table has `columns`",
    )?;
    let mut contenders = Vec::with_capacity(file.contenders.len());
    for found in file.contenders {
        require(
            found.name.chars().count() <= LONGEST_NAME,
            "a contender's name is too long for a legend",
        )?;
        require(
            !contenders
                .iter()
                .any(|known: &Contender| known.name == found.name),
            "two contenders have one name",
        )?;
        contenders.push(Contender {
            name: found.name,
            role: found.role,
            program: found.program,
            with: found.with,
            time: found
                .time
                .map(|own| self::time(own, &machine))
                .transpose()?,
            needs: found.needs,
        });
    }
    require(!contenders.is_empty(), "nobody is compared")?;
    for published in &file.published {
        require(!published.points.is_empty(), "nothing is published")?;
        let known = |name: &String| contenders.iter().any(|contender| contender.name == *name);
        let ours = [&published.contender, &published.saved_of];
        require(
            ours.into_iter().flatten().all(known),
            "what is published is compared with a contender that is not there",
        )?;
    }
    Ok(Figure {
        group: group.to_owned(),
        name: name.to_owned(),
        title: file.title,
        question: file.question,
        about: file.about,
        source: file.source,
        differs: file.differs,
        kind: file.kind,
        machine,
        parameters: file.parameters,
        columns: file.columns,
        x,
        rows,
        y: file.y,
        time,
        contenders,
        published: file.published,
        revision: file.revision,
    })
}

fn require(condition: bool, otherwise: &str) -> Result<(), String> {
    if condition {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn axis(file: FileAxis) -> Result<Axis, String> {
    let values = match file.values {
        FileValues::Listed(values) => {
            require(!values.is_empty(), "an axis has values")?;
            require(
                file.quick.iter().all(|quick| values.contains(quick)),
                "what is `quick` is among the `values`",
            )?;
            require(
                file.names.is_empty() || file.names.len() == values.len(),
                "all values have names, or none has",
            )?;
            AxisValues::Listed(values)
        }
        FileValues::Word(word) if word == "machine" && file.names.is_empty() => AxisValues::Machine,
        FileValues::Word(word) => {
            return Err(format!("`values = {word:?}`: a list, or \"machine\""));
        }
    };
    Ok(Axis {
        parameter: file.parameter,
        label: file.label,
        values,
        quick: file.quick,
        names: file.names,
    })
}

fn time(file: FileTime, machine: &Where) -> Result<TimeOf, String> {
    match (machine, file) {
        (
            Where::Here,
            FileTime {
                milliseconds: Some(milliseconds),
                repetitions: Some(repetitions @ 1..),
                warm_up: None,
                cycles: None,
            },
        ) => Ok(TimeOf::Wall {
            duration: Duration::from_millis(milliseconds),
            repetitions,
        }),
        (
            Where::Simulated(_),
            FileTime {
                warm_up: Some(warm_up),
                cycles: Some(counted),
                milliseconds: None,
                repetitions: None,
            },
        ) => Ok(TimeOf::Cycles { warm_up, counted }),
        (Where::Here, _) => Err("here, `time` has `milliseconds` and `repetitions`".to_owned()),
        _ => Err("on a simulated machine, `time` has `warm_up` and `cycles`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"
        title = "A figure"
        question = "Is it one?"
        about = "It is."
        kind = "curve"
        machine = "opteron-48"
        [x]
        parameter = "threads"
        label = "cores"
        values = [1, 48]
        [y]
        value = "rate"
        label = "operations a second"
        better = "more"
        [time]
        warm_up = [1, 2]
        cycles = [3, 4]
        [[contenders]]
        name = "Counter"
        role = "ours"
        program = "counters"
        with = { structure = "percolog", of = 3 }
        needs = { command = "memcached" }
    "#;

    #[test]
    fn a_file_that_makes_sense_is_a_figure() {
        let figure = figure("group", "name", RIGHT).expect("it is right");
        assert_eq!(figure.machine, Where::Simulated("opteron-48".to_owned()));
        assert_eq!(figure.contenders[0].with["of"].to_string(), "3");
        let needed = Need::Command("memcached".to_owned());
        assert_eq!(figure.contenders[0].needs, Some(needed));
        assert!(figure.answers_to("group") && figure.answers_to("name"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (find, replace, said) in [
            ("title", "titel", "unknown field"),
            ("opteron-48", "opteron-47", "opteron-47"),
            ("opteron-48", "here", "milliseconds"),
            ("[1, 48]", "[2, 48]", "one thread"),
            ("[1, 48]", "[]", "values"),
            ("\"curve\"", "\"heat\"", "rows"),
            ("\"curve\"", "\"table\"", "columns"),
            ("values = [1, 48]", "values = [1, 48]\nquick = [2]", "quick"),
            ("values = [1, 48]", "values = \"all\"", "machine"),
            ("kind", "differs = \"much\"\nkind", "differs"),
            ("command =", "library =", "library"),
        ] {
            let wrong = RIGHT.replace(find, replace);
            assert_ne!(wrong, RIGHT);
            let error = figure("group", "name", &wrong).expect_err(replace);
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
