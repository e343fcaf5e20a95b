//! Demand to circuits or permutations: pure functions, one algorithm per file.
//!
//! - [`allocation`]: the circuits of a region under a port budget (MixNet, and better);
//! - [`coloring`]: edge coloring, and permutations over a circuit fabric;
//! - [`hybrid`]: schedules of matchings alongside a packet switch;
//! - [`matching`]: matchings of largest weight, bipartite and general, each with its dual;
//! - [`permutation`]: schedules of matchings that serve a demand exactly;
//! - [`relay`]: routing over circuits, the EPS and third servers, and circuits for such routing;
//! - [`rotornet`], [`helios`], [`xnest_plus`]: how these systems set their switches;
//! - [`steps`]: the same as steps of a controller, from what it has measured;
//! - [`topoopt`]: fixed circuits and routes for a whole job.
//!
//! Nothing here is random, and nothing depends on hash order: the same request yields the same
//! result. Whatever can be certified (a bound, a dual, a checker) comes with its certificate.

#![warn(unreachable_pub)]

pub mod allocation;
pub mod coloring;
mod demand;
pub mod epochs;
pub mod helios;
pub mod hops;
pub mod hybrid;
pub mod matching;
pub mod permutation;
pub mod relay;
pub mod rotornet;
pub mod steps;
mod switches;
pub mod topoopt;
pub mod xnest_plus;

pub use allocation::{
    Allocation, ChangeBatch, ChangeBatches, EpsRates, MAX_NUMA_NODES, MAX_SERVERS, NicCircuit,
    NicEnd, PlaneMoves, PlaneNics, Planes, Request, allocate, allocate_within, assign_from,
    assign_partial, assign_planes, assign_planes_from, changed_pairs, check_planes, circuits_of,
    line_bound, makespans, map_nics, map_working_nics, plan_batches, port_bound, route,
};
