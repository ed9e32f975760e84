//! What a mark is on a real kernel: one system call with the documented registers, refused, and nothing else.
//!
//! A seccomp filter hands the marks' system call, and no other, to a signal handler, which notes the registers and answers in the
//! place of a simulator. A filter holds for one thread, so each check has a thread of its own.

#![cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::process::Command;
use std::{io, mem, thread};

use percolog_roi::protocol;

/// The five arguments of a mark.
type Mark = [u64; 5];

thread_local! {
    /// What the handler has seen. Statically initialized and without a destructor, so that a signal handler may use it.
    static SEEN: Cell<Option<Mark>> = const { Cell::new(None) };
    /// What the handler answers.
    static ANSWER: Cell<i64> = const { Cell::new(0) };
}

extern "C" fn note(_signal: c_int, _information: *mut libc::siginfo_t, context: *mut c_void) {
    let context: *mut libc::ucontext_t = context.cast();
    // SAFETY: the kernel passes the interrupted thread's context to a handler installed with SA_SIGINFO, and nobody else has it.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let get = |register: c_int| registers[register as usize] as u64;
    SEEN.set(Some([
        get(libc::REG_RDI),
        get(libc::REG_RSI),
        get(libc::REG_RDX),
        get(libc::REG_R10),
        get(libc::REG_R8),
    ]));
    registers[libc::REG_RAX as usize] = ANSWER.get();
}

/// Runs `body` on a thread whose marks are answered with `answer`, and returns what that returns.
fn answered<R: Send>(answer: i64, body: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| {
        scope
            .spawn(move || {
                ANSWER.set(answer);
                trap().expect("a seccomp filter can be installed without privileges");
                body()
            })
            .join()
            .expect("the body does not panic")
    })
}

/// From here on the marks of this thread go to [`note`].
fn trap() -> io::Result<()> {
    // SAFETY: the handler only touches the thread-locals above and the context that it is given.
    let result = unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = note;
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut())
    };
    check(result)?;
    let statement = |code: u32, jump: (u8, u8), k: u32| libc::sock_filter {
        code: u16::try_from(code).expect("instruction codes are 16 bits"),
        jt: jump.0,
        jf: jump.1,
        k,
    };
    // The number of the call is the first word of what a filter sees.
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            (0, 1),
            protocol::SYSTEM_CALL as u32,
        ),
        statement(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_TRAP),
        statement(libc::BPF_RET | libc::BPF_K, (0, 0), libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the arguments are those that prctl wants for each of the two; the program outlives the call.
    let result = unsafe {
        let privileges = libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if privileges != 0 {
            privileges
        } else {
            libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
        }
    };
    check(result)
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[test]
fn marks_pass_the_documented_registers() {
    answered(0, || {
        assert!(percolog_roi::begin());
        assert_eq!(SEEN.take().map(|seen| seen[0]), Some(protocol::BEGIN));

        assert!(percolog_roi::end(u64::MAX - 7));
        let seen = SEEN.take().expect("a mark");
        assert_eq!(seen[..2], [protocol::END, u64::MAX - 7]);

        let value = [0_u16; 100];
        let name = "two hundred bytes";
        assert!(percolog_roi::label(&value, name));
        let address = |pointer: *const c_void| pointer.addr() as u64;
        let expected = [
            protocol::LABEL,
            address(value.as_ptr().cast()),
            200,
            address(name.as_ptr().cast()),
            17,
        ];
        assert_eq!(SEEN.take(), Some(expected));

        // A value whose size only its reference knows.
        assert!(percolog_roi::label(&value[10..20], name));
        assert_eq!(SEEN.take().map(|seen| seen[2]), Some(20));

        assert!(percolog_roi::label_raw(4096 as *const (), 12, ""));
        let seen = SEEN.take().expect("a mark");
        assert_eq!((seen[1], seen[2], seen[4]), (4096, 12, 0));

        assert!(percolog_roi::core(255));
        let seen = SEEN.take().expect("a mark");
        assert_eq!(seen[..2], [protocol::CORE, 255]);
    });
}

#[test]
fn a_mark_that_is_refused_says_so() {
    answered(-i64::from(libc::EINVAL), || {
        assert!(!percolog_roi::core(1_000_000));
        assert!(SEEN.take().is_some());
    });
}

/// The kernel that runs this test has no such system call. (Under the simulator the marks are answered: then this says nothing.)
#[test]
fn a_real_kernel_refuses_and_leaves_errno_alone() {
    if std::env::var_os("PERCOLOG_SIM_INSIDE").is_some() {
        return;
    }
    let outcome = {
        // SAFETY: the calling thread's own errno.
        unsafe { *libc::__errno_location() = 4242 };
        [
            percolog_roi::begin(),
            percolog_roi::end(1),
            percolog_roi::label(&1_u8, "one"),
            percolog_roi::core(0),
        ]
    };
    // SAFETY: as above.
    assert_eq!(unsafe { *libc::__errno_location() }, 4242);
    assert_eq!(outcome, [false; 4]);
}

/// A C function as the header defines it.
struct Functions {
    constant: extern "C" fn(c_int) -> u64,
    begin: extern "C" fn() -> c_int,
    end: extern "C" fn(u64) -> c_int,
    label: extern "C" fn(*const c_void, usize, *const c_char) -> c_int,
    core: extern "C" fn(usize) -> c_int,
}

/// Compiles the header with `compiler` in the given language and standard; `None` where there is no such compiler.
fn compile(compiler: &str, language: &str, standard: &str) -> Option<Functions> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("marks-{compiler}-{standard}.so"));
    let output = match Command::new(compiler)
        .args([
            "-x", language, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra",
        ])
        .args(["-pedantic", "-Werror", "-I"])
        .arg(root.join("include"))
        .arg(format!("-std={standard}"))
        .arg(root.join("tests/marks.c"))
        .arg("-o")
        .arg(&library)
        .output()
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        output => output.expect("the compiler starts"),
    };
    assert!(
        output.status.success(),
        "{compiler} -std={standard}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let path = CString::new(library.into_os_string().into_encoded_bytes()).expect("no zero byte");
    // SAFETY: a library without initializers of its own; it stays loaded.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "{path:?} cannot be loaded");
    let find = |name: &std::ffi::CStr| {
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?} is missing");
        symbol
    };
    // SAFETY: these are the types with which marks.c defines the functions.
    Some(unsafe {
        Functions {
            constant: mem::transmute::<*mut c_void, extern "C" fn(c_int) -> u64>(find(c"constant")),
            begin: mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(find(c"call_begin")),
            end: mem::transmute::<*mut c_void, extern "C" fn(u64) -> c_int>(find(c"call_end")),
            label: mem::transmute::<
                *mut c_void,
                extern "C" fn(*const c_void, usize, *const c_char) -> c_int,
            >(find(c"call_label")),
            core: mem::transmute::<*mut c_void, extern "C" fn(usize) -> c_int>(find(c"call_core")),
        }
    })
}

