//! Phases: what begins together, simulated once as packets, and the stretch that this gives flows.
//!
//! A *phase* is the transfers of one all-to-all, one pipeline send or one ring collective. Alone
//! and begun at once it takes T as packets, until the last receiver has everything. As fluids its
//! transfers i end at `f_i` and arrive `l_i` later. Max-min shares do not change when all sizes
//! are scaled alike, so with sizes times
//!
//! ```text
//! r = min over i of (T - l_i) / f_i
//! ```
//!
//! the phase takes T as fluids, too: exactly, but for the rounding of sizes to bytes. In a step
//! whose phases do not overlap and whose members begin together, nothing is lost. Phases that
//! overlap share links as fluids do; that their queues meet, too, is left out, and so is which
//! member is done before the last one.

mod phase;

use crate::error::{ExecuteError, invalid, network as unfit};
use crate::network::{Links, Network};
use crate::packets::{PacketTransport, Repeats};
use lightloom_flowsim::LinkId;
use lightloom_kernel::{Interrupted, Observer, RunHash};
use lightloom_model::{Duration, Time};
use phase::Phase;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;

/// Bytes of phases that are kept until they are simulated.
const MAX_PENDING_BYTES: usize = 2 << 30;

/// What is known of the phases of one purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PhaseCount {
    /// Distinct phases that were met.
    pub distinct: u64,
    /// Bytes of all of these.
    pub bytes: u64,
    /// Distinct phases that were simulated.
    pub simulated: u64,
    /// Bytes of these.
    pub simulated_bytes: u64,
    /// Sum over these of stretch times bytes.
    stretched_bytes: f64,
    /// Minimum and maximum stretch of these.
    pub minimum: f64,
    /// See `minimum`.
    pub maximum: f64,
    /// Packet-hops of the simulated ones.
    pub packet_hops: u64,
}

impl PhaseCount {
    /// Mean stretch of what was simulated, by bytes; 1 of nothing.
    pub fn mean(&self) -> f64 {
        if self.simulated_bytes == 0 {
            1.0
        } else {
            self.stretched_bytes / self.simulated_bytes as f64
        }
    }
}

/// What is known of one phase.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// None if it was not simulated.
    stretch: Option<f64>,
    /// About how many packet-hops it is.
    hops: u64,
    /// About how many flows it is.
    flows: u64,
    /// How many of these packet-hops are simulated of a whole step, where it has parts that are
    /// alike.
    alone: u64,
    /// Whether it is the same under any switch.
    moves: bool,
    /// Whether its transfers share links, as those of rings and sends do not.
    shares: bool,
}

/// Which distinct phases of each purpose are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PhaseChoice {
    /// All of them.
    All,
    /// So many, those of the smallest digests, which is a choice as good as random that depends on
    /// nothing but the phases.
    AtMost(NonZeroUsize),
    /// None of them: they are counted, to know how many packet-hops a whole step is.
    Counted,
}

/// The phases of steps on one network.
#[derive(Debug)]
pub struct PhaseBook {
    network: Network,
    options: PacketTransport,
    choice: PhaseChoice,
    /// The purposes that were met, by index.
    purposes: Vec<String>,
    /// The purposes whose phases are simulated; all if none.
    chosen: Option<Vec<String>>,
    /// The phases that were met.
    known: FxHashMap<u128, Known>,
    /// About how many packet-hops everything that was met is, equal phases included.
    all_hops: u64,
    /// About how many flows that is.
    all_flows: u64,
    /// The phases that this step has met, by what they are and, unless that makes no difference,
    /// the links that they are on.
    placed: FxHashSet<u128>,
    /// About how many packet-hops the phases of each step are, each once.
    fewest_hops: u64,
    /// The same, each whose transfers share links as often as it was met.
    most_hops: u64,
    /// Phases that are to be simulated, by purpose and digest, with their packet-hops.
    pending: BTreeMap<(usize, u128), (Phase, u64)>,
    pending_bytes: usize,
    counts: Vec<PhaseCount>,
    /// Whether new phases are still chosen for simulation.
    is_open: bool,
}

