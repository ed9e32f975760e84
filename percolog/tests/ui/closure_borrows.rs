// error: E0597
use percolog::oplog::LoggedFn;

fn main() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let local = 1;
    #[cfg(feature = "wrong")]
    let local = &local;
    log.update(move |sum| *sum += local);
}
