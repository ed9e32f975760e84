//! How models are explored.

/// Goes through the interleavings of a model, with two pre-emptions unless the environment says
/// otherwise: nearly every bug shows with two, and without a bound there is no end.
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    check(|bound| bound.or(Some(2)), model);
}

/// The same with so many pre-emptions, or more if the environment says so: for models whose bugs show with no fewer.
pub(crate) fn explore_deeply(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    check(|bound| bound.max(Some(preemptions)), model);
}

fn check(
    preemptions: impl FnOnce(Option<usize>) -> Option<usize>,
    model: impl Fn() + Send + Sync + 'static,
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions(builder.preemption_bound);
    builder.max_branches = builder.max_branches.max(10_000);
    builder.check(model);
}
