//! The file format.
//!
//! ```text
//! the front, 38 bytes:
//!   16 bytes   "percolog trace\r\n": a transfer that rewrites line ends breaks it at once
//!    2 bytes   version of the format
//!    4 bytes   length of the header
//!    4 bytes   CRC-32 of the header
//!    4 bytes   length of the table of files
//!    4 bytes   CRC-32 of the table of files
//!    4 bytes   CRC-32 of all bytes before
//! the header: JSON that describes itself and the records
//! the table of files: JSON, deflated
//! blocks of as many records as the header says, the last one of what is left, each:
//!    4 bytes   how many records
//!    4 bytes   length of the deflated records
//!    4 bytes   CRC-32 of the deflated records
//!    4 bytes   CRC-32 of the number of the block's first record (8 bytes, not in the file) and the 12 bytes before
//!              the deflated records, see `records`
//! ```
//! Numbers are least significant byte first. The file is exactly as long as its parts say, and a checksum
//! covers every byte, so no part can be changed, cut or extended unnoticed; each block has its own, so an
//! error says which records are lost. The header's counts say how many records there are.
//!
//! Nothing is reserved because a number in the file says so: memory grows with what has really been read. Since little can be
//! deflated that unfolds to much, there is a limit for each byte of the file, see [`Allowance`]: a file of `n` bytes takes up at most
//! about 64 MiB + 2 KiB × `n`. What is written keeps to it, if need be without deflating.

mod records;

use super::error::{Part, TraceError};
use super::event::{Counts, Event, File, Names};
use super::{Description, MAX_MAPPINGS};
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// What is wrong when the counts in the header do not fit the records.
pub(super) const COUNTS: &str = "it counts other events than there are";

pub(super) const MAGIC: &[u8; 16] = b"percolog trace\r\n";
const VERSION: u16 = 2;
const FRONT: usize = 16 + 2 + 4 + 4 + 4 + 4 + 4;
const BLOCK_HEAD: usize = 16;
/// How many records a block has.
const BLOCK: u32 = 8192;
/// How many one can have that is read.
const LARGEST_BLOCK: u32 = 1 << 16;
/// No table of files is longer, before it is deflated.
pub(super) const LONGEST_TABLE: u64 = 1 << 26;
/// There are no more events in a trace: a replay holds them all in memory.
pub(super) const MOST_EVENTS: u64 = 1 << 24;

/// What a file may unfold to. Recorded traces have a quarter to half an event for each byte, a fortieth of a file, and a table that is
/// seven times as long as it is deflated.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    events: u64,
    files: u64,
    table: u64,
    /// Mappings and copies of descriptors that the events amount to.
    pub(super) mappings: usize,
}

impl Allowance {
    /// Of a file of so many bytes.
    pub(super) fn of(bytes: usize) -> Allowance {
        let each = |least: u64, most: u64, per_byte: u64| {
            (bytes as u64)
                .saturating_mul(per_byte)
                .saturating_add(least)
                .min(most)
        };
        Allowance {
            events: each(1 << 16, MOST_EVENTS, 8),
            files: each(1 << 12, u64::from(u32::MAX), 1),
            table: each(1 << 20, LONGEST_TABLE, 64),
            mappings: each(1 << 16, MAX_MAPPINGS as u64, 8) as usize,
        }
    }
}

/// What a trace says of itself; the JSON at the front of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The format's name.
    pub format: String,
    /// The command, without the directories of the machine that ran it.
    pub command: String,
    /// What the command built or ran, with its version.
    pub package: String,
    /// The day of the recording, `YYYY-MM-DD`.
    pub recorded: String,
    /// The tool that recorded, with its version and options.
    pub recorder: String,
    /// The recording machine's page size in bytes.
    pub page_size: u64,
    /// How many tasks (processes and threads) there are.
    pub tasks: u32,
    /// How much is told of the files' paths.
    pub names: Names,
    /// How many lines of the recorder's output were not understood; what they said is missing.
    pub not_understood: u64,
    /// How many events of each kind there are.
    pub counts: Counts,
    /// How many records stand in a block; damage to one leaves the others readable.
    pub block: u32,
    /// The layout of the records, for people.
    pub schema: Vec<String>,
}

impl Header {
    /// The header of a trace of `events`.
    pub(super) fn new(description: Description, events: &[Event]) -> Header {
        let counts = Counts::of(events);
        // Both are counts of things in memory.
        let starts = counts.fork + counts.share + counts.thread;
        Header {
            format: "percolog trace: what processes map, open and name".to_owned(),
            command: description.command,
            package: description.package,
            recorded: description.recorded,
            recorder: description.recorder,
            page_size: description.page_size,
            tasks: u32::try_from(1 + starts).unwrap_or(u32::MAX),
            names: description.names,
            not_understood: description.not_understood,
            counts,
            block: BLOCK,
            schema: records::SCHEMA
                .iter()
                .map(|&line| line.to_owned())
                .collect(),
        }
    }
}

