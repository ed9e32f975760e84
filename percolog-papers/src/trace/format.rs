//! The file format.
//!
//! ```text
//! 16 bytes   "percolog trace\r\n": a transfer that rewrites line ends breaks it at once
//!  2 bytes   version of the format
//!  4 bytes   length of the header
//!  8 bytes   length of the compressed records
//!            the header: JSON that describes itself and the records
//!            the records: gzip of variable-length numbers
//!  4 bytes   CRC-32 of every byte before
//! ```
//! Numbers are least significant byte first. The file is exactly as long as its parts say, and the
//! checksum covers all of it, so no part can be changed, cut or extended unnoticed.
//!
//! A record is the event's kind (a byte), microseconds since the event before, the process, and the
//! fields of the kind. Addresses and offsets count in units of the page size where that loses nothing,
//! addresses as the difference from the process's last one.

use super::error::TraceError;
use super::event::{Action, Counts, Event, File};
use super::{Description, varint};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};

/// What is wrong when the counts in the header do not fit the records.
pub(super) const COUNTS: &str = "it counts other events than there are";

const MAGIC: &[u8; 16] = b"percolog trace\r\n";
const VERSION: u16 = 1;
const PREFIX: usize = 16 + 2 + 4 + 8;
const CHECKSUM: usize = 4;
/// No record is longer: a kind and six numbers of ten bytes.
const LONGEST_RECORD: u64 = 61;
/// None is shorter: a kind, a time, a process.
const SHORTEST_RECORD: u64 = 3;

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
    /// How many processes (and threads) there are.
    pub processes: u32,
    /// How many events of each kind there are.
    pub counts: Counts,
    /// The layout of the records, for people.
    pub schema: Vec<String>,
    /// The files, by number.
    pub files: Vec<File>,
}

impl Header {
    /// The header of a trace of `events` over `files`.
    pub(super) fn new(description: Description, files: Vec<File>, events: &[Event]) -> Header {
        let children = events
            .iter()
            .filter(|event| matches!(event.action, Action::Fork { .. }));
        Header {
            format: "percolog trace: file mappings of processes".to_owned(),
            command: description.command,
            package: description.package,
            recorded: description.recorded,
            recorder: description.recorder,
            page_size: description.page_size,
            processes: u32::try_from(1 + children.count()).unwrap_or(u32::MAX),
            counts: Counts::of(events),
            schema: SCHEMA.iter().map(|&line| line.to_owned()).collect(),
            files,
        }
    }
}

const SCHEMA: [&str; 9] = [
    "each record: kind (1 byte), then variable-length numbers: microseconds since the record before, process, fields",
    "0 map: address, length, file, offset",
    "1 unmap: address, length",
    "2 fork with a copied address space: child",
    "3 fork with a shared address space: child",
    "4 exec: file of the program, its length",
    "5 exec of a program that is not known",
    "6 exit",
    "7 truncate: file, new length in bytes; addresses, lengths and offsets of the others in pages, an address as signed difference from the end of the last one of its process",
];

/// The bytes of a trace file.
pub(super) fn encode(header: &Header, events: &[Event]) -> Result<Vec<u8>, TraceError> {
    let header_text =
        serde_json::to_vec(header).map_err(|cause| TraceError::Header(cause.to_string()))?;
    let header_length = u32::try_from(header_text.len())
        .map_err(|_| TraceError::Header("longer than 4 GiB".to_owned()))?;
    let records = compress(&encode_events(header, events)?)
        .map_err(|cause| TraceError::Header(format!("compression failed: {cause}")))?;

    let mut bytes = Vec::with_capacity(PREFIX + header_text.len() + records.len() + CHECKSUM);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&header_length.to_le_bytes());
    bytes.extend_from_slice(&(records.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&header_text);
    bytes.extend_from_slice(&records);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    Ok(bytes)
}

fn compress(plain: &[u8]) -> std::io::Result<Vec<u8>> {
    // No name and no time go into the gzip header, so equal traces make equal files.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain)?;
    encoder.finish()
}

