//! Numbers for paths, and what may be told of them.

use crate::trace::event::{File, FileKind, Names};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

/// Folders whose files belong to the operating system: their names say nothing about who recorded.
const SYSTEM: [&str; 6] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/etc/"];
/// ... except where people put their own.
const OWN: &str = "/usr/local/";

/// The files seen so far.
pub(super) struct Files {
    numbers: HashMap<Vec<u8>, u32>,
    files: Vec<File>,
    /// How long all their paths are.
    path_bytes: u64,
    /// Whether there is such a file, as far as is known.
    exist: Vec<Option<bool>>,
    names: Names,
    /// The key of this recording's hashes.
    key: RandomState,
}

impl Files {
    pub(super) fn new(names: Names) -> Files {
        Files {
            numbers: HashMap::new(),
            files: Vec::new(),
            path_bytes: 0,
            exist: Vec::new(),
            names,
            key: RandomState::new(),
        }
    }

    /// The number of the file at `path`.
    pub(super) fn number(&mut self, path: &[u8]) -> u32 {
        if let Some(&number) = self.numbers.get(path) {
            return number;
        }
        let number = self.files.len() as u32;
        self.path_bytes += path.len() as u64;
        self.numbers.insert(path.to_vec(), number);
        self.files.push(File {
            kind: kind(path),
            name: self.name(path),
        });
        self.exist.push(None);
        number
    }

    /// How long the paths of all files are.
    pub(super) fn path_bytes(&self) -> u64 {
        self.path_bytes
    }

    /// The number of the program at `path`.
    pub(super) fn program(&mut self, path: &[u8]) -> u32 {
        let number = self.number(path);
        self.files[number as usize].kind = FileKind::Program;
        number
    }

    /// Whether there is such a file; `None` when nobody has said so yet.
    pub(super) fn exists(&self, file: u32) -> Option<bool> {
        self.exist[file as usize]
    }

    pub(super) fn set_exists(&mut self, file: u32, exists: bool) {
        self.exist[file as usize] = Some(exists);
    }

    pub(super) fn into_files(self) -> Vec<File> {
        self.files
    }

    /// What is told of a path.
    fn name(&self, path: &[u8]) -> String {
        let text = String::from_utf8_lossy(path);
        match self.names {
            Names::All => text.into_owned(),
            Names::System if belongs_to_system(&text) => last_name(&text).to_owned(),
            // The upper half; all bits of a keyed hash are as good as any.
            Names::None | Names::System => format!("#{:08x}", self.key.hash_one(path) >> 32),
        }
    }
}

fn belongs_to_system(path: &str) -> bool {
    SYSTEM.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(OWN)
}

fn last_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// A removed file keeps the path that it had.
fn true_path(path: &[u8]) -> &[u8] {
    path.strip_suffix(b" (deleted)").unwrap_or(path)
}

/// The path behind a descriptor; `None` for what has none: a pipe, a socket.
pub(super) fn absolute(path: &[u8]) -> Option<Vec<u8>> {
    path.starts_with(b"/").then(|| true_path(path).to_vec())
}

/// `path` as seen from `folder`.
pub(super) fn join(folder: &[u8], path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"/") {
        normal(path)
    } else {
        normal(&[folder, b"/", path].concat())
    }
}

/// The absolute path without `.`, `..` and empty names, as text: symbolic links are not followed.
fn normal(path: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => {
                names.pop();
            }
            _ => names.push(name),
        }
    }
    let mut normal = Vec::with_capacity(path.len());
    for name in &names {
        normal.push(b'/');
        normal.extend_from_slice(name);
    }
    if names.is_empty() {
        normal.push(b'/');
    }
    normal
}

/// Whether a path means a file whose pages a reverse map would track: not a device, a pipe, a socket.
pub(super) fn is_mappable(path: &[u8]) -> bool {
    path.starts_with(b"/")
        && !["/proc/", "/sys/", "/anon_hugepage", "/SYSV", "/[aio]"]
            .iter()
            .any(|prefix| path.starts_with(prefix.as_bytes()))
        && (!path.starts_with(b"/dev/") || path.starts_with(b"/dev/shm/"))
}

/// What a path says of its file.
fn kind(path: &[u8]) -> FileKind {
    let text = String::from_utf8_lossy(path);
    let name = last_name(&text);
    let ends = |endings: &[&str]| {
        endings.iter().any(|ending| {
            name.strip_suffix(ending)
                .is_some_and(|stem| !stem.is_empty())
        })
    };
    if text.contains("/locale/") || text.contains("/gconv/") || name == "ld.so.cache" {
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe(names: Names, path: &str) -> File {
        let mut files = Files::new(names);
        files.number(path.as_bytes());
        files.into_files().remove(0)
    }

    fn is_hash(name: &str) -> bool {
        name.len() == 9
            && name.starts_with('#')
            && name[1..].bytes().all(|byte| byte.is_ascii_hexdigit())
    }

    #[test]
    fn only_the_systems_names_are_told() {
        let path = "/usr/lib/x86_64-linux-gnu/libc.so.6";
        let system = describe(Names::System, path);
        assert_eq!(
            (system.kind, system.name.as_str()),
            (FileKind::Library, "libc.so.6")
        );
        assert_eq!(describe(Names::All, path).name, path);
        assert!(is_hash(&describe(Names::None, path).name));
        for (path, kind) in [
            ("/home/ann/secret.o", FileKind::Object),
            ("/home/ann/libsecret.so.1", FileKind::Library),
            ("/usr/local/lib/libsecret.so", FileKind::Library),
            ("/tmp/ccAbCd.s", FileKind::Temporary),
            ("/home/ann/main.c", FileKind::Source),
            ("/home/ann/data", FileKind::Other),
        ] {
            let file = describe(Names::System, path);
            assert_eq!(file.kind, kind, "{path}");
            assert!(is_hash(&file.name), "{path}: {}", file.name);
        }
        let mut files = Files::new(Names::All);
        files.number(b"/home/ann/x.c");
        files.program(b"/home/ann/x.c");
        assert_eq!(files.into_files()[0].kind, FileKind::Program);
    }

    #[test]
    fn hashes_differ_between_files_and_between_recordings() {
        let mut files = Files::new(Names::None);
        files.number(b"/a");
        files.number(b"/b");
        files.number(b"/a");
        let files = files.into_files();
        assert_eq!(files.len(), 2);
        assert_ne!(files[0].name, files[1].name);
        assert_ne!(describe(Names::None, "/a").name, files[0].name);
    }

    #[test]
    fn paths_become_absolute_and_normal() {
        for (path, expected) in [
            ("x", "/a/b/x"),
            ("./x//y/", "/a/b/x/y"),
            ("../x", "/a/x"),
            ("../../../../x", "/x"),
            ("/c/./d/../e", "/c/e"),
            ("..", "/a"),
            ("/", "/"),
            ("/..", "/"),
        ] {
            assert_eq!(
                join(b"/a/b", path.as_bytes()),
                expected.as_bytes(),
                "{path}"
            );
        }
        assert_eq!(join(b"/", b"x"), b"/x");
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
