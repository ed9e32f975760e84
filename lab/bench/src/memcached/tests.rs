//! Client and server together, and each against what the other one never does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::server::connection;
use super::*;
use crate::runner::Settings;

fn served<T: Items + 'static>(items: T) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || serve(&listener, &Arc::new(items)));
    address
}

fn ours() -> OurItems {
    OurItems::new(16 << 20).expect("there is memory")
}

fn load(pipeline: usize) -> Load {
    Load {
        keys: 500,
        gets: 3,
        pipeline,
        trace: 256,
    }
}

fn is_asked(address: SocketAddr) {
    for pipeline in [1, 25] {
        let settings = Settings::until(2, 200);
        let second = || Ok(Duration::from_secs(1));
        let outcome = run("served", address, settings, load(pipeline), second)
            .expect("every answer is right");
        assert!(outcome.cell.operations >= pipeline as u64);
        assert_eq!(outcome.server_nanoseconds, 0.0, "the clock stood");
    }
}

/// As a socket with a time limit answers a process that was stopped and goes on.
#[test]
fn what_comes_after_an_interruption_is_read() {
    struct Stopped(bool);
    impl Read for Stopped {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::take(&mut self.0) {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
            buffer[0] = 7;
            Ok(1)
        }
    }
    let mut buffer = [0; 4];
    let read = read_some(&mut Stopped(true), &mut buffer);
    assert_eq!((read.expect("nothing broke"), buffer[0]), (1, 7));
}

#[test]
fn the_client_is_answered() {
    is_asked(served(ours()));
    is_asked(served(LockedItems::new(1000)));
}

/// What a server says to these bytes, sent one after the other, until it closes the connection.
fn said(items: impl Items + 'static, sent: &[u8]) -> (String, Served) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("somebody comes");
        connection(stream, &items).expect("it does not break")
    });
    let mut stream = TcpStream::connect(address).expect("it listens");
    for some in sent.chunks(5) {
        stream.write_all(some).expect("it reads");
    }
    stream
        .shutdown(std::net::Shutdown::Write)
        .expect("it is open");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("it is text");
    (text, server.join().expect("no panic"))
}

#[test]
fn requests_in_pieces_are_answered_in_order() {
    let sent = b"get a\r\nset a 7 0 3\r\n\r\n.\r\nset b 0 0 0 noreply\r\n\r\nget a b c\r\nnonsense\r\nset a 0 0 1\r\n!\r\nget a\r\nversion\r\nquit\r\nget a\r\n";
    let wanted = concat!(
        "END\r\nSTORED\r\nVALUE a 7 3\r\n\r\n.\r\nVALUE b 0 0\r\n\r\nEND\r\nERROR\r\nSTORED\r\n",
        "VALUE a 0 1\r\n!\r\nEND\r\nVERSION percolog ",
        env!("CARGO_PKG_VERSION"),
        "\r\n"
    );
    assert_eq!(said(ours(), sent), (wanted.to_owned(), Served::Closed));
    let locked = said(LockedItems::new(2), sent);
    assert_eq!(locked, (wanted.to_owned(), Served::Closed));
}

#[test]
fn large_values_are_kept_and_larger_ones_refused() {
    let value = "v".repeat(300_000);
    let sent = format!("set k 0 0 300000\r\n{value}\r\nget k\r\nset k 0 0 2000000\r\n");
    let (text, ended) = said(LockedItems::new(1), sent.as_bytes());
    assert!(
        text.starts_with("STORED\r\nVALUE k 0 300000\r\nvvv"),
        "{}",
        &text[..40]
    );
    assert!(text.ends_with("vvv\r\nEND\r\nSERVER_ERROR object too large for cache\r\n"));
    assert_eq!(ended, Served::Hopeless);
    // Room for small items only: the client is told, and the connection goes on.
    let small = OurItems::new(1 << 20).expect("there is memory");
    let sent = format!("set k 0 0 300000\r\n{value}\r\nget k\r\n");
    let (text, ended) = said(small, sent.as_bytes());
    assert_eq!(text, "SERVER_ERROR out of memory storing object\r\nEND\r\n");
    assert_eq!(ended, Served::Closed);
}

/// A client is told what a server does wrong, and does not hang.
#[test]
fn a_wrong_server_is_an_error() {
    for (answers, told) in [
        ("ERROR\r\n", "ERROR"),
        ("STORED\r\nSTORED\r\n", "more than it was asked"),
        ("END\r\n", "the answer to Set(0)"),
        ("", "closed"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it is bound");
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody comes");
            let mut asked = [0; 64];
            let _ = stream.read(&mut asked).expect("something is asked");
            stream.write_all(answers.as_bytes()).expect("it is open");
            // All of it, so that nothing is left to reset the connection.
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let settings = Settings::until(1, 200);
        let one = Load { keys: 1, ..load(1) };
        let failed = run("wrong", address, settings, one, || Ok(Duration::ZERO));
        let error = failed.expect_err(answers).to_string();
        assert!(error.contains(told), "{error}");
        server.join().expect("no panic");
    }
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        listener.local_addr().expect("it is bound")
    };
    let settings = Settings::until(1, 200);
    let failed = run("nobody", nobody, settings, load(1), || Ok(Duration::ZERO));
    let error = failed.expect_err("nobody is there").to_string();
    assert!(error.contains("no connection"), "{error}");
}
