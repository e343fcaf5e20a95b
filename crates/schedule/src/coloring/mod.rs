//! Edge coloring of bipartite multigraphs: many circuits at once, divided into matchings.
//!
//! A multigraph whose vertices have at most D edges each is the union of D matchings (König,
//! 1916). [`color_edges`] finds them: one color per switch plane, per spine or per slot.
//! [`route_permutation`] uses it for permutations over a circuit fabric of two or three tiers;
//! [`check_coloring`] and [`check_route`] verify any result, whoever made it.
//!
//! Method: an Euler split divides a graph into two halves of half the degrees, so an even number
//! of colors is halved again and again (Gabow, 1976). An odd number is divided into halves that
//! together need one color too many; the smallest class is then dissolved into the others along
//! alternating paths (König's own proof). Linear time per halving; a dissolved class costs at most
//! (vertices)^2, and about (edges) * log(vertices) on graphs met in practice.
//!
//! Leaves out general graphs, whose coloring may need more colors than the largest degree
//! (Shannon, 1949).

mod check;
mod color;
mod euler;
mod fabric;
mod graph;
mod repair;

pub use check::{check_coloring, check_route};
pub use color::color_edges;
pub use fabric::{FabricRoute, FabricShape, NONE, Pods, route_permutation};
pub use graph::Bipartite;
