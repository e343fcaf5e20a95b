//! A decider with the circuits that are held, and its last decision.

use crate::description::{Description, MAX_TEXT_BYTES};
use crate::status::{Refusal, Status};
use lightloom_decide::{Decider, Decision, Held, Upcoming};
use lightloom_model::Duration;
use lightloom_schedule::NicCircuit;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Maximum number of upcoming all-to-alls of one decision.
pub const MAX_ALL_TO_ALLS: usize = 64;

/// A decider as C has it.
#[derive(Debug)]
pub struct LightloomDecider(Mutex<State>);

/// What a decider knows between calls.
#[derive(Debug)]
pub(crate) struct State {
    decider: Decider,
    held: Held,
    last: Option<Decision>,
    /// The upcoming all-to-alls, kept for their memory.
    upcoming: Vec<Upcoming>,
}

/// Circuits that can be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum List {
    /// Those that are held.
    Held = 0,
    /// Those that were decided.
    Decided = 1,
    /// New ones.
    Create = 2,
    /// Those that are torn down.
    Delete = 3,
    /// Those that stay on their NICs.
    Keep = 4,
    /// Those that other NICs of the same servers take over.
    MovedFrom = 5,
    /// The circuits that take these over, in the same order.
    MovedTo = 6,
    /// Those whose NICs have failed.
    Lost = 7,
}

/// Texts that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Text {
    /// The circuits held, for `lightloom_restore`.
    State = 0,
    /// The last decision as JSON, as `Decision.to_json` of the Python package.
    Decision = 1,
    /// The reason of the last decision, as a sentence.
    Reason = 2,
}

impl LightloomDecider {
    /// A decider that holds the circuits of the start.
    pub(crate) fn new(description: &[u8]) -> Result<Self, Refusal> {
        let (region, policy, timing) =
            Description::parse(text_of(description, "description")?)?.into_parts()?;
        let decider = Decider::new(region, policy, timing);
        let held = decider.start();
        Ok(Self(Mutex::new(State { decider, held, last: None, upcoming: Vec::new() })))
    }

    /// What it knows, for one thread at a time.
    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, State>, Refusal> {
        match self.0.try_lock() {
            Ok(state) => Ok(state),
            // What panicked left at most a cache half filled.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(Refusal {
                status: Status::Busy,
                text: "another thread uses this decider: have one per thread".into(),
            }),
        }
    }
}

impl State {
    /// Number of servers, n.
    pub(crate) fn servers(&self) -> usize {
        self.decider.region().servers()
    }

    /// Decides for demands, each n x n, that are reached after these times.
    pub(crate) fn decide(&mut self, bytes: &[u64], hidden: &[u64]) -> Result<&Decision, Refusal> {
        let cells = self.servers() * self.servers();
        self.upcoming.resize_with(hidden.len(), || Upcoming::known(Vec::new(), Duration::ZERO));
        for (index, (next, &hidden)) in self.upcoming.iter_mut().zip(hidden).enumerate() {
            next.demand.clear();
            next.demand.extend_from_slice(&bytes[index * cells..][..cells]);
            next.hidden = Duration(hidden);
        }
        self.upcoming.iter().try_for_each(|next| self.check_demand(&next.demand))?;
        self.decider.check_relayed(&self.upcoming)?;
        self.last = None;
        let decision = self.decider.decide(&self.held, &self.upcoming);
        Ok(self.last.insert(decision))
    }

    /// Refuses demand of servers that have failed.
    fn check_demand(&self, demand: &[u64]) -> Result<(), Refusal> {
        let n = self.servers();
        for &server in &self.decider.region().record().failures.servers {
            let server = server as usize;
            if (0..n).any(|peer| demand[server * n + peer] > 0 || demand[peer * n + server] > 0) {
                return Err(Refusal::invalid(format!(
                    "demand of server {server}, which has failed"
                )));
            }
        }
        Ok(())
    }

    /// Holds what was decided last from now on.
    pub(crate) fn accept(&mut self) -> Result<(), Refusal> {
        let held = self.last()?.held.clone();
        self.held = held;
        Ok(())
    }

    /// Holds given circuits from now on.
    pub(crate) fn hold(&mut self, mut nics: Vec<NicCircuit>) -> Result<(), Refusal> {
        nics.sort_unstable();
        let n = self.servers();
        let mut circuits = vec![0_u16; n * n];
        for circuit in &nics {
            let (a, b) = (circuit.a.server as usize, circuit.b.server as usize);
            if a < n && b < n {
                circuits[a * n + b] = circuits[a * n + b].saturating_add(1);
                circuits[b * n + a] = circuits[b * n + a].saturating_add(1);
            }
        }
        let held = Held { circuits, nics, chosen: self.decider.policy().allocator };
        self.take(held)
    }

    /// Holds the circuits of a stored state from now on.
    pub(crate) fn restore(&mut self, state: &[u8]) -> Result<(), Refusal> {
        let held: Held = serde_json::from_str(text_of(state, "state")?)
            .map_err(|error| Refusal::invalid(format!("state: {error}")))?;
        let (n, cells) = (self.servers(), held.circuits.len());
        if cells != n * n {
            return Err(Refusal::invalid(format!(
                "state: {cells} entries of circuits, expected {n} x {n}"
            )));
        }
        self.take(held)
    }

    fn take(&mut self, held: Held) -> Result<(), Refusal> {
        self.decider.check(&held)?;
        self.held = held;
        Ok(())
    }

    fn last(&self) -> Result<&Decision, Refusal> {
        self.last.as_ref().ok_or_else(|| Refusal::invalid("nothing was decided yet"))
    }

    /// Some circuits of it or of its last decision.
    pub(crate) fn list(&self, list: List) -> Result<Vec<NicCircuit>, Refusal> {
        if list == List::Held {
            return Ok(self.held.nics.clone());
        }
        let decision = self.last()?;
        let change = &decision.change;
        Ok(match list {
            List::Held | List::Decided => decision.held.nics.clone(),
            List::Create => change.create.clone(),
            List::Delete => change.delete.clone(),
            List::Keep => change.keep.clone(),
            List::MovedFrom => change.moved.iter().map(|(from, _)| *from).collect(),
            List::MovedTo => change.moved.iter().map(|(_, to)| *to).collect(),
            List::Lost => change.lost.clone(),
        })
    }

    /// A text of it or of its last decision.
    pub(crate) fn text(&self, text: Text) -> Result<String, Refusal> {
        let plain = |result: serde_json::Result<String>| result.expect("plain values without maps");
        Ok(match text {
            Text::State => plain(serde_json::to_string(&self.held)),
            Text::Decision => plain(serde_json::to_string(self.last()?)),
            Text::Reason => self.last()?.why.to_string(),
        })
    }
}

/// Bytes as text, if they are some and not too many.
fn text_of<'a>(bytes: &'a [u8], name: &str) -> Result<&'a str, Refusal> {
    if bytes.len() > MAX_TEXT_BYTES {
        let given = bytes.len();
        return Err(Refusal::invalid(format!("{name}: {given} bytes, at most {MAX_TEXT_BYTES}")));
    }
    std::str::from_utf8(bytes).map_err(|error| Refusal::invalid(format!("{name}: {error}")))
}
