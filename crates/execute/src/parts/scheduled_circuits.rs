//! Circuits that follow the clock: a fixed, periodic schedule of matchings, whatever the demand.
//!
//! A schedule is a list of slots. In each slot all circuits are dark for the time that the switches
//! take, then the circuits of the slot's matching are lit for its hold time; after the last slot
//! the first one begins anew. The first slot begins at time 0, dark. Circuits are duplex and join
//! servers.
//!
//! Bytes go directly: they wait until circuits join their pair. Where there is a packet fabric
//! below, transfers of fewer than [`ScheduledCircuits::min_bytes`] take that one instead, as do
//! pairs that no slot joins.
//!
//! Leaves out directed matchings (acknowledgments of packets return over the circuit that they came
//! from), relaying through servers, and guard times other than the dark time.

use super::fixed_circuits::check_parallel;
use crate::error::ExecuteError;
use crate::links::LinkUse;
use crate::network::{
    Below, Division, Link, Links, Network, NetworkPart, Pair, PartConfig, PartId, Path, Setting,
    positive,
};
use crate::packets::Extent;
use lightloom_flowsim::LinkId;
use lightloom_model::units::PS_PER_S;
use lightloom_model::{Circuit, Duration, Invalid, Rate, ServerId, Time};
use lightloom_packetsim::Cable;
use rustc_hash::FxHashMap;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::sync::Arc;

/// A matching and how long it lasts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Circuits of the matching.
    pub circuits: Vec<Circuit>,
    /// How long all circuits are dark before, while the switches turn.
    pub dark: Duration,
    /// How long the circuits are lit.
    pub hold: Duration,
}

/// Circuits that follow a periodic schedule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ScheduledCircuits {
    /// Rate of one circuit.
    #[serde(rename = "nic_rate_bps")]
    pub nic_rate: Rate,
    /// Propagation delay of one circuit.
    #[serde(rename = "link_delay_ps")]
    pub link_delay: Duration,
    /// Slots of a period.
    #[serde(flatten, deserialize_with = "slots")]
    pub slots: Vec<Slot>,
    /// Transfers of fewer bytes take the packet fabric, if there is one.
    pub min_bytes: u64,
}

/// Slots as columns: the times of each, and all circuits, each after the number of its slot.
fn slots<'de, D: Deserializer<'de>>(source: D) -> Result<Vec<Slot>, D::Error> {
    #[derive(Deserialize)]
    struct Columns {
        circuits: Vec<(u32, u32, u32, u32)>,
        dark_ps: Vec<Duration>,
        hold_ps: Vec<Duration>,
    }
    let Columns { circuits, dark_ps, hold_ps } = Deserialize::deserialize(source)?;
    if dark_ps.len() != hold_ps.len() {
        return Err(D::Error::custom("hold_ps needs one entry per entry of dark_ps"));
    }
    let slot = |(dark, hold)| Slot { circuits: Vec::new(), dark, hold };
    let mut slots: Vec<Slot> = dark_ps.into_iter().zip(hold_ps).map(slot).collect();
    for (index, a, b, count) in circuits {
        let known = slots.len();
        let slot = slots.get_mut(index as usize).ok_or_else(|| {
            D::Error::custom(format_args!("a circuit is in slot {index} of {known}"))
        })?;
        slot.circuits.push(Circuit { a, b, count });
    }
    Ok(slots)
}

impl ScheduledCircuits {
    fn validate_slot(index: usize, slot: &Slot, servers: u32) -> Result<(), Invalid> {
        if slot.hold == Duration::ZERO {
            return Err(Invalid(format!("slot {index} has no hold time")));
        }
        for circuit in &slot.circuits {
            let Circuit { a, b, count } = *circuit;
            if a >= servers || b >= servers || a == b || count == 0 {
                return Err(Invalid(format!("slot {index}: circuit {a} - {b} is no pair")));
            }
            check_parallel(circuit)?;
        }
        Ok(())
    }
}

