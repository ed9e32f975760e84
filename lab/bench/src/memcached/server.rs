//! A server: a thread for each connection, which answers what it has read, at once.

use std::io::{self, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use super::items::Items;
use super::protocol::{Parsed, Request, parse, words};
use super::read_some;

/// So much is read at a time.
const CHUNK: usize = 64 << 10;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// The client has closed it, or said `quit`.
    Closed,
    /// It said something behind which no next request can be found; it was told so.
    Hopeless,
}

/// Serves all who come, as long as there are any; never returns otherwise.
///
/// # Errors
/// Nobody else can come, or a thread cannot be started.
pub fn serve<T: Items + 'static>(listener: &TcpListener, items: &Arc<T>) -> io::Result<()> {
    loop {
        let (stream, _) = listener.accept()?;
        let items = Arc::clone(items);
        thread::Builder::new()
            .name("connection".to_owned())
            .spawn(move || {
                // A connection that breaks ends: nobody is there to be told.
                let _ = connection(stream, &*items);
            })?;
    }
}

/// Serves one connection, to its end.
///
/// # Errors
/// It broke.
pub(super) fn connection(mut stream: TcpStream, items: &impl Items) -> io::Result<Served> {
    stream.set_nodelay(true)?;
    let mut buffer = vec![0; CHUNK];
    // So much of it was read, and nothing of it answered.
    let mut filled = 0;
    let mut answers = Vec::with_capacity(CHUNK);
    loop {
        if filled == buffer.len() {
            // A large value: no larger than protocol allows.
            buffer.resize(buffer.len() * 2, 0);
        }
        let read = read_some(&mut stream, &mut buffer[filled..])?;
        if read == 0 {
            return Ok(Served::Closed);
        }
        filled += read;
        let (taken, ended) = answer_all(&buffer[..filled], items, &mut answers);
        stream.write_all(&answers)?;
        answers.clear();
        if let Some(ended) = ended {
            return Ok(ended);
        }
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Answers all whole requests: of how many bytes they are, and whether these were the last ones.
fn answer_all(bytes: &[u8], items: &impl Items, answers: &mut Vec<u8>) -> (usize, Option<Served>) {
    let mut at = 0;
    loop {
        match parse(&bytes[at..]) {
            Parsed::Part => return (at, None),
            Parsed::Whole(Request::Quit, taken) => return (at + taken, Some(Served::Closed)),
            Parsed::Whole(request, taken) => {
                answer(&request, items, answers);
                at += taken;
            }
            Parsed::Wrong(said, taken) => {
                answers.extend_from_slice(said.as_bytes());
                at += taken;
            }
            Parsed::Hopeless(said) => {
                answers.extend_from_slice(said.as_bytes());
                return (bytes.len(), Some(Served::Hopeless));
            }
        }
    }
}

fn answer(request: &Request<'_>, items: &impl Items, answers: &mut Vec<u8>) {
    match *request {
        Request::Get(keys) => {
            for key in words(keys) {
                items.get(key, |found| {
                    answers.extend_from_slice(b"VALUE ");
                    answers.extend_from_slice(key);
                    answers.extend_from_slice(found);
                });
            }
            answers.extend_from_slice(b"END\r\n");
        }
        Request::Set {
            key,
            flags,
            value,
            quiet,
        } => {
            let mut found = format!(" {flags} {}\r\n", value.len()).into_bytes();
            found.reserve_exact(value.len() + 2);
            found.extend_from_slice(value);
            found.extend_from_slice(b"\r\n");
            let said: &[u8] = match items.set(key, found.into_boxed_slice()) {
                Ok(()) => b"STORED\r\n",
                Err(_) => b"SERVER_ERROR out of memory storing object\r\n",
            };
            if !quiet {
                answers.extend_from_slice(said);
            }
        }
        Request::Version => {
            answers.extend_from_slice(
                concat!("VERSION percolog ", env!("CARGO_PKG_VERSION"), "\r\n").as_bytes(),
            );
        }
        // It ends the connection, and is not answered.
        Request::Quit => {}
    }
}
