// error: E0505
use percolog::oplog::LoggedFn;

fn main() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let guard = log.read();
    #[cfg(not(feature = "wrong"))]
    drop(guard);
    let state = log.into_inner();
    #[cfg(feature = "wrong")]
    drop(guard);
    assert_eq!(state, 0);
}
