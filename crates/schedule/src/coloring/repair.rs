//! One color less: a class is dissolved into the others along alternating paths.

use super::graph::Edge;

const NONE: u32 = u32::MAX;

/// Where each color is at each vertex: an index into `edges`.
struct Table<'a> {
    edges: &'a [Edge],
    at: [Vec<u32>; 2],
    count: usize,
}

impl Table<'_> {
    fn ends(&self, edge: u32) -> [usize; 2] {
        let edge = self.edges[edge as usize];
        [edge.left as usize, edge.right as usize]
    }

    fn get(&self, side: usize, vertex: usize, color: usize) -> u32 {
        self.at[side][vertex * self.count + color]
    }

    fn set(&mut self, edge: u32, color: usize, value: u32) {
        for (side, vertex) in self.ends(edge).into_iter().enumerate() {
            self.at[side][vertex * self.count + color] = value;
        }
    }

    fn missing(&self, side: usize, vertex: usize) -> usize {
        let row = &self.at[side][vertex * self.count..(vertex + 1) * self.count];
        row.iter().position(|&edge| edge == NONE).expect("a vertex with an edge to color")
    }

    /// The edges that alternate between two colors, beginning with the first at a right vertex.
    fn chain(&self, start: usize, colors: [usize; 2]) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut vertex = start;
        loop {
            let step = chain.len() % 2;
            // Right, left, right ... with the colors in turn.
            let edge = self.get(1 - step, vertex, colors[step]);
            if edge == NONE {
                return chain;
            }
            chain.push(edge);
            vertex = self.ends(edge)[step];
        }
    }
}

/// Recolors edges that have `count + 1` colors from `first` on with `count`, as their degrees
/// admit.
pub(super) fn dissolve(
    edges: &[Edge],
    vertices: [usize; 2],
    colors: &mut [u32],
    first: u32,
    count: u32,
) {
    let mut sizes = vec![0_u32; count as usize + 1];
    for edge in edges {
        sizes[(colors[edge.id as usize] - first) as usize] += 1;
    }
    let smallest = (0..=count).min_by_key(|&c| sizes[c as usize]).expect("a color");
    let count = count as usize;
    let at = vertices.map(|number| vec![NONE; number * count]);
    let mut table = Table { edges, at, count };
    let mut open = Vec::new();
    for (index, edge) in (0..).zip(edges) {
        match (colors[edge.id as usize] - first) as usize {
            color if color == smallest as usize => open.push(index),
            // The last color takes the place of the class that goes.
            color if color == count => table.set(index, smallest as usize, index),
            color => table.set(index, color, index),
        }
    }
    for edge in open {
        insert(&mut table, edge);
    }
    for vertex in 0..vertices[0] {
        for color in 0..count {
            let edge = table.get(0, vertex, color);
            if edge != NONE {
                colors[edges[edge as usize].id as usize] = first + color as u32;
            }
        }
    }
}

fn insert(table: &mut Table, edge: u32) {
    let [left, right] = table.ends(edge);
    let colors = [table.missing(0, left), table.missing(1, right)];
    // The left end misses the first color, so the chain from the right never gets there: it
    // arrives on the left by the first color only. Swapped, it sets the first color free.
    let chain = table.chain(right, colors);
    for (step, &link) in chain.iter().enumerate() {
        table.set(link, colors[step % 2], NONE);
    }
    for (step, &link) in chain.iter().enumerate() {
        table.set(link, colors[1 - step % 2], link);
    }
    table.set(edge, colors[0], edge);
}
