//! How much figures differ from seed to seed.

use serde::Serialize;

use super::summary::Summary;

/// How much figures differ from seed to seed.
#[derive(Clone, Debug, Serialize)]
pub struct Spread {
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The figures.
    pub figures: Vec<SpreadOf>,
}

/// How much one figure differs.
#[derive(Clone, Debug, Serialize)]
pub struct SpreadOf {
    /// Its name.
    pub name: &'static str,
    /// The least.
    pub least: f64,
    /// The one in the middle.
    pub median: f64,
    /// The greatest.
    pub most: f64,
}

impl Summary {
    /// Says how much the figures of this run and of `others`, on other seeds, differ.
    #[must_use]
    pub fn with_spread(mut self, others: &[Summary]) -> Self {
        let all = || std::iter::once(&self).chain(others);
        let spread = |name, figure: &dyn Fn(&Summary) -> Option<f64>| {
            let mut figures: Vec<f64> = all().filter_map(figure).collect();
            figures.sort_by(f64::total_cmp);
            Some(SpreadOf {
                name,
                least: *figures.first()?,
                median: figures[figures.len() / 2],
                most: *figures.last()?,
            })
        };
        let figures = [
            spread("transfers per operation", &|run| {
                run.per_operation.map(|per| per.transfers)
            }),
            spread("upgrades per operation", &|run| {
                run.per_operation.map(|per| per.upgrades)
            }),
            spread("transfers", &|run| Some(run.totals.transfers as f64)),
            spread("share of time waiting", &|run| Some(run.stall_share)),
            spread("operations per ms", &|run| run.operations_per_ms),
        ];
        self.spread = Some(Spread {
            seeds: all().map(|run| run.seed).collect(),
            figures: figures.into_iter().flatten().collect(),
        });
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::run;

    #[test]
    fn the_middle_one_of_several_seeds_is_the_median() {
        let summary = |operations_per_ms: f64, seed| {
            let mut summary = run().summary();
            summary.operations_per_ms = Some(operations_per_ms);
            summary.seed = seed;
            summary
        };
        let spread = summary(5.0, 1).with_spread(&[summary(1.0, 2), summary(4.0, 3)]);
        let spread = spread.spread.expect("there were several");
        assert_eq!(spread.seeds, [1, 2, 3]);
        let of = spread.figures.last().expect("there are figures");
        assert_eq!(
            (of.name, of.least, of.median, of.most),
            ("operations per ms", 1.0, 4.0, 5.0)
        );
    }
}
