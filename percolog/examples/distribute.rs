//! An ordinary type behind a reference: shared first, then distributed, and its callers do not notice.
//!
//! The way is described in the repository's `docs/distribute.md`.
//!
//! ```sh
//! cargo run --release --example distribute -- before 4
//! cargo run --release --example distribute -- after 4
//! percolog sim --cores 48 -- target/release/examples/distribute after 48
//! ```
//!
//! On 48 simulated cores the whole program takes 261 ms before, and moves 724,000 lines; after, 4.0 ms and 18,500 lines.

#![allow(
    clippy::expect_used,
    reason = "an example that says what it expects is short"
)]

mod common;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use percolog::clustered::{self, ObjectRef, Place, Root, Shared, Siblings, SwapPolicy};

// ── The type, as it was: a map behind a lock ──

/// How often each page has been viewed.
#[derive(Default)]
pub(crate) struct Counts(Mutex<HashMap<u32, u64>>);

impl Counts {
    fn add(&self, page: u32) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(page).or_default() += 1;
    }

    fn of(&self, page: u32) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&page).copied().unwrap_or(0)
    }
}

// ── Step 1: an interface, and the type behind it ──

/// What callers need.
pub(crate) trait Views: Sync {
    /// Somebody looks at a page.
    fn view(&self, page: u32);
    /// How often that happened.
    fn views(&self, page: u32) -> u64;
}

impl Views for Counts {
    fn view(&self, page: u32) {
        self.add(page);
    }

    fn views(&self, page: u32) -> u64 {
        self.of(page)
    }
}

/// One for all.
pub(crate) fn shared() -> Shared<Counts, dyn Views> {
    Shared::new(Counts::default(), |counts| counts as &dyn Views)
}

/// A caller. It is written once, and never changed.
pub(crate) fn serve(views: ObjectRef<dyn Views>, requests: u32) -> Result<(), clustered::StaleRef> {
    for request in 0..requests {
        views.call(|views| views.view(request % 8))?;
    }
    Ok(())
}

// ── Step 2: the same type, once on each slot ──

/// A slot's counts.
struct Share {
    counts: Counts,
    /// The way to the others, for the sum.
    siblings: Siblings<Share>,
}

impl Views for Share {
    fn view(&self, page: u32) {
        self.counts.add(page);
    }

    fn views(&self, page: u32) -> u64 {
        let sum = |share: &Share| share.counts.of(page);
        self.siblings
            .visit(|all| all.iter().map(|(_, share)| sum(share)).sum())
            .unwrap_or(0)
    }
}

/// Makes a share for each slot that calls.
#[derive(Default)]
struct ForEachSlot {
    /// What was counted before, for the first share.
    before: Mutex<HashMap<u32, u64>>,
}

impl Root for ForEachSlot {
    type Interface = dyn Views;
    type Rep = Share;

    fn create(&self, place: &Place<'_, Share>) -> Share {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        Share {
            counts: Counts(Mutex::new(std::mem::take(&mut before))),
            siblings: place.siblings(),
        }
    }

    fn interface(share: &Share) -> &Self::Interface {
        share
    }
}

/// Distributes an object, shared until now, while it is in use. Nothing is lost.
pub(crate) fn distribute(views: ObjectRef<dyn Views>) -> Result<(), clustered::ExchangeError> {
    views.swap(SwapPolicy::Wait, |old| {
        // All calls have finished, and new ones wait.
        let old = old.root::<Shared<Counts, dyn Views>>();
        let before = old.map_or_else(HashMap::new, |old| {
            let counts = &old.value().0;
            std::mem::take(&mut *counts.lock().unwrap_or_else(PoisonError::into_inner))
        });
        ForEachSlot {
            before: Mutex::new(before),
        }
    })
}

/// Requests that each thread serves.
const REQUESTS: u32 = 10_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (before, threads) = common::arguments();
    let views = clustered::create(shared());
    serve(views, 8)?;
    if !before {
        distribute(views)?;
    }
    common::on(threads, |_| {
        serve(views, REQUESTS).expect("nobody destroys it");
    });
    let seen = views.call(|views| views.views(3))?;
    println!("page 3 was viewed {seen} times");
    assert_eq!(seen, 1 + threads * u64::from(REQUESTS / 8));
    views.destroy()?;
    Ok(())
}
