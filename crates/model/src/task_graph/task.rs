//! What a program consists of.

use super::ids::{
    CategoryId, DemandId, FamilyId, Handle, Priority, RoleId, StreamIndex, TableId, Tag,
};

/// A number that all workers share, or one per worker: picoseconds or bytes, by context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Amount {
    /// The same for every worker.
    Fixed(u64),
    /// Looked up in [`crate::WorkerTable`].
    Entry {
        /// Which table.
        table: TableId,
        /// Which entry of the worker's row.
        entry: u32,
    },
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self::Fixed(0);
}

/// Which collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CollectiveKind {
    /// Every member sends a part of its buffer to every other.
    AllToAll,
    /// Every member ends with the sum of all buffers.
    AllReduce,
    /// Every member ends with its share of the sum of all buffers.
    ReduceScatter,
    /// Every member ends with the whole of a buffer of which it had a share.
    AllGather,
    /// Every member ends with the buffer of the first member of the group.
    Broadcast,
}

impl CollectiveKind {
    /// Every kind, in the order of the numbers in which programs cross from Python.
    pub const ALL: [Self; 5] =
        [Self::AllToAll, Self::AllReduce, Self::ReduceScatter, Self::AllGather, Self::Broadcast];

    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllToAll => "all-to-all",
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
        }
    }
}

/// What a collective moves between workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Payload {
    /// The buffer of each worker; an all-to-all sends equal parts of it to all members.
    Bytes(u64),
    /// An all-to-all of what a block of a [`crate::DemandTable`] says.
    Block {
        /// Which table.
        demand: DemandId,
        /// Which block of the group.
        block: u32,
        /// Whether sources and destinations swap.
        transposed: bool,
        /// Whether the block is unknown until the task starts (dispatch of a forward pass).
        first: bool,
        /// Bytes of each count.
        unit_bytes: u64,
    },
}

/// The part of a collective inside each worker, over NVSwitch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Inside {
    /// Bytes that the busiest GPU moves: they say how long it takes.
    pub per_gpu: Amount,
    /// Bytes that all GPUs of the worker move; those of the busiest on each of them if `None`.
    pub total: Option<Amount>,
    /// Other GPUs with which each GPU moves them: its start-up grows with their number.
    pub peers: u32,
}

impl Inside {
    /// Nothing moves inside workers.
    pub const NONE: Self = Self { per_gpu: Amount::ZERO, total: None, peers: 0 };
}

/// A collective operation.
///
/// Members join it by order: the n-th collective over a family in one member's program is the n-th
/// in every member's. In a ring (all but all-to-alls), the part inside workers and that between
/// them run at once: the ring passes each GPU and its peers inside before it leaves a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Collective {
    /// Which one.
    pub kind: CollectiveKind,
    /// Whose group of the worker takes part; only the GPUs of the worker if `None`.
    pub family: Option<FamilyId>,
    /// What crosses between workers.
    pub payload: Payload,
    /// What also moves inside each worker.
    pub inside: Inside,
    /// Whether the stream goes on at once. The task then needs a handle, which a later task waits
    /// for.
    pub asynchronous: bool,
}

/// The other end of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// The worker at the same place of another role, which has as many workers.
    Role(RoleId),
    /// A member of the worker's group.
    Member {
        /// Of this family.
        family: FamilyId,
        /// Place in the group.
        place: u32,
    },
}

/// What a task does. Sizes are per worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TaskKind {
    /// Occupies its stream.
    Compute {
        /// How long, in picoseconds.
        duration: Amount,
    },
    /// Takes part in a collective.
    Collective(Collective),
    /// Sends a message; the stream goes on at once. If the task has a handle, the message leaves
    /// once its receiver waits for it, and the task is done when it has arrived: a rendezvous.
    Send {
        /// To whom.
        peer: Peer,
        /// Matches the receiver's tag.
        tag: Tag,
        /// Size.
        bytes: Amount,
    },
    /// Waits until a message has arrived.
    Receive {
        /// From whom.
        peer: Peer,
        /// The sender's tag.
        tag: Tag,
    },
    /// Waits until the task of this handle, which comes before it in the program, is done.
    Wait {
        /// The handle.
        handle: Handle,
        /// Parts per million of the speed of the worker's computation that the awaited task takes
        /// while it is under way.
        slowed_ppm: u32,
    },
}

impl TaskKind {
    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Compute { .. } => "compute",
            Self::Collective(collective) => collective.kind.name(),
            Self::Send { .. } => "send",
            Self::Receive { .. } => "receive",
            Self::Wait { .. } => "wait",
        }
    }
}

/// One task of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// What it does.
    pub kind: TaskKind,
    /// Where its time is charged.
    pub category: CategoryId,
    /// The stream whose turn it takes.
    pub stream: StreamIndex,
    /// Priority of what it sends.
    pub priority: Priority,
    /// Named by a compute or collective task whose end one later task waits for.
    pub handle: Option<Handle>,
    /// Layer of the model (`u16::MAX` where none), for circuits and timelines.
    pub layer: u16,
    /// Micro-batch (`u16::MAX` where none), for circuits and timelines.
    pub micro_batch: u16,
}

impl Task {
    /// A task of the main stream without handle, layer and micro-batch.
    pub fn new(kind: TaskKind, category: CategoryId) -> Self {
        Self {
            kind,
            category,
            stream: StreamIndex(0),
            priority: Priority(0),
            handle: None,
            layer: u16::MAX,
            micro_batch: u16::MAX,
        }
    }

    /// Its collective, if it is one.
    pub fn collective(&self) -> Option<&Collective> {
        match &self.kind {
            TaskKind::Collective(collective) => Some(collective),
            _ => None,
        }
    }
}
