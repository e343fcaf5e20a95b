//! Demand of a region to circuits under a port budget (MixNet section 5.2, and better).
//!
//! [`allocate`] turns the demand of a region into circuits and says how the bytes are split between
//! those circuits and the EPS; [`route`] does only the second part, for circuits that are there.
//! [`map_nics`] picks the NICs that end each circuit.
//!
//! Assumes that circuits are duplex, that a circuit switch can join any two ports of a region, and
//! that bytes flow at line rate in one hop: start-up latency and the copies inside a server are
//! left to whoever simulates.

mod algorithm1;
mod allocate;
mod batches;
mod best;
mod bound;
mod branching;
mod buildable;
mod circulant;
mod enumerate;
mod fewest_moves;
mod greedy;
mod hysteresis;
mod nic_swaps;
mod nics;
mod packing;
mod parametric;
mod planes;
mod problem;
mod request;
mod routing;
mod search;
mod sticky;

pub use allocate::allocate;
pub use batches::{ChangeBatch, ChangeBatches, plan_batches};
pub use bound::{line_bound, port_bound};
pub use buildable::{PlaneNics, circuits_of};
pub use fewest_moves::{PlaneMoves, assign_planes_from};
pub use hysteresis::allocate_within;
pub use nics::{MAX_NUMA_NODES, NicCircuit, NicEnd, map_nics, map_working_nics};
pub use planes::{Planes, assign_from, assign_partial, assign_planes, check_planes};
pub use request::{Allocation, EpsRates, MAX_SERVERS, Request, changed_pairs};
pub use routing::{makespans, route};
