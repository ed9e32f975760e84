//! memcached from Debian's source, so that the report can name its variables, and a client that stores values.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::ground::{Ground, Guest};
use crate::tools::on_path;

/// Worker threads, and as many clients.
const THREADS: usize = 24;
/// Values that each client stores, one after another.
const VALUES: usize = 600;
/// Requests that a client sends before it reads the answers.
const PIPELINED: usize = 50;
/// The longest that a client waits.
const PATIENCE: Duration = Duration::from_secs(200);

/// The server, and the clients that end it.
pub(crate) fn guest(ground: &Ground) -> Result<Guest> {
    build(ground)?;
    let port = ground.path("port");
    let _ = fs::remove_file(&port);
    let threads = THREADS.to_string();
    let mut guest = Guest::of(&[
        "./memcached",
        "-p",
        "-1",
        "-U",
        "0",
        "-l",
        "127.0.0.1",
        "-m",
        "64",
        "-t",
        &threads,
        "-u",
        "root",
    ]);
    guest.environment = vec![("MEMCACHED_PORT_FILENAME", "port")];
    guest.client = Some(Box::new(move || clients(&port)));
    Ok(guest)
}

/// Builds it with the options that it has by default, and with debugging information.
fn build(ground: &Ground) -> Result<()> {
    if ground.path("memcached").exists() {
        return Ok(());
    }
    ground.needs("apt-get", "apt")?;
    ground.needs("dpkg-source", "dpkg-dev")?;
    let header = Path::new("/usr/include/event.h");
    ensure!(
        header.exists() || Path::new("/usr/include/event2/event.h").exists(),
        "libevent's headers are missing: apt-get install libevent-dev"
    );
    let source = fetch(ground)?;
    let flags = format!(
        "CFLAGS=-O2 -g -ffile-prefix-map={}=memcached",
        source.display()
    );
    ground.run(&source, &["./configure", "--disable-docs", &flags])?;
    ground.run(&source, &["make", "memcached"])?;
    fs::copy(source.join("memcached"), ground.path("memcached")).context("copying memcached")?;
    Ok(())
}

/// Debian's source package, from the archive that the machine installs from.
fn fetch(ground: &Ground) -> Result<PathBuf> {
    let folder = ground.path("memcached-source");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).context("making a folder")?;
    let archives = ground.run(
        &folder,
        &[
            "apt-get",
            "indextargets",
            "--format",
            "deb-src $(REPO_URI) $(CODENAME) main",
            "Created-By: Packages",
            "Component: main",
        ],
    )?;
    // Names of releases have no dash; those of their updates have.
    let archive = archives
        .lines()
        .find(|line| {
            !line
                .split(' ')
                .nth(2)
                .is_some_and(|name| name.contains('-'))
        })
        .context("apt has no archive")?;
    let list = folder.join("sources.list");
    fs::write(&list, format!("{archive}\n")).context("writing a list of sources")?;
    let here = format!("Dir::Etc::sourcelist={}", list.display());
    let options = [
        "-o",
        &here,
        "-o",
        "Dir::Etc::sourceparts=/dev/null",
        "-o",
        "APT::Get::List-Cleanup=0",
    ];
    for words in [&["update"][..], &["source", "memcached"]] {
        let mut all = vec!["apt-get"];
        all.extend(options);
        all.extend(words);
        ground.run(&folder, &all)?;
    }
    fs::read_dir(&folder)
        .context("reading a folder")?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.join("configure").is_file())
        .context("there is no source in the package")
}

/// Stores values from many connections at once, and then asks the server to end.
fn clients(port: &Path) -> Result<()> {
    let port = wait_for(port)?;
    let connect = || -> Result<BufReader<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", port)).context("connecting")?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("a timeout")?;
        Ok(BufReader::new(stream))
    };
    // Connected one after another, so that each worker gets one.
    let connections = (0..THREADS)
        .map(|_| connect())
        .collect::<Result<Vec<_>>>()?;
    let stored = thread::scope(|scope| {
        let clients: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(client, connection)| scope.spawn(move || store(client, connection)))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client does not panic"))
            .collect::<Result<Vec<()>>>()
    });
    // The server is ended in any case: nobody else would.
    let ended = end(connect()?);
    stored?;
    ended
}

fn store(client: usize, mut connection: BufReader<TcpStream>) -> Result<()> {
    let value = "x".repeat(100);
    for first in (0..VALUES).step_by(PIPELINED) {
        let requests: String = (first..first + PIPELINED)
            .map(|n| format!("set key-{client}-{} 0 0 100\r\n{value}\r\n", n % 200))
            .collect();
        connection
            .get_mut()
            .write_all(requests.as_bytes())
            .context("storing")?;
        for _ in 0..PIPELINED {
            ensure!(line(&mut connection)? == "STORED", "a value was not stored");
        }
    }
    Ok(())
}

fn end(mut connection: BufReader<TcpStream>) -> Result<()> {
    connection
        .get_mut()
        .write_all(b"stats\r\n")
        .context("asking")?;
    loop {
        let line = line(&mut connection)?;
        if let Some(process) = line.strip_prefix("STAT pid ") {
            let kill = on_path("kill").context("kill is missing: apt-get install procps")?;
            let status = std::process::Command::new(kill)
                .args(["-TERM", process])
                .status();
            ensure!(
                status.context("starting kill")?.success(),
                "it could not be ended"
            );
        }
        if line == "END" {
            return Ok(());
        }
    }
}

fn line(connection: &mut BufReader<TcpStream>) -> Result<String> {
    let mut line = String::new();
    ensure!(
        connection.read_line(&mut line).context("reading")? > 0,
        "the server has gone"
    );
    Ok(line.trim_end().to_owned())
}

/// Waits until the server has written where it listens.
fn wait_for(file: &Path) -> Result<u16> {
    let begin = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The end of the line says that it is complete.
        let port = text
            .split_inclusive('\n')
            .find_map(|line| line.strip_prefix("TCP INET: ")?.strip_suffix('\n'));
        if let Some(port) = port {
            return port.parse().context("the server's port");
        }
        ensure!(begin.elapsed() < PATIENCE, "the server does not listen");
        thread::sleep(Duration::from_millis(20));
    }
}
