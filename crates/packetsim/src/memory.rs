//! Hints to the processor and the system: what will be used soon, which arrays are large.
//!
//! At a thousand hosts the state of a network exceeds the cache of a core, and what a hop uses is
//! scattered over it: most of its time would be waiting for memory. The clock knows which links are
//! next, so their state can be fetched while others are processed. And translating the address of a
//! page of 4 kB is expensive if it holds but 128 packets: hence pages of 2 MB.

#![allow(unsafe_code)]

/// Fetches one item into the cache; without effect if there is no such item.
#[inline]
pub(crate) fn prefetch<T>(items: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let item = items.as_ptr().wrapping_add(index);
        // SAFETY: a prefetch reads nothing that the program sees and cannot fault, whatever the
        // address; SSE, which has it, is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(item.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, index);
}

/// Size of a large page, in bytes.
const LARGE_PAGE: usize = 1 << 21;

/// An empty vector with capacity for `count` items, on large pages if it is large enough and the
/// system has them.
pub(crate) fn with_large_pages<T>(count: usize) -> Vec<T> {
    let items = Vec::with_capacity(count);
    #[cfg(target_os = "linux")]
    {
        const PAGE: usize = 1 << 12;
        let start = (items.as_ptr() as usize).next_multiple_of(PAGE);
        let end = (items.as_ptr() as usize + items.capacity() * size_of::<T>()) / PAGE * PAGE;
        if end.saturating_sub(start) >= LARGE_PAGE {
            // SAFETY: the whole pages between are part of the allocation, and advice on how to back
            // them changes nothing that the program sees; that it is refused does no harm.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn prefetching_beyond_the_end_is_harmless() {
        let items = [1_u64; 10];
        for index in [0, 9, 10, usize::MAX / 8, usize::MAX] {
            prefetch(&items, index);
        }
        prefetch::<u64>(&[], 3);
    }

    #[test]
    fn vectors_have_the_capacity_that_was_asked_for() {
        for count in [0, 1, 1_000, LARGE_PAGE] {
            let items: Vec<u64> = with_large_pages(count);
            assert!(items.is_empty() && items.capacity() >= count);
        }
    }
}
