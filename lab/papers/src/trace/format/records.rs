//! The records of a block, before they are deflated: by column, because numbers of one meaning resemble each
//! other.
//!
//! A block begins with the lengths of its columns in bytes; the columns follow. Nothing is remembered from
//! one block to the next but the time, so what one block has lost is lost in no other.

use crate::trace::error::TraceError;
use crate::trace::event::{Action, Backing, Event, Shares};
use crate::trace::varint;
use std::collections::HashMap;

/// The layout, for people who read the header.
pub(super) const SCHEMA: [&str; 12] = [
    "records are in blocks, each deflated by itself; a block: the lengths of its 9 columns, then the columns; all numbers of variable length",
    "the columns: 0 kind, 1 microseconds since the record before, 2 task, 3 address, 4 length, 5 file, 6 offset, 7 descriptor, 8 other",
    "task: difference from the record before; file: difference from the task's last one",
    "address: in pages, difference from the end of the last one of its task; length and offset in pages; differences are zigzag",
    "kind 0 map file: address, length, file, offset; 1 map memory: address, length; 2 unmap: address, length",
    "3 break: other = difference in bytes from the task's last one",
    "4 to 11 fork: other = child, as difference from the last one; kind is 4, +1 with shared memory, +2 with shared descriptors, +4 as a thread",
    "12 exec: file of the program, length; 13 exec of a program that is not known; 14 exit",
    "15 truncate: file, other = new length in bytes",
    "16 open: file, descriptor; 17 the same, closed on exec; 18 close: descriptor",
    "19 duplicate: descriptor (from), descriptor (to); 20 the same, closed on exec; 21 inherit: descriptor; 22 the same, closed on exec",
    "23 stat: file; 24 create: file; 25 rename: file (from), file (to); 26 unlink: file",
];

const KIND: usize = 0;
const TIME: usize = 1;
const TASK: usize = 2;
const ADDRESS: usize = 3;
const LENGTH: usize = 4;
const FILE: usize = 5;
const OFFSET: usize = 6;
const DESCRIPTOR: usize = 7;
const OTHER: usize = 8;
const COLUMNS: usize = 9;

/// No record is longer, its part in the lengths of the columns included: seven numbers of ten bytes, and those
/// lengths are shorter than what is then over.
pub(super) const LONGEST: u64 = 80 + COLUMNS as u64 * 10;

/// What both sides remember from record to record of a block.
#[derive(Default)]
struct Memory {
    task: u32,
    child: u32,
    tasks: HashMap<u32, TaskMemory>,
}

/// What was last said of a task.
#[derive(Default)]
struct TaskMemory {
    /// The end of a range, in pages.
    address: u64,
    heap: u64,
    file: u32,
}

fn page_size(page: u64) -> Result<u64, TraceError> {
    if page.is_power_of_two() {
        Ok(page)
    } else {
        Err(TraceError::Header(
            "the page size is no power of two".to_owned(),
        ))
    }
}

/// Blocks of records: how many there are in each, and its bytes.
pub(super) type Blocks = Vec<(u32, Vec<u8>)>;

/// The blocks of `block_size` records that `events` make.
pub(super) fn encode(page: u64, block_size: u32, events: &[Event]) -> Result<Blocks, TraceError> {
    let block_size = block_size as usize;
    let page = page_size(page)?;
    let mut time = 0;
    let mut blocks = Vec::new();
    for (number, block) in events.chunks(block_size).enumerate() {
        let mut columns: [Vec<u8>; COLUMNS] = Default::default();
        let mut memory = Memory::default();
        for (position, event) in block.iter().enumerate() {
            let malformed = |problem| TraceError::Malformed {
                event: (number * block_size + position) as u64,
                problem,
            };
            let elapsed = event
                .time
                .checked_sub(time)
                .ok_or_else(|| malformed("time goes back"))?;
            time = event.time;
            varint::write(&mut columns[TIME], elapsed);
            encode_event(page, &mut memory, &mut columns, event).map_err(malformed)?;
        }
        let mut plain = Vec::new();
        for column in &columns {
            varint::write(&mut plain, column.len() as u64);
        }
        for column in &columns {
            plain.extend_from_slice(column);
        }
        // No more than the block's size, which has 32 bits.
        blocks.push((block.len() as u32, plain));
    }
    Ok(blocks)
}

/// Writes `value` as the difference from `last`.
fn write_difference(column: &mut Vec<u8>, value: u64, last: u64) {
    varint::write(column, varint::from_signed(value.wrapping_sub(last) as i64));
}

