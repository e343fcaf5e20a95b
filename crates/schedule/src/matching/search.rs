//! One search of the primal-dual method: duals change until the matching can be improved.
//!
//! Alternating trees grow from every vertex that is alone and has a dual above 0. Nodes at even
//! distance from the root are *outer*, those at odd distance *inner*, others *free*. Lowering the
//! duals of outer vertices and raising those of inner ones keeps tree edges tight, until
//!
//! - the dual of an outer vertex is 0: it may be alone, so the path to it is flipped;
//! - an edge from an outer to a free node is tight: the tree grows, or reaches a node that is
//!   alone, and the path is flipped;
//! - an edge between outer nodes is tight: an odd cycle, which is shrunk, or a path between two
//!   trees, which is flipped;
//! - the dual of an inner blossom is 0: it is opened.
//!
//! A search takes O(n^2) and after it one vertex less is alone with a dual above 0.

use super::forest::{Forest, Link};
use super::weights::NONE;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Label {
    Free,
    Outer,
    Inner,
}

struct Search<'a> {
    forest: &'a mut Forest,
    /// Per outermost node.
    label: Vec<Label>,
    /// The edge over which an inner node was reached: outer vertex, inner vertex.
    entry: Vec<Link>,
    /// The edge of least slack from another outer node to a free or outer node, and that slack,
    /// which for inner nodes is the least number there is: nothing improves on it.
    best: Vec<Link>,
    slack: Vec<i64>,
    /// Outer vertices whose edges have not been looked at.
    open: Vec<u32>,
    seen: Vec<u32>,
    stamp: u32,
}

/// Improves the matching; says whether there was anything to improve.
pub(super) fn improve(forest: &mut Forest) -> bool {
    let nodes = forest.nodes();
    let mut search = Search {
        forest,
        label: vec![Label::Free; nodes],
        entry: vec![[NONE; 2]; nodes],
        best: vec![[NONE; 2]; nodes],
        slack: vec![i64::MAX; nodes],
        open: Vec::new(),
        seen: vec![0; nodes],
        stamp: 0,
    };
    for vertex in 0..search.forest.vertices() {
        if search.forest.mate[vertex] == NONE && search.forest.duals[vertex] > 0 {
            search.make_outer(search.forest.top[vertex]);
        }
    }
    if search.open.is_empty() {
        return false;
    }
    loop {
        search.scan();
        search.shift();
        if search.events() {
            break;
        }
    }
    forest.dissolve_idle();
    true
}

