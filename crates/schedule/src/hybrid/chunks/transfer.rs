//! What is sent of a chunk.

/// Bytes of a chunk over one circuit or as packets, at a constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkTransfer {
    /// Which chunk.
    pub chunk: u32,
    /// The slot whose circuit carries them; nothing for packets.
    pub slot: Option<u32>,
    /// When the first byte is sent.
    pub start: u64,
    /// When the last one is.
    pub end: u64,
    /// How many.
    pub bytes: u64,
}
