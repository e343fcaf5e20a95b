//! Coloring of a whole graph: vertices of small degree are merged, then the graph is halved.

use super::euler::Halving;
use super::graph::{Bipartite, Edge};
use lightloom_model::Invalid;

/// Gives every edge one of `colors` colors, so that no two edges of a color meet.
///
/// More colors than [`Bipartite::max_degree`] are never needed but save time, most so a power of
/// two.
///
/// # Errors
/// If an edge ends at no vertex, or a vertex has more edges than there are colors.
pub fn color_edges(graph: &Bipartite, colors: u32) -> Result<Vec<u32>, Invalid> {
    let [left, right] = graph.degrees();
    for (side, degrees) in [("left", &left), ("right", &right)] {
        if let Some(vertex) = degrees.iter().position(|&degree| degree > colors) {
            let degree = degrees[vertex];
            let text =
                format!("{side} vertex {vertex} has {degree} edges but there are {colors} colors");
            return Err(Invalid(text));
        }
    }
    let degree = left.iter().chain(&right).copied().max().unwrap_or(0);
    let (left, right) = (merge(&left, degree), merge(&right, degree));
    let mut edges: Vec<Edge> = (0..)
        .zip(graph.edges)
        .map(|(id, &(a, b))| Edge { left: left.of[a as usize], right: right.of[b as usize], id })
        .collect();
    let mut halving = Halving::new(left.groups, right.groups, edges.len());
    halving.color(&mut edges, 0, colors);
    Ok(halving.colors)
}

struct Merged {
    /// Group of each vertex.
    of: Vec<u32>,
    groups: usize,
}

/// Merges vertices of small degree into groups of at most `limit` edges: what is proper for a group
/// is proper for its vertices, and tables of (groups x colors) are then no larger than the graph.
fn merge(degrees: &[u32], limit: u32) -> Merged {
    let mut group = 0;
    let mut filled = 0;
    let of = degrees
        .iter()
        .map(|&degree| {
            if filled + degree > limit {
                group += 1;
                filled = 0;
            }
            filled += degree;
            group
        })
        .collect();
    Merged { of, groups: group as usize + 1 }
}