/// The bytes of a trace file. The events amount to so many mappings and copies of descriptors.
pub(super) fn encode(
    header: &Header,
    files: &[File],
    events: &[Event],
    amount: usize,
) -> Result<Vec<u8>, TraceError> {
    if events.len() as u64 > MOST_EVENTS {
        return Err(TraceError::TooManyEvents { most: MOST_EVENTS });
    }
    let failed = |cause: std::io::Error| TraceError::Header(format!("compression failed: {cause}"));
    let text = serde_json::to_vec(header).map_err(|cause| TraceError::Header(said(&cause)))?;
    let table = serde_json::to_vec(files).map_err(|cause| TraceError::Header(said(&cause)))?;
    if table.len() as u64 > LONGEST_TABLE {
        return Err(TraceError::Header(
            "the files' names take more than 64 MiB".to_owned(),
        ));
    }
    let blocks = records::encode(header.page_size, block_size(header)?, events)?;
    let deflated = file(&text, &table, &blocks, Compression::best()).map_err(failed)?;
    let allowed = Allowance::of(deflated.len());
    if events.len() as u64 <= allowed.events
        && files.len() as u64 <= allowed.files
        && table.len() as u64 <= allowed.table
        && amount <= allowed.mappings
    {
        return Ok(deflated);
    }
    // So much alike that nobody would read it; as it is, each event has at least three bytes.
    let plain = file(&text, &table, &blocks, Compression::none()).map_err(failed)?;
    match Allowance::of(plain.len()).mappings {
        most if amount > most => Err(TraceError::TooLarge { most }),
        _ => Ok(plain),
    }
}

/// How many records a block has, as the header says.
fn block_size(header: &Header) -> Result<u32, TraceError> {
    if (1..=LARGEST_BLOCK).contains(&header.block) {
        Ok(header.block)
    } else {
        Err(TraceError::Header(format!(
            "a block of {} records; from 1 to {LARGEST_BLOCK} are possible",
            header.block
        )))
    }
}

/// A file of a header, a table of files and blocks of records: how many, and what they are before they are
/// deflated.
fn file(
    header: &[u8],
    table: &[u8],
    blocks: &[(u32, Vec<u8>)],
    compression: Compression,
) -> std::io::Result<Vec<u8>> {
    let length = |bytes: &[u8]| {
        u32::try_from(bytes.len()).map_err(|_| std::io::Error::other("a part is longer than 4 GiB"))
    };
    let table = deflate(table, compression)?;
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&length(header)?.to_le_bytes());
    bytes.extend_from_slice(&checksum(header).to_le_bytes());
    bytes.extend_from_slice(&length(&table)?.to_le_bytes());
    bytes.extend_from_slice(&checksum(&table).to_le_bytes());
    bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend_from_slice(&table);
    let mut first = 0;
    for (count, plain) in blocks {
        let records = deflate(plain, compression)?;
        let mut head = count.to_le_bytes().to_vec();
        head.extend_from_slice(&length(&records)?.to_le_bytes());
        head.extend_from_slice(&checksum(&records).to_le_bytes());
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(&head_checksum(first, &head).to_le_bytes());
        bytes.extend_from_slice(&records);
        first += u64::from(*count);
    }
    Ok(bytes)
}

/// What JSON's reader says, which may quote anything from the file, as one line that is not too long.
fn said(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// A fuzzer gets through no checksum and no compression, so what it tests has neither.
const BARE: bool = cfg!(fuzzing);

fn checksum(bytes: &[u8]) -> u32 {
    if BARE { 0 } else { crc32fast::hash(bytes) }
}

/// The checksum of a block's head; it holds for the block's place, too, so that none can take another's.
fn head_checksum(first: u64, head: &[u8]) -> u32 {
    checksum(&[&first.to_le_bytes(), head].concat())
}

fn deflate(plain: &[u8], compression: Compression) -> std::io::Result<Vec<u8>> {
    if BARE {
        return Ok(plain.to_vec());
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), compression);
    encoder.write_all(plain)?;
    encoder.finish()
}

