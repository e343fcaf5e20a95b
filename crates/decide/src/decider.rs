//! The object that decides: its region, policy and timing, and what it has found before.

use crate::allocator::Proposer;
use crate::cache::Cache;
use crate::decision::{Held, Upcoming};
use crate::layout::Layout;
use crate::policy::table::Policy;
use crate::region::SizedRegion;
use lightloom_model::{Allocator, Invalid, Rate, SwitchTiming};
use lightloom_schedule::relay::{
    MAX_BYTES, PathKind, RelayPath, RelayRequest, RelayVerdict, Relayed, expander, relay,
};
use lightloom_schedule::{Allocation, EpsRates, Request, allocate, circuits_of, route};
use std::sync::Arc;

/// Bytes of requests and results after which a cache is emptied, unless it is said otherwise.
const CACHE_BYTES: usize = 256 << 20;

/// Decides on the circuits of a region.
///
/// What is held is the caller's: a decider may serve several regions that are alike. It keeps only
/// results of earlier requests, which change no decision.
#[derive(Debug, Clone)]
pub struct Decider {
    pub(crate) region: SizedRegion,
    pub(crate) policy: Policy,
    pub(crate) timing: SwitchTiming,
    pub(crate) layout: Layout,
    eps_rates: Vec<Rate>,
    pub(crate) proposals: Cache<Arc<Allocation>>,
    /// Whose proposals these are.
    pub(crate) proposer: Proposer,
    routings: Cache<Arc<Relayed>>,
}

impl Decider {
    /// A decider for a region, or for several that are alike.
    pub fn new(region: SizedRegion, policy: Policy, timing: SwitchTiming) -> Self {
        Self {
            layout: Layout::new(&region),
            eps_rates: region.working_eps_rates(),
            region,
            policy,
            timing,
            proposals: Cache::new(CACHE_BYTES),
            proposer: Proposer::Policy,
            routings: Cache::new(CACHE_BYTES),
        }
    }

    /// The same with caches of this size each; nothing is kept with 0. It changes no decision of an
    /// allocator that serves equal requests alike.
    #[must_use]
    pub fn with_cache_bytes(mut self, limit: usize) -> Self {
        (self.proposals, self.routings) = (Cache::new(limit), Cache::new(limit));
        self
    }

    /// The region.
    pub fn region(&self) -> &SizedRegion {
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
        let ports = self.layout.ports.iter().max();
        let wide = ports.is_some_and(|&ports| n > ports as usize + 1);
        let circuits = if self.policy.relaying.is_some() && wide && self.region.allowed().is_none()
        {
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
        let built = circuits_of(n, &nics);
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

    /// Checks that servers can relay all of the upcoming demand, where they relay.
    ///
    /// # Errors
    /// If it is more bytes, all together, than loads can count.
    pub fn check_relayed(&self, upcoming: &[Upcoming]) -> Result<(), Invalid> {
        let bytes = upcoming.iter().flat_map(|next| &next.demand);
        let total: u128 = bytes.map(|&bytes| u128::from(bytes)).sum();
        if self.policy.relaying.is_none() || total <= MAX_BYTES {
            return Ok(());
        }
        Err(Invalid(format!("{total} bytes of demand, at most {MAX_BYTES} where servers relay")))
    }

    /// The request to an allocator for a demand, n x n.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn request<'a>(&'a self, demand: &'a [u64], previous: Option<&'a [u16]>) -> Request<'a> {
        let (ports, eps_rates) = (&self.layout.ports, EpsRates::Each(&self.eps_rates));
        let (rate, split) = (self.circuit_rate(), self.region.record().split);
        Request::new(demand, ports, rate, eps_rates, split)
            .and_then(|request| request.with_allowed(self.region.allowed()))
            .and_then(|request| request.with_previous(previous))
            .unwrap_or_else(|invalid| panic!("{invalid}"))
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
        let cost = self.policy.relaying?;
        if let Some(found) = self.routings.get(demand, circuits) {
            return Some(found);
        }
        let eps_rates = EpsRates::Each(&self.eps_rates);
        let request = RelayRequest::new(demand, circuits, self.circuit_rate(), eps_rates, cost)
            .unwrap_or_else(|invalid| panic!("{invalid}"));
        let relayed = Arc::new(relay(&request));
        self.routings.insert(demand, circuits, &relayed);
        Some(relayed)
    }

    /// The paths that carry a demand over the circuits held, sorted by source and destination.
    ///
    /// Over relays where that pays, else as [`Self::route`] divides it: what an all-to-all takes,
    /// in a simulated run and on real NICs.
    ///
    /// # Panics
    /// If the sizes differ.
    pub fn carry(&mut self, held: &Held, demand: &[u64]) -> Vec<RelayPath> {
        if let Some(relayed) = self.relay(&held.circuits, demand)
            && relayed.verdict == RelayVerdict::Pays
        {
            let mut paths = relayed.paths.clone();
            paths.sort_by_key(|path| (path.source, path.destination));
            return paths;
        }
        let over_eps = self.route(held, demand).eps_bytes;
        let n = self.region.servers();
        let mut paths = Vec::new();
        for (cell, (&bytes, &spilled)) in demand.iter().zip(&over_eps).enumerate() {
            let (source, destination) = ((cell / n) as u32, (cell % n) as u32);
            if source == destination {
                continue;
            }
            for (kind, bytes) in [(PathKind::Circuit, bytes - spilled), (PathKind::Eps, spilled)] {
                if bytes > 0 {
                    paths.push(RelayPath { source, destination, kind, relay: None, bytes });
                }
            }
        }
        paths
    }

    fn circuit_rate(&self) -> Rate {
        self.region.record().circuit_rate.rate()
    }
}
