//! Matching of largest weight in a general graph.

use super::forest::Forest;
use super::search;
use super::weights::{NONE, check_weights};
use lightloom_model::Invalid;

/// An odd set of vertices and its dual.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blossom {
    /// Its vertices, sorted.
    pub members: Vec<u32>,
    /// Above 0; covers every pair inside.
    pub dual: i64,
}

/// A matching of pairs, and its proof.
///
/// For every pair `(u, v)`: `doubled_duals[u] + doubled_duals[v]` plus twice the duals of the
/// blossoms that hold both is at least twice the weight; and all `doubled_duals` plus
/// `dual * (members - 1)` of every blossom add up to twice the weight of the matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneralMatching {
    /// Partner of each vertex; [`NONE`] if alone.
    pub mate: Vec<u32>,
    /// Sum of the weights of the pairs.
    pub weight: i128,
    /// Twice the dual of each vertex: duals are halves (Edmonds, 1965).
    pub doubled_duals: Vec<i64>,
    /// Odd sets whose dual is not 0; any two are disjoint or nested.
    pub blossoms: Vec<Blossom>,
}

/// Finds a matching of largest weight; `weights` is a symmetric matrix, the diagonal is ignored.
///
/// Edmonds' primal-dual method (1965) in O(n^3) (Gabow, 1976; Galil, 1986): see `search`.
///
/// # Errors
/// If sizes do not fit, the matrix is not symmetric, or a weight is beyond
/// [`super::MAX_WEIGHT`].
pub fn match_general(vertices: usize, weights: &[i64]) -> Result<GeneralMatching, Invalid> {
    check_weights(vertices, vertices, weights)?;
    for vertex in 0..vertices {
        for other in 0..vertex {
            if weights[vertex * vertices + other] != weights[other * vertices + vertex] {
                let text = format!("weights of ({vertex}, {other}) and ({other}, {vertex}) differ");
                return Err(Invalid(text));
            }
        }
    }
    let mut forest = Forest::new(vertices, weights);
    while search::improve(&mut forest) {}
    Ok(read(&forest))
}

fn read(forest: &Forest) -> GeneralMatching {
    let mut mate = forest.mate.clone();
    let mut fourfold = 0;
    for (vertex, partner) in (0..).zip(&mut mate) {
        if *partner != NONE {
            let weight = forest.doubled_weight(vertex, *partner);
            fourfold += i128::from(weight);
            // A pair of weight 0 is tight only if all its duals are 0: both may be alone.
            *partner = if weight > 0 { *partner } else { NONE };
        }
    }
    let mut blossoms: Vec<Blossom> = forest
        .blossoms()
        .filter(|&(_, dual)| dual > 0)
        .map(|(members, dual)| Blossom { members, dual })
        .collect();
    blossoms.sort_by(|one, other| one.members.cmp(&other.members));
    GeneralMatching { mate, weight: fourfold / 4, doubled_duals: forest.duals.clone(), blossoms }
}
