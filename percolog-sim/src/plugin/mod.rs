//! What QEMU loads: it drives the model from a running program.
//!
//! * `translate` adds callbacks to each block of instructions; `architecture` says what an instruction touches, and all else
//!   that differs from processor to processor; `costs` what a block takes.
//! * `access` is what happens before an access to memory; `hot` the few words that decide most of them at once;
//!   `repeated` what else string instructions need.
//! * `simulator` knows who has the turn and what time it is for whom; `schedule` which thread has which core; `spin`
//!   finds threads that only wait for a line; `baton` passes the turn between the host's threads; `arrivals` tells a
//!   parent of its new thread.
//! * `free` are the lines that cost nothing, and `lock_waits` the waiting that does not count, if they are locks.
//! * `calls` and `syscalls` are what happens before and after a system call; `futex`, `clock`, `files`, `guest`,
//!   `mappings`, `births` and `follow` are the calls that the simulator makes itself or changes; `image` is this plugin for what is
//!   executed.
//! * `code` knows which file is mapped where; `functions` hears of calls and returns; `allocations`, `stacks` and `witness` find
//!   out which object a line belongs to, and who called.
//! * `processes` are those on the machine, `children` how they wait for one another, `spaces` which memory lies where in them, `tables` what a core may do at the addresses of
//!   the one that has it; `common` and `heap` are the memory that they have in common, and `latch` its lock.
//! * `chaos` holds threads back where it hurts, if that is asked for.
//! * `report` adds up and writes the result; `dying` and `killed` see to it that a process that a signal ends leaves one.

pub(crate) mod access;
pub(crate) mod allocations;
pub(crate) mod architecture;
pub(crate) mod arrivals;
pub(crate) mod baton;
pub(crate) mod births;
pub(crate) mod calls;
pub(crate) mod chaos;
pub(crate) mod children;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod common;
pub(crate) mod costs;
pub(crate) mod dying;
pub(crate) mod elf;
pub(crate) mod files;
pub(crate) mod follow;
pub(crate) mod free;
pub(crate) mod functions;
pub(crate) mod futex;
pub(crate) mod guest;
pub(crate) mod heap;
pub(crate) mod hot;
pub(crate) mod image;
pub(crate) mod interrupts;
pub(crate) mod killed;
pub(crate) mod kind;
pub(crate) mod latch;
pub(crate) mod lock_waits;
pub(crate) mod mappings;
pub(crate) mod marks;
pub(crate) mod memory;
pub(crate) mod numbers;
pub(crate) mod processes;
pub(crate) mod qemu;
pub(crate) mod random;
pub(crate) mod ready;
pub(crate) mod region;
pub(crate) mod registers;
pub(crate) mod repeated;
pub(crate) mod report;
pub(crate) mod schedule;
pub(crate) mod settings;
pub(crate) mod siblings;
pub(crate) mod simulator;
pub(crate) mod spaces;
pub(crate) mod spin;
pub(crate) mod stacks;
pub(crate) mod syscalls;
pub(crate) mod tables;
pub(crate) mod thread;
pub(crate) mod translate;
pub(crate) mod verify;
pub(crate) mod waits;
pub(crate) mod witness;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::plugin::hot::HOT;
use crate::plugin::qemu::{Information, PluginId};
use crate::plugin::report::Ending;
use crate::plugin::settings::Settings;
use crate::plugin::simulator::{Simulator, simulator};

/// The status with which the process ends when the simulator cannot go on.
const FAILED: i32 = 125;
/// The number from which on a copy of the error output is kept: the guest closes the low ones.
pub(crate) const HIGH_FILE: c_int = 900;
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

/// Ends the process with these bytes on the error output, where nothing may be allocated.
pub(crate) fn leave_with(message: &[u8]) -> ! {
    // SAFETY: the bytes are valid.
    let _ = unsafe { write(2, message.as_ptr().cast(), message.len()) };
    leave(FAILED)
}

