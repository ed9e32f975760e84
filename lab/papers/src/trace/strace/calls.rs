//! What one complete system call means.

use super::arguments::{Call, descriptor, descriptor_path, failure, number, string, success};
use super::files::{absolute, join};
use super::lines::{Text, Texts};

/// Something that matters.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum What {
    Map {
        address: u64,
        length: u64,
        mapped: Mapped,
        offset: u64,
    },
    Unmap {
        address: u64,
        length: u64,
    },
    Remap(Box<Remap>),
    /// The heap ends here, whether it did before or not.
    Break {
        end: u64,
    },
    /// A program was started; its path if `strace` shows it whole.
    Exec {
        path: Option<Text>,
    },
    Truncate {
        path: Text,
        length: u64,
    },
    ChangeDirectory {
        path: Text,
        /// By its name, not by a descriptor.
        looked: bool,
    },
    Open {
        /// `None`: not a file that has a path.
        path: Option<Text>,
        descriptor: u32,
        how: How,
    },
    Close {
        descriptor: u32,
    },
    CloseRange {
        first: u32,
        last: u32,
        /// Marks them only.
        close_on_exec: bool,
        /// Takes a copy of a shared table first.
        unshare: bool,
    },
    Duplicate {
        from: u32,
        to: u32,
        close_on_exec: bool,
    },
    Inherit {
        descriptor: u32,
        close_on_exec: bool,
    },
    /// A name was looked up, and perhaps is known to exist or not since then.
    Look {
        path: Text,
        exists: Option<bool>,
    },
    Create {
        path: Text,
    },
    Rename {
        from: Text,
        to: Text,
        /// Both names change places.
        exchange: bool,
    },
    Unlink {
        path: Text,
    },
    /// A call that starts a process was entered: its number in [`Log::births`](super::lines::Log::births).
    BirthBegins(usize),
    BirthEnds(usize),
    Exited,
    /// The leader of a process whose thread, of this number, executes a program and takes its place.
    Superseded {
        by: u32,
    },
}

/// What was mapped.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mapped {
    Memory,
    File(Text),
    /// Something without a path.
    Other,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Remap {
    pub(super) from: u64,
    pub(super) old_length: u64,
    pub(super) to: u64,
    pub(super) length: u64,
    /// `MREMAP_DONTUNMAP`: the old range stays.
    pub(super) keeps: bool,
}

/// How a file was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct How {
    /// It was made if it was not there.
    pub(super) create: bool,
    /// It was not there.
    pub(super) exclusive: bool,
    pub(super) truncate: bool,
    pub(super) close_on_exec: bool,
}

/// What a call means here.
pub(super) enum Meaning {
    Nothing,
    One(What),
    /// No such call has such arguments.
    Impossible,
}

/// What a complete call means here.
pub(super) fn meaning(call: &Call<'_>, texts: &mut Texts) -> Meaning {
    let meant = match success(call.result) {
        Some(result) => succeeded(call, result, texts),
        None => failed(call, texts),
    };
    match meant {
        Some(Some(what)) => Meaning::One(what),
        Some(None) => Meaning::Nothing,
        None => Meaning::Impossible,
    }
}

/// What a call's arguments are, by place.
struct Arguments<'c, 't>(&'c Call<'t>);

impl<'t> Arguments<'_, 't> {
    fn get(&self, place: usize) -> Option<&'t [u8]> {
        self.0.arguments.get(place).copied()
    }

    fn number(&self, place: usize) -> Option<u64> {
        self.get(place).and_then(number)
    }

    fn descriptor(&self, place: usize) -> Option<u32> {
        self.get(place).and_then(descriptor)
    }

    fn has_flag(&self, place: usize, flag: &[u8]) -> Option<bool> {
        self.get(place).map(|flags| has_flag(flags, flag))
    }

    /// The path at `path`, as seen from the folder at `folder` if that is shown. Empty for the folder itself.
    fn path(&self, folder: Option<usize>, path: usize, texts: &mut Texts) -> Option<Text> {
        let path = string(self.get(path)?)?;
        if path.is_empty() || path.starts_with(b"/") {
            return Some(texts.number(&path));
        }
        let folder = match folder {
            Some(folder) => file_path(self.get(folder)?),
            None => None,
        };
        Some(match folder {
            Some(folder) => texts.number(&join(&folder, &path)),
            None => texts.number(&path),
        })
    }
}

