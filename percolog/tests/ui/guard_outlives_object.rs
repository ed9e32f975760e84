// error: E0597
use percolog::oplog::LoggedFn;

fn main() {
    #[cfg(not(feature = "wrong"))]
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let guard = {
        #[cfg(feature = "wrong")]
        let log: LoggedFn<u32> = LoggedFn::new(0);
        let guard = log.synchronize();
        guard
    };
    assert_eq!(*guard, 0);
}
