//! How long `balanced` searches: asked before every step, so that a caller may stop it at any time.

/// What ends a search, softly: a step that has begun is finished or given up.
#[derive(Clone, Copy)]
pub struct HybridBudget<'a> {
    is_spent: &'a dyn Fn() -> bool,
    is_limited: bool,
}

impl HybridBudget<'_> {
    /// As long as it pays, as a rule some tenths of a second.
    pub const USUAL: Self = HybridBudget { is_spent: &|| false, is_limited: false };
}

impl<'a> HybridBudget<'a> {
    /// As long as it pays, unless this says that the caller wants no more.
    pub fn unless(is_spent: &'a dyn Fn() -> bool) -> Self {
        Self { is_spent, is_limited: false }
    }

    /// Until this says so, or nothing is left to try: a longer time is worth more search.
    pub fn until(is_spent: &'a dyn Fn() -> bool) -> Self {
        Self { is_spent, is_limited: true }
    }

    /// The same end, for a search that is no longer than usual before it.
    pub(super) fn as_usual(self) -> Self {
        Self { is_limited: false, ..self }
    }

    pub(super) fn is_spent(&self) -> bool {
        (self.is_spent)()
    }

    pub(super) fn is_limited(&self) -> bool {
        self.is_limited
    }
}
