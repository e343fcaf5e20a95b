//! The simulated network and its engine, by components:
//!
//! - `clock`: the time and the events ahead;
//! - `fabric`: moves packets over links (`links`, `slab`, `queueing`, `shared_buffer`, `pfc`,
//!   `event_log`);
//! - `flows`, `nics`, `routing`: progress of flows, wake-ups of NICs, shortest paths;
//! - `core`: all of these, as a transport (and, read-only, any observer) sees them;
//! - `idle`: what a flow takes on an idle network;
//! - `balancing`, `detours`: choices among equal paths by load, and other paths of a dragonfly;
//! - `plane_watch`: planes on which NICs hear nothing, and what they send again by others;
//! - `engine`: the run, generic over the transport;
//! - `build`: a network with the transport that is asked for;
//! - `any`: the engine with any transport, for callers that need not know which.

pub(crate) mod any;
mod balancing;
pub(crate) mod build;
mod clock;
pub(crate) mod core;
mod crossing;
mod detours;
pub(crate) mod engine;
mod event_log;
mod fabric;
mod failures;
mod flows;
pub(crate) mod halves;
mod idle;
mod links;
mod nics;
pub(crate) mod pair;
mod pfc;
mod plane_watch;
mod queueing;
pub(crate) mod routing;
mod shared_buffer;
mod slab;
pub(crate) mod telemetry;
