//! Circuits whose ports take turns: what carries bytes where there is no packet switch at all.
//!
//! A port of a NIC has one circuit at a time. Transfers that begin together are a *block*: the
//! edges of a ring, a message, or an all-to-all. A block waits until its last member is ready and,
//! where its demand was not known beforehand, until its matchings are found; then for its ports,
//! all of them at once ([`ports`]); then for the next time slot, if slots are of one length
//! ([`slots`]). The edges of a ring are one matching, held for as many slots as it has steps; an
//! all-to-all takes the matchings of a schedule ([`matchings`]). So the end of a turn is known when
//! it begins, and nothing is shared.
//!
//! A higher priority goes first, then blocks that somebody waits for, then those that came earlier.
//! A ring stops for one of the first two kinds as soon as that has all other ports that it needs,
//! and waits again for what is left of it, in its old place: what runs in the background holds
//! nobody up for more than a latency, or a slot of fixed length. So a ring that nobody waits for
//! goes ahead of earlier ones that wait for others, and stops for them.
//!
//! Ports may keep their circuits until a block needs others ([`Keeping`]): as long as one kind of
//! parallelism follows another with the same circuits, nothing turns (Opus, arXiv 2602.12521).
//!
//! Leaves out that an all-to-all could stop between its matchings, that those of its ports that are
//! done could serve others, and failures during a step.

mod matchings;
mod ports;
mod slots;

pub use slots::TurnTiming;

use crate::slab::Slab;
use lightloom_flowsim::LinkId;
use lightloom_kernel::EventQueue;
use lightloom_model::{Duration, Invalid, Rate, Time};
use lightloom_schedule::permutation::Method;
use matchings::{Piece, TurnPlan, in_matchings};
use ports::{Place, Ports};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use slots::Steps;
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// How transfers that begin together depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// Each is cut into so many equal chunks, one per step; the last chunk has arrived after so
    /// many steps.
    Steps {
        /// Chunks of a transfer.
        chunks: u64,
        /// Steps in all: more than chunks where they follow each other along a chain.
        steps: u64,
        /// Whether nobody waits for it yet, so that others go first.
        is_background: bool,
    },
    /// In any order.
    AnyOrder {
        /// Whether their sizes were not known before the last of them could begin.
        is_new: bool,
    },
}

/// How late members are: exponential, independent for each member and block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "[u64; 2]")]
pub struct Lateness {
    /// Mean.
    pub mean: Duration,
    /// Equal seeds, equal lateness.
    pub seed: u64,
}

impl From<[u64; 2]> for Lateness {
    fn from([mean, seed]: [u64; 2]) -> Self {
        Self { mean: Duration(mean), seed }
    }
}

/// What ports do with circuits that their block is done with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keeping {
    /// Every turn begins dark.
    #[default]
    No,
    /// They keep them, and turn when a block that has its ports needs others.
    Needed,
    /// They keep them, and turn for the next block while they are free, if its demand was known.
    Ahead,
}

/// A way to find the matchings of an all-to-all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchingFinder {
    /// How.
    pub method: Method,
    /// How long that takes, by the number of members; the last one for more.
    pub decision: Vec<Duration>,
}

/// Names of methods, each with the times that they take.
fn finders<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<MatchingFinder>, D::Error> {
    let named = Vec::<(String, Vec<Duration>)>::deserialize(source)?.into_iter();
    named
        .map(|(method, decision)| {
            let method = method.parse().map_err(D::Error::custom)?;
            Ok(MatchingFinder { method, decision })
        })
        .collect()
}

/// A tier of crossbars below the highest one: so many servers that follow each other share it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "TierRow")]
pub struct LowerTier {
    /// Servers.
    pub reach: u32,
    /// Largest one-way latency between two of their NICs.
    pub latency: Duration,
    /// Length of every slot; nothing for slots as long as what they carry takes.
    pub length: Option<Duration>,
}

