// error: E0521
//! Representatives are there while they are visited.

use percolog::clustered::{self, Place, Root, Siblings};

trait Twice: Sync {
    fn all(&self) -> usize;
}

struct Own(Siblings<Own>);

impl Twice for Own {
    fn all(&self) -> usize {
        let mut kept: Option<&Own> = None;
        let all = self.0.visit(|all| {
            for (_, it) in all.iter() {
                #[cfg(feature = "wrong")]
                {
                    kept = Some(it);
                }
                let _ = it;
            }
            all.len()
        });
        let _ = kept.take();
        all.unwrap_or(0)
    }
}

struct Each;

impl Root for Each {
    type Interface = dyn Twice;
    type Rep = Own;

    fn create(&self, place: &Place<'_, Own>) -> Own {
        Own(place.siblings())
    }

    fn interface(rep: &Own) -> &Self::Interface {
        rep
    }
}

fn main() {
    let object = clustered::create(Each);
    assert_eq!(object.call(|it| it.all()), Ok(1));
}
