//! Files that are cut, changed or made to lie.

use super::*;

#[test]
fn every_truncation_is_noticed_and_placed() {
    for block in [1, 5, 8192] {
        let bytes = in_blocks(block);
        let parts = parts(&bytes);
        for length in 0..bytes.len() {
            let error = Trace::from_bytes(&bytes[..length]).expect_err("cut short");
            let expected = part_at(&parts, length);
            assert!(
                matches!(error, TraceError::Truncated { part } if part == expected),
                "{length}: {error}"
            );
        }
        for extra in [1, 4, 1000] {
            let mut longer = bytes.clone();
            longer.resize(bytes.len() + extra, 0);
            assert!(matches!(
                Trace::from_bytes(&longer),
                Err(TraceError::Trailing { extra: found }) if found == extra as u64
            ));
        }
    }
}

#[test]
fn every_flipped_bit_is_noticed_and_placed() {
    for block in [7, 8192] {
        let mut bytes = in_blocks(block);
        let parts = parts(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                let error = Trace::from_bytes(&bytes).expect_err("damaged");
                let expected = part_at(&parts, at);
                let right = match at {
                    0..16 => matches!(error, TraceError::NotATrace),
                    16..18 => matches!(error, TraceError::Version { .. }),
                    _ => matches!(error, TraceError::Damaged { part } if part == expected),
                };
                assert!(right, "bit {bit} of byte {at}, in {expected}: {error}");
                assert!(!error.to_string().contains('\n'), "one line: {error}");
                bytes[at] ^= 1 << bit;
            }
        }
        assert!(Trace::from_bytes(&bytes).is_ok());
    }
}

#[test]
fn errors_say_where_and_what_to_do() {
    let bytes = in_blocks(5);
    let parts = parts(&bytes);
    let error = |bytes: &[u8]| Trace::from_bytes(bytes).expect_err("damaged").to_string();
    assert_eq!(
        error(&bytes[..parts[3].0 + 1]),
        "the trace is cut short after record 4; copy or record it again"
    );
    assert_eq!(
        error(&bytes[..parts[2].0]),
        "the trace is cut short before record 0; copy or record it again"
    );
    assert_eq!(
        error(&bytes[..FRONT]),
        "the trace is cut short in its header; copy or record it again"
    );
    let mut damaged = bytes.clone();
    damaged[parts[4].0 - 1] ^= 1;
    assert_eq!(
        error(&damaged),
        "the trace is damaged in records 5 to 9; copy or record it again"
    );
}

#[test]
fn blocks_that_have_changed_places_are_noticed() {
    let mut trace = sample();
    // Blocks of one record whose contents are alike: only their heads can tell them apart.
    trace.header.block = 1;
    let bytes = trace.to_bytes().expect("written");
    let parts = parts(&bytes);
    let block = |number: usize| bytes[parts[number + 2].0..parts[number + 3].0].to_vec();
    let mut swapped = bytes[..parts[2].0].to_vec();
    swapped.extend([block(1), block(0)].concat());
    swapped.extend(&bytes[parts[4].0..]);
    assert_eq!(swapped.len(), bytes.len());
    assert!(matches!(
        Trace::from_bytes(&swapped),
        Err(TraceError::Damaged {
            part: Part::Records { first: 0, last: 0 }
        })
    ));
}

#[test]
fn damage_to_the_bundled_trace_is_noticed() {
    let bytes = crate::trace::bundled::BUNDLED[0].1;
    for at in (0..bytes.len()).step_by(20_011) {
        assert!(Trace::from_bytes(&bytes[..at]).is_err());
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 0x10;
        assert!(Trace::from_bytes(&damaged).is_err());
    }
}

#[test]
fn other_formats_are_refused_with_the_way_out() {
    let mut bytes = sample().to_bytes().expect("written");
    for (version, way_out) in [(1, "record it again"), (3, "use a newer percolog")] {
        bytes[16] = version;
        // Whatever follows: another format lays it out as it likes.
        for length in [18, bytes.len()] {
            let error = Trace::from_bytes(&bytes[..length]).expect_err("another format");
            assert_eq!(
                error.to_string(),
                format!("the trace has format {version}, this program reads format 2; {way_out}")
            );
        }
    }
}

