//! Whose code a place is: the program's own, or that of a language, a C library, an allocator or a lock, which is never to
//! blame for what the program does with it.

use crate::symbols::{Place, is_of_the_language};

/// Libraries whose functions are called on behalf of others, by the beginnings of their files' names.
const LIBRARIES: [&str; 12] = [
    "libc.so",
    "libc-2",
    "libpthread",
    "ld-linux",
    "ld-musl",
    "libstdc++",
    "libc++",
    "libgcc_s",
    "libm.so",
    "libjemalloc",
    "libmimalloc",
    "libtcmalloc",
];

/// Folders of sources: of what a language's library is built on, of locks, of allocators, and of Go's runtime.
const FOLDERS: [&str; 14] = [
    "/rust/deps/",
    "/parking_lot-",
    "/parking_lot_core-",
    "/lock_api-",
    "/spin-",
    "/spinning_top-",
    "/mimalloc",
    "/libmimalloc-sys-",
    "/jemalloc",
    "/tikv-jemalloc",
    "/go/src/runtime/",
    "/go/src/sync/",
    "/go/src/internal/",
    "/glibc-",
];

/// Go's runtime, and what is built on it: the names of functions begin with their package.
const GO: [&str; 4] = ["runtime.", "sync.", "sync/atomic.", "internal/"];

/// Functions, by the beginnings of their names: for programs without debugging information, and those that are linked
/// with their C library.
const FUNCTIONS: [&str; 37] = [
    "std::",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "__rust",
    "__rdl_",
    // Atomic operations that choose between instructions of older and newer processors.
    "__aarch64_",
    "parking_lot::",
    "parking_lot_core::",
    "<parking_lot::",
    "lock_api::",
    "<lock_api::",
    "pthread_",
    "__pthread_",
    "___pthread_",
    "__lll_",
    "lll_",
    "__libc_",
    "__new_sem",
    "sem_wait",
    "sem_post",
    "_int_",
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "operator new",
    "operator delete",
    "_rjem_",
    "_mi_",
    "mi_",
    "je_",
];

/// Whether a place in the file `module` is not the program's own.
pub(super) fn is_plumbing(place: &Place, module: &str) -> bool {
    let library = module.rsplit('/').next().unwrap_or(module);
    if LIBRARIES.iter().any(|name| library.starts_with(name)) {
        return true;
    }
    // Made in whichever file of the program names its allocator.
    if place.function.starts_with("__rust") {
        return true;
    }
    // Go names the sources of its own packages without their folder in programs that are built with `-trimpath`.
    if GO.iter().any(|package| place.function.starts_with(package)) {
        return true;
    }
    if let Some(file) = &place.file {
        return is_of_the_language(file) || FOLDERS.iter().any(|folder| file.contains(folder));
    }
    FUNCTIONS
        .iter()
        .any(|name| match place.function.strip_prefix(name) {
            None => false,
            // `free` is one of them, `free_list` is not.
            Some(rest) => {
                !name
                    .chars()
                    .all(|sign| sign.is_ascii_lowercase() || sign == '_')
                    || name.ends_with('_')
                    || !rest.starts_with(|sign: char| sign.is_alphanumeric() || sign == '_')
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(function: &str, file: Option<&str>) -> Place {
        Place {
            function: function.to_owned(),
            file: file.map(str::to_owned),
            line: None,
        }
    }

    #[test]
    fn the_program_is_told_from_what_it_calls() {
        for (plumbing, function, file, module) in [
            (
                true,
                "pthread_mutex_lock+0x10 in libc.so.6",
                None,
                "/lib/libc.so.6",
            ),
            (true, "anything", None, "/usr/lib/libstdc++.so.6"),
            (
                true,
                "pthread_mutex_lock+0x10 in static",
                None,
                "/tmp/static",
            ),
            (true, "free+0x8 in static", None, "/tmp/static"),
            (false, "free_list+0x8 in static", None, "/tmp/static"),
            (false, "deposit", Some("/home/me/bank.c"), "/tmp/bank"),
            (
                false,
                "std::looks_like_it",
                Some("/home/me/bank.rs"),
                "/tmp/bank",
            ),
            (
                true,
                "lock",
                Some("/root/.cargo/registry/src/i/parking_lot-0.12.1/src/raw_mutex.rs"),
                "/tmp/bank",
            ),
            (
                true,
                "std::sys::sync::mutex::futex::Mutex::lock_contended+0x1 in bank",
                None,
                "/tmp/bank",
            ),
            (
                true,
                "sync.(*Mutex).lockSlow",
                Some("/usr/local/go/src/sync/mutex.go"),
                "/tmp/go",
            ),
            (false, "main.deposit", Some("/home/me/bank.go"), "/tmp/go"),
            (true, "__aarch64_ldadd8_relax", None, "/tmp/bank"),
            (true, "operator new(unsigned long)", None, "/tmp/bank"),
            (
                true,
                "__rustc::__rust_alloc",
                Some("/home/me/main.rs"),
                "/tmp/bank",
            ),
        ] {
            assert_eq!(
                is_plumbing(&place(function, file), module),
                plumbing,
                "{function} {file:?} {module}"
            );
        }
    }
}
