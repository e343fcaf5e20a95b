//! What a decision starts from and what it comes to: plain values that can be stored and sent.

use lightloom_model::{Allocator, Duration};
use lightloom_schedule::NicCircuit;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;

/// The circuits that a region has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Parallel circuits of each pair, n x n, symmetric.
    pub circuits: Vec<u16>,
    /// The NICs that end each circuit, sorted. NIC i is on plane i where there are planes.
    pub nics: Vec<NicCircuit>,
    /// The allocator whose circuits these are.
    pub chosen: Allocator,
}

impl Default for Held {
    fn default() -> Self {
        Self { circuits: Vec::new(), nics: Vec::new(), chosen: Allocator::Static }
    }
}

/// What circuits are requested for, on behalf of an upcoming all-to-all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requested {
    /// Its demand.
    #[default]
    Demand,
    /// Other demand, n x n. Where the demand is predicted, circuits are not judged by what they
    /// were found for.
    Other(Vec<u64>),
    /// Nothing: too little was seen.
    Nothing,
}

/// An all-to-all whose demand is known or predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Upcoming {
    /// Bytes from source to destination, n x n, by which circuits are judged.
    pub demand: Vec<u64>,
    /// What circuits are requested for.
    pub requested: Requested,
    /// From the end of the all-to-all before it (for the first one: from now) until its last
    /// member reaches it.
    pub hidden: Duration,
}

impl Upcoming {
    /// An all-to-all whose demand is known.
    pub fn known(demand: Vec<u64>, hidden: Duration) -> Self {
        Self { demand, requested: Requested::Demand, hidden }
    }

    /// The demand that circuits are requested for, if any.
    pub fn request(&self) -> Option<&[u64]> {
        match &self.requested {
            Requested::Demand => Some(&self.demand),
            Requested::Other(demand) => Some(demand),
            Requested::Nothing => None,
        }
    }
}

/// What a switch does to circuits on NICs. Every list is sorted.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Change {
    /// New circuits.
    pub create: Vec<NicCircuit>,
    /// Circuits that are torn down.
    pub delete: Vec<NicCircuit>,
    /// Circuits that stay where they are.
    pub keep: Vec<NicCircuit>,
    /// Circuits that other NICs of the same servers take over: from where, to where.
    pub moved: Vec<(NicCircuit, NicCircuit)>,
    /// Circuits whose NICs have failed; they are down already, but their ports may be released.
    pub lost: Vec<NicCircuit>,
}

impl Change {
    /// The change from some circuits on NICs to others; both are sorted.
    pub fn between(from: &[NicCircuit], to: &[NicCircuit]) -> Self {
        let mut change = Self::default();
        let (mut old, mut new) = (from.iter().peekable(), to.iter().peekable());
        loop {
            match (old.peek(), new.peek()) {
                (Some(&&one), Some(&&other)) => match one.cmp(&other) {
                    Ordering::Less => change.delete.extend(old.next()),
                    Ordering::Greater => change.create.extend(new.next()),
                    Ordering::Equal => {
                        change.keep.extend(old.next());
                        new.next();
                    }
                },
                (Some(_), None) => change.delete.extend(old.next()),
                (None, Some(_)) => change.create.extend(new.next()),
                (None, None) => break,
            }
        }
        change.pair_up();
        change
    }

    /// Makes one move of a circuit torn down and a new one of the same servers.
    fn pair_up(&mut self) {
        if self.create.is_empty() || self.delete.is_empty() {
            return;
        }
        let servers = |circuit: &NicCircuit| (circuit.a.server, circuit.b.server);
        let (create, moved) = (&mut self.create, &mut self.moved);
        self.delete.retain(|old| {
            let successor = create.iter().position(|new| servers(new) == servers(old));
            let Some(index) = successor else { return true };
            moved.push((*old, create.remove(index)));
            false
        });
    }

    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty() && self.moved.is_empty()
    }

    /// Port pairs that a switch touches: the larger of circuits made and circuits torn down, a
    /// moved circuit counting as both. All of them, if a switch cannot spare any.
    pub fn pairs(&self, keep_unchanged: bool) -> u32 {
        if self.is_empty() {
            return 0;
        }
        let spared = if keep_unchanged { 0 } else { self.keep.len() };
        (self.create.len().max(self.delete.len()) + self.moved.len() + spared) as u32
    }
}

