//! Vertices, the odd sets ("blossoms") that they are shrunk to, and their duals.
//!
//! A *node* is a vertex or a blossom; blossoms are numbered from n on. A blossom is an odd cycle of
//! nodes, joined by *links*: tight edges between vertices of neighbors on the cycle. Inside it all
//! but one of its vertices, the *base*, are matched to each other, and [`Forest::rotate`] makes any
//! vertex the base. While a blossom exists the duals of its vertices change alike, so which of them
//! is nearest to a vertex outside is settled when it is made.

use super::weights::NONE;

/// Two vertices, each in another node.
pub(super) type Link = [u32; 2];

#[derive(Clone, Default)]
struct Cycle {
    /// Nodes in order; the first holds the base.
    nodes: Vec<u32>,
    /// From each node to the next.
    links: Vec<Link>,
    dual: i64,
    /// For each vertex outside, the vertex in here with the least slack to it.
    nearest: Vec<u32>,
}

/// A matching, its duals and blossoms. Every edge has slack 0 or more, and slack 0 where matched.
pub(super) struct Forest {
    vertices: usize,
    /// Twice the weight of every pair, 0 where it is negative.
    doubled: Vec<i64>,
    pub mate: Vec<u32>,
    /// Twice the dual of every vertex.
    pub duals: Vec<i64>,
    /// The outermost node that holds each vertex.
    pub top: Vec<u32>,
    /// The innermost blossom that holds each node.
    parent: Vec<u32>,
    base: Vec<u32>,
    cycles: Vec<Cycle>,
    unused: Vec<u32>,
}

impl Forest {
    pub(super) fn new(vertices: usize, weights: &[i64]) -> Self {
        let n = vertices as u32;
        let nodes = n + n / 2;
        let mut forest = Self {
            vertices,
            doubled: weights.iter().map(|&weight| 2 * weight.max(0)).collect(),
            mate: vec![NONE; vertices],
            duals: vec![0; vertices],
            top: (0..n).collect(),
            parent: vec![NONE; nodes as usize],
            base: (0..nodes).collect(),
            cycles: vec![Cycle::default(); vertices / 2],
            unused: (n..nodes).rev().collect(),
        };
        for vertex in 0..vertices {
            forest.doubled[vertex * vertices + vertex] = 0;
        }
        forest.begin();
        forest
    }

    /// Duals that cover every edge, and a matching of edges that are tight.
    ///
    /// All duals are even, so that slacks between vertices whose duals change alike stay even.
    fn begin(&mut self) {
        for vertex in 0..self.vertices {
            let largest = self.doubled_row(vertex as u32).iter().max().copied().unwrap_or(0) / 2;
            self.duals[vertex] = largest + largest % 2;
        }
        for vertex in 0..self.vertices {
            let (mut smallest, mut partner) = (0, NONE);
            let row = self.doubled_row(vertex as u32);
            for (other, (weight, dual)) in (0..).zip(row.iter().zip(&self.duals)) {
                let need = weight - dual;
                let alone = need == smallest && self.mate[other as usize] == NONE;
                if other as usize != vertex && (need > smallest || (alone && need > 0)) {
                    (smallest, partner) = (need, other);
                }
            }
            self.duals[vertex] = smallest;
            if partner != NONE && self.mate[vertex] == NONE && self.mate[partner as usize] == NONE {
                self.mate[vertex] = partner;
                self.mate[partner as usize] = vertex as u32;
            }
        }
    }

    pub(super) fn vertices(&self) -> usize {
        self.vertices
    }

    pub(super) fn nodes(&self) -> usize {
        self.parent.len()
    }

    pub(super) fn is_blossom(&self, node: u32) -> bool {
        node as usize >= self.vertices
    }

    /// Whether a node is there and in no other.
    pub(super) fn is_top(&self, node: u32) -> bool {
        let there = !self.is_blossom(node) || !self.cycle(node).nodes.is_empty();
        there && self.parent[node as usize] == NONE
    }

    pub(super) fn base(&self, node: u32) -> u32 {
        self.base[node as usize]
    }

    pub(super) fn dual(&self, blossom: u32) -> i64 {
        self.cycle(blossom).dual
    }

    pub(super) fn shift_dual(&mut self, blossom: u32, by: i64) {
        self.cycles[blossom as usize - self.vertices].dual += by;
    }

    pub(super) fn doubled_row(&self, vertex: u32) -> &[i64] {
        &self.doubled[vertex as usize * self.vertices..][..self.vertices]
    }

    /// Twice the weight of a pair.
    pub(super) fn doubled_weight(&self, one: u32, other: u32) -> i64 {
        self.doubled[one as usize * self.vertices + other as usize]
    }

