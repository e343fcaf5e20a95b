//! Allocators that a user supplies instead of the built-in ones.

use lightloom_model::Invalid;
use lightloom_schedule::Request;

/// Proposes circuits.
pub trait CircuitAllocator: Send {
    /// Circuits for each request, n x n. All requests of a decision come at once, and all of
    /// several regions where these are decided together.
    ///
    /// # Errors
    /// Why there are none: no decision is taken.
    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid>;

    /// Tells it apart from all others that the same [`Decider`](crate::Decider) asks: what it
    /// proposed serves equal requests later. It is asked every time if it has none.
    fn key(&self) -> Option<u64> {
        None
    }
}

/// Who proposes circuits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Proposer {
    /// The policy's allocator.
    Policy,
    /// A user's allocator, by its key.
    User(u64),
    /// A user's allocator whose proposals are not kept.
    Unknown,
}

impl Proposer {
    /// The allocator that is given, or the policy's.
    pub(crate) fn new(given: Option<&dyn CircuitAllocator>) -> Self {
        given.map_or(Self::Policy, |allocator| allocator.key().map_or(Self::Unknown, Self::User))
    }
}

/// Proposals of a user's allocator that were checked against their requests.
pub(crate) fn propose(
    allocator: &mut dyn CircuitAllocator,
    requests: &[Request],
) -> Result<Vec<Vec<u16>>, Invalid> {
    let refused = |Invalid(text)| Invalid(format!("allocator: {text}"));
    let found = allocator.allocate(requests).map_err(refused)?;
    if found.len() != requests.len() {
        let (given, wanted) = (found.len(), requests.len());
        return Err(refused(Invalid(format!("{given} proposals for {wanted} requests"))));
    }
    let admitted = |(request, circuits): (&Request, &Vec<u16>)| request.admits(circuits);
    requests.iter().zip(&found).try_for_each(admitted).map_err(refused)?;
    Ok(found)
}
