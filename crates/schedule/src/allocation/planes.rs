//! Several circuit switches ("planes") per region: NIC i of every server is on plane i.
//!
//! A circuit must then end at NICs that its planes can join, and each NIC ends one circuit.
//!
//! - *Duplex* planes switch both directions of a NIC together: a circuit takes the same NIC at both
//!   ends, which is an edge coloring of a multigraph. It may not exist (Shannon, 1949): a triangle
//!   with `d / 2` circuits on each side needs `3 d / 2` planes.
//! - With *crossed* fibers, NIC 2 j sends on plane 2 j and receives on plane 2 j + 1, and NIC
//!   2 j + 1 the other way round. A circuit joins NIC 2 j of one end to NIC 2 j + 1 of the other,
//!   so that both its directions meet. With an even number of planes that always exists: orient
//!   circuits along Euler tours, so that half of each server's circuits leave it, and color the
//!   bipartite multigraph of senders and receivers with half as many colors as there are planes
//!   (Petersen, 1891; König, 1916). The last of an odd number of planes is duplex: it takes a
//!   matching of all servers that need every NIC, and there is an assignment if there is one.
//!
//! With NICs out of order neither is certain, and a bounded search decides: a result is circuits
//! on NICs, a proof that there are none, or that the bound was reached.

use super::nic_swaps::put_back;
use super::nics::{NicCircuit, NicEnd};
use crate::coloring::{Bipartite, color_edges};
use crate::matching::match_general;
use lightloom_model::Fibers;

/// What became of circuits on planes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Planes {
    /// The NICs of each circuit, sorted.
    Assigned(Vec<NicCircuit>),
    /// There is no assignment, for this reason.
    Infeasible(String),
    /// None was found within the bound, nor was it proved that there is none. The circuits that do
    /// have NICs, and the pairs that are left over.
    NotFound(Vec<NicCircuit>, Vec<(u32, u32)>),
}

/// Assigns circuits (n x n, symmetric) to planes.
///
/// `working` says which NICs work, n x planes. `effort` bounds the search, in steps.
///
/// # Panics
/// If `circuits` is not n x n, or `working` not n x planes, for a whole number of planes.
pub fn assign_planes(circuits: &[u16], working: &[bool], fibers: Fibers, effort: u32) -> Planes {
    let n = circuits.len().isqrt();
    assert_eq!(n * n, circuits.len(), "circuits are n x n");
    let planes = working.len().checked_div(n).unwrap_or(0);
    assert_eq!(n * planes, working.len(), "working NICs are n x planes");
    let mut board = Board::new(n, planes, working, edges_of(circuits, n), fibers);
    if let Some(reason) = board.impossible(circuits) {
        return Planes::Infeasible(reason);
    }
    let can_color = planes.is_multiple_of(2) || n <= MAX_EXACT;
    if fibers == Fibers::Crossed && working.iter().all(|&works| works) && can_color {
        return match crossed(n, planes, &board.edges) {
            Some(assigned) => Planes::Assigned(assigned),
            None => Planes::Infeasible(format!(
                "no circuits on the last of {planes} planes join all servers that have {planes}"
            )),
        };
    }
    board.place_all(effort, vec![0; board.edges.len()]);
    if board.waiting.is_empty() {
        return Planes::Assigned(board.circuits());
    }
    let kept = board.clone();
    match board.search(effort) {
        Some(true) => Planes::Assigned(board.circuits()),
        Some(false) => Planes::Infeasible("every assignment was tried".into()),
        None => {
            let pair = |&edge: &usize| {
                let (a, b) = kept.edges[edge];
                (a as u32, b as u32)
            };
            Planes::NotFound(kept.circuits(), kept.waiting.iter().map(pair).collect())
        }
    }
}

/// Says which of `n` servers has more circuits than working NICs, if one has.
pub(super) fn lacking_nics(circuits: &[u16], working: &[bool], n: usize) -> Option<String> {
    let planes = working.len().checked_div(n).unwrap_or(0);
    (0..n).find_map(|server| {
        let row = &circuits[server * n..(server + 1) * n];
        let wanted: u32 = row.iter().map(|&count| u32::from(count)).sum();
        let nics = &working[server * planes..(server + 1) * planes];
        let there = nics.iter().filter(|&&works| works).count();
        (wanted as usize > there)
            .then(|| format!("server {server} has {wanted} circuits but {there} working NICs"))
    })
}

