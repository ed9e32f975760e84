//! What objects take of memory. Each kind in a process of its own, as in a figure: what others have allocated and freed would be
//! taken for theirs.

#![cfg(target_os = "linux")]

use std::env;
use std::process::Command;

use percolog_bench::memory::MemoryKind;

/// Says to this program, run again, which kind is its own.
const KIND: &str = "PERCOLOG_TEST_MEMORY_KIND";

#[test]
fn every_kind_of_object_takes_memory_once_it_is_hot() {
    if let Ok(own) = env::var(KIND) {
        let all = MemoryKind::ALL.iter();
        let kind = all.clone().find(|(name, _)| *name == own);
        let found = kind.expect("it is one of them").1.measure(3, 512);
        let found = found.expect("threads can be had");
        assert!(found.hot >= found.idle, "{own}: {found:?}");
        // All of them together are more than a page.
        assert!(found.hot > 0.0, "{own}: {found:?}");
        return;
    }
    let this = env::current_exe().expect("the program is known");
    for (name, _) in MemoryKind::ALL {
        let mut again = Command::new(&this);
        again.args([
            "--exact",
            "every_kind_of_object_takes_memory_once_it_is_hot",
        ]);
        let done = again.env(KIND, name).output().expect("it can be run again");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "{name}: {said}");
    }
}
