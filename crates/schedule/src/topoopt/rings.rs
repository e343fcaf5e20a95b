//! Cycles for ring all-reduces: which groups get how many, and with which strides.

use std::collections::BinaryHeap;

use super::links::Links;
use super::request::{RingCycle, RingGroup, RoutedEdge, Strides, TopoRequest};
use rustc_hash::FxHashMap;

/// Divides so many ports of each server among the groups and joins their cycles.
pub(super) fn place(request: &TopoRequest, ports: u32, links: &mut Links) -> Vec<RingCycle> {
    let counts = count_cycles(request, ports);
    let mut cycles = Vec::new();
    for (index, (group, &count)) in request.rings.iter().zip(&counts).enumerate() {
        let strides = match request.strides {
            Strides::Geometric => select_strides(group.members.len(), count),
            Strides::One => vec![1; count],
        };
        for stride in strides {
            for (a, b) in edges(&group.members, stride) {
                links.add(a, b);
            }
            cycles.push(RingCycle { group: index as u32, stride: stride as u32 });
        }
    }
    cycles
}

/// The index of the first cycle of each group that has a circuit for every edge, and its edges.
fn first_whole(
    request: &TopoRequest,
    cycles: &[RingCycle],
    claims: &mut Claims,
) -> Vec<(usize, Vec<(u32, u32)>)> {
    let mut first: Vec<(usize, Vec<(u32, u32)>)> = Vec::new();
    for (index, cycle) in cycles.iter().enumerate() {
        let has_one = first.last().is_some_and(|entry| cycles[entry.0].group == cycle.group);
        if !has_one && let Some(edges) = claims.whole(request, *cycle) {
            first.push((index, edges));
        }
    }
    first
}

/// Edges of cycles that no circuit is left for. Circuits that cycles share belong to the
/// first whole one of each group, then to other whole ones, then to what is left.
pub(super) fn routed_edges(
    request: &TopoRequest,
    cycles: &[RingCycle],
    links: &Links,
) -> Vec<RoutedEdge> {
    let mut claims = Claims::new(links);
    let mut is_whole = vec![false; cycles.len()];
    for (index, _) in first_whole(request, cycles, &mut claims) {
        is_whole[index] = true;
    }
    for (cycle, is_whole) in cycles.iter().zip(&mut is_whole) {
        *is_whole = *is_whole || claims.whole(request, *cycle).is_some();
    }
    let mut routed = Vec::new();
    for (index, cycle) in cycles.iter().enumerate().filter(|(index, _)| !is_whole[*index]) {
        let members = &request.rings[cycle.group as usize].members;
        let edges = edges(members, cycle.stride as usize).filter(|&(a, b)| !claims.take(a, b));
        routed.extend(edges.map(|edge| RoutedEdge { cycle: index as u32, edge }));
    }
    routed
}

/// Which circuits cycles have taken for themselves.
struct Claims<'a> {
    links: &'a Links,
    taken: FxHashMap<(u32, u32), u32>,
}

impl<'a> Claims<'a> {
    fn new(links: &'a Links) -> Self {
        Self { links, taken: FxHashMap::default() }
    }

    /// Takes one circuit of a pair, if there is one that nobody has taken.
    fn take(&mut self, a: u32, b: u32) -> bool {
        let taken = self.taken.entry((a.min(b), a.max(b))).or_insert(0);
        let is_free = *taken < self.links.count(a, b);
        *taken += u32::from(is_free);
        is_free
    }

    /// Takes the circuits of every edge of a cycle, or of none; the edges if it could.
    fn whole(&mut self, request: &TopoRequest, cycle: RingCycle) -> Option<Vec<(u32, u32)>> {
        let members = &request.rings[cycle.group as usize].members;
        let edges: Vec<(u32, u32)> = edges(members, cycle.stride as usize).collect();
        let free = edges.iter().take_while(|&&(a, b)| self.take(a, b)).count();
        if free == edges.len() {
            return Some(edges);
        }
        for (a, b) in &edges[..free] {
            *self.taken.get_mut(&(*a.min(b), *a.max(b))).expect("taken before") -= 1;
        }
        None
    }
}

