//! Running another program with a time limit, with everything it prints kept in order.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// `None`: it ran past its limit and was killed, with every process that it had started.
    pub(crate) status: Option<ExitStatus>,
    /// Both output streams together, in the order in which they were written.
    pub(crate) output: String,
    /// How long it ran.
    pub(crate) took: Duration,
}

impl Outcome {
    /// Whether it ended by itself, and well.
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Takes away what `cargo run` and rustup left in the environment: another toolchain, or a build of other crates, must not see it.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    forget(command)
        .env("CARGO_TERM_COLOR", "never")
        .stdin(std::process::Stdio::null())
}

/// The same for a program that is used as if it had been started by hand.
pub(crate) fn forget(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let Some(name) = name.to_str() else { continue };
        let inherited = name.starts_with("CARGO_PKG_")
            || name.starts_with("CARGO_MANIFEST_")
            || ["CARGO", "LD_LIBRARY_PATH", "RUST_RECURSION_COUNT"].contains(&name);
        if inherited {
            command.env_remove(name);
        }
    }
    if let Some(target) = target_folder(std::env::var_os("CARGO_TARGET_DIR")) {
        command.env("CARGO_TARGET_DIR", target);
    }
    command
}

/// The folder that a relative `CARGO_TARGET_DIR` means here: a command that runs elsewhere would take it for another.
fn target_folder(set: Option<OsString>) -> Option<PathBuf> {
    let set = PathBuf::from(set?);
    let relative = set.is_relative() && !set.as_os_str().is_empty();
    relative.then(|| std::path::absolute(set).ok()).flatten()
}

/// The command as one would type it.
pub(crate) fn display(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        let (Some(name), Some(value)) = (name.to_str(), value.and_then(|value| value.to_str()))
        else {
            continue;
        };
        if name == "CARGO_TERM_COLOR" {
            continue;
        }
        words.push(format!("{name}={}", quote(value)));
    }
    words.push(quote(&command.get_program().to_string_lossy()));
    words.extend(
        command
            .get_args()
            .map(|argument| quote(&argument.to_string_lossy())),
    );
    words.join(" ")
}

fn quote(word: &str) -> String {
    if !word.is_empty()
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_=./,:+@%".contains(c))
    {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Runs `command` for at most `limit`; its output goes to the file `log`, and to the screen if `echo`.
pub(crate) fn run(
    command: &mut Command,
    limit: Duration,
    log: Option<&Path>,
    echo: bool,
) -> Result<Outcome> {
    let name = display(command);
    let (reader, writer) = io::pipe().context("making a pipe")?;
    command
        .stdout(writer.try_clone().context("sharing a pipe")?)
        .stderr(writer);
    let started = Instant::now();
    let mut child = command
        .spawn()
        .with_context(|| format!("starting `{name}`"))?;
    // Our own copies of the pipe's writing end live in `command`; with them open, the reader would never see its end.
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());

    let mut file = match log {
        Some(path) => {
            Some(File::create(path).with_context(|| format!("creating {}", path.display()))?)
        }
        None => None,
    };
    let (sender, receiver) = mpsc::channel::<io::Result<Vec<u8>>>();
    thread::spawn(move || forward(reader, &sender));

    let mut output = Vec::new();
    let mut expired = false;
    loop {
        let left = limit.saturating_sub(started.elapsed());
        match receiver.recv_timeout(left.max(Duration::from_millis(1))) {
            Ok(bytes) => {
                let bytes = bytes.with_context(|| format!("reading the output of `{name}`"))?;
                if let Some(file) = &mut file {
                    file.write_all(&bytes).context("writing a log")?;
                }
                if echo {
                    io::stdout()
                        .write_all(&bytes)
                        .context("writing to the screen")?;
                }
                output.extend_from_slice(&bytes);
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
        if started.elapsed() >= limit {
            expired = true;
            kill_tree(&mut child)?;
            break;
        }
    }
    let status = child
        .wait()
        .with_context(|| format!("waiting for `{name}`"))?;
    Ok(Outcome {
        status: (!expired).then_some(status),
        output: String::from_utf8_lossy(&output).into_owned(),
        took: started.elapsed(),
    })
}

/// Sends on what arrives through `reader` until its end. A receiver that is gone no longer wants the rest.
fn forward(mut reader: impl Read, sender: &mpsc::Sender<io::Result<Vec<u8>>>) {
    let mut buffer = [0_u8; 8192];
    loop {
        let message = match reader.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => Ok(buffer[..length].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = message.is_err();
        if sender.send(message).is_err() || last {
            return;
        }
    }
}

/// Kills a process and its descendants. Killing cargo alone would leave the hanging test behind, on a core of its own.
fn kill_tree(child: &mut Child) -> Result<()> {
    let mut doomed = vec![child.id()];
    let mut next = 0;
    while next < doomed.len() {
        doomed.extend(children(doomed[next]));
        next += 1;
    }
    child
        .kill()
        .context("killing a process that ran past its limit")?;
    for process in &doomed[1..] {
        // It may have ended since; then there is nothing left to do.
        let _ = Command::new("kill")
            .args(["-KILL", &process.to_string()])
            .stderr(std::process::Stdio::null())
            .status();
    }
    Ok(())
}

/// The processes that `parent` started and that still run.
fn children(parent: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|process| {
            // "pid (name) state parent …": the name may hold spaces and brackets, so count from the last bracket.
            fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| {
                stat.rsplit(')')
                    .next()
                    .and_then(|rest| rest.split_whitespace().nth(1))
                    == Some(&parent.to_string())
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_are_kept_in_order() {
        let outcome = run(
            &mut shell("echo one; echo two >&2; echo three; exit 3"),
            Duration::from_secs(60),
            None,
            false,
        )
        .unwrap();
        assert_eq!(outcome.output, "one\ntwo\nthree\n");
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(3));
        assert!(!outcome.success());
    }

    #[test]
    fn a_program_past_its_limit_is_killed_with_its_children() {
        let outcome = run(
            &mut shell("sleep 600 & echo $!; wait"),
            Duration::from_secs(1),
            None,
            false,
        )
        .unwrap();
        assert!(outcome.status.is_none());
        let sleeper = outcome.output.trim();
        // A killed process needs a moment to go, and may remain as a zombie until its new parent collects it. If it was not
        // killed, this waits until the step's own limit.
        while fs::read_to_string(format!("/proc/{sleeper}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
        {
            thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_relative_target_folder_is_that_of_who_started_this() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(target_folder(Some("out".into())), Some(here.join("out")));
        assert_eq!(target_folder(Some("/out".into())), None);
        assert_eq!(target_folder(Some("".into())), None);
        assert_eq!(target_folder(None), None);
    }

    #[test]
    fn commands_are_shown_as_typed() {
        let mut command = Command::new("cargo");
        command
            .args(["test", "it's"])
            .env("RUSTFLAGS", "--cfg percolog_loom");
        assert_eq!(
            display(&command),
            "RUSTFLAGS='--cfg percolog_loom' cargo test 'it'\\''s'"
        );
    }
}