/// Why a decision is as it is. All times are in seconds, at line rate: the upcoming all-to-alls
/// with the circuits held (`hold`) and after the best switch (`switch`), and the part of its delay
/// that nothing hides (`exposed`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The policy never changes circuits.
    Never,
    /// No all-to-all is upcoming.
    NothingUpcoming,
    /// The policy follows the allocator, which proposed the circuits that are held.
    SameProposed,
    /// The policy follows the allocator, whatever the switch exposes.
    Follows {
        /// With the circuits held.
        #[serde(with = "seconds")]
        hold: f64,
        /// After the switch.
        #[serde(with = "seconds")]
        switch: f64,
        /// Not hidden.
        exposed: f64,
    },
    /// No circuits whatever could save what the change of a single pair exposes.
    CannotPay {
        /// What could be saved at most.
        #[serde(with = "seconds")]
        saved: f64,
        /// What a switch exposes at least.
        exposed: f64,
    },
    /// Nothing other than what is held was proposed.
    NoProposal {
        /// With the circuits held.
        #[serde(with = "seconds")]
        hold: f64,
    },
    /// The best switch saves more than it exposes.
    Pays {
        /// With the circuits held.
        #[serde(with = "seconds")]
        hold: f64,
        /// After the switch.
        #[serde(with = "seconds")]
        switch: f64,
        /// Not hidden.
        exposed: f64,
        /// Pairs that it changes.
        pairs: u32,
    },
    /// The best switch saves no more than it exposes.
    DoesNotPay {
        /// With the circuits held.
        #[serde(with = "seconds")]
        hold: f64,
        /// After the switch.
        #[serde(with = "seconds")]
        switch: f64,
        /// Not hidden.
        exposed: f64,
        /// Pairs that it would change.
        pairs: u32,
    },
    /// Other circuits were better over one hop, but not once servers relay over either.
    RelayingSuffices {
        /// With the circuits held, and relays.
        #[serde(with = "seconds")]
        hold: f64,
        /// After the switch, with relays.
        #[serde(with = "seconds")]
        switch: f64,
        /// Not hidden.
        exposed: f64,
    },
}

/// The seconds and pairs that a decision compared, as far as it did.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Compared {
    /// With the circuits held.
    pub hold: Option<f64>,
    /// After the best switch.
    pub switch: Option<f64>,
    /// The part of its delay that nothing hides.
    pub exposed: Option<f64>,
    /// Pairs that it changes, or would change.
    pub pairs: Option<u32>,
}

impl Why {
    /// What kind of reason it is.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::NothingUpcoming => "nothing-upcoming",
            Self::SameProposed => "same-proposed",
            Self::Follows { .. } => "follows",
            Self::CannotPay { .. } => "cannot-pay",
            Self::NoProposal { .. } => "no-proposal",
            Self::Pays { .. } => "pays",
            Self::DoesNotPay { .. } => "does-not-pay",
            Self::RelayingSuffices { .. } => "relaying-suffices",
        }
    }

    /// What was compared.
    pub fn compared(&self) -> Compared {
        match *self {
            Self::Never | Self::NothingUpcoming | Self::SameProposed => Compared::default(),
            Self::CannotPay { exposed, .. } => {
                Compared { exposed: Some(exposed), ..Compared::default() }
            }
            Self::NoProposal { hold } => Compared {
                hold: Some(hold),
                switch: Some(f64::INFINITY),
                exposed: Some(0.0),
                pairs: Some(0),
            },
            Self::Follows { hold, switch, exposed }
            | Self::RelayingSuffices { hold, switch, exposed } => Compared {
                hold: Some(hold),
                switch: Some(switch),
                exposed: Some(exposed),
                pairs: None,
            },
            Self::Pays { hold, switch, exposed, pairs }
            | Self::DoesNotPay { hold, switch, exposed, pairs } => Compared {
                hold: Some(hold),
                switch: Some(switch),
                exposed: Some(exposed),
                pairs: Some(pairs),
            },
        }
    }
}