/// Where the name is that a call looks up: its folder's descriptor if it has one, and its path.
fn name_at(call: &str) -> Option<(Option<usize>, usize)> {
    Some(match call {
        "stat" | "lstat" | "access" | "readlink" | "open" | "creat" | "truncate" | "execve"
        | "chdir" | "rename" | "unlink" | "rmdir" | "mkdir" | "mknod" => (None, 0),
        "link" | "symlink" => (None, 1),
        "newfstatat" | "statx" | "faccessat" | "faccessat2" | "readlinkat" | "openat"
        | "openat2" | "execveat" | "renameat" | "renameat2" | "unlinkat" | "mkdirat"
        | "mknodat" => (Some(0), 1),
        "linkat" => (Some(2), 3),
        "symlinkat" => (Some(1), 2),
        _ => return None,
    })
}

/// `None` when the arguments are impossible, `Some(None)` when they do not matter.
#[allow(clippy::option_option, reason = "two different absences, both local")]
fn succeeded(call: &Call<'_>, result: u64, texts: &mut Texts) -> Option<Option<What>> {
    let arguments = Arguments(call);
    let name = |texts: &mut Texts| {
        let (folder, path) = name_at(call.name)?;
        arguments.path(folder, path, texts)
    };
    Some(Some(match call.name {
        "mmap" => {
            let mapped = if arguments.has_flag(3, b"MAP_ANONYMOUS")? {
                Mapped::Memory
            } else {
                match file_path(arguments.get(4)?) {
                    Some(path) => Mapped::File(texts.number(&path)),
                    None => Mapped::Other,
                }
            };
            What::Map {
                address: result,
                length: arguments.number(1)?,
                mapped,
                offset: arguments.number(5)?,
            }
        }
        "munmap" => What::Unmap {
            address: arguments.number(0)?,
            length: arguments.number(1)?,
        },
        "mremap" => What::Remap(Box::new(Remap {
            from: arguments.number(0)?,
            old_length: arguments.number(1)?,
            to: result,
            length: arguments.number(2)?,
            keeps: arguments.has_flag(3, b"MREMAP_DONTUNMAP")?,
        })),
        "brk" => What::Break { end: result },
        "execve" => What::Exec { path: name(texts) },
        "execveat" => {
            let path = name(texts).map(|path| {
                if texts.get(path).is_empty() {
                    arguments
                        .get(0)
                        .and_then(file_path)
                        .map(|path| texts.number(&path))
                } else {
                    Some(path)
                }
            });
            What::Exec {
                path: path.flatten(),
            }
        }
        "open" => opened(call, result, how(arguments.get(1)?), name(texts)?, texts)?,
        "openat" | "openat2" => opened(call, result, how(arguments.get(2)?), name(texts)?, texts)?,
        "creat" => {
            let how = How {
                create: true,
                truncate: true,
                ..How::default()
            };
            opened(call, result, how, name(texts)?, texts)?
        }
        // Interrupted by another process's line, so that it is read before it has failed.
        "close" if arguments.get(0)?.starts_with(b"-") => return Some(None),
        "close" => What::Close {
            descriptor: arguments.descriptor(0)?,
        },
        "close_range" => What::CloseRange {
            first: arguments.descriptor(0)?,
            last: arguments.descriptor(1)?,
            close_on_exec: arguments.has_flag(2, b"CLOSE_RANGE_CLOEXEC")?,
            unshare: arguments.has_flag(2, b"CLOSE_RANGE_UNSHARE")?,
        },
        "dup" | "dup2" | "dup3" => What::Duplicate {
            from: arguments.descriptor(0)?,
            to: u32::try_from(result).ok()?,
            close_on_exec: call.name == "dup3" && arguments.has_flag(2, b"O_CLOEXEC")?,
        },
        "fcntl" | "fcntl64" => {
            let from = arguments.descriptor(0)?;
            match arguments.get(1)? {
                command @ (b"F_DUPFD" | b"F_DUPFD_CLOEXEC") => What::Duplicate {
                    from,
                    to: u32::try_from(result).ok()?,
                    close_on_exec: command == b"F_DUPFD_CLOEXEC",
                },
                b"F_SETFD" => What::Inherit {
                    descriptor: from,
                    close_on_exec: arguments.has_flag(2, b"FD_CLOEXEC")?,
                },
                _ => return Some(None),
            }
        }
        "ftruncate" => {
            let length = arguments.number(1)?;
            match file_path(arguments.get(0)?) {
                Some(path) => What::Truncate {
                    path: texts.number(&path),
                    length,
                },
                None => return Some(None),
            }
        }
        "truncate" => What::Truncate {
            path: name(texts)?,
            length: arguments.number(1)?,
        },
        "chdir" => What::ChangeDirectory {
            path: name(texts)?,
            looked: true,
        },
        "fchdir" => match file_path(arguments.get(0)?) {
            Some(path) => What::ChangeDirectory {
                path: texts.number(&path),
                looked: false,
            },
            None => return Some(None),
        },
        "rename" | "renameat" | "renameat2" => {
            let (to_folder, to) = if call.name == "rename" {
                (None, 1)
            } else {
                (Some(2), 3)
            };
            What::Rename {
                from: name(texts)?,
                to: arguments.path(to_folder, to, texts)?,
                exchange: call.name == "renameat2" && arguments.has_flag(4, b"RENAME_EXCHANGE")?,
            }
        }
        "unlink" | "unlinkat" | "rmdir" => What::Unlink { path: name(texts)? },
        "mkdir" | "mkdirat" | "mknod" | "mknodat" | "link" | "linkat" | "symlink" | "symlinkat" => {
            What::Create { path: name(texts)? }
        }
        "stat" | "lstat" | "newfstatat" | "statx" | "access" | "faccessat" | "faccessat2"
        | "readlink" | "readlinkat" => match name(texts) {
            Some(path) => return Some(look(path, Some(true), texts)),
            // The folder itself, without any path; all others need one.
            None if arguments.get(1) == Some(b"NULL") => return Some(None),
            None => return None,
        },
        _ => return Some(None),
    }))
}

