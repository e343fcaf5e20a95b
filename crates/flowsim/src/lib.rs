//! Flow-level network: fluid flows that share links max-min fairly.
//!
//! A flow has a size and crosses a path of links. At any instant the rates of all flows are the
//! unique max-min fair allocation (Bertsekas and Gallager, *Data Networks*, section 6.5.2): no
//! rate can grow without shrinking one that is no greater. Rates change only when flows start or
//! finish or when a link changes its rate; an event recomputes just the links that it reaches.
//!
//! Assumes that sources are always ready to send and that sharing adapts at once. Leaves out
//! propagation delay, packets, queues and congestion control; the caller adds latencies.
//!
//! Flows of a [`PriorityNetwork`] have strict priorities: each class shares like this what the
//! higher ones leave.
//!
//! The parts: [`FlowNetwork`] (events and time), `priority` (classes of flows), `store` (flows,
//! paths, who crosses which link), `level` (the fair level of one link), `repair` (all links
//! consistent again after a change), `grid` and `all_to_all` (the same for all-to-alls that are
//! alone on their links), `progress` (bytes sent and finish times), `withdrawal` (what is left),
//! `span` (times in whole ps).

#![warn(unreachable_pub)]

mod all_to_all;
mod grid;
mod ids;
mod level;
mod network;
mod priority;
mod progress;
mod repair;
mod span;
mod store;
mod withdrawal;

pub use ids::{FlowId, LinkId};
pub use network::{FlowNetwork, Statistics};
pub use priority::{EqualFlows, PriorityFlowId, PriorityNetwork};
