//! The network of a scene, in which long steady states are skipped.
//!
//! Time is cut into windows. Where each flow gets as many packets in a window as in the one before,
//! and sends as many, it will go on like that: all flows are made shorter by what they would get in
//! a number of such windows, and what follows happens so much later. Packets under way, queues,
//! windows and timers stay as they are. A skip ends before any flow does, and where something else
//! begins.

use crate::error::PacketError;
use crate::flow::{FlowProgress, FlowSpec, PacketFlowId};
use crate::network::any::RepeatableSimulation;
use crate::topology::PacketLinkId;
use lightloom_kernel::Observer;
use lightloom_model::{Duration, Time};

/// Packets that each flow gets in two windows together, or none: one more or less is 1 % of what it
/// gets, and less of what all flows of a NIC get, on which depends when the last of them ends.
const FEWEST: u32 = 100;
/// What flows get of two windows that are alike differs by a packet, and one part of these.
const PARTS: u32 = 200;
/// What senders hand over differs from that by one part of these: a window that nothing limits
/// grows by a packet per round trip.
const SENT_PARTS: u32 = 40;
/// Windows that are skipped at first after two alike, and at most after many.
const FIRST_SKIP: u32 = 4;
const LONGEST_SKIP: u32 = 64;
/// Round trips, and packets that a NIC sends, in the first window.
const ROUND_TRIPS: u64 = 2;
const PACKETS: u64 = 64;

/// A network of its own, which begins at the start of a scene.
pub(super) struct Live {
    simulation: Box<dyn RepeatableSimulation>,
    /// Flows that have not ended.
    open: Vec<PacketFlowId>,
    /// How much later everything happens than in the simulation.
    skipped: Duration,
    /// Packets that left a link in what was skipped.
    skipped_hops: u64,
    /// Time in which the fastest link sends a packet.
    packet: Duration,
    /// None where nothing is skipped.
    windows: Option<Windows>,
}

/// Windows of time, and what each open flow got in them.
#[derive(Debug)]
struct Windows {
    length: Duration,
    /// Where the current one ends; in the simulation, as all times here.
    end: Time,
    received: Vec<u32>,
    /// What they could do without when it began.
    spare: Vec<u32>,
    hops: u64,
    /// Of the last whole one.
    before: Option<Vec<u32>>,
    /// What is to be skipped.
    skip: Option<Skip>,
    longest: u32,
}

/// Windows that are like the last ones.
#[derive(Debug)]
struct Skip {
    count: u32,
    /// What each open flow gets in two, and packets that leave a link in one.
    gets: Vec<u32>,
    hops: u64,
}

impl Live {
    /// A copy of an idle network.
    pub(super) fn new(idle: &dyn RepeatableSimulation, packet: Duration, skips: bool) -> Self {
        let windows = skips.then(|| Windows {
            length: Duration::ZERO,
            end: Time::ZERO,
            received: Vec::new(),
            spare: Vec::new(),
            hops: 0,
            before: None,
            skip: None,
            longest: FIRST_SKIP,
        });
        Self {
            simulation: idle.copy(),
            open: Vec::new(),
            skipped: Duration::ZERO,
            skipped_hops: 0,
            packet,
            windows,
        }
    }

    /// The time since the start of the scene.
    pub(super) fn now(&self) -> Time {
        self.simulation.core().now() + self.skipped
    }

    /// A flow begins now.
    pub(super) fn add_flow(&mut self, flow: &FlowSpec) -> Result<(), PacketError> {
        let start = self.simulation.core().now();
        self.open.push(self.simulation.add_flow(&FlowSpec { start, ..flow.clone() })?);
        self.measure_anew();
        Ok(())
    }

    /// A link goes dark now, or comes up.
    pub(super) fn set_dark(&mut self, link: PacketLinkId, dark: bool) {
        self.simulation.set_dark(self.simulation.core().now(), link, dark);
        self.measure_anew();
    }

