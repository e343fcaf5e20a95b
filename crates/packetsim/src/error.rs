//! What can go wrong.

use lightloom_kernel::Interrupted;

/// A run that cannot begin or did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    /// The input makes no sense; says what was given and what was expected.
    #[error("{0}")]
    Invalid(String),
    /// Packets wait for one another for ever, or flows never end.
    #[error("{0}")]
    Stuck(String),
    /// The observer asked to stop.
    #[error("{0}")]
    Interrupted(#[from] Interrupted),
}

impl PacketError {
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }
}