/// As many circuits on NICs as are found within `effort` steps: what can be built of circuits that
/// have no assignment. Arguments and panics as [`assign_planes`].
pub fn assign_partial(
    circuits: &[u16],
    working: &[bool],
    fibers: Fibers,
    effort: u32,
) -> Vec<NicCircuit> {
    let n = circuits.len().isqrt();
    let planes = working.len().checked_div(n).unwrap_or(0);
    let mut board = Board::new(n, planes, working, edges_of(circuits, n), fibers);
    board.place_all(effort, vec![0; board.edges.len()]);
    board.circuits()
}

/// As [`assign_partial`], starting from circuits that are there: those that are still wanted stay
/// on their NICs unless another circuit finds no others, and return as far as swaps permit.
pub fn assign_from(
    circuits: &[u16],
    working: &[bool],
    fibers: Fibers,
    previous: &[NicCircuit],
    effort: u32,
) -> Vec<NicCircuit> {
    let n = circuits.len().isqrt();
    let planes = working.len().checked_div(n).unwrap_or(0);
    let mut board = Board::new(n, planes, working, edges_of(circuits, n), fibers);
    let moved = board.adopt(previous);
    let there = board.circuits();
    board.place_all(effort, moved);
    let mut placed = board.circuits();
    put_back(&mut placed, working, fibers, planes, &there);
    placed
}

/// By how much more a circuit that is there resists being moved than a new one.
const RESISTANCE: u32 = 3;

fn edges_of(circuits: &[u16], n: usize) -> Vec<(usize, usize)> {
    let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
    pairs.flat_map(|(a, b)| std::iter::repeat_n((a, b), usize::from(circuits[a * n + b]))).collect()
}

/// Maximum number of servers for which the last plane's matching is sought; it takes (servers)^3.
const MAX_EXACT: usize = 256;

/// Circuits on crossed planes, all of whose NICs work; `None` if there is no assignment.
fn crossed(n: usize, planes: usize, edges: &[(usize, usize)]) -> Option<Vec<NicCircuit>> {
    if planes.is_multiple_of(2) {
        return Some(two_factors(n, planes, edges));
    }
    let mut degree = vec![0_usize; n];
    for &(a, b) in edges {
        degree[a] += 1;
        degree[b] += 1;
    }
    let needs = |server: usize| i64::from(degree[server] == planes);
    let mut weights = vec![0_i64; n * n];
    for &(a, b) in edges {
        weights[a * n + b] = needs(a) + needs(b);
        weights[b * n + a] = needs(a) + needs(b);
    }
    let mate = match_general(n, &weights).expect("a symmetric matrix").mate;
    let mut on_last: Vec<NicCircuit> = Vec::new();
    let mut is_joined = vec![false; n];
    let last = planes as u32 - 1;
    let mut rest = edges.to_vec();
    rest.retain(|&(a, b)| {
        let is_matched = mate[a] as usize == b && weights[a * n + b] > 0 && !is_joined[a];
        if is_matched {
            (is_joined[a], is_joined[b]) = (true, true);
            let end = |server: usize| NicEnd { server: server as u32, nic: last };
            on_last.push(join(end(a), end(b)));
        }
        !is_matched
    });
    if (0..n).any(|server| needs(server) > 0 && !is_joined[server]) {
        return None;
    }
    on_last.extend(two_factors(n, planes - 1, &rest));
    on_last.sort_unstable();
    Some(on_last)
}

