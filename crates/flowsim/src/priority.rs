//! Strict priorities: each class of flows shares what the higher ones leave of every link.
//!
//! Within a class the rates are max-min fair, as of a [`FlowNetwork`] whose links have the capacity
//! that is left. So there is one such network per priority that is in use; with one alone, nothing
//! is added to it. When rates of a class change, the capacities of the next are those of the links
//! less its flows, which may change the rates there, and so on downwards.

use crate::ids::{FlowId, LinkId};
use crate::network::{FlowNetwork, Statistics};
use lightloom_model::{Bytes, Rate, Time};

/// Part of a link below which what is left counts as nothing: rounding errors, not bandwidth.
const NOTHING: f64 = 1e-9;

/// Flows of one priority.
#[derive(Debug, Clone)]
struct Class {
    priority: u8,
    network: FlowNetwork,
}

/// A flow of a [`PriorityNetwork`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PriorityFlowId {
    priority: u8,
    flow: FlowId,
}

/// Equal flows over one path, which are simulated as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EqualFlows {
    /// Of each.
    pub size: Bytes,
    /// Of all.
    pub priority: u8,
    /// How many they are.
    pub count: u32,
    /// Comes back when they have finished, once.
    pub token: u64,
}

/// Links, and flows of several priorities on them.
#[derive(Debug, Clone)]
pub struct PriorityNetwork {
    /// Highest first; never empty.
    classes: Vec<Class>,
    rates: Vec<Rate>,
    /// What [`FlowNetwork::expect`] was told.
    expected: Vec<[Vec<LinkId>; 2]>,
    now: Time,
    /// Finished before a start or rate change, not yet reported, and when the first of them did.
    finished: Vec<u64>,
    finished_at: Time,
    /// Links on which the flows of a class changed; empty between calls.
    changed: Vec<LinkId>,
}

impl Default for PriorityNetwork {
    fn default() -> Self {
        Self::new()
    }
}

impl PriorityNetwork {
    /// A network without links.
    pub fn new() -> Self {
        Self {
            classes: vec![Class { priority: 0, network: FlowNetwork::new() }],
            rates: Vec::new(),
            expected: Vec::new(),
            now: Time::ZERO,
            finished: Vec::new(),
            finished_at: Time::ZERO,
            changed: Vec::new(),
        }
    }

    /// Adds a link of this rate (0: dark).
    pub fn add_link(&mut self, rate: Rate) -> LinkId {
        self.rates.push(rate);
        for class in &mut self.classes {
            class.network.add_link(rate);
        }
        LinkId(self.rates.len() as u32 - 1)
    }

    /// As [`FlowNetwork::expect`], in every class.
    pub fn expect(&mut self, first: &[LinkId], last: &[LinkId]) {
        self.expected.push([first.to_vec(), last.to_vec()]);
        for class in &mut self.classes {
            class.network.expect(first, last);
        }
    }