/// The header and the events of a trace file's bytes. The events are sound as numbers; what they mean
/// together is for `validate`.
pub(super) fn decode(bytes: &[u8]) -> Result<(Header, Vec<Event>), TraceError> {
    let have = bytes.len() as u64;
    let common = bytes.len().min(MAGIC.len());
    if bytes[..common] != MAGIC[..common] {
        return Err(TraceError::NotATrace);
    }
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX>() else {
        let need = (PREFIX + CHECKSUM) as u64;
        return Err(TraceError::Truncated { have, need });
    };
    // The version comes first: another one may lay out everything that follows differently.
    let version = u16::from_le_bytes([prefix[16], prefix[17]]);
    if version != VERSION {
        return Err(TraceError::Version {
            found: version,
            known: VERSION,
        });
    }
    let header_length = u32::from_le_bytes([prefix[18], prefix[19], prefix[20], prefix[21]]);
    let mut records_length = [0; 8];
    records_length.copy_from_slice(&prefix[22..30]);
    let need = u64::from_le_bytes(records_length)
        .saturating_add(u64::from(header_length))
        .saturating_add((PREFIX + CHECKSUM) as u64);
    if have < need {
        return Err(TraceError::Truncated { have, need });
    }
    if have > need {
        return Err(TraceError::Trailing { extra: have - need });
    }
    let Some((covered, checksum)) = bytes.split_last_chunk::<CHECKSUM>() else {
        return Err(TraceError::Truncated { have, need });
    };
    let stored = u32::from_le_bytes(*checksum);
    let found = crc32fast::hash(covered);
    if stored != found {
        return Err(TraceError::Damaged { stored, found });
    }

    // The lengths add up, so both parts are inside.
    let (header_text, records) = rest.split_at(header_length as usize);
    let records = &records[..records.len() - CHECKSUM];
    let header: Header = serde_json::from_slice(header_text)
        .map_err(|cause| TraceError::Header(cause.to_string()))?;
    let events = decode_events(&header, records)?;
    Ok((header, events))
}

/// What both sides remember from record to record.
struct Memory {
    page: u64,
    time: u64,
    /// Per process, the end of the last range of addresses, in pages.
    last: Vec<u64>,
}

impl Memory {
    fn new(header: &Header) -> Result<Memory, TraceError> {
        if !header.page_size.is_power_of_two() {
            return Err(TraceError::Header(
                "the page size is no power of two".to_owned(),
            ));
        }
        // A process costs a record, so a header cannot make us reserve more than its records take.
        let processes =
            u64::from(header.processes).min(header.counts.fork + header.counts.share + 1);
        Ok(Memory {
            page: header.page_size,
            time: 0,
            last: vec![0; usize::try_from(processes).unwrap_or(usize::MAX)],
        })
    }
}

fn encode_events(header: &Header, events: &[Event]) -> Result<Vec<u8>, TraceError> {
    let mut memory = Memory::new(header)?;
    let mut output = Vec::with_capacity(events.len() * 10);
    for (number, event) in events.iter().enumerate() {
        encode_event(&mut memory, &mut output, event).map_err(|problem| TraceError::Malformed {
            event: number as u64,
            problem,
        })?;
    }
    Ok(output)
}

fn encode_event(
    memory: &mut Memory,
    output: &mut Vec<u8>,
    event: &Event,
) -> Result<(), &'static str> {
    let page = memory.page;
    let pages = |bytes: u64| -> Result<u64, &'static str> {
        if bytes.is_multiple_of(page) {
            Ok(bytes / page)
        } else {
            Err("a mapping is not in whole pages")
        }
    };
    let kind = match event.action {
        Action::Map { .. } => 0,
        Action::Unmap { .. } => 1,
        Action::Fork { shared: false, .. } => 2,
        Action::Fork { shared: true, .. } => 3,
        Action::Exec { program: Some(_) } => 4,
        Action::Exec { program: None } => 5,
        Action::Exit => 6,
        Action::Truncate { .. } => 7,
    };
    output.push(kind);
    let elapsed = event
        .time
        .checked_sub(memory.time)
        .ok_or("time goes back")?;
    memory.time = event.time;
    varint::write(output, elapsed);
    varint::write(output, u64::from(event.process));
    if let Action::Map {
        address, length, ..
    }
    | Action::Unmap { address, length } = event.action
    {
        let (address, length) = (pages(address)?, pages(length)?);
        let last = memory
            .last
            .get_mut(event.process as usize)
            .ok_or("a process that nobody started")?;
        varint::write(
            output,
            varint::from_signed(address.wrapping_sub(*last) as i64),
        );
        varint::write(output, length);
        *last = address.wrapping_add(length);
    }
    match event.action {
        Action::Map { file, offset, .. } => {
            varint::write(output, u64::from(file));
            varint::write(output, pages(offset)?);
        }
        Action::Fork { child, .. } => varint::write(output, u64::from(child)),
        Action::Exec {
            program: Some((file, length)),
        } => {
            varint::write(output, u64::from(file));
            varint::write(output, pages(length)?);
        }
        Action::Truncate { file, length } => {
            varint::write(output, u64::from(file));
            varint::write(output, length);
        }
        Action::Unmap { .. } | Action::Exec { program: None } | Action::Exit => {}
    }
    Ok(())
}