impl PartConfig for ScheduledCircuits {
    fn name(&self) -> &'static str {
        "scheduled"
    }

    fn validate(&self, network: &Network, below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        positive("scheduled.nic_rate", self.nic_rate)?;
        if self.slots.is_empty() {
            return Err(Invalid::new("scheduled circuits need at least one slot"));
        }
        for (index, slot) in self.slots.iter().enumerate() {
            Self::validate_slot(index, slot, network.servers)?;
        }
        if self.min_bytes > 0 && below.is_empty() {
            return Err(Invalid::new(
                "scheduled.min_bytes: there is no packet fabric that could carry smaller transfers",
            ));
        }
        Ok(())
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        Extent { rate: self.nic_rate, delay: self.link_delay }
    }

    fn follows_clock(&self) -> bool {
        true
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        Ok(Some(Box::new(RotatingLinks::new(self, setting))))
    }
}

/// The slots that join a pair of servers, ascending, and its circuits in each.
type SlotCounts = Vec<(u32, u32)>;

/// The links of a pair of servers, and how many circuits join it.
#[derive(Debug, Clone)]
struct Joined {
    /// From the smaller server to the larger and back.
    links: [LinkId; 2],
    counts: SlotCounts,
    /// Circuits lit now.
    lit: u32,
}

impl Joined {
    fn count_in(&self, slot: u32) -> u32 {
        self.counts.iter().find(|(other, _)| *other == slot).map_or(0, |&(_, count)| count)
    }

    fn max_count(&self) -> u32 {
        self.counts.iter().map(|&(_, count)| count).max().unwrap_or(0)
    }
}

/// When a slot is lit, from the start of its period, and the pairs that it joins.
#[derive(Debug, Clone)]
struct Turn {
    begin: u64,
    end: u64,
    pairs: Vec<u32>,
}

/// The links of scheduled circuits.
#[derive(Debug)]
struct RotatingLinks {
    id: PartId,
    delay: Duration,
    rate: Rate,
    min_bytes: u64,
    /// Pairs that some slot joins, in the order in which slots name them.
    pairs: Vec<Joined>,
    /// Index of each pair, smaller server first.
    index: FxHashMap<(u32, u32), u32>,
    turns: Vec<Turn>,
    period: u64,
    /// The slot whose circuits are lit.
    lit: Option<u32>,
}

impl RotatingLinks {
    /// Adds two dark links for each pair that some slot joins.
    fn new(config: &ScheduledCircuits, setting: &mut Setting<'_>) -> Self {
        let mut index: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut joined: Vec<((u32, u32), SlotCounts)> = Vec::new();
        let (mut turns, mut period) = (Vec::new(), 0_u64);
        for (place, slot) in (0..).zip(&config.slots) {
            let begin = period.saturating_add(slot.dark.0);
            period = begin.saturating_add(slot.hold.0);
            let mut pairs = Vec::new();
            for circuit in &slot.circuits {
                let ends = (circuit.a.min(circuit.b), circuit.a.max(circuit.b));
                let pair = *index.entry(ends).or_insert_with(|| {
                    joined.push((ends, Vec::new()));
                    joined.len() as u32 - 1
                });
                let counts = &mut joined[pair as usize].1;
                if let Some((_, count)) = counts.last_mut().filter(|(slot, _)| *slot == place) {
                    *count += circuit.count;
                } else {
                    counts.push((place, circuit.count));
                    pairs.push(pair);
                }
            }
            turns.push(Turn { begin, end: period, pairs });
        }
        let each = Cable { rate: config.nic_rate, delay: config.link_delay };
        let pairs = joined.into_iter().map(|((low, high), counts)| {
            let max = counts.iter().map(|&(_, count)| count).max().unwrap_or(0);
            let min = counts.iter().map(|&(_, count)| count).min().unwrap_or(0);
            let ends = [[low, high], [high, low]].map(|ends| ends.map(ServerId));
            let links = ends.map(|[from, to]| {
                let link = Link { awaited: min, ..Link::circuits(from, to, max, each) };
                setting.links.add_lit(link, 0)
            });
            Joined { links, counts, lit: 0 }
        });
        Self {
            id: setting.id,
            delay: config.link_delay,
            rate: config.nic_rate,
            min_bytes: config.min_bytes,
            pairs: pairs.collect(),
            index,
            turns,
            period,
            lit: None,
        }
    }

