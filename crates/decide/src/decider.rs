//! The decision itself.

use crate::allocator::{CircuitAllocator, propose};
use crate::break_even::{demands_to_request, max_gain};
use crate::cache::Cache;
use crate::choice::{Draft, sum_of};
use crate::decision::{Decision, Held, Upcoming, Why};
use crate::layout::{Layout, counts};
use crate::region::Region;
use lightloom_model::{Allocator, Invalid, Policy, Rate, Reconfigure, SwitchTiming};
use lightloom_schedule::relay::{RelayRequest, Relayed, expander, relay};
use lightloom_schedule::{Allocation, EpsRates, NicCircuit, Request, allocate, route};
use std::borrow::Cow;
use std::sync::Arc;

/// Bytes of requests and results after which a cache is emptied, unless it is said otherwise.
const CACHE_BYTES: usize = 256 << 20;

/// Decides on the circuits of a region.
///
/// What is held is the caller's: a decider may serve several regions that are alike. It keeps only
/// results of earlier requests, which change no decision.
#[derive(Debug, Clone)]
pub struct Decider {
    region: Region,
    pub(crate) policy: Policy,
    pub(crate) timing: SwitchTiming,
    pub(crate) layout: Layout,
    eps_rates: Vec<Rate>,
    proposals: Cache<Arc<Allocation>>,
    routings: Cache<Arc<Relayed>>,
}

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
    let custom = allocator.is_some();
    let mut drafts: Vec<Draft> = Vec::with_capacity(cases.len());
    for case in cases.iter_mut() {
        drafts.push(case.decider.draft(case.held, case.upcoming));
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
        let proposals = case.decider.proposals(&draft, custom.then_some(&mut found));
        case.decider.complete(case.held, &draft, &proposals)
    };
    Ok(cases.iter_mut().zip(drafts).map(decide).collect())
}

impl Decider {
    /// A decider for a region, or for several that are alike.
    ///
    /// # Errors
    /// If the region is not consistent, see [`Region::validate`].
    pub fn new(region: Region, policy: Policy, timing: SwitchTiming) -> Result<Self, Invalid> {
        region.validate()?;
        Ok(Self {
            layout: Layout::new(&region),
            eps_rates: region.working_eps_rates(),
            region,
            policy,
            timing,
            proposals: Cache::new(CACHE_BYTES),
            routings: Cache::new(CACHE_BYTES),
        })
    }

    /// The same with caches of this size each; nothing is kept with 0. It changes no decision of an
    /// allocator that serves equal requests alike.
    #[must_use]
    pub fn with_cache_bytes(mut self, limit: usize) -> Self {
        (self.proposals, self.routings) = (Cache::new(limit), Cache::new(limit));
        self
    }

    /// The region.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The policy.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How long switches take.
    pub fn timing(&self) -> &SwitchTiming {
        &self.timing
    }

    /// Requests to the allocator so far, and those served from the cache.
    pub fn allocations(&self) -> (u64, u64) {
        (self.proposals.hits + self.proposals.misses, self.proposals.hits)
    }

    /// Demand-oblivious circuits to start with: a circulant of the nearest servers; where servers
    /// relay and not all pairs can have circuits, of geometric strides, which leave few hops
    /// between any two.
    pub fn start(&self) -> Held {
        let n = self.region.servers();
        let demand = vec![0; n * n];
        let request = self.request(&demand, None);
        let wide = n > self.region.width() + 1;
        let circuits = if self.policy.relaying && wide && self.region.allowed.is_none() {
            expander(&request)
        } else {
            allocate(Allocator::Static, &request).circuits
        };
        let (circuits, nics) = self.layout.build(&request, &circuits, &[]);
        Held { circuits, nics, chosen: Allocator::Static }
    }

