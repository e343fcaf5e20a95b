//! Two threads that simulate one half of a network each, with the results of one.
//!
//! Both run through *windows* of time no longer than the shortest delay between the halves (see
//! [`super::halves`]), so that neither needs to know what the other does in the same window. Then
//! they *meet*: each takes what crosses to it, and both find out when the next event is due, where
//! the next window begins. Events of one time are ordered by what they are, not by when they were
//! scheduled ([`lightloom_kernel::Agenda`]), hence alike in one thread and in two.
//!
//! A run ends with the time at which its last flow is done, not with a window. So a half whose own
//! flows are done waits in each window until the other half is through, or done as well, and
//! follows as far.

use super::any::AnySimulation;
use super::core::Core;
use super::crossing::Crossing;
use super::engine::{OBSERVE_EVERY, Simulation};
use super::halves::{Balance, Half, Halves};
use crate::config::Config;
use crate::counters::{Counters, LinkCounters};
use crate::error::PacketError;
use crate::events::EventLogging;
use crate::failure::Failure;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::topology::{PacketLinkId, Topology};
use crate::transport::Transport;
use lightloom_kernel::{Interrupted, Observer};
use lightloom_model::{Duration, Time};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Events of both halves after which [`AnySimulation::advance`] returns.
const RETURN_EVERY: u64 = 1 << 21;

/// Events that take as long as a meeting, or less: windows may have none of them.
const EVENTS_PER_MEETING: u64 = 16;

/// How often a thread looks whether the other is there before it lets others run.
const SPINS: u32 = 1 << 12;

/// A network in two halves.
#[derive(Debug, Clone)]
pub(crate) struct Pair<T> {
    first: Simulation<T>,
    second: Simulation<T>,
    halves: Arc<Halves>,
    /// What is under way to each half.
    boxes: [Crossing; 2],
    /// Number of flows that the halves expect.
    expected: usize,
    balance: Balance,
}

/// What a half tells the other when they meet.
#[derive(Debug)]
struct Word {
    /// When the next event is due in the half, or in the other by what crosses.
    next: Option<Time>,
    crossing: Crossing,
    /// The time at which its last flow was done.
    done_at: Option<Time>,
    /// Whether this window is the last for now.
    pauses: bool,
    work: Work,
}

/// What a half has done so far, or both have.
#[derive(Debug, Clone, Copy, Default)]
struct Work {
    events: u64,
    /// Packet-hops of data.
    hops: u64,
    /// At most so many packets at once.
    packets: u64,
}

impl Work {
    fn of(core: &Core) -> Self {
        let (clock, fabric) = (&core.clock, &core.fabric);
        Self { events: clock.events(), hops: fabric.data_hops(), packets: core.peak_packets() }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            events: self.events + other.events,
            hops: self.hops + other.hops,
            packets: self.packets + other.packets,
        }
    }
}

/// Where the two threads meet.
struct Meeting {
    /// By the parity of the window and the half that tells it: one may be a window ahead.
    words: [[Mutex<Word>; 2]; 2],
    /// Per half the number of steps that it has reached: two for each window.
    steps: [Step; 2],
    is_broken: AtomicBool,
}

/// On a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Step(AtomicU64);

/// Tells the other thread that this one panics.
struct Presence<'a>(&'a Meeting);

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.is_broken.store(true, Ordering::Release);
        }
    }
}

impl Meeting {
    fn new(crossings: [&Crossing; 2]) -> Self {
        let word = |half: usize| {
            let crossing = crossings[half].empty();
            let (next, done_at, work) = Default::default();
            Mutex::new(Word { next, crossing, done_at, pauses: false, work })
        };
        Self {
            words: [0, 1].map(|_| [0, 1].map(word)),
            steps: Default::default(),
            is_broken: AtomicBool::new(false),
        }
    }

    /// The word of a half in a window.
    fn word(&self, window: u64, half: usize) -> MutexGuard<'_, Word> {
        self.words[(window % 2) as usize][half].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A half has reached a step.
    fn reach(&self, half: usize, step: u64) {
        self.steps[half].0.store(step, Ordering::Release);
    }

