//! Caches behind memcached's protocol, on this machine's loopback: memcached itself, and a server over a cache of this process' kind.
//!
//! The server is always a process of its own, since a client that shared its memory would spare it what switching between two costs. One
//! program, `lab-server`, is all servers: it says on which port somebody listens and whose processors' time is to be looked at, and
//! stays until its standard input is closed, which the end of the asking process does too, however it comes.

mod server;

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use percolog_bench::memcached::{Items, Load, LockedItems, OurItems, run as ask};
use percolog_cli::companion;
use percolog_cli::failure::Failure;

use super::{Given, Program, ProgramError, Time, Values};

pub use server::run as run_server;

pub(super) const PROGRAMS: [Program; 1] = [Program {
    name: "memcached",
    about: "requests over loopback, `gets` to each set, `pipeline` at once, to a server over a cache; the server's processor time",
    run,
}];

/// The program that serves.
const SERVER: &str = "lab-server";

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Percolog,
    Locked,
    Memcached,
}

const KINDS: [(&str, Kind); 3] = [
    ("percolog", Kind::Percolog),
    ("locked", Kind::Locked),
    ("memcached", Kind::Memcached),
];

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Percolog => "percolog",
            Self::Locked => "locked",
            Self::Memcached => "memcached",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Percolog => OurItems::NAME,
            Self::Locked => LockedItems::NAME,
            Self::Memcached => "memcached",
        }
    }
}

/// What each may keep: more than there is.
const BYTES: usize = 256 << 20;

/// Requests of each thread before it begins again.
const TRACE: usize = 1 << 18;

fn run(given: &mut Given) -> Result<Values, ProgramError> {
    let kind = given.choice("structure", &KINDS)?;
    let load = Load {
        keys: given.number("keys", 1..=1 << 20)? as usize,
        gets: given.number("gets", 0..=1000)?,
        pipeline: given.number("pipeline", 1..=256)? as usize,
        trace: TRACE,
    };
    if let Time::Cycles { .. } = given.time {
        return Err(ProgramError::Missing("milliseconds"));
    }
    let server = Server::start(kind, given.threads).map_err(ProgramError::failed)?;
    let time = || processor_time(server.process);
    let outcome = ask(kind.name(), server.address, given.settings(), load, time)
        .map_err(ProgramError::failed)?;
    Ok(Values::of_cell(&outcome.cell).with("server_ns", outcome.server_nanoseconds))
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
enum ServerError {
    #[error("cannot start {what}: {source}")]
    NotStarted {
        what: &'static str,
        source: io::Error,
    },
    #[error("the server did not say where it listens")]
    Mute,
    #[error("memcached does not listen: {0}")]
    Deaf(String),
    #[error("the server: {0}")]
    Io(#[from] io::Error),
    #[error("the cache: {0}")]
    Cache(String),
    #[error("{0}")]
    Missing(String),
}

/// A server that ends with this value.
struct Server {
    child: Child,
    /// While it is open, there is somebody to serve.
    open: Option<ChildStdin>,
    address: SocketAddr,
    /// Whose time counts: the child, or what that has started.
    process: u32,
}

impl Server {
    /// Starts a server for so many connections.
    fn start(kind: Kind, connections: usize) -> Result<Self, ServerError> {
        let program = companion::beside(SERVER, super::BUILT_BY).map_err(|failure| {
            ServerError::Missing(match failure {
                Failure::Work(line) => line,
                other => format!("{other:?}"),
            })
        })?;
        let mut child = Command::new(program)
            .arg(kind.word())
            .arg(connections.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| ServerError::NotStarted {
                what: SERVER,
                source,
            })?;
        let open = child.stdin.take();
        let said = child.stdout.take();
        let mut server = Self {
            child,
            open,
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            process: 0,
        };
        let mut line = String::new();
        if let Some(said) = said {
            BufReader::new(said).read_line(&mut line)?;
        }
        let mut words = line.split_whitespace();
        let port = words.next().and_then(|word| word.parse().ok());
        let process = words.next().and_then(|word| word.parse().ok());
        let (Some(port), Some(process)) = (port, process) else {
            return Err(ServerError::Mute);
        };
        server.address.set_port(port);
        server.process = process;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.open.take());
        end(&mut self.child);
    }
}

/// Waits a moment for a process that is to end, and then ends it.
fn end(child: &mut Child) {
    const MOMENT: Duration = Duration::from_secs(5);
    let started = Instant::now();
    while started.elapsed() < MOMENT {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    // It has ended by itself if it cannot be killed.
    let _ = child.kill();
    let _ = child.wait();
}

/// How long the threads of a process have run, from what Linux says of each.
fn processor_time(process: u32) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        let said = fs::read_to_string(task?.path().join("schedstat"))?;
        let first = said.split_whitespace().next();
        nanoseconds += first
            .and_then(|word| word.parse::<u64>().ok())
            .ok_or(io::ErrorKind::InvalidData)?;
    }
    Ok(Duration::from_nanos(nanoseconds))
}
