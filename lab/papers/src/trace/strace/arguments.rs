//! The text of one system call, taken apart.
//!
//! `strace` separates arguments by commas, but commas, brackets and blanks also stand in strings, in the
//! paths that `-y` puts in angle brackets behind descriptors, and in structures.

/// A call: `name(arguments) = result`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Call<'t> {
    pub(super) name: &'t str,
    pub(super) arguments: Vec<&'t [u8]>,
    /// Behind the equals sign; `?` when the call never returned.
    pub(super) result: &'t [u8],
}

/// Takes a complete call apart; `None` when it is not one.
pub(super) fn split(text: &[u8]) -> Option<Call<'_>> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let name = std::str::from_utf8(&text[..open]).ok()?;
    if name.is_empty()
        || !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        return None;
    }
    let mut arguments = Vec::new();
    let mut start = open + 1;
    let mut depth = 1_u32;
    let mut at = start;
    while at < text.len() {
        match text[at] {
            b'"' => at = end_of_quoted(text, at + 1, b'"')?,
            b'<' if opens_path(text, at) => at = end_of_quoted(text, at + 1, b'>')?,
            b'/' if text[at..].starts_with(b"/*") => at = end_of_comment(text, at + 2)?,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            }
            b',' if depth == 1 => {
                arguments.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if depth != 0 {
        return None;
    }
    let last = text[start..at].trim_ascii();
    if !last.is_empty() || !arguments.is_empty() {
        arguments.push(last);
    }
    let result = text[at + 1..]
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii();
    Some(Call {
        name,
        arguments,
        result,
    })
}

/// The place of `end`, which closes what began before `at`; backslashes escape.
fn end_of_quoted(text: &[u8], mut at: usize, end: u8) -> Option<usize> {
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if byte == end => return Some(at),
            _ => at += 1,
        }
    }
    None
}

fn end_of_comment(text: &[u8], at: usize) -> Option<usize> {
    let length = text[at..].windows(2).position(|pair| pair == b"*/")?;
    Some(at + length + 1)
}

/// A path stands in angle brackets right behind a descriptor: a number or `AT_FDCWD`.
fn opens_path(text: &[u8], at: usize) -> bool {
    let before = &text[..at];
    // `1<<3` is arithmetic.
    let digit = before.last().is_some_and(u8::is_ascii_digit) && text.get(at + 1) != Some(&b'<');
    digit || before.ends_with(b"AT_FDCWD")
}

/// A number in decimal or, with `0x`, in hexadecimal; `NULL` is 0.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if text == "NULL" {
        return Some(0);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The number at the front of a result that says success: `3</path>`, `0`, `0x7f…`.
pub(super) fn success(result: &[u8]) -> Option<u64> {
    let end = result
        .iter()
        .position(|&byte| byte == b'<' || byte == b' ')
        .unwrap_or(result.len());
    number(&result[..end])
}

/// The error of a result that says failure: `-1 ENOENT (No such file or directory)`.
pub(super) fn failure(result: &[u8]) -> Option<&[u8]> {
    result
        .strip_prefix(b"-1 ")?
        .split(|&byte| byte == b' ')
        .next()
}

/// The number of a descriptor, whatever it stands for: `3</path>`, `3`.
pub(super) fn descriptor(text: &[u8]) -> Option<u32> {
    u32::try_from(success(text)?).ok()
}

/// The path behind a descriptor, unescaped: `3</path>`, `3</path>(deleted)`, `AT_FDCWD</path>`.
pub(super) fn descriptor_path(text: &[u8]) -> Option<Vec<u8>> {
    let open = text.iter().position(|&byte| byte == b'<')?;
    let close = end_of_quoted(text, open + 1, b'>')?;
    let mut path = unescape(&text[open + 1..close]);
    if text[close + 1..].starts_with(b"(deleted)") {
        // As the kernel and older versions of strace write it.
        path.extend_from_slice(b" (deleted)");
    }
    Some(path)
}

