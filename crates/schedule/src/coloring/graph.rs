//! The graph that is colored.

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
