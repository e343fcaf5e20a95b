//! Runs a scenario: hands over flows that finish, samples the network, and detects when nothing
//! will ever finish.

use crate::config::Config;
use crate::counters::LinkCounters;
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::report::{FlowOutcome, LinkReport, Report};
use crate::sampling::Sampler;
use crate::scenario::PacketScenario;
use crate::stall::stall_error;
use crate::topology::LinkSpec;
use lightloom_kernel::{Observer, RunHash};
use lightloom_model::{Bytes, Duration, Time};

/// Kinds of records in the run hash.
const COMPLETION: u32 = 1;
const LINK: u32 = 2;
const END: u32 = 3;

/// The latest time of a run: sums of times near it fit 64 bits.
const LAST: Time = Time(1 << 62);

/// Runs a scenario; `finished` gets the flows that finish at one time, as soon as they do.
///
/// # Errors
/// If the scenario makes no sense, if flows are stuck for ever, or if the observer asks to stop:
/// `finished` then has had all flows that had finished.
pub fn simulate(
    scenario: &PacketScenario,
    observer: &mut dyn Observer,
    finished: &mut dyn FnMut(&[FlowOutcome]),
) -> Result<Report, PacketError> {
    RunningScenario::new(scenario)?.run(observer, finished)
}

/// A scenario while it runs.
pub struct RunningScenario {
    pub(crate) simulation: Box<dyn AnySimulation>,
    until: Time,
    /// Time without a new packet at any receiver after which none is expected any more.
    patience: Duration,
    /// When to check next whether there was one.
    check_at: Time,
    /// Packets received by then.
    received: u64,
    sampler: Option<Sampler>,
    hash: RunHash,
    ids: Vec<PacketFlowId>,
    outcomes: Vec<FlowOutcome>,
}

impl RunningScenario {
    /// A run that is about to begin.
    ///
    /// # Errors
    /// If the scenario makes no sense.
    pub fn new(scenario: &PacketScenario) -> Result<Self, PacketError> {
        let transport = scenario.transport;
        let config = Config { links_fail: !scenario.failures.is_empty(), ..scenario.config };
        let mut simulation = transport.simulation(scenario.topology.clone(), config)?;
        let links = scenario.topology.links().len();
        for change in &scenario.circuits {
            if change.link.0 as usize >= links {
                return Err(PacketError::invalid(format!(
                    "a circuit changes on link {}; there are {links} links, from 0 on",
                    change.link.0
                )));
            }
            simulation.set_dark(change.time, change.link, change.dark);
        }
        for failure in &scenario.failures {
            if let Some(link) = failure.links.iter().find(|link| link.0 as usize >= links) {
                return Err(PacketError::invalid(format!(
                    "link {} fails; there are {links} links, from 0 on",
                    link.0
                )));
            }
            simulation.add_failure(failure);
        }
        // Last, so that flows find circuits that change at their start changed.
        for spec in &scenario.flows {
            simulation.add_flow(spec)?;
        }
        if let Some(logging) = scenario.event_logging {
            simulation.record_events(logging);
        }
        let sampler = |sampling| Sampler::new(sampling, &scenario.topology);
        let patience = patience(scenario);
        Ok(Self {
            simulation,
            until: scenario.until.min(LAST),
            patience,
            check_at: last_start(scenario) + patience,
            received: 0,
            sampler: scenario.sampling.map(sampler).transpose()?,
            hash: RunHash::new(),
            ids: Vec::new(),
            outcomes: Vec::new(),
        })
    }

    /// Packet-hops of data if no packet is sent twice: the total of reported progress.
    pub fn expected_hops(&self) -> u64 {
        self.simulation.core().expected_hops()
    }

    /// Runs to the end, as [`simulate`].
    ///
    /// # Errors
    /// If flows are stuck for ever, or if the observer asks to stop.
    pub fn run(
        mut self,
        observer: &mut dyn Observer,
        finished: &mut dyn FnMut(&[FlowOutcome]),
    ) -> Result<Report, PacketError> {
        while self.advance(observer, finished)? {}
        Ok(self.report())
    }

