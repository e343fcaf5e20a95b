//! The nouns that every other crate shares: units, the task graph of a step, the network it runs
//! on, and the plan of a collective.
//!
//! Plain data and its validation; no I/O and no algorithms. Everything here is columnar, so that
//! Python can hand over a step of tens of thousands of GPUs as a few arrays.

#![warn(unreachable_pub)]

pub mod by_name;
#[macro_use]
mod choice;
mod invalid;
#[macro_use]
pub mod record;
pub mod network;
pub mod ocs;
pub mod task_graph;
pub mod units;

pub use choice::Choice;
pub use invalid::Invalid;
pub use network::{AllToAll, Circuit, LocalPace, NvSwitch, StartUp, SwitchSums};
pub use ocs::{Allocator, Failures, Fibers, FirstAllToAll, RelayCost, SwitchTiming};
pub use record::{Pairs, PerServer, Record};
pub use task_graph::{
    Amount, Category, CategoryId, CategoryUse, Collective, CollectiveKind, DemandId, DemandTable,
    FamilyId, GroupFamily, GroupId, Handle, Inside, Payload, Peer, Priority, PurposeId, Role,
    RoleId, ServerId, StreamIndex, TableId, Tag, Task, TaskGraph, TaskIndex, TaskKind, WorkerId,
    WorkerTable,
};
pub use units::{Bytes, CircuitRate, Duration, Rate, Time};
