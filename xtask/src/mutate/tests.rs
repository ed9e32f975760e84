use super::*;

/// A crate in which one promise is tested and another is not.
const LIBRARY: &str = "\
//! Fixture.
pub fn larger(a: u32, b: u32) -> u32 {
    if a > b { a } else { b }
}
pub fn untested(a: u32) -> u32 {
    a + 1
}
pub fn twice() -> bool {
    true && true
}
#[test]
fn the_larger_is_larger() {
    assert_eq!(larger(2, 1), 2);
    assert_eq!(larger(1, 2), 2);
}
";

fn fixture() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("origin");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(
        root.join("Cargo.toml"),
        "[package]\nname = \"fixture\"\nedition = \"2024\"\n[workspace]\n",
    )
    .unwrap();
    fs::write(root.join("src/lib.rs"), LIBRARY).unwrap();
    fs::write(root.join(".gitignore"), "/ignored\n").unwrap();
    fs::write(root.join("ignored"), "").unwrap();
    let made = Command::new("git")
        .args(["init", "--quiet"])
        .current_dir(&root)
        .status()
        .unwrap();
    assert!(made.success());
    folder
}

fn workshop(folder: &tempfile::TempDir) -> Workshop {
    let workshop = Workshop {
        tree: folder.path().join("tree"),
        targets: folder.path().join("targets"),
        verbose: false,
    };
    workshop.copy(&folder.path().join("origin")).unwrap();
    workshop
}

fn mutation(find: &str, replace: &str) -> Mutation {
    Mutation {
        name: "fixture".to_owned(),
        promise: "It holds.".to_owned(),
        file: PathBuf::from("src/lib.rs"),
        find: find.to_owned(),
        replace: replace.to_owned(),
        test: "cargo test --offline --lib".to_owned(),
        environment: BTreeMap::new(),
        timeout_seconds: 0,
        may_hang: false,
    }
}

#[test]
fn each_fate_is_told_from_the_others() {
    let folder = fixture();
    let workshop = workshop(&folder);
    let hanging = mutation(
        "assert_eq!(larger(2, 1), 2)",
        "loop { std::thread::park() }",
    );
    let mut expected_to_hang = hanging.clone();
    expected_to_hang.may_hang = true;
    let fates = workshop
        .try_all(&[
            mutation("a > b", "a < b"),
            mutation("a + 1", "a + 2"),
            mutation("a + 3", "a + 4"),
            mutation("true", "false"),
            mutation("a + 1", "a + nothing"),
            hanging,
            expected_to_hang,
        ])
        .unwrap();
    assert_eq!(fates[0], Fate::Caught);
    assert_eq!(fates[1], Fate::Survived);
    for (fate, reason) in fates[2..].iter().zip([
        "stands 0 times",
        "stands 2 times",
        "does not compile",
        "still ran after",
    ]) {
        assert!(
            matches!(fate, Fate::Invalid(why) if why.contains(reason)),
            "{fate:?}"
        );
    }
    assert_eq!(fates[6], Fate::Hung);
    assert_eq!(
        fs::read_to_string(workshop.tree.join("src/lib.rs")).unwrap(),
        LIBRARY
    );
}

#[test]
fn a_limit_follows_what_the_tests_take_unbroken() {
    let second = Duration::from_secs(1);
    let mut slow = mutation("a", "b");
    assert_eq!(slow.limit(6 * second), MOMENT + 60 * second);
    slow.timeout_seconds = 100;
    assert_eq!(slow.limit(6 * second), 100 * second);
    assert_eq!(slow.limit(60 * second), MOMENT + 600 * second);
}

#[test]
fn mutations_are_tried_by_what_they_break() {
    let of = |file: &str| Mutation {
        file: PathBuf::from(file),
        test: "cargo test -p percolog --test logs".to_owned(),
        ..mutation("a", "b")
    };
    let mut mutations = vec![
        of("percolog/src/oplog/log.rs"),
        of("percolog-sim/src/run/qemu.rs"),
        of("lab/papers/src/trace/mod.rs"),
        of("percolog/src/oplog/queue.rs"),
    ];
    let names = |mutations: &[Mutation]| -> Vec<String> {
        groups(&root(), mutations)
            .into_iter()
            .map(|group| group.name)
            .collect()
    };
    assert_eq!(
        names(&mutations),
        ["lab/papers", "percolog-sim", "percolog/src/oplog"]
    );
    let oplog = &groups(&root(), &mutations)[2];
    assert_eq!(oplog.mutations.len(), 2);
    for path in [
        "percolog/src/oplog",
        "percolog/src/engine",
        "percolog/tests",
    ] {
        assert!(
            oplog.paths.iter().any(|known| known == path),
            "{path}: {:?}",
            oplog.paths
        );
    }
    assert!(!oplog.paths.iter().any(|path| path.contains("collections")));
    mutations.extend(vec![of("percolog/src/oplog/log.rs"); 100]);
    assert_eq!(
        names(&mutations)[2..],
        ["percolog/src/oplog, 1 of 2", "percolog/src/oplog, 2 of 2"]
    );
}