    /// Runs until flows end, which are returned, or a time. If that is not `reached`, nothing has
    /// to be known of it but that nothing ended.
    pub(super) fn run(
        &mut self,
        until: Time,
        reached: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<Vec<PacketFlowId>>, PacketError> {
        loop {
            if let Some(end) = self.skip_end() {
                if until < end && !reached {
                    return Ok(None);
                }
                self.skip_until(until);
                continue;
            }
            let limit = Time(until.since(Time::ZERO).0.saturating_sub(self.skipped.0));
            let window = self.windows.as_ref().filter(|_| !self.open.is_empty());
            let stop = window.map_or(limit, |windows| windows.end.min(limit));
            let mut ended = Vec::new();
            if self.simulation.advance(stop, &mut ended, observer)? {
                let core = self.simulation.core();
                self.open.retain(|&flow| !is_whole(core.flow(flow)));
                self.measure_anew();
                return Ok(Some(ended));
            }
            if stop == limit && self.windows.as_ref().is_none_or(|windows| limit < windows.end) {
                return Ok(None);
            }
            if self.open.is_empty() {
                return Ok(None);
            }
            self.end_window();
            if stop == limit && self.skip_end().is_none() {
                return Ok(None);
            }
        }
    }

    /// When a skip would end.
    fn skip_end(&self) -> Option<Time> {
        let windows = self.windows.as_ref()?;
        let count = windows.skip.as_ref()?.count;
        Some(self.now() + Duration(u64::from(count) * windows.length.0))
    }

    /// Skips whole windows until a time at most.
    fn skip_until(&mut self, until: Time) {
        let now = self.now();
        let Some(windows) = &mut self.windows else { return };
        let Some(skip) = windows.skip.take() else { return };
        let fit = until.since(now).0 / windows.length.0.max(1);
        let count = u32::try_from(fit).unwrap_or(u32::MAX).min(skip.count);
        for (&flow, gets) in self.open.iter().zip(&skip.gets) {
            let packets = (u64::from(count) * u64::from(*gets) / 2) as u32;
            if packets > 0 {
                self.simulation.shorten(flow, packets);
            }
        }
        self.skipped.0 += u64::from(count) * windows.length.0;
        self.skipped_hops += u64::from(count) * skip.hops;
        // What follows is compared with what was before.
        windows.before = Some(skip.gets.iter().map(|gets| gets / 2).collect());
        windows.longest = (2 * windows.longest).min(LONGEST_SKIP);
        self.begin_window();
    }

    /// Nothing is known of how it goes on.
    fn measure_anew(&mut self) {
        let Some(first) = self.open.first() else { return };
        let Some(windows) = &mut self.windows else { return };
        let trip = self.simulation.core().round_trip(*first);
        windows.length = Duration((ROUND_TRIPS * trip.0).max(PACKETS * self.packet.0).max(1));
        (windows.before, windows.skip, windows.longest) = (None, None, FIRST_SKIP);
        self.begin_window();
    }

    fn begin_window(&mut self) {
        let core = self.simulation.core();
        let Some(windows) = &mut self.windows else { return };
        windows.end = core.now() + windows.length;
        windows.received.clear();
        windows.received.extend(self.open.iter().map(|&flow| core.flow(flow).received));
        windows.spare.clear();
        windows.spare.extend(self.open.iter().map(|&flow| self.simulation.spare(flow)));
        windows.hops = hops(&*self.simulation);
    }

    /// A window is over: whether it was as the one before.
    fn end_window(&mut self) {
        let core = self.simulation.core();
        let Some(windows) = &mut self.windows else { return };
        let received = self.open.iter().zip(&windows.received);
        let gets: Vec<u32> =
            received.map(|(&flow, before)| core.flow(flow).received - before).collect();
        let hops = hops(&*self.simulation) - windows.hops;
        let is_long = gets.iter().all(|&count| count == 0 || 2 * count >= FEWEST);
        let is_alike = windows.before.as_ref().is_some_and(|before| {
            let mut pairs = gets.iter().zip(before);
            pairs.all(|(now, before)| now.abs_diff(*before) <= 1 + now / PARTS)
        });
        // Nor do queues grow: as much is sent as arrives.
        let mut sent = self.open.iter().zip(&windows.spare).zip(&gets);
        let is_alike = is_alike
            && sent.all(|((&flow, &spare), &gets)| {
                let sent = spare.saturating_sub(self.simulation.spare(flow));
                sent.abs_diff(gets) <= 1 + gets / SENT_PARTS
            });
        if is_long && is_alike {
            let pairs = gets.iter().zip(windows.before.iter().flatten());
            let both: Vec<u32> = pairs.map(|(now, before)| now + before).collect();
            let spare = self.open.iter().zip(&both).filter(|(_, gets)| **gets > 0);
            let spare = spare.map(|(&flow, gets)| 2 * self.simulation.spare(flow) / gets);
            let count = spare.min().unwrap_or(0).saturating_sub(1).min(windows.longest);
            windows.skip = (count > 0).then_some(Skip { count, gets: both, hops });
            windows.before = Some(gets);
        } else if windows.before.is_some() || !is_long {
            windows.length.0 *= 2;
            windows.before = None;
            windows.longest = FIRST_SKIP;
        } else {
            windows.before = Some(gets);
        }
        self.begin_window();
    }

    /// A time before which no flow ends.
    pub(super) fn bound(&mut self) -> Time {
        if let Some(end) = self.skip_end() {
            return end;
        }
        let core = self.simulation.core();
        // Packets of a flow arrive one after the other; the last one may be short.
        let missing = |flow: &PacketFlowId| {
            let progress = core.flow(*flow);
            progress.packets - progress.received
        };
        let fewest = self.open.iter().map(missing).min().unwrap_or(0).saturating_sub(2);
        let arrived = core.now() + Duration(self.packet.0.saturating_mul(u64::from(fewest)));
        let event = self.simulation.next_time().unwrap_or(Time(u64::MAX >> 1));
        arrived.max(event) + self.skipped
    }

    /// When its next event is due.
    pub(super) fn next_time(&mut self) -> Option<Time> {
        self.simulation.next_time().map(|time| time + self.skipped)
    }

    /// Whether all flows are done and no packet is left.
    pub(super) fn is_drained(&self) -> bool {
        self.simulation.is_drained()
    }

    /// Packets that have crossed a link, and those of them that were simulated.
    pub(super) fn hops(&self) -> (u64, u64) {
        let simulated = hops(&*self.simulation);
        (simulated + self.skipped_hops, simulated)
    }
}

fn is_whole(progress: &FlowProgress) -> bool {
    progress.received == progress.packets
}

fn hops(simulation: &dyn RepeatableSimulation) -> u64 {
    let counters = simulation.counters();
    counters.data_hops + counters.control_hops
}
