// error: E0308
//! An object is found by its interface as a type: a reference cannot be turned into one of a supertype.

use percolog::clustered::{self, ObjectRef, Shared};

type OfAny = dyn for<'a> Fn(&'a u8) -> u8 + Sync;
#[cfg(feature = "wrong")]
type Seen = dyn Fn(&'static u8) -> u8 + Sync;
#[cfg(not(feature = "wrong"))]
type Seen = OfAny;

fn main() {
    let next = Shared::new(|byte: &u8| byte + 1, |it| it as &OfAny);
    let object: ObjectRef<OfAny> = clustered::create(next);
    let object: ObjectRef<Seen> = object;
    assert_eq!(object.call(|it| it(&1)), Ok(2));
}
