//! Any text makes a sound trace of what is understood of it, or an error of one line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use percolog_papers::trace::{Description, Names, Program, Trace, parse_strace};
use std::io::Cursor;
use std::path::Path;

fuzz_target!(|text: &[u8]| {
    let description = Description {
        page_size: 4096,
        names: Names::All,
        ..Description::default()
    };
    let program = |path: &Path| {
        path.starts_with("/bin").then(|| Program {
            path: path.to_owned(),
            length: 5000,
        })
    };
    match parse_strace(Cursor::new(text), Path::new("/start"), description, program) {
        Ok((trace, _)) => {
            let bytes = trace.to_bytes().expect("what was recorded can be written");
            assert_eq!(Trace::from_bytes(&bytes).expect("and read"), trace);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
