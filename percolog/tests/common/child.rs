//! Forking.

/// Forks, runs `child` there, and fails if that says what is wrong, or hangs. It starts no thread: ThreadSanitizer ends a child
/// that does.
#[track_caller]
pub(crate) fn in_a_child(child: impl FnOnce() -> Result<(), u8>) {
    // SAFETY: the child allocates, which the C libraries that there are allow; it takes no lock of this program's, and
    // leaves by `_exit`.
    unsafe {
        match libc::fork() {
            -1 => panic!("fork: {}", std::io::Error::last_os_error()),
            0 => {
                libc::alarm(600);
                libc::_exit(child().err().map_or(0, i32::from));
            }
            pid => {
                let mut status = 0;
                assert_eq!(libc::waitpid(pid, &raw mut status, 0), pid);
                assert!(
                    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
                    "the child's status is {status:#x}"
                );
            }
        }
    }
}

/// What went wrong in a child, if anything did.
pub(crate) fn check(is_right: bool, otherwise: u8) -> Result<(), u8> {
    if is_right { Ok(()) } else { Err(otherwise) }
}