/// Circuits on an even number of crossed planes, all of whose NICs work.
fn two_factors(n: usize, planes: usize, edges: &[(usize, usize)]) -> Vec<NicCircuit> {
    let arcs = euler_orientation(n, edges);
    let ends: Vec<(u32, u32)> = arcs.iter().map(|&(a, b)| (a as u32, b as u32)).collect();
    let graph = Bipartite { left: n as u32, right: n as u32, edges: &ends };
    let colors = color_edges(&graph, planes as u32 / 2).expect("half of each server's circuits");
    let circuit = |(&(from, to), &color): (&(u32, u32), &u32)| {
        join(NicEnd { server: from, nic: 2 * color }, NicEnd { server: to, nic: 2 * color + 1 })
    };
    let mut circuits: Vec<NicCircuit> = ends.iter().zip(&colors).map(circuit).collect();
    circuits.sort_unstable();
    circuits
}

fn join(one: NicEnd, other: NicEnd) -> NicCircuit {
    let (a, b) = if one.server < other.server { (one, other) } else { (other, one) };
    NicCircuit { a, b }
}

/// Directs every edge so that at each vertex as many leave as arrive, but for one if it has an odd
/// number: these are first joined to an additional vertex.
fn euler_orientation(n: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut at: Vec<Vec<usize>> = vec![Vec::new(); n + 1];
    let mut all = edges.to_vec();
    let mut degree = vec![0_usize; n];
    for &(a, b) in edges {
        degree[a] += 1;
        degree[b] += 1;
    }
    all.extend(
        (0..n).filter(|&vertex| !degree[vertex].is_multiple_of(2)).map(|vertex| (vertex, n)),
    );
    for (edge, &(a, b)) in all.iter().enumerate() {
        at[a].push(edge);
        at[b].push(edge);
    }
    let mut used = vec![false; all.len()];
    let mut arcs = vec![(0, 0); all.len()];
    for start in 0..=n {
        // Each tour ends where it began, as every vertex has an even number of edges.
        let mut here = start;
        while let Some(edge) = at[here].pop() {
            if std::mem::replace(&mut used[edge], true) {
                continue;
            }
            let (a, b) = all[edge];
            let there = if a == here { b } else { a };
            arcs[edge] = (here, there);
            here = there;
        }
    }
    arcs.truncate(edges.len());
    arcs
}

/// Circuits on their way to NICs.
#[derive(Clone)]
struct Board<'a> {
    n: usize,
    planes: usize,
    working: &'a [bool],
    fibers: Fibers,
    edges: Vec<(usize, usize)>,
    /// NIC at the lower end of each circuit; `planes` if it waits for one.
    nic: Vec<usize>,
    /// Circuit at each NIC, n x planes.
    holder: Vec<Option<usize>>,
    /// Circuits without NICs.
    waiting: Vec<usize>,
}

impl<'a> Board<'a> {
    fn new(
        n: usize,
        planes: usize,
        working: &'a [bool],
        edges: Vec<(usize, usize)>,
        fibers: Fibers,
    ) -> Self {
        let waiting = (0..edges.len()).rev().collect();
        let nic = vec![planes; edges.len()];
        Self { n, planes, working, fibers, edges, nic, holder: vec![None; n * planes], waiting }
    }

    /// The NIC at the far end of a circuit.
    fn partner(&self, nic: usize) -> usize {
        self.fibers.partner(nic, self.planes)
    }

    /// Whether both NICs of a circuit work.
    fn works(&self, edge: usize, nic: usize) -> bool {
        let (a, b) = self.edges[edge];
        let far = self.partner(nic);
        self.working[a * self.planes + nic] && self.working[b * self.planes + far]
    }

    /// Circuits that hold the NICs that this one would take.
    fn blockers(&self, edge: usize, nic: usize) -> [Option<usize>; 2] {
        let (a, b) = self.edges[edge];
        let far = self.partner(nic);
        [self.holder[a * self.planes + nic], self.holder[b * self.planes + far]]
    }

    fn put(&mut self, edge: usize, nic: usize) {
        let (a, b) = self.edges[edge];
        let far = self.partner(nic);
        self.nic[edge] = nic;
        self.holder[a * self.planes + nic] = Some(edge);
        self.holder[b * self.planes + far] = Some(edge);
    }

    fn take(&mut self, edge: usize) {
        let ((a, b), nic) = (self.edges[edge], self.nic[edge]);
        let far = self.partner(nic);
        self.nic[edge] = self.planes;
        self.holder[a * self.planes + nic] = None;
        self.holder[b * self.planes + far] = None;
    }

