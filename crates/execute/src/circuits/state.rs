//! All regional circuits, who uses them, and the accounting.
//!
//! A decision's circuits that change go dark, and the new ones are up
//! after the switch's delay. Circuits in use are never switched: the caller says who uses them
//! ([`Circuits::enter`], [`Circuits::leave`]).

use super::custom::Custom;
use super::record::{Decisions, Recorder};
use super::region::{Region, Regions, policy_of};
use super::relay_links::{RelayLinks, relay_delay};
use super::statistics::CircuitStatistics;
use crate::error::ExecuteError;
use crate::links::{LinkUse, Links, PartId};
use crate::network::Network;
use crate::ocs::Ocs;
use crate::options::Options;
use crate::timeline::CircuitTimeline;
use lightloom_decide::{Decider, Decision, Upcoming};
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Duration, TaskGraph, Time};

/// Bytes of earlier requests and results that all deciders together keep, of each kind.
const CACHE_BYTES: usize = 256 << 20;

/// All regional circuits of a network.
#[derive(Debug)]
pub(crate) struct Circuits<'a> {
    /// Which part of the network these are.
    pub id: PartId,
    /// The circuit switches.
    pub ocs: &'a Ocs,
    /// What a relay adds to a transfer.
    pub relay_delay: Duration,
    pub(super) deciders: Vec<Decider>,
    pub(super) regions: Vec<Region>,
    of_group: Vec<Option<u32>>,
    /// Of each member of a group, its server's place in the region, group by group.
    place: Vec<u32>,
    /// Where each group begins in `place`.
    offsets: Vec<u32>,
    pub(super) relays: Option<RelayLinks>,
    /// What a user supplies.
    pub custom: Custom<'a>,
    /// What was done so far.
    pub statistics: CircuitStatistics,
    /// When recorded circuits were up.
    pub timeline: CircuitTimeline,
    recorder: Recorder,
}

impl<'a> Circuits<'a> {
    /// The circuits at the start of a run; `None` if the network has no circuit switches.
    ///
    /// # Errors
    /// If a region is too large, or has too many ports, for the allocators.
    pub(crate) fn new(
        graph: &TaskGraph,
        network: &'a Network,
        options: &Options,
        links: &mut Links,
    ) -> Result<Option<Self>, ExecuteError> {
        let Some((id, ocs)) = network.decided_circuits() else { return Ok(None) };
        let mut found = Regions::new(graph, ocs.region_of_server.len());
        let sized = found.descriptions(network, ocs).map_err(ExecuteError::Network)?;
        let cache = if options.share_equal_work { CACHE_BYTES } else { 0 };
        let cache = cache / sized.len().max(1);
        let decider = |region| {
            let decider = Decider::new(region, policy_of(network, ocs), ocs.timing);
            decider.with_cache_bytes(cache)
        };
        let deciders: Vec<Decider> = sized.into_iter().map(decider).collect();
        let start: Vec<_> = deciders.iter().map(Decider::start).collect();
        for region in &mut found.all {
            region.held = start[region.decider as usize].clone();
            region.add_links(deciders[region.decider as usize].region(), ocs, links);
        }
        let relays = ocs.relaying.map(|_| RelayLinks::new(network, ocs, &found.all, links));
        Ok(Some(Self {
            id,
            ocs,
            relay_delay: relay_delay(network, ocs),
            regions: found.all,
            of_group: found.of_group,
            place: found.place,
            offsets: found.offsets,
            relays,
            custom: Custom::default(),
            statistics: CircuitStatistics::default(),
            timeline: CircuitTimeline::default(),
            recorder: Recorder::new(options.record_decisions),
            deciders,
        }))
    }

    /// The region of a group's circuits; `None` where its all-to-alls stay in one server.
    pub(crate) fn of_group(&self, group: u32) -> Option<u32> {
        self.of_group[group as usize]
    }

    /// A region by its index.
    pub(crate) fn region(&self, index: u32) -> &Region {
        &self.regions[index as usize]
    }

