//! A vector whose entries come and go; a freed entry keeps its memory for the next user.

/// Entries addressed by number.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    /// The number of an entry that nobody uses: new, or freed with its last content.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.entries.push(T::default());
            (self.entries.len() - 1) as u32
        })
    }

    /// Returns an entry.
    pub(crate) fn free(&mut self, id: u32) {
        self.free.push(id);
    }

    /// Entries in use.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        &self.entries[id as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        &mut self.entries[id as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_entries_are_used_again() {
        let mut slab: Slab<Vec<u8>> = Slab::default();
        let first = slab.take();
        let second = slab.take();
        slab[first].push(1);
        slab.free(first);
        assert_eq!(slab.in_use(), 1);
        assert_eq!(slab.take(), first);
        assert_eq!(slab[first], [1]);
        assert_ne!(first, second);
    }
}
