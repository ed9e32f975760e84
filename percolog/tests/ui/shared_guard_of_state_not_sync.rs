// error: E0277
use percolog::oplog::LoggedFn;
use std::cell::Cell;

fn main() {
    let log: LoggedFn<Cell<u32>> = LoggedFn::new(Cell::new(0));
    #[cfg(feature = "wrong")]
    let guard = log.read();
    #[cfg(not(feature = "wrong"))]
    let guard = log.synchronize();
    guard.set(1);
}
