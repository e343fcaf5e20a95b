//! The circuits of the regions and when they follow the demand (MixNet section 5.1, appendix B.2).
//!
//! Circuits begin as a demand-blind circulant: of the nearest servers, or, in wide regions whose
//! servers relay, of geometric strides, which leave few hops between any two. A decision asks the
//! allocator, lets the circuits that change go dark, and brings the new ones up after the switch's
//! delay. Circuits in use are never switched: the caller says who uses them ([`Circuits::enter`],
//! [`Circuits::leave`]).

pub mod ask;
pub mod domain;
pub mod memo;
pub mod relaying;

use crate::error::ExecuteError;
use crate::medium::Medium;
use crate::outcome::{CircuitStatistics, LinkUse};
use crate::timeline::CircuitTimeline;
use ask::Own;
use domain::{Domain, Domains};
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{
    Allocator, Duration, Network, Ocs, Rate, Reconfigure, TaskGraph, Time, WorkerId,
};
use lightloom_schedule::reconfigure::{cannot_pay, questions};
use lightloom_schedule::relay::expander;
use lightloom_schedule::{
    Ahead, Allocation, EpsRates, Request, Switching, allocate, break_even, makespans, port_bound,
    route,
};
use memo::Memo;
use relaying::Relays;

/// All regional circuits of a network.
#[derive(Debug)]
pub struct Circuits<'a> {
    /// The policy.
    pub ocs: &'a Ocs,
    eps_rate: Rate,
    domains: Vec<Domain>,
    of_group: Vec<Option<u32>>,
    place: Vec<u32>,
    members: usize,
    memo: Memo<Allocation>,
    relays: Option<Relays>,
    /// Who answers instead of the network's allocator.
    pub own: Own<'a>,
    /// What was done so far.
    pub statistics: CircuitStatistics,
    /// When recorded circuits were up.
    pub timeline: CircuitTimeline,
}

/// What a decision looks at.
#[derive(Debug)]
pub struct Outlook {
    /// The next all-to-alls, at least one.
    pub ahead: Vec<Ahead>,
    /// Demand that an allocator may be asked for, for each; `None` where too little was seen.
    pub asked: Vec<Option<Vec<u64>>>,
}

/// What a decision comes to.
#[derive(Debug, Clone)]
pub struct Decision {
    /// When the circuits are up.
    pub ready: Time,
    /// Whether any circuit changes.
    pub changed: bool,
    /// What the circuits are for, and ...
    pub demand: Vec<u64>,
    /// ... those that were taken.
    pub allocation: Allocation,
}

/// What a policy takes.
struct Choice {
    /// The demand that it looked at most of all.
    demand: Vec<u64>,
    allocation: Allocation,
    /// Seconds that the all-to-alls ahead would have taken longer with the circuits held.
    saved: f64,
}

impl<'a> Circuits<'a> {
    /// The circuits at the start of a run; `None` if the network has no circuit switches.
    ///
    /// # Errors
    /// If a region is too large, or has too many ports, for the allocators.
    pub fn new(
        graph: &TaskGraph,
        network: &'a Network,
        share_equal_work: bool,
        medium: &mut Medium,
    ) -> Result<Option<Self>, ExecuteError> {
        let (Some(ocs), Some(eps)) = (&network.ocs, &network.eps) else { return Ok(None) };
        let found = Domains::new(graph, ocs);
        let mut circuits = Self {
            ocs,
            eps_rate: Rate(eps.nic_rate.0.saturating_mul(u64::from(eps.nics))),
            domains: found.domains,
            of_group: found.of_group,
            place: found.place,
            members: graph.layout.members as usize,
            memo: Memo::new(share_equal_work),
            relays: None,
            own: Own::default(),
            statistics: CircuitStatistics::default(),
            timeline: CircuitTimeline::default(),
        };
        for index in 0..circuits.domains.len() {
            let demand = vec![0; circuits.domains[index].size().pow(2)];
            let asked = circuits.request(&circuits.domains[index], &demand, None);
            asked.validate().map_err(ExecuteError::Network)?;
            let start = start(&asked, ocs);
            let domain = &mut circuits.domains[index];
            domain.circuits = start;
            domain.add_links(ocs, medium);
        }
        circuits.relays = Relays::new(network, ocs, &circuits.domains, share_equal_work, medium);
        Ok(Some(circuits))
    }

    /// The domain of a group's circuits; `None` where its all-to-alls stay in one server.
    pub fn of_group(&self, group: u32) -> Option<u32> {
        self.of_group[group as usize]
    }

