//! `lab-server KIND CONNECTIONS`: the server that a cell measures with memcached's protocol; ends when its standard input is closed.

use std::process::ExitCode;

use percolog_cells::{ProgramError, memcached};
use percolog_cli::failure::Failure;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match memcached::run_server(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ ProgramError::Failed(_)) => {
            Failure::Work(error.to_string()).report("lab-server")
        }
        Err(error) => Failure::Input(error.to_string()).report("lab-server"),
    }
}
