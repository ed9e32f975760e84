//! Open connections of a server: added and removed all the time, listed now and then.
//!
//! Most connections are opened and closed on the same core between two listings, and those never
//! reach the shared map at all: closing cancels opening where both were queued.

use percolog::oplog::{Absorb, AddToken, Logged, Operation, RemoveToken, token_pair};
use std::collections::BTreeMap;

/// Who is connected. A plain map: nothing about it is concurrent.
type Connections = BTreeMap<u64, String>;

enum Edit {
    Open(AddToken, String),
    Close(RemoveToken),
}

impl Operation<Connections> for Edit {
    const ABSORBS: bool = true;

    fn exec(self, open: &mut Connections) {
        match self {
            Edit::Open(id, peer) => {
                open.insert(id.id(), peer);
            }
            Edit::Close(id) => {
                open.remove(&id.id());
            }
        }
    }

    fn absorb(&self) -> Absorb<'_> {
        match self {
            Edit::Open(id, _) => Absorb::Add(id),
            Edit::Close(id) => Absorb::Remove(id),
        }
    }
}

static OPEN: Logged<Connections, Edit> = Logged::new(Connections::new());

/// A connection; closing it is dropping it.
struct Connection(Option<RemoveToken>);

impl Connection {
    fn accept(peer: String) -> Self {
        let (birth, death) = token_pair();
        OPEN.queue(Edit::Open(birth, peer));
        Self(Some(death))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(death) = self.0.take() {
            OPEN.queue(Edit::Close(death));
        }
    }
}

fn main() {
    let kept: Vec<Connection> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|worker| {
                scope.spawn(move || {
                    for number in 0..10_000 {
                        drop(Connection::accept(format!(
                            "10.0.{worker}.{}",
                            number % 256
                        )));
                    }
                    Connection::accept(format!("10.0.{worker}.1, still here"))
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("no worker panics"))
            .collect()
    });

    for (id, peer) in OPEN.synchronize().iter() {
        println!("connection {id}: {peer}");
    }
    assert_eq!(OPEN.synchronize().len(), 4);
    drop(kept);
    assert!(OPEN.synchronize().is_empty());

    let stats = OPEN.stats();
    println!(
        "{} updates were executed, {} never had to be",
        stats.executed, stats.absorbed
    );
}
