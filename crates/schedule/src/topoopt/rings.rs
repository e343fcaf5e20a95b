//! Cycles for ring all-reduces: which groups get how many, and with which strides.

use std::collections::BinaryHeap;

use super::links::Links;
use super::request::{RingCycle, RingGroup, Strides, TopoRequest};

/// Divides the ring ports among the groups and joins their cycles.
pub(super) fn place(request: &TopoRequest, links: &mut Links) -> Vec<RingCycle> {
    let counts = count_cycles(request);
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

/// Cycles of each group: the group with most bytes per cycle gets the next one, as long as every
/// member has ring ports for it.
fn count_cycles(request: &TopoRequest) -> Vec<usize> {
    let budget = ring_ports(request);
    let mut free = vec![budget; request.servers as usize];
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
fn ring_ports(request: &TopoRequest) -> u32 {
    let ring_bytes: f64 =
        request.rings.iter().map(|g| g.edge_bytes as f64 * edge_count(g) as f64).sum();
    let rest_bytes: f64 = request.demand.iter().filter(|d| d.0 != d.1).map(|d| d.2 as f64).sum();
    if ring_bytes == 0.0 {
        return 0;
    }
    let share = ring_bytes / (ring_bytes + rest_bytes);
    let ports = (f64::from(request.degree) * share).ceil() as u32;
    let spare = u32::from(rest_bytes > 0.0 && request.degree > 2);
    ports.max(2).min(request.degree - spare)
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
