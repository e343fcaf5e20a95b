//! Questions to the allocator: the network's, or a user's own.
//!
//! Equal questions are answered once, whoever answers. A user's answer is checked; if there is
//! none, or it cannot be used, the circuits stay as they are and the run ends with the failure.

use super::Circuits;
use crate::error::{ExecuteError, invalid};
use lightloom_model::Invalid;
use lightloom_schedule::{Allocation, Request, allocate, route};
use std::fmt;

/// A user's own allocator.
pub trait CircuitAllocator: Send {
    /// Circuits for each request, n x n; all requests of a decision come at once.
    ///
    /// # Errors
    /// Why there are none: it ends the run.
    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid>;
}

/// Who answers instead of the network's allocator, and why the run must end.
#[derive(Default)]
pub struct Own<'a> {
    /// A user's own allocator, if any.
    pub allocator: Option<&'a mut dyn CircuitAllocator>,
    /// What went wrong with it.
    pub failure: Option<ExecuteError>,
}

impl fmt::Debug for Own<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = self.allocator.is_some();
        formatter.debug_tuple("Own").field(&there).field(&self.failure).finish()
    }
}

impl Circuits<'_> {
    /// Answers for demands (servers x servers) of a domain; those `from` its present circuits are
    /// to change as few as they can.
    pub(super) fn ask(&mut self, index: u32, demands: &[&[u64]], from: &[bool]) -> Vec<Allocation> {
        let mut memo = std::mem::take(&mut self.memo);
        let mut own = std::mem::take(&mut self.own);
        let domain = self.domain(index);
        let held = domain.circuits.as_slice();
        let previous = |place: usize| from[place].then_some(held);
        let key = |place: usize| previous(place).unwrap_or_default();
        let mut answers: Vec<Option<Allocation>> = (demands.iter().enumerate())
            .map(|(place, demand)| memo.known(domain.shape, demand, key(place)))
            .collect();
        let open: Vec<usize> = (0..demands.len()).filter(|&p| answers[p].is_none()).collect();
        let requests: Vec<Request> =
            open.iter().map(|&p| self.request(domain, demands[p], previous(p))).collect();
        let found: Vec<Allocation> = match own.ask(&requests) {
            Some(found) => {
                let chosen = self.ocs.allocator;
                let routed = |(request, circuits): (&Request, &Vec<u16>)| Allocation {
                    chosen,
                    ..route(request, circuits)
                };
                requests.iter().zip(&found).map(routed).collect()
            }
            None if own.failure.is_some() => {
                requests.iter().map(|request| route(request, held)).collect()
            }
            None => requests.iter().map(|asked| allocate(self.ocs.allocator, asked)).collect(),
        };
        for (&place, answer) in open.iter().zip(found) {
            memo.keep(domain.shape, demands[place], key(place), &answer);
            answers[place] = Some(answer);
        }
        self.memo = memo;
        self.own = own;
        answers.into_iter().map(|answer| answer.expect("known or found")).collect()
    }
}

impl Own<'_> {
    /// The user's answers, checked; `None` without an allocator, and after a failure.
    fn ask(&mut self, requests: &[Request]) -> Option<Vec<Vec<u16>>> {
        if requests.is_empty() || self.failure.is_some() {
            return None;
        }
        let found = self.allocator.as_mut()?.allocate(requests).and_then(|found| {
            check(requests, &found)?;
            Ok(found)
        });
        match found {
            Ok(found) => Some(found),
            Err(Invalid(text)) => {
                self.failure = Some(invalid(format!("allocator: {text}")));
                None
            }
        }
    }
}

fn check(requests: &[Request], found: &[Vec<u16>]) -> Result<(), Invalid> {
    if found.len() != requests.len() {
        let (given, wanted) = (found.len(), requests.len());
        return Err(Invalid(format!("{given} answers to {wanted} questions")));
    }
    requests.iter().zip(found).try_for_each(|(request, circuits)| request.admits(circuits))
}
