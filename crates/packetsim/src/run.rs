//! Runs a scenario: hands over flows that finish, samples the network, and detects when nothing
//! will ever finish.

use crate::config::{Balancing, Config};
use crate::counters::LinkCounters;
use crate::error::PacketError;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::network::any::AnySimulation;
use crate::network::build::build_classes;
use crate::network::core::Core;
use crate::network::halves::Halves;
use crate::programs::Execution;
use crate::remarks::remarks;
use crate::report::{FlowOutcome, LinkReport, Report};
use crate::sampling::Sampler;
use crate::scenario::{PacketScenario, TrafficClass};
use crate::series::SeriesSampler;
use crate::stall::stall_error;
use crate::topology::{LinkSpec, PacketLinkId};
use lightloom_kernel::{Interrupted, Observer, RunHash};
use lightloom_model::{Bytes, Duration, Time};

/// Kinds of records in the run hash.
const COMPLETION: u32 = 1;
const LINK: u32 = 2;
const END: u32 = 3;
const OPERATION: u32 = 4;

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

/// Programs while they run, and what they know of flows.
struct Programmed {
    execution: Execution,
    /// Per flow, whether its receiver has everything.
    is_received: Vec<bool>,
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
    /// See [`Report::undivided`].
    undivided: Option<&'static str>,
    remarks: Vec<String>,
    sampler: Option<Sampler>,
    series: Option<SeriesSampler>,
    programs: Option<Programmed>,
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
        let (mut simulation, undivided) = network(scenario)?;
        if scenario.hashes_ends {
            simulation.hash_by_ends();
        }
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
        let programs = programs(scenario)?;
        for (index, spec) in scenario.flows.iter().enumerate() {
            let flow = PacketFlowId(index as u32);
            if programs.as_ref().is_some_and(|it| it.execution.sends(flow)) {
                simulation.hold_flow(spec)?;
            } else {
                simulation.add_flow(spec)?;
            }
        }
        if programs.is_some() {
            simulation.finish_twice();
        }
        if let Some(logging) = scenario.event_logging {
            simulation.record_events(logging);
        }
        let sampler = |sampling| Sampler::new(sampling, &scenario.topology);
        let series = |sampling| SeriesSampler::new(sampling, links, earliest_starts(scenario));
        let series = scenario.series.map(series).transpose()?;
        check_silence(simulation.core())?;
        let patience = patience(scenario, simulation.core());
        let remarks = remarks(scenario, simulation.core());
        let mut run = Self {
            simulation,
            until: scenario.until.min(LAST),
            patience,
            check_at: later(last_start(scenario), patience),
            received: 0,
            undivided,
            remarks,
            sampler: scenario.sampling.map(sampler).transpose()?,
            series,
            programs,
            hash: RunHash::new(),
            ids: Vec::new(),
            outcomes: Vec::new(),
        };
        run.proceed();
        Ok(run)
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
        if self.is_done() {
            return Ok(false);
        }
        let sample_at = self.next_sample();
        let due = self.programs.as_ref().and_then(|it| it.execution.next_due());
        let due = due.unwrap_or(Time(u64::MAX));
        let limit = self.until.min(self.check_at).min(sample_at).min(due);
        let any = self.simulation.advance(limit, &mut self.ids, observer);
        self.hand_over(finished);
        let proceeds = self.proceed();
        if any? || proceeds {
            return Ok(true);
        }
        if self.simulation.is_idle() && due == Time(u64::MAX) {
            return Err(stall_error(&*self.simulation));
        }
        if self.simulation.core().now() == sample_at {
            self.sample(observer)?;
        }
        let core = self.simulation.core();
        if core.now() == self.check_at {
            let received = core.received_packets();
            let is_waiting = due != Time(u64::MAX) || self.has_just_started(core.now());
            if received == self.received && !is_waiting {
                return Err(stall_error(&*self.simulation));
            }
            self.received = received;
            self.check_at = later(self.check_at, self.patience);
        }
        Ok(core.now() < self.until)
    }

    /// When to look next at queues and links.
    fn next_sample(&self) -> Time {
        let sampler = self.sampler.as_ref().map(Sampler::next_sample);
        let series = self.series.as_ref().map(SeriesSampler::next_sample);
        sampler.into_iter().chain(series).min().unwrap_or(Time(u64::MAX))
    }

    /// Looks at queues and links where that is due.
    fn sample(&mut self, observer: &mut dyn Observer) -> Result<(), Interrupted> {
        let now = self.simulation.core().now();
        if let Some(sampler) = self.sampler.as_mut().filter(|it| it.next_sample() == now) {
            sampler.sample(self.simulation.core());
        }
        if let Some(series) = self.series.as_mut().filter(|it| it.next_sample() == now) {
            series.sample(&mut *self.simulation);
        }
        // Many samples may lie between two events.
        let done = self.simulation.core().counters().data_hops;
        if observer.progress(now, done).is_break() {
            return Err(Interrupted { now, done });
        }
        Ok(())
    }

    /// Whether all flows have finished and all operations have ended.
    fn is_done(&self) -> bool {
        let core = self.simulation.core();
        let programs = self.programs.as_ref();
        core.done_count() == core.flow_count() && programs.is_none_or(|it| it.execution.is_done())
    }

    /// Whether programs have started a flow since nothing can be expected of it yet.
    fn has_just_started(&self, now: Time) -> bool {
        let ends = |it: &Programmed| later(it.execution.last_start(), self.patience);
        self.programs.as_ref().is_some_and(|it| ends(it) > now)
    }

    /// Lets programs do what is due now; returns whether they did anything.
    fn proceed(&mut self) -> bool {
        let Some(Programmed { execution, .. }) = &mut self.programs else { return false };
        let due = execution.next_due();
        let started = execution.proceed(self.simulation.core().now());
        for &flow in &started {
            self.simulation.start_flow(flow);
        }
        !started.is_empty() || execution.next_due() != due
    }

    /// Hands over the flows that have just finished.
    fn hand_over(&mut self, finished: &mut dyn FnMut(&[FlowOutcome])) {
        if self.ids.is_empty() {
            return;
        }
        let core = self.simulation.core();
        for flow in self.ids.drain(..) {
            if let Some(Programmed { execution, is_received }) = &mut self.programs {
                let is_second = std::mem::replace(&mut is_received[flow.index()], true);
                if !execution.finish(flow, core, is_second) {
                    continue;
                }
            }
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
        let series = self.series.map(|series| series.finish(&mut *self.simulation));
        let (series, earlier) = series.unzip();
        let earlier = |link: PacketLinkId| earlier.as_ref().map_or(0, |it| it[link.index()]);
        self.simulation.settle_all();
        let simulation = &*self.simulation;
        let core = simulation.core();
        let links: Vec<LinkReport> = core
            .topology()
            .link_ids()
            .map(|link| (simulation.core_of(link), link))
            .map(|(core, link)| LinkReport {
                sent: Bytes(core.sent_bytes(link)),
                peak_queue: Bytes(u64::from(core.peak_bytes(link).max(earlier(link)))),
                counters: simulation.link_counters(link),
            })
            .collect();
        let counters = links.iter().map(|link| link.counters);
        let totals = counters.fold(LinkCounters::default(), |sum, link| sum + link);
        let unfinished = core.unfinished();
        let received = |&flow: &PacketFlowId| {
            let receiver = core.topology().uplink(core.endpoints(flow).destination());
            Bytes(simulation.core_of(receiver).received_bytes(flow))
        };
        let unfinished_received = unfinished.iter().map(received).collect();
        let counters = simulation.counters();
        for (index, link) in links.iter().enumerate() {
            let c = link.counters;
            let ids = [index as u64, link.sent.0, link.peak_queue.0, c.drops, c.trims, c.marks];
            self.hash.record(Time(c.paused.0), LINK, &ids);
        }
        let programs = self.programs.map(|it| it.execution.report(core)).unwrap_or_default();
        for (index, end) in programs.ends.iter().enumerate() {
            self.hash.record(*end, OPERATION, &[index as u64]);
        }
        let ids = [counters.data_hops, counters.control_hops, counters.events];
        self.hash.record(core.now(), END, &ids);
        Report {
            end: core.now(),
            links,
            totals,
            counters,
            peak_packets: simulation.peak_packets(),
            undivided: self.undivided,
            remarks: self.remarks,
            unfinished_received,
            unfinished,
            programs,
            hash: self.hash,
            samples,
            series,
            events: core.packet_events(),
        }
    }
}