    /// A region by its index.
    pub(crate) fn region_mut(&mut self, index: u32) -> &mut Region {
        &mut self.regions[index as usize]
    }

    /// Records the circuits and decisions of a group.
    pub(crate) fn record(&mut self, group: u32) {
        if let Some(region) = self.of_group(group) {
            self.regions[region as usize].recorded = true;
        }
    }

    /// An all-to-all begins to use the circuits of a region.
    pub(crate) fn enter(&mut self, region: u32) {
        self.region_mut(region).active += 1;
    }

    /// An all-to-all has used the circuits of a region.
    pub(crate) fn leave(&mut self, region: u32) {
        self.region_mut(region).active -= 1;
    }

    /// Adds a group's demand (members x members) to that of its region (servers x servers).
    pub(crate) fn fold(&self, group: u32, demand: &[u64], total: &mut [u64]) {
        let size = self.size_of(group);
        for (cell, &bytes) in demand.iter().enumerate() {
            let (from, to) = self.places(group, cell);
            total[from * size + to] += bytes;
        }
    }

    /// For each pair of a group's members: bytes that take the EPS, and the circuits.
    pub(crate) fn route(&self, group: u32, demand: &[u64]) -> (Vec<u64>, Vec<u16>) {
        let index = self.of_group(group).expect("a group that crosses servers has a region");
        let region = self.region(index);
        let size = region.size();
        let mut total = vec![0; size * size];
        self.fold(group, demand, &mut total);
        let routed = self.deciders[region.decider as usize].route(&region.held, &total);
        let mut eps_bytes = vec![0; demand.len()];
        let mut counts = vec![0; demand.len()];
        for cell in 0..demand.len() {
            let (from, to) = self.places(group, cell);
            eps_bytes[cell] = routed.eps_bytes[from * size + to];
            counts[cell] = region.held.circuits[from * size + to];
        }
        (eps_bytes, counts)
    }

    /// The link of the circuits from one member's server to another's.
    pub(crate) fn link(&self, group: u32, from: u32, to: u32) -> Option<LinkId> {
        let region = self.region(self.of_group(group)?);
        let (from, to) = (self.place_of(group, from), self.place_of(group, to));
        region.links[from * region.size() + to]
    }

    /// Decides on circuits for the upcoming all-to-alls and begins to switch; when the circuits are
    /// up.
    ///
    /// The caller sees to it that nobody uses the region's circuits until then, and calls
    /// [`Self::finish`] then if anything changes.
    pub(crate) fn decide(
        &mut self,
        index: u32,
        upcoming: &[Upcoming],
        now: Time,
        links: &mut Links,
    ) -> (Time, Decision) {
        let region = &mut self.regions[index as usize];
        let decider = &mut self.deciders[region.decider as usize];
        let custom = &mut self.custom;
        let decision = match custom.plugins.allocator.as_mut() {
            None => decider.decide(&region.held, upcoming),
            Some(_) if custom.failure.is_some() => held(decider, region, upcoming),
            Some(allocator) => match decider.decide_by(&region.held, upcoming, *allocator) {
                Ok(decision) => decision,
                Err(error) => {
                    custom.fail(error);
                    held(decider, region, upcoming)
                }
            },
        };
        self.recorder.record(now, region, upcoming, &decision);
        self.statistics.decisions += 1;
        self.statistics.makespan_s += decision.makespan;
        self.statistics.bound_s += decision.bound;
        if decision.pairs > 0 {
            self.statistics.reconfigurations += 1;
            self.statistics.pairs_changed += u64::from(decision.pairs);
            self.statistics.saved_s += decision.saved;
            self.begin(index, &decision, now, links);
        }
        let ready = now + decision.ready_after;
        let region = self.region_mut(index);
        region.ready = ready;
        region.held = decision.held.clone();
        (ready, decision)
    }