/// The same as Python gives it: reach, latency and length.
#[derive(Deserialize)]
struct TierRow(u32, Duration, Option<Duration>);

impl From<TierRow> for LowerTier {
    fn from(TierRow(reach, latency, length): TierRow) -> Self {
        Self { reach, latency, length }
    }
}

/// What decides how long a turn takes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TurnRules {
    /// Time slots of the highest tier.
    #[serde(flatten)]
    pub timing: TurnTiming,
    /// What blocks have instead whose servers share a lower tier, from the lowest on.
    pub lower_tiers: Vec<LowerTier>,
    /// Of what these find, each all-to-all takes what ends first.
    #[serde(rename = "methods", deserialize_with = "finders")]
    pub finders: Vec<MatchingFinder>,
    /// How late members are, if they are.
    pub lateness: Option<Lateness>,
    /// Whether all ports wait for a late member: the next slot of everybody is delayed.
    #[serde(rename = "all_wait")]
    pub do_all_wait: bool,
    /// What ports do with circuits afterwards.
    #[serde(rename = "kept")]
    pub keeping: Keeping,
}

impl TurnRules {
    /// Checks that slots of every tier carry something.
    ///
    /// # Errors
    /// If they do not, or tiers are not in order.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.keeping != Keeping::No && !self.timing.is_held {
            return Err(Invalid::new("crossbar: circuits that are kept are held by rings, too"));
        }
        let mut below = 0;
        for tier in &self.lower_tiers {
            if tier.reach <= below {
                return Err(Invalid::new("crossbar: expected lower tiers from the lowest on"));
            }
            below = tier.reach;
            self.of_tier(tier).validate()?;
        }
        self.timing.validate()
    }

    /// The slots of a block between servers from the first to the last.
    fn timing_of(&self, first: u32, last: u32) -> TurnTiming {
        let shared = self.lower_tiers.iter().find(|tier| first / tier.reach == last / tier.reach);
        shared.map_or(self.timing, |tier| self.of_tier(tier))
    }

    fn of_tier(&self, &LowerTier { latency, length, .. }: &LowerTier) -> TurnTiming {
        TurnTiming { latency, length, ..self.timing }
    }
}

impl MatchingFinder {
    fn decision(&self, members: usize) -> Duration {
        let last = self.decision.len().saturating_sub(1);
        self.decision.get(members.min(last)).copied().unwrap_or(Duration::ZERO)
    }
}

/// A circuit that was held, for as long as its ports could have no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitTurn {
    /// The link into the crossbars.
    pub from: LinkId,
    /// The link out of them.
    pub to: LinkId,
    /// From then on crossbars turned for it.
    pub begin: Time,
    /// From then on they could turn for another one.
    pub end: Time,
}

/// What all turns were together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnStatistics {
    /// Turns of blocks: one of each, and another one whenever it went on after it had stopped.
    pub turns: u64,
    /// Time slots of these, one for each matching or step where slots are as long as what they
    /// carry; a step that was stopped is not counted before its end.
    pub slots: u64,
    /// Times that matchings were found for demand that was not known beforehand.
    pub decisions: u64,
    /// What that took, all together.
    pub deciding: u128,
    /// How long blocks waited for their last member where that was late, all together.
    pub late: u128,
    /// How long blocks waited for ports and for the begin of a slot, all together.
    pub waiting: u128,
}

/// A transfer of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Its two links: into the crossbars and out of them.
    pub path: [LinkId; 2],
    /// Size.
    pub bytes: u64,
    /// Comes back when it has arrived.
    pub token: u64,
}

/// Transfers that begin together.
#[derive(Debug, Default)]
struct Block {
    place: Option<Place>,
    parts: Vec<Part>,
    /// Every port of them, once.
    ports: Vec<u32>,
    /// The slots of the tier that its servers share.
    timing: TurnTiming,
    /// When all that it needs but ports is there.
    ready: Time,
    /// Whether its demand was known before it was ready.
    is_known: bool,
    /// What is left of a ring.
    steps: Option<Steps>,
    /// What an all-to-all does in its turn.
    matchings: TurnPlan,
    /// The turn that it has.
    turn: Option<Turn>,
}

