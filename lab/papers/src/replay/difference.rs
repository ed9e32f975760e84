//! Two values that should be equal, in a few words.

use std::fmt::Debug;

/// Characters that are shown before the first one that differs.
const BEFORE: usize = 40;
/// Characters that are shown of each value.
const SHOWN: usize = 160;

/// What differs between what was `found` and what was `expected`: from a little before the first difference on, as both
/// may be long.
pub(super) fn difference<V: Debug>(what: &str, found: &V, expected: &V) -> String {
    let (found, expected) = (format!("{found:?}"), format!("{expected:?}"));
    let same = found
        .chars()
        .zip(expected.chars())
        .take_while(|(found, expected)| found == expected)
        .count();
    let from = same.saturating_sub(BEFORE);
    format!(
        "{what} {}, not {}",
        excerpt(&found, from),
        excerpt(&expected, from)
    )
}

fn excerpt(text: &str, from: usize) -> String {
    let mut shown: String = text.chars().skip(from).take(SHOWN).collect();
    if text.chars().nth(from + SHOWN).is_some() {
        shown.push('…');
    }
    if from > 0 {
        shown.insert(0, '…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn what_is_short_is_shown_whole() {
        assert_eq!(difference("there is", &[1], &[2]), "there is [1], not [2]");
    }

    #[test]
    fn what_is_long_is_shown_where_it_differs() {
        let long: Vec<u32> = (1000..2000).collect();
        let mut other = long.clone();
        other[500] = 7;
        let text = difference("there is", &other, &long);
        assert!(text.contains("1499, 7, 1501"), "{text}");
        assert!(text.contains("1499, 1500, 1501"), "{text}");
        assert!(text.chars().count() < 400, "{text}");
    }
}