fn decode_events(header: &Header, records: &[u8]) -> Result<Vec<Event>, TraceError> {
    let counts = &header.counts;
    let total = [
        counts.map,
        counts.unmap,
        counts.fork,
        counts.share,
        counts.exec,
        counts.exit,
        counts.truncate,
    ]
    .into_iter()
    .try_fold(0_u64, u64::checked_add)
    .and_then(|total| Some((total, total.checked_mul(LONGEST_RECORD)?)));
    let Some((total, longest)) = total else {
        return Err(TraceError::Inconsistent(COUNTS));
    };
    // The header bounds the records, so a small file cannot unfold into more memory than it announces.
    let mut plain = Vec::new();
    GzDecoder::new(records)
        .take(longest.saturating_add(1))
        .read_to_end(&mut plain)
        .map_err(|_| TraceError::Inconsistent("the records cannot be unpacked"))?;
    if plain.len() as u64 > longest {
        return Err(TraceError::Inconsistent(
            "there are more records than it counts",
        ));
    }
    if total > plain.len() as u64 / SHORTEST_RECORD {
        return Err(TraceError::Inconsistent(COUNTS));
    }
    let mut memory = Memory::new(header)?;
    let mut input = plain.as_slice();
    let mut events = Vec::new();
    while !input.is_empty() {
        let event = events.len() as u64;
        events.push(
            decode_event(&mut memory, &mut input)
                .map_err(|problem| TraceError::Malformed { event, problem })?,
        );
    }
    if events.len() as u64 != total {
        return Err(TraceError::Inconsistent(
            "it counts other events than there are",
        ));
    }
    Ok(events)
}

fn decode_event(memory: &mut Memory, input: &mut &[u8]) -> Result<Event, &'static str> {
    const CUT: &str = "the record is cut short";
    const LARGE: &str = "a number is too large";
    let page = memory.page;
    let number = |input: &mut &[u8]| varint::read(input).ok_or(CUT);
    let small = |input: &mut &[u8]| number(input).and_then(|n| u32::try_from(n).map_err(|_| LARGE));
    let bytes = |input: &mut &[u8]| number(input).and_then(|n| n.checked_mul(page).ok_or(LARGE));

    let (&kind, rest) = input.split_first().ok_or(CUT)?;
    *input = rest;
    memory.time = memory.time.checked_add(number(input)?).ok_or(LARGE)?;
    let process = small(input)?;
    let mut range = |input: &mut &[u8]| -> Result<(u64, u64), &'static str> {
        let last = memory
            .last
            .get_mut(process as usize)
            .ok_or("a process that nobody started")?;
        let address = last.wrapping_add(varint::to_signed(number(input)?) as u64);
        let length = number(input)?;
        *last = address.wrapping_add(length);
        Ok((
            address.checked_mul(page).ok_or(LARGE)?,
            length.checked_mul(page).ok_or(LARGE)?,
        ))
    };
    let action = match kind {
        0 => {
            let (address, length) = range(input)?;
            Action::Map {
                address,
                length,
                file: small(input)?,
                offset: bytes(input)?,
            }
        }
        1 => {
            let (address, length) = range(input)?;
            Action::Unmap { address, length }
        }
        2 | 3 => Action::Fork {
            child: small(input)?,
            shared: kind == 3,
        },
        4 => Action::Exec {
            program: Some((small(input)?, bytes(input)?)),
        },
        5 => Action::Exec { program: None },
        6 => Action::Exit,
        7 => Action::Truncate {
            file: small(input)?,
            length: number(input)?,
        },
        _ => return Err("a kind of event that is not known"),
    };
    Ok(Event {
        time: memory.time,
        process,
        action,
    })
}

#[cfg(test)]
mod tests;
