//! What goes from one half of a network to the other, see [`super::halves`].

use super::halves::{Half, Halves};
use super::telemetry::Stamps;
use crate::packet::Packet;
use crate::topology::{PacketLinkId, Topology};
use lightloom_model::Time;
use std::sync::Arc;

/// What reaches the other half.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cargo {
    /// A packet, at the receiving end of a link.
    Packet(Packet),
    /// PFC of a priority, at the sending end.
    Signal(u8),
}

/// Something that reaches the other half at a time, by a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub(super) time: Time,
    pub(super) link: PacketLinkId,
    pub(super) cargo: Cargo,
}

/// The links out of a half, and what is under way over them.
#[derive(Debug, Clone)]
pub(super) struct Crossing {
    halves: Arc<Halves>,
    half: Half,
    links: Arc<[PacketLinkId]>,
    messages: Vec<Message>,
    /// Stamps of packets, in the same order, where there is telemetry.
    stamps: Vec<Stamps>,
}

impl Crossing {
    pub(super) fn new(topology: &Topology, halves: &Arc<Halves>, half: Half) -> Self {
        let leaves = |link: &PacketLinkId| halves.sender(*link) == half && halves.crosses(*link);
        let links = topology.link_ids().filter(leaves).collect();
        let (messages, stamps) = Default::default();
        Self { halves: Arc::clone(halves), half, links, messages, stamps }
    }

    /// An empty box for the same links.
    pub(super) fn empty(&self) -> Self {
        let (messages, stamps) = Default::default();
        Self {
            halves: Arc::clone(&self.halves),
            links: Arc::clone(&self.links),
            messages,
            stamps,
            ..*self
        }
    }

    /// Swaps what is under way.
    pub(super) fn swap(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.messages, &mut other.messages);
        std::mem::swap(&mut self.stamps, &mut other.stamps);
    }

    /// The links out of the half.
    pub(super) fn links(&self) -> &[PacketLinkId] {
        &self.links
    }

    /// Whether the sending end of a link is in the other half.
    pub(super) fn is_outside(&self, link: PacketLinkId) -> bool {
        self.halves.sender(link) != self.half
    }

    #[inline]
    pub(super) fn send(&mut self, message: Message, stamps: Option<&Stamps>) {
        self.messages.push(message);
        self.stamps.extend(stamps);
    }

    /// When the first of all arrives.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.messages.iter().map(|message| message.time).min()
    }

    /// Takes all out in the order of sending.
    pub(super) fn deliver(&mut self, mut receive: impl FnMut(Message, Option<Stamps>)) {
        let mut stamps = self.stamps.drain(..);
        for message in self.messages.drain(..) {
            let is_packet = matches!(message.cargo, Cargo::Packet(_));
            receive(message, if is_packet { stamps.next() } else { None });
        }
    }
}