    /// A domain by its number.
    pub fn domain(&self, index: u32) -> &Domain {
        &self.domains[index as usize]
    }

    /// A domain by its number.
    pub fn domain_mut(&mut self, index: u32) -> &mut Domain {
        &mut self.domains[index as usize]
    }

    /// Records the circuits and decisions of a group.
    pub fn record(&mut self, group: u32) {
        if let Some(domain) = self.of_group(group) {
            self.domains[domain as usize].recorded = true;
        }
    }

    /// An all-to-all begins to use the circuits of a domain.
    pub fn enter(&mut self, domain: u32) {
        self.domain_mut(domain).active += 1;
    }

    /// An all-to-all has used the circuits of a domain.
    pub fn leave(&mut self, domain: u32) {
        self.domain_mut(domain).active -= 1;
    }

    /// Adds a group's demand (members x members) to that of its domain (servers x servers).
    pub fn fold(&self, group: u32, demand: &[u64], total: &mut [u64]) {
        let size = self.size_of(group);
        for (cell, &bytes) in demand.iter().enumerate() {
            let (from, to) = self.places(group, cell);
            total[from * size + to] += bytes;
        }
    }

    /// For each pair of a group's members: bytes that take the EPS, and the circuits.
    pub fn route(&self, group: u32, demand: &[u64]) -> (Vec<u64>, Vec<u16>) {
        let index = self.of_group(group).expect("a group that crosses servers has a domain");
        let domain = self.domain(index);
        let size = domain.size();
        let mut total = vec![0; size * size];
        self.fold(group, demand, &mut total);
        let routed = route(&self.request(domain, &total, None), &domain.circuits);
        let mut eps_bytes = vec![0; demand.len()];
        let mut counts = vec![0; demand.len()];
        for cell in 0..demand.len() {
            let (from, to) = self.places(group, cell);
            eps_bytes[cell] = routed.eps_bytes[from * size + to];
            counts[cell] = domain.circuits[from * size + to];
        }
        (eps_bytes, counts)
    }

    /// The link of the circuits from one worker's server to another's.
    pub fn link(&self, group: u32, from: WorkerId, to: WorkerId) -> Option<LinkId> {
        let domain = self.domain(self.of_group(group)?);
        let (from, to) = (self.place[from as usize], self.place[to as usize]);
        domain.links[from as usize * domain.size() + to as usize]
    }

    /// Decides on circuits for the all-to-alls ahead and begins to switch.
    ///
    /// The caller sees to it that nobody uses the domain's circuits until the decision's `ready`,
    /// and calls [`Self::finish`] then if anything changed.
    pub fn decide(
        &mut self,
        index: u32,
        outlook: &Outlook,
        now: Time,
        medium: &mut Medium,
    ) -> Decision {
        let choice = match self.ocs.reconfigure {
            Reconfigure::Never => unreachable!("circuits that never change are not decided"),
            Reconfigure::Always | Reconfigure::PerLayer => self.tailor(index, &outlook.ahead),
            Reconfigure::BreakEven | Reconfigure::Oracle => self.weigh(index, outlook),
        };
        let Choice { demand, allocation, saved } =
            self.choose_relayed(index, &outlook.ahead, choice);
        let domain = self.domain(index);
        let bound = port_bound(&self.request(domain, &demand, None));
        let statistics = &mut self.statistics;
        statistics.decisions += 1;
        statistics.makespan_s += allocation.makespan;
        statistics.bound_s += bound;
        let switching = self.switching();
        let pairs = switching.pairs(&self.domain(index).circuits, &allocation.circuits);
        if pairs > 0 {
            self.statistics.reconfigurations += 1;
            self.statistics.pairs_changed += u64::from(pairs);
            self.statistics.saved_s += saved;
            self.begin(index, &allocation.circuits, now, medium);
        }
        let ready = now + switching.delay.for_pairs(pairs);
        let domain = self.domain_mut(index);
        domain.ready = ready;
        domain.chosen = allocation.chosen;
        Decision { ready, changed: pairs > 0, demand, allocation }
    }

    /// The allocator's circuits for everything ahead together.
    fn tailor(&mut self, index: u32, ahead: &[Ahead]) -> Choice {
        let mut demand = ahead[0].demand.clone();
        for next in &ahead[1..] {
            for (sum, &bytes) in demand.iter_mut().zip(&next.demand) {
                *sum += bytes;
            }
        }
        let held = self.domain(index).circuits.clone();
        let mut answers = self.ask(index, &[&demand], &[true]);
        let allocation = answers.pop().expect("one answer per question");
        let mut saved = 0.0;
        if allocation.circuits != held {
            for next in ahead {
                let request = self.request(self.domain(index), &next.demand, None);
                let times = makespans(&request, &[&held, &allocation.circuits]);
                saved += times[0] - times[1];
            }
        }
        Choice { demand, allocation, saved }
    }

