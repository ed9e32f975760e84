//! Programs that nobody here wrote: compressors, a sorter, an interpreter, a server, a shell, a compiler. Each runs once on
//! this machine and once on a described one, and has to write the same and end in the same way. Where one of them or QEMU is
//! missing, that is said, and nothing is tested.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::common::skip::{is_here, skip};
use percolog_sim::machine;
use percolog_sim::report::{Ending, ProcessResult};
use percolog_sim::run::{Run, Simulation, available};
use tempfile::TempDir;

/// Whether all these programs are here, and QEMU.
fn all_here(programs: &[&str]) -> bool {
    if !is_here(available()) {
        return false;
    }
    let missing = programs.iter().find(|program| find(program).is_none());
    if let Some(missing) = missing {
        skip(&format!("there is no program `{missing}` here"));
    }
    missing.is_none()
}

/// The file that the shell would start. Servers are not in everybody's search path.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/bin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn on(cores: usize) -> Simulation {
    let machine = machine::built_in("opteron-48").expect("it is built in");
    let machine = machine.with_cores(cores).expect("these are some");
    Simulation::new(machine).capture(true).timeout(PATIENCE)
}

fn arguments<A: AsRef<OsStr>>(arguments: &[A]) -> Vec<OsString> {
    arguments
        .iter()
        .map(|argument| argument.as_ref().to_owned())
        .collect()
}

/// What the program does here.
fn natively(program: &Path, arguments: &[OsString]) -> Output {
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program starts")
}

/// Runs a program here and on so many cores, and sees that it does the same.
#[track_caller]
fn compare(cores: usize, program: &Path, arguments: &[OsString]) -> Run {
    let here = natively(program, arguments);
    let there = on(cores)
        .run(program, arguments)
        .expect("the simulation leaves a result");
    assert_same(&here, &there);
    there
}

#[track_caller]
fn assert_same(here: &Output, there: &Run) {
    let said = String::from_utf8_lossy(&there.stderr);
    assert!(!there.timed_out, "it hangs: {said}");
    assert_eq!(there.status, here.status, "{said}");
    assert!(
        there.stdout == here.stdout,
        "{} bytes here, {} other bytes there: {said}",
        here.stdout.len(),
        there.stdout.len()
    );
    assert_eq!(said, String::from_utf8_lossy(&here.stderr));
    let code = here.status.code().expect("no signal kills any of them");
    let first = first(there);
    assert_eq!((first.ending, first.exit_code), (Ending::Exit, code));
    for process in &there.processes {
        assert_eq!(process.unsimulated, [""; 0], "{}", process.program);
        assert!(
            matches!(process.ending, Ending::Exit | Ending::Exec),
            "{}: {:?}",
            process.program,
            process.ending
        );
    }
}

/// The process that was started; of the programs that it became, the last.
#[track_caller]
fn first(run: &Run) -> &ProcessResult {
    run.processes
        .iter()
        .rfind(|process| process.pid == run.first)
        .expect("the first process leaves a result")
}

/// A folder with a file of so many lines, each different, in no order, and compressible.
fn lines(count: u64) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut text = String::new();
    let mut state = 1_u64;
    for number in 0..count {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let _ = writeln!(text, "{:08x} line {number}", state >> 40);
    }
    let file = folder.path().join("lines");
    fs::write(&file, text).expect("a file");
    (folder, file)
}

#[test]
fn a_compressor_with_eight_threads() {
    if !all_here(&["xz"]) {
        return;
    }
    let (_folder, file) = lines(2000);
    let xz = find("xz").expect("it was there");
    let file = file.as_os_str();
    let mut call = arguments(&["-T8", "-0", "--block-size=8192", "--keep", "--stdout"]);
    call.push(file.to_owned());
    let run = compare(48, &xz, &call);
    let main = first(&run);
    assert!(main.threads > 4, "{} threads", main.threads);
    assert!(main.whole.transfers() > 0, "its threads share the queue");
}

#[test]
fn another_compressor_with_sixteen_threads_and_then_back() {
    if !all_here(&["pigz"]) {
        return;
    }
    let (folder, file) = lines(4000);
    let pigz = find("pigz").expect("it was there");
    let mut call = arguments(&["-p", "16", "-b", "32", "-n", "-c"]);
    call.push(file.into_os_string());
    let run = compare(48, &pigz, &call);
    assert!(first(&run).threads > 3, "{} threads", first(&run).threads);
    let compressed = folder.path().join("lines.gz");
    fs::write(&compressed, &run.stdout).expect("a file");
    let mut call = arguments(&["-d", "-p", "16", "-c"]);
    call.push(compressed.into_os_string());
    compare(48, &pigz, &call);
}

