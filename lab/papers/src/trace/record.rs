//! Records a command with `strace`.

use super::error::{RecordError, StraceError};
use super::strace::{CALLS, NotUnderstood, Program, parse};
use super::{Description, Names, Trace};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::NamedTempFile;

/// What to record, and where to put it.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The program and its arguments.
    pub command: &'a [OsString],
    /// The trace's place.
    pub output: &'a Path,
    /// Whether a file that is there already may be replaced.
    pub force: bool,
    /// What the command builds or runs, with its version, for people who read the trace later.
    pub package: &'a str,
    /// How much to tell of the files' paths.
    pub names: Names,
}

/// What was recorded.
#[derive(Debug)]
#[non_exhaustive]
pub struct Recorded {
    /// The trace, as it was written.
    pub trace: Trace,
    /// The length of its file in bytes.
    pub bytes: u64,
    /// How the command ended. A command that failed or was killed is recorded all the same.
    pub status: ExitStatus,
    /// What of `strace`'s output was not understood; it is missing.
    pub not_understood: NotUnderstood,
}

/// Runs a command under `strace` and writes a trace of it. The command has this process's input, output,
/// directory and environment.
///
/// `strace` itself lets interrupts (Ctrl-C) pass to the command and ends with it. For the trace of an
/// interrupted command, the calling process must live on, too: it should handle the signal.
///
/// The trace is written whole under another name first, so its place holds the old file or the new one.
///
/// # Errors
/// When there is no such program, no `strace`, no permission to trace, or no place for the output; see
/// [`RecordError`]. All that can be known before is told before the command runs.
pub fn record(request: &Request<'_>) -> Result<Recorded, RecordError> {
    let Some((name, arguments)) = request.command.split_first() else {
        return Err(RecordError::NoCommand);
    };
    let output_error = |cause| RecordError::Output {
        path: request.output.to_owned(),
        cause,
    };
    if !request.force && fs::symlink_metadata(request.output).is_ok() {
        return Err(RecordError::OutputExists(request.output.to_owned()));
    }
    if request.output.is_dir() {
        return Err(output_error(ErrorKind::IsADirectory.into()));
    }
    let folder = match request.output.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Made now, so that a place nobody may write to is known before a long command runs.
    let mut target = NamedTempFile::new_in(folder).map_err(output_error)?;
    let log = NamedTempFile::new_in(folder).map_err(output_error)?;
    let directory = std::env::current_dir().map_err(output_error)?;
    let program = find_program(name).ok_or_else(|| RecordError::NoSuchProgram(name.into()))?;
    let version = strace_version()?;

    let status = Command::new("strace")
        .args(["-f", "-y", "-q", "-ttt", "-e", "signal=none", "-e"])
        .arg(format!("trace={CALLS}"))
        .arg("-o")
        .arg(log.path())
        .arg("--")
        .arg(program)
        .args(arguments)
        .status()
        .map_err(RecordError::StraceFailed)?;

    let description = Description {
        command: command_line(request.command),
        package: request.package.to_owned(),
        recorded: today(),
        recorder: format!("{version} -f -y -ttt"),
        page_size: page_size(),
        names: request.names,
        not_understood: 0,
    };
    let text = fs::File::open(log.path()).map_err(StraceError::Unreadable)?;
    let (trace, not_understood) =
        match parse(BufReader::new(text), &directory, description, resolve) {
            // `strace` speaks of its own trouble on its standard error.
            Err(StraceError::Empty) => return Err(RecordError::NothingRecorded { status }),
            other => other?,
        };
    if trace.header().counts.exec == 0 {
        return Err(RecordError::NothingRecorded { status });
    }

    let bytes = trace.to_bytes()?;
    target.write_all(&bytes).map_err(output_error)?;
    target.as_file().sync_all().map_err(output_error)?;
    readable_by_all(target.as_file()).map_err(output_error)?;
    if request.force {
        target
            .persist(request.output)
            .map_err(|error| output_error(error.error))?;
    } else {
        // Not `rename`: somebody may have put a file there meanwhile.
        target.persist_noclobber(request.output).map_err(|error| {
            if error.error.kind() == ErrorKind::AlreadyExists {
                RecordError::OutputExists(request.output.to_owned())
            } else {
                output_error(error.error)
            }
        })?;
    }
    Ok(Recorded {
        trace,
        bytes: bytes.len() as u64,
        status,
        not_understood,
    })
}

/// Temporary files are for their owner alone; a trace is an ordinary file.
fn readable_by_all(file: &fs::File) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn strace_version() -> Result<String, RecordError> {
    let output = match Command::new("strace").arg("--version").output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(RecordError::StraceMissing);
        }
        Err(error) => return Err(RecordError::StraceFailed(error)),
    };
    // "strace -- version 6.1"
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text
        .lines()
        .next()
        .and_then(|line| line.split(' ').next_back());
    Ok(format!(
        "strace {}",
        version.unwrap_or("of unknown version")
    ))
}

