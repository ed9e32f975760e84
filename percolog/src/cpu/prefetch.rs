//! Asking for a line before it is needed.

/// What processors move at once. ([`LINE_SIZE`](super::LINE_SIZE) may be two of these.)
pub(crate) const MOVED_AT_ONCE: usize = 64;

/// Asks for the line at this address, which the caller is going to write soon: it then comes while the caller does something else, where
/// the next locked instruction would wait for the write. A hint: any address will do.
#[inline(always)]
pub(crate) fn prefetch_for_write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(any(percolog_portable, miri))))]
    // SAFETY: prefetching changes nothing that a program can see, and no address is wrong. Processors that do not know the instruction
    // have always done nothing where it stands.
    unsafe {
        core::arch::asm!(
            "prefetchw byte ptr [{}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags),
        );
    }
    #[cfg(all(target_arch = "aarch64", not(any(percolog_portable, miri))))]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!(
            "prfm pstl1keep, [{}]",
            in(reg) address,
            options(readonly, nostack, preserves_flags),
        );
    }
    #[cfg(not(all(
        any(target_arch = "x86_64", target_arch = "aarch64"),
        not(any(percolog_portable, miri))
    )))]
    let _ = address;
}