/// Seconds of which some may be infinite, where a pair has no path at all.
mod seconds {
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde expects")]
    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        if value.is_finite() {
            serializer.serialize_some(value)
        } else {
            serializer.serialize_none()
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compared = |formatter: &mut fmt::Formatter<'_>, hold, switch, exposed| {
            write!(
                formatter,
                "the upcoming all-to-alls take {} with the circuits held and {} after a switch \
                 that exposes {}",
                Seconds(hold),
                Seconds(switch),
                Seconds(exposed)
            )
        };
        match *self {
            Self::Never => write!(formatter, "Held: the policy never changes circuits."),
            Self::NothingUpcoming => write!(formatter, "Held: no all-to-all is upcoming."),
            Self::SameProposed => {
                write!(formatter, "Held: the allocator proposed the circuits that are held.")
            }
            Self::Follows { hold, switch, exposed } => {
                write!(formatter, "Switched, as the policy always follows the allocator: ")?;
                compared(formatter, hold, switch, exposed)?;
                write!(formatter, ".")
            }
            Self::CannotPay { saved, exposed } => write!(
                formatter,
                "Held: no circuits could save the upcoming all-to-alls more than {}, but any \
                 switch exposes {}.",
                Seconds(saved),
                Seconds(exposed)
            ),
            Self::NoProposal { hold } => write!(
                formatter,
                "Held: the upcoming all-to-alls take {}, and no other circuits were proposed.",
                Seconds(hold)
            ),
            Self::Pays { hold, switch, exposed, pairs } => {
                write!(formatter, "Switched: ")?;
                compared(formatter, hold, switch, exposed)?;
                write!(formatter, " and changes {pairs} pairs.")
            }
            Self::DoesNotPay { hold, switch, exposed, pairs } => {
                write!(formatter, "Held: ")?;
                compared(formatter, hold, switch, exposed)?;
                write!(formatter, " and would change {pairs} pairs.")
            }
            Self::RelayingSuffices { hold, switch, exposed } => {
                write!(formatter, "Held: with relays ")?;
                compared(formatter, hold, switch, exposed)?;
                write!(formatter, ".")
            }
        }
    }
}

/// A time in the unit that suits it.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0;
        if seconds.is_infinite() {
            return write!(formatter, "forever");
        }
        let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")];
        let suits = |unit: &&(f64, &str)| seconds >= unit.0;
        let (unit, name) = units.iter().find(suits).unwrap_or(&units[0]);
        let text = format!("{:.3}", seconds / unit);
        write!(formatter, "{} {name}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The circuits of a region from now on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// The circuits and their NICs.
    pub held: Held,
    /// What changes for them.
    pub change: Change,
    /// Port pairs that the switch touches.
    pub pairs: u32,
    /// From the decision until all circuits are up.
    pub ready_after: Duration,
    /// Why.
    pub why: Why,
    /// The demand that was decided for: of the next all-to-all, or of all upcoming ones together.
    pub demand: Vec<u64>,
    /// Seconds of that demand over these circuits, at line rate.
    #[serde(with = "seconds")]
    pub makespan: f64,
    /// Seconds of that demand that no circuits can beat.
    #[serde(with = "seconds")]
    pub bound: f64,
    /// Seconds that the upcoming all-to-alls would take longer with the circuits held before.
    #[serde(with = "seconds")]
    pub saved: f64,
}
