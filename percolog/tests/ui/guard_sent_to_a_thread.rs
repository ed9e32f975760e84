// error: E0277
use percolog::oplog::LoggedFn;

fn main() {
    let log: LoggedFn<u32> = LoggedFn::new(0);
    let guard = log.synchronize();
    #[cfg(not(feature = "wrong"))]
    let guard = *guard;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _guard = guard;
        });
    });
}