#[test]
fn a_sorter() {
    if !all_here(&["sort"]) {
        return;
    }
    let (_folder, file) = lines(3000);
    let sort = find("sort").expect("it was there");
    let mut call = arguments(&["--parallel=8"]);
    call.push(file.into_os_string());
    compare(48, &sort, &call);
}

#[test]
fn an_interpreter_with_threads() {
    let python = Path::new("/usr/bin/python3");
    if !all_here(&[]) {
        return;
    }
    if !python.is_file() {
        return skip("there is no /usr/bin/python3 here");
    }
    let program = "\
import os, sys, threading
total, lock = 0, threading.Lock()
def work(step):
    global total
    for _ in range(50):
        with lock:
            total += step
threads = [threading.Thread(target=work, args=(step,)) for step in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(total)
sys.exit(5)
";
    let run = compare(48, python, &arguments(&["-I", "-S", "-c", program]));
    assert_eq!(run.stdout, b"1400\n");
    assert_eq!(first(&run).threads, 9);
}

/// What the contended lines of the first machine are called, and who uses them.
fn contended(run: &Run) -> String {
    let lines = run.summary().lines;
    let said = lines.iter().flat_map(|line| {
        let users = line.places.iter().map(|place| place.place.function.clone());
        [line.name(), line.memory.clone()].into_iter().chain(users)
    });
    said.collect::<Vec<_>>().join("\n")
}

#[test]
fn an_interpreter_with_processes() {
    let python = Path::new("/usr/bin/python3");
    if !all_here(&[]) {
        return;
    }
    if !python.is_file() {
        return skip("there is no /usr/bin/python3 here");
    }
    let program = "\
import multiprocessing, sys
multiprocessing.set_start_method('fork')
total = multiprocessing.Value('l', 0)
def work(step):
    for _ in range(50):
        with total.get_lock():
            total.value += step
workers = [multiprocessing.Process(target=work, args=(step,)) for step in range(8)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(total.value)
sys.exit(5)
";
    let run = compare(48, python, &arguments(&["-I", "-c", program]));
    assert_eq!(run.stdout, b"1400\n");
    let first = first(&run);
    assert_eq!((first.processes.len(), run.processes.len()), (9, 1));
    // The lock is a named semaphore, and the number lies in a file.
    let said = contended(&run);
    assert!(said.contains("the file sem."), "{said}");
    assert!(said.contains("the file pym-"), "{said}");
}

#[test]
fn a_shell_with_a_pipeline() {
    if !all_here(&["sort", "sed", "wc", "env"]) {
        return;
    }
    let (_folder, file) = lines(50);
    let script = "sort -r \"$1\" | sed 's/line/row/' | wc -c; (exit 3) || echo $?; \
                  env -i /bin/sh -c 'echo \"[$PATH]\" >&2' | wc -l; kill -0 $$ && exec sh -c 'exit 7'";
    let mut call = arguments(&["-c", script, "sh"]);
    call.push(file.into_os_string());
    let run = compare(4, Path::new("/bin/sh"), &call);
    assert_eq!(run.status.code(), Some(7));
    let processes = run.processes.iter().map(|machine| machine.processes.len());
    let (machines, processes) = (run.processes.len(), processes.sum::<usize>());
    assert!(machines > 5 && processes > 8, "{machines} {processes}");
}

#[test]
fn a_build_with_four_jobs() {
    if !all_here(&["make", "sort", "tr"]) {
        return;
    }
    let (folder, file) = lines(200);
    let makefile = folder.path().join("Makefile");
    let rules = format!(
        "both: a b c d\n\t@cat a b c d\n\
         a:\n\t@sort {0} > $@\n\
         b:\n\t@sort -r {0} > $@\n\
         c: a\n\t@tr a-f A-F < a > $@\n\
         d: b\n\t@tr 0-9 x < b > $@\n",
        file.display()
    );
    fs::write(&makefile, rules).expect("a file");
    let mut call = arguments(&["--jobs=4", "--no-print-directory", "--always-make", "-C"]);
    call.push(folder.path().as_os_str().to_owned());
    let make = find("make").expect("it was there");
    let here = natively(&make, &call);
    let mut there = on(8)
        .run(&make, &call)
        .expect("the simulation leaves a result");
    // The described machine's clock begins on the same day each time, before any file of this test was written.
    let said = String::from_utf8_lossy(&there.stderr).into_owned();
    there.stderr = said
        .split_inclusive('\n')
        .filter(|line| !line.contains("modification time") && !line.contains("Clock skew"))
        .collect::<String>()
        .into_bytes();
    assert_same(&here, &there);
    assert_eq!(
        there
            .processes
            .iter()
            .filter(|process| process.program.ends_with("/sort"))
            .count(),
        2
    );
}

/// Programs of every kind that a linker makes.
#[test]
fn static_stripped_and_immovable_programs() {
    if !all_here(&["cc"]) {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/broadcast.c");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, options) in [
        ("pie", &["-pie", "-fPIE"][..]),
        ("immovable", &["-no-pie", "-fno-pie"]),
        ("stripped", &["-s"]),
        ("static", &["-static"]),
        ("static and stripped", &["-static", "-s"]),
        ("static and movable", &["-static-pie", "-fPIE"]),
    ] {
        let program = folder.path().join(name);
        let compiled = Command::new("cc")
            .args(["-O2", "-pthread", "-o"])
            .arg(&program)
            .args(options)
            .arg(&source)
            .output()
            .expect("the compiler starts");
        if !compiled.status.success() {
            skip(&format!("cc cannot make a program that is {name} here"));
            continue;
        }
        let run = compare(8, &program, &[]);
        assert_eq!(run.stdout, b"800\n", "{name}");
        assert!(run.main().is_some_and(|main| main.whole.transfers() > 0));
    }
}

/// Threads that wait for ever when the process ends: it must end with its own status, each time.
#[test]
fn a_process_ends_over_those_who_wait() {
    if !all_here(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let source = folder.path().join("waiters.c");
    let text = "\
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static void *wait(void *number) {
    for (volatile long i = 0; i < 1000 * (long)number; i++) {}
    pthread_mutex_lock(&mutex);
    for (;;) pthread_cond_wait(&condition, &mutex);
}
int main(int count, char **arguments) {
    pthread_t thread;
    for (long i = 0; i < 8; i++) pthread_create(&thread, 0, wait, (void *)i);
    for (volatile long i = 0; i < atol(arguments[1]); i++) {}
    puts(\"ends\");
    return count;
}
";
    fs::write(&source, text).expect("a file");
    let program = folder.path().join("waiters");
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .args([&program, &source])
        .status();
    assert!(compiled.is_ok_and(|status| status.success()));
    for rounds in (0..20_000).step_by(1000) {
        compare(48, &program, &arguments(&[rounds.to_string()]));
    }
}

/// A line from a server, without its end.
fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).expect("the server answers");
    line.truncate(line.trim_end().len());
    line
}

/// Asks a memcached at this port to keep and to return this many values, and then to end. Nothing here waits for ever.
fn use_memcached(port: u16, keys: usize) {
    let mut clients: Vec<BufReader<TcpStream>> = (0..4)
        .map(|_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
            let patience = Some(PATIENCE);
            stream.set_read_timeout(patience).expect("a timeout");
            BufReader::new(stream)
        })
        .collect();
    for key in 0..keys {
        let client = &mut clients[key % 4];
        write!(
            client.get_mut(),
            "set key{key} 0 0 8\r\n{:08}\r\n",
            key * key
        )
        .expect("it reads");
        assert_eq!(line(client), "STORED");
    }
    for key in 0..keys {
        let client = &mut clients[(key + 1) % 4];
        write!(client.get_mut(), "get key{key}\r\n").expect("it reads");
        assert_eq!(line(client), format!("VALUE key{key} 0 8"));
        assert_eq!(line(client), format!("{:08}", key * key));
        assert_eq!(line(client), "END");
    }
    let client = &mut clients[0];
    write!(client.get_mut(), "stats\r\n").expect("it reads");
    let mut process = None;
    loop {
        let line = line(client);
        if let Some(pid) = line.strip_prefix("STAT pid ") {
            process = Some(pid.to_owned());
        }
        if let Some(count) = line.strip_prefix("STAT curr_items ") {
            assert_eq!(count, keys.to_string());
        }
        if line == "END" {
            break;
        }
    }
    let process = process.expect("it says which process it is");
    let killed = Command::new("kill").args(["-TERM", &process]).status();
    assert!(killed.is_ok_and(|status| status.success()));
}