/// Unfolds `bytes`, all of them, to at most `most` bytes; `None` when that cannot be.
fn inflate(bytes: &[u8], most: u64) -> Option<Vec<u8>> {
    let mut plain = Vec::new();
    if BARE {
        plain.extend_from_slice(bytes);
        return (plain.len() as u64 <= most).then_some(plain);
    }
    let mut decoder = DeflateDecoder::new(bytes).take(most.saturating_add(1));
    decoder.read_to_end(&mut plain).ok()?;
    let whole = decoder.into_inner().total_in() == bytes.len() as u64;
    (whole && plain.len() as u64 <= most).then_some(plain)
}

/// Takes the next `length` bytes; `part` is what they are of.
fn take<'b>(input: &mut &'b [u8], length: usize, part: Part) -> Result<&'b [u8], TraceError> {
    let (taken, rest) = input
        .split_at_checked(length)
        .ok_or(TraceError::Truncated { part })?;
    *input = rest;
    Ok(taken)
}

/// Takes the next four bytes of a head whose length has been checked.
fn number(head: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&head[at..at + 4]);
    u32::from_le_bytes(bytes)
}

/// The header, the files and the events of a trace file's bytes. The events are sound as numbers; what they
/// mean together is for `validate`.
pub(super) fn decode(bytes: &[u8]) -> Result<(Header, Vec<File>, Vec<Event>), TraceError> {
    let common = bytes.len().min(MAGIC.len());
    if bytes[..common] != MAGIC[..common] {
        return Err(TraceError::NotATrace);
    }
    // The version comes first: another one may lay out everything that follows differently.
    if let Some(&[low, high]) = bytes.get(16..18) {
        let version = u16::from_le_bytes([low, high]);
        if version != VERSION {
            return Err(TraceError::Version {
                found: version,
                known: VERSION,
            });
        }
    }
    let allowed = Allowance::of(bytes.len());
    let mut input = bytes;
    let front = take(&mut input, FRONT, Part::Front)?;
    if number(front, FRONT - 4) != checksum(&front[..FRONT - 4]) {
        return Err(TraceError::Damaged { part: Part::Front });
    }
    let header = checked(
        &mut input,
        number(front, 18),
        number(front, 22),
        Part::Header,
    )?;
    let header: Header =
        serde_json::from_slice(header).map_err(|cause| TraceError::Header(said(&cause)))?;
    let table = checked(
        &mut input,
        number(front, 26),
        number(front, 30),
        Part::Files,
    )?;
    let table = inflate(table, allowed.table)
        .ok_or_else(|| TraceError::Header("the table of files cannot be unpacked".to_owned()))?;
    let files: Vec<File> = serde_json::from_slice(&table)
        .map_err(|cause| TraceError::Header(format!("the table of files: {}", said(&cause))))?;
    if files.len() as u64 > allowed.files {
        return Err(TraceError::Header(format!(
            "it lists more than {} files, the most for its length",
            allowed.files
        )));
    }
    let events = decode_blocks(&header, allowed.events, &mut input)?;
    if input.is_empty() {
        Ok((header, files, events))
    } else {
        Err(TraceError::Trailing {
            extra: input.len() as u64,
        })
    }
}

/// Takes a part and compares its checksum.
fn checked<'b>(
    input: &mut &'b [u8],
    length: u32,
    stored: u32,
    part: Part,
) -> Result<&'b [u8], TraceError> {
    let taken = take(input, length as usize, part)?;
    if checksum(taken) == stored {
        Ok(taken)
    } else {
        Err(TraceError::Damaged { part })
    }
}

fn decode_blocks(header: &Header, most: u64, input: &mut &[u8]) -> Result<Vec<Event>, TraceError> {
    let total = header
        .counts
        .total()
        .ok_or(TraceError::Inconsistent(COUNTS))?;
    if total > most {
        return Err(TraceError::TooManyEvents { most });
    }
    let block = u64::from(block_size(header)?);
    let mut decoder = records::Decoder::new(header.page_size)?;
    let mut events = Vec::new();
    while (events.len() as u64) < total {
        let first = events.len() as u64;
        let count = (total - first).min(block);
        let part = Part::Records {
            first,
            last: first + count - 1,
        };
        let head = take(input, BLOCK_HEAD, part)?;
        if number(head, 12) != head_checksum(first, &head[..12]) {
            return Err(TraceError::Damaged { part });
        }
        let deflated = checked(input, number(head, 4), number(head, 8), part)?;
        if u64::from(number(head, 0)) != count {
            return Err(TraceError::Inconsistent(COUNTS));
        }
        let plain = inflate(deflated, count * records::LONGEST).ok_or(TraceError::Malformed {
            event: first,
            problem: "the block that begins here cannot be unpacked",
        })?;
        decoder.block(&plain, count as usize, &mut events)?;
    }
    Ok(events)
}

#[cfg(test)]
mod tests;
