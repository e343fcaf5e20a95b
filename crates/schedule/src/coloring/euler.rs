//! Coloring by Euler splits.

use super::graph::Edge;
use super::repair;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Unknown,
    First,
    Second,
}

impl Half {
    fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }
}

/// What the recursion shares: the result and its working space.
pub(super) struct Halving {
    /// Color of every edge, by number.
    pub colors: Vec<u32>,
    vertices: [usize; 2],
    /// The edge at each vertex that has no partner yet.
    waiting: [Vec<u32>; 2],
    /// The edge that each edge is paired with at its left and right end.
    partner: [Vec<u32>; 2],
    half: Vec<Half>,
    spare: Vec<Edge>,
}

impl Halving {
    pub(super) fn new(left: usize, right: usize, edges: usize) -> Self {
        Self {
            colors: vec![0; edges],
            vertices: [left, right],
            waiting: [vec![NONE; left], vec![NONE; right]],
            partner: [vec![NONE; edges], vec![NONE; edges]],
            half: vec![Half::Unknown; edges],
            spare: Vec::with_capacity(edges),
        }
    }

    /// Gives the edges, of which no vertex has more than `count`, the colors from `first` on.
    pub(super) fn color(&mut self, edges: &mut [Edge], first: u32, count: u32) {
        if edges.is_empty() {
            return;
        }
        if count == 1 {
            for edge in edges {
                self.colors[edge.id as usize] = first;
            }
            return;
        }
        if count == 2 {
            self.split(edges);
            for (edge, &half) in edges.iter().zip(&self.half) {
                self.colors[edge.id as usize] = first + u32::from(half == Half::Second);
            }
            return;
        }
        let tight = count % 2 == 1 && self.max_degree(edges) == count;
        // Halves of an odd degree are rounded up, and have one color too many together.
        let each = if tight { count.div_ceil(2) } else { count / 2 };
        let middle = self.split_and_sort(edges);
        let (one, two) = edges.split_at_mut(middle);
        self.color(one, first, each);
        self.color(two, first + each, each);
        if tight {
            repair::dissolve(edges, self.vertices, &mut self.colors, first, count);
        }
    }

    fn max_degree(&mut self, edges: &[Edge]) -> u32 {
        // `waiting` is free between two splits, and NONE everywhere.
        let [left, right] = &mut self.waiting;
        let mut largest = 0;
        for edge in edges {
            for degree in [&mut left[edge.left as usize], &mut right[edge.right as usize]] {
                *degree = degree.wrapping_add(1);
                largest = largest.max(*degree + 1);
            }
        }
        for edge in edges {
            left[edge.left as usize] = NONE;
            right[edge.right as usize] = NONE;
        }
        largest
    }

    /// Puts the first half before the second and returns where the second begins.
    fn split_and_sort(&mut self, edges: &mut [Edge]) -> usize {
        self.split(edges);
        self.spare.clear();
        let mut middle = 0;
        for index in 0..edges.len() {
            if self.half[index] == Half::First {
                edges[middle] = edges[index];
                middle += 1;
            } else {
                self.spare.push(edges[index]);
            }
        }
        edges[middle..].copy_from_slice(&self.spare);
        middle
    }

    /// Divides the edges so that each vertex has half of its edges, rounded up or down, in either
    /// half.
    ///
    /// Edges are paired at each vertex (one may stay alone). Pairs chain the edges to paths and
    /// even cycles, along which the halves alternate.
    fn split(&mut self, edges: &[Edge]) {
        self.pair(edges);
        self.half[..edges.len()].fill(Half::Unknown);
        for start in 0..edges.len() {
            if self.half[start] == Half::Unknown {
                self.half[start] = Half::First;
                self.alternate(start, 0);
                self.alternate(start, 1);
            }
        }
    }

    fn pair(&mut self, edges: &[Edge]) {
        for (index, edge) in (0..).zip(edges) {
            for (side, vertex) in [(0, edge.left), (1, edge.right)] {
                let waiting = &mut self.waiting[side][vertex as usize];
                let partner = &mut self.partner[side];
                partner[index as usize] = *waiting;
                if *waiting == NONE {
                    *waiting = index;
                } else {
                    partner[*waiting as usize] = index;
                    *waiting = NONE;
                }
            }
        }
        for edge in edges {
            self.waiting[0][edge.left as usize] = NONE;
            self.waiting[1][edge.right as usize] = NONE;
        }
    }

    /// Follows the chain from an edge over its end on one side.
    fn alternate(&mut self, start: usize, side: usize) {
        let (mut edge, mut side, mut half) = (start, side, Half::First);
        loop {
            let next = self.partner[side][edge];
            if next == NONE || self.half[next as usize] != Half::Unknown {
                return;
            }
            edge = next as usize;
            side = 1 - side;
            half = half.other();
            self.half[edge] = half;
        }
    }
}
