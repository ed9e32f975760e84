// error: E0277
use percolog::oplog::LoggedFn;
#[cfg(feature = "wrong")]
use std::rc::Rc as Counted;
#[cfg(not(feature = "wrong"))]
use std::sync::Arc as Counted;

fn main() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let counted = Counted::new(1);
    log.update(move |sum| *sum += *counted);
}
