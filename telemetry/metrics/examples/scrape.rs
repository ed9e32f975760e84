//! Serves `GET /metrics` while eight threads count as fast as they can.
//!
//! ```text
//! cargo run --release -p percolog-metrics --example scrape -- [ADDRESS] [--once] [--rounds N]
//! ```
//!
//! `ADDRESS` is `127.0.0.1:0` unless given, a port that the system chooses; the program prints which. `--once` ends after one
//! scrape, `--rounds` has each thread stop after so many rounds (the server goes on).

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use percolog_metrics::{Bounds, Recorder, RecorderHandle};
use std::error::Error;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;

/// More of a request than this is not read.
const REQUEST_BYTES: u64 = 8192;

struct Arguments {
    address: String,
    once: bool,
    rounds: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let handle = Recorder::builder()
        .bounds_of("work_size", Bounds::new([1.0, 2.0, 5.0])?)
        .install()?;
    describe_counter!("work_rounds_total", "Rounds that were worked, by thread.");
    describe_gauge!("work_open", "Rounds under way.");
    describe_histogram!(
        "work_size",
        metrics::Unit::Bytes,
        "What a round is about: \"size\" \\ bytes.\nFrom 0 to 7."
    );

    let listener = TcpListener::bind(&arguments.address)
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.address))?;
    println!("http://{}/metrics", listener.local_addr()?);
    io::stdout().flush()?;

    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..THREADS)
        .map(|thread| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || work(thread, arguments.rounds, &stop))
        })
        .collect();
    for connection in listener.incoming() {
        match connection.and_then(|connection| answer(connection, &handle)) {
            Ok(true) if arguments.once => break,
            Ok(_) => {}
            // A client that went away, or says nothing, is no reason to end.
            Err(error) => eprintln!("a connection failed: {error}"),
        }
    }
    // Relaxed: the threads only have to see it at some time; `join` orders all else.
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread
            .join()
            .map_err(|_| "a thread that counts has panicked")?;
    }
    Ok(())
}

/// One of the threads that count.
fn work(thread: usize, rounds: u64, stop: &AtomicBool) {
    // Looked up once: from here on nothing is shared with another thread.
    let rounds_total = counter!("work_rounds_total", "thread" => thread.to_string());
    let all = counter!("work_all_total");
    let open = gauge!("work_open");
    let load = gauge!("work_load");
    let size = histogram!("work_size");
    for round in 0..rounds {
        // Relaxed: see `main`.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        open.increment(1.0);
        rounds_total.increment(1);
        all.increment(1);
        load.increment(0.1);
        size.record((round % 8) as f64);
        open.decrement(1.0);
    }
}

/// Answers one request; whether it was a scrape.
fn answer(connection: TcpStream, handle: &RecorderHandle) -> io::Result<bool> {
    connection.set_read_timeout(Some(Duration::from_secs(10)))?;
    connection.set_write_timeout(Some(Duration::from_secs(10)))?;
    let mut request = BufReader::new((&connection).take(REQUEST_BYTES));
    let mut first = String::new();
    request.read_line(&mut first)?;
    // The headers say nothing that matters here, but closing before they are read would reset the connection.
    let mut header = String::new();
    while request.read_line(&mut header)? > 2 {
        header.clear();
    }

    let mut words = first.split_ascii_whitespace();
    let (status, body) = match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => ("200 OK", handle.render()),
        (Some("GET"), Some(_)) => ("404 Not Found", "try /metrics\n".to_owned()),
        (Some(_), Some(_)) => ("405 Method Not Allowed", "try GET\n".to_owned()),
        _ => ("400 Bad Request", String::new()),
    };
    write!(
        &connection,
        "HTTP/1.1 {status}\r\n\
         Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(status.starts_with("200"))
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        address: "127.0.0.1:0".to_owned(),
        once: false,
        rounds: u64::MAX,
    };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--once" => arguments.once = true,
            "--rounds" => {
                let number = given.next().and_then(|number| number.parse().ok());
                arguments.rounds = number.ok_or("--rounds needs a number: --rounds 1000000")?;
            }
            address if !address.starts_with('-') => arguments.address = address.to_owned(),
            other => {
                return Err(format!(
                    "{other} is unknown: [ADDRESS] [--once] [--rounds N] are not"
                ));
            }
        }
    }
    Ok(arguments)
}
