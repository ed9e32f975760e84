//! The traces that come with the crate's source.

use percolog_papers::replay::{self, Load};
use percolog_papers::subsystem::{Implementation, Subsystem};
use percolog_papers::trace::{File, FileKind, Names, Trace};
use std::path::Path;

#[test]
fn every_trace_is_small_sound_and_tells_no_names_of_its_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    for (name, program) in [
        ("exim", "exim4"),
        ("make", "cc1"),
        ("postgresql", "postgres"),
        ("apache", "apache2"),
        ("memcached", "memcached"),
    ] {
        let path = folder.join(format!("{name}.trace"));
        let bytes = std::fs::metadata(&path).expect("it is there").len();
        assert!(bytes <= 1_000_000, "{name}: {bytes} bytes");
        assert!(
            folder.join(format!("recipes/{name}.sh")).is_file(),
            "{name} has no recipe"
        );
        let trace = Trace::open(&path).expect("a sound trace");
        assert_eq!(trace.header().names, Names::System, "{name}");
        assert_eq!(trace.header().not_understood, 0, "{name}");
        assert!(!trace.header().command.contains('/'), "{name}");
        for file in trace.files() {
            assert!(!file.name.contains('/'), "{name}: {}", file.name);
            assert!(
                file.kind != FileKind::Temporary || file.name.starts_with('#'),
                "{name}: {}",
                file.name
            );
        }
        let programs = |file: &&File| file.kind == FileKind::Program;
        let mut ran = trace.files().iter().filter(programs);
        assert!(
            ran.any(|file| file.name == program),
            "{name}: {program} did not run"
        );
        let load = Load::new(&trace, Subsystem::Files, None);
        replay::check(&load, Implementation::OplogAbsorb, 2, &|_| ()).expect("agreement");
    }
}
