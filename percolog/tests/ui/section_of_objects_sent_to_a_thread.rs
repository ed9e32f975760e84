// error: E0277
//! A section belongs to its thread.

use percolog::clustered;

fn main() {
    let section = clustered::enter();
    #[cfg(not(feature = "wrong"))]
    let section = drop(section);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _section = section;
        });
    });
}