    /// The circuits that ever join two servers.
    fn joined(&self, from: ServerId, to: ServerId) -> Option<&Joined> {
        let pair = self.index.get(&(from.0.min(to.0), from.0.max(to.0)))?;
        Some(&self.pairs[*pair as usize])
    }

    /// The slot of a time, and the time since the start of its period.
    fn turn_at(&self, now: Time) -> (u32, u64) {
        let phase = now.0 % self.period;
        (self.turns.partition_point(|turn| turn.end <= phase) as u32, phase)
    }

    /// How long the circuits of a pair were lit until a time, each of them counted.
    fn lit_for(&self, pair: &Joined, end: Time) -> u128 {
        let (periods, phase) = (end.0 / self.period, end.0 % self.period);
        pair.counts.iter().fold(0, |sum, &(slot, count)| {
            let Turn { begin, end, .. } = self.turns[slot as usize];
            let whole = u128::from(end - begin) * u128::from(periods);
            let last = u128::from(phase.min(end).saturating_sub(begin));
            sum + u128::from(count) * (whole + last)
        })
    }
}

impl NetworkPart for RotatingLinks {
    fn joins_all(&self) -> bool {
        false
    }

    fn joins(&self, from: ServerId, to: ServerId) -> bool {
        self.joined(from, to).is_some()
    }

    fn divide(&self, pair: &Pair, bytes: u64, below: Below<'_>, division: &mut Division) {
        let (from, to) = pair.servers();
        let joined = self.joined(from, to).filter(|_| bytes >= self.min_bytes);
        let Some(joined) = joined else { return below.divide(pair, bytes, division) };
        let link = joined.links[usize::from(from > to)];
        let nics = joined.max_count();
        let path = Path {
            part: self.id,
            latency: self.delay,
            relays: 0,
            sending_nics: nics,
            receiving_nics: nics,
            forwarding_gpus: 0,
        };
        division.push(path, &[link], bytes);
    }

    fn next_change(&self, now: Time) -> Option<Time> {
        let (slot, phase) = self.turn_at(now);
        let Turn { begin, end, .. } = self.turns[slot as usize];
        let next = if phase < begin { begin } else { end };
        now.0.checked_add(next - phase).map(Time)
    }

    fn follow_clock(&mut self, now: Time, links: &mut Links) {
        let (slot, phase) = self.turn_at(now);
        let lit = (self.turns[slot as usize].begin <= phase).then_some(slot);
        for slot in [self.lit, lit].into_iter().flatten() {
            for &pair in &self.turns[slot as usize].pairs {
                let pair = &mut self.pairs[pair as usize];
                let count = lit.map_or(0, |slot| pair.count_in(slot));
                if count != pair.lit {
                    pair.lit = count;
                    for link in pair.links {
                        links.set_lit(now, link, count);
                    }
                }
            }
        }
        self.lit = lit;
    }

    /// Use against the time in which circuits were lit.
    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        let bits = self.rate.0 as f64 / 8.0;
        let mut used = LinkUse { name: "scheduled".into(), ..LinkUse::default() };
        let mut capacity = 0.0;
        for pair in &self.pairs {
            let seconds = self.lit_for(pair, end) as f64 / PS_PER_S as f64;
            for link in pair.links {
                let carried = links.carried(link);
                used.links += 1;
                used.carried_bytes += carried;
                capacity += bits * seconds;
                if seconds > 0.0 {
                    used.max = used.max.max(carried as f64 / (bits * seconds));
                }
            }
        }
        used.mean = if capacity > 0.0 { used.carried_bytes as f64 / capacity } else { 0.0 };
        vec![used]
    }
}
