// error: E0382
use percolog::oplog::{Absorb, AddToken, Logged, Operation, token_pair};

struct Open(AddToken);

impl Operation<u32> for Open {
    const ABSORBS: bool = true;
    fn exec(self, open: &mut u32) {
        *open += 1;
    }
    fn absorb(&self) -> Absorb<'_> {
        Absorb::Add(&self.0)
    }
}

fn main() {
    let log = Logged::new(0);
    let (birth, _death) = token_pair();
    log.queue(Open(birth));
    #[cfg(not(feature = "wrong"))]
    let (birth, _death) = token_pair();
    log.queue(Open(birth));
}