    /// Twice the slack of an edge between two outermost nodes.
    pub(super) fn slack(&self, one: u32, other: u32) -> i64 {
        self.duals[one as usize] + self.duals[other as usize] - self.doubled_weight(one, other)
    }

    /// The vertex of a node that has the least slack to a vertex outside.
    pub(super) fn nearest(&self, node: u32, to: u32) -> u32 {
        if self.is_blossom(node) { self.cycle(node).nearest[to as usize] } else { node }
    }

    /// Adds the vertices of a node to a list.
    pub(super) fn list(&self, node: u32, into: &mut Vec<u32>) {
        if self.is_blossom(node) {
            for &child in &self.cycle(node).nodes {
                self.list(child, into);
            }
        } else {
            into.push(node);
        }
    }

    /// Vertices and dual of every blossom.
    pub(super) fn blossoms(&self) -> impl Iterator<Item = (Vec<u32>, i64)> {
        let there = self.vertices as u32..self.nodes() as u32;
        there.filter(|&blossom| !self.cycle(blossom).nodes.is_empty()).map(|blossom| {
            let mut members = Vec::new();
            self.list(blossom, &mut members);
            members.sort_unstable();
            (members, self.dual(blossom))
        })
    }

    /// Makes a vertex of a node the one that is matched outside, or alone.
    pub(super) fn rotate(&mut self, node: u32, vertex: u32) {
        if self.base(node) == vertex {
            return;
        }
        let place = self.place(node, vertex);
        let cycle = &mut self.cycles[node as usize - self.vertices];
        cycle.nodes.rotate_left(place);
        cycle.links.rotate_left(place);
        let (nodes, links) = (cycle.nodes.clone(), cycle.links.clone());
        self.base[node as usize] = vertex;
        self.rotate(nodes[0], vertex);
        for index in (1..nodes.len()).step_by(2) {
            let [near, other] = links[index];
            self.rotate(nodes[index], near);
            self.rotate(nodes[index + 1], other);
            self.mate[near as usize] = other;
            self.mate[other as usize] = near;
        }
    }

    /// Makes a blossom of a cycle of outermost nodes, the first of which holds the base.
    pub(super) fn shrink(&mut self, nodes: Vec<u32>, links: Vec<Link>) -> u32 {
        let blossom = self.unused.pop().expect("nested odd sets are fewer than half the vertices");
        self.base[blossom as usize] = self.base(nodes[0]);
        let nearest = (0..self.vertices as u32).map(|to| self.nearest_of(&nodes, to)).collect();
        for &node in &nodes {
            self.parent[node as usize] = blossom;
        }
        self.cycles[blossom as usize - self.vertices] = Cycle { nodes, links, dual: 0, nearest };
        self.raise(blossom);
        blossom
    }

    fn nearest_of(&self, nodes: &[u32], to: u32) -> u32 {
        let candidates = nodes.iter().map(|&node| self.nearest(node, to));
        candidates.min_by_key(|&vertex| self.slack(vertex, to)).expect("a cycle of nodes")
    }

    /// Removes an outermost blossom; its nodes become outermost. Returns its cycle, beginning at
    /// the base.
    pub(super) fn dissolve(&mut self, blossom: u32) -> (Vec<u32>, Vec<Link>) {
        let cycle = std::mem::take(&mut self.cycles[blossom as usize - self.vertices]);
        for &node in &cycle.nodes {
            self.parent[node as usize] = NONE;
            self.raise(node);
        }
        self.unused.push(blossom);
        (cycle.nodes, cycle.links)
    }

    /// Removes outermost blossoms whose dual is 0 until there is none.
    pub(super) fn dissolve_idle(&mut self) {
        let mut open: Vec<u32> = (self.vertices as u32..self.nodes() as u32).collect();
        while let Some(node) = open.pop() {
            if self.is_blossom(node) && self.is_top(node) && self.dual(node) == 0 {
                open.extend(self.dissolve(node).0);
            }
        }
    }

    /// Place on a blossom's cycle of the node that holds a vertex.
    pub(super) fn place(&self, blossom: u32, vertex: u32) -> usize {
        let mut node = vertex;
        while self.parent[node as usize] != blossom {
            node = self.parent[node as usize];
        }
        let nodes = &self.cycle(blossom).nodes;
        nodes.iter().position(|&other| other == node).expect("a vertex of the blossom")
    }

    fn cycle(&self, blossom: u32) -> &Cycle {
        &self.cycles[blossom as usize - self.vertices]
    }

    fn raise(&mut self, node: u32) {
        let mut members = Vec::new();
        self.list(node, &mut members);
        for vertex in members {
            self.top[vertex as usize] = node;
        }
    }
}