/// The idle network of a scenario, and why it is not in two halves though that is asked for.
#[allow(clippy::type_complexity, reason = "taken apart at once")]
fn network(
    scenario: &PacketScenario,
) -> Result<(Box<dyn AnySimulation>, Option<&'static str>), PacketError> {
    let transport = scenario.transport;
    let links_fail = !scenario.failures.is_empty() || scenario.config.loss > 0.0;
    let config = Config { links_fail, ..scenario.config };
    let (halves, undivided) = match halves(scenario) {
        Ok(halves) => (halves, None),
        Err(why) => (None, Some(why)),
    };
    let topology = scenario.topology.clone();
    let simulation = if scenario.classes.is_empty() {
        transport.build(topology, config, halves)?
    } else {
        let on_network =
            |it: TrafficClass| TrafficClass { config: it.config.on_network_of(&config), ..it };
        let classes: Vec<TrafficClass> = scenario.all_classes().map(on_network).collect();
        build_classes(topology, &classes, &class_priorities(scenario)?)?
    };
    Ok((simulation, undivided))
}

/// The halves of a network that two threads are to simulate; says why if it stays whole.
fn halves(scenario: &PacketScenario) -> Result<Option<Halves>, &'static str> {
    if !scenario.in_halves {
        return Ok(None);
    }
    if !scenario.programs.is_empty() {
        return Err("flows wait for others");
    }
    if !scenario.classes.is_empty() {
        return Err("flows have several transports");
    }
    if scenario.sampling.is_some() {
        return Err("queues are sampled over time");
    }
    if scenario.series.is_some() {
        return Err("series over time are kept");
    }
    if scenario.event_logging.is_some() {
        return Err("packet events are recorded");
    }
    if scenario.flows.iter().any(|flow| flow.route.is_some()) {
        return Err("flows have explicit routes");
    }
    let loses = !scenario.failures.is_empty() || scenario.config.loss > 0.0;
    if loses && !scenario.topology.spraying_nics().is_empty() {
        return Err("NICs watch planes that fail");
    }
    // A detour is noted where the packet is, and may be chosen by queues elsewhere.
    if !matches!(
        scenario.config.balancing,
        Balancing::Hash | Balancing::Adaptive | Balancing::Flowlets
    ) {
        return Err("packets take detours");
    }
    Halves::of(&scenario.topology).map(Some)
}

