//! What QEMU loads: it drives the model from a running program.
//!
//! * `translate` adds callbacks to each block of instructions; `decode` says what an instruction touches.
//! * `access` is what happens before an access to memory; `hot` the few words that decide most of them at once.
//! * `simulator` knows who has the turn and what time it is for whom; `schedule` which thread has which core; `spin`
//!   finds threads that only wait for a line; `baton` passes the turn between the host's threads.
//! * `calls` and `syscalls` are what happens before and after a system call; `futex`, `clock`, `files`, `guest` and
//!   `follow` are the calls that the simulator makes itself or changes.
//! * `report` adds up and writes the result.

pub(crate) mod access;
pub(crate) mod baton;
pub(crate) mod calls;
pub(crate) mod clock;
pub(crate) mod decode;
pub(crate) mod dying;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod futex;
pub(crate) mod guest;
pub(crate) mod hot;
pub(crate) mod marks;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod qemu;
pub(crate) mod random;
pub(crate) mod ready;
pub(crate) mod registers;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod simulator;
pub(crate) mod spin;
pub(crate) mod syscalls;
pub(crate) mod thread;
pub(crate) mod translate;
pub(crate) mod verify;
pub(crate) mod waits;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::plugin::hot::HOT;
use crate::plugin::qemu::PluginId;
use crate::plugin::report::Ending;
use crate::plugin::settings::Settings;
use crate::plugin::simulator::{Simulator, simulator};

/// The status with which the process ends when the simulator cannot go on.
const FAILED: i32 = 125;
/// The number from which on a copy of the error output is kept: the guest closes the low ones.
const HIGH_FILE: c_int = 900;
const F_DUPFD_CLOEXEC: c_int = 1030;

static MESSAGES: AtomicI32 = AtomicI32::new(2);

unsafe extern "C" {
    fn fcntl(file: c_int, command: c_int, ...) -> c_int;
    fn write(file: c_int, bytes: *const c_void, length: usize) -> isize;
    fn _exit(status: c_int) -> !;
}

/// Tells the user something, in a line of its own, whatever the guest has done to its own error output.
pub(crate) fn say(message: &str) {
    let line = format!("percolog sim: {message}\n");
    // Relaxed: set when the plugin is loaded.
    let file = MESSAGES.load(Ordering::Relaxed);
    // SAFETY: the bytes are valid. A message that cannot be written is lost: there is no other place for it.
    let _ = unsafe { write(file, line.as_ptr().cast(), line.len()) };
}

/// Ends the process at once.
pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: it does not return; nothing of QEMU's is left to be done.
    unsafe { _exit(status) }
}

/// Ends the process because the simulator cannot go on.
pub(crate) fn fatal(message: &str) -> ! {
    say(message);
    leave(FAILED)
}

/// The version of QEMU's interface that the plugin follows.
#[cfg(percolog_plugin)]
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = qemu::VERSION;

/// Called by QEMU when it has loaded the plugin.
///
/// # Safety
///
/// As QEMU documents: the arguments are as many as it says.
#[cfg_attr(percolog_plugin, unsafe(no_mangle))]
unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _information: *const c_void,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: a valid command.
    let copy = unsafe { fcntl(2, F_DUPFD_CLOEXEC, HIGH_FILE) };
    if copy >= 0 {
        // Relaxed: no other thread runs yet.
        MESSAGES.store(copy, Ordering::Relaxed);
    }
    let mut config = None;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: QEMU gives as many strings as it says.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) };
        if let Some(path) = argument
            .to_str()
            .ok()
            .and_then(|text| text.strip_prefix("config="))
        {
            config = Some(path.to_owned());
        }
    }
    match prepare(id, config) {
        Ok(()) => 0,
        Err(message) => fatal(&message),
    }
}

fn prepare(id: PluginId, config: Option<String>) -> Result<(), String> {
    let config = config.ok_or("the plugin needs `config=FILE`; start it with `percolog sim`")?;
    let text = std::fs::read_to_string(&config)
        .map_err(|error| format!("cannot read the settings in {config}: {error}"))?;
    let settings = Settings::parse(&text, &config)?;
    qemu::load()?;
    translate::prepare(settings.machine.costs, settings.verify);
    Simulator::start(settings);
    dying::watch();
    qemu::register(
        id,
        translate::block,
        thread_begins,
        thread_ends,
        calls::check,
        process_ends,
    );
    Ok(())
}

extern "C" fn thread_begins(_id: PluginId, vcpu: c_uint) {
    if baton::is_draining() {
        return;
    }
    // SAFETY: the parent has the turn, or this is the first thread of the process.
    let simulator = unsafe { simulator() };
    if simulator.alive() == 0 {
        calls::first_thread();
    }
    simulator.begin_thread(vcpu as usize);
}

extern "C" fn thread_ends(_id: PluginId, vcpu: c_uint) {
    if baton::is_draining() || HOT.holder() != vcpu {
        simulator::end_let_go(vcpu as usize);
        return;
    }
    // SAFETY: the thread has kept the turn since its last system call.
    let simulator = unsafe { simulator() };
    let thread = vcpu as usize;
    let clear_tid = simulator.threads[thread].clear_tid;
    futex::thread_exited(simulator, clear_tid);
    simulator.end_thread(thread);
}

extern "C" fn process_ends(_id: PluginId, _data: *mut c_void) {
    // SAFETY: QEMU calls this when every other thread is outside translated code.
    let simulator = unsafe { simulator() };
    let (compared, different) = verify::result();
    if simulator.settings.verify {
        say(&format!(
            "verify: {compared} addresses compared, {different} different"
        ));
    }
    simulator.finish(Ending::Signal(0));
}
