//! The graph that is colored.

use lightloom_model::Invalid;

/// A bipartite multigraph.
#[derive(Debug, Clone, Copy)]
pub struct Bipartite<'a> {
    /// Number of vertices on the left.
    pub(crate) left: u32,
    /// Number of vertices on the right.
    pub(crate) right: u32,
    /// Left and right end of each edge.
    pub(crate) edges: &'a [(u32, u32)],
}

impl<'a> Bipartite<'a> {
    /// So many vertices on the left and on the right, and the ends of each edge, which may occur
    /// several times.
    ///
    /// # Errors
    /// If an edge ends at a vertex that is not there.
    pub fn new(left: u32, right: u32, edges: &'a [(u32, u32)]) -> Result<Self, Invalid> {
        if i32::try_from(edges.len()).is_err() {
            return Err(Invalid(format!("{} edges are more than 2^31", edges.len())));
        }
        match edges.iter().position(|&(a, b)| a >= left || b >= right) {
            Some(edge) => {
                let (a, b) = edges[edge];
                let text = format!("edge {edge} joins {a} and {b}: only {left} and {right} there");
                Err(Invalid(text))
            }
            None => Ok(Self { left, right, edges }),
        }
    }

    /// The most edges at one vertex: the number of colors that are needed, and enough.
    pub fn max_degree(&self) -> u32 {
        let [left, right] = self.degrees();
        left.into_iter().chain(right).max().unwrap_or(0)
    }

    pub(super) fn degrees(&self) -> [Vec<u32>; 2] {
        let mut degrees = [vec![0; self.left as usize], vec![0; self.right as usize]];
        for &(a, b) in self.edges {
            degrees[0][a as usize] += 1;
            degrees[1][b as usize] += 1;
        }
        degrees
    }
}

/// An edge while the graph is colored.
#[derive(Clone, Copy)]
pub(super) struct Edge {
    pub left: u32,
    pub right: u32,
    /// Its index in the result.
    pub id: u32,
}
