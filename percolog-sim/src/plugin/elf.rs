//! Finds functions by name in an ELF file: just as much of the format as that takes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What is read at most of one table: a damaged header must not take all memory.
const LARGEST: u64 = 1 << 31;

/// A function that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Where its first instruction lies in the file.
    pub(crate) offset: u64,
    /// Its name, without a version.
    pub(crate) name: String,
}

/// The functions of a file whose names are `wanted`. A file that is no 64-bit ELF file has none.
pub(crate) fn functions(path: &str, wanted: impl Fn(&[u8]) -> bool) -> io::Result<Vec<Function>> {
    let file = File::open(path)?;
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(Vec::new());
    }
    let segments = table(&file, &header, 32, 54)?;
    let sections = table(&file, &header, 40, 58)?;
    let mut found = Vec::new();
    for section in &sections {
        /// Tables of symbols: all of them, and those for the dynamic linker.
        const TABLES: [u32; 2] = [2, 11];
        if !TABLES.contains(&half_word(section, 4)) {
            continue;
        }
        let Some(names) = sections.get(half_word(section, 40) as usize) else {
            continue;
        };
        let symbols = read(&file, word(section, 24), word(section, 32))?;
        let names = read(&file, word(names, 24), word(names, 32))?;
        for symbol in symbols.chunks_exact(24) {
            const FUNCTION: u8 = 2;
            let is_defined = symbol[6..8] != [0, 0];
            if symbol[4] & 15 != FUNCTION || !is_defined {
                continue;
            }
            let name = names
                .get(half_word(symbol, 0) as usize..)
                .unwrap_or_default();
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            if wanted(name)
                && let Some(offset) = offset(&segments, word(symbol, 8))
            {
                let name = String::from_utf8_lossy(name).into_owned();
                found.push(Function { offset, name });
            }
        }
    }
    // The same function in both tables, and under several names: the first name in the alphabet stays.
    found.sort_by(|one, other| (one.offset, &one.name).cmp(&(other.offset, &other.name)));
    found.dedup_by_key(|function| function.offset);
    Ok(found)
}

/// Where a linked address lies in the file.
fn offset(segments: &[Vec<u8>], address: u64) -> Option<u64> {
    const LOADED: u32 = 1;
    segments
        .iter()
        .filter(|segment| half_word(segment, 0) == LOADED)
        .find_map(|segment| {
            let (at, linked, size) = (word(segment, 8), word(segment, 16), word(segment, 32));
            let within = address.checked_sub(linked)?;
            (within < size).then(|| at + within)
        })
}

/// The entries of a table: its place stands at `place` of the header, the size of an entry and their number at `sizes`.
fn table(file: &File, header: &[u8; 64], place: usize, sizes: usize) -> io::Result<Vec<Vec<u8>>> {
    let short = |at: usize| u64::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (size, count) = (short(sizes), short(sizes + 2));
    /// The smaller of the two kinds of entries: a segment's.
    const SMALLEST: u64 = 56;
    if size < SMALLEST {
        return Ok(Vec::new());
    }
    let bytes = read(file, word(header, place), size * count)?;
    Ok(bytes
        .chunks_exact(size as usize)
        .map(<[u8]>::to_vec)
        .collect())
}

fn read(file: &File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    if length > LARGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn half_word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::functions;

    #[test]
    #[inline(never)]
    fn this_program_has_this_function() {
        let path = std::env::current_exe().expect("this is Linux");
        let path = path.to_str().expect("a plain name");
        let name = b"this_program_has_this_function";
        let found = functions(path, |symbol| {
            symbol.windows(name.len()).any(|part| part == name)
        })
        .expect("it can be read");
        assert!(!found.is_empty());
        let maps = std::fs::read_to_string("/proc/self/maps").expect("this is Linux");
        let length = std::fs::metadata(path).expect("it is there").len();
        assert!(
            found.iter().all(|function| function.offset < length),
            "{maps}"
        );
        assert!(functions(path, |_| false).expect("as before").is_empty());
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        assert!(functions("/nonexistent", |_| true).is_err());
        let text = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
        assert!(
            functions(text, |_| true)
                .expect("it can be read")
                .is_empty()
        );
    }
}
