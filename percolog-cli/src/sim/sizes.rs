//! Numbers of cores as people write them: `1,2,4,…,48`, `1-8`, `12,24`.

use percolog_sim::model::MAX_CORES;

/// Numbers of cores: ascending, none twice, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(Vec<usize>);

impl Sizes {
    /// Powers of two up to `most`, and `most` itself.
    pub(crate) fn doubling_to(most: usize) -> Self {
        let powers = std::iter::successors(Some(1_usize), |size| size.checked_mul(2));
        Self::of(powers.take_while(|size| *size < most).chain([most.max(1)]))
    }

    fn of(sizes: impl IntoIterator<Item = usize>) -> Self {
        let mut sizes: Vec<usize> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        Self(sizes)
    }

    /// Reads what the user typed.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut sizes: Vec<usize> = Vec::new();
        let mut goes_on = false;
        for part in text.split(',').map(str::trim) {
            if matches!(part, "…" | "...") {
                if goes_on || sizes.is_empty() {
                    return Err("… stands between numbers".to_owned());
                }
                goes_on = true;
                continue;
            }
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if first > last {
                return Err(format!("{part} goes backwards"));
            }
            if std::mem::take(&mut goes_on) {
                go_on(&mut sizes, first)?;
            }
            sizes.extend(first..=last);
        }
        if goes_on {
            return Err("… stands between numbers".to_owned());
        }
        Ok(Self::of(sizes))
    }

    /// Them, in ascending order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

/// Continues as the last numbers go on, up to `end`: by the same step, or by the same factor if that is what three of them show.
fn go_on(sizes: &mut Vec<usize>, end: usize) -> Result<(), String> {
    let before = sizes.len().saturating_sub(3);
    let next: Box<dyn Fn(usize) -> usize> = match sizes[before..] {
        [first] => Box::new(move |size| size + first.min(1)),
        [first, second] if second > first => Box::new(move |size| size + (second - first)),
        [first, second, third] if second > first && third > second => {
            if second - first == third - second {
                Box::new(move |size| size + (third - second))
            } else if first * third == second * second && second.is_multiple_of(first) {
                Box::new(move |size| size * (second / first))
            } else {
                return Err(format!(
                    "{first},{second},{third},… has neither a step nor a factor"
                ));
            }
        }
        _ => return Err("the numbers in front of … have to rise".to_owned()),
    };
    let Some(mut size) = sizes.last().copied() else {
        return Ok(());
    };
    loop {
        size = next(size);
        if size >= end {
            return Ok(());
        }
        sizes.push(size);
    }
}

fn number(text: &str) -> Result<usize, String> {
    match text.trim().parse() {
        Ok(number) if (1..=MAX_CORES).contains(&number) => Ok(number),
        _ => Err(format!(
            "{text:?}: numbers from 1 to {MAX_CORES} are needed, as in 1,2,4,…,48"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(text: &str) -> Vec<usize> {
        Sizes::parse(text).expect(text).0
    }

    #[test]
    fn ranges_go_on_as_they_begin() {
        for (text, expected) in [
            ("1", &[1][..]),
            ("48, 1,12,1", &[1, 12, 48]),
            ("1-4,8", &[1, 2, 3, 4, 8]),
            ("1,2,4,…,48", &[1, 2, 4, 8, 16, 32, 48]),
            ("1,2,4,...,16", &[1, 2, 4, 8, 16]),
            ("1,6,12,18,…,36,48", &[1, 6, 12, 18, 24, 30, 36, 48]),
            ("12,24,…,48", &[12, 24, 36, 48]),
            ("5,…,8", &[5, 6, 7, 8]),
            ("1,3,9,…,80", &[1, 3, 9, 27, 80]),
        ] {
            assert_eq!(sizes(text), expected, "{text}");
        }
        assert_eq!(Sizes::doubling_to(48).0, [1, 2, 4, 8, 16, 32, 48]);
        assert_eq!(Sizes::doubling_to(1).0, [1]);
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in [
            "",
            "x",
            "0",
            "1025",
            "1,,2",
            "…",
            "…,4",
            "1,…",
            "1,…,…,4",
            "8-1",
            "1,3,4,…,9",
            "4,2,…,1",
            "-1",
        ] {
            assert!(Sizes::parse(text).is_err(), "{text}");
        }
    }
}
