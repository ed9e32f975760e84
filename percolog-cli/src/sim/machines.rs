//! `percolog sim machines`: what can be simulated as it is.

use percolog_sim::machine;
use serde::Serialize;

use percolog_cli::failure::Failure;
use percolog_cli::format::wrap;
use percolog_cli::output::Output;

/// Arguments of `percolog sim machines`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Print this machine's file: a start for your own
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
}

/// Lists the machines, or prints one.
pub(super) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if let Some(name) = &arguments.name {
        let Some(text) = machine::text(name) else {
            let names: Vec<&str> = machine::names().collect();
            return Err(Failure::Input(format!(
                "there is no machine {name:?}; there are {}",
                names.join(", ")
            )));
        };
        return output.write(text);
    }
    let mut machines = Vec::new();
    for name in machine::names() {
        // It can only fail if this very program is damaged.
        let described = machine::load(name).map_err(|error| Failure::Work(error.to_string()))?;
        machines.push(Listed {
            name: name.to_owned(),
            description: described.description,
            cores: described.machine.cores,
            chips: described.machine.chips,
            megahertz: described.machine.megahertz,
            line_size: described.machine.line_size,
            source: described.source,
        });
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