#[test]
fn what_is_no_trace_is_told_from_a_damaged_one() {
    for bytes in [
        &b"#!/bin/sh\necho hello\n"[..],
        b"\0",
        b"percolog trace\n\n a text",
    ] {
        assert!(matches!(
            Trace::from_bytes(bytes),
            Err(TraceError::NotATrace)
        ));
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let (_, table, blocks) = unpacked();
    let lie = |change: fn(&mut Header)| {
        let mut header = sample().header().clone();
        change(&mut header);
        let text = serde_json::to_vec(&header).expect("JSON");
        Trace::from_bytes(&file(&text, &table, &blocks, Compression::best()).expect("packed"))
            .expect_err("a lie")
    };
    for change in [
        (|header| header.counts.map += 1) as fn(&mut Header),
        |header| header.counts.exit -= 1,
        |header| header.counts.fork = u64::MAX,
        |header| std::mem::swap(&mut header.counts.map, &mut header.counts.unmap),
        |header| header.tasks += 1,
        |header| header.tasks -= 1,
        |header| header.block = 5,
    ] {
        let error = lie(change);
        assert!(matches!(error, TraceError::Inconsistent(_)), "{error}");
    }
    // Enough for a careless reader to run out of memory.
    assert!(matches!(
        lie(|header| {
            header.counts.fork = 1 << 45;
            header.tasks = u32::MAX;
        }),
        TraceError::TooManyEvents { .. }
    ));
    for change in [
        (|header| header.page_size = 0) as fn(&mut Header),
        |header| header.page_size = 3,
        |header| header.block = 0,
        |header| header.block = u32::MAX,
    ] {
        let error = lie(change);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    assert!(matches!(
        lie(|header| header.page_size = 1 << 63),
        TraceError::Malformed { .. }
    ));
}

#[test]
fn parts_that_are_not_what_they_should_be_are_refused() {
    let (header, table, blocks) = unpacked();
    let refused = |header: &[u8], table: &[u8], blocks: &[(u32, Vec<u8>)]| {
        Trace::from_bytes(&file(header, table, blocks, Compression::best()).expect("packed"))
            .expect_err("no trace")
    };
    for text in [
        &b"{}"[..],
        b"",
        b"[1, 2",
        &[0xff, 0xfe],
        &header[..header.len() - 1],
    ] {
        let error = refused(text, &table, &blocks);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    // What is quoted from the file stays on one line, and a short one.
    let quoted = format!("{{\"names\":\"a\\nb{}\"}}", "x".repeat(100_000));
    let error = refused(quoted.as_bytes(), &table, &blocks).to_string();
    assert!(error.contains("a b") && !error.contains('\n'), "{error}");
    assert!(error.len() < 400);
    for text in [&b"{}"[..], b"", b"[1]", b"[{\"kind\":\"none\"}]"] {
        let error = refused(&header, text, &blocks);
        assert!(matches!(error, TraceError::Header(_)), "{error}");
    }
    let error = refused(&header, b"[]", &blocks);
    assert!(
        matches!(error, TraceError::Malformed { event: 0, .. }),
        "{error}"
    );
    let mut longer = blocks.clone();
    longer[0].1.push(0);
    let error = refused(&header, &table, &longer);
    assert!(matches!(error, TraceError::Malformed { .. }), "{error}");
    // A block that unfolds to far more than it can hold.
    let bomb = vec![(blocks[0].0, vec![0; 50_000_000])];
    let error = refused(&header, &table, &bomb);
    assert!(matches!(error, TraceError::Malformed { .. }), "{error}");
    let blanks = vec![b' '; LONGEST_TABLE as usize + 1];
    let error = refused(&header, &blanks, &blocks);
    assert!(matches!(error, TraceError::Header(_)), "{error}");
}
