//! What bytes are while they are on their way.

use crate::packets::PacketOptions;
use crate::phases::PhaseBook;

/// How transfers between servers are simulated.
#[derive(Debug)]
pub enum Model<'a> {
    /// As fluid flows that share links max-min fairly.
    Flows,
    /// As packets, for the whole step: exact, and only for small steps.
    Packets(&'a PacketOptions),
    /// As fluid flows, each collective stretched to what it takes alone as packets.
    Phases(&'a mut PhaseBook),
}