impl Search<'_> {
    fn make_outer(&mut self, node: u32) {
        self.label[node as usize] = Label::Outer;
        self.forest.list(node, &mut self.open);
    }

    fn label_of(&self, vertex: u32) -> Label {
        self.label[self.forest.top[vertex as usize] as usize]
    }

    /// Looks at the edges of new outer vertices.
    fn scan(&mut self) {
        while let Some(vertex) = self.open.pop() {
            let node = self.forest.top[vertex as usize];
            let dual = self.forest.duals[vertex as usize];
            let row = self.forest.doubled_row(vertex);
            let ends = row.iter().zip(&self.forest.duals).zip(&self.forest.top);
            for (other, ((weight, other_dual), &top)) in (0..).zip(ends) {
                let slack = dual + other_dual - weight;
                if slack < self.slack[top as usize] && top != node {
                    self.slack[top as usize] = slack;
                    self.best[top as usize] = [vertex, other];
                }
            }
        }
    }

    /// Changes duals by as much as keeps every edge covered.
    fn shift(&mut self) {
        let mut by = i64::MAX;
        for vertex in 0..self.forest.vertices() as u32 {
            if self.label_of(vertex) == Label::Outer {
                by = by.min(self.forest.duals[vertex as usize]);
            }
        }
        let tops: Vec<u32> =
            (0..self.forest.nodes() as u32).filter(|&node| self.forest.is_top(node)).collect();
        for &node in &tops {
            let slack = self.slack[node as usize];
            match self.label[node as usize] {
                Label::Free => by = by.min(slack),
                // Even: both ends have changed alike since the beginning, when all was even.
                Label::Outer => by = by.min(slack / 2),
                Label::Inner if self.forest.is_blossom(node) => by = by.min(self.forest.dual(node)),
                Label::Inner => {}
            }
        }
        if by == 0 {
            return;
        }
        for vertex in 0..self.forest.vertices() as u32 {
            match self.label_of(vertex) {
                Label::Outer => self.forest.duals[vertex as usize] -= by,
                Label::Inner => self.forest.duals[vertex as usize] += by,
                Label::Free => {}
            }
        }
        for &node in &tops {
            let (slack, blossom) = match self.label[node as usize] {
                Label::Free => (by, 0),
                Label::Outer => (2 * by, by),
                Label::Inner => (0, -by),
            };
            if self.slack[node as usize] != i64::MAX {
                self.slack[node as usize] -= slack;
            }
            if self.forest.is_blossom(node) {
                self.forest.shift_dual(node, blossom);
            }
        }
    }

    /// Does what the new duals admit; says whether the matching was improved.
    fn events(&mut self) -> bool {
        for vertex in 0..self.forest.vertices() as u32 {
            if self.label_of(vertex) == Label::Outer && self.forest.duals[vertex as usize] == 0 {
                self.flip(vertex, NONE);
                return true;
            }
        }
        for node in 0..self.forest.nodes() as u32 {
            if !self.forest.is_top(node) {
                continue;
            }
            let tight = self.slack[node as usize] == 0;
            let improved = match self.label[node as usize] {
                Label::Free if tight => self.grow(node),
                Label::Outer if tight => self.join(self.best[node as usize]),
                Label::Inner if self.forest.is_blossom(node) && self.forest.dual(node) == 0 => {
                    self.open_blossom(node);
                    false
                }
                _ => false,
            };
            if improved {
                return true;
            }
        }
        false
    }

    /// Takes a free node into a tree, or matches it if it is alone.
    fn grow(&mut self, node: u32) -> bool {
        let [outer, inner] = self.best[node as usize];
        let mate = self.forest.mate[self.forest.base(node) as usize];
        if mate == NONE {
            self.forest.rotate(node, inner);
            self.forest.mate[inner as usize] = outer;
            self.flip(outer, inner);
            return true;
        }
        self.make_inner(node, [outer, inner]);
        self.make_outer(self.forest.top[mate as usize]);
        false
    }

    fn make_inner(&mut self, node: u32, entry: Link) {
        self.label[node as usize] = Label::Inner;
        self.entry[node as usize] = entry;
        self.slack[node as usize] = i64::MIN;
    }

    /// Matches an outer vertex to one outside (or to nobody) and flips the path to its root.
    fn flip(&mut self, vertex: u32, outside: u32) {
        let (mut vertex, mut outside) = (vertex, outside);
        loop {
            let node = self.forest.top[vertex as usize];
            let before = self.forest.mate[self.forest.base(node) as usize];
            self.forest.rotate(node, vertex);
            self.forest.mate[vertex as usize] = outside;
            if before == NONE {
                return;
            }
            let inner = self.forest.top[before as usize];
            [vertex, outside] = self.entry[inner as usize];
            self.forest.rotate(inner, outside);
            self.forest.mate[outside as usize] = vertex;
        }
    }

    /// The inner and the outer node above an outer node in its tree.
    fn above(&self, node: u32) -> Option<(u32, u32)> {
        let mate = self.forest.mate[self.forest.base(node) as usize];
        if mate == NONE {
            return None;
        }
        let inner = self.forest.top[mate as usize];
        Some((inner, self.forest.top[self.entry[inner as usize][0] as usize]))
    }

    /// A tight edge between outer nodes: improves the matching, or shrinks a cycle.
    fn join(&mut self, edge: Link) -> bool {
        let [near, other] = edge.map(|vertex| self.forest.top[vertex as usize]);
        let Some(ancestor) = self.common_ancestor(near, other) else {
            self.flip(edge[0], edge[1]);
            self.flip(edge[1], edge[0]);
            return true;
        };
        let (mut nodes, mut links) = self.path_up(near, ancestor);
        nodes.reverse();
        links.reverse();
        for link in &mut links {
            link.reverse();
        }
        nodes.insert(0, ancestor);
        links.push(edge);
        let (more_nodes, more_links) = self.path_up(other, ancestor);
        nodes.extend(more_nodes);
        links.extend(more_links);
        self.shrink(nodes, links);
        false
    }

    fn common_ancestor(&mut self, one: u32, other: u32) -> Option<u32> {
        self.stamp += 1;
        let mut node = Some(one);
        while let Some(here) = node {
            self.seen[here as usize] = self.stamp;
            node = self.above(here).map(|pair| pair.1);
        }
        let mut node = Some(other);
        while let Some(here) = node {
            if self.seen[here as usize] == self.stamp {
                return Some(here);
            }
            node = self.above(here).map(|pair| pair.1);
        }
        None
    }

    /// Nodes from an outer node to below an ancestor, and the link from each to the next.
    fn path_up(&self, from: u32, ancestor: u32) -> (Vec<u32>, Vec<Link>) {
        let (mut nodes, mut links) = (Vec::new(), Vec::new());
        let mut node = from;
        while node != ancestor {
            let base = self.forest.base(node);
            let (inner, above) = self.above(node).expect("an ancestor above");
            let [outside, inside] = self.entry[inner as usize];
            nodes.extend([node, inner]);
            links.extend([[base, self.forest.mate[base as usize]], [inside, outside]]);
            node = above;
        }
        (nodes, links)
    }

    fn shrink(&mut self, nodes: Vec<u32>, links: Vec<Link>) {
        for &node in &nodes {
            if self.label[node as usize] == Label::Inner {
                self.forest.list(node, &mut self.open);
            }
        }
        let blossom = self.forest.shrink(nodes, links);
        self.label[blossom as usize] = Label::Outer;
        self.find_best(blossom);
    }

    /// Finds the best edge of a node from scratch.
    fn find_best(&mut self, node: u32) {
        self.slack[node as usize] = i64::MAX;
        for vertex in 0..self.forest.vertices() as u32 {
            if self.forest.top[vertex as usize] != node && self.label_of(vertex) == Label::Outer {
                let inside = self.forest.nearest(node, vertex);
                let slack = self.forest.slack(vertex, inside);
                if slack < self.slack[node as usize] {
                    self.slack[node as usize] = slack;
                    self.best[node as usize] = [vertex, inside];
                }
            }
        }
    }

    /// Opens an inner blossom: the even way round its cycle stays in the tree.
    fn open_blossom(&mut self, blossom: u32) {
        let entry = self.entry[blossom as usize];
        let place = self.forest.place(blossom, entry[1]);
        let (nodes, links) = self.forest.dissolve(blossom);
        let count = nodes.len();
        for &node in &nodes {
            self.label[node as usize] = Label::Free;
        }
        let forward = place % 2 == 1;
        let (mut at, mut reached) = (place, entry);
        loop {
            self.make_inner(nodes[at], reached);
            if at == 0 {
                break;
            }
            let outer = if forward { at + 1 } else { at - 1 };
            self.slack[nodes[outer] as usize] = i64::MAX;
            self.make_outer(nodes[outer]);
            let next = if forward { (outer + 1) % count } else { outer - 1 };
            reached = if forward { links[outer] } else { [links[next][1], links[next][0]] };
            at = next;
        }
        for &node in &nodes {
            if self.label[node as usize] == Label::Free {
                self.find_best(node);
            }
        }
    }
}