    /// Puts circuits where they lie already, as far as they are wanted and their NICs work; how
    /// much each circuit resists being moved.
    fn adopt(&mut self, previous: &[NicCircuit]) -> Vec<u32> {
        let mut resistance = vec![0; self.edges.len()];
        for NicCircuit { a, b } in previous {
            let pair = (a.server as usize, b.server as usize);
            let first = self.edges.partition_point(|&edge| edge < pair);
            let wanted = self.edges[first..].iter().take_while(|&&edge| edge == pair).count();
            let open = (first..first + wanted).find(|&edge| self.nic[edge] == self.planes);
            let (Some(edge), nic) = (open, a.nic as usize) else { continue };
            let meets = nic < self.planes && self.partner(nic) == b.nic as usize;
            if meets && self.works(edge, nic) && self.blockers(edge, nic) == [None, None] {
                self.put(edge, nic);
                resistance[edge] = RESISTANCE;
            }
        }
        let (nic, planes) = (&self.nic, self.planes);
        self.waiting.retain(|&edge| nic[edge] == planes);
        resistance
    }

    /// Puts circuits on free NICs; where there are none, on those of the circuits that have been
    /// moved least, which then wait themselves.
    fn place_all(&mut self, effort: u32, mut moved: Vec<u32>) {
        let mut stranded = Vec::new();
        for _ in 0..effort {
            let Some(edge) = self.waiting.pop() else { break };
            let cost = |nic: &usize| {
                let blockers = self.blockers(edge, *nic);
                let distinct = if blockers[0] == blockers[1] { 1 } else { 2 };
                let held = blockers.iter().flatten().take(distinct);
                (held.map(|&other| moved[other] + 1).sum::<u32>(), *nic)
            };
            let options = (0..self.planes).filter(|&nic| self.works(edge, nic));
            let Some(nic) = options.min_by_key(cost) else {
                stranded.push(edge);
                continue;
            };
            moved[edge] += 1;
            for other in self.blockers(edge, nic).into_iter().flatten() {
                if self.nic[other] != self.planes {
                    self.take(other);
                    self.waiting.insert(0, other);
                }
            }
            self.put(edge, nic);
        }
        self.waiting.extend(stranded);
    }

    /// Depth-first, the circuit with fewest free NICs next: whether there is an assignment; nothing
    /// if the bound is reached.
    fn search(&mut self, effort: u32) -> Option<bool> {
        for edge in 0..self.edges.len() {
            if self.nic[edge] != self.planes {
                self.take(edge);
            }
        }
        let mut left = effort;
        self.descend(&mut left)
    }

    fn descend(&mut self, left: &mut u32) -> Option<bool> {
        *left = left.checked_sub(1)?;
        let free = |edge: usize| -> Vec<usize> {
            (0..self.planes)
                .filter(|&nic| self.works(edge, nic) && self.blockers(edge, nic) == [None, None])
                .collect()
        };
        let open = (0..self.edges.len()).filter(|&edge| self.nic[edge] == self.planes);
        let Some((options, edge)) = open
            .map(|edge| (free(edge), edge))
            .min_by_key(|(options, edge)| (options.len(), *edge))
        else {
            return Some(true);
        };
        for nic in options {
            self.put(edge, nic);
            match self.descend(left) {
                Some(false) => self.take(edge),
                other => return other,
            }
        }
        Some(false)
    }

    fn circuits(&self) -> Vec<NicCircuit> {
        let placed = (0..self.edges.len()).filter(|&edge| self.nic[edge] != self.planes);
        let mut circuits: Vec<NicCircuit> = placed
            .map(|edge| {
                let ((a, b), nic) = (self.edges[edge], self.nic[edge]);
                let far = self.partner(nic) as u32;
                NicCircuit {
                    a: NicEnd { server: a as u32, nic: nic as u32 },
                    b: NicEnd { server: b as u32, nic: far },
                }
            })
            .collect();
        circuits.sort_unstable();
        circuits
    }

