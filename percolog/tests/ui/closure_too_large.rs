// error: E0080
use percolog::oplog::LoggedFn;

fn main() {
    #[cfg(feature = "wrong")]
    let bytes = [1u8; 49];
    #[cfg(not(feature = "wrong"))]
    let bytes = [1u8; 48];
    let log: LoggedFn<u32> = LoggedFn::new(0);
    log.update(move |sum| *sum += u32::from(bytes[0]));
}
