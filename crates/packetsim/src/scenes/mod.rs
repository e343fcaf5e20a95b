//! Contention that repeats is simulated once.
//!
//! Flows that are under way at the same time and may share a link are a *scene*: it begins when
//! the first of them starts on links of which nobody else has anything, others join it, and it
//! ends when neither packets nor acknowledgements of it are left. What happens in a scene depends
//! on nothing else: on what began when, relative to its start (its *history*), and on the paths,
//! which hashes draw by the NICs at the ends of a flow, as connections last. So each scene has a
//! network of its own, and what was found of a history is remembered, up to the next thing that
//! begins in it: an all-to-all that a training step repeats in each layer and micro-batch is
//! simulated once. Times are those that its flows would have in one network at the start of the
//! scene: what is drawn by the time (which of simultaneous events comes first) or by the number of
//! a flow is drawn by those in the scene.
//!
//! Flows begin at multiples of 100 ns, so that members of an all-to-all that are apart by a little
//! more or less are alike.
//!
//! Two scenes that a new flow joins become one, which is simulated from the start of the earlier
//! one unless it is known.

mod footprint;
mod live;
mod memory;
mod places;
mod scene;
#[cfg(test)]
mod tests;

use crate::config::Config;
use crate::error::PacketError;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::network::core::Core;
use crate::topology::{PacketLinkId, Topology};
use crate::transport::TransportKind;
use footprint::Footprints;
use lightloom_kernel::Observer;
use lightloom_model::{Bytes, Duration, Time};
use live::Live;
use memory::{Batch, Item, Key, Memory};
use places::Places;
use rustc_hash::{FxHashMap, FxHashSet};
use scene::{Scene, Setting};
use std::collections::VecDeque;

/// Flows begin at multiples of this, in picoseconds.
const GRID: u64 = 100_000;

/// No scene.
const NONE: u32 = u32::MAX;

/// Packets that left a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SceneHops {
    /// Of all scenes.
    pub all: u64,
    /// In networks that were simulated, those of scenes that met after a while twice.
    pub simulated: u64,
}

/// A network in which flows begin during a run, as scenes.
pub struct Scenes {
    setting: Setting,
    footprints: Footprints,
    memory: Memory,
    /// Whether what is known is used.
    reuses: bool,
    now: Time,
    /// By number; none where one has ended.
    alive: Vec<Option<Scene>>,
    /// The scene that has the links of a class, or [`NONE`].
    holders: Vec<u32>,
    /// Scenes with flows that have not ended, and the time before which none does.
    busy: Vec<(u32, Option<Time>)>,
    flows: u32,
    /// Flows that are to begin, in the order of their starts.
    waiting: VecDeque<(PacketFlowId, FlowSpec)>,
    begun: Vec<(PacketFlowId, FlowSpec)>,
    /// Links that have changed since the last look.
    changed: Vec<PacketLinkId>,
    dark: FxHashSet<PacketLinkId>,
    hops: SceneHops,
    salt: Key,
}

impl std::fmt::Debug for Scenes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Scenes").field("busy", &self.busy).finish_non_exhaustive()
    }
}

