//! What merges, against the plain fold of everything, however it is shared out and in whatever order the shares are merged.

use percolog::reduce::{Max, Merge, Min, Sum};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::num::Wrapping;

/// Everything that can be merged, and what observations do to it.
type All = (
    Sum<i64>,
    Min<i64>,
    Max<i64>,
    (Wrapping<u8>, [Sum<u8>; 3], Option<Max<i64>>),
    BTreeMap<i64, Sum<u32>>,
    (BTreeSet<i64>, Vec<i64>),
);

fn observe(all: &mut All, value: i64) {
    all.0.add(value);
    all.1.observe(value);
    all.2.observe(value);
    all.3.0 += value as u8;
    all.3.1[value.rem_euclid(3) as usize].add(200);
    all.3.2.get_or_insert_default().observe(value);
    all.4.entry(value % 5).or_default().add(1);
    all.5.0.insert(value);
    all.5.1.push(value);
}

proptest! {
    #[test]
    fn shares_merge_to_what_one_would_be(
        values in proptest::collection::vec(any::<(i64, u8)>(), 0..60),
        order in Just([0usize, 1, 2, 3]).prop_shuffle(),
        grouped in any::<bool>(),
    ) {
        let mut whole = All::default();
        let mut shares: [All; 4] = Default::default();
        for (value, at) in values {
            observe(&mut whole, value);
            observe(&mut shares[usize::from(at) % 4], value);
        }
        let [a, b, c, d] = order;
        let mut merged = All::default();
        if grouped {
            let mut half = shares[a].clone();
            half.merge(&shares[b]);
            merged.merge(&shares[c]);
            merged.merge(&shares[d]);
            merged.merge(&half);
        } else {
            for at in order {
                merged.merge(&shares[at]);
            }
        }
        merged.5.1.sort_unstable();
        whole.5.1.sort_unstable();
        prop_assert_eq!(merged, whole);
    }
}

#[test]
fn what_is_no_number_gives_way() {
    for values in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0]] {
        let (mut min, mut max) = (Min::default(), Max::default());
        for value in values {
            min.observe(value);
            max.observe(value);
        }
        assert_eq!((min, max), (Min(Some(1.0)), Max(Some(2.0))));
    }
    let mut sum = Sum(0.5);
    sum.merge(&Sum(1.5));
    ().merge(&());
    assert_eq!(sum, Sum(2.0));
}