/// Ends the process because the simulator cannot go on.
pub(crate) fn fatal(message: &str) -> ! {
    say(message);
    leave(FAILED)
}

/// Called by QEMU when it has loaded the plugin.
///
/// # Safety
///
/// As QEMU documents: the arguments are as many as it says.
#[cfg_attr(percolog_plugin, unsafe(no_mangle))]
unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    information: *const Information,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: a valid command.
    let copy = unsafe { fcntl(2, F_DUPFD_CLOEXEC, HIGH_FILE) };
    if copy >= 0 {
        // Relaxed: no other thread runs yet.
        MESSAGES.store(copy, Ordering::Relaxed);
    }
    let (mut config, mut memory) = (None, None);
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: QEMU gives as many strings as it says.
        let argument = unsafe { CStr::from_ptr(*arguments.add(index)) };
        match argument.to_str().ok().and_then(|text| text.split_once('=')) {
            Some(("config", path)) => config = Some(path.to_owned()),
            Some(("memory", number)) => memory = Some(number.to_owned()),
            _ => {}
        }
    }
    // SAFETY: it is what QEMU gave.
    let prepared = unsafe { qemu::load(information) }
        .and_then(|()| memory.map_or(Ok(()), |number| image::take_over(&number)))
        .and_then(|()| prepare(id, config));
    match prepared {
        Ok(()) => 0,
        Err(message) => fatal(&message),
    }
}

fn prepare(id: PluginId, config: Option<String>) -> Result<(), String> {
    let config = config.ok_or("the plugin needs `config=FILE`; start it with `percolog sim`")?;
    let text = std::fs::read_to_string(&config)
        .map_err(|error| format!("cannot read the settings in {config}: {error}"))?;
    let settings = Settings::parse(&text, &config)?;
    share();
    translate::prepare(&settings);
    region::Part::prepare(&settings);
    code::prepare(settings.objects, settings.region_functions.clone());
    Simulator::start(settings);
    dying::watch();
    killed::watch();
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

/// Has the simulation shared with the processes that the guest forks.
fn share() {
    heap::share();
    HOT.share();
    baton::share();
    kind::share();
    functions::share();
    processes::share();
    simulator::share();
}

/// Whether the first thread of the process has begun.
static BEGUN: AtomicBool = AtomicBool::new(false);

extern "C" fn thread_begins(_id: PluginId, vcpu: c_uint) {
    // Relaxed: there is no other thread when the first one begins.
    let first = !BEGUN.swap(true, Ordering::Relaxed);
    if !first && baton::state().is_null() {
        // The new thread says so itself, when its parent may be on its way already.
        arrivals::announce(vcpu);
        return;
    }
    if baton::is_draining() {
        return;
    }
    if first {
        calls::first_thread();
    }
    let thread = processes::number(vcpu);
    // SAFETY: the parent has the turn, or this is the first thread of the process.
    unsafe { simulator() }.begin_thread(thread);
}

extern "C" fn thread_ends(_id: PluginId, vcpu: c_uint) {
    let thread = hot::thread_of(vcpu) as usize;
    if baton::is_draining() || !HOT.has_turn(vcpu) {
        simulator::end_let_go(thread);
        return;
    }
    // SAFETY: the thread has kept the turn since its last system call.
    let simulator = unsafe { simulator() };
    let clear_tid = simulator.threads[thread].clear_tid;
    futex::thread_exited(simulator, thread, clear_tid);
    simulator.end_thread(thread);
}

extern "C" fn process_ends(_id: PluginId, _data: *mut c_void) {
    let (compared, different) = verify::result();
    if processes::is_over() {
        return;
    }
    // SAFETY: QEMU calls this when every other thread is outside translated code, and there is no other process.
    let simulator = unsafe { simulator() };
    if simulator.settings.verify {
        say(&format!(
            "verify: {compared} addresses compared, {different} different"
        ));
    }
    simulator.finish(Ending::Signal(0));
}
