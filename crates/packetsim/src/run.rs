//! A scenario while it runs: hands over what finishes, looks at the network from time to time, and
//! notices when nothing will ever finish.

use crate::core::{Core, LinkCounters};
use crate::error::PacketError;
use crate::flow::FlowId;
use crate::network::Network;
use crate::report::{FlowOutcome, LinkReport, Report};
use crate::sampling::Sampler;
use crate::scenario::Scenario;
use crate::stuck::stuck;
use crate::topology::{LinkId, LinkSpec};
use lightloom_kernel::{Observer, TraceHash};
use lightloom_model::{Bytes, Duration, Time};

/// Kinds of records in the trace hash.
const COMPLETION: u32 = 1;
const LINK: u32 = 2;
const END: u32 = 3;

/// The latest time that a run goes to: sums of times near it fit 64 bits.
const LAST: Time = Time(1 << 62);

/// A scenario while it runs.
pub struct Run {
    pub(crate) network: Box<dyn Network>,
    until: Time,
    /// Time without a new packet anywhere after which none is expected any more.
    patience: Duration,
    /// When to see next whether there was one.
    check_at: Time,
    /// Packets received by then.
    received: u64,
    sampler: Option<Sampler>,
    hash: TraceHash,
    ids: Vec<FlowId>,
    outcomes: Vec<FlowOutcome>,
}

impl Run {
    /// A run that is about to begin.
    ///
    /// # Errors
    /// If the scenario makes no sense.
    pub fn new(scenario: &Scenario) -> Result<Self, PacketError> {
        let transport = scenario.transport;
        let mut network = transport.network(scenario.topology.clone(), scenario.config)?;
        let links = scenario.topology.links().len();
        for change in &scenario.circuits {
            if change.link.0 as usize >= links {
                return Err(PacketError::invalid(format!(
                    "a circuit changes on link {}; there are {links} links, from 0 on",
                    change.link.0
                )));
            }
            network.set_dark(change.time, change.link, change.dark);
        }
        // Last, so that flows find circuits that change at their start changed.
        for spec in &scenario.flows {
            network.add_flow(spec)?;
        }
        if let Some(tracing) = scenario.tracing {
            network.set_tracing(tracing);
        }
        let sampler = |sampling| Sampler::new(sampling, &scenario.topology);
        let patience = patience(scenario);
        Ok(Self {
            network,
            until: scenario.until.min(LAST),
            patience,
            check_at: last_start(scenario) + patience,
            received: 0,
            sampler: scenario.sampling.map(sampler).transpose()?,
            hash: TraceHash::new(),
            ids: Vec::new(),
            outcomes: Vec::new(),
        })
    }

    /// Links that packets of data will leave if none is sent twice: for what progress is told.
    pub fn expected_hops(&self) -> u64 {
        self.network.core().expected_hops()
    }

    /// Runs to the end, as [`crate::simulate`].
    ///
    /// # Errors
    /// If flows are stuck for ever, or if the observer asks to stop.
    pub fn play(
        mut self,
        observer: &mut dyn Observer,
        finished: &mut dyn FnMut(&[FlowOutcome]),
    ) -> Result<Report, PacketError> {
        while self.advance(observer, finished)? {}
        Ok(self.report())
    }

    /// Goes on until flows finish or there is something to look at; whether to go on after that.
    pub(crate) fn advance(
        &mut self,
        observer: &mut dyn Observer,
        finished: &mut dyn FnMut(&[FlowOutcome]),
    ) -> Result<bool, PacketError> {
        let core = self.network.core();
        if core.finished_count() == core.flow_count() {
            return Ok(false);
        }
        let look_at = self.sampler.as_ref().map_or(Time(u64::MAX), Sampler::next_look);
        let limit = self.until.min(self.check_at).min(look_at);
        let any = self.network.advance(limit, &mut self.ids, observer);
        self.hand_over(finished);
        if any? {
            return Ok(true);
        }
        let core = self.network.core();
        if core.is_idle() {
            return Err(stuck(core));
        }
        if let Some(sampler) = &mut self.sampler
            && core.time() == look_at
        {
            sampler.look(core);
        }
        if core.time() == self.check_at {
            let received = core.received_packets();
            if received == self.received {
                return Err(stuck(core));
            }
            self.received = received;
            self.check_at += self.patience;
        }
        Ok(core.time() < self.until)
    }

    /// Tells of the flows that have just finished.
    fn hand_over(&mut self, finished: &mut dyn FnMut(&[FlowOutcome])) {
        if self.ids.is_empty() {
            return;
        }
        let core = self.network.core();
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
        let core = self.network.core();
        let samples = self.sampler.map(|sampler| sampler.samples(core));
        self.network.settle_all();
        let core = self.network.core();
        let count = core.topology().links().len() as u32;
        let links: Vec<LinkReport> = (0..count)
            .map(LinkId)
            .map(|link| LinkReport {
                sent: Bytes(core.sent_bytes(link)),
                peak_queue: Bytes(u64::from(core.peak_bytes(link))),
                counters: core.link_counters(link),
            })
            .collect();
        let totals = links.iter().map(|link| link.counters).fold(LinkCounters::default(), add);
        let unfinished = (0..core.flow_count() as u32)
            .filter(|&flow| core.flow(flow).done_at == u64::MAX)
            .map(FlowId)
            .collect();
        let counters = core.counters();
        for (index, link) in links.iter().enumerate() {
            let c = link.counters;
            let ids = [index as u64, link.sent.0, link.peak_queue.0, c.drops, c.trims, c.marks];
            self.hash.record(Time(c.paused.0), LINK, &ids);
        }
        let ids = [counters.data_hops, counters.control_hops, counters.events];
        self.hash.record(core.time(), END, &ids);
        Report {
            end: core.time(),
            links,
            totals,
            counters,
            peak_packets: core.peak_packets(),
            unfinished,
            hash: self.hash,
            samples,
            trace: core.trace(),
        }
    }
}

/// When the last flow starts and the last circuit changes.
fn last_start(scenario: &Scenario) -> Time {
    let starts = scenario.flows.iter().map(|flow| flow.start);
    let changes = scenario.circuits.iter().map(|change| change.time);
    starts.chain(changes).max().unwrap_or(Time::ZERO)
}

/// Long against any round trip and any timeout: 20,000 times the slowest hop, and two timeouts.
fn patience(scenario: &Scenario) -> Duration {
    let packet = Bytes(u64::from(scenario.config.packet_bytes()));
    let hop = |link: &LinkSpec| link.delay + link.rate.transmission(packet);
    let slowest = scenario.topology.links().iter().map(hop).max().unwrap_or_default();
    let timeout = scenario.transport.longest_timeout();
    Duration(slowest.0.saturating_mul(20_000).saturating_add(timeout.0.saturating_mul(2)))
}

fn outcome(core: &Core, id: FlowId) -> FlowOutcome {
    let flow = core.flow(id.0);
    let ideal = core.ideal_time(id.0).expect("a flow that has finished has a path");
    FlowOutcome {
        flow: id,
        start: Time(flow.start),
        received_at: Time(flow.received_at),
        done_at: Time(flow.done_at),
        slowdown: (flow.received_at - flow.start) as f64 / ideal as f64,
    }
}

fn add(sum: LinkCounters, one: LinkCounters) -> LinkCounters {
    LinkCounters {
        drops: sum.drops + one.drops,
        trims: sum.trims + one.trims,
        marks: sum.marks + one.marks,
        pauses: sum.pauses + one.pauses,
        paused: sum.paused + one.paused,
        control_drops: sum.control_drops + one.control_drops,
    }
}
