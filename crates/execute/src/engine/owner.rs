//! Who is told that a flow has finished, or that a time has come.

use super::streams::StreamId;
use lightloom_model::WorkerId;

/// What is processed at a time known beforehand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A stream reaches a task that others may notice.
    Resume(StreamId),
    /// A member of an all-to-all has gathered: its flows start.
    Dispatch {
        /// Which all-to-all.
        all_to_all: u32,
        /// Place of the member.
        place: u32,
    },
    /// The turn of a ring collective has come, or its start-up is over.
    Ring(u32),
    /// The part of a ring inside a worker is done, if none has started there since.
    InsideDone {
        /// Which worker.
        worker: WorkerId,
        /// Counts what started and ended there.
        generation: u32,
    },
    /// New circuits of a region are up.
    CircuitsUp(u32),
}

/// Circuits come up before anything that waits for them.
pub(crate) const FIRST: u8 = 0;
/// Everything else.
pub(crate) const NORMAL: u8 = 1;

/// Who is told that a flow has finished, packed into the flow's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// An all-to-all, and the index of the transfer in its lowering.
    AllToAll(u32, u32),
    /// A message.
    Message(u32),
    /// A ring collective.
    Ring(u32),
}

impl Owner {
    /// As a token.
    pub(super) fn token(self) -> u64 {
        let pack = |kind: u64, id: u32, part: u32| {
            assert!(id < 1 << 30, "2^30 collectives at once");
            kind << 62 | u64::from(id) << 32 | u64::from(part)
        };
        match self {
            Self::AllToAll(id, transfer) => pack(0, id, transfer),
            Self::Message(id) => pack(1, id, 0),
            Self::Ring(id) => pack(2, id, 0),
        }
    }

    /// Of a token.
    pub(super) fn of(token: u64) -> Self {
        let id = (token >> 32) as u32 & ((1 << 30) - 1);
        match token >> 62 {
            0 => Self::AllToAll(id, token as u32),
            1 => Self::Message(id),
            _ => Self::Ring(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_name_their_owner() {
        for owner in [
            Owner::AllToAll(7, u32::MAX),
            Owner::AllToAll((1 << 30) - 1, 0),
            Owner::Message(9),
            Owner::Ring(11),
        ] {
            assert_eq!(Owner::of(owner.token()), owner);
        }
    }
}
