//! What was found of histories of flows: when each of them ends.

use super::live::Live;
use super::places::Labels;
use crate::flow::{FlowSpec, PacketFlowId};
use crate::topology::PacketLinkId;
use lightloom_kernel::RunHash;
use lightloom_model::{Duration, Time};
use rustc_hash::FxHashMap;

/// Something that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Flow(PacketFlowId, FlowSpec),
    /// A link goes dark, or comes up.
    Dark(PacketLinkId, bool),
}

/// What begins at one time.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) at: Time,
    pub(super) items: Vec<Item>,
}

/// Identifies a history: what began when, relative to its start. 128 bits: equal keys are equal
/// histories.
pub(super) type Key = u128;

/// The key of a history to which a batch is added, with NICs at their places.
pub(super) fn key(before: Key, start: Time, batch: &Batch, labels: &Labels) -> Key {
    let mut hash = RunHash::new();
    let at = Time(batch.at.since(start).0);
    hash.record(at, 0, &[(before >> 64) as u64, before as u64]);
    for item in &batch.items {
        match item {
            Item::Flow(_, flow) => {
                let flow = &labels.place(flow);
                let ends = u64::from(flow.source.0) << 32 | u64::from(flow.destination.0);
                let route = flow.route.as_deref();
                let length = route.map_or(0, |route| route.len() as u64 + 1);
                hash.record(at, 1, &[ends, flow.size.0, u64::from(flow.priority), length]);
                for link in route.unwrap_or_default() {
                    hash.record(at, 2, &[u64::from(link.0)]);
                }
            }
            Item::Dark(link, dark) => hash.record(at, 3, &[u64::from(link.0), u64::from(*dark)]),
        }
    }
    hash.digest()
}

/// What is known of a history after its last batch, if nothing else begins.
#[derive(Default)]
pub(super) struct Known {
    /// Flows that have ended since, in the order in which they were added, from the start.
    pub(super) ends: Vec<(Duration, u32)>,
    /// Until when nothing else ended in a scene in which more began then.
    pub(super) quiet: Option<Duration>,
    /// When nothing was left in the network, and packets that had crossed a link by then.
    pub(super) drained: Option<(Duration, u64)>,
    /// The network in which that is found.
    pub(super) live: Option<Live>,
}

/// What was found so far.
pub(super) type Memory = FxHashMap<Key, Known>;
