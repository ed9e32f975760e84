//! Numbers for paths, and what may be told of them.

use crate::trace::event::{File, FileKind};
use std::collections::HashMap;

/// Folders whose files belong to the operating system: their names say nothing about who recorded.
const SYSTEM: [&str; 6] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/"];
/// ... except where people put their own.
const OWN: &str = "/usr/local/";

/// The files seen so far.
#[derive(Debug, Default)]
pub(super) struct Files {
    numbers: HashMap<Vec<u8>, u32>,
    files: Vec<File>,
}

impl Files {
    /// The number of the file at `path`; `executed` when a process ran it.
    pub(super) fn number(&mut self, path: &[u8], executed: bool) -> u32 {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        let number = self.files.len() as u32;
        self.numbers.insert(path.to_vec(), number);
        self.files.push(describe(path, executed));
        number
    }

    pub(super) fn into_files(self) -> Vec<File> {
        self.files
    }
}

/// Whether a path means a file whose pages a reverse map would track: not a device, a pipe, a socket.
pub(super) fn is_mappable(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && !["/proc/", "/sys/", "/anon_hugepage", "/SYSV", "/[aio]"]
            .iter()
            .any(|prefix| path.starts_with(prefix.as_bytes()))
        && (!path.starts_with(b"/dev/") || path.starts_with(b"/dev/shm/"))
}

fn describe(path: &[u8], executed: bool) -> File {
    let text = String::from_utf8_lossy(path);
    let name = text.rsplit('/').next().unwrap_or_default();
    let ends = |endings: &[&str]| {
        endings.iter().any(|ending| {
            name.strip_suffix(ending)
                .is_some_and(|stem| !stem.is_empty())
        })
    };
    let kind = if executed {
        FileKind::Program
    } else if text.contains("/locale/") || text.contains("/gconv/") || name == "ld.so.cache" {
        FileKind::Locale
    } else if ends(&[".so"]) || name.contains(".so.") {
        FileKind::Library
    } else if ends(&[".o", ".lo", ".a", ".obj"]) {
        FileKind::Object
    } else if text.starts_with("/tmp/")
        || text.starts_with("/var/tmp/")
        || text.starts_with("/dev/shm/")
    {
        FileKind::Temporary
    } else if ends(&[".c", ".h", ".cc", ".cpp", ".s", ".S", ".i"]) {
        FileKind::Source
    } else {
        FileKind::Other
    };
    let belongs_to_system =
        SYSTEM.iter().any(|folder| text.starts_with(folder)) && !text.starts_with(OWN);
    File {
        kind,
        name: if belongs_to_system {
            name.to_owned()
        } else {
            String::new()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_systems_names_are_told() {
        let system = describe(b"/usr/lib/x86_64-linux-gnu/libc.so.6", false);
        assert_eq!(
            (system.kind, system.name.as_str()),
            (FileKind::Library, "libc.so.6")
        );
        for (path, executed, kind) in [
            ("/home/ann/secret.o", false, FileKind::Object),
            ("/home/ann/secret", true, FileKind::Program),
            ("/home/ann/libsecret.so.1", false, FileKind::Library),
            ("/usr/local/lib/libsecret.so", false, FileKind::Library),
            ("/tmp/ccAbCd.s", false, FileKind::Temporary),
            ("/home/ann/main.c", false, FileKind::Source),
            ("/home/ann/data", false, FileKind::Other),
        ] {
            let file = describe(path.as_bytes(), executed);
            assert_eq!((file.kind, file.name.as_str()), (kind, ""), "{path}");
        }
    }

    #[test]
    fn devices_and_pipes_are_no_files() {
        for path in [
            "/dev/null",
            "/proc/self/maps",
            "pipe:[12]",
            "socket:[3]",
            "anon_inode:[eventfd]",
        ] {
            assert!(!is_mappable(path.as_bytes()), "{path}");
        }
        for path in ["/dev/shm/x", "/tmp/x", "/memfd:name (deleted)"] {
            assert!(is_mappable(path.as_bytes()), "{path}");
        }
    }
}