    /// The circuits that pay: those held, or those of the allocator for something ahead.
    fn weigh(&mut self, index: u32, Outlook { ahead, asked }: &Outlook) -> Choice {
        let (switching, demand) = (self.switching(), ahead[0].demand.clone());
        let held = self.domain(index).circuits.clone();
        let mut proposals = Vec::new();
        let request = self.request(self.domain(index), &demand, None);
        if !cannot_pay(&request, &held, ahead, &switching) {
            let demands: Vec<&[u64]> = asked.iter().flatten().map(Vec::as_slice).collect();
            let asked = questions(&demands);
            let asked: Vec<&[u64]> = asked.iter().map(Vec::as_slice).collect();
            // Only a switch now starts from what is held.
            let from: Vec<bool> = (0..asked.len()).map(|number| number == 0).collect();
            proposals = self.ask(index, &asked, &from);
        }
        let circuits: Vec<Vec<u16>> = proposals.iter().map(|p| p.circuits.clone()).collect();
        let request = self.request(self.domain(index), &demand, None);
        let verdict = break_even(&request, &held, ahead, &circuits, &switching);
        let (taken, chosen) = match verdict.best.filter(|_| verdict.pays()) {
            Some(best) => (&circuits[best], proposals[best].chosen),
            None => (&held, self.domain(index).chosen),
        };
        let allocation = Allocation { chosen, ..route(&request, taken) };
        Choice { demand, allocation, saved: verdict.hold - verdict.switch }
    }

    fn switching(&self) -> Switching {
        Switching { delay: self.ocs.delay, keep_unchanged: self.ocs.keep_unchanged }
    }

    /// Lets circuits that change go dark.
    fn begin(&mut self, index: u32, next: &[u16], now: Time, medium: &mut Medium) {
        let size = self.domain(index).size();
        for a in 0..size {
            for b in a + 1..size {
                let cell = a * size + b;
                let (old, new) = (self.domain(index).circuits[cell], next[cell]);
                if old == new && (self.ocs.keep_unchanged || old == 0) {
                    continue;
                }
                self.close(index, (a, b), now);
                let kept = if self.ocs.keep_unchanged { old.min(new) } else { 0 };
                let rate = Rate(self.ocs.nic_rate.0.saturating_mul(u64::from(kept)));
                let domain = &mut self.domains[index as usize];
                set_pair(domain, (a, b), rate, now, medium);
                domain.circuits[cell] = new;
                domain.circuits[b * size + a] = new;
                domain.switching.push((a as u32, b as u32));
            }
        }
    }

    /// Brings up the circuits that [`Self::decide`] let go dark.
    pub fn finish(&mut self, index: u32, now: Time, medium: &mut Medium) {
        let size = self.domain(index).size();
        let domain = &mut self.domains[index as usize];
        for (a, b) in std::mem::take(&mut domain.switching) {
            let cell = a as usize * size + b as usize;
            let rate = Rate(self.ocs.nic_rate.0.saturating_mul(u64::from(domain.circuits[cell])));
            set_pair(domain, (a as usize, b as usize), rate, now, medium);
            domain.up_since[cell] = now;
        }
    }

    /// Ends the time in which a pair had its present circuits.
    fn close(&mut self, index: u32, (a, b): (usize, usize), now: Time) {
        let domain = &mut self.domains[index as usize];
        let cell = a * domain.size() + b;
        let (count, up) = (domain.circuits[cell], domain.up_since[cell]);
        if count == 0 || now <= up {
            return;
        }
        let rate = u128::from(self.ocs.nic_rate.0) * u128::from(count);
        domain.capacity[cell] += rate * u128::from(now.since(up).0);
        if domain.recorded {
            self.timeline.a.push(domain.servers[a]);
            self.timeline.b.push(domain.servers[b]);
            self.timeline.count.push(count);
            self.timeline.up.push(up.0);
            self.timeline.down.push(now.0);
        }
    }

