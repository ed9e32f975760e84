//! The server: one of this process' own, or memcached itself.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use percolog_bench::memcached::{Items, LockedItems, OurItems, serve};

use super::{BYTES, KINDS, Kind, ServerError};
use crate::ProgramError;

/// Serves as `words` say: the kind of cache, and for how many connections. Returns when standard input has been closed.
///
/// # Errors
/// The words are none of these, or nobody can serve: one line.
pub fn run(words: &[String]) -> Result<(), ProgramError> {
    let [kind, connections] = words else {
        return Err(ProgramError::Missing("KIND CONNECTIONS"));
    };
    let wrong = |key: &str, value: &str, wanted: String| ProgramError::Wrong {
        key: key.to_owned(),
        value: value.to_owned(),
        wanted,
    };
    let known = KINDS.iter().find(|(word, _)| word == kind);
    let kind = known.map(|(_, kind)| *kind).ok_or_else(|| {
        let words = KINDS.map(|(word, _)| word);
        wrong("KIND", kind, format!("there are {}", words.join(", ")))
    })?;
    let connections = connections
        .parse()
        .map_err(|_| wrong("CONNECTIONS", connections, "a number is needed".to_owned()))?;
    let served = match kind {
        Kind::Percolog => OurItems::new(BYTES)
            .map_err(|error| ServerError::Cache(error.to_string()))
            .and_then(serve_here),
        Kind::Locked => serve_here(LockedItems::new(BYTES / 256)),
        Kind::Memcached => serve_as_memcached(connections),
    };
    served.map_err(ProgramError::failed)
}

/// Says where somebody listens, and waits until nobody asks any more.
fn announce(port: u16, process: u32) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{port} {process}")?;
    out.flush()?;
    drop(out);
    io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn serve_here<T: Items + 'static>(items: T) -> Result<(), ServerError> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    // It ends with the process; if it ends before, clients see that nobody listens.
    thread::spawn(move || serve(&listener, &Arc::new(items)));
    Ok(announce(port, std::process::id())?)
}

/// How often another port is tried: somebody may take one between two looks.
const TRIES: u32 = 3;

/// How long memcached may take until it listens.
const PATIENCE: Duration = Duration::from_secs(10);

fn serve_as_memcached(connections: usize) -> Result<(), ServerError> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = connections.min(processors);
    let mut tries = 0;
    loop {
        tries += 1;
        let mut memcached = Memcached::start(threads)?;
        match memcached.wait_until_it_listens() {
            Ok(()) => return Ok(announce(memcached.port, memcached.child.id())?),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => {}
        }
    }
}

/// A memcached that ends with this value.
struct Memcached {
    child: Child,
    port: u16,
}

impl Memcached {
    fn start(threads: usize) -> Result<Self, ServerError> {
        // Free a moment ago.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let megabytes = (BYTES >> 20).to_string();
        let child = Command::new("memcached")
            .args(["-l", "127.0.0.1", "-U", "0", "-m", &megabytes])
            .args(["-p", &port.to_string(), "-t", &threads.to_string()])
            // It does not run as root; for anybody else this changes nothing.
            .args(["-u", "nobody"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|source| ServerError::NotStarted {
                what: "memcached",
                source,
            })?;
        Ok(Self { child, port })
    }

    fn wait_until_it_listens(&mut self) -> Result<(), ServerError> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(ServerError::Deaf(status.to_string()));
            }
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(_) => return Ok(()),
                Err(error) if started.elapsed() > PATIENCE => {
                    return Err(ServerError::Deaf(error.to_string()));
                }
                Err(_) => thread::sleep(Duration::from_millis(2)),
            }
        }
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        // It has ended by itself if it cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
