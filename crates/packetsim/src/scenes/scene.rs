//! One scene: flows that may meet, and their simulation once something new is asked of it.

use super::live::Live;
use super::memory::{Batch, Item, Key, Known, key};
use super::places::{Labels, Places};
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
    /// Flows, in the order in which they were added, and whether their ends were handed over.
    flows: Vec<(PacketFlowId, bool)>,
    /// Known ends that were passed.
    passed: usize,
    /// Flows whose ends were not handed over.
    pub(super) left: usize,
    pub(super) classes: Vec<u32>,
    /// Links that it has dark.
    pub(super) dark: FxHashSet<PacketLinkId>,
    labels: Labels,
}

impl Scene {
    pub(super) fn new(start: Time) -> Self {
        Self {
            start,
            batches: Vec::new(),
            key: 0,
            flows: Vec::new(),
            passed: 0,
            left: 0,
            classes: Vec::new(),
            dark: FxHashSet::default(),
            labels: Labels::default(),
        }
    }

    /// Scenes that meet become one, whose past is theirs.
    pub(super) fn merged(scenes: Vec<Self>, places: &Places) -> Self {
        let start = scenes.iter().map(|scene| scene.start).min().expect("some scenes meet");
        let mut merged = Self::new(start);
        let mut batches = Vec::new();
        let mut ended = FxHashSet::default();
        for scene in scenes {
            merged.left += scene.left;
            merged.classes.extend(scene.classes);
            merged.dark.extend(scene.dark);
            batches.extend(scene.batches);
            ended.extend(scene.flows.iter().filter(|flow| flow.1).map(|flow| flow.0));
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
            let flows = batch.items.iter().filter_map(flow_of);
            merged.flows.extend(flows.map(|flow| (flow, ended.contains(&flow))));
            take(&mut merged.labels, batch, places);
        }
        merged.name_all();
        merged
    }

    /// More begins; returns whether what is simulated of it can go on.
    pub(super) fn add(&mut self, batch: Batch, salt: Key, places: &Places) -> bool {
        let is_moved = take(&mut self.labels, &batch, places);
        if is_moved {
            self.name_all();
        }
        self.key = key(self.key ^ salt, self.start, &batch, &self.labels);
        let before = self.flows.len();
        self.flows.extend(batch.items.iter().filter_map(flow_of).map(|flow| (flow, false)));
        self.left += self.flows.len() - before;
        self.passed = 0;
        self.batches.push(batch);
        !is_moved
    }

    /// Makes the key anew.
    fn name_all(&mut self) {
        self.key = 0;
        for batch in &self.batches {
            self.key = key(self.key, self.start, batch, &self.labels);
        }
    }

    /// When the next flow ends, if that is known.
    pub(super) fn next_known(&mut self, known: &Known) -> Option<Time> {
        while let Some(&(end, flow)) = known.ends.get(self.passed) {
            if !self.flows[flow as usize].1 {
                return Some(self.start + end);
            }
            self.passed += 1;
        }
        None
    }

    /// Hands over the flows that end next.
    pub(super) fn hand_over(&mut self, known: &Known, finished: &mut Vec<PacketFlowId>) {
        let next = &known.ends[self.passed..];
        let count = next.iter().take_while(|(end, _)| *end == next[0].0).count();
        for &(_, flow) in &next[..count] {
            let (number, has_ended) = &mut self.flows[flow as usize];
            if !*has_ended {
                *has_ended = true;
                finished.push(*number);
                self.left -= 1;
            }
        }
        self.passed += count;
    }

    /// The network of its history, in which everything has begun that did; a copy of an idle one if
    /// there is none.
    fn live<'a>(
        &self,
        known: &'a mut Known,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<&'a mut Live, PacketError> {
        if known.live.is_none() {
            let mut live = Live::new(&*setting.idle, setting.packet);
            for batch in &self.batches {
                self.begin(batch, &mut live, observer)?;
            }
            // Flows that had ended when this was simulated again, but not before.
            let open = live.open();
            let is_late = |flow: &u32| !self.flows[*flow as usize].1 && !open.contains(flow);
            live.late = (0..self.flows.len() as u32).filter(is_late).collect();
            live.seen = live.late.len();
            known.live = Some(live);
        }
        Ok(known.live.as_mut().expect("it has one now"))
    }

