//! Numbers of Linux on x86-64, into which those of other processors are translated: system calls, and errors as system
//! calls return them.

macro_rules! numbers {
    ($($name:ident = $number:literal,)*) => {
        $(pub(crate) const $name: u64 = $number;)*
    };
}

numbers! {
    READ = 0, WRITE = 1, OPEN = 2, STAT = 4, LSTAT = 6, POLL = 7, RT_SIGACTION = 13, RT_SIGRETURN = 15,
    PREAD64 = 17, PWRITE64 = 18, READV = 19, WRITEV = 20, ACCESS = 21, SELECT = 23, SCHED_YIELD = 24, PAUSE = 34,
    MMAP = 9, MPROTECT = 10, MUNMAP = 11, MREMAP = 25, MADVISE = 28, SHMAT = 30,
    NANOSLEEP = 35, ALARM = 37, SETITIMER = 38, GETPID = 39, SENDFILE = 40, CONNECT = 42, ACCEPT = 43, SENDTO = 44,
    RECVFROM = 45, SENDMSG = 46, RECVMSG = 47, CLONE = 56, FORK = 57, VFORK = 58, EXECVE = 59, EXIT = 60, WAIT4 = 61,
    KILL = 62, SEMOP = 65, SHMDT = 67, MSGSND = 69, MSGRCV = 70, FCNTL = 72, FLOCK = 73, CREAT = 85, READLINK = 89,
    GETTIMEOFDAY = 96, GETRUSAGE = 98, TIMES = 100, SETUID = 105, SETREUID = 113, SETRESUID = 117,
    RT_SIGTIMEDWAIT = 128, RT_SIGSUSPEND = 130, ARCH_PRCTL = 158, TKILL = 200,
    TIME = 201, FUTEX = 202, SCHED_SETAFFINITY = 203, SCHED_GETAFFINITY = 204, IO_GETEVENTS = 208,
    SET_TID_ADDRESS = 218, SEMTIMEDOP = 220, TIMER_SETTIME = 223, CLOCK_GETTIME = 228, CLOCK_NANOSLEEP = 230,
    EXIT_GROUP = 231, EPOLL_WAIT = 232, TGKILL = 234, MQ_TIMEDSEND = 242, MQ_TIMEDRECEIVE = 243, WAITID = 247,
    OPENAT = 257, NEWFSTATAT = 262, READLINKAT = 267, FACCESSAT = 269, PSELECT6 = 270, PPOLL = 271, SPLICE = 275,
    TEE = 276, VMSPLICE = 278, EPOLL_PWAIT = 281, TIMERFD_SETTIME = 286, ACCEPT4 = 288, PREADV = 295, PWRITEV = 296,
    RECVMMSG = 299, SENDMMSG = 307, GETCPU = 309, GETRANDOM = 318, EXECVEAT = 322, MEMBARRIER = 324,
    PREADV2 = 327, PWRITEV2 = 328, STATX = 332, IO_PGETEVENTS = 333, IO_URING_ENTER = 426, OPENAT2 = 437,
    FACCESSAT2 = 439, EPOLL_PWAIT2 = 441, FUTEX_WAITV = 449,
}

/// The last number of the calls that were there before numbers were given to all architectures at once.
pub(crate) const LAST_OLD: u64 = 334;

/// In place of all calls of another processor that concern nobody (`restart_syscall`, which no program makes itself).
pub(crate) const OTHER: u64 = 219;

pub(crate) const EINTR: i64 = -4;
pub(crate) const EAGAIN: i64 = -11;
pub(crate) const EFAULT: i64 = -14;
pub(crate) const EINVAL: i64 = -22;
pub(crate) const ETIMEDOUT: i64 = -110;

/// "Relative to the working directory", in place of a directory.
pub(crate) const AT_FDCWD: i32 = -100;