    /// Lets circuits that do not stay on their NICs go dark.
    fn begin(&mut self, index: u32, decision: &Decision, now: Time, links: &mut Links) {
        let size = self.region(index).size();
        let keep_unchanged = self.ocs.timing.keep_unchanged;
        let mut kept = vec![0_u16; size * size];
        if keep_unchanged {
            for circuit in &decision.change.keep {
                kept[circuit.a.server as usize * size + circuit.b.server as usize] += 1;
            }
        }
        for a in 0..size {
            for b in a + 1..size {
                let cell = a * size + b;
                let old = self.region(index).held.circuits[cell];
                let new = decision.held.circuits[cell];
                if kept[cell] == old && old == new {
                    continue;
                }
                self.close(index, a, b, now);
                let region = &mut self.regions[index as usize];
                set_pair(region, a, b, kept[cell], now, links);
                region.switching.push((a as u32, b as u32));
            }
        }
    }

    /// Brings up the circuits that [`Self::decide`] let go dark.
    pub(crate) fn finish(&mut self, index: u32, now: Time, links: &mut Links) {
        let region = &mut self.regions[index as usize];
        let size = region.size();
        for (a, b) in std::mem::take(&mut region.switching) {
            let cell = a as usize * size + b as usize;
            let count = region.held.circuits[cell];
            set_pair(region, a as usize, b as usize, count, now, links);
            region.up_since[cell] = now;
        }
    }

    /// Ends the time in which a pair had its present circuits.
    fn close(&mut self, index: u32, a: usize, b: usize, now: Time) {
        let region = &mut self.regions[index as usize];
        let cell = a * region.size() + b;
        let (count, up) = (region.held.circuits[cell], region.up_since[cell]);
        if count == 0 || now <= up {
            return;
        }
        let rate = u128::from(self.ocs.nic_rate.0) * u128::from(count);
        region.capacity[cell] += rate * u128::from(now.since(up).0);
        if region.recorded {
            self.timeline.a.push(region.servers[a]);
            self.timeline.b.push(region.servers[b]);
            self.timeline.count.push(count);
            self.timeline.up.push(up.0);
            self.timeline.down.push(now.0);
        }
    }

    /// Ends the accounting: circuits stay up until the end of the step. Use is against the time in
    /// which the circuits were up.
    pub(crate) fn end(&mut self, now: Time, links: &Links) -> LinkUse {
        let (mut carried_bytes, mut count, mut max) = (0, 0, 0.0_f64);
        let mut capacity = 0.0;
        for index in 0..self.regions.len() {
            let size = self.regions[index].size();
            for (a, b) in (0..size).flat_map(|a| (a + 1..size).map(move |b| (a, b))) {
                self.close(index as u32, a, b, now);
                let region = &self.regions[index];
                let bytes = region.capacity[a * size + b] as f64 / 8.0 / PS_PER_S as f64;
                for link in [region.links[a * size + b], region.links[b * size + a]] {
                    let Some(link) = link else { continue };
                    let carried = links.carried(link);
                    carried_bytes += carried;
                    count += 1;
                    capacity += bytes;
                    if bytes > 0.0 {
                        max = max.max(carried as f64 / bytes);
                    }
                }
            }
        }
        let mean = if capacity > 0.0 { carried_bytes as f64 / capacity } else { 0.0 };
        for (all, shared) in self.deciders.iter().map(Decider::allocations) {
            self.statistics.allocations += all;
            self.statistics.shared += shared;
        }
        LinkUse { name: "circuit".into(), links: count, carried_bytes, mean, max }
    }

    /// Delay counted for the statistics: once per all-to-all that a decision serves.
    pub(crate) fn count_delay(&mut self, delay: Duration) {
        self.statistics.delay += delay;
    }

    /// What was recorded, with its deciders.
    pub(crate) fn take_records(&mut self) -> Decisions {
        let recorder = std::mem::take(&mut self.recorder);
        recorder.finish(&self.deciders)
    }

    fn size_of(&self, group: u32) -> usize {
        let index = self.of_group(group).expect("a group that crosses servers has a region");
        self.region(index).size()
    }

    pub(super) fn members_of(&self, group: u32) -> usize {
        (self.offsets[group as usize + 1] - self.offsets[group as usize]) as usize
    }

