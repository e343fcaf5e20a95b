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
mod euler;
mod fabric;
mod repair;

pub use check::{check_coloring, check_route};
pub use fabric::{FabricRoute, FabricShape, NONE, Pods, route_permutation};

use euler::{Edge, Halving};
use lightloom_model::Invalid;

/// A bipartite multigraph.
#[derive(Debug, Clone, Copy)]
pub struct Bipartite<'a> {
    /// Number of vertices on the left.
    pub left: u32,
    /// Number of vertices on the right.
    pub right: u32,
    /// Left and right end of each edge; an edge may occur several times.
    pub edges: &'a [(u32, u32)],
}

impl Bipartite<'_> {
    /// Checks that every edge ends at vertices that are there.
    ///
    /// # Errors
    /// If one does not.
    pub fn validate(&self) -> Result<(), Invalid> {
        if i32::try_from(self.edges.len()).is_err() {
            return Err(Invalid(format!("{} edges are more than 2^31", self.edges.len())));
        }
        let (left, right) = (self.left, self.right);
        match self.edges.iter().position(|&(a, b)| a >= left || b >= right) {
            Some(edge) => {
                let (a, b) = self.edges[edge];
                let text = format!("edge {edge} joins {a} and {b}: only {left} and {right} there");
                Err(Invalid(text))
            }
            None => Ok(()),
        }
    }

    /// The most edges at one vertex: the number of colors that are needed, and enough.
    pub fn max_degree(&self) -> u32 {
        let [left, right] = self.degrees();
        left.into_iter().chain(right).max().unwrap_or(0)
    }

    fn degrees(&self) -> [Vec<u32>; 2] {
        let mut degrees = [vec![0; self.left as usize], vec![0; self.right as usize]];
        for &(a, b) in self.edges {
            degrees[0][a as usize] += 1;
            degrees[1][b as usize] += 1;
        }
        degrees
    }
}

/// Gives every edge one of `colors` colors, so that no two edges of a color meet.
///
/// More colors than [`Bipartite::max_degree`] are never needed but save time, most so a power of
/// two.
///
/// # Errors
/// If an edge ends at no vertex, or a vertex has more edges than there are colors.
pub fn color_edges(graph: &Bipartite, colors: u32) -> Result<Vec<u32>, Invalid> {
    graph.validate()?;
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
