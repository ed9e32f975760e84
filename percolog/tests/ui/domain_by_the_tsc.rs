// error: E0133
use percolog::reclaim::{Domain, DomainOptions};

fn main() {
    #[cfg(feature = "wrong")]
    let options = DomainOptions::new().tsc();
    #[cfg(not(feature = "wrong"))]
    // SAFETY: one thread has one counter.
    let options = unsafe { DomainOptions::new().tsc() };
    drop(Domain::with(options));
}
