//! The client: a connection for each thread, so many requests sent at once, and their answers looked at.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use super::protocol::{Answer, answer};
use super::read_some;
use crate::eviction::Zipf;
use crate::runner::{self, Cell, RunError, Settings, Workload};

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many keys there are; all have values before anything is measured.
    pub keys: usize,
    /// So many gets to each set.
    pub gets: u64,
    /// Requests that are sent at once, before their answers are read.
    pub pipeline: usize,
    /// Requests of each thread before it begins again.
    pub trace: usize,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// As of every duel.
    pub cell: Cell,
    /// Nanoseconds of the server's processors for each request.
    pub server_nanoseconds: f64,
}

/// YCSB's.
const SKEW: f64 = 0.99;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks the server at this address. `server_time` says how much time of processors the server has taken so far.
///
/// # Errors
/// It cannot be reached, or an answer was wrong or did not come; or a thread could not be started.
pub fn run(
    structure: &'static str,
    address: SocketAddr,
    settings: Settings,
    load: Load,
    server_time: impl Fn() -> io::Result<Duration> + Sync,
) -> Result<Outcome, RunError> {
    let wrong = |detail: String| RunError::WrongState { structure, detail };
    // Open until the end, so that what serves it is still there when time is read.
    let _filled = fill(address, load.keys).map_err(wrong)?;
    let asked = Asking {
        address,
        load,
        zipf: Zipf::new(load.keys, SKEW),
        server_time,
        ended: OnceLock::new(),
    };
    let before = asked.time().map_err(wrong)?;
    let cell = runner::run(structure, &asked, settings)?;
    let ended = asked.ended.get().copied().unwrap_or(before);
    let taken = ended.saturating_sub(before);
    Ok(Outcome {
        cell,
        server_nanoseconds: taken.as_nanos() as f64 / cell.operations.max(1) as f64,
    })
}

/// 16 bytes.
fn write_key(number: u64, into: &mut String) {
    // A String takes all that is written to it.
    let _ = write!(into, "key:{number:012}");
}

/// 32 bytes, which say whose they are.
fn write_value(number: u64, into: &mut String) {
    write_key(number, into);
    write_key(number, into);
}

fn write_set(number: u64, into: &mut String) {
    into.push_str("set ");
    write_key(number, into);
    into.push_str(" 0 0 32\r\n");
    write_value(number, into);
    into.push_str("\r\n");
}

fn write_get(number: u64, into: &mut String) {
    into.push_str("get ");
    write_key(number, into);
    into.push_str("\r\n");
}

/// Sets all keys, and gives the connection that was used.
fn fill(address: SocketAddr, keys: usize) -> Result<Connection, String> {
    const AT_ONCE: usize = 64;
    let mut connection = Connection::open(address)?;
    let numbers: Vec<u64> = (0..keys as u64).collect();
    for some in numbers.chunks(AT_ONCE) {
        let asked: Vec<Asked> = some.iter().map(|number| Asked::Set(*number)).collect();
        connection.ask(&asked)?;
    }
    Ok(connection)
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Get(u64),
    Set(u64),
}

/// A connection and its buffers.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    requests: String,
    buffer: Vec<u8>,
    expected: String,
}

impl Connection {
    fn open(address: SocketAddr) -> Result<Self, String> {
        let open = || {
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(Self {
                stream,
                requests: String::new(),
                buffer: vec![0; 64 << 10],
                expected: String::new(),
            })
        };
        open().map_err(|error: io::Error| format!("no connection to {address}: {error}"))
    }

