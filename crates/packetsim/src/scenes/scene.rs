//! One scene: flows that may meet, and their simulation once something new is asked of it.

use super::live::Live;
use super::memory::{Batch, Item, Key, Known, key};
use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::any::RepeatableSimulation;
use crate::topology::PacketLinkId;
use lightloom_kernel::Observer;
use lightloom_model::{Duration, Time};
use rustc_hash::FxHashSet;

/// Flows that may meet, from when the first of them starts until nothing of them is left.
pub(super) struct Scene {
    pub(super) start: Time,
    pub(super) batches: Vec<Batch>,
    pub(super) key: Key,
    /// Flows, in the order in which they were added.
    flows: Vec<PacketFlowId>,
    /// Ends that were handed over, of those known.
    handed: usize,
    /// Flows whose ends were not handed over.
    pub(super) left: usize,
    pub(super) classes: Vec<u32>,
    /// Links that it has dark.
    pub(super) dark: FxHashSet<PacketLinkId>,
    live: Option<Live>,
    /// Batches that have begun in its network.
    applied: usize,
    /// Flows that have ended there since the last of them.
    seen: usize,
}

impl Scene {
    pub(super) fn new(start: Time) -> Self {
        Self {
            start,
            batches: Vec::new(),
            key: 0,
            flows: Vec::new(),
            handed: 0,
            left: 0,
            classes: Vec::new(),
            dark: FxHashSet::default(),
            live: None,
            applied: 0,
            seen: 0,
        }
    }

    /// Scenes that meet become one, whose past is theirs.
    pub(super) fn merged(scenes: Vec<Self>) -> Self {
        let start = scenes.iter().map(|scene| scene.start).min().expect("some scenes meet");
        let mut merged = Self::new(start);
        let mut batches = Vec::new();
        for scene in scenes {
            merged.left += scene.left;
            merged.classes.extend(scene.classes);
            merged.dark.extend(scene.dark);
            batches.extend(scene.batches);
        }
        // Stable, and scenes are in the order of their first flows.
        batches.sort_by_key(|batch| batch.at);
        for batch in batches {
            match merged.batches.last_mut() {
                Some(last) if last.at == batch.at => last.items.extend(batch.items),
                _ => merged.batches.push(batch),
            }
        }
        for batch in &mut merged.batches {
            // As they would have come, had the scenes been one from the start.
            batch.items.sort_by_key(|item| match item {
                Item::Dark(..) => None,
                Item::Flow(flow, _) => Some(*flow),
            });
            merged.key = key(merged.key, start, batch);
            merged.flows.extend(batch.items.iter().filter_map(flow_of));
        }
        merged
    }

    /// More begins.
    pub(super) fn add(&mut self, batch: Batch, salt: Key) {
        self.key = key(self.key ^ salt, self.start, &batch);
        let before = self.flows.len();
        self.flows.extend(batch.items.iter().filter_map(flow_of));
        self.left += self.flows.len() - before;
        self.handed = 0;
        self.batches.push(batch);
    }

    /// When the next flow ends, if that is known.
    pub(super) fn next_known(&self, known: &Known) -> Option<Time> {
        known.ends.get(self.handed).map(|&(end, _)| self.start + end)
    }

    /// Hands over the flows that end next.
    pub(super) fn hand_over(&mut self, known: &Known, finished: &mut Vec<PacketFlowId>) {
        let next = &known.ends[self.handed..];
        let count = next.iter().take_while(|(end, _)| *end == next[0].0).count();
        finished.extend(next[..count].iter().map(|&(_, flow)| self.flows[flow as usize]));
        self.handed += count;
        self.left -= count;
    }

    /// Its network, in which everything has begun that did; a copy of an idle one if it has none.
    fn live(
        &mut self,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<&mut Live, PacketError> {
        let Setting { idle, packet } = setting;
        let live = self.live.get_or_insert_with(|| Live::new(&**idle, *packet));
        while let Some(batch) = self.batches.get(self.applied) {
            let at = Time(batch.at.since(self.start).0);
            while live.run(at, observer)?.is_some() {}
            for item in &batch.items {
                match item {
                    Item::Flow(_, flow) => live.add_flow(flow)?,
                    Item::Dark(link, dark) => live.set_dark(*link, *dark),
                }
            }
            self.applied += 1;
            self.seen = 0;
        }
        Ok(live)
    }

    /// Simulates it until a time, or until flows end of which that was not known; returns whether
    /// some did.
    pub(super) fn simulate(
        &mut self,
        until: Time,
        known: &mut Known,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        let until = Time(until.since(self.start).0);
        self.live(setting, observer)?;
        let live = self.live.as_mut().expect("it has one now");
        while let Some(ended) = live.run(until, observer)? {
            let now = live.now().since(Time::ZERO);
            self.seen += ended.len();
            if self.seen > known.ends.len() {
                known.ends.extend(ended.iter().map(|flow| (now, flow.0)));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A time before which no flow ends of which that is not known.
    pub(super) fn bound(
        &mut self,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<Time, PacketError> {
        let start = self.start;
        Ok(start + self.live(setting, observer)?.bound().since(Time::ZERO))
    }

    /// Whether nothing is left of it at a time until which all of its ends were handed over; it is
    /// then known when that was so first.
    pub(super) fn is_drained(
        &mut self,
        now: Time,
        known: &mut Known,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        let start = self.start;
        if let Some((at, _)) = known.drained {
            return Ok(start + at <= now);
        }
        let live = self.live(setting, observer)?;
        while !live.is_drained() {
            match live.next_time() {
                Some(next) if start + next.since(Time::ZERO) <= now => {
                    live.run(next, observer)?;
                }
                _ => return Ok(false),
            }
        }
        known.drained = Some((live.now().since(Time::ZERO), live.hops()));
        Ok(true)
    }

    /// Packets that have crossed a link in its own network.
    pub(super) fn simulated_hops(&self) -> u64 {
        self.live.as_ref().map_or(0, Live::hops)
    }
}

/// What all scenes have in common.
pub(super) struct Setting {
    pub(super) idle: Box<dyn RepeatableSimulation>,
    /// Time in which the fastest link sends the payload of a packet.
    pub(super) packet: Duration,
}

fn flow_of(item: &Item) -> Option<PacketFlowId> {
    match item {
        Item::Flow(flow, _) => Some(*flow),
        Item::Dark(..) => None,
    }
}