/// A string argument, unescaped; `None` when it is none or was cut off (`"…"...`).
pub(super) fn string(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?;
    let close = end_of_quoted(inner, 0, b'"')?;
    (close + 1 == inner.len()).then(|| unescape(&inner[..close]))
}

fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let Some((&code, after)) = rest.split_first() else {
            break;
        };
        rest = after;
        let (base, limit) = match code {
            b'n' => (0, usize::from(b'\n')),
            b't' => (0, usize::from(b'\t')),
            b'r' => (0, usize::from(b'\r')),
            b'v' => (0, 0x0b),
            b'f' => (0, 0x0c),
            b'x' => (16, 2),
            b'0'..=b'7' => (8, 2),
            _ => (0, usize::from(code)),
        };
        if base == 0 {
            plain.push(limit as u8);
            continue;
        }
        // Octal has its first digit already.
        let mut value = if base == 8 { u32::from(code - b'0') } else { 0 };
        for _ in 0..limit {
            let Some(digit) = rest
                .first()
                .and_then(|&byte| char::from(byte).to_digit(base))
            else {
                break;
            };
            value = value * base + digit;
            rest = &rest[1..];
        }
        plain.push(value as u8);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        split(text.as_bytes())
            .expect("a call")
            .arguments
            .iter()
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect()
    }

    #[test]
    fn commas_in_strings_paths_and_structures_do_not_separate() {
        assert_eq!(
            arguments(
                r#"mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, 3</a, b) = c/d>, 0x1000) = 0x7f0000000000"#
            ),
            [
                "NULL",
                "8192",
                "PROT_READ",
                "MAP_PRIVATE",
                "3</a, b) = c/d>",
                "0x1000"
            ]
        );
        assert_eq!(
            arguments(
                r#"execve("/bin/s\"h", ["sh", "-c", "a, (b"], 0x7ffc /* 39 vars, more */) = 0"#
            ),
            [
                r#""/bin/s\"h""#,
                r#"["sh", "-c", "a, (b"]"#,
                "0x7ffc /* 39 vars, more */"
            ]
        );
        assert_eq!(
            arguments(
                "clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack_size=0x9000}, 88) = 77"
            ),
            [
                "{flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD, stack_size=0x9000}",
                "88"
            ]
        );
        assert_eq!(arguments("vfork() = 12"), Vec::<String>::new());
        assert_eq!(arguments("f(1<<3, 2) = 0"), ["1<<3", "2"]);
        assert_eq!(split(b"mmap(NULL, 3</a"), None);
        assert_eq!(split(b"mmap(NULL, 3</a>)"), None);
        assert_eq!(split(b"--- SIGCHLD (x) = 1"), None);
    }

    #[test]
    fn results_and_paths() {
        let call = split(b"openat(AT_FDCWD</tmp>, \"x\", O_RDONLY)   = 3</tmp/x>").expect("a call");
        assert_eq!(call.name, "openat");
        assert_eq!(success(call.result), Some(3));
        assert_eq!(descriptor_path(call.result), Some(b"/tmp/x".to_vec()));
        assert_eq!(success(b"-1 ENOENT (No such file or directory)"), None);
        assert_eq!(success(b"?"), None);
        assert_eq!(success(b"? ERESTARTSYS (To be restarted)"), None);
        assert_eq!(success(b"0x7f12"), Some(0x7f12));
        assert_eq!(
            descriptor_path(b"3</tmp/a\\76\\40b\\n\\303\\244>(deleted)"),
            Some("/tmp/a> b\nä (deleted)".as_bytes().to_vec())
        );
        assert_eq!(descriptor_path(b"3"), None);
        assert_eq!(string(b"\"/a\\tb\\\\\\x41\""), Some(b"/a\tb\\A".to_vec()));
        assert_eq!(string(b"\"/cut\"..."), None);
        assert_eq!(string(b"0x7ffc"), None);
    }
}
