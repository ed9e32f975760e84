// error: E0597
use percolog::lock::NodeLock;
use percolog::reclaim::{Domain, Link, Owned};

static DOMAIN: Domain = Domain::new();

fn main() {
    let node: Link<NodeLock> = Link::new(Owned::new(NodeLock::new()));
    #[cfg(not(feature = "wrong"))]
    let section = DOMAIN.enter();
    let guard = {
        #[cfg(feature = "wrong")]
        let section = DOMAIN.enter();
        let lock = node.load(&section).unwrap().get();
        lock.lock().unwrap()
    };
    assert!(!guard.is_poisoned());
}
