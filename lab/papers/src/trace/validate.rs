//! The rules that every trace keeps, whoever wrote it.

use super::error::TraceError;
use super::event::{Action, Backing, Counts, Event};
use super::format::{COUNTS, Header};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Unborn,
    Alive,
    Ended,
}

/// Checks what the replay relies on; see [`Trace`](super::Trace) for the rules.
pub(super) fn validate(header: &Header, files: usize, events: &[Event]) -> Result<(), TraceError> {
    if header.counts != Counts::of(events) {
        return Err(TraceError::Inconsistent(COUNTS));
    }
    // Each task but the first costs a fork, so this bounds the table below by the events.
    if header
        .counts
        .starts()
        .and_then(|starts| starts.checked_add(1))
        != Some(u64::from(header.tasks))
    {
        return Err(TraceError::Inconsistent(
            "it counts other tasks than there are",
        ));
    }
    if !header.page_size.is_power_of_two() {
        return Err(TraceError::Header(
            "the page size is no power of two".to_owned(),
        ));
    }
    let mut lives = vec![Life::Unborn; header.tasks as usize];
    lives[0] = Life::Alive;
    let mut time = 0;
    for (number, event) in events.iter().enumerate() {
        check(header.page_size, files, &mut lives, time, event).map_err(|problem| {
            TraceError::Malformed {
                event: number as u64,
                problem,
            }
        })?;
        time = event.time;
    }
    if lives.iter().any(|&life| life != Life::Ended) {
        return Err(TraceError::Inconsistent("a task has not ended"));
    }
    Ok(())
}

fn check(
    page: u64,
    files: usize,
    lives: &mut [Life],
    time: u64,
    event: &Event,
) -> Result<(), &'static str> {
    if event.time < time {
        return Err("time goes back");
    }
    match lives.get(event.task as usize) {
        Some(Life::Alive) => {}
        Some(Life::Ended) => return Err("a task acts after its end"),
        Some(Life::Unborn) | None => return Err("a task that nobody started"),
    }
    let known = |file: u32| -> Result<(), &'static str> {
        if (file as usize) < files {
            Ok(())
        } else {
            Err("a file that does not exist")
        }
    };
    let range = |start: u64, length: u64| -> Result<(), &'static str> {
        if length == 0 {
            return Err("an empty range");
        }
        if !start.is_multiple_of(page) || !length.is_multiple_of(page) {
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
            backing,
            offset,
        } => {
            match backing {
                Backing::File(file) => known(file)?,
                Backing::Memory if offset == 0 => {}
                Backing::Memory => return Err("memory has no offset"),
            }
            range(address, length)?;
            range(offset, length)
        }
        Action::Unmap { address, length } => range(address, length),
        Action::Fork { shares, .. } if shares.process && !shares.memory => {
            Err("a thread with memory of its own")
        }
        Action::Fork { child, .. } => match lives.get_mut(child as usize) {
            Some(life) if *life == Life::Unborn => {
                *life = Life::Alive;
                Ok(())
            }
            Some(_) => Err("a task is started twice"),
            None => Err("a task beyond the number of tasks"),
        },
        Action::Exec { program } => match program {
            Some((file, length)) => {
                known(file)?;
                range(0, length)
            }
            None => Ok(()),
        },
        Action::Exit => {
            lives[event.task as usize] = Life::Ended;
            Ok(())
        }
        Action::Truncate { file, length } => {
            known(file)?;
            if length.checked_next_multiple_of(page).is_none() {
                return Err("a file longer than 64 bits hold");
            }
            Ok(())
        }
        Action::Open { file, .. }
        | Action::Stat { file }
        | Action::Create { file }
        | Action::Unlink { file } => known(file),
        Action::Rename { from, to } => {
            known(from)?;
            known(to)
        }
        Action::Break { .. }
        | Action::Close { .. }
        | Action::Duplicate { .. }
        | Action::Inherit { .. } => Ok(()),
    }
}