/// Waits until the server has written where it listens.
fn port(file: &Path) -> Option<u16> {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        let text = fs::read_to_string(file).unwrap_or_default();
        // The end of the line says that it is complete.
        let tcp = text.split_inclusive('\n').find_map(|line| {
            line.strip_prefix("TCP INET: ")
                .and_then(|port| port.strip_suffix('\n'))
        });
        if let Some(port) = tcp {
            return port.parse().ok();
        }
        thread::sleep(Duration::from_millis(20));
    }
    None
}

#[test]
fn a_server_under_its_clients() {
    if !all_here(&["memcached", "kill"]) {
        return;
    }
    let memcached = find("memcached").expect("it was there");
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The server may become another user before it writes there.
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("its mode");
    let file = folder.path().join("port");
    let server = thread::spawn({
        let file = file.clone();
        move || {
            // As root it refuses to run unless it is told who to be.
            let options = "-p -1 -U 0 -l 127.0.0.1 -m 64 -t 4 -u nobody";
            on(8)
                .env("MEMCACHED_PORT_FILENAME", file)
                .run(memcached, options.split(' '))
        }
    });
    let port = port(&file);
    if let Some(port) = port {
        use_memcached(port, 200);
    }
    let run = server.join().expect("the server's thread");
    let run = run.expect("the simulation leaves a result");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(port.is_some() && !run.timed_out, "{said}");
    assert_eq!(run.status.signal(), None, "{said}");
    assert_eq!(run.status.code(), Some(0), "{said}");
    let main = first(&run);
    assert_eq!(main.ending, Ending::Exit);
    assert_eq!(main.unsimulated, [""; 0]);
    assert!(main.threads > 4, "{} threads", main.threads);
    assert!(main.whole.transfers() > 0);
    assert!(!main.not_reproducible.is_empty(), "its clients are real");
}