    /// Runs until flows finish or something is to be checked; returns whether to continue then.
    pub(crate) fn advance(
        &mut self,
        observer: &mut dyn Observer,
        finished: &mut dyn FnMut(&[FlowOutcome]),
    ) -> Result<bool, PacketError> {
        let core = self.simulation.core();
        if core.done_count() == core.flow_count() {
            return Ok(false);
        }
        let sample_at = self.sampler.as_ref().map_or(Time(u64::MAX), Sampler::next_sample);
        let limit = self.until.min(self.check_at).min(sample_at);
        let any = self.simulation.advance(limit, &mut self.ids, observer);
        self.hand_over(finished);
        if any? {
            return Ok(true);
        }
        let core = self.simulation.core();
        if core.is_idle() {
            return Err(stall_error(core));
        }
        if let Some(sampler) = &mut self.sampler
            && core.now() == sample_at
        {
            sampler.sample(core);
        }
        if core.now() == self.check_at {
            let received = core.received_packets();
            if received == self.received {
                return Err(stall_error(core));
            }
            self.received = received;
            self.check_at += self.patience;
        }
        Ok(core.now() < self.until)
    }

    /// Hands over the flows that have just finished.
    fn hand_over(&mut self, finished: &mut dyn FnMut(&[FlowOutcome])) {
        if self.ids.is_empty() {
            return;
        }
        let core = self.simulation.core();
        for flow in self.ids.drain(..) {
            let outcome = outcome(core, flow);
            let ids = [u64::from(flow.0), outcome.received_at.0];
            self.hash.record(outcome.done_at, COMPLETION, &ids);
            self.outcomes.push(outcome);
        }
        finished(&self.outcomes);
        self.outcomes.clear();
    }

    pub(crate) fn report(mut self) -> Report {
        let core = self.simulation.core();
        let samples = self.sampler.map(|sampler| sampler.samples(core));
        self.simulation.settle_all();
        let core = self.simulation.core();
        let links: Vec<LinkReport> = core
            .topology()
            .link_ids()
            .map(|link| LinkReport {
                sent: Bytes(core.sent_bytes(link)),
                peak_queue: Bytes(u64::from(core.peak_bytes(link))),
                counters: core.link_counters(link),
            })
            .collect();
        let counters = links.iter().map(|link| link.counters);
        let totals = counters.fold(LinkCounters::default(), |sum, link| sum + link);
        let unfinished = core.unfinished();
        let counters = core.counters();
        for (index, link) in links.iter().enumerate() {
            let c = link.counters;
            let ids = [index as u64, link.sent.0, link.peak_queue.0, c.drops, c.trims, c.marks];
            self.hash.record(Time(c.paused.0), LINK, &ids);
        }
        let ids = [counters.data_hops, counters.control_hops, counters.events];
        self.hash.record(core.now(), END, &ids);
        Report {
            end: core.now(),
            links,
            totals,
            counters,
            peak_packets: core.peak_packets(),
            unfinished,
            hash: self.hash,
            samples,
            events: core.packet_events(),
        }
    }
}

/// When the last flow starts and the last circuit changes.
fn last_start(scenario: &PacketScenario) -> Time {
    let starts = scenario.flows.iter().map(|flow| flow.start);
    let changes = scenario.circuits.iter().map(|change| change.time);
    let repairs = scenario.failures.iter().flat_map(|failure| {
        [Some(failure.time), failure.repaired]
            .into_iter()
            .flatten()
            .map(|it| it + failure.detection)
    });
    starts.chain(changes).chain(repairs).max().unwrap_or(Time::ZERO)
}

/// Long compared with any round trip and any timeout: 20,000 slowest hops and two timeouts.
fn patience(scenario: &PacketScenario) -> Duration {
    let packet = Bytes(u64::from(scenario.config.packet_bytes()));
    let hop = |link: &LinkSpec| link.delay + link.rate.transmission(packet);
    let slowest = scenario.topology.links().iter().map(hop).max().unwrap_or_default();
    let timeout = scenario.transport.longest_timeout();
    Duration(slowest.0.saturating_mul(20_000).saturating_add(timeout.0.saturating_mul(2)))
}

fn outcome(core: &Core, id: PacketFlowId) -> FlowOutcome {
    let flow = core.flow(id);
    let ideal = core.ideal_time(id).expect("a flow that has finished has a path");
    FlowOutcome {
        flow: id,
        start: flow.start,
        received_at: flow.received_at,
        done_at: flow.done_at,
        slowdown: flow.received_at.since(flow.start).0 as f64 / ideal.0 as f64,
    }
}