/// The turn of a ring.
#[derive(Debug, Clone, Copy)]
struct Turn {
    begin: Time,
    /// The event that ends it.
    end: u64,
    /// What is left after it, if the ring is stopped before it is done.
    rest: Option<Steps>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A transfer has arrived.
    Arrival(Part),
    /// All members of a block are ready.
    Ready(u32),
    /// A ring is done, or has stopped.
    Stop(u32),
    /// The turn of a block is over.
    Over(u32),
}

/// Arrivals come first: what begins next may depend on them.
const ARRIVALS: u8 = 0;
const OTHERS: u8 = 1;

/// Circuits whose ports take turns.
#[derive(Debug)]
pub(crate) struct Turns {
    rules: TurnRules,
    /// Of each link, which is a port.
    rates: Vec<Rate>,
    /// Where it is.
    servers: Vec<u32>,
    /// Until then no slot begins, as all wait for a late member.
    paused_until: Time,
    carried: Vec<u64>,
    /// The other end of the circuit that each has, or had last.
    joined: Vec<u32>,
    /// Since when each is free, if it is.
    free_since: Vec<Time>,
    ports: Ports,
    blocks: Slab<Block>,
    /// Rings that have their turn.
    running: BTreeSet<u32>,
    sequence: u64,
    queue: EventQueue<Event>,
    unfinished: usize,
    statistics: TurnStatistics,
    record: Option<Vec<CircuitTurn>>,
    /// Why a block cannot have its turn.
    failure: Option<Invalid>,
}

impl Turns {
    /// Without any port; circuits are recorded if that is wanted.
    pub(crate) fn new(rules: TurnRules, is_recorded: bool) -> Self {
        Self {
            rules,
            rates: Vec::new(),
            servers: Vec::new(),
            paused_until: Time::ZERO,
            carried: Vec::new(),
            joined: Vec::new(),
            free_since: Vec::new(),
            ports: Ports::default(),
            blocks: Slab::default(),
            running: BTreeSet::new(),
            sequence: 0,
            queue: EventQueue::new(),
            unfinished: 0,
            statistics: TurnStatistics::default(),
            record: is_recorded.then(Vec::new),
            failure: None,
        }
    }

    /// Adds a link, which is a port of a server.
    pub(crate) fn add_link(&mut self, rate: Rate, server: u32) {
        self.rates.push(rate);
        self.servers.push(server);
        self.carried.push(0);
        self.joined.push(u32::MAX);
        self.free_since.push(Time::ZERO);
        self.ports.add();
    }

    /// Has a block take its turn as soon as it can; how late its last member is.
    pub(crate) fn start(
        &mut self,
        now: Time,
        shape: Together,
        priority: u8,
        parts: Vec<Part>,
    ) -> Duration {
        self.unfinished += parts.len();
        let ports: BTreeSet<u32> =
            parts.iter().flat_map(|part| part.path).map(|link| link.0).collect();
        let number = self.blocks.take();
        let is_background = matches!(shape, Together::Steps { is_background: true, .. });
        let (priority, sequence) = (Reverse(priority), self.sequence);
        let place = Place { priority, is_background, sequence, block: number };
        self.sequence += 1;
        let members = parts.iter().map(|part| part.path[0].0).collect::<BTreeSet<u32>>().len();
        let late = self.late(sequence, members);
        self.statistics.late += u128::from(late.0);
        // All ports of a slot wait for the slowest.
        let rates = ports.iter().map(|&port| self.rates[port as usize]);
        let rate = rates.min().expect("a block has ports");
        let servers = ports.iter().map(|&port| self.servers[port as usize]);
        let (first, last) = (servers.clone().min(), servers.max());
        let timing = first.zip(last).map(|(first, last)| self.rules.timing_of(first, last));
        let timing = timing.expect("a block has ports");
        let steps = steps_of(&timing, shape, &parts, rate);
        let mut matchings = TurnPlan::default();
        if let Together::AnyOrder { is_new } = shape {
            match self.matchings(&timing, is_new, members, &parts, rate) {
                Ok(found) => matchings = found,
                Err(failure) => self.failure = Some(failure),
            }
            self.statistics.decisions += u64::from(is_new);
            self.statistics.deciding += u128::from(matchings.deciding.0);
        }
        let ready = now + late + matchings.deciding;
        let (place, ports) = (Some(place), ports.into_iter().collect());
        let is_known = !matches!(shape, Together::AnyOrder { is_new: true });
        self.blocks[number] =
            Block { place, parts, ports, timing, ready, is_known, steps, matchings, turn: None };
        if self.rules.do_all_wait && late > Duration::ZERO {
            self.pause(now, now + late);
        }
        if ready > now {
            self.queue.push(ready, OTHERS, Event::Ready(number));
        } else {
            self.request(now, number);
        }
        late
    }

