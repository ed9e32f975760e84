//! What is shown of a command that failed.

use std::collections::BTreeSet;

/// How many of the last lines of a failed step are printed; its log has all of them.
const LAST: usize = 30;

/// Lines that tell of a failure, at most so many, each with so many after it.
const MOST_TELLING: usize = 60;
const AFTER: usize = 6;

/// Prints which of a command's lines tell why it failed, and its last ones, set off from what this program says.
///
/// Both, because the output of many test programs is long, what failed can stand anywhere in it, and whoever reads this may see only
/// its beginning.
pub(crate) fn print_failure(output: &str) {
    let lines: Vec<&str> = output.lines().collect();
    let end = lines.len().saturating_sub(LAST);
    let mut after = None;
    for number in telling(&lines[..end]) {
        if after.is_some_and(|after| after != number) || (after.is_none() && number > 0) {
            println!("   | …");
        }
        println!("   | {}", lines[number]);
        after = Some(number + 1);
    }
    if after.unwrap_or(0) < end {
        println!("   | … the last {LAST} lines:");
    }
    for line in &lines[end..] {
        println!("   | {line}");
    }
}

/// The numbers of lines that begin or end as the harness, the compiler and a panic say what is wrong, and of those right after them.
fn telling(lines: &[&str]) -> BTreeSet<usize> {
    let tells = |line: &str| {
        line.ends_with(" FAILED")
            || line.starts_with("error")
            || line.starts_with("test result: FAILED")
            || line.contains("panicked at ")
            || line.contains("WARNING: ThreadSanitizer")
            || line.contains("ERROR: AddressSanitizer")
            || line.contains("ERROR: LeakSanitizer")
    };
    let mut numbers = BTreeSet::new();
    for (number, line) in lines.iter().enumerate() {
        if numbers.len() >= MOST_TELLING {
            break;
        }
        if tells(line) {
            let after = if line.ends_with(" FAILED") { 0 } else { AFTER };
            numbers.extend((number..=number + after).take_while(|&number| number < lines.len()));
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tells_of_a_failure_is_found_among_many_lines() {
        let lines = [
            "test one ... ok",
            "test two ... FAILED",
            "test three ... ok",
            "thread 'two' panicked at two.rs:1:1:",
            "left is not right",
        ];
        assert_eq!(telling(&lines), BTreeSet::from([1, 3, 4]));
        assert_eq!(telling(&["error"; 1000]).len(), MOST_TELLING);
    }
}
