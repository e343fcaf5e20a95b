//! Why a step cannot be played.

use lightloom_kernel::Interrupted;
use lightloom_model::Invalid;

/// What went wrong; every text is one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// The task graph cannot be used.
    #[error("{0}")]
    Invalid(#[from] Invalid),
    /// The network cannot be used, or not for this task graph.
    #[error("{0}")]
    Network(Invalid),
    /// Workers wait for something that never comes.
    #[error("{0}")]
    Deadlock(String),
    /// Bytes were lost or invented: a defect of the task graph's source or of this crate.
    #[error("{0}")]
    NotConserved(String),
    /// The observer asked to stop.
    #[error("{0}")]
    Interrupted(Interrupted),
}

/// An [`Invalid`] of this text.
pub(crate) fn invalid(text: impl Into<String>) -> ExecuteError {
    ExecuteError::Invalid(Invalid(text.into()))
}

/// A network that cannot be used, for this reason.
pub(crate) fn network(text: impl Into<String>) -> ExecuteError {
    ExecuteError::Network(Invalid(text.into()))
}