    /// Has no slot begin until then: rings stop, matchings that are under way go on.
    fn pause(&mut self, now: Time, until: Time) {
        if until <= self.paused_until {
            return;
        }
        self.paused_until = until;
        let rings: Vec<u32> = self.running.iter().copied().collect();
        for number in rings {
            self.stop(now, number);
        }
    }

    /// How late the last of so many members is.
    fn late(&self, sequence: u64, members: usize) -> Duration {
        let Some(Lateness { mean, seed }) = self.rules.lateness else { return Duration::ZERO };
        let draws = (0..members as u64).map(|member| {
            let bits = mixed(mixed(mixed(seed) ^ sequence) ^ member);
            // Above 0 and up to 1, so that the logarithm is finite.
            let share = ((bits >> 11) + 1) as f64 / (1_u64 << 53) as f64;
            -share.ln()
        });
        Duration((draws.fold(0.0, f64::max) * mean.0 as f64) as u64)
    }

    /// The matchings of an all-to-all, which nobody has to look for unless its demand is new.
    fn matchings(
        &self,
        timing: &TurnTiming,
        is_new: bool,
        members: usize,
        parts: &[Part],
        rate: Rate,
    ) -> Result<TurnPlan, Invalid> {
        let pieces = parts.iter().map(|part| {
            let [from, to] = part.path.map(|link| link.0);
            Piece { from, to, bytes: part.bytes }
        });
        let methods = self.rules.finders.iter().map(|finder| {
            (finder.method, if is_new { finder.decision(members) } else { Duration::ZERO })
        });
        in_matchings(&pieces.collect::<Vec<Piece>>(), methods, timing, rate)
    }

    fn request(&mut self, now: Time, number: u32) {
        let block = &self.blocks[number];
        self.ports.wait(block.place.expect("it was started"), &block.ports);
        self.advance(now, number);
    }

    /// Has a block that waits for its ports begin, or those stop that it only waits for.
    fn advance(&mut self, now: Time, number: u32) {
        let block = &self.blocks[number];
        let place = block.place.expect("it was started");
        if self.ports.take(place, &block.ports) {
            return self.begin(now, number);
        }
        if place.is_background && self.goes_ahead(place, &block.ports) {
            self.ports.hold(place, &block.ports);
            return self.begin(now, number);
        }
        let Some(holders) = self.ports.holders(place, &block.ports) else { return };
        let stops =
            |holder: &Place| place.interrupts(holder) && self.blocks[holder.block].steps.is_some();
        if holders.iter().all(stops) {
            for holder in holders {
                self.stop(now, holder.block);
            }
        }
    }

    /// Whether a ring that nobody waits for has its ports while all earlier ones that want them
    /// are of its kind and wait for others, which do not stop for them.
    fn goes_ahead(&self, place: Place, ports: &[u32]) -> bool {
        let Some(earlier) = self.ports.earlier(place, ports) else { return false };
        earlier.iter().all(|other| {
            let wanted = &self.blocks[other.block].ports;
            other.priority == place.priority
                && other.is_background
                && self.ports.is_held_up(*other, wanted)
        })
    }