    /// Given circuits as held, on NICs that suit them.
    ///
    /// # Errors
    /// If they are not symmetric, exceed the ports that work, or cannot be built.
    pub fn hold(&self, circuits: Vec<u16>) -> Result<Held, Invalid> {
        let n = self.region.servers();
        let demand = vec![0; n * n];
        self.request(&demand, None).admits(&circuits)?;
        let nics = self.layout.place(&circuits, &[]);
        let built = counts(n, &nics);
        if built != circuits {
            return Err(Invalid::new("the circuits held cannot be put on planes"));
        }
        Ok(Held { circuits, nics, chosen: self.policy.allocator })
    }

    /// Checks that circuits on NICs can be held in this region; they may lie on NICs that have
    /// failed since.
    ///
    /// # Errors
    /// Names the first NIC or pair that is wrong.
    pub fn check(&self, held: &Held) -> Result<(), Invalid> {
        self.layout.check(&held.circuits, &held.nics)
    }

    /// The request to an allocator for a demand, n x n.
    pub fn request<'a>(&'a self, demand: &'a [u64], previous: Option<&'a [u16]>) -> Request<'a> {
        Request {
            servers: self.region.servers(),
            demand,
            ports: &self.layout.ports,
            allowed: self.region.allowed.as_deref(),
            circuit_rate: self.region.circuit_rate,
            eps_rates: EpsRates::Each(&self.eps_rates),
            split: self.policy.split,
            previous,
        }
    }

    /// Divides a demand between the circuits held and the EPS.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn route(&self, held: &Held, demand: &[u64]) -> Allocation {
        route(&self.request(demand, None), &held.circuits)
    }

    /// The best division of a demand over some circuits, the EPS and relays; nothing if servers do
    /// not relay.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn relay(&mut self, circuits: &[u16], demand: &[u64]) -> Option<Arc<Relayed>> {
        if !self.policy.relaying {
            return None;
        }
        if let Some(found) = self.routings.get(demand, circuits) {
            return Some(found);
        }
        let found = Arc::new(relay(&RelayRequest {
            servers: self.region.servers(),
            demand,
            circuits,
            circuit_rate: self.region.circuit_rate,
            eps_rates: EpsRates::Each(&self.eps_rates),
            cost: self.region.relay_cost,
        }));
        self.routings.insert(demand, circuits, &found);
        Some(found)
    }

    /// Decides on circuits for the upcoming all-to-alls.
    ///
    /// # Panics
    /// If a demand, or what is held, is not n x n.
    pub fn decide(&mut self, held: &Held, upcoming: &[Upcoming]) -> Decision {
        let draft = self.draft(held, upcoming);
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
    fn draft<'a>(&mut self, held: &'a Held, upcoming: &'a [Upcoming]) -> Draft<'a> {
        let mut draft = Draft::new(self.usable(held), upcoming);
        if upcoming.is_empty() {
            draft.nothing = Some(Why::NothingUpcoming);
            return draft;
        }
        match self.policy.when {
            Reconfigure::Never => draft.nothing = Some(Why::Never),
            Reconfigure::Always | Reconfigure::PerLayer => draft.demands = vec![sum_of(upcoming)],
            Reconfigure::BreakEven | Reconfigure::Oracle => {
                let request = self.request(&upcoming[0].demand, None);
                let held = &draft.held.circuits;
                if let Some((saved, exposed)) = max_gain(&request, held, upcoming, &self.timing) {
                    draft.nothing = Some(Why::CannotPay { saved, exposed });
                } else {
                    let demands: Vec<&[u64]> =
                        upcoming.iter().filter_map(Upcoming::request).collect();
                    draft.demands = demands_to_request(&demands);
                }
            }
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
        let circuits = counts(self.region.servers(), &nics);
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
        let choice = match (draft.nothing, self.policy.when) {
            (Some(why), _) => self.stay(draft, why),
            (None, Reconfigure::BreakEven | Reconfigure::Oracle) => self.compare(draft, proposals),
            (None, _) => self.follow(draft, &proposals[0]),
        };
        let choice = self.choose_relayed(draft, choice);
        self.settle(held, draft, choice)
    }
}