    /// Waits until a half has reached a step.
    fn wait(&self, half: usize, step: u64) {
        let mut spins = 0;
        while self.steps[half].0.load(Ordering::Acquire) < step {
            assert!(!self.is_broken.load(Ordering::Acquire), "the other half has failed");
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }
}

/// What a thread needs for its half.
struct Runner<'a, T> {
    simulation: &'a mut Simulation<T>,
    /// What crosses to this half.
    inbox: &'a mut Crossing,
    half: usize,
    meeting: &'a Meeting,
    lookahead: Duration,
    limit: Time,
    /// The work of each half, when it last told.
    work: [Work; 2],
}

/// How a run of several windows ended.
struct Outcome {
    balance: Balance,
    /// Whether all flows are done.
    is_done: bool,
}

impl<T: Transport> Runner<'_, T> {
    /// Runs window by window until the limit, until all flows are done, or until `pauses` says so
    /// after a window, given what both halves had done before it.
    fn run(mut self, mut pauses: impl FnMut(&Core, Work) -> bool) -> Outcome {
        let _presence = Presence(self.meeting);
        let other = 1 - self.half;
        let mut balance = Balance::default();
        // The first meeting is about what is pending, at the time that both have reached.
        let mut end = self.simulation.core.now();
        let mut done_at = None;
        for window in 0.. {
            let waiting = self.simulation.settle_crossing(end);
            self.tell(window, waiting, done_at, {
                let [first, second] = self.work;
                pauses(&self.simulation.core, first.plus(second))
            });
            self.meeting.reach(self.half, 2 * window + 1);
            self.meeting.wait(other, 2 * window + 1);
            let [mine, theirs] = [self.half, other].map(|half| {
                let word = self.meeting.word(window, half);
                (word.next, word.done_at, word.pauses, word.work)
            });
            if window > 0 {
                let events = |now: Work, before: Work| now.events - before.events;
                let [my_work, their_work] = self.work;
                balance.windows += 1;
                balance.critical_events +=
                    events(mine.3, my_work).max(events(theirs.3, their_work));
            }
            self.work = [mine.3, theirs.3];
            self.meeting.word(window, other).crossing.swap(self.inbox);
            let core = &mut self.simulation.core;
            core.fabric.admit_crossing(self.inbox, &mut core.clock);
            let is_done = mine.1.is_some() && theirs.1.is_some();
            let next = mine.0.into_iter().chain(theirs.0).min();
            let is_over = next.is_none_or(|next| next > self.limit);
            if is_done || is_over || mine.2 || theirs.2 {
                if !is_done && is_over && self.limit != Time(u64::MAX) {
                    core.clock.advance_to(self.limit);
                }
                return Outcome { balance, is_done };
            }
            let begin = next.unwrap_or(self.limit);
            end = Time(begin.0.saturating_add(self.lookahead.0 - 1)).min(self.limit);
            done_at = self.run_window(window, &mut end);
        }
        unreachable!("the loop returns")
    }

    /// Runs to the end of a window, or to the time at which the last flow of both halves is done,
    /// which then is its end; returns when the last flow of this half was.
    fn run_window(&mut self, window: u64, end: &mut Time) -> Option<Time> {
        let other = 1 - self.half;
        self.simulation.run_window(*end, true);
        let core = &self.simulation.core;
        let done_at = (core.flows.open_count() == 0).then(|| core.now());
        // In the word of the next meeting, which the other half reads only after this.
        self.meeting.word(window + 1, self.half).done_at = done_at;
        self.meeting.reach(self.half, 2 * window + 2);
        if let Some(mine) = done_at {
            self.meeting.wait(other, 2 * window + 2);
            if let Some(theirs) = self.meeting.word(window + 1, other).done_at {
                *end = mine.max(theirs);
            }
            self.simulation.run_window(*end, false);
        }
        done_at
    }

    /// Tells the other half what it needs to know.
    fn tell(&mut self, window: u64, waiting: Option<Time>, done_at: Option<Time>, pauses: bool) {
        let core = &mut self.simulation.core;
        let mut word = self.meeting.word(window, self.half);
        let pending = core.clock.next_time();
        let crossing = core.fabric.crossing().map(|crossing| {
            crossing.swap(&mut word.crossing);
            word.crossing.next_time()
        });
        word.next = [pending, waiting, crossing.flatten()].into_iter().flatten().min();
        (word.done_at, word.pauses, word.work) = (done_at, pauses, Work::of(core));
    }
}