#[test]
fn a_server_of_processes_under_its_clients() {
    if !all_here(&["apache2", "setsid"]) {
        return;
    }
    let modules = Path::new("/usr/lib/apache2/modules");
    if !modules.join("mod_mpm_prefork.so").is_file() {
        return skip("there is no mod_mpm_prefork.so here");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Its children are another user's.
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("its mode");
    let here = folder.path().display();
    // It is told a port, and cannot say which it has found.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .expect("a port")
        .port();
    fs::write(folder.path().join("index.html"), "it works\n").expect("a file");
    let configuration = format!(
        "ServerRoot {here}\nPidFile {here}/pid\nListen 127.0.0.1:{port}\nServerName localhost\n\
         LoadModule mpm_prefork_module {0}/mod_mpm_prefork.so\n\
         LoadModule authz_core_module {0}/mod_authz_core.so\n\
         StartServers 4\nMinSpareServers 4\nMaxSpareServers 4\nServerLimit 4\nMaxRequestWorkers 4\n\
         User nobody\nGroup nogroup\nDocumentRoot {here}\nErrorLog {here}/errors\n",
        modules.display()
    );
    fs::write(folder.path().join("httpd.conf"), configuration).expect("a file");
    let server = thread::spawn({
        let file = folder.path().join("httpd.conf").into_os_string();
        move || {
            // It ends all of its group, to which this test must not belong.
            let apache = find("apache2").expect("it was there").into_os_string();
            let options = ["-f".into(), file, "-DFOREGROUND".into()];
            on(8).run("setsid", [apache].into_iter().chain(options))
        }
    });
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /index.html HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer)?;
        Ok(answer)
    };
    let begin = Instant::now();
    while ask().is_err() && begin.elapsed() < PATIENCE && !server.is_finished() {
        thread::sleep(Duration::from_millis(20));
    }
    let answers = thread::scope(|scope| {
        let clients = [(); 4].map(|()| scope.spawn(|| [(); 10].map(|()| ask())));
        let answers = clients
            .into_iter()
            .flat_map(|client| client.join().expect("a client"));
        answers
            .filter(|answer| {
                answer
                    .as_ref()
                    .is_ok_and(|text| text.ends_with("it works\n"))
            })
            .count()
    });
    let number = fs::read_to_string(folder.path().join("pid")).unwrap_or_default();
    if let Ok(number) = number.trim().parse() {
        // SAFETY: it takes numbers; the server has said that this is its own.
        unsafe { libc::kill(number, libc::SIGTERM) };
    }
    let run = server.join().expect("the server's thread");
    let run = run.expect("the simulation leaves a result");
    let errors = fs::read_to_string(folder.path().join("errors")).unwrap_or_default();
    assert_eq!(answers, 40, "{errors}");
    assert!(!run.timed_out, "{errors}");
    assert_eq!(run.status.code(), Some(0), "{errors}");
    let server = run.main().expect("it was simulated");
    assert!(server.processes.len() >= 5, "{:?}", server.processes);
    // The scoreboard, which the library of the server maps for all of its processes.
    let said = contended(&run);
    assert!(said.contains("apr_shm_create"), "{said}");
}

