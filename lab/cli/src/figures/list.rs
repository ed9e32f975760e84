//! `lab figures list`: what there is.

use percolog_figures::catalogue::{self, Where};
use percolog_figures::run::{Size, places};
use percolog_figures::store::Host;
use serde::Serialize;

use super::wrong::wrong_name;
use percolog_cli::failure::Failure;
use percolog_cli::format::left;
use percolog_cli::output::Output;

/// A figure, for programs.
#[derive(Serialize)]
struct Listed {
    group: String,
    name: String,
    title: String,
    question: String,
    source: Option<String>,
    machine: String,
    cells: usize,
    quick_cells: usize,
}

/// Lists all figures, by group.
pub(crate) fn run(output: &mut Output) -> Result<(), Failure> {
    let processors = Host::describe().processors;
    let figures = catalogue::all().map_err(wrong_name)?;
    let listed: Vec<Listed> = figures
        .iter()
        .map(|figure| Listed {
            group: figure.group.clone(),
            name: figure.name.clone(),
            title: figure.title.clone(),
            question: figure.question.clone(),
            source: figure.source.as_ref().map(ToString::to_string),
            machine: figure.machine.to_string(),
            cells: places(figure, Size::Full, processors).len(),
            quick_cells: places(figure, Size::Quick, processors).len(),
        })
        .collect();
    if output.is_json() {
        return output.data(&listed);
    }
    let mut group = "";
    for (figure, one) in figures.iter().zip(&listed) {
        if group != one.group {
            if !group.is_empty() {
                output.line("")?;
            }
            group = &one.group;
            let heading = output.strong(group);
            output.line(&heading)?;
        }
        let machine = match &figure.machine {
            Where::Here => "measured",
            Where::Simulated(machine) => machine,
        };
        let name = left(&one.name, 28);
        let mut title = one.title.clone();
        if title.chars().count() > 54 {
            title = title.chars().take(53).collect();
            title.push('…');
        }
        output.line(&format!("  {name}{}{machine}", left(&title, 56)))?;
    }
    output.line("")?;
    output.line("`lab figures run NAME` makes one, or a group; `run --quick` a quick look at all.")
}