/// The program as a shell would find it.
fn find_program(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return is_executable(Path::new(name)).then(|| name.into());
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// The file that the kernel maps for an executed path, as far as it can be told afterwards.
fn resolve(path: &Path) -> Option<Program> {
    let mut path = fs::canonicalize(path).ok()?;
    // A script's interpreter can be a script; the kernel follows a few, too.
    for _ in 0..4 {
        match interpreter(&path) {
            Some(next) => path = fs::canonicalize(next).ok()?,
            None => {
                let length = fs::metadata(&path).ok()?.len();
                return Some(Program { path, length });
            }
        }
    }
    None
}

fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(256)
        .read_to_end(&mut start)
        .ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let name = line
        .trim_ascii()
        .split(|byte| byte.is_ascii_whitespace())
        .next()?;
    (!name.is_empty()).then(|| OsStr::from_bytes(name).into())
}

/// The command for people to read, without the folders of this machine.
fn command_line(command: &[OsString]) -> String {
    let words: Vec<String> = command
        .iter()
        .map(|word| {
            let plain = without_folders(&word.to_string_lossy());
            let needs_quotes = |c: char| c.is_whitespace() || "'\"\\$&|;<>()".contains(c);
            if plain.is_empty() || plain.contains(needs_quotes) {
                format!("'{}'", plain.replace('\'', r"'\''"))
            } else {
                plain
            }
        })
        .collect();
    words.join(" ")
}

/// `text` with every absolute path in it cut down to its last name: also inside scripts (`sh -c`), behind
/// `=` and behind an option's letter (`-I/usr/include`).
fn without_folders(text: &str) -> String {
    let ends_path = |c: char| c.is_whitespace() || "'\"=:;|&<>()`".contains(c);
    text.split_inclusive(ends_path)
        .map(|piece| match (piece.find('/'), piece.rfind('/')) {
            (Some(first), Some(last)) if first == 0 || piece.starts_with('-') => {
                format!("{}{}", &piece[..first], &piece[last + 1..])
            }
            _ => piece.to_owned(),
        })
        .collect()
}

/// The machine's page size, from what the kernel tells each process at its start.
fn page_size() -> u64 {
    const AT_PAGESZ: usize = 6;
    const WORD: usize = size_of::<usize>();
    let vector = fs::read("/proc/self/auxv").unwrap_or_default();
    let words: Vec<usize> = vector
        .chunks_exact(WORD)
        .map(|chunk| {
            let mut bytes = [0; WORD];
            bytes.copy_from_slice(chunk);
            usize::from_ne_bytes(bytes)
        })
        .collect();
    words
        .chunks_exact(2)
        .find(|pair| pair[0] == AT_PAGESZ)
        // Without /proc there is no strace -y either; 4096 is what most machines have.
        .map_or(4096, |pair| pair[1] as u64)
}

fn today() -> String {
    // A clock before 1970 is set wrongly; the day is for people only.
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    date(seconds / 86_400)
}

/// The date, so many days after 1 January 1970.
fn date(mut days: u64) -> String {
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year:04}-{:02}-{:02}", month + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
        ] {
            assert_eq!(date(days), text);
        }
    }

    #[test]
    fn command_lines_lose_folders_and_keep_words_apart() {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(
            command_line(&words(&["/opt/tools/make", "-j8"])),
            "make -j8"
        );
        assert_eq!(
            command_line(&words(&["sh", "-c", "./configure && make -j8"])),
            "sh -c './configure && make -j8'"
        );
        assert_eq!(
            command_line(&words(&[
                "/opt/cc",
                "-I/home/ann/h",
                "./src/x.c",
                "/home/ann/a, b"
            ])),
            "cc -Ih ./src/x.c 'a, b'"
        );
        assert_eq!(
            command_line(&words(&[
                "sh",
                "-c",
                "/opt/cc x.c >/home/ann/x && cat \"/etc/x\""
            ])),
            "sh -c 'cc x.c >x && cat \"x\"'"
        );
        assert_eq!(
            command_line(&words(&["./configure", "--prefix=/home/ann", "CC=/opt/cc"])),
            "./configure --prefix=ann CC=cc"
        );
        assert_eq!(
            command_line(&words(&["echo", "it's", ""])),
            r"echo 'it'\''s' ''"
        );
    }

    #[test]
    fn this_machines_pages_have_a_size() {
        assert!(page_size().is_power_of_two());
        assert!(page_size() >= 4096);
    }

    #[test]
    fn what_cannot_work_is_told_before_anything_runs() {
        let folder = tempfile::tempdir().expect("a folder");
        let there = folder.path().join("there");
        fs::write(&there, "precious").expect("written");
        let command = [OsString::from("true")];
        let request = Request {
            command: &command,
            output: &there,
            force: false,
            package: "",
            names: Names::None,
        };
        assert!(matches!(
            record(&request),
            Err(RecordError::OutputExists(_))
        ));
        assert!(matches!(
            record(&Request {
                command: &[],
                ..request
            }),
            Err(RecordError::NoCommand)
        ));
        assert!(matches!(
            record(&Request {
                output: folder.path(),
                force: true,
                ..request
            }),
            Err(RecordError::Output { .. })
        ));
        assert!(matches!(
            record(&Request {
                output: &folder.path().join("no/where"),
                ..request
            }),
            Err(RecordError::Output { .. })
        ));
        let unknown = [OsString::from("no-such-program-anywhere")];
        assert!(matches!(
            record(&Request {
                command: &unknown,
                force: true,
                ..request
            }),
            Err(RecordError::NoSuchProgram(_))
        ));
        assert_eq!(fs::read(&there).expect("read"), b"precious");
        assert_eq!(
            fs::read_dir(folder.path()).expect("listed").count(),
            1,
            "something was left behind"
        );
    }
}