impl<T: Transport> Pair<T> {
    /// An idle network.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub(crate) fn new(
        topology: &Topology,
        halves: Halves,
        config: Config,
        transport: impl Fn(&Core) -> T,
    ) -> Result<Self, PacketError> {
        let halves = Arc::new(halves);
        let crossings = [Half::First, Half::Second].map(|it| Crossing::new(topology, &halves, it));
        let boxes = [crossings[1].empty(), crossings[0].empty()];
        let make = |half: Half| {
            let mut simulation = Simulation::new(topology.clone(), config, &transport)?;
            simulation.core.half = Some(half);
            simulation.core.fabric.halve(crossings[half.index()].clone());
            Ok::<_, PacketError>(simulation)
        };
        let (first, second) = (make(Half::First)?, make(Half::Second)?);
        Ok(Self { first, second, halves, boxes, expected: 0, balance: Balance::default() })
    }

    /// Lets the receivers be ready of flows that start in the other half.
    fn expect(&mut self) {
        for flow in (self.expected as u32..self.first.core.flow_count() as u32).map(PacketFlowId) {
            let [sender, receiver] = self.ends(flow);
            if sender != receiver {
                let Simulation { core, transport } = self.half_mut(receiver);
                transport.expect(core, flow);
            }
        }
        self.expected = self.first.core.flow_count();
    }

    /// The halves of the ends of a flow.
    fn ends(&self, flow: PacketFlowId) -> [Half; 2] {
        let core = &self.first.core;
        let ends = core.endpoints(flow);
        [ends.source(), ends.destination()].map(|nic| self.halves.nic(core.topology(), nic))
    }

    fn half(&self, half: Half) -> &Simulation<T> {
        match half {
            Half::First => &self.first,
            Half::Second => &self.second,
        }
    }

    fn half_mut(&mut self, half: Half) -> &mut Simulation<T> {
        match half {
            Half::First => &mut self.first,
            Half::Second => &mut self.second,
        }
    }

    /// Adds a flow to the half where it starts by `add`, and makes it known to the other.
    fn insert(
        &mut self,
        spec: &FlowSpec,
        add: impl FnOnce(&mut Simulation<T>) -> Result<PacketFlowId, PacketError>,
    ) -> Result<PacketFlowId, PacketError> {
        // A NIC that is not there is refused by either half.
        let topology = self.first.core.topology();
        let is_known = (spec.source.0 as usize) < topology.nic_count();
        let here = if is_known { self.halves.nic(topology, spec.source) } else { Half::First };
        let flow = add(self.half_mut(here))?;
        let there = if here == Half::First { Half::Second } else { Half::First };
        self.half_mut(there).core.add_foreign_flow(spec)?;
        Ok(flow)
    }

    /// The first half learns of all flows what the second knows.
    fn merge(&mut self, finished: &mut Vec<PacketFlowId>) -> bool {
        for flow in (0..self.first.core.flow_count() as u32).map(PacketFlowId) {
            let ends = self.ends(flow).map(|half| half == Half::Second);
            self.first.core.flows.merge(&mut self.second.core.flows, flow, ends);
        }
        self.first.core.flows.merge_finished(&mut self.second.core.flows);
        let any = self.first.core.flows.has_finished();
        self.first.core.flows.collect_finished(finished);
        any
    }
}

