//! How the allocator treats the rings of flows.

/// Has blocks of 64 KiB and more (the smallest ring) always mapped and unmapped one by one. By default glibc raises
/// that bound to the largest block ever freed, and from then on the rings of flows (up to 1 MiB)
/// come from its heap: zeroed by hand, every page touched, and seldom given back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn return_large_blocks() {
    // SAFETY: mallopt takes two integers, may be called at any time and only sets a tunable.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}

/// Nothing to do for other allocators.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn return_large_blocks() {}