impl Scenes {
    /// An idle network; `reuses` whether scenes that are known are not simulated again.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn new(
        transport: TransportKind,
        topology: Topology,
        config: Config,
        reuses: bool,
    ) -> Result<Self, PacketError> {
        let rate = topology.links().iter().map(|link| link.rate).max().unwrap_or_default();
        let width = topology.link_ids().map(|link| topology.width(link)).max().unwrap_or(1);
        let packet = rate.transmission(Bytes(u64::from(config.mtu)));
        let mut idle = transport.repeatable_simulation(topology, config)?;
        idle.hash_by_ends();
        idle.finish_on_arrival();
        let footprints = Footprints::new(idle.core());
        let packet = Duration(packet.0 / u64::from(width));
        let places = Places::new(idle.core());
        let setting = Setting { idle, packet, places };
        let holders = vec![NONE; footprints.count()];
        Ok(Self {
            setting,
            footprints,
            memory: Memory::default(),
            reuses,
            now: Time::ZERO,
            alive: Vec::new(),
            holders,
            busy: Vec::new(),
            flows: 0,
            waiting: VecDeque::new(),
            begun: Vec::new(),
            changed: Vec::new(),
            dark: FxHashSet::default(),
            hops: SceneHops::default(),
            salt: 0,
        })
    }

    /// The network without any flow.
    pub fn core(&self) -> &Core {
        self.setting.idle.core()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A flow begins, now or later than all that has happened: at the next multiple of 100 ns.
    pub fn add_flow(&mut self, now: Time, spec: FlowSpec) -> PacketFlowId {
        self.now = self.now.max(now);
        let flow = PacketFlowId(self.flows);
        self.flows += 1;
        let start = Time(self.now.0.next_multiple_of(GRID));
        self.waiting.push_back((flow, FlowSpec { start, ..spec }));
        flow
    }

    /// A link goes dark, or comes up.
    pub fn set_dark(&mut self, now: Time, link: PacketLinkId, dark: bool) {
        self.now = self.now.max(now);
        if dark {
            self.dark.insert(link)
        } else {
            self.dark.remove(&link)
        };
        self.changed.push(link);
    }

    /// Continues until flows have everything, which are then in `finished`, or `limit`; returns
    /// whether any have.
    ///
    /// # Errors
    /// If a flow cannot be, or the observer asks to stop.
    pub fn advance(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        loop {
            let due = self.waiting.front().map(|(_, flow)| flow.start);
            let due = due.filter(|due| *due <= limit);
            if self.advance_begun(due.unwrap_or(limit), finished, observer)? {
                return Ok(true);
            }
            let Some(due) = due else { return Ok(false) };
            let count = self.waiting.iter().take_while(|(_, flow)| flow.start == due).count();
            self.begun.extend(self.waiting.drain(..count));
        }
    }

    /// As [`Self::advance`], while no other flow begins.
    fn advance_begun(
        &mut self,
        limit: Time,
        finished: &mut Vec<PacketFlowId>,
        observer: &mut dyn Observer,
    ) -> Result<bool, PacketError> {
        self.begin(observer)?;
        let mut end = limit;
        while let Some((place, bound, others)) = self.first(observer)? {
            if bound > end {
                break;
            }
            let (number, _) = self.busy[place];
            let scene = self.alive[number as usize].as_mut().expect("busy");
            let known = self.memory.entry(scene.key).or_default();
            if scene.next_known(known).is_none() {
                let until = others.min(end);
                scene.simulate(until, known, &self.setting, observer)?;
                self.busy[place].1 = None;
                if scene.next_known(known).is_none() {
                    if others > end {
                        break;
                    }
                    continue;
                }
            }
            let next = scene.next_known(known).expect("just simulated");
            if next > others.min(end) {
                // Another scene of the same history was further.
                self.busy[place].1 = Some(next);
                continue;
            }
            // What ends at the same time in other scenes is handed over as well.
            end = next;
            scene.hand_over(known, finished);
            self.busy[place].1 = None;
            if scene.left == 0 {
                self.busy.swap_remove(place);
            }
        }
        if end.0 != u64::MAX {
            self.now = self.now.max(end);
        }
        finished.sort_unstable();
        Ok(!finished.is_empty())
    }

    /// The scene in which flows end first as far as is known, by its place among the busy ones,
    /// the time before which none does, and the time before which none does in others.
    fn first(
        &mut self,
        observer: &mut dyn Observer,
    ) -> Result<Option<(usize, Time, Time)>, PacketError> {
        let mut first: Option<(usize, Time)> = None;
        let mut others = Time(u64::MAX);
        let is_alone = self.busy.len() == 1;
        for (place, (number, bound)) in self.busy.iter_mut().enumerate() {
            let time = if let Some(time) = *bound {
                time
            } else {
                let scene = self.alive[*number as usize].as_mut().expect("busy");
                let known = self.memory.entry(scene.key).or_default();
                match scene.next_known(known) {
                    Some(time) => time,
                    None if is_alone => self.now,
                    None => scene.bound(known, &self.setting, observer)?,
                }
            };
            *bound = (!is_alone).then_some(time);
            match first {
                Some((_, earliest)) if earliest <= time => others = others.min(time),
                _ => {
                    others = first.map_or(others, |(_, earliest)| others.min(earliest));
                    first = Some((place, time));
                }
            }
        }
        Ok(first.map(|(place, time)| (place, time, others)))
    }

    /// What has begun since the last look joins the scenes that it may meet.
    fn begin(&mut self, observer: &mut dyn Observer) -> Result<(), PacketError> {
        let (begun, changed) = (std::mem::take(&mut self.begun), std::mem::take(&mut self.changed));
        let mut groups = Groups::default();
        let mut checked = FxHashSet::default();
        for link in changed {
            let class = self.footprints.class(link);
            if self.holder(class, &mut checked, observer)? != NONE {
                groups.add(None, &[class]);
            }
        }
        for (flow, spec) in begun {
            self.setting.idle.core().check_flow(&spec)?;
            let classes = self.footprints.of(self.setting.idle.core(), &spec);
            for &class in &classes {
                self.holder(class, &mut checked, observer)?;
            }
            groups.add(Some((flow, spec)), &classes);
        }
        for class in groups.classes() {
            groups.hold(class, self.holders[class as usize]);
        }
        for (items, classes, scenes) in groups.take() {
            self.join(items, classes, &scenes, observer)?;
        }
        Ok(())
    }

    /// The scene that has the links of a class, unless nothing is left of it, in which case it
    /// ends.
    fn holder(
        &mut self,
        class: u32,
        checked: &mut FxHashSet<u32>,
        observer: &mut dyn Observer,
    ) -> Result<u32, PacketError> {
        let number = self.holders[class as usize];
        if number == NONE || !checked.insert(number) {
            return Ok(number);
        }
        let scene = self.alive[number as usize].as_mut().expect("it holds links");
        if scene.left > 0 {
            return Ok(number);
        }
        let known = self.memory.entry(scene.key).or_default();
        if !scene.is_drained(self.now, known, &self.setting, observer)? {
            return Ok(number);
        }
        self.end(number);
        Ok(NONE)
    }

    /// Nothing is left of a scene.
    fn end(&mut self, number: u32) {
        let scene = self.alive[number as usize].take().expect("it was there");
        let known = self.memory.get_mut(&scene.key).expect("it has ended");
        self.hops.all += known.drained.map_or(0, |(_, hops)| hops);
        self.hops.simulated += known.live.take().map_or(0, |live| live.hops());
        for class in scene.classes {
            self.holders[class as usize] = NONE;
        }
        if !self.reuses {
            self.memory.remove(&scene.key);
        }
    }

    /// A scene has another history from now on: what is simulated of this one, unless others have
    /// it.
    fn leave(&mut self, key: Key) -> Option<Live> {
        if self.alive.iter().flatten().any(|scene| scene.key == key) {
            return None;
        }
        let live = self.memory.get_mut(&key).and_then(|known| known.live.take());
        if !self.reuses {
            self.memory.remove(&key);
        }
        live
    }

    /// Flows that may meet join these scenes, which are one from now on, or begin one.
    fn join(
        &mut self,
        flows: Vec<(PacketFlowId, FlowSpec)>,
        classes: Vec<u32>,
        scenes: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<(), PacketError> {
        let mut joined = Vec::new();
        for &number in scenes {
            joined.push(self.alive[number as usize].take().expect("it holds links"));
            self.busy.retain(|&(other, _)| other != number);
        }
        for scene in &joined {
            let quiet = &mut self.memory.entry(scene.key).or_default().quiet;
            *quiet = (*quiet).max(Some(self.now.since(scene.start)));
        }
        let before: Vec<Key> = joined.iter().map(|scene| scene.key).collect();
        let mut scene = match joined.len() {
            0 => Scene::new(self.now),
            1 => joined.remove(0),
            _ => Scene::merged(joined, &self.setting.places),
        };
        scene.classes.extend(classes);
        scene.classes.sort_unstable();
        scene.classes.dedup();
        let items = self.items(&mut scene, flows);
        if !self.reuses {
            self.salt += 1;
        }
        let has_new = !items.is_empty();
        let batch = Batch { at: self.now, items };
        let goes_on = has_new && scene.add(batch, self.salt, &self.setting.places);
        for key in before.iter().filter(|_| has_new || before.len() > 1) {
            let mut live = self.leave(*key);
            if goes_on && before.len() == 1 {
                let known = self.memory.entry(scene.key).or_default();
                live = live.map_or(Ok(None), |live| scene.go_on(live, known, observer))?;
            }
            self.hops.simulated += live.map_or(0, |live| live.hops());
        }
        let free = self.alive.iter().position(Option::is_none);
        let number = free.unwrap_or(self.alive.len());
        if number == self.alive.len() {
            self.alive.push(None);
        }
        for &class in &scene.classes {
            self.holders[class as usize] = number as u32;
        }
        if scene.left > 0 {
            self.busy.push((number as u32, None));
        }
        self.alive[number] = Some(scene);
        Ok(())
    }

    /// What begins in a scene: changes of links that it may cross, then flows.
    fn items(&self, scene: &mut Scene, flows: Vec<(PacketFlowId, FlowSpec)>) -> Vec<Item> {
        let has = |link: &PacketLinkId| {
            scene.classes.binary_search(&self.footprints.class(*link)).is_ok()
        };
        let dark = self.dark.iter().copied().filter(has);
        let mut links: Vec<PacketLinkId> = dark.chain(scene.dark.iter().copied()).collect();
        links.sort_unstable();
        links.dedup();
        let mut items = Vec::new();
        for link in links {
            let is_dark = self.dark.contains(&link);
            if is_dark != scene.dark.contains(&link) {
                items.push(Item::Dark(link, is_dark));
                if is_dark {
                    scene.dark.insert(link)
                } else {
                    scene.dark.remove(&link)
                };
            }
        }
        items.extend(flows.into_iter().map(|(flow, spec)| Item::Flow(flow, spec)));
        items
    }

    /// Packets that left a link until nothing is left of what has ended.
    ///
    /// # Errors
    /// If the observer asks to stop.
    pub fn hops(&mut self, observer: &mut dyn Observer) -> Result<SceneHops, PacketError> {
        for number in 0..self.alive.len() {
            let Some(scene) = &mut self.alive[number] else { continue };
            let known = self.memory.entry(scene.key).or_default();
            if scene.left == 0
                && scene.is_drained(Time(u64::MAX), known, &self.setting, observer)?
            {
                self.end(number as u32);
            }
        }
        Ok(self.hops)
    }
}

/// What begins at one time, by what may meet.
#[derive(Debug, Default)]
struct Groups {
    items: Vec<Option<(PacketFlowId, FlowSpec)>>,
    /// Another item of its group, or itself.
    parents: Vec<usize>,
    by_class: FxHashMap<u32, usize>,
    by_scene: FxHashMap<u32, usize>,
}

impl Groups {
    fn add(&mut self, item: Option<(PacketFlowId, FlowSpec)>, classes: &[u32]) {
        let number = self.items.len();
        self.items.push(item);
        self.parents.push(number);
        for &class in classes {
            let other = *self.by_class.entry(class).or_insert(number);
            self.unite(number, other);
        }
    }

    fn classes(&self) -> Vec<u32> {
        let mut classes: Vec<u32> = self.by_class.keys().copied().collect();
        classes.sort_unstable();
        classes
    }

    /// A class is held by a scene, or [`NONE`].
    fn hold(&mut self, class: u32, scene: u32) {
        if scene != NONE {
            let item = self.by_class[&class];
            let other = *self.by_scene.entry(scene).or_insert(item);
            self.unite(item, other);
        }
    }

    fn root(&mut self, mut item: usize) -> usize {
        while self.parents[item] != item {
            self.parents[item] = self.parents[self.parents[item]];
            item = self.parents[item];
        }
        item
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b)] = a.min(b);
    }

    /// The groups in the order of their first items: flows, classes, scenes.
    #[allow(clippy::type_complexity, reason = "taken apart at once")]
    fn take(mut self) -> Vec<(Vec<(PacketFlowId, FlowSpec)>, Vec<u32>, Vec<u32>)> {
        let mut groups: Vec<(Vec<_>, Vec<u32>, Vec<u32>)> = Vec::new();
        let mut places = vec![usize::MAX; self.items.len()];
        for item in 0..self.items.len() {
            let root = self.root(item);
            if root == item {
                places[item] = groups.len();
                groups.push(Default::default());
            }
            let flow = self.items[item].take();
            groups[places[root]].0.extend(flow);
        }
        for class in self.classes() {
            let root = self.root(self.by_class[&class]);
            groups[places[root]].1.push(class);
        }
        let mut scenes: Vec<(u32, usize)> = self.by_scene.iter().map(|(&s, &i)| (s, i)).collect();
        scenes.sort_unstable();
        for (scene, item) in scenes {
            let root = self.root(item);
            groups[places[root]].2.push(scene);
        }
        groups
    }
}
