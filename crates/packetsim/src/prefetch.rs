//! Tells the processor what will be looked at soon.
//!
//! At a thousand hosts the state of a network is larger than the cache of a core, and what a hop
//! looks at is scattered over it: most of its time is waiting for memory. The agenda knows which
//! links are next, so their state can be on its way while others are dealt with.

#![allow(unsafe_code)]

/// Asks for one item; nothing happens if there is no such item.
#[inline]
pub fn prefetch<T>(items: &[T], index: usize) {
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