    /// Ends the books: circuits stay up until the end of the step. Use is against the time in
    /// which the circuits were up.
    pub fn end(&mut self, now: Time, medium: &Medium) -> LinkUse {
        let (mut carried_bytes, mut links, mut max) = (0, 0, 0.0_f64);
        let mut capacity = 0.0;
        for index in 0..self.domains.len() {
            let size = self.domains[index].size();
            for (a, b) in (0..size).flat_map(|a| (a + 1..size).map(move |b| (a, b))) {
                self.close(index as u32, (a, b), now);
                let domain = &self.domains[index];
                let bytes = domain.capacity[a * size + b] as f64 / 8.0 / PS_PER_S as f64;
                for link in [domain.links[a * size + b], domain.links[b * size + a]] {
                    let Some(link) = link else { continue };
                    let carried = medium.carried(link);
                    carried_bytes += carried;
                    links += 1;
                    capacity += bytes;
                    if bytes > 0.0 {
                        max = max.max(carried as f64 / bytes);
                    }
                }
            }
        }
        let mean = if capacity > 0.0 { carried_bytes as f64 / capacity } else { 0.0 };
        self.statistics.allocations = self.memo.hits + self.memo.misses;
        self.statistics.shared = self.memo.hits;
        LinkUse { name: "circuit".into(), links, carried_bytes, mean, max }
    }

    /// What relays passed on up to now.
    pub fn relay_use(&self, end: Time, medium: &Medium) -> Option<LinkUse> {
        let (links, rate) = self.relays.as_ref()?.links();
        let carried: Vec<u64> = links.iter().map(|&link| medium.carried(link)).collect();
        Some(LinkUse::new("relay", &carried, &vec![rate; links.len()], end))
    }

    /// Delay counted for the statistics: once per all-to-all that a decision serves.
    pub fn count_delay(&mut self, delay: Duration) {
        self.statistics.delay += delay;
    }

    fn request<'b>(
        &self,
        domain: &'b Domain,
        demand: &'b [u64],
        previous: Option<&'b [u16]>,
    ) -> Request<'b> {
        Request {
            servers: domain.size(),
            demand,
            ports: &domain.ports,
            allowed: domain.allowed.as_deref(),
            circuit_rate: self.ocs.nic_rate,
            eps_rates: EpsRates::Equal(self.eps_rate),
            split: self.ocs.split,
            previous,
        }
    }

    fn size_of(&self, group: u32) -> usize {
        let index = self.of_group(group).expect("a group that crosses servers has a domain");
        self.domain(index).size()
    }

    fn places(&self, group: u32, cell: usize) -> (usize, usize) {
        let first = group as usize * self.members;
        let place = |member: usize| self.place[first + member] as usize;
        (place(cell / self.members), place(cell % self.members))
    }
}

/// Demand-blind circuits: a circulant of the nearest servers; where servers relay and not all pairs
/// can have circuits, of geometric strides.
fn start(request: &Request, ocs: &Ocs) -> Vec<u16> {
    let wide = request.servers > ocs.degree as usize + 1;
    if ocs.relaying.is_some() && wide && request.allowed.is_none() {
        return expander(request);
    }
    allocate(Allocator::Static, request).circuits
}

fn set_pair(domain: &Domain, (a, b): (usize, usize), rate: Rate, now: Time, medium: &mut Medium) {
    let size = domain.size();
    for cell in [a * size + b, b * size + a] {
        if let Some(link) = domain.links[cell] {
            medium.set_rate(now, link, rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use lightloom_model::Relaying;

    /// Strides of the circuits of server 0 at the start, one per circuit.
    fn strides(servers: usize, relaying: bool) -> Vec<usize> {
        let chunk = Relaying { chunk_bytes: 1 << 16, chunk_latency: Duration(0) };
        let ocs = Ocs { relaying: relaying.then_some(chunk), ..testing::ocs(servers) };
        let circuits = start(
            &Request {
                servers,
                demand: &vec![0; servers * servers],
                ports: &vec![ocs.degree; servers],
                allowed: None,
                circuit_rate: ocs.nic_rate,
                eps_rates: EpsRates::Equal(ocs.nic_rate),
                split: true,
                previous: None,
            },
            &ocs,
        );
        (0..servers).flat_map(|peer| vec![peer; usize::from(circuits[peer])]).collect()
    }

    #[test]
    fn wide_regions_start_with_far_neighbours_only_if_they_relay() {
        assert_eq!(strides(32, false), [1, 2, 3, 29, 30, 31]);
        assert_eq!(strides(32, true), [1, 3, 6, 26, 29, 31]);
    }

    #[test]
    fn where_all_pairs_can_have_circuits_relaying_changes_nothing() {
        for servers in 2..=7 {
            assert_eq!(strides(servers, true), strides(servers, false));
        }
    }
}