/// A file was opened; what the kernel says it is comes before what was asked for.
fn opened(call: &Call<'_>, result: u64, how: How, asked: Text, texts: &mut Texts) -> Option<What> {
    let path = match descriptor_path(call.result) {
        Some(_) => file_path(call.result).map(|path| texts.number(&path)),
        None => Some(asked),
    };
    Some(What::Open {
        path,
        descriptor: u32::try_from(result).ok()?,
        how,
    })
}

/// The path behind a descriptor if it stands for a file that has one; a removed file keeps its own.
fn file_path(text: &[u8]) -> Option<Vec<u8>> {
    descriptor_path(text).and_then(|path| absolute(&path))
}

fn how(flags: &[u8]) -> How {
    How {
        create: has_flag(flags, b"O_CREAT"),
        exclusive: has_flag(flags, b"O_EXCL"),
        truncate: has_flag(flags, b"O_TRUNC"),
        close_on_exec: has_flag(flags, b"O_CLOEXEC"),
    }
}

/// A name that was looked up. An empty one stands for a descriptor, which is no lookup.
#[allow(clippy::option_option, reason = "as its callers'")]
fn look(path: Text, exists: Option<bool>, texts: &Texts) -> Option<What> {
    (!texts.get(path).is_empty()).then_some(What::Look { path, exists })
}

/// A call that failed has looked a name up all the same, unless it did not come so far.
#[allow(clippy::option_option, reason = "as its callers'")]
fn failed(call: &Call<'_>, texts: &mut Texts) -> Option<Option<What>> {
    let Some(error) = failure(call.result) else {
        return Some(None);
    };
    if call.name == "close" && error != b"EBADF" {
        // The descriptor is gone all the same.
        let descriptor = Arguments(call).descriptor(0)?;
        return Some(Some(What::Close { descriptor }));
    }
    let exists = match error {
        b"EFAULT" | b"EMFILE" | b"ENFILE" | b"EBADF" | b"EINTR" | b"ENOMEM" | b"ENAMETOOLONG"
        | b"ENOSYS" => {
            return Some(None);
        }
        b"ENOENT" => Some(false),
        b"EEXIST" => Some(true),
        _ => None,
    };
    Some(
        name_at(call.name)
            .and_then(|(folder, path)| Arguments(call).path(folder, path, texts))
            .and_then(|path| look(path, exists, texts)),
    )
}

/// Whether `flag` is among the flags, and not merely the front of another's name.
pub(super) fn has_flag(flags: &[u8], flag: &[u8]) -> bool {
    flags
        .split(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'_'))
        .any(|word| word == flag)
}