impl PhaseBook {
    /// A book without phases.
    ///
    /// # Errors
    /// If packets cannot be as they are asked to be, or phases are to be simulated where circuits
    /// change by the clock, whatever a phase finds of them.
    pub fn new(
        network: &Network,
        options: &PacketTransport,
        choice: PhaseChoice,
    ) -> Result<Self, ExecuteError> {
        options.config.validate()?;
        network.validate().map_err(ExecuteError::Network)?;
        let by_clock = network.parts.iter().find(|part| part.follows_clock());
        if let Some(part) = by_clock.filter(|_| choice != PhaseChoice::Counted) {
            return Err(unfit(format!(
                "the circuits of {} change by the clock, whatever a phase finds of them: simulate \
                 the whole step as packets",
                part.name()
            )));
        }
        Ok(Self {
            network: network.clone(),
            // Nothing in a phase repeats.
            options: PacketTransport { repeats: Repeats::InOneNetwork, ..*options },
            choice,
            purposes: Vec::new(),
            chosen: None,
            known: FxHashMap::default(),
            all_hops: 0,
            all_flows: 0,
            placed: FxHashSet::default(),
            fewest_hops: 0,
            most_hops: 0,
            pending: BTreeMap::new(),
            pending_bytes: 0,
            counts: Vec::new(),
            is_open: true,
        })
    }

    /// Phases of other purposes than these stay flows.
    pub fn choose(&mut self, purposes: Vec<String>) {
        self.chosen = Some(purposes);
    }

    /// The indices of the purposes of a graph, whose step begins; new ones are added.
    ///
    /// # Errors
    /// If a purpose whose phases are to be simulated is none of the graph's.
    pub(crate) fn enter_purposes(&mut self, names: &[String]) -> Result<Vec<usize>, ExecuteError> {
        let mut chosen = self.chosen.iter().flatten();
        if let Some(unknown) = chosen.find(|chosen| !names.contains(chosen)) {
            let list = names.join(", ");
            return Err(invalid(format!("purpose '{unknown}': expected {list}")));
        }
        // A whole step begins with nothing known.
        self.placed.clear();
        let mut index = |name: &String| {
            self.purposes.iter().position(|known| known == name).unwrap_or_else(|| {
                self.purposes.push(name.clone());
                self.counts.push(PhaseCount::default());
                self.purposes.len() - 1
            })
        };
        Ok(names.iter().map(&mut index).collect())
    }

    /// How packets are sent.
    pub fn options(&self) -> &PacketTransport {
        &self.options
    }

    /// What is known, by purpose.
    pub fn counts(&self) -> impl Iterator<Item = (&str, &PhaseCount)> {
        self.purposes.iter().map(String::as_str).zip(&self.counts)
    }

    /// Phases still to be simulated, and about how many packet-hops these are.
    pub fn pending(&self) -> (usize, u64) {
        (self.pending.len(), self.pending.values().map(|(_, hops)| hops).sum())
    }

    /// About how many packet-hops everything is that was met, equal phases included: what a whole
    /// step of packets is.
    pub fn all_hops(&self) -> u64 {
        self.all_hops
    }

    /// About how many flows everything is that was met, equal phases included; a batch of a
    /// transfer between racks is one.
    pub fn all_flows(&self) -> u64 {
        self.all_flows
    }

    /// About how many packet-hops of the whole steps are simulated: all where circuits change by
    /// the clock.
    ///
    /// An all-to-all that a step meets again, over the same links or under any one switch, is
    /// simulated again if its members begin at other times, or it meets others. How often that is
    /// so shows in the run alone. So this is the geometric mean of never and always: wrong by the
    /// same factor at most, whichever is true. Rings and sends, whose transfers share no link, are
    /// taken to be simulated once.
    pub fn placed_hops(&self) -> u64 {
        let by_clock = self.network.parts.iter().any(|part| part.follows_clock());
        let mean = (self.fewest_hops as f64 * self.most_hops as f64).sqrt().round() as u64;
        if by_clock { self.all_hops } else { mean }
    }

    /// Bytes that the phases still to be simulated take of the memory, beyond which no more are
    /// kept.
    pub(crate) fn is_full(&self) -> bool {
        self.pending_bytes > MAX_PENDING_BYTES
    }

