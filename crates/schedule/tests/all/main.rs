//! The behavior of the schedulers, in one binary: thirty of them took ten minutes to link.

mod common;

mod allocate;
mod allocation_by_hand;
mod allocation_quality;
mod allocation_replays;
mod allocation_static;
mod allocation_sticky;
mod batches;
mod behavior;
mod coloring;
mod coloring_classes;
mod decompose_previous;
mod epoch_runs;
mod fabric_routes;
mod hybrid;
mod hysteresis;
mod matching;
mod matching_exact;
mod nics;
mod permutation;
mod plane_moves;
mod planes;
mod planes_rules;
mod public_matrix;
mod relay;
mod relay_circuits;
mod relay_exact;
mod relay_paths;
mod rotor_slots;
mod routing_rules;
mod steps;
mod switches;
mod systems;
mod topoopt;
mod topoopt_rules;
