//! The rules that every trace keeps, whoever wrote it.

use super::error::TraceError;
use super::event::{Action, Counts, Event};
use super::format::{COUNTS, Header};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unborn,
    Alive,
    Ended,
}

/// Checks what the replay relies on; see [`Trace`](super::Trace) for the rules.
pub(super) fn validate(header: &Header, events: &[Event]) -> Result<(), TraceError> {
    if header.counts != Counts::of(events) {
        return Err(TraceError::Inconsistent(COUNTS));
    }
    // Each process but the first costs a fork, so this bounds the table below by the events.
    if u64::from(header.processes) != 1 + header.counts.fork + header.counts.share {
        return Err(TraceError::Inconsistent(
            "it counts other processes than there are",
        ));
    }
    if !header.page_size.is_power_of_two() {
        return Err(TraceError::Header(
            "the page size is no power of two".to_owned(),
        ));
    }
    let mut lives = vec![Life::Unborn; header.processes as usize];
    lives[0] = Life::Alive;
    let mut time = 0;
    for (number, event) in events.iter().enumerate() {
        check(header, &mut lives, time, event).map_err(|problem| TraceError::Malformed {
            event: number as u64,
            problem,
        })?;
        time = event.time;
    }
    if lives.iter().any(|&life| life != Life::Ended) {
        return Err(TraceError::Inconsistent("a process has not ended"));
    }
    Ok(())
}

fn check(
    header: &Header,
    lives: &mut [Life],
    time: u64,
    event: &Event,
) -> Result<(), &'static str> {
    if event.time < time {
        return Err("time goes back");
    }
    match lives.get(event.process as usize) {
        Some(Life::Alive) => {}
        Some(Life::Ended) => return Err("a process acts after its end"),
        Some(Life::Unborn) | None => return Err("a process that nobody started"),
    }
    let known = |file: u32| -> Result<(), &'static str> {
        if (file as usize) < header.files.len() {
            Ok(())
        } else {
            Err("a file that does not exist")
        }
    };
    let range = |start: u64, length: u64| -> Result<(), &'static str> {
        if length == 0 {
            return Err("an empty range");
        }
        if !start.is_multiple_of(header.page_size) || !length.is_multiple_of(header.page_size) {
            return Err("a mapping is not in whole pages");
        }
        match start.checked_add(length) {
            Some(_) => Ok(()),
            None => Err("a range passes the end of 64 bits"),
        }
    };
    match event.action {
        Action::Map {
            address,
            length,
            file,
            offset,
        } => {
            known(file)?;
            range(address, length)?;
            range(offset, length)
        }
        Action::Unmap { address, length } => range(address, length),
        Action::Fork { child, .. } => match lives.get_mut(child as usize) {
            Some(life) if *life == Life::Unborn => {
                *life = Life::Alive;
                Ok(())
            }
            Some(_) => Err("a process is started twice"),
            None => Err("a process beyond the number of processes"),
        },
        Action::Exec { program } => match program {
            Some((file, length)) => {
                known(file)?;
                range(0, length)
            }
            None => Ok(()),
        },
        Action::Exit => {
            lives[event.process as usize] = Life::Ended;
            Ok(())
        }
        Action::Truncate { file, length } => {
            known(file)?;
            if length.checked_next_multiple_of(header.page_size).is_none() {
                return Err("a file longer than 64 bits hold");
            }
            Ok(())
        }
    }
}
