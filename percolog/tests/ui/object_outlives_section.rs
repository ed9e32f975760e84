// error: E0505
//! What is found in a section cannot be used after it.

use percolog::clustered::{self, Shared};

trait Twice: Sync {
    fn twice(&self, n: u64) -> u64;
}

impl Twice for () {
    fn twice(&self, n: u64) -> u64 {
        2 * n
    }
}

fn main() {
    let object = clustered::create(Shared::new((), |it| it as &dyn Twice));
    let section = clustered::enter();
    let Ok(found) = object.get(&section) else {
        return;
    };
    #[cfg(feature = "wrong")]
    drop(section);
    assert_eq!(found.twice(2), 4);
}