    fn begin(&mut self, now: Time, number: u32) {
        let block = &self.blocks[number];
        let begin = block.timing.begin(now.max(self.paused_until));
        self.statistics.turns += 1;
        self.statistics.waiting += u128::from(begin.since(block.ready).0);
        let dark = self.dark(begin, number);
        self.join(number);
        let block = &mut self.blocks[number];
        let Some(steps) = &block.steps else { return self.begin_matchings(begin, dark, number) };
        block.timing.guard = dark;
        let over = begin + block.timing.duration(steps);
        let end = self.queue.push(over, ARRIVALS, Event::Stop(number));
        block.turn = Some(Turn { begin, end, rest: None });
        self.running.insert(number);
    }

    /// For how long after its begin the ports of a block still turn for its first circuits.
    fn dark(&self, begin: Time, number: u32) -> Duration {
        let (block, guard) = (&self.blocks[number], self.rules.timing.guard);
        let is_joined = |part: &Part| {
            let [from, to] = part.path.map(|link| link.0);
            (self.joined[from as usize], self.joined[to as usize]) == (to, from)
        };
        let is_one_matching = block.steps.is_some() || block.matchings.slots == 1;
        match self.rules.keeping {
            Keeping::No => guard,
            _ if is_one_matching && block.parts.iter().all(is_joined) => Duration::ZERO,
            Keeping::Ahead if block.is_known => {
                let free = block.ports.iter().map(|&port| self.free_since[port as usize]).max();
                let idle = begin.since(free.expect("a block has ports"));
                Duration(guard.0.saturating_sub(idle.0))
            }
            Keeping::Needed | Keeping::Ahead => guard,
        }
    }

    /// Joins the ports of a block as they are at the end of its turn.
    fn join(&mut self, number: u32) {
        let block = &self.blocks[number];
        let own = block.parts.iter().map(|part| part.path.map(|link| link.0));
        let circuits = block.matchings.circuits.iter().map(|held| [held.from, held.to]);
        let last: Vec<[u32; 2]> =
            if block.steps.is_some() { own.collect() } else { circuits.collect() };
        for [from, to] in last {
            self.joined[from as usize] = to;
            self.joined[to as usize] = from;
        }
    }

    /// Begins an all-to-all, whose ports turn for so long before its first matching.
    fn begin_matchings(&mut self, begin: Time, dark: Duration, number: u32) {
        let block = &self.blocks[number];
        let plan = &block.matchings;
        self.statistics.slots += plan.slots;
        let spared = block.timing.guard.0 - dark.0;
        let earlier = |after: Duration| Duration(after.0.saturating_sub(spared));
        for (part, &arrival) in block.parts.iter().zip(&plan.arrivals) {
            self.queue.push(begin + earlier(arrival), ARRIVALS, Event::Arrival(*part));
        }
        self.queue.push(begin + earlier(plan.end), OTHERS, Event::Over(number));
        if let Some(record) = &mut self.record {
            record.extend(plan.circuits.iter().map(|held| CircuitTurn {
                from: LinkId(held.from),
                to: LinkId(held.to),
                begin: begin + earlier(held.begin),
                end: begin + earlier(held.end),
            }));
        }
    }

    /// Has a ring end its turn as soon as it can.
    fn stop(&mut self, now: Time, number: u32) {
        let block = &mut self.blocks[number];
        let (Some(steps), Some(turn)) = (&block.steps, &mut block.turn) else { return };
        let after = Duration(now.0.saturating_sub(turn.begin.0));
        let (over, rest) = block.timing.yielded(steps, after);
        if turn.rest.is_none() && rest.left > 0 {
            turn.end = self.queue.push(turn.begin + over, ARRIVALS, Event::Stop(number));
            turn.rest = Some(rest);
        }
    }

