//! Transfers that may be withdrawn, and the batches in which they go.
//!
//! Between racks whose circuits change, what has not left its server may take another path. A
//! launched transfer therefore goes in *batches*: so many bytes are on their way over each bundle
//! between racks at a time, the others wait at their source, in turn, also while a circuit on
//! their path is dark; those of a higher priority come before others. What is withdrawn while on
//! its way is sent again from its source: packets that are in the network cross it all the same,
//! and count for nothing.

use lightloom_flowsim::LinkId;
use lightloom_model::Time;
use std::collections::VecDeque;

/// What was asked for: an index, and how often it has been used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LaunchedId {
    pub(super) number: u32,
    pub(super) serial: u32,
}

/// A transfer that may be withdrawn.
#[derive(Debug, Default)]
pub(super) struct Launched {
    pub(super) serial: u32,
    pub(super) token: u64,
    /// As packets have it.
    pub(super) priority: u8,
    pub(super) bytes: u64,
    /// Bytes that wait at their source.
    pub(super) unsent: u64,
    pub(super) path: Vec<LinkId>,
    /// The batches on their way.
    pub(super) batches: Vec<u32>,
}

/// Who waits for what.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Those that may try to send, and for which bundle they waited.
    pub(super) ready: VecDeque<(LaunchedId, Option<LinkId>)>,
    /// When something got ready that has not tried to send since.
    pub(super) due: Option<Time>,
    /// By bundle, those that wait until it has room.
    pub(super) waiting: Vec<VecDeque<LaunchedId>>,
    /// By bundle, bytes of batches on their way over it.
    pub(super) on_way: Vec<u64>,
}

impl Turns {
    pub(super) fn add_bundle(&mut self) {
        self.waiting.push(VecDeque::new());
        self.on_way.push(0);
    }
}