/// The priority of the flows of each class; `None` of one without flows.
fn class_priorities(scenario: &PacketScenario) -> Result<Vec<Option<u8>>, PacketError> {
    let classes = scenario.classes.len() + 1;
    let mut priorities = vec![None; classes];
    for FlowSpec { class, priority, .. } in &scenario.flows {
        let Some(own) = priorities.get_mut(usize::from(*class)) else { continue };
        if *own.get_or_insert(*priority) != *priority {
            return Err(PacketError::invalid(format!(
                "flows of class {class} have several priorities; expected one"
            )));
        }
    }
    Ok(priorities)
}

/// The programs of a scenario, if there are any.
fn programs(scenario: &PacketScenario) -> Result<Option<Programmed>, PacketError> {
    if scenario.programs.is_empty() {
        return Ok(None);
    }
    let flows = scenario.flows.len();
    let execution = Execution::new(&scenario.programs, flows)?;
    Ok(Some(Programmed { execution, is_received: vec![false; flows] }))
}

/// When each flow starts at the earliest: programs start flows when they do.
fn earliest_starts(scenario: &PacketScenario) -> impl Iterator<Item = Time> {
    let has_programs = !scenario.programs.is_empty();
    scenario.flows.iter().map(move |flow| if has_programs { Time::ZERO } else { flow.start })
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

/// Probability that a run at random loss is taken for stuck though it is not.
const FALSE_ALARM: f64 = 1e-12;

/// Long compared with any round trip and any timeout: 20,000 slowest hops and two timeouts. Where
/// packets are lost at random, as many such periods as it takes until one of them brings something
/// new almost surely, if two round trips without a loss bring that.
fn patience(scenario: &PacketScenario, core: &Core) -> Duration {
    let longest = scenario.all_classes().map(|it| it.config.packet_bytes()).max();
    let packet = Bytes(u64::from(longest.unwrap_or_default()));
    let hop = |link: &LinkSpec| link.delay + link.rate.transmission(packet);
    let slowest = scenario.topology.links().iter().map(hop).max().unwrap_or_default();
    let timeouts = scenario.all_classes().map(|it| it.transport.longest_timeout());
    let timeout = timeouts.max().unwrap_or_default();
    let period = slowest.0.saturating_mul(20_000).saturating_add(timeout.0.saturating_mul(2));
    if scenario.config.loss == 0.0 {
        return Duration(period);
    }
    let flows = (0..core.flow_count() as u32).map(PacketFlowId);
    let hops = 4 * flows.map(|flow| core.link_count(flow)).max().unwrap_or(0);
    let passes = (1.0 - scenario.config.loss).powf(f64::from(hops));
    // Beyond all whole numbers where nothing passes: the largest one.
    let periods = (FALSE_ALARM.ln() / (-passes).ln_1p()).ceil() as u64;
    Duration(period.saturating_mul(periods.max(1)))
}

/// The sum, or the latest time of a run.
fn later(time: Time, span: Duration) -> Time {
    Time(time.0.saturating_add(span.0)).min(LAST)
}

/// A NIC cannot know sooner than after a round trip that nothing arrives.
fn check_silence(core: &Core) -> Result<(), PacketError> {
    let Some(silence) = core.config().plane_silence else { return Ok(()) };
    let round_trip = core.longest_round_trip();
    if silence >= round_trip {
        return Ok(());
    }
    let us = |span: Duration| span.0 as f64 / 1e6;
    Err(PacketError::invalid(format!(
        "planes are silent after {} us; expected at least a round trip, {} us",
        us(silence),
        us(round_trip)
    )))
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
