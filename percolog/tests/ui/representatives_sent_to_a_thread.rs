// error: E0277
//! Who looks at all representatives has a lock, which the same thread gives back.

use percolog::clustered::{self, Place, Root};

trait Nothing: Sync {}

impl Nothing for () {}

struct Each;

impl Root for Each {
    type Interface = dyn Nothing;
    type Rep = ();

    fn create(&self, _: &Place<'_, ()>) {}

    fn interface(rep: &()) -> &Self::Interface {
        rep
    }
}

fn main() {
    let object = clustered::create(Each);
    let _ = object.inspect(|now| {
        let all = now.representatives::<Each>();
        #[cfg(not(feature = "wrong"))]
        let all = drop(all);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let _all = all;
            });
        });
    });
}