    /// The place in its region of a member's server.
    pub(super) fn place_of(&self, group: u32, member: u32) -> usize {
        self.place[(self.offsets[group as usize] + member) as usize] as usize
    }

    fn places(&self, group: u32, cell: usize) -> (usize, usize) {
        let members = self.members_of(group);
        let place = |member: usize| self.place_of(group, member as u32);
        (place(cell / members), place(cell % members))
    }
}

/// What a run that must end decides: nothing changes.
fn held(decider: &mut Decider, region: &Region, upcoming: &[Upcoming]) -> Decision {
    decider.decide_among(&region.held, upcoming, &[]).expect("no circuits to refuse")
}

fn set_pair(region: &Region, a: usize, b: usize, lit: u16, now: Time, links: &mut Links) {
    let size = region.size();
    for cell in [a * size + b, b * size + a] {
        if let Some(link) = region.links[cell] {
            links.set_lit(now, link, u32::from(lit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{all_to_all, empty_graph, mixnet, ocs, with_blocks};
    use lightloom_model::SwitchTiming;

    const MS: u64 = 1_000_000_000;

    /// Four servers in one region, and demand from 0 to 1 and from 2 to 3 alone.
    fn decide(keep_unchanged: bool) -> (Vec<u32>, Decision, Vec<u32>, Vec<u32>) {
        let timing = SwitchTiming { fixed: Duration(25 * MS), keep_unchanged, ..ocs(4).timing };
        let network = mixnet(4).with(Ocs { timing, ..ocs(4) });
        let mut graph = with_blocks(empty_graph(1, 1, 4), &[&[0; 16]]);
        graph.roles[0].tasks = vec![all_to_all(0, true)];
        let mut links = Links::flows();
        let circuits = Circuits::new(&graph, &network, &Options::default(), &mut links);
        let mut circuits = circuits.unwrap().unwrap();
        let lit = |circuits: &Circuits<'_>, links: &Links| -> Vec<u32> {
            let lit = |link: &Option<LinkId>| link.map_or(0, |link| links.link(link).1);
            circuits.region(0).links.iter().map(lit).collect()
        };
        let before = lit(&circuits, &links);
        let mut demand = vec![0; 16];
        (demand[1], demand[11]) = (60_000_000, 60_000_000);
        let upcoming = Upcoming::known(demand, Duration::ZERO);
        let (ready, decision) = circuits.decide(0, &[upcoming], Time(MS), &mut links);
        assert_eq!(ready, Time(26 * MS));
        let meanwhile = lit(&circuits, &links);
        circuits.finish(0, ready, &mut links);
        (before, decision, meanwhile, lit(&circuits, &links))
    }

    fn of(circuits: &[u16]) -> Vec<u32> {
        circuits.iter().map(|&count| u32::from(count)).collect()
    }

    #[test]
    fn circuits_that_are_torn_down_go_dark_at_once_and_new_ones_light_up_later() {
        let (before, decision, meanwhile, after) = decide(true);
        // To begin with, two between any two; then six where there is demand.
        assert!(before.iter().enumerate().all(|(cell, &lit)| lit == 2 * u32::from(cell % 5 != 0)));
        assert_eq!((after[1], after[4], after[2], after[3]), (6, 6, 0, 0));
        assert_eq!(after, of(&decision.held.circuits));
        // While the switch turns, what stays on its NICs is lit, and nothing else.
        let mut kept = vec![0; 16];
        for circuit in &decision.change.keep {
            let (a, b) = (circuit.a.server as usize, circuit.b.server as usize);
            kept[4 * a + b] += 1;
            kept[4 * b + a] += 1;
        }
        assert_eq!(meanwhile, kept);
        assert_eq!((meanwhile[1], meanwhile[2]), (2, 0));
    }

    #[test]
    fn a_switch_that_keeps_nothing_darkens_every_circuit() {
        let (before, decision, meanwhile, after) = decide(false);
        assert!(before[1] > 0 && !decision.change.keep.is_empty());
        assert_eq!(meanwhile, vec![0; 16]);
        assert_eq!(after, of(&decision.held.circuits));
    }
}
