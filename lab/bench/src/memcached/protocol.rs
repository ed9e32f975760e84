//! What client and server say to each other: the part of memcached's text protocol that sets and gets.

/// The longest key, as in memcached.
pub(super) const LONGEST_KEY: usize = 250;

/// The largest value, as in memcached.
pub(super) const LARGEST_VALUE: usize = 1 << 20;

/// The longest line: `get` takes several keys.
const LONGEST_LINE: usize = 8192;

/// What a client asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    /// The values of these keys, which blanks separate.
    Get(&'a [u8]),
    /// Keep this.
    Set {
        key: &'a [u8],
        flags: u32,
        value: &'a [u8],
        /// Nobody waits for the answer.
        quiet: bool,
    },
    /// Who are you?
    Version,
    /// No more.
    Quit,
}

/// What there is at the beginning of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Parsed<'a> {
    /// Not yet a whole request.
    Part,
    /// A request, of so many bytes.
    Whole(Request<'a>, usize),
    /// What is no request, of so many bytes; the answer to it.
    Wrong(&'static str, usize),
    /// What is no request, and nobody knows where the next one begins; the last answer.
    Hopeless(&'static str),
}

const NO_SUCH: &str = "ERROR\r\n";
const BAD_LINE: &str = "CLIENT_ERROR bad command line format\r\n";
const BAD_VALUE: &str = "CLIENT_ERROR bad data chunk\r\n";
const TOO_LONG: &str = "CLIENT_ERROR line too long\r\n";
const TOO_LARGE: &str = "SERVER_ERROR object too large for cache\r\n";
const HAS_END: &str = "SERVER_ERROR items are kept without end here\r\n";

/// Where a line ends: the bytes before it, and those with it.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let text = &bytes[..end];
    Some((text.strip_suffix(b"\r").unwrap_or(text), end + 1))
}

/// The words of a line.
pub(super) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty())
}

/// A decimal number.
fn number(word: &[u8]) -> Option<u32> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// The request at the beginning.
pub(super) fn parse(bytes: &[u8]) -> Parsed<'_> {
    let Some((text, taken)) = line(bytes) else {
        return if bytes.len() > LONGEST_LINE {
            Parsed::Hopeless(TOO_LONG)
        } else {
            Parsed::Part
        };
    };
    if text.len() > LONGEST_LINE {
        return Parsed::Hopeless(TOO_LONG);
    }
    let (command, rest) = match text.iter().position(|byte| *byte == b' ') {
        Some(blank) => text.split_at(blank),
        None => (text, &[][..]),
    };
    match command {
        b"get" => {
            let mut keys = words(rest).peekable();
            if keys.peek().is_some() && keys.all(|key| key.len() <= LONGEST_KEY) {
                Parsed::Whole(Request::Get(rest), taken)
            } else {
                Parsed::Wrong(BAD_LINE, taken)
            }
        }
        b"set" => set(bytes, rest, taken),
        b"version" => Parsed::Whole(Request::Version, taken),
        b"quit" => Parsed::Whole(Request::Quit, taken),
        _ => Parsed::Wrong(NO_SUCH, taken),
    }
}

/// `KEY FLAGS EXPIRES LENGTH [noreply]`, and the value behind the line.
fn set<'a>(bytes: &'a [u8], rest: &'a [u8], line: usize) -> Parsed<'a> {
    let mut words = words(rest);
    let mut next = || words.next();
    let (Some(key), Some(flags), Some(expires), Some(length)) = (
        next(),
        next().and_then(number),
        next().and_then(number),
        next().and_then(number),
    ) else {
        return Parsed::Hopeless(BAD_LINE);
    };
    let quiet = match words.next() {
        None => false,
        Some(b"noreply") => true,
        Some(_) => return Parsed::Hopeless(BAD_LINE),
    };
    let length = length as usize;
    if length > LARGEST_VALUE {
        return Parsed::Hopeless(TOO_LARGE);
    }
    let whole = line + length + 2;
    let Some(value) = bytes.get(line..whole) else {
        return Parsed::Part;
    };
    let Some(value) = value.strip_suffix(b"\r\n") else {
        return Parsed::Hopeless(BAD_VALUE);
    };
    if key.len() > LONGEST_KEY {
        return Parsed::Wrong(BAD_LINE, whole);
    }
    if expires != 0 {
        return Parsed::Wrong(HAS_END, whole);
    }
    let request = Request::Set {
        key,
        flags,
        value,
        quiet,
    };
    Parsed::Whole(request, whole)
}

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// To a `get` of one key: it is there, with this value.
    Value { key: &'a [u8], value: &'a [u8] },
    /// To a `get` of one key: it is not there.
    Nothing,
    /// To a `set`.
    Stored,
}

