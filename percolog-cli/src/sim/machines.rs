//! `percolog sim machines`: what can be simulated as it is.

use std::fmt::Write as _;

use percolog_sim::machine::{self, Description, Modelled};
use serde::Serialize;

use percolog_cli::failure::Failure;
use percolog_cli::format::wrap;
use percolog_cli::output::Output;

/// Arguments of `percolog sim machines`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print this machine's file, a start for your own, and what of it is modelled; or check the file that you name
    name: Option<String>,
}

/// A machine, for `--json`.
#[derive(Serialize)]
struct Listed {
    name: String,
    description: String,
    cores: usize,
    chips: usize,
    megahertz: u32,
    line_size: u64,
    source: Vec<String>,
    modelled: Vec<Modelled>,
}

impl Listed {
    fn new(name: &str, described: Description) -> Self {
        let machine = described.machine;
        Listed {
            name: name.to_owned(),
            description: described.description,
            cores: machine.cores,
            chips: machine.chips,
            megahertz: machine.megahertz,
            line_size: machine.line_size,
            source: described.source,
            modelled: machine::modelled(&machine),
        }
    }
}

/// What of a machine is modelled, as comments of its file.
fn comments(parts: &[Modelled]) -> String {
    let mut text = String::from("\n# What of this machine is modelled, and which field says so\n");
    for Modelled {
        part,
        field,
        is_modelled,
        how,
    } in parts
    {
        let mark = if *is_modelled { "yes" } else { "no" };
        let field = field.map_or(String::new(), |field| format!(" ({field})"));
        let _ = writeln!(text, "#   {mark:<4}{part}: {how}{field}");
    }
    text
}

/// Lists the machines, or prints one.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if let Some(name) = &arguments.name {
        let described = machine::load(name).map_err(|error| Failure::Input(error.to_string()))?;
        let text = machine::text(name);
        let machine = Listed::new(&described.machine.name.clone(), described);
        if output.is_json() {
            return output.data(&machine);
        }
        // A file of one's own is not printed back.
        output.write(text.unwrap_or_default())?;
        return output.write(&comments(&machine.modelled));
    }
    let mut machines = Vec::new();
    for name in machine::names() {
        // It can only fail if this very program is damaged.
        let described = machine::load(name).map_err(|error| Failure::Work(error.to_string()))?;
        machines.push(Listed::new(name, described));
    }
    if output.is_json() {
        return output.data(&machines);
    }
    for machine in machines {
        let heading = format!(
            "{:<12}{:>4} cores on {:>2} chips, {} MHz, lines of {} bytes",
            machine.name, machine.cores, machine.chips, machine.megahertz, machine.line_size
        );
        output.line(&heading)?;
        output.line(&wrap(&machine.description, "            "))?;
    }
    output.line("")?;
    output.line("`percolog sim machines NAME` prints a machine's file; `--machine FILE` takes one of your own,")?;
    output.line("and `--cores N` as many cores of a kind.")
}
