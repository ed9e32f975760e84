//! Made-up families of processes.

use crate::trace::{Action, Backing, Description, Event, File, FileKind, Shares, Trace};

const PAGE: u64 = 4096;
/// How many files a family knows.
const FILES: u64 = 4;

/// A family of processes with everything that a trace can hold: copies, shared spaces and descriptors that are
/// left by exec, threads, cuts, heaps, descriptors that nobody knows, truncates of mapped files. `seed` chooses.
pub(super) fn family(seed: u64, tasks: u32) -> Trace {
    let mut state = seed | 1;
    let mut random = move |below: u64| {
        // Marsaglia's xorshift.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let mut events = Vec::new();
    let mut alive = vec![0];
    let mut born = 1;
    let mut time = 0;
    while !alive.is_empty() {
        time += random(50);
        let chosen = random(alive.len() as u64) as usize;
        let task = alive[chosen];
        let pages = |count: u64| (count + 1) * PAGE;
        let action = match random(40) {
            0..=7 => Action::Map {
                address: pages(random(40)),
                length: pages(random(8)),
                backing: Backing::File(random(FILES) as u32),
                offset: random(10) * PAGE,
            },
            8..=10 => Action::Map {
                address: pages(random(40)),
                length: pages(random(8)),
                backing: Backing::Memory,
                offset: 0,
            },
            11..=13 => Action::Unmap {
                address: pages(random(40)),
                length: pages(random(8)),
            },
            14 | 15 => Action::Break {
                end: pages(10) + random(20 * PAGE),
            },
            16..=20 if born < tasks => {
                born += 1;
                alive.push(born - 1);
                let shares = match random(8) {
                    0 => (true, false, false),
                    1 => (true, true, false),
                    2 => (true, true, true),
                    3 => (false, true, false),
                    _ => (false, false, false),
                };
                Action::Fork {
                    child: born - 1,
                    shares: Shares {
                        memory: shares.0,
                        descriptors: shares.1,
                        process: shares.2,
                    },
                }
            }
            21 | 22 => Action::Exec {
                program: (random(4) > 0).then(|| (random(FILES) as u32, pages(random(6)))),
            },
            23 | 24 => Action::Truncate {
                file: random(FILES) as u32,
                length: random(8 * PAGE),
            },
            25..=28 => Action::Open {
                file: random(FILES) as u32,
                descriptor: random(12) as u32,
                close_on_exec: random(2) == 0,
            },
            29 | 30 => Action::Close {
                descriptor: random(12) as u32,
            },
            31 => Action::Duplicate {
                from: random(12) as u32,
                to: random(12) as u32,
                close_on_exec: random(2) == 0,
            },
            32 => Action::Inherit {
                descriptor: random(12) as u32,
                close_on_exec: random(2) == 0,
            },
            33 => Action::Stat {
                file: random(FILES) as u32,
            },
            34 => Action::Create {
                file: random(FILES) as u32,
            },
            35 => Action::Rename {
                from: random(FILES) as u32,
                to: random(FILES) as u32,
            },
            36 => Action::Unlink {
                file: random(FILES) as u32,
            },
            _ if alive.len() > 1 || born == tasks => {
                alive.swap_remove(chosen);
                Action::Exit
            }
            _ => continue,
        };
        events.push(Event { time, task, action });
    }
    let file = File {
        kind: FileKind::Library,
        name: String::new(),
    };
    let description = Description {
        page_size: PAGE,
        ..Description::default()
    };
    Trace::new(description, vec![file; FILES as usize], events).expect("a sound trace")
}
