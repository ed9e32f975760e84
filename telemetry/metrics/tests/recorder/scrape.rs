//! `examples/scrape.rs`, scraped over its socket while its threads count.

use crate::common::Scrape;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

const THREADS: u64 = 8;
const ROUNDS: u64 = 200_000;

/// The example, running; ended with the test.
struct Example {
    process: Child,
    address: String,
}

impl Example {
    fn start(arguments: &[&str]) -> Self {
        // Cargo itself finds and, if it has to, builds the example: a test cannot ask for its path.
        let mut process = Command::new(env!("CARGO"))
            .args([
                "run",
                "--quiet",
                "--package",
                "percolog-metrics",
                "--example",
                "scrape",
            ])
            .args(if cfg!(debug_assertions) {
                &[][..]
            } else {
                &["--release"][..]
            })
            .arg("--")
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("cargo runs the example");
        let mut first = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut first)
            .expect("it prints where it listens");
        let address = first
            .trim()
            .strip_prefix("http://")
            .and_then(|rest| rest.strip_suffix("/metrics"))
            .unwrap_or_else(|| panic!("no address in {first:?}"))
            .to_owned();
        Self { process, address }
    }

    /// The answer to a request: its first line, and its body.
    fn request(&self, request: &str) -> (String, String) {
        let mut connection = TcpStream::connect(&self.address).expect("it listens");
        write!(
            connection,
            "{request} HTTP/1.1\r\nHost: {}\r\n\r\n",
            self.address
        )
        .expect("it reads");
        let mut answer = String::new();
        connection
            .read_to_string(&mut answer)
            .expect("it answers in UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .expect("a length");
        assert_eq!(length, body.len().to_string());
        (
            head.lines().next().expect("a status").to_owned(),
            body.to_owned(),
        )
    }

    fn scrape(&self) -> Scrape {
        let (status, body) = self.request("GET /metrics");
        assert_eq!(status, "HTTP/1.1 200 OK");
        Scrape::parse(&body)
    }
}

/// `cargo run` becomes the example where there is `exec`: it is the example that is ended.
impl Drop for Example {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn eight_threads_are_scraped_at_full_speed() {
    let example = Example::start(&["--rounds", &ROUNDS.to_string()]);
    let (mut last_all, mut last_count) = (0, 0);
    let mut scrapes = 0;
    let last = loop {
        let scrape = example.scrape();
        scrapes += 1;
        if scrape.names().len() < 5 {
            // The first scrape can come before the threads do.
            continue;
        }
        let all = scrape.counter("work_all_total", &[]);
        let size = scrape.histogram("work_size", &[]);
        assert!(all >= last_all, "{all} after {last_all}");
        assert!(
            size.count >= last_count,
            "{} after {last_count}",
            size.count
        );
        assert_eq!(size.buckets.last(), Some(&(f64::INFINITY, size.count)));
        assert!(size.buckets.is_sorted_by_key(|bucket| bucket.1), "{size:?}");
        (last_all, last_count) = (all, size.count);
        let rounds: u64 = scrape.counters("work_rounds_total").iter().sum();
        // A round ends with the gauge: when that is at zero after all rounds have begun, they have all ended.
        if rounds == THREADS * ROUNDS && scrape.gauge("work_open", &[]) == 0.0 {
            break example.scrape();
        }
    };
    println!("{scrapes} scrapes");

    // Everything has come to an end; from here on nothing can change.
    assert_eq!(last.counter("work_all_total", &[]), THREADS * ROUNDS);
    for thread in 0..THREADS {
        let thread = thread.to_string();
        assert_eq!(
            last.counter("work_rounds_total", &[("thread", &thread)]),
            ROUNDS
        );
    }
    let tenths = (THREADS * ROUNDS) as f64 * 0.1;
    assert_eq!(last.gauge("work_load", &[]), tenths);
    let size = last.histogram("work_size", &[]);
    let eighth = THREADS * ROUNDS / 8;
    assert_eq!(
        size.buckets,
        [
            (1.0, 2 * eighth),
            (2.0, 3 * eighth),
            (5.0, 6 * eighth),
            (f64::INFINITY, 8 * eighth)
        ]
    );
    assert_eq!(size.sum, (28 * eighth) as f64);
    assert_eq!(
        last.help("work_size"),
        "What a round is about: \"size\" \\ bytes.\nFrom 0 to 7."
    );

    assert_eq!(example.request("GET /").0, "HTTP/1.1 404 Not Found");
    assert_eq!(
        example.request("POST /metrics").0,
        "HTTP/1.1 405 Method Not Allowed"
    );
}

#[test]
fn once_ends_after_one_scrape() {
    let mut example = Example::start(&["--once"]);
    assert_eq!(
        example.request("GET /elsewhere").0,
        "HTTP/1.1 404 Not Found"
    );
    example.scrape();
    assert!(example.process.wait().expect("it ends").success());
}