    /// The stretch of a phase; 1 while nothing of its purpose is known.
    pub(crate) fn stretch<'a>(
        &mut self,
        kind: usize,
        links: &Links,
        transfers: impl Iterator<Item = (&'a [LinkId], u64, Duration)>,
    ) -> f64 {
        let mut place = RunHash::new();
        let noted = transfers.inspect(|(path, bytes, _)| {
            place.record(Time::ZERO, 0, &[*bytes]);
            for link in *path {
                place.record(Time::ZERO, 1, &[u64::from(link.0)]);
            }
        });
        let phase = Phase::new(&self.network, links, noted);
        if phase.is_empty() {
            return 1.0;
        }
        let digest = phase.digest();
        let mean = self.counts[kind].mean();
        if let Some(&known) = self.known.get(&digest) {
            self.note_hops(known, digest, place.digest());
            return known.stretch.unwrap_or(mean);
        }
        let count = &mut self.counts[kind];
        count.distinct += 1;
        count.bytes += phase.bytes();
        let hops = phase.packet_hops(&self.network, &self.options);
        let parts = phase.alike_parts(&self.network);
        let alone = hops / parts.unwrap_or(1);
        let (moves, shares) = (parts.is_some(), phase.shares_links());
        let flows = phase.flows(self.options.config.mtu);
        let known = Known { stretch: None, hops, flows, alone, moves, shares };
        self.known.insert(digest, known);
        self.note_hops(known, digest, place.digest());
        let is_chosen =
            (self.chosen.as_ref()).is_none_or(|chosen| chosen.contains(&self.purposes[kind]));
        if self.is_open && is_chosen && !self.is_full() {
            self.keep(kind, digest, phase, hops);
        }
        mean
    }

    /// Notes the packet-hops of a phase that a step meets.
    fn note_hops(&mut self, phase: Known, digest: u128, placed: u128) {
        self.all_hops = self.all_hops.saturating_add(phase.hops);
        self.all_flows = self.all_flows.saturating_add(phase.flows);
        let is_new = self.placed.insert(if phase.moves { digest } else { placed });
        if is_new || phase.shares {
            self.most_hops = self.most_hops.saturating_add(phase.alone);
        }
        if is_new {
            self.fewest_hops = self.fewest_hops.saturating_add(phase.alone);
        }
    }

    /// Keeps a phase for simulation, if it is among the chosen.
    fn keep(&mut self, kind: usize, digest: u128, phase: Phase, hops: u64) {
        if self.choice == PhaseChoice::Counted {
            return;
        }
        if let PhaseChoice::AtMost(max_count) = self.choice {
            let range = (kind, 0)..(kind + 1, 0);
            if self.pending.range(range.clone()).count() >= max_count.get() {
                let last = *self.pending.range(range).next_back().expect("counted").0;
                if last.1 < digest {
                    return;
                }
                let (dropped, _) = self.pending.remove(&last).expect("found");
                self.pending_bytes -= dropped.size_bytes();
            }
        }
        self.pending_bytes += phase.size_bytes();
        self.pending.insert((kind, digest), (phase, hops));
    }

    /// Simulates what is pending; the observer is told how many packet-hops of `pending` are done.
    ///
    /// # Errors
    /// If the observer asks to stop, or a phase never ends; what was simulated stays known.
    pub fn simulate(&mut self, observer: &mut dyn Observer) -> Result<(), ExecuteError> {
        if self.is_full() {
            return Err(invalid(format!(
                "the phases to simulate take over {} GiB of memory; sample some of them",
                MAX_PENDING_BYTES >> 30
            )));
        }
        let mut done = 0;
        while let Some(entry) = self.pending.first_entry() {
            let (kind, digest) = *entry.key();
            let (phase, predicted) = entry.get();
            let predicted = *predicted;
            if observer.progress(Time::ZERO, done).is_break() {
                return Err(ExecuteError::Interrupted(Interrupted { now: Time::ZERO, done }));
            }
            let mut watch = |now, hops: u64| observer.progress(now, done + hops.min(predicted));
            let times = phase.simulate(&self.network, &self.options, &mut watch)?;
            let (phase, _) = entry.remove();
            self.pending_bytes -= phase.size_bytes();
            self.known.entry(digest).and_modify(|it| it.stretch = Some(times.stretch));
            let count = &mut self.counts[kind];
            let is_first = count.simulated == 0;
            count.simulated += 1;
            count.simulated_bytes += phase.bytes();
            count.stretched_bytes += times.stretch * phase.bytes() as f64;
            count.minimum = if is_first { times.stretch } else { count.minimum.min(times.stretch) };
            count.maximum = count.maximum.max(times.stretch);
            count.packet_hops += times.packet_hops;
            done += predicted;
        }
        // A sample is drawn once, from all that was met until then.
        self.is_open = !matches!(self.choice, PhaseChoice::AtMost(_));
        Ok(())
    }
}