/// Cycles of each group: the group with most bytes per cycle gets the next one, as long as every
/// member has ring ports for it.
fn count_cycles(request: &TopoRequest, ports: u32) -> Vec<usize> {
    let mut free = vec![ports; request.servers as usize];
    let mut counts = vec![0; request.rings.len()];
    let mut queue: BinaryHeap<(bool, u64, std::cmp::Reverse<usize>)> = request
        .rings
        .iter()
        .enumerate()
        .filter(|(_, group)| group.members.len() > 1 && group.edge_bytes > 0)
        .map(|(index, group)| (true, group.edge_bytes, std::cmp::Reverse(index)))
        .collect();
    while let Some((_, _, std::cmp::Reverse(index))) = queue.pop() {
        let group = &request.rings[index];
        let need = ports_of_cycle(group.members.len());
        if group.members.iter().any(|&member| free[member as usize] < need) {
            continue;
        }
        for &member in &group.members {
            free[member as usize] -= need;
        }
        counts[index] += 1;
        let share = group.edge_bytes / (counts[index] as u64 + 1);
        queue.push((false, share, std::cmp::Reverse(index)));
    }
    counts
}

/// Ports of each server for rings: their share of all bytes, rounded up as TopoOpt does, but at
/// least one cycle, and at least one port for the rest if there is any.
pub(super) fn ports_by_bytes(request: &TopoRequest) -> u32 {
    let ring_bytes: f64 =
        request.rings.iter().map(|g| g.edge_bytes as f64 * edge_count(g) as f64).sum();
    let rest_bytes: f64 = request.demand.iter().filter(|d| d.0 != d.1).map(|d| d.2 as f64).sum();
    if ring_bytes == 0.0 {
        return 0;
    }
    let share = ring_bytes / (ring_bytes + rest_bytes);
    let ports = (f64::from(request.degree) * share).ceil() as u32;
    ports.max(2).min(max_ports(request))
}

/// Ports of a server that rings may have: all, but for one for the rest if there is any.
pub(super) fn max_ports(request: &TopoRequest) -> u32 {
    request.degree - u32::from(has_rest(request) && request.degree > 2)
}

/// Whether servers send each other anything that is no ring.
pub(super) fn has_rest(request: &TopoRequest) -> bool {
    request.demand.iter().any(|&(from, to, bytes)| from != to && bytes > 0)
}

/// A cycle of two is one circuit.
fn ports_of_cycle(members: usize) -> u32 {
    if members == 2 { 1 } else { 2 }
}

fn edge_count(group: &RingGroup) -> usize {
    match group.members.len() {
        0 | 1 => 0,
        n => n,
    }
}

/// The pairs that a cycle joins.
pub(super) fn edges(members: &[u32], stride: usize) -> impl Iterator<Item = (u32, u32)> {
    let n = members.len();
    let count = match n {
        0 | 1 => 0,
        2 => 1,
        n => n,
    };
    (0..count).map(move |i| (members[i], members[(i + stride) % n]))
}

/// `count` strides up to n/2, coprime to n, near the geometric progression `(n/2)^(i/count)`.
///
/// A stride and its negative are one duplex cycle. If there are fewer coprime strides than
/// cycles, they are repeated.
fn select_strides(n: usize, count: usize) -> Vec<usize> {
    let mut left = totients(n);
    let mut strides = Vec::with_capacity(count);
    let ratio = (n as f64 / 2.0).powf(1.0 / count.max(1) as f64);
    for step in 0..count {
        if left.is_empty() {
            left = totients(n);
        }
        let target = ratio.powf(step as f64);
        let distance = |stride: usize| (stride as f64 / target).ln().abs();
        let nearest = (0..left.len())
            .min_by(|&x, &y| distance(left[x]).total_cmp(&distance(left[y])))
            .expect("1 is coprime to every n");
        strides.push(left.remove(nearest));
    }
    strides.sort_unstable();
    strides
}

/// Strides whose steps visit all n members, up to n/2.
fn totients(n: usize) -> Vec<usize> {
    (1..=(n / 2).max(1)).filter(|&stride| gcd(stride, n) == 1).collect()
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_coprime_distinct_and_begin_with_1() {
        for n in 2..200 {
            for count in 1..5 {
                let strides = select_strides(n, count);
                assert_eq!(strides.len(), count);
                assert_eq!(strides[0], 1, "n {n} count {count}");
                assert!(strides.iter().all(|&stride| gcd(stride, n) == 1));
                let distinct = strides.windows(2).filter(|pair| pair[0] != pair[1]).count() + 1;
                assert_eq!(distinct, count.min(totients(n).len()), "n {n} count {count}");
            }
        }
    }

    #[test]
    fn strides_grow_geometrically() {
        assert_eq!(select_strides(16, 3), [1, 3, 5]);
        assert_eq!(select_strides(1024, 2), [1, 23]);
    }

    #[test]
    fn a_cycle_of_two_is_one_circuit() {
        assert_eq!(edges(&[4, 9], 1).collect::<Vec<_>>(), [(4, 9)]);
        assert_eq!(edges(&[4], 1).count(), 0);
        assert_eq!(edges(&[0, 1, 2, 3, 4], 2).count(), 5);
    }
}
