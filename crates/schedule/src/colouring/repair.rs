//! One colour less: a class is dissolved into the others along alternating paths.

use super::euler::Edge;

const NONE: u32 = u32::MAX;

/// Where each colour is at each vertex: an index into `edges`.
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

    fn get(&self, side: usize, vertex: usize, colour: usize) -> u32 {
        self.at[side][vertex * self.count + colour]
    }

    fn set(&mut self, edge: u32, colour: usize, value: u32) {
        for (side, vertex) in self.ends(edge).into_iter().enumerate() {
            self.at[side][vertex * self.count + colour] = value;
        }
    }

    fn missing(&self, side: usize, vertex: usize) -> usize {
        let row = &self.at[side][vertex * self.count..(vertex + 1) * self.count];
        row.iter().position(|&edge| edge == NONE).expect("a vertex with an edge to colour")
    }

    /// The edges that alternate between two colours, beginning with the first at a right vertex.
    fn chain(&self, start: usize, colours: [usize; 2]) -> Vec<u32> {
        let mut chain = Vec::new();
        let mut vertex = start;
        loop {
            let step = chain.len() % 2;
            // Right, left, right ... with the colours in turn.
            let edge = self.get(1 - step, vertex, colours[step]);
            if edge == NONE {
                return chain;
            }
            chain.push(edge);
            vertex = self.ends(edge)[step];
        }
    }
}

/// Recolours edges that have `count + 1` colours from `first` on with `count`, as their degrees
/// admit.
pub fn dissolve(edges: &[Edge], vertices: [usize; 2], colours: &mut [u32], first: u32, count: u32) {
    let mut sizes = vec![0_u32; count as usize + 1];
    for edge in edges {
        sizes[(colours[edge.id as usize] - first) as usize] += 1;
    }
    let smallest = (0..=count).min_by_key(|&c| sizes[c as usize]).expect("a colour");
    let count = count as usize;
    let at = vertices.map(|number| vec![NONE; number * count]);
    let mut table = Table { edges, at, count };
    let mut open = Vec::new();
    for (index, edge) in (0..).zip(edges) {
        match (colours[edge.id as usize] - first) as usize {
            colour if colour == smallest as usize => open.push(index),
            // The last colour takes the place of the class that goes.
            colour if colour == count => table.set(index, smallest as usize, index),
            colour => table.set(index, colour, index),
        }
    }
    for edge in open {
        insert(&mut table, edge);
    }
    for vertex in 0..vertices[0] {
        for colour in 0..count {
            let edge = table.get(0, vertex, colour);
            if edge != NONE {
                colours[edges[edge as usize].id as usize] = first + colour as u32;
            }
        }
    }
}

fn insert(table: &mut Table, edge: u32) {
    let [left, right] = table.ends(edge);
    let colours = [table.missing(0, left), table.missing(1, right)];
    // The left end misses the first colour, so the chain from the right never gets there: it
    // arrives on the left by the first colour only. Swapped, it sets the first colour free.
    let chain = table.chain(right, colours);
    for (step, &link) in chain.iter().enumerate() {
        table.set(link, colours[step % 2], NONE);
    }
    for (step, &link) in chain.iter().enumerate() {
        table.set(link, colours[1 - step % 2], link);
    }
    table.set(edge, colours[0], edge);
}
