//! Traces, records and bytes that chance makes.

use super::*;

/// What a task may do; the numbers choose.
fn action(kind: u8, a: u64, b: u64, flag: bool) -> Action {
    let file = (a % 3) as u32;
    let pages = |number: u64| number % (1 << 40) * PAGE;
    let length = (b % (1 << 30) + 1) * PAGE;
    match kind % 13 {
        0 => map(pages(a), length, file, pages(b)),
        1 => Action::Map {
            address: pages(a),
            length,
            backing: Backing::Memory,
            offset: 0,
        },
        2 => Action::Unmap {
            address: pages(a),
            length,
        },
        3 => Action::Break { end: a },
        4 => Action::Exec {
            program: flag.then_some((file, length)),
        },
        5 => Action::Truncate {
            file,
            length: b >> 20,
        },
        6 => Action::Open {
            file,
            descriptor: b as u32,
            close_on_exec: flag,
        },
        7 => Action::Close {
            descriptor: b as u32,
        },
        8 => Action::Duplicate {
            from: a as u32,
            to: b as u32,
            close_on_exec: flag,
        },
        9 => Action::Inherit {
            descriptor: b as u32,
            close_on_exec: flag,
        },
        10 if flag => Action::Stat { file },
        10 => Action::Create { file },
        11 => Action::Rename {
            from: file,
            to: (b % 3) as u32,
        },
        _ => Action::Unlink { file },
    }
}

prop_compose! {
    /// Events that keep the rules: tasks start others, and everybody ends.
    fn sound()(
        steps in prop::collection::vec((any::<u8>(), any::<u64>(), any::<u64>(), any::<bool>(), any::<prop::sample::Index>(), 0..u64::from(u32::MAX)), 0..120)
    ) -> Vec<Event> {
        let (mut alive, mut born, mut time) = (vec![0], 1, 0);
        let mut events = Vec::new();
        for (kind, a, b, flag, who, elapsed) in steps {
            time += elapsed;
            let who = who.index(alive.len());
            let task = alive[who];
            let action = match kind {
                200.. => {
                    alive.push(born);
                    born += 1;
                    let process = flag && a % 2 == 0;
                    Action::Fork {
                        child: born - 1,
                        shares: Shares { memory: flag, descriptors: b % 2 == 0, process },
                    }
                }
                190..200 if alive.len() > 1 => {
                    alive.swap_remove(who);
                    Action::Exit
                }
                _ => action(kind, a, b, flag),
            };
            events.push(Event { time, task, action });
        }
        events.extend(alive.into_iter().map(|task| Event { time, task, action: Action::Exit }));
        events
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_sound_events_come_back(events in sound(), block in 1..50_u32) {
        let mut trace = Trace::new(description(), files(), events).expect("sound");
        trace.header.block = block;
        let bytes = trace.to_bytes().expect("written");
        prop_assert_eq!(Trace::from_bytes(&bytes).expect("read"), trace);
    }

    /// Whatever the records are, with right checksums: a sound trace or an error, never a panic.
    #[test]
    fn any_records_are_read_or_refused(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(), cuts in any::<bool>()) {
        let (header, table, mut blocks) = unpacked();
        let plain = &mut blocks[0].1;
        for (at, byte) in changes {
            let at = at.index(plain.len());
            plain[at] = byte;
        }
        if cuts {
            plain.truncate(cut.index(plain.len()));
        }
        if let Ok(read) = Trace::from_bytes(&file(&header, &table, &blocks, Compression::best()).expect("packed")) {
            let again = Trace::from_bytes(&read.to_bytes().expect("written")).expect("read");
            prop_assert_eq!(again, read);
        }
    }

    /// Several bytes changed at once are never taken for another trace.
    #[test]
    fn changed_bytes_are_noticed(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), block in 1..40_u32) {
        let sound = in_blocks(block);
        let mut bytes = sound.clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        prop_assert_eq!(Trace::from_bytes(&bytes).is_ok(), bytes == sound);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300), front in any::<bool>()) {
        let mut all = Vec::new();
        if front {
            all.extend_from_slice(MAGIC);
            all.extend_from_slice(&VERSION.to_le_bytes());
        }
        all.extend_from_slice(&bytes);
        prop_assert!(Trace::from_bytes(&all).is_err());
    }
}