    /// Sends all of them at once, and looks at the answers.
    fn ask(&mut self, asked: &[Asked]) -> Result<(), String> {
        self.requests.clear();
        for request in asked {
            match *request {
                Asked::Get(number) => write_get(number, &mut self.requests),
                Asked::Set(number) => write_set(number, &mut self.requests),
            }
        }
        let broken = |error: io::Error| format!("the connection broke: {error}");
        self.stream
            .write_all(self.requests.as_bytes())
            .map_err(broken)?;
        // Of the buffer, so much was looked at, and so much was read.
        let (mut at, mut filled) = (0, 0);
        let mut waiting = asked.iter();
        let mut next = waiting.next();
        while let Some(request) = next {
            let Some((found, taken)) = answer(&self.buffer[at..filled])? else {
                if filled == self.buffer.len() {
                    self.buffer.copy_within(at..filled, 0);
                    (at, filled) = (0, filled - at);
                    if filled == self.buffer.len() {
                        return Err("an answer is longer than any value".to_owned());
                    }
                }
                let read =
                    read_some(&mut self.stream, &mut self.buffer[filled..]).map_err(broken)?;
                if read == 0 {
                    return Err("it has closed the connection".to_owned());
                }
                filled += read;
                continue;
            };
            if !is_right(*request, &found, &mut self.expected) {
                return Err(format!("the answer to {request:?} was {found:?}"));
            }
            at += taken;
            next = waiting.next();
        }
        if at == filled {
            Ok(())
        } else {
            Err("it answered more than it was asked".to_owned())
        }
    }
}

/// Every key has its value, all the time.
fn is_right(asked: Asked, found: &Answer<'_>, expected: &mut String) -> bool {
    match (asked, found) {
        (Asked::Get(number), Answer::Value { key, value }) => {
            expected.clear();
            write_value(number, expected);
            let (first, _) = expected.split_at(expected.len() / 2);
            *key == first.as_bytes() && *value == expected.as_bytes()
        }
        (Asked::Set(_), Answer::Stored) => true,
        _ => false,
    }
}

struct Asking<T> {
    address: SocketAddr,
    load: Load,
    zipf: Zipf,
    server_time: T,
    /// The server's time when all was answered, and all connections were still there: what served one that is closed may not be found again.
    ended: OnceLock<Duration>,
}

impl<T: Fn() -> io::Result<Duration>> Asking<T> {
    fn time(&self) -> Result<Duration, String> {
        let time = (self.server_time)();
        time.map_err(|error| format!("its time cannot be read: {error}"))
    }
}

/// A thread, its connection or why there is none any more, and what it will ask.
#[derive(Debug)]
struct Client {
    connection: Result<Connection, String>,
    trace: Vec<u64>,
    at: usize,
    batch: Vec<Asked>,
}

impl<T: Fn() -> io::Result<Duration> + Sync> Workload for Asking<T> {
    type Worker = Client;
    /// Its connection, or what has gone wrong.
    type Left = Result<Connection, String>;

    fn worker(&self, thread: usize) -> Client {
        let seed = 1 + thread as u64;
        Client {
            connection: Connection::open(self.address),
            trace: self.zipf.lookups(seed, self.load.trace.max(1)),
            at: thread,
            batch: Vec::with_capacity(self.load.pipeline),
        }
    }

    fn block(&self, client: &mut Client) -> u64 {
        let Ok(connection) = &mut client.connection else {
            // Until the time is over.
            thread::sleep(Duration::from_millis(1));
            return 0;
        };
        client.batch.clear();
        for _ in 0..self.load.pipeline {
            let number = client.trace[client.at % client.trace.len()];
            client
                .batch
                .push(if (client.at as u64).is_multiple_of(self.load.gets + 1) {
                    Asked::Set(number)
                } else {
                    Asked::Get(number)
                });
            client.at += 1;
        }
        match connection.ask(&client.batch) {
            Ok(()) => self.load.pipeline as u64,
            Err(error) => {
                client.connection = Err(error);
                0
            }
        }
    }

    fn leave(&self, client: Client) -> Result<Connection, String> {
        client.connection
    }

    fn settle(&self) {}

    fn check(&self, left: &[Result<Connection, String>]) -> Result<(), String> {
        if let Some(error) = left.iter().find_map(|left| left.as_ref().err()) {
            return Err(error.clone());
        }
        // Once a cell: nobody else has set it.
        let _ = self.ended.set(self.time()?);
        Ok(())
    }
}
