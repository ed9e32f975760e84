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
        timeout_seconds: 120,
        may_hang: false,
    }
}

#[test]
fn each_fate_is_told_from_the_others() {
    let folder = fixture();
    let workshop = workshop(&folder);
    let mut hanging = mutation(
        "assert_eq!(larger(2, 1), 2)",
        "loop { std::thread::park() }",
    );
    hanging.timeout_seconds = 5;
    let mut expected_to_hang = hanging.clone();
    expected_to_hang.may_hang = true;
    let fates = workshop
        .try_all(
            &[
                mutation("a > b", "a < b"),
                mutation("a + 1", "a + 2"),
                mutation("a + 3", "a + 4"),
                mutation("true", "false"),
                mutation("a + 1", "a + nothing"),
                hanging,
                expected_to_hang,
            ],
            None,
        )
        .unwrap();
    assert_eq!(fates[0], Fate::Caught);
    assert_eq!(fates[1], Fate::Survived);
    for (fate, reason) in fates[2..].iter().zip([
        "stands 0 times",
        "stands 2 times",
        "does not compile",
        "still ran after 5 s",
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
fn every_mutation_has_its_turn_to_be_first() {
    assert_eq!(first_of("", 5), 0);
    assert_eq!(first_of("no commit", 5), 0);
    assert_eq!(first_of("0000001212121212", 7), 0x12 % 7);
    assert_eq!(first_of("ffffffff", 0), 0);
    let firsts: std::collections::BTreeSet<usize> = (0..10_u32)
        .map(|commit| first_of(&format!("{commit:08x}"), 10))
        .collect();
    assert_eq!(firsts.len(), 10);
}

#[test]
fn what_there_is_no_time_for_is_not_tried() {
    let folder = fixture();
    let workshop = workshop(&folder);
    let caught = mutation("a > b", "a < b");
    let fates = workshop
        .try_all(&[caught.clone(), caught], Some(Duration::ZERO))
        .unwrap();
    assert!(fates.is_empty());
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
    for fate in workshop.try_all(&[failing, empty], None).unwrap() {
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