    /// Changes the rate of a link; at 0 it is dark and the flows on it stall.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn set_rate(&mut self, now: Time, link: LinkId, rate: Rate) {
        self.rates[link.0 as usize] = rate;
        if let [only] = self.classes.as_mut_slice() {
            only.network.set_rate(now, link, rate);
            self.now = now;
            return;
        }
        self.step_to(now);
        self.classes[0].network.set_capacity(now, link, rate.0 as f64);
    }

    /// Starts a flow of a size and priority over `path`; `token` is given back when it has
    /// finished.
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's, or `path` is empty or has a link twice.
    pub fn start(
        &mut self,
        now: Time,
        size: Bytes,
        priority: u8,
        path: &[LinkId],
        token: u64,
    ) -> PriorityFlowId {
        self.start_equal(now, EqualFlows { size, priority, count: 1, token }, path)
    }

    /// As [`FlowNetwork::start_equal`].
    ///
    /// # Panics
    /// As [`Self::start`], or if there is no flow.
    pub fn start_equal(&mut self, now: Time, flows: EqualFlows, path: &[LinkId]) -> PriorityFlowId {
        let EqualFlows { size, priority, count, token } = flows;
        if let [Class { priority: only, network }] = self.classes.as_mut_slice() {
            if *only != priority && network.active() == 0 {
                *only = priority;
            }
            if *only == priority {
                let flow = network.start_equal(now, size, count, path, token);
                self.now = now;
                return PriorityFlowId { priority, flow };
            }
        }
        self.step_to(now);
        let place = self.class(priority);
        let flow = self.classes[place].network.start_equal(now, size, count, path, token);
        PriorityFlowId { priority, flow }
    }

    /// As [`FlowNetwork::left`].
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn left(&mut self, now: Time, id: PriorityFlowId, token: u64) -> Option<Bytes> {
        self.class_at(now, id)?.left(now, id.flow, token)
    }

    /// As [`FlowNetwork::withdraw`].
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn withdraw(&mut self, now: Time, id: PriorityFlowId, token: u64) -> Option<Bytes> {
        self.class_at(now, id)?.withdraw(now, id.flow, token)
    }

    /// The network of a flow's class, when what finishes until `now` has finished.
    fn class_at(&mut self, now: Time, id: PriorityFlowId) -> Option<&mut FlowNetwork> {
        if self.classes.len() > 1 {
            self.step_to(now);
        } else {
            self.now = self.now.max(now);
        }
        let mut classes = self.classes.iter_mut();
        classes.find(|class| class.priority == id.priority).map(|class| &mut class.network)
    }

    /// When the next flow finishes, if no further change comes; `None` if all are stalled.
    pub fn next_completion(&mut self) -> Option<Time> {
        if !self.finished.is_empty() {
            return Some(self.finished_at);
        }
        self.next()
    }

    /// Moves to `now` and appends to `done` the tokens of the flows that finish at or before it, in
    /// the order of (finish time, priority, start).
    ///
    /// # Panics
    /// If `now` is earlier than a previous call's.
    pub fn advance(&mut self, now: Time, done: &mut Vec<u64>) {
        if let [only] = self.classes.as_mut_slice() {
            only.network.advance(now, done);
            self.now = now;
            return;
        }
        done.append(&mut self.finished);
        self.finish_until(now, done);
    }

    /// The rate of a flow, in bits per second, as of the last `next_completion`.
    pub fn rate_of(&self, id: PriorityFlowId) -> f64 {
        let class = self.classes.iter().find(|class| class.priority == id.priority);
        class.map_or(0.0, |class| class.network.rate_of(id.flow))
    }

    /// Number of flows that have not finished.
    pub fn active(&self) -> usize {
        self.classes.iter().map(|class| class.network.active()).sum()
    }

    /// Bytes of the finished flows that crossed a link.
    pub fn carried(&self, link: LinkId) -> u64 {
        self.classes.iter().map(|class| class.network.carried(link)).sum()
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        self.classes
            .iter()
            .fold(Statistics::default(), |sum, class| sum.plus(class.network.statistics()))
    }

    /// The place of the class of a priority, which is added if there is none.
    fn class(&mut self, priority: u8) -> usize {
        let place = self.classes.partition_point(|class| class.priority > priority);
        if self.classes.get(place).is_some_and(|class| class.priority == priority) {
            return place;
        }
        // What the higher classes leave is to be known.
        for class in &mut self.classes {
            class.network.watch();
        }
        self.next();
        let mut network = FlowNetwork::new();
        network.watch();
        for (link, rate) in self.rates.iter().enumerate() {
            network.add_link(*rate);
            if place > 0 {
                let link = LinkId(link as u32);
                let left = self.left_below(place, link);
                network.set_capacity(Time::ZERO, link, left);
            }
        }
        for [first, last] in &self.expected {
            network.expect(first, last);
        }
        network.advance(self.now, &mut Vec::new());
        self.classes.insert(place, Class { priority, network });
        place
    }

    /// What the classes before `place` leave of a link.
    fn left_below(&self, place: usize, link: LinkId) -> f64 {
        let rate = self.rates[link.0 as usize];
        let higher = &self.classes[..place];
        let left = |left: f64, class: &Class| remainder(left, class.network.load_of(link), rate);
        higher.iter().fold(rate.0 as f64, left)
    }

    /// Brings the rates of all classes up to date, highest first, and returns the next finish.
    fn next(&mut self) -> Option<Time> {
        let mut next: Option<Time> = None;
        for place in 0..self.classes.len() {
            let finish = self.classes[place].network.next_completion();
            next = next.into_iter().chain(finish).min();
            self.pass_on(place);
        }
        next
    }

    /// Gives the next class what the others leave of the links on which flows of this one changed.
    fn pass_on(&mut self, place: usize) {
        let mut changed = std::mem::take(&mut self.changed);
        self.classes[place].network.take_changed(&mut changed);
        if place + 1 < self.classes.len() {
            for link in changed.drain(..) {
                let left = self.left_below(place + 1, link);
                self.classes[place + 1].network.set_capacity(self.now, link, left);
            }
        }
        changed.clear();
        self.changed = changed;
    }

    /// Before a change at `now`: what finishes until then, finishes first.
    fn step_to(&mut self, now: Time) {
        if now <= self.now {
            return;
        }
        let mut done = std::mem::take(&mut self.finished);
        if done.is_empty()
            && let Some(first) = self.next()
        {
            self.finished_at = first;
        }
        self.finish_until(now, &mut done);
        self.finished = done;
    }

    fn finish_until(&mut self, now: Time, done: &mut Vec<u64>) {
        while let Some(time) = self.next().filter(|&time| time <= now) {
            // What a class has put off until it is looked at lies before the clock.
            let time = time.max(self.now);
            self.now = time;
            for class in &mut self.classes {
                class.network.advance(time, done);
            }
            if time == now {
                // Rates are brought up to date only after what the caller starts at this instant.
                return;
            }
        }
        self.now = now;
        for class in &mut self.classes {
            class.network.advance(now, done);
        }
    }
}

/// What is left of a link when flows of this load have taken their part.
fn remainder(left: f64, load: f64, rate: Rate) -> f64 {
    let rest = left - load;
    if rest > rate.0 as f64 * NOTHING { rest } else { 0.0 }
}
