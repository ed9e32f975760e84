//! What `--verify` says.

/// How many addresses were compared with the emulator's, of which none was different.
#[track_caller]
pub(crate) fn addresses_compared(said: &str) -> u64 {
    let line = said
        .lines()
        .find(|line| line.contains("addresses compared"))
        .unwrap_or_else(|| panic!("nothing was compared: {said}"));
    let numbers: Vec<u64> = line
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let [compared, different] = numbers[..] else {
        panic!("`{line}` has two numbers");
    };
    assert_eq!(different, 0, "{said}");
    compared
}
