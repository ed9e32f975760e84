//! Traces and logs that are made to harm: what they make this library allocate stays within what their length allows, and the work
//! within what is said.

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use percolog_papers::replay::{Load, ReplayError, check};
use percolog_papers::subsystem::{Implementation, Subsystem};
use percolog_papers::trace::{
    Counts, Description, Header, MAX_LOOKED_AT, Names, Trace, TraceError, parse_strace,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Counts the bytes that are allocated, and remembers the most.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn came(bytes: usize) {
    // Relaxed: these are counts, read when whoever changes them has been joined.
    let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
    MOST.fetch_max(now, Ordering::Relaxed);
}

fn went(bytes: usize) {
    NOW.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: all is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        came(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        came(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        went(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // While it is copied, both are there.
        came(size);
        went(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a file of so many bytes may make anybody allocate, as the format promises.
fn allowed(bytes: usize) -> usize {
    (64 << 20) + 2048 * bytes
}

/// One test counts at a time.
static COUNTED: Mutex<()> = Mutex::new(());

/// Does something with `bytes` of a trace, and sees what that allocates at most.
#[track_caller]
fn within_bounds<R>(bytes: usize, act: impl FnOnce() -> R) -> R {
    let _alone = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let result = act();
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    assert!(
        most <= allowed(bytes),
        "{} MiB for {bytes} bytes, of which {} may be",
        most >> 20,
        allowed(bytes) >> 20
    );
    result
}

/// A number of variable length.
fn varint(column: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        column.push(number as u8 | 0x80);
        number >>= 7;
    }
    column.push(number as u8);
}

/// A signed difference: small whatever its sign.
fn difference(column: &mut Vec<u8>, value: i64) {
    varint(column, ((value << 1) ^ (value >> 63)) as u64);
}

/// Records under construction, in blocks; see the format.
#[derive(Default)]
struct Records {
    blocks: Vec<(u32, Vec<u8>)>,
    columns: [Vec<u8>; 9],
    count: u32,
    task: u32,
    child: u32,
    counts: Counts,
}

const BLOCK: u32 = 1 << 16;

impl Records {
    /// A record of this kind by `task`; `rest` writes what belongs to it.
    fn add(&mut self, kind: u8, task: u32, rest: impl FnOnce(&mut [Vec<u8>; 9])) {
        self.columns[0].push(kind);
        varint(&mut self.columns[1], 0);
        difference(&mut self.columns[2], i64::from(task) - i64::from(self.task));
        self.task = task;
        rest(&mut self.columns);
        self.count += 1;
        if self.count == BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        let columns = std::mem::take(&mut self.columns);
        let mut plain = Vec::new();
        for column in &columns {
            varint(&mut plain, column.len() as u64);
        }
        plain.extend(columns.concat());
        self.blocks.push((std::mem::take(&mut self.count), plain));
        (self.task, self.child) = (0, 0);
    }

    fn stat(&mut self) {
        self.counts.stat += 1;
        self.add(23, 0, |columns| difference(&mut columns[5], 0));
    }

    /// Maps the next page of file 0.
    fn map(&mut self) {
        self.counts.map += 1;
        self.add(0, 0, |columns| {
            difference(&mut columns[3], 1);
            varint(&mut columns[4], 1);
            difference(&mut columns[5], 0);
            varint(&mut columns[6], 0);
        });
    }

    fn truncate(&mut self) {
        self.counts.truncate += 1;
        self.add(15, 0, |columns| {
            difference(&mut columns[5], 0);
            varint(&mut columns[8], 1 << 40);
        });
    }

    fn fork(&mut self, child: u32) {
        self.counts.fork += 1;
        let step = i64::from(child) - i64::from(self.child);
        self.child = child;
        self.add(4, 0, |columns| difference(&mut columns[8], step));
    }

    fn exit(&mut self, task: u32) {
        self.counts.exit += 1;
        self.add(14, task, |_| ());
    }

    /// The file, with a table that is this JSON.
    fn file(mut self, table: &[u8]) -> Vec<u8> {
        if self.count > 0 {
            self.end_block();
        }
        let mut header = header();
        header.tasks = 1 + self.counts.fork as u32;
        header.counts = self.counts;
        header.block = BLOCK;
        packed(
            &serde_json::to_vec(&header).expect("a header is JSON"),
            table,
            &self.blocks,
        )
    }
}

/// The header of a trace of nothing but an end.
fn header() -> Header {
    let (header, _, _) = unpacked(&small());
    serde_json::from_slice(&header).expect("it was written as JSON")
}

/// A small trace, as a recording makes it.
fn small() -> Vec<u8> {
    let (trace, _) = parsed(SEED).expect("it is sound");
    trace.to_bytes().expect("it is small")
}

const SEED: &[u8] = include_bytes!("../fuzz/seeds/strace");

fn parsed(
    text: &[u8],
) -> Result<(Trace, percolog_papers::trace::NotUnderstood), percolog_papers::trace::StraceError> {
    let description = Description {
        page_size: 4096,
        names: Names::All,
        ..Description::default()
    };
    let program = |path: &Path| {
        path.starts_with("/bin")
            .then(|| percolog_papers::trace::Program {
                path: path.to_owned(),
                length: 5000,
            })
    };
    parse_strace(Cursor::new(text), Path::new("/start"), description, program)
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).expect("to memory");
    encoder.finish().expect("to memory")
}

/// A file of these parts, whatever they are, with checksums that are right.
fn packed(header: &[u8], table: &[u8], blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let sum = crc32fast::hash;
    let table = deflated(table);
    let mut bytes = b"percolog trace\r\n\x02\0".to_vec();
    for part in [header, &table] {
        bytes.extend((part.len() as u32).to_le_bytes());
        bytes.extend(sum(part).to_le_bytes());
    }
    bytes.extend(sum(&bytes).to_le_bytes());
    bytes.extend([header, &table].concat());
    let mut first = 0_u64;
    for (count, plain) in blocks {
        let records = deflated(plain);
        let mut head = count.to_le_bytes().to_vec();
        head.extend((records.len() as u32).to_le_bytes());
        head.extend(sum(&records).to_le_bytes());
        bytes.extend(&head);
        bytes.extend(sum(&[&first.to_le_bytes(), &head[..]].concat()).to_le_bytes());
        bytes.extend(records);
        first += u64::from(*count);
    }
    bytes
}

/// How many records there are, and what they are before they are deflated.
type Block = (u32, Vec<u8>);

/// The parts of a file that is sound: the header, the table of files, the blocks.
fn unpacked(bytes: &[u8]) -> (Vec<u8>, Vec<u8>, Vec<Block>) {
    fn number(bytes: &[u8], at: usize) -> usize {
        let four = bytes[at..at + 4].try_into().expect("four bytes");
        u32::from_le_bytes(four) as usize
    }
    fn inflated(bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        DeflateDecoder::new(bytes)
            .read_to_end(&mut plain)
            .expect("it was deflated");
        plain
    }
    let (table_at, blocks_at) = {
        let table_at = 38 + number(bytes, 18);
        (table_at, table_at + number(bytes, 26))
    };
    let mut blocks = Vec::new();
    let mut at = blocks_at;
    while at < bytes.len() {
        let end = at + 16 + number(bytes, at + 4);
        blocks.push((number(bytes, at) as u32, inflated(&bytes[at + 16..end])));
        at = end;
    }
    (
        bytes[38..table_at].to_vec(),
        inflated(&bytes[table_at..blocks_at]),
        blocks,
    )
}

const ONE_FILE: &[u8] = br#"[{"kind":"other"}]"#;

/// Nobody reads this, and refusing it takes next to nothing.
#[track_caller]
fn refused(bytes: &[u8]) -> TraceError {
    let error = within_bounds(bytes.len(), || Trace::from_bytes(bytes)).expect_err("it is absurd");
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[test]
fn few_bytes_that_unfold_to_much_are_refused() {
    let mut records = Records::default();
    for _ in 0..(1 << 22) {
        records.stat();
    }
    records.exit(0);
    let events = records.file(ONE_FILE);
    assert!(events.len() < 100_000, "{}", events.len());
    let error = refused(&events);
    assert!(matches!(error, TraceError::TooManyEvents { .. }), "{error}");

    let mut records = Records::default();
    records.exit(0);
    let one = r#"{"kind":"other"},"#;
    let many = format!("[{}{}]", one.repeat(200_000), &one[..one.len() - 1]);
    for table in [many.as_bytes(), &b" ".repeat(60 << 20)] {
        let mut records = Records::default();
        records.exit(0);
        let files = records.file(table);
        assert!(files.len() < 100_000, "{}", files.len());
        let error = refused(&files);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }

    let mut records = Records::default();
    let forks = 2000;
    for _ in 0..2000 {
        records.map();
    }
    for child in 1..=forks {
        records.fork(child);
    }
    for task in 0..=forks {
        records.exit(task);
    }
    let copies = records.file(ONE_FILE);
    let error = refused(&copies);
    assert!(matches!(error, TraceError::TooLarge { .. }), "{error}");

    let mut records = Records::default();
    for _ in 0..30_000 {
        records.map();
    }
    for _ in 0..30_000 {
        records.truncate();
    }
    records.exit(0);
    let error = refused(&records.file(ONE_FILE));
    let most = MAX_LOOKED_AT;
    assert!(
        matches!(error, TraceError::TooMuchToRead { most: found } if found == most),
        "{error}"
    );
}

#[test]
fn what_is_just_accepted_stays_within_its_bounds() {
    let mut records = Records::default();
    // As many mappings as a short file may amount to, most of them copies, and names beside.
    for _ in 0..1000 {
        records.map();
    }
    let forks = 60;
    for child in 1..=forks {
        records.fork(child);
    }
    for _ in 0..60_000 {
        records.stat();
    }
    for task in 0..=forks {
        records.exit(task);
    }
    let bytes = records.file(ONE_FILE);
    let trace = within_bounds(bytes.len(), || Trace::from_bytes(&bytes)).expect("it is accepted");
    within_bounds(bytes.len(), || trace.info().to_string());
    let again = trace.to_bytes().expect("what was read can be written");
    assert_eq!(Trace::from_bytes(&again).expect("and read"), trace);
    for subsystem in Subsystem::ALL {
        let report = within_bounds(bytes.len(), || {
            let load = Load::new(&trace, subsystem, None);
            check(&load, Implementation::Mutex, 2, &|_| ())
        });
        report.expect("the implementation is right");
    }
}

#[test]
fn what_is_written_can_be_read_however_much_alike_it_is() {
    let mut records = Records::default();
    for _ in 0..60_000 {
        records.stat();
    }
    records.exit(0);
    let trace = Trace::from_bytes(&records.file(ONE_FILE)).expect("it is accepted");
    let mut events = trace.events().to_vec();
    let last = events.pop().expect("an exit");
    let one = events[0];
    events.resize(300_000, one);
    events.push(last);
    let long = Trace::new(
        Description {
            page_size: 4096,
            ..Description::default()
        },
        trace.files().to_vec(),
        events,
    )
    .expect("it keeps the rules");
    let bytes = long.to_bytes().expect("it can be written");
    assert_eq!(Trace::from_bytes(&bytes).expect("and read"), long);
}

#[test]
fn a_check_that_would_never_end_is_refused() {
    let mut records = Records::default();
    for _ in 0..60_000 {
        records.map();
    }
    for _ in 0..4000 {
        records.truncate();
    }
    records.exit(0);
    let bytes = records.file(ONE_FILE);
    let trace = Trace::from_bytes(&bytes).expect("it is accepted");
    let load = Load::new(&trace, Subsystem::Files, None);
    let error = check(&load, Implementation::Mutex, 1, &|_| ()).expect_err("it takes too long");
    assert!(matches!(error, ReplayError::TooMuchToCompare), "{error}");
}

#[test]
fn a_file_without_an_end_is_refused() {
    let error = within_bounds(0, || Trace::open(Path::new("/dev/zero")));
    assert!(matches!(error, Err(TraceError::NotATrace)), "{error:?}");
}

/// Numbers that look random, the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }

    /// Changes a few bytes: another value, one more, one less, a piece of it twice.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] = self.below(256) as u8,
                1 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                3 => bytes.insert(at, [b'9', b',', b'<', 0xff, b'"', 0x80][self.below(6)]),
                _ => {
                    let end = (at + self.below(64)).min(bytes.len());
                    let piece = bytes[at..end].to_vec();
                    let to = self.below(bytes.len() + 1);
                    bytes.splice(to..to, piece);
                }
            }
        }
    }
}

#[test]
fn traces_with_random_mistakes_are_read_or_refused_within_bounds() {
    let parts = unpacked(&small());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut read = 0;
    for _ in 0..4000 {
        let (mut header, mut table, mut blocks) = parts.clone();
        match random.below(3) {
            0 => random.spoil(&mut header),
            1 => random.spoil(&mut table),
            _ => random.spoil(&mut blocks[0].1),
        }
        let bytes = packed(&header, &table, &blocks);
        match within_bounds(bytes.len(), || Trace::from_bytes(&bytes)) {
            Ok(trace) => {
                read += 1;
                within_bounds(bytes.len(), || trace.info().to_string());
                let again = trace.to_bytes().expect("what was read can be written");
                assert_eq!(Trace::from_bytes(&again).expect("and read again"), trace);
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    assert!(read > 100, "{read}: most mistakes break the rules, not all");
}

#[test]
fn logs_with_random_mistakes_are_read_or_refused_within_bounds() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut read = 0;
    for _ in 0..4000 {
        let mut text = SEED.to_vec();
        random.spoil(&mut text);
        if random.below(4) == 0 {
            // Whole lines in another order.
            let mut lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
            let (one, other) = (random.below(lines.len()), random.below(lines.len()));
            lines.swap(one, other);
            text = lines.join(&b'\n');
        }
        match within_bounds(text.len(), || parsed(&text)) {
            Ok((trace, _)) => {
                read += 1;
                let bytes = trace.to_bytes().expect("what was recorded can be written");
                assert_eq!(Trace::from_bytes(&bytes).expect("and read"), trace);
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    assert!(read > 1000, "{read}: a mistake costs a line, not all");
}

#[test]
fn a_log_that_amounts_to_much_is_refused() {
    let line = |process: u32, call: String| format!("{process} 1.000000 {call}\n");
    let mut copies = String::new();
    for descriptor in 3..6000 {
        copies.push_str(&line(
            7,
            format!(
                "openat(AT_FDCWD</s>, \"f{descriptor}\", O_RDONLY) = {descriptor}</s/f{descriptor}>"
            ),
        ));
    }
    for child in 10..6000 {
        copies.push_str(&line(7, format!("fork() = {child}")));
    }
    let mut paths = String::new();
    for _ in 0..20_000 {
        paths.push_str(&line(7, "chdir(\"a-folder\") = 0".to_owned()));
        paths.push_str(&line(7, "stat(\"f\", {}) = 0".to_owned()));
    }
    for (text, part) in [(copies, "more than 4194304 mappings"), (paths, "")] {
        // Both amount to much more than this.
        match within_bounds(30_000, || parsed(text.as_bytes())) {
            Ok(_) => assert_eq!(part, "", "it is refused"),
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains(part) && !said.contains('\n'), "{said}");
            }
        }
    }
}