/// The answer at the beginning, and of how many bytes it is; `None` if it is not yet whole.
///
/// # Errors
/// It is none that a client here has asked for: its first line.
pub(super) fn answer(bytes: &[u8]) -> Result<Option<(Answer<'_>, usize)>, String> {
    const END: &[u8] = b"END\r\n";
    let Some((text, taken)) = line(bytes) else {
        return Ok(None);
    };
    match text {
        b"STORED" => return Ok(Some((Answer::Stored, taken))),
        b"END" => return Ok(Some((Answer::Nothing, taken))),
        _ => {}
    }
    let unexpected = || format!("it answered {:?}", String::from_utf8_lossy(text));
    let mut words = words(text);
    if words.next() != Some(b"VALUE") {
        return Err(unexpected());
    }
    let (Some(key), Some(_flags), Some(length)) =
        (words.next(), words.next(), words.next().and_then(number))
    else {
        return Err(unexpected());
    };
    let end = taken + length as usize;
    let whole = end + 2 + END.len();
    let Some(behind) = bytes.get(end..whole) else {
        return Ok(None);
    };
    if behind.strip_prefix(b"\r\n") != Some(END) {
        return Err(unexpected());
    }
    let value = &bytes[taken..end];
    Ok(Some((Answer::Value { key, value }, whole)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_one_after_the_other() {
        let bytes = b"set k 3 0 2\r\n\r\n\r\nget a  b\nversion\r\nquit\r\n";
        let mut at = 0;
        let mut found = Vec::new();
        while let Parsed::Whole(request, taken) = parse(&bytes[at..]) {
            found.push(request);
            at += taken;
        }
        let set = Request::Set {
            key: b"k",
            flags: 3,
            value: b"\r\n",
            quiet: false,
        };
        let wanted = [set, Request::Get(b" a  b"), Request::Version, Request::Quit];
        assert_eq!(found, wanted);
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn a_part_is_no_request() {
        let bytes = b"set key 0 0 5 noreply\r\nvalue\r\n";
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), Parsed::Part, "{length}");
        }
        assert!(matches!(
            parse(bytes),
            Parsed::Whole(Request::Set { quiet: true, .. }, 30)
        ));
    }

    #[test]
    fn what_is_no_request_is_answered() {
        let long = vec![b'k'; LONGEST_KEY + 1];
        let key = String::from_utf8_lossy(&long);
        for (text, known) in [
            ("gets k\r\n".to_owned(), true),
            ("\r\n".to_owned(), true),
            ("get\r\n".to_owned(), true),
            (format!("get {key}\r\n"), true),
            (format!("set {key} 0 0 1\r\n1\r\n"), true),
            ("set k 0 60 1\r\n1\r\n".to_owned(), true),
            ("set k 0 0\r\n".to_owned(), false),
            ("set k 0 0 -1\r\n".to_owned(), false),
            ("set k 0 0 1 more\r\n1\r\n".to_owned(), false),
            ("set k 0 0 1\r\n123\r\n".to_owned(), false),
            ("set k 0 0 1048577\r\n".to_owned(), false),
            ("x".repeat(LONGEST_LINE + 1), false),
            (format!("get {}\r\n", "k ".repeat(LONGEST_LINE)), false),
        ] {
            match parse(text.as_bytes()) {
                Parsed::Wrong(said, taken) if known => {
                    assert!(said.ends_with("\r\n"));
                    assert_eq!(taken, text.len(), "{text}");
                }
                Parsed::Hopeless(said) if !known => assert!(said.ends_with("\r\n")),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn answers_are_read_when_they_are_whole() {
        let bytes = b"VALUE key 0 5\r\nvalue\r\nEND\r\n";
        for length in 0..bytes.len() {
            assert_eq!(answer(&bytes[..length]), Ok(None), "{length}");
        }
        let (key, value) = (&b"key"[..], &b"value"[..]);
        let whole = Ok(Some((Answer::Value { key, value }, bytes.len())));
        assert_eq!(answer(bytes), whole);
        assert_eq!(answer(b"END\r\nEND"), Ok(Some((Answer::Nothing, 5))));
        assert_eq!(answer(b"STORED\r\n"), Ok(Some((Answer::Stored, 8))));
        for wrong in [
            "ERROR\r\n",
            "SERVER_ERROR out of memory\r\n",
            "VALUE key\r\n",
            "VALUE key 0 5\r\nvalues\r\nEND\r\n",
        ] {
            let first = wrong.lines().next().unwrap_or_default();
            let error = answer(wrong.as_bytes()).expect_err(wrong);
            assert!(error.contains(first), "{error}");
        }
    }
}