    /// A reason why there can be no assignment, if there is an easy one.
    fn impossible(&self, circuits: &[u16]) -> Option<String> {
        if let Some(reason) = lacking_nics(circuits, self.working, self.n) {
            return Some(reason);
        }
        for (edge, &(a, b)) in self.edges.iter().enumerate() {
            if !(0..self.planes).any(|nic| self.works(edge, nic)) {
                return Some(format!(
                    "servers {a} and {b} have no working NICs that can be joined"
                ));
            }
        }
        if self.fibers == Fibers::Crossed {
            return None;
        }
        let mut sets = self.components(circuits);
        let three =
            |a: usize| (a + 1..self.n).flat_map(move |b| (b + 1..self.n).map(move |c| (b, c)));
        sets.extend((0..self.n).flat_map(|a| three(a).map(move |(b, c)| vec![a, b, c])));
        sets.iter().find_map(|set| self.overfull(set, circuits))
    }

    /// Whether more circuits join servers of a set than its planes can: a plane joins two by two.
    fn overfull(&self, set: &[usize], circuits: &[u16]) -> Option<String> {
        let inside: usize = set
            .iter()
            .flat_map(|&a| set.iter().map(move |&b| usize::from(circuits[a * self.n + b])))
            .sum();
        let max_inside: usize = (0..self.planes)
            .map(|nic| set.iter().filter(|&&a| self.working[a * self.planes + nic]).count() / 2)
            .sum();
        if inside / 2 <= max_inside {
            return None;
        }
        let some: Vec<String> = set.iter().take(8).map(ToString::to_string).collect();
        let more = if set.len() > 8 { ", ..." } else { "" };
        let (wanted, planes, servers) = (inside / 2, self.planes, set.len());
        Some(format!(
            "{wanted} circuits join servers {}{more} to each other, but {planes} planes can join \
             {servers} servers at most {max_inside} times",
            some.join(", ")
        ))
    }

    /// Sets of servers that circuits join, directly or not.
    fn components(&self, circuits: &[u16]) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.n];
        let mut sets = Vec::new();
        for start in 0..self.n {
            let mut set = Vec::new();
            let mut open = vec![start];
            while let Some(a) = open.pop() {
                if !std::mem::replace(&mut seen[a], true) {
                    set.push(a);
                    open.extend((0..self.n).filter(|&b| circuits[a * self.n + b] > 0));
                }
            }
            set.sort_unstable();
            sets.push(set);
        }
        sets
    }
}

/// Checks that NICs work and end one circuit each, that their fibers meet, and that the pairs have
/// the circuits stated.
///
/// # Errors
/// If not: the first thing that is wrong.
pub fn check_planes(
    circuits: &[u16],
    working: &[bool],
    fibers: Fibers,
    assigned: &[NicCircuit],
) -> Result<(), lightloom_model::Invalid> {
    let refuse = |text: String| Err(lightloom_model::Invalid(text));
    let n = circuits.len().isqrt();
    let planes = working.len().checked_div(n).unwrap_or(0);
    let mut used = vec![false; working.len()];
    let mut nics = vec![0_u16; circuits.len()];
    for NicCircuit { a, b } in assigned {
        for end in [a, b] {
            let (server, nic) = (end.server as usize, end.nic as usize);
            if server >= n || nic >= planes || !working[server * planes + nic] {
                return refuse(format!("NIC {nic} of server {server} does not work"));
            }
            if std::mem::replace(&mut used[server * planes + nic], true) {
                return refuse(format!("NIC {nic} of server {server} ends two circuits"));
            }
        }
        if fibers.partner(a.nic as usize, planes) != b.nic as usize {
            return refuse(format!("NICs {} and {} are on no common plane", a.nic, b.nic));
        }
        let (low, high) = (a.server as usize, b.server as usize);
        nics[low * n + high] += 1;
        nics[high * n + low] += 1;
    }
    match (0..n * n).find(|&cell| nics[cell] != circuits[cell]) {
        Some(cell) => {
            let (stated, there) = (circuits[cell], nics[cell]);
            refuse(format!("{there} of {stated} circuits join {} and {}", cell / n, cell % n))
        }
        None => Ok(()),
    }
}
