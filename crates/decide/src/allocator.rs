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
