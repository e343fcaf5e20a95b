//! Transports: who may send what when.
//!
//! The network calls a transport when a flow starts, when a NIC can send, when a packet arrives at
//! the NIC it is for, and when a timer that the transport set runs out. All state of flows that
//! only a transport understands is in the transport, indexed by flow or NIC.

mod active;
pub mod dcqcn;
pub mod dctcp;
pub mod eqds;
mod go_back_n;
mod ledger;
pub mod line_rate;
pub mod ndp;
mod spray;

pub use active::ActiveFlows;

use crate::core::Core;
use crate::memory::prefetch;
use crate::packet::Packet;

/// What a NIC that can send gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// This packet, made by [`Core::new_data`].
    Packet(u32),
    /// Nothing before this time, in ps.
    At(u64),
    /// Nothing until something else happens.
    Nothing,
}

/// Asks for the end of a flow that a packet is for.
#[inline]
fn prefetch_end<S, R>(packet: &Packet, senders: &[S], receivers: &[R]) {
    if packet.kind.is_forward() {
        prefetch(receivers, packet.flow as usize);
    } else {
        prefetch(senders, packet.flow as usize);
    }
}

/// One transport, for all flows of a run.
pub trait Transport {
    /// A flow starts. Called in the order of flow numbers at equal times, not overall.
    fn start(&mut self, core: &mut Core, flow: u32);

    /// The NIC's transmitter is free at `at` (which may be shortly before [`Core::now`]) and
    /// nothing waits in its queues.
    fn next(&mut self, core: &mut Core, nic: u32, at: u64) -> Next;

    /// A packet arrived at the NIC that it is for: the receiver's or the sender's.
    fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet);

    /// A packet will arrive soon at the NIC that it is for: asks for what will be looked at then.
    #[inline]
    fn prefetch(&self, packet: &Packet) {
        let _ = packet;
    }

    /// It will arrive very soon: asks for what was found by means of what was asked for before.
    #[inline]
    fn prefetch_more(&self, packet: &Packet) {
        let _ = packet;
    }

    /// The time set by [`Core::wake`] has come.
    fn wake(&mut self, core: &mut Core, nic: u32) {
        let _ = (core, nic);
    }

    /// A timer set by [`Core::set_timer`] for a flow runs out.
    fn timer(&mut self, core: &mut Core, flow: u32, tag: u32) {
        let _ = (core, flow, tag);
    }
}