fn encode_event(
    page: u64,
    memory: &mut Memory,
    columns: &mut [Vec<u8>; COLUMNS],
    event: &Event,
) -> Result<(), &'static str> {
    let pages = |bytes: u64| -> Result<u64, &'static str> {
        if bytes.is_multiple_of(page) {
            Ok(bytes / page)
        } else {
            Err("a mapping is not in whole pages")
        }
    };
    write_difference(
        &mut columns[TASK],
        u64::from(event.task),
        u64::from(memory.task),
    );
    memory.task = event.task;
    let task = memory.tasks.entry(event.task).or_default();
    let mut file = |columns: &mut [Vec<u8>; COLUMNS], file: u32| {
        write_difference(&mut columns[FILE], u64::from(file), u64::from(task.file));
        task.file = file;
    };
    let kind = match event.action {
        Action::Map {
            backing: Backing::File(number),
            offset,
            ..
        } => {
            file(columns, number);
            varint::write(&mut columns[OFFSET], pages(offset)?);
            0
        }
        Action::Map {
            backing: Backing::Memory,
            offset,
            ..
        } => {
            if offset != 0 {
                return Err("memory has no offset");
            }
            1
        }
        Action::Unmap { .. } => 2,
        Action::Break { end } => {
            write_difference(&mut columns[OTHER], end, task.heap);
            task.heap = end;
            3
        }
        Action::Fork { child, shares } => {
            write_difference(
                &mut columns[OTHER],
                u64::from(child),
                u64::from(memory.child),
            );
            memory.child = child;
            4 + u8::from(shares.memory)
                + 2 * u8::from(shares.descriptors)
                + 4 * u8::from(shares.process)
        }
        Action::Exec {
            program: Some((program, length)),
        } => {
            file(columns, program);
            varint::write(&mut columns[LENGTH], pages(length)?);
            12
        }
        Action::Exec { program: None } => 13,
        Action::Exit => 14,
        Action::Truncate {
            file: number,
            length,
        } => {
            file(columns, number);
            varint::write(&mut columns[OTHER], length);
            15
        }
        Action::Open {
            file: number,
            descriptor,
            close_on_exec,
        } => {
            file(columns, number);
            varint::write(&mut columns[DESCRIPTOR], u64::from(descriptor));
            16 + u8::from(close_on_exec)
        }
        Action::Close { descriptor } => {
            varint::write(&mut columns[DESCRIPTOR], u64::from(descriptor));
            18
        }
        Action::Duplicate {
            from,
            to,
            close_on_exec,
        } => {
            varint::write(&mut columns[DESCRIPTOR], u64::from(from));
            varint::write(&mut columns[DESCRIPTOR], u64::from(to));
            19 + u8::from(close_on_exec)
        }
        Action::Inherit {
            descriptor,
            close_on_exec,
        } => {
            varint::write(&mut columns[DESCRIPTOR], u64::from(descriptor));
            21 + u8::from(close_on_exec)
        }
        Action::Stat { file: number } => {
            file(columns, number);
            23
        }
        Action::Create { file: number } => {
            file(columns, number);
            24
        }
        Action::Rename { from, to } => {
            file(columns, from);
            file(columns, to);
            25
        }
        Action::Unlink { file: number } => {
            file(columns, number);
            26
        }
    };
    if let Action::Map {
        address, length, ..
    }
    | Action::Unmap { address, length } = event.action
    {
        let (address, length) = (pages(address)?, pages(length)?);
        write_difference(&mut columns[ADDRESS], address, task.address);
        varint::write(&mut columns[LENGTH], length);
        task.address = address.wrapping_add(length);
    }
    columns[KIND].push(kind);
    Ok(())
}

/// Reads block after block.
pub(super) struct Decoder {
    page: u64,
    time: u64,
}

const CUT: &str = "the record is cut short";
const LARGE: &str = "a number is too large";

impl Decoder {
    pub(super) fn new(page: u64) -> Result<Decoder, TraceError> {
        let page = page_size(page)?;
        Ok(Decoder { page, time: 0 })
    }

    /// Adds the `count` records of a block to `events`.
    pub(super) fn block(
        &mut self,
        mut plain: &[u8],
        count: usize,
        events: &mut Vec<Event>,
    ) -> Result<(), TraceError> {
        let first = events.len() as u64;
        let malformed = |event, problem| TraceError::Malformed { event, problem };
        let columns = columns(&mut plain).ok_or_else(|| {
            malformed(
                first,
                "the columns of the block that begins here do not fill it",
            )
        })?;
        let mut columns = Columns {
            columns,
            page: self.page,
        };
        if columns.columns[KIND].len() != count {
            return Err(malformed(
                first,
                "the block that begins here has not as many records as it says",
            ));
        }
        events.reserve(count);
        let mut memory = Memory::default();
        for event in first..first + count as u64 {
            let time = columns
                .number(TIME)
                .and_then(|elapsed| self.time.checked_add(elapsed).ok_or(LARGE))
                .map_err(|problem| malformed(event, problem))?;
            self.time = time;
            let (task, action) = decode_event(&mut memory, &mut columns)
                .map_err(|problem| malformed(event, problem))?;
            events.push(Event { time, task, action });
        }
        if columns.columns.iter().all(|column| column.is_empty()) {
            Ok(())
        } else {
            Err(malformed(
                first + count as u64 - 1,
                "more follows the last record of its block",
            ))
        }
    }
}

