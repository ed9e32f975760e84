//! Any bytes make a trace that can be written and read again, or an error of one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use percolog_papers::trace::{Description, Trace, parse_strace};
use std::io::Cursor;
use std::path::Path;

/// A trace to begin with. Nothing is compressed in it and no checksum tells of a change, see `BARE` in the
/// format.
fn seed() {
    let log = include_bytes!("../seeds/strace");
    let description = Description {
        page_size: 4096,
        ..Description::default()
    };
    let (trace, _) = parse_strace(Cursor::new(log), Path::new("/"), description, |_| None)
        .expect("the log is sound");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/trace");
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("seed"), trace.to_bytes().expect("bytes")).expect("written");
}

fuzz_target!(init: seed(), |bytes: &[u8]| {
    match Trace::from_bytes(bytes) {
        Ok(trace) => {
            let again = trace.to_bytes().expect("what was read can be written");
            assert_eq!(Trace::from_bytes(&again).expect("and read again"), trace);
            let _ = trace.info().to_string();
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
