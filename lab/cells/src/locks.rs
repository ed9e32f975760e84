//! A serial section under a lock, and what pencil and paper say about it: the appendix of the OpLog thesis.

use percolog_validation::clock::Stopwatch;
use percolog_validation::closed::{self, Reading, TicketLock};
use percolog_validation::locks::{self, LockKind};

use super::{Given, Program, ProgramError, Values};

pub(super) const PROGRAMS: [Program; 3] = [
    Program {
        name: "serial-section",
        about: "every thread holds a lock for `section` of every `total` cycles",
        run: serial_section,
    },
    Program {
        name: "ticket-lock-formula",
        about: "the thesis' Markov model of the same with a ticket lock: nothing is run",
        run: ticket_lock_formula,
    },
    Program {
        name: "amdahl-formula",
        about: "Amdahl's law of the same: nothing is run",
        run: amdahl_formula,
    },
];

/// What all of them say.
const SPEEDUP: &str = "speedup";

/// Cycles of the serial section, and of everything.
fn cycles(given: &mut Given) -> Result<(u64, u64), ProgramError> {
    let section = given.number("section", 1..=1 << 30)?;
    Ok((section, given.number("total", section..=1 << 30)?))
}

/// `speedup` is against `total` cycles, which are what one thread alone is to take.
fn serial_section(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice(
        "lock",
        &[("ticket", LockKind::Ticket), ("mcs", LockKind::Mcs)],
    )?;
    let (section, total) = cycles(given)?;
    let shift = given.shift();
    let time = Stopwatch::start();
    let work = locks::run(shift, kind, section, total).map_err(ProgramError::failed)?;
    let speedup = total as f64 * shift.threads as f64 / work.cycles_per_operation();
    Ok(Values::of_work(&work, time.nanoseconds_of_a_cycle()).with(SPEEDUP, speedup))
}

/// `response` are the cycles in which the lock's home answers one request for its line.
fn ticket_lock_formula(given: &mut Given) -> Result<Values, ProgramError> {
    let (section, total) = cycles(given)?;
    let lock = TicketLock {
        between: (total - section).max(1) as f64,
        section: section as f64,
        response: given.number("response", 1..=1 << 20)? as f64,
    };
    let reading = given.choice_or_first(
        "reading",
        &[("printed", Reading::Printed), ("text", Reading::Text)],
    )?;
    let speedup = lock.speedup(given.threads as u32, reading);
    Ok(calculated(speedup))
}

fn amdahl_formula(given: &mut Given) -> Result<Values, ProgramError> {
    let (section, total) = cycles(given)?;
    let speedup = closed::amdahl(given.threads as u32, section as f64 / total as f64);
    Ok(calculated(speedup))
}

/// A number that nobody has measured. A simulator that looks at the process is shown one operation of nothing.
fn calculated(speedup: f64) -> Values {
    percolog_roi::core(0);
    percolog_roi::begin();
    percolog_roi::end(1);
    Values::default().with(SPEEDUP, speedup)
}