/// The folder of the programs of a PostgreSQL of which a server runs under QEMU 7.2: earlier ones do all their work in handlers
/// of signals, to which that QEMU gives a stack that is not aligned as compilers expect.
fn postgres() -> Option<PathBuf> {
    const FIRST: u32 = 16;
    let file = find("postgres")?;
    let said = Command::new(&file).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let number = said.split(' ').nth(2)?.split('.').next()?;
    (number.trim().parse::<u32>().ok()? >= FIRST).then(|| file.parent().map(Path::to_owned))?
}

#[test]
fn a_database_under_its_clients() {
    if !all_here(&["setpriv", "setsid"]) {
        return;
    }
    let Some(programs) = postgres() else {
        return skip("there is no PostgreSQL 16 or later in the search path");
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // As root it refuses to run.
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("its mode");
    let data = folder.path().join("data");
    // SAFETY: `geteuid` has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    let program = |name: &str, arguments: &[&str]| {
        let mut words: Vec<OsString> = Vec::new();
        if is_root {
            let nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups";
            words.extend(nobody.split(' ').map(OsString::from));
        }
        words.push(programs.join(name).into_os_string());
        words.extend(arguments.iter().map(OsString::from));
        words
    };
    let run = |words: Vec<OsString>| {
        let output = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        (
            output.status.success(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (here, at) = (
        folder.path().display().to_string(),
        data.display().to_string(),
    );
    let (made, said) = run(program(
        "initdb",
        &["-D", &at, "-A", "trust", "-U", "tester"],
    ));
    assert!(made, "{said}");
    let settings = format!(
        "listen_addresses = ''\nunix_socket_directories = '{here}'\nshared_buffers = 4MB\nmax_connections = 20\n\
         fsync = off\nautovacuum = off\njit = off\n"
    );
    let file = data.join("postgresql.conf");
    fs::write(&file, settings).expect("a file");
    let server = thread::spawn({
        let words = program("postgres", &["-D", &at]);
        // It ends all of its group, to which this test must not belong.
        move || on(8).run("setsid", words)
    });
    let bench = |more: &[&str]| {
        let words = [&["-h", &here, "-U", "tester"][..], more, &["postgres"]].concat();
        run(program("pgbench", &words))
    };
    let begin = Instant::now();
    while !bench(&["-i", "-q", "-I", "dtgp"]).0
        && begin.elapsed() < PATIENCE
        && !server.is_finished()
    {
        thread::sleep(Duration::from_millis(200));
    }
    let (done, errors) = bench(&["-n", "-S", "-c", "4", "-t", "10"]);
    let number = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    if let Some(Ok(number)) = number.lines().next().map(str::parse) {
        // SAFETY: it takes numbers; the server has said that this is its own.
        unsafe { libc::kill(number, libc::SIGINT) };
    }
    let run = server.join().expect("the server's thread");
    let run = run.expect("the simulation leaves a result");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(done, "{errors} {said}");
    assert!(!run.timed_out, "{said}");
    assert_eq!(run.status.code(), Some(0), "{said}");
    let server = run.main().expect("it was simulated");
    assert!(server.processes.len() > 8, "{:?}", server.processes);
    let said = contended(&run);
    assert!(said.contains("PGSharedMemoryCreate"), "{said}");
}
