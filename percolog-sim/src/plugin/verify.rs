//! Compares each address that was computed before an access with the one that QEMU reports after it.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::plugin::access::Site;

thread_local! {
    static EXPECTED: Cell<(u64, u64, u64)> = const { Cell::new((0, 0, 0)) };
}

static COMPARED: AtomicU64 = AtomicU64::new(0);
static DIFFERENT: AtomicU64 = AtomicU64::new(0);

/// The access at this site will be made at this address.
pub(crate) fn expect(_vcpu: c_uint, site: &Site, address: Option<u64>) {
    EXPECTED.set((site.place, address.unwrap_or(0), u64::from(site.size)));
}

/// QEMU has made an access.
pub(crate) extern "C" fn compare(_vcpu: c_uint, _info: u32, address: u64, data: *mut c_void) {
    // SAFETY: the data is the site with which the callback was registered, and sites are never freed.
    let site = unsafe { &*data.cast::<Site>() };
    let (place, expected, size) = EXPECTED.get();
    if place != site.place {
        return;
    }
    if site.repeated {
        // The next element may be accessed without a word before it: see `repeated`.
        EXPECTED.set((0, 0, 0));
    }
    // Relaxed: counters, read at the end.
    COMPARED.fetch_add(1, Ordering::Relaxed);
    // A wide access is reported in parts.
    if address.wrapping_sub(expected) >= size && DIFFERENT.fetch_add(1, Ordering::Relaxed) < 20 {
        crate::plugin::say(&format!(
            "verify: the instruction at {place:#x} was expected to access {size} bytes at {expected:#x}, and accessed {address:#x}"
        ));
    }
}

/// How many accesses were compared, and how many were not where they were expected.
pub(crate) fn result() -> (u64, u64) {
    // Relaxed: counters, read at the end.
    (
        COMPARED.load(Ordering::Relaxed),
        DIFFERENT.load(Ordering::Relaxed),
    )
}
