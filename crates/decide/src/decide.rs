//! From what is held and upcoming to a decision, for one region or for several at once.

use crate::allocator::{CircuitAllocator, Proposer, propose};
use crate::choice::Draft;
use crate::decider::Decider;
use crate::decision::{Decision, Held, Upcoming, Why};
use lightloom_model::Invalid;
use lightloom_schedule::{Allocation, NicCircuit, Request, allocate, circuits_of, route};
use std::borrow::Cow;
use std::sync::Arc;

/// What is to be decided for one region.
#[derive(Debug)]
pub struct Case<'a> {
    /// Who decides.
    pub decider: &'a mut Decider,
    /// The circuits that the region has.
    pub held: &'a Held,
    /// Its next all-to-alls.
    pub upcoming: &'a [Upcoming],
}

/// Decides for several regions at once: an allocator, if there is one, gets all of their requests
/// in one call.
///
/// # Errors
/// If the allocator refuses, or its circuits cannot be used.
///
/// # Panics
/// As [`Decider::decide`].
pub fn decide_all(
    cases: &mut [Case],
    mut allocator: Option<&mut dyn CircuitAllocator>,
) -> Result<Vec<Decision>, Invalid> {
    let proposer = Proposer::new(allocator.as_deref());
    let mut drafts: Vec<Draft> = Vec::with_capacity(cases.len());
    for case in cases.iter_mut() {
        drafts.push(case.decider.draft(case.held, case.upcoming, proposer));
    }
    let mut found: Vec<Vec<u16>> = Vec::new();
    if let Some(allocator) = allocator.as_mut() {
        let requests: Vec<Request> = cases
            .iter()
            .zip(&drafts)
            .flat_map(|(case, draft)| draft.requests(case.decider))
            .collect();
        if !requests.is_empty() {
            found = propose(*allocator, &requests)?;
        }
    }
    let mut found = found.into_iter();
    let decide = |(case, draft): (&mut Case, Draft)| {
        let given = (proposer != Proposer::Policy).then_some(&mut found);
        let proposals = case.decider.proposals(&draft, given);
        case.decider.complete(case.held, &draft, &proposals)
    };
    Ok(cases.iter_mut().zip(drafts).map(decide).collect())
}

impl Decider {
    /// Decides on circuits for the upcoming all-to-alls.
    ///
    /// # Panics
    /// If a demand, or what is held, is not n x n.
    pub fn decide(&mut self, held: &Held, upcoming: &[Upcoming]) -> Decision {
        let draft = self.draft(held, upcoming, Proposer::Policy);
        let proposals = self.proposals(&draft, None);
        self.complete(held, &draft, &proposals)
    }

    /// As [`Self::decide`], with circuits that a user's allocator proposes.
    ///
    /// # Errors
    /// If it refuses, or its circuits cannot be used.
    ///
    /// # Panics
    /// As [`Self::decide`].
    pub fn decide_by(
        &mut self,
        held: &Held,
        upcoming: &[Upcoming],
        allocator: &mut dyn CircuitAllocator,
    ) -> Result<Decision, Invalid> {
        let mut cases = [Case { decider: self, held, upcoming }];
        let found = decide_all(&mut cases, Some(allocator))?;
        Ok(found.into_iter().next().expect("one decision per case"))
    }

    /// As [`Self::decide`], among what is held and these circuits, each n x n. What pays is taken,
    /// whatever the policy.
    ///
    /// # Errors
    /// If some of the circuits cannot be used.
    ///
    /// # Panics
    /// As [`Self::decide`].
    pub fn decide_among(
        &mut self,
        held: &Held,
        upcoming: &[Upcoming],
        circuits: &[Vec<u16>],
    ) -> Result<Decision, Invalid> {
        let draft = Draft::new(self.usable(held), upcoming);
        let Some(first) = upcoming.first() else {
            let choice = self.stay(&draft, Why::NothingUpcoming);
            return Ok(self.settle(held, &draft, choice));
        };
        let request = self.request(&first.demand, None);
        circuits.iter().try_for_each(|circuits| request.admits(circuits))?;
        let chosen = self.policy.allocator;
        let routed = |given: &Vec<u16>| Arc::new(Allocation { chosen, ..route(&request, given) });
        let proposals: Vec<Arc<Allocation>> = circuits.iter().map(routed).collect();
        let choice = self.compare(&draft, &proposals);
        let choice = self.choose_relayed(&draft, choice);
        Ok(self.settle(held, &draft, choice))
    }

    /// What circuits are to be requested for.
    fn draft<'a>(
        &mut self,
        held: &'a Held,
        upcoming: &'a [Upcoming],
        proposer: Proposer,
    ) -> Draft<'a> {
        if self.proposer != proposer || proposer == Proposer::Unknown {
            // what another allocator proposed is none of this one's
            self.proposals.clear();
            self.proposer = proposer;
        }
        let mut draft = Draft::new(self.usable(held), upcoming);
        if upcoming.is_empty() {
            draft.nothing = Some(Why::NothingUpcoming);
            return draft;
        }
        match self.policy.when.policy().request(self, &draft) {
            Ok(demands) => draft.demands = demands,
            Err(why) => draft.nothing = Some(why),
        }
        let found = (0..draft.demands.len())
            .map(|index| self.proposals.get(&draft.demands[index], draft.previous(index)));
        draft.proposals = found.collect();
        draft
    }

    /// What is held, without the circuits whose NICs have failed.
    fn usable<'a>(&self, held: &'a Held) -> Cow<'a, Held> {
        if held.nics.iter().all(|circuit| self.layout.works(circuit)) {
            return Cow::Borrowed(held);
        }
        let nics: Vec<NicCircuit> =
            held.nics.iter().copied().filter(|circuit| self.layout.works(circuit)).collect();
        let circuits = circuits_of(self.region.servers(), &nics);
        Cow::Owned(Held { circuits, nics, chosen: held.chosen })
    }

    /// Proposals for all requests of a draft: from the cache, from those given in order, or from
    /// the policy's allocator.
    fn proposals(
        &mut self,
        draft: &Draft,
        mut given: Option<&mut std::vec::IntoIter<Vec<u16>>>,
    ) -> Vec<Arc<Allocation>> {
        let mut found = Vec::with_capacity(draft.demands.len());
        for (index, proposal) in draft.proposals.iter().enumerate() {
            let proposal = proposal.clone().unwrap_or_else(|| {
                let request = draft.request(self, index);
                let chosen = self.policy.allocator;
                let made = Arc::new(match given.as_mut() {
                    Some(given) => {
                        let circuits = given.next().expect("one proposal per request");
                        Allocation { chosen, ..route(&request, &circuits) }
                    }
                    None => allocate(chosen, &request),
                });
                self.proposals.insert(&draft.demands[index], draft.previous(index), &made);
                made
            });
            found.push(proposal);
        }
        found
    }

    /// The decision, given proposals for all requests.
    fn complete(&mut self, held: &Held, draft: &Draft, proposals: &[Arc<Allocation>]) -> Decision {
        let choice = match draft.nothing {
            Some(why) => self.stay(draft, why),
            None => self.policy.when.policy().choose(self, draft, proposals),
        };
        let choice = self.choose_relayed(draft, choice);
        self.settle(held, draft, choice)
    }
}