/// Takes a block apart; `None` when its columns do not fill it exactly.
fn columns<'b>(plain: &mut &'b [u8]) -> Option<[&'b [u8]; COLUMNS]> {
    let mut lengths = [0; COLUMNS];
    for length in &mut lengths {
        *length = usize::try_from(varint::read(plain)?).ok()?;
    }
    let mut columns = [&plain[..0]; COLUMNS];
    for (column, length) in columns.iter_mut().zip(lengths) {
        (*column, *plain) = plain.split_at_checked(length)?;
    }
    plain.is_empty().then_some(columns)
}

/// What is left of each column.
struct Columns<'b> {
    columns: [&'b [u8]; COLUMNS],
    page: u64,
}

impl Columns<'_> {
    fn number(&mut self, column: usize) -> Result<u64, &'static str> {
        varint::read(&mut self.columns[column]).ok_or(CUT)
    }

    fn small(&mut self, column: usize) -> Result<u32, &'static str> {
        u32::try_from(self.number(column)?).map_err(|_| LARGE)
    }

    /// A number of bytes that is written in pages.
    fn pages(&mut self, column: usize) -> Result<u64, &'static str> {
        self.number(column)?.checked_mul(self.page).ok_or(LARGE)
    }

    /// A number that is written as the difference from `last`.
    fn difference(&mut self, column: usize, last: u64) -> Result<u64, &'static str> {
        Ok(last.wrapping_add(varint::to_signed(self.number(column)?) as u64))
    }

    fn small_difference(&mut self, column: usize, last: u32) -> Result<u32, &'static str> {
        u32::try_from(self.difference(column, u64::from(last))?).map_err(|_| LARGE)
    }
}

fn decode_event(
    memory: &mut Memory,
    columns: &mut Columns<'_>,
) -> Result<(u32, Action), &'static str> {
    let (&kind, rest) = columns.columns[KIND].split_first().ok_or(CUT)?;
    columns.columns[KIND] = rest;
    let number = columns.small_difference(TASK, memory.task)?;
    memory.task = number;
    let task = memory.tasks.entry(number).or_default();
    let mut file = |columns: &mut Columns<'_>| -> Result<u32, &'static str> {
        task.file = columns.small_difference(FILE, task.file)?;
        Ok(task.file)
    };
    let action = match kind {
        0..=2 => {
            let backing = match kind {
                0 => Backing::File(file(columns)?),
                _ => Backing::Memory,
            };
            let offset = match kind {
                0 => columns.pages(OFFSET)?,
                _ => 0,
            };
            let first = columns.difference(ADDRESS, task.address)?;
            let count = columns.number(LENGTH)?;
            task.address = first.wrapping_add(count);
            let address = first.checked_mul(columns.page).ok_or(LARGE)?;
            let length = count.checked_mul(columns.page).ok_or(LARGE)?;
            match kind {
                2 => Action::Unmap { address, length },
                _ => Action::Map {
                    address,
                    length,
                    backing,
                    offset,
                },
            }
        }
        3 => {
            task.heap = columns.difference(OTHER, task.heap)?;
            Action::Break { end: task.heap }
        }
        4..=11 => {
            memory.child = columns.small_difference(OTHER, memory.child)?;
            Action::Fork {
                child: memory.child,
                shares: Shares {
                    memory: (kind - 4) & 1 != 0,
                    descriptors: (kind - 4) & 2 != 0,
                    process: (kind - 4) & 4 != 0,
                },
            }
        }
        12 => Action::Exec {
            program: Some((file(columns)?, columns.pages(LENGTH)?)),
        },
        13 => Action::Exec { program: None },
        14 => Action::Exit,
        15 => Action::Truncate {
            file: file(columns)?,
            length: columns.number(OTHER)?,
        },
        16 | 17 => Action::Open {
            file: file(columns)?,
            descriptor: columns.small(DESCRIPTOR)?,
            close_on_exec: kind == 17,
        },
        18 => Action::Close {
            descriptor: columns.small(DESCRIPTOR)?,
        },
        19 | 20 => Action::Duplicate {
            from: columns.small(DESCRIPTOR)?,
            to: columns.small(DESCRIPTOR)?,
            close_on_exec: kind == 20,
        },
        21 | 22 => Action::Inherit {
            descriptor: columns.small(DESCRIPTOR)?,
            close_on_exec: kind == 22,
        },
        23 => Action::Stat {
            file: file(columns)?,
        },
        24 => Action::Create {
            file: file(columns)?,
        },
        25 => Action::Rename {
            from: file(columns)?,
            to: file(columns)?,
        },
        26 => Action::Unlink {
            file: file(columns)?,
        },
        _ => return Err("a kind of event that is not known"),
    };
    Ok((number, action))
}