    /// What begins, in a network in which everything before has begun.
    fn begin(
        &self,
        batch: &Batch,
        live: &mut Live,
        observer: &mut dyn Observer,
    ) -> Result<(), PacketError> {
        let at = Time(batch.at.since(self.start).0);
        while live.run(at, observer)?.is_some() {}
        for item in &batch.items {
            match item {
                Item::Flow(_, flow) => live.add_flow(&self.labels.place(flow))?,
                Item::Dark(link, dark) => live.set_dark(*link, *dark),
            }
        }
        live.late.clear();
        live.seen = 0;
        Ok(())
    }

    /// The last batch begins in the network of the history before it; returns that network if it
    /// has gone on for too long.
    pub(super) fn go_on(
        &self,
        mut live: Live,
        known: &mut Known,
        observer: &mut dyn Observer,
    ) -> Result<Option<Live>, PacketError> {
        let batch = self.batches.last().expect("it was added");
        let is_of_use = known.live.is_none() && known.drained.is_none();
        if !is_of_use || live.now() > Time(batch.at.since(self.start).0) {
            return Ok(Some(live));
        }
        self.begin(batch, &mut live, observer)?;
        known.live = Some(live);
        Ok(None)
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
        if known.quiet.is_some_and(|quiet| until.0 <= quiet.0) {
            return Ok(false);
        }
        let last = self.batches.last().map_or(self.start, |batch| batch.at);
        let Known { ends, live, .. } = {
            self.live(known, setting, observer)?;
            known
        };
        let live = live.as_mut().expect("it has one now");
        if ends.is_empty() && !live.late.is_empty() {
            ends.extend(live.late.iter().map(|&flow| (last.since(self.start), flow)));
            return Ok(true);
        }
        while let Some(ended) = live.run(until, observer)? {
            let now = live.now().since(Time::ZERO);
            live.seen += ended.len();
            if live.seen > ends.len() {
                ends.extend(ended.iter().map(|flow| (now, flow.0)));
                if ended.iter().any(|flow| !self.flows[flow.0 as usize].1) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A time before which no flow ends of which that is not known.
    pub(super) fn bound(
        &mut self,
        known: &mut Known,
        setting: &Setting,
        observer: &mut dyn Observer,
    ) -> Result<Time, PacketError> {
        let last = self.batches.last().map_or(self.start, |batch| batch.at);
        let after_quiet = known.quiet.map(|quiet| self.start + quiet + Duration(1));
        if let (None, Some(bound)) = (&known.live, after_quiet) {
            return Ok(bound);
        }
        let is_new = known.ends.is_empty();
        let live = self.live(known, setting, observer)?;
        let bound = self.start + live.bound().since(Time::ZERO);
        let bound = if is_new && !live.late.is_empty() { last } else { bound };
        // Its network may lag behind a scene of the same history in which more began.
        Ok(after_quiet.map_or(bound, |least| bound.max(least)))
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
        let live = self.live(known, setting, observer)?;
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
}

/// Gives places to what begins; returns whether its scene, so far at another one, is to stay where
/// it is: a link that goes dark has no other place.
fn take(labels: &mut Labels, batch: &Batch, places: &Places) -> bool {
    let mut moves = false;
    for item in &batch.items {
        moves |= match item {
            Item::Flow(_, flow) => labels.take(places, flow),
            Item::Dark(..) => labels.fix(),
        };
    }
    moves
}

/// What all scenes have in common.
pub(super) struct Setting {
    pub(super) idle: Box<dyn RepeatableSimulation>,
    /// Time in which the fastest link sends the payload of a packet.
    pub(super) packet: Duration,
    pub(super) places: Places,
}

fn flow_of(item: &Item) -> Option<PacketFlowId> {
    match item {
        Item::Flow(flow, _) => Some(*flow),
        Item::Dark(..) => None,
    }
}
