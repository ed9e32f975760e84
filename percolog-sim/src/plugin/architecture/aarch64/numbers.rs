//! System calls of aarch64, whose numbers are Linux's general ones, and their numbers on x86-64.
//!
//! From 424 on both have the same numbers. Of those before only the calls are listed that the simulator looks at; the
//! others it leaves to the host, whatever they are. Their arguments are the same, but for the order of those of `clone`.

use crate::plugin::numbers as n;

/// In the order of the numbers on aarch64.
const NUMBERS: &[(u64, u64)] = &[
    (4, n::IO_GETEVENTS),
    (22, n::EPOLL_PWAIT),
    (25, n::FCNTL),
    (32, n::FLOCK),
    (48, n::FACCESSAT),
    (56, n::OPENAT),
    (63, n::READ),
    (64, n::WRITE),
    (65, n::READV),
    (66, n::WRITEV),
    (67, n::PREAD64),
    (68, n::PWRITE64),
    (69, n::PREADV),
    (70, n::PWRITEV),
    (71, n::SENDFILE),
    (72, n::PSELECT6),
    (73, n::PPOLL),
    (75, n::VMSPLICE),
    (76, n::SPLICE),
    (77, n::TEE),
    (78, n::READLINKAT),
    (79, n::NEWFSTATAT),
    (86, n::TIMERFD_SETTIME),
    (93, n::EXIT),
    (94, n::EXIT_GROUP),
    (95, n::WAITID),
    (96, n::SET_TID_ADDRESS),
    (98, n::FUTEX),
    (101, n::NANOSLEEP),
    (103, n::SETITIMER),
    (110, n::TIMER_SETTIME),
    (113, n::CLOCK_GETTIME),
    (115, n::CLOCK_NANOSLEEP),
    (122, n::SCHED_SETAFFINITY),
    (123, n::SCHED_GETAFFINITY),
    (124, n::SCHED_YIELD),
    (129, n::KILL),
    (130, n::TKILL),
    (131, n::TGKILL),
    (133, n::RT_SIGSUSPEND),
    (134, n::RT_SIGACTION),
    (137, n::RT_SIGTIMEDWAIT),
    (139, n::RT_SIGRETURN),
    (145, n::SETREUID),
    (146, n::SETUID),
    (147, n::SETRESUID),
    (153, n::TIMES),
    (165, n::GETRUSAGE),
    (168, n::GETCPU),
    (169, n::GETTIMEOFDAY),
    (172, n::GETPID),
    (182, n::MQ_TIMEDSEND),
    (183, n::MQ_TIMEDRECEIVE),
    (188, n::MSGRCV),
    (189, n::MSGSND),
    (192, n::SEMTIMEDOP),
    (193, n::SEMOP),
    (196, n::SHMAT),
    (197, n::SHMDT),
    (202, n::ACCEPT),
    (203, n::CONNECT),
    (206, n::SENDTO),
    (207, n::RECVFROM),
    (211, n::SENDMSG),
    (212, n::RECVMSG),
    (215, n::MUNMAP),
    (216, n::MREMAP),
    (220, n::CLONE),
    (221, n::EXECVE),
    (222, n::MMAP),
    (226, n::MPROTECT),
    (233, n::MADVISE),
    (242, n::ACCEPT4),
    (243, n::RECVMMSG),
    (260, n::WAIT4),
    (269, n::SENDMMSG),
    (278, n::GETRANDOM),
    (281, n::EXECVEAT),
    (283, n::MEMBARRIER),
    (286, n::PREADV2),
    (287, n::PWRITEV2),
    (291, n::STATX),
    (292, n::IO_PGETEVENTS),
];

/// The first number that all architectures have in common.
const COMMON: u64 = 424;

/// The number on x86-64 of a call of aarch64.
pub(crate) fn canonical(number: u64) -> u64 {
    // The kernel looks at no more.
    let number = u64::from(number as u32);
    if number >= COMMON {
        return number;
    }
    match NUMBERS.binary_search_by_key(&number, |&(here, _)| here) {
        Ok(at) => NUMBERS[at].1,
        Err(_) => n::OTHER,
    }
}

/// The number on aarch64 of a call of x86-64.
pub(crate) fn native(number: u64) -> u64 {
    NUMBERS
        .iter()
        .find(|&&(_, there)| there == number)
        .map_or(number, |&(here, _)| here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_order_and_none_stands_there_twice() {
        assert!(NUMBERS.is_sorted_by(|one, next| one.0 < next.0));
        for &(here, there) in NUMBERS {
            assert_eq!((canonical(here), native(there)), (there, here));
        }
    }

    #[test]
    fn what_is_not_listed_is_left_to_the_host() {
        // ioctl, brk; statx is there; clone3 and futex_waitv are common; a mark.
        assert_eq!((canonical(29), canonical(214)), (n::OTHER, n::OTHER));
        assert_eq!((canonical(435), canonical(449)), (435, 449));
        assert_eq!(canonical(0x5045_524f), 0x5045_524f);
    }
}