    /// Ends the turn of a ring.
    fn stopped(&mut self, now: Time, number: u32, done: &mut Vec<u64>) {
        self.running.remove(&number);
        let block = &mut self.blocks[number];
        let (Some(steps), Some(turn)) = (&mut block.steps, block.turn.take()) else { return };
        let left = std::mem::replace(&mut steps.left, 0);
        if let Some(rest) = turn.rest {
            (*steps, block.ready) = (rest, now);
        }
        self.statistics.slots += left - steps.left;
        if let Some(record) = &mut self.record {
            let turns = block.parts.iter().map(|part| {
                let [from, to] = part.path;
                CircuitTurn { from, to, begin: turn.begin, end: now }
            });
            record.extend(turns.filter(|turn| turn.begin < turn.end));
        }
        if steps.left == 0 {
            for part in std::mem::take(&mut block.parts) {
                self.arrive(&part, done);
            }
        }
        self.queue.push(now, OTHERS, Event::Over(number));
    }

    fn arrive(&mut self, part: &Part, done: &mut Vec<u64>) {
        for link in part.path {
            self.carried[link.0 as usize] += part.bytes;
        }
        self.unfinished -= 1;
        done.push(part.token);
    }

    /// Continues to the next time, but not beyond `limit`, at which transfers arrive; their tokens
    /// are then in `done`. Nothing if none arrives until then.
    ///
    /// # Errors
    /// If there is no schedule for a block.
    pub(crate) fn run_until(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
    ) -> Result<Option<Time>, Invalid> {
        while let Some((now, _)) = self.queue.peek() {
            if self.failure.is_some() || limit.is_some_and(|limit| limit < now) {
                break;
            }
            while let Some(event) = self.queue.pop_until(now) {
                match event.payload {
                    Event::Arrival(part) => self.arrive(&part, done),
                    Event::Ready(number) => self.request(now, number),
                    Event::Stop(number) => {
                        let turn = &self.blocks[number].turn;
                        if turn.is_some_and(|turn| turn.end == event.sequence) {
                            self.stopped(now, number, done);
                        }
                    }
                    Event::Over(number) => self.over(now, number),
                }
            }
            if self.failure.is_none() && !done.is_empty() {
                return Ok(Some(now));
            }
        }
        self.failure.clone().map_or(Ok(None), Err)
    }

    /// Frees the ports of a block, which waits for them again if something of it is left.
    fn over(&mut self, now: Time, number: u32) {
        let block = &mut self.blocks[number];
        let ports = if block.steps.is_some_and(|steps| steps.left > 0) {
            self.ports.wait(block.place.expect("it was started"), &block.ports);
            block.ports.clone()
        } else {
            let ports = std::mem::take(&mut block.ports);
            self.blocks.free(number);
            ports
        };
        for &port in &ports {
            self.free_since[port as usize] = now;
        }
        for place in self.ports.free(&ports) {
            self.advance(now, place.block);
        }
    }

    /// Whether transfers are on their way.
    pub(crate) fn is_busy(&self) -> bool {
        self.unfinished > 0
    }

    /// Bytes that have crossed a link.
    pub(crate) fn carried(&self, link: LinkId) -> u64 {
        self.carried[link.0 as usize]
    }

    /// What all turns were, and their circuits, if these were recorded.
    pub(crate) fn end(&mut self) -> (TurnStatistics, Vec<CircuitTurn>) {
        (self.statistics, self.record.take().unwrap_or_default())
    }
}

/// The steps of a ring.
fn steps_of(timing: &TurnTiming, shape: Together, parts: &[Part], rate: Rate) -> Option<Steps> {
    let Together::Steps { chunks, steps, .. } = shape else { return None };
    let largest = parts.iter().map(|part| part.bytes.div_ceil(chunks)).max();
    Some(timing.steps(steps, largest.expect("a block has parts"), rate))
}

/// A well-mixed hash (the finalizer of splitmix64, Steele et al., OOPSLA 2014).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