impl<T: Transport + Send> AnySimulation for Pair<T> {
    fn add_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.insert(spec, |simulation| simulation.add_flow(spec))
    }

    fn hold_flow(&mut self, spec: &FlowSpec) -> Result<PacketFlowId, PacketError> {
        self.insert(spec, |simulation| simulation.hold_flow(spec))
    }

    fn start_flow(&mut self, flow: PacketFlowId) {
        let [here, _] = self.ends(flow);
        self.half_mut(here).start_flow(flow);
    }

    fn set_dark(&mut self, time: Time, link: PacketLinkId, dark: bool) {
        let half = self.halves.sender(link);
        self.half_mut(half).set_dark(time, link, dark);
    }

    fn add_failure(&mut self, failure: &Failure) {
        self.first.add_failure(failure);
        self.second.add_failure(failure);
    }

    fn hash_by_ends(&mut self) {
        self.first.hash_by_ends();
        self.second.hash_by_ends();
    }

    fn finish_on_arrival(&mut self) {
        self.first.finish_on_arrival();
        self.second.finish_on_arrival();
    }

    fn finish_twice(&mut self) {
        self.first.finish_twice();
        self.second.finish_twice();
    }

    /// As that of one thread, but returns whenever much has happened, with all flows that have
    /// finished since.
    fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        self.expect();
        let [to_first, to_second] = &mut self.boxes;
        let crossings = [&*to_second, &*to_first];
        let meeting = &Meeting::new(crossings);
        let lookahead = self.halves.lookahead;
        let work = [Work::of(&self.first.core), Work::of(&self.second.core)];
        let first = Runner {
            simulation: &mut self.first,
            inbox: to_first,
            half: 0,
            meeting,
            lookahead,
            limit,
            work,
        };
        let second = Runner {
            simulation: &mut self.second,
            inbox: to_second,
            half: 1,
            meeting,
            lookahead,
            limit,
            work: [work[1], work[0]],
        };
        let begin = work[0].plus(work[1]).events;
        let mut observed = begin;
        let mut meetings = 0;
        let mut error = None;
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| second.run(|_, _| false));
            first.run(|core, Work { events, hops: done, packets }| {
                meetings += 1;
                if events - observed + EVENTS_PER_MEETING * meetings >= OBSERVE_EVERY {
                    (observed, meetings) = (events, 0);
                    let now = core.now();
                    if observer.progress(now, done).is_break() {
                        error = Some(Interrupted { now, done }.into());
                    } else if let Err(wrong) = core.check_packet_count(packets) {
                        error = Some(wrong);
                    }
                }
                error.is_some() || events - begin >= RETURN_EVERY
            })
        });
        self.balance.windows += outcome.balance.windows;
        self.balance.critical_events += outcome.balance.critical_events;
        debug_assert!(!outcome.is_done || self.first.core.now() == self.second.core.now());
        let any = self.merge(finished);
        error.map_or(Ok(any), Err)
    }

    /// Each half records its own.
    fn record_events(&mut self, logging: EventLogging) {
        self.first.record_events(logging);
        self.second.record_events(logging);
    }

    fn settle_all(&mut self) {
        self.first.settle_all();
        self.second.settle_all();
    }

    fn core(&self) -> &Core {
        &self.first.core
    }

    fn core_of(&self, link: PacketLinkId) -> &Core {
        &self.half(self.halves.sender(link)).core
    }

    fn take_peak(&mut self, link: PacketLinkId) -> u32 {
        self.first.core.take_peak(link).max(self.second.core.take_peak(link))
    }

    /// What is lost at the far end counts there.
    fn link_counters(&self, link: PacketLinkId) -> LinkCounters {
        self.first.core.link_counters(link) + self.second.core.link_counters(link)
    }

    fn counters(&self) -> Counters {
        self.first.core.counters() + self.second.core.counters()
    }

    fn peak_packets(&self) -> u64 {
        self.first.core.peak_packets() + self.second.core.peak_packets()
    }

    fn is_idle(&self) -> bool {
        self.first.core.is_idle() && self.second.core.is_idle()
    }

    fn balance(&self) -> Option<Balance> {
        Some(self.balance)
    }
}