#[test]
fn a_group_depends_on_all_that_its_tests_are_built_from() {
    let paths = |file: &str, test: &str| {
        let mutation = Mutation {
            file: PathBuf::from(file),
            test: test.to_owned(),
            ..mutation("a", "b")
        };
        groups(&root(), &[mutation]).remove(0).paths
    };
    let transfers = "cargo test --release -p percolog --test transfers";
    let lab = "cargo test --manifest-path lab/Cargo.toml -p percolog-papers --lib";
    for (file, test, path) in [
        ("percolog/src/slab/mod.rs", transfers, "percolog-sim"),
        ("percolog/src/slab/mod.rs", transfers, "percolog-roi"),
        ("percolog/src/slab/mod.rs", lab, "percolog-sim"),
        ("lab/papers/src/lib.rs", lab, "percolog-cli"),
        (
            "percolog-sim/validation/src/lib.rs",
            "cargo test -p percolog-validation --lib",
            "percolog-sim",
        ),
        (
            "percolog-sim/src/lib.rs",
            "cargo test --release -p percolog-validation --test figures",
            "percolog-cli",
        ),
        (
            "telemetry/metrics/src/lib.rs",
            "cargo test -p percolog-metrics --test recorder",
            "telemetry/instruments",
        ),
    ] {
        let paths = paths(file, test);
        assert!(paths.iter().any(|known| known == path), "{path}: {paths:?}");
        assert!(paths.iter().any(|known| known == "Cargo.toml"));
    }
    let simulator = paths(
        "percolog-sim/src/lib.rs",
        "cargo test -p percolog-sim --lib",
    );
    assert!(!simulator.iter().any(|path| path.starts_with("percolog/")));
}

#[test]
fn the_failure_names_what_was_not_caught_and_why() {
    let named = |name: &str| Mutation {
        name: name.to_owned(),
        ..mutation("a", "b")
    };
    let mutations = [named("first"), named("second"), named("third")];
    assert_eq!(
        failure(&mutations, &[Fate::Caught, Fate::Hung, Fate::Caught]),
        None
    );
    assert_eq!(
        failure(&mutations, &[Fate::Caught, Fate::Survived, Fate::Hung]).as_deref(),
        Some("1 mutation was not caught: second (survived)")
    );
    let slow = Fate::Invalid("its command still ran".to_owned());
    assert_eq!(
        failure(&mutations, &[slow, Fate::Caught, Fate::Survived]).as_deref(),
        Some(
            "2 mutations were not caught: first (not tried: its command still ran), third (survived)"
        )
    );
}

#[test]
fn a_command_that_fails_or_tests_nothing_unbroken_proves_nothing() {
    let folder = fixture();
    let workshop = workshop(&folder);
    let mut failing = mutation("a > b", "a < b");
    failing.test = "cargo test --offline --test missing".to_owned();
    let mut empty = mutation("a > b", "a < b");
    empty.test = "cargo test --offline --lib no_test_has_this_name".to_owned();
    for fate in workshop.try_all(&[failing, empty]).unwrap() {
        assert!(
            matches!(&fate, Fate::Invalid(why) if why.contains("unbroken")),
            "{fate:?}"
        );
    }
}

#[test]
fn the_copy_follows_the_tree() {
    let folder = fixture();
    let workshop = workshop(&folder);
    let origin = folder.path().join("origin");
    assert!(!workshop.tree.join("ignored").exists());
    let before = fs::metadata(workshop.tree.join("Cargo.toml"))
        .unwrap()
        .modified()
        .unwrap();
    fs::write(origin.join("src/new.rs"), "").unwrap();
    workshop.copy(&origin).unwrap();
    assert!(workshop.tree.join("src/new.rs").exists());
    fs::remove_file(origin.join("src/new.rs")).unwrap();
    workshop.copy(&origin).unwrap();
    assert!(!workshop.tree.join("src/new.rs").exists());
    assert_eq!(
        fs::metadata(workshop.tree.join("Cargo.toml"))
            .unwrap()
            .modified()
            .unwrap(),
        before
    );
}

#[test]
fn a_faulty_list_is_refused() {
    let entry = "[[mutation]]\nname = 'a'\npromise = 'p'\nfile = 'f'\nfind = 'x'\nreplace = 'y'\ntest = 'cargo test t'\n";
    assert_eq!(parse(entry).unwrap().len(), 1);
    assert!(parse("").unwrap().is_empty());
    let twice = parse(&format!("{entry}{entry}")).unwrap_err().to_string();
    assert!(twice.contains("two mutations are called `a`"), "{twice}");
    let nothing = parse(&entry.replace("'y'", "'x'")).unwrap_err().to_string();
    assert!(nothing.contains("changes nothing"), "{nothing}");
    for other in ["'true'", "'cargo test t -- --exact'"] {
        let other = parse(&entry.replace("'cargo test t'", other)).unwrap_err();
        assert!(other.to_string().contains("no `cargo test`"), "{other}");
    }
    assert!(parse(&entry.replace("promise", "premise")).is_err());
}

/// This tree.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn a_group_depends_on_what_there_is() {
    let root = root();
    for group in groups(&root, &read(&root).unwrap()) {
        for path in &group.paths {
            assert!(root.join(path).exists(), "{}: {path}", group.name);
        }
    }
}

#[test]
fn every_mutation_fits_the_tree() {
    let root = root();
    for mutation in read(&root).unwrap() {
        let text = fs::read_to_string(root.join(&mutation.file)).unwrap_or_default();
        assert_eq!(
            text.matches(&mutation.find).count(),
            1,
            "`{}` in {}",
            mutation.name,
            mutation.file.display()
        );
    }
}