#[test]
fn the_header_makes_the_same_marks() {
    let languages = [
        ("cc", "c", ["c99", "c11"]),
        ("c++", "c++", ["c++98", "c++17"]),
    ];
    for (compiler, language, standards) in languages {
        for standard in standards {
            let Some(functions) = compile(compiler, language, standard) else {
                // Written past the harness, which hides what a passing test prints.
                use std::io::Write;
                let _ = writeln!(
                    io::stderr(),
                    "SKIPPED: the_header_makes_the_same_marks: {compiler} is missing: apt-get install build-essential"
                );
                break;
            };
            let constants = [
                protocol::SYSTEM_CALL,
                protocol::BEGIN,
                protocol::END,
                protocol::LABEL,
                protocol::CORE,
            ];
            for (which, expected) in (0..).zip(constants) {
                assert_eq!((functions.constant)(which), expected);
            }
            let name = c"name";
            answered(0, || {
                let arguments = |count: usize| {
                    let seen: Option<Mark> = SEEN.take();
                    seen.map(|seen| seen[..count].to_vec())
                };
                assert_eq!((functions.begin)(), 1);
                assert_eq!(arguments(1), Some(vec![protocol::BEGIN]));
                assert_eq!((functions.end)(u64::MAX - 7), 1);
                assert_eq!(arguments(2), Some(vec![protocol::END, u64::MAX - 7]));
                assert_eq!((functions.core)(255), 1);
                assert_eq!(arguments(2), Some(vec![protocol::CORE, 255]));
                let memory = 4096 as *const c_void;
                assert_eq!((functions.label)(memory, 12, name.as_ptr()), 1);
                let name = name.as_ptr().addr() as u64;
                assert_eq!(arguments(5), Some(vec![protocol::LABEL, 4096, 12, name, 4]));
            });
            answered(-i64::from(libc::ENOSYS), || {
                assert_eq!((functions.begin)(), 0);
            });
        }
    }
}
