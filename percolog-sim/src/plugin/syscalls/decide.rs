//! What each system call means on the described machine.

use super::{Call, Change, Step, Then};
use crate::plugin::baton;
use crate::plugin::births;
use crate::plugin::children;
use crate::plugin::clock;
use crate::plugin::files;
use crate::plugin::follow;
use crate::plugin::futex;
use crate::plugin::guest;
use crate::plugin::interrupts;
use crate::plugin::mappings;
use crate::plugin::marks::{self, MARK};
use crate::plugin::numbers as n;
use crate::plugin::ready;
use crate::plugin::registers::Registers;
use crate::plugin::report::Ending;
use crate::plugin::simulator::Simulator;

/// The process is about to act as another user, who has to be able to write its result too: a server begins as root, and
/// goes on as somebody with fewer rights.
fn becomes(sim: &Simulator, user: u64) -> Step {
    // The kernel reads 32 bits, of which all ones mean that nothing changes. Whoever may not give the folder away may
    // not become another user either, and then the call fails.
    if user as u32 != u32::MAX {
        let _ = std::os::unix::fs::chown(&sim.settings.result, Some(user as u32), None);
    }
    Step::Quick
}

/// What is done about a call that this thread makes at `pc`.
pub(super) fn decide(sim: &mut Simulator, call: &Call, regs: &Registers, pc: u64) -> Step {
    let [first, second, third, ..] = call.arguments;
    match call.number {
        n::FUTEX => futex::call(sim, call),

        n::CLOCK_GETTIME => clock::clock_gettime(sim, call),
        n::GETTIMEOFDAY => clock::gettimeofday(sim, call),
        n::TIME => clock::time(sim, call),
        n::TIMES => clock::times(sim, call),
        n::GETRUSAGE => clock::getrusage(sim, call),
        n::NANOSLEEP => clock::nanosleep(sim, call),
        n::CLOCK_NANOSLEEP => clock::clock_nanosleep(sim, call),
        n::SCHED_YIELD => {
            sim.yield_core();
            Step::Done(0)
        }
        n::ALARM | n::SETITIMER | n::TIMER_SETTIME | n::TIMERFD_SETTIME => {
            sim.unreproducible("timers of the host");
            Step::Quick
        }

        n::SCHED_GETAFFINITY => guest::get_affinity(sim, call),
        n::SCHED_SETAFFINITY => guest::set_affinity(sim, call),
        n::GETCPU => guest::getcpu(sim, call),
        n::GETRANDOM => guest::getrandom(sim, call),

        n::OPEN
        | n::OPENAT
        | n::OPENAT2
        | n::CREAT
        | n::STAT
        | n::LSTAT
        | n::NEWFSTATAT
        | n::STATX
        | n::ACCESS
        | n::FACCESSAT
        | n::FACCESSAT2
        | n::READLINK
        | n::READLINKAT => files::call(sim, call),

        n::POLL
        | n::PPOLL
        | n::SELECT
        | n::PSELECT6
        | n::EPOLL_WAIT
        | n::EPOLL_PWAIT
        | n::EPOLL_PWAIT2 => ready::wait(sim, call),
        n::READ
        | n::READV
        | n::PREAD64
        | n::PREADV
        | n::PREADV2
        | n::RECVFROM
        | n::RECVMSG
        | n::RECVMMSG
        | n::ACCEPT
        | n::ACCEPT4 => ready::input(sim, call),
        n::WRITE
        | n::WRITEV
        | n::PWRITE64
        | n::PWRITEV
        | n::PWRITEV2
        | n::SENDTO
        | n::SENDMSG
        | n::SENDMMSG => ready::output(call),
        n::CONNECT | n::SENDFILE | n::SPLICE | n::TEE | n::VMSPLICE => {
            sim.unreproducible(ready::INPUT_OUTPUT);
            Step::Blocks
        }

        n::MMAP => mappings::map(sim, call, regs, pc),
        n::MREMAP => mappings::remap(sim, call),
        n::MUNMAP => mappings::unmap(sim, call),
        n::MPROTECT => mappings::protect(sim, call),
        n::MADVISE => interrupts::advise(sim, call),
        n::MEMBARRIER => interrupts::barrier(sim, call),
        n::SHMAT => mappings::attach(),
        n::SHMDT => mappings::detach(sim, call),

        n::ARCH_PRCTL if first == SET_FS => {
            Step::Changed(Change::followed_by(Then::ThreadPointer(second)))
        }
        n::CLONE => births::clone(sim, call, regs),
        n::FORK | n::VFORK => births::fork(sim),
        n::SET_TID_ADDRESS => {
            let me = sim.current();
            sim.threads[me].clear_tid = first;
            // The emulator need not know: see `clone`.
            Step::Changed(Change {
                number: None,
                arguments: vec![(0, 0)],
                ..Change::nothing(Then::Nothing)
            })
        }
        n::EXECVE | n::EXECVEAT => follow::execute(sim, call),
        n::EXIT => {
            if sim.alive() <= 1 {
                sim.end_this_process(Ending::Exit(first as u8 as i32));
            }
            Step::Quick
        }
        n::EXIT_GROUP => {
            if !sim.end_this_process(Ending::Exit(first as u8 as i32)) {
                baton::set_ending(true);
                sim.drain();
            }
            Step::Quick
        }

        n::SETUID => becomes(sim, first),
        n::SETREUID | n::SETRESUID => becomes(sim, second),

        n::RT_SIGACTION => {
            sim.guest().note_handler(first, second);
            Step::Quick
        }
        n::KILL | n::TKILL => births::signal(sim, first as i32, second),
        n::TGKILL => births::signal(sim, second as i32, third),

        n::WAIT4 => children::wait4(sim, call),
        n::WAITID => children::waitid(sim, call),
        n::PAUSE | n::RT_SIGSUSPEND | n::RT_SIGTIMEDWAIT => {
            sim.unreproducible("waiting for signals");
            Step::Blocks
        }
        n::FCNTL if !matches!(second, 7 | 38) => Step::Quick,
        n::FCNTL | n::FLOCK => {
            // Locks of files: between threads of one process they seldom block.
            sim.unreproducible("locks of files");
            Step::Blocks
        }
        n::SEMOP | n::SEMTIMEDOP | n::MSGSND | n::MSGRCV | n::MQ_TIMEDSEND | n::MQ_TIMEDRECEIVE => {
            sim.unreproducible("semaphores or messages between processes");
            Step::Blocks
        }
        n::IO_GETEVENTS | n::IO_PGETEVENTS | n::IO_URING_ENTER => {
            sim.unreproducible(ready::INPUT_OUTPUT);
            Step::Blocks
        }
        n::FUTEX_WAITV => {
            sim.unreproducible("waiting for several futexes");
            Step::Blocks
        }

        MARK => Step::Done(marks::mark(sim, call)),
        number if number <= n::LAST_OLD || is_quick_and_new(number) => Step::Quick,
        _ => {
            sim.unreproducible("a system call that the simulator does not know");
            Step::Blocks
        }
    }
}

/// Calls of the numbering for all architectures that do not block: processes by descriptor, `clone3` (which the emulator
/// does not have), closing of ranges, mount and landlock calls, and advice about memory.
fn is_quick_and_new(number: u64) -> bool {
    matches!(number, 424 | 425 | 427..=440 | 442..=448 | 450..=453)
}

/// `ARCH_SET_FS`
const SET_FS: u64 = 0x1002;
