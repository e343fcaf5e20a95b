//! What bytes are while they are on their way.

use crate::packets::PacketTransport;
use crate::phases::PhaseBook;

/// How transfers between servers are simulated.
#[derive(Debug)]
pub enum TransferModel<'a> {
    /// As fluid flows that share links max-min fairly.
    Flows,
    /// As packets, for the whole step: exact, and only for small steps.
    Packets(&'a PacketTransport),
    /// As fluid flows, each collective stretched to what it takes alone as packets.
    Phases(&'a mut PhaseBook),
}
