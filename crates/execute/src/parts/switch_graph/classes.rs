//! Switches that no server can tell apart, as one.
//!
//! Bytes that are spread evenly over all shortest paths load the switches of a *class* alike, if
//! every switch of it has as many links of each kind to every other class: the coarsest such
//! partition is found by color refinement (Berkholz, Bonsma and Grohe, Theory of Computing Systems
//! 2017). The spines of a leaf-spine network are one class, the aggregation switches of a pod are,
//! and all cores. Switches with servers are a class where they have the same servers, link by link:
//! those of separate planes, or those of a set of rails that the groups of NICs do not tell apart.

use super::config::{Bundle, SwitchGraph};
use crate::parts::lost_nics::LostNics;
use rustc_hash::FxHashMap;

/// A switch's end of a link of a server: the group of NICs among all servers, and which of its
/// links.
type Attached = (u32, u32);

/// The class of each switch, for NICs in groups of so many links.
pub(super) fn classes(graph: &SwitchGraph, per_group: usize, lost: &LostNics) -> Vec<u32> {
    let neighbors = graph.neighbors();
    let parts = components(&neighbors);
    let mut attached: Vec<Vec<Attached>> = vec![Vec::new(); neighbors.len()];
    let ports = graph.server_ports();
    for (port, &switch) in graph.switch_of_port.iter().enumerate() {
        if !lost.is_working((port / ports) as u32, (port % ports) as u32) {
            continue;
        }
        let end = ((port / per_group) as u32, (port % per_group) as u32);
        attached[switch as usize].push(end);
    }
    refined(first_colors(&attached, &neighbors, &parts), &neighbors)
}

/// Which part of the graph each switch is in.
pub(super) fn components(neighbors: &[Vec<(u32, Bundle)>]) -> Vec<u32> {
    let mut part = vec![u32::MAX; neighbors.len()];
    let mut count = 0;
    for root in 0..neighbors.len() {
        if part[root] != u32::MAX {
            continue;
        }
        part[root] = count;
        let mut open = vec![root];
        while let Some(switch) = open.pop() {
            for &(other, _) in &neighbors[switch] {
                if part[other as usize] == u32::MAX {
                    part[other as usize] = count;
                    open.push(other as usize);
                }
            }
        }
        count += 1;
    }
    part
}

/// One color for all switches without servers, one for those with the same servers if they are
/// alike, and one for each other switch.
fn first_colors(
    attached: &[Vec<Attached>],
    neighbors: &[Vec<(u32, Bundle)>],
    parts: &[u32],
) -> Vec<u32> {
    let mut sets: FxHashMap<Vec<u32>, Vec<usize>> = FxHashMap::default();
    for (switch, ends) in attached.iter().enumerate() {
        let mut groups: Vec<u32> = ends.iter().map(|end| end.0).collect();
        groups.sort_unstable();
        sets.entry(groups).or_default().push(switch);
    }
    let mut colors = vec![0; attached.len()];
    let mut next = 1;
    let mut sets: Vec<(Vec<u32>, Vec<usize>)> = sets.into_iter().collect();
    sets.sort_unstable_by_key(|(_, members)| members[0]);
    for (groups, members) in sets {
        if groups.is_empty() {
            continue;
        }
        let alike = are_alike(&members, attached, neighbors, parts);
        for (place, &switch) in members.iter().enumerate() {
            next += u32::from(place > 0 && !alike);
            colors[switch] = next;
        }
        next += 1;
    }
    colors
}

/// Whether switches with the same servers can be one: each server's links lead to them in the same
/// order, and those of one part of the graph have the same neighbors.
fn are_alike(
    members: &[usize],
    attached: &[Vec<Attached>],
    neighbors: &[Vec<(u32, Bundle)>],
    parts: &[u32],
) -> bool {
    if members.len() == 1 {
        return true;
    }
    // each member has the links of the same numbers, group by group
    let mut links: FxHashMap<u32, Vec<(u32, usize)>> = FxHashMap::default();
    for (rank, &switch) in members.iter().enumerate() {
        for &(group, link) in &attached[switch] {
            links.entry(group).or_default().push((link, rank));
        }
    }
    let mut orders = links.into_values().map(|mut order| {
        order.sort_unstable();
        order
    });
    let first = orders.next();
    if orders.any(|order| Some(&order) != first.as_ref()) {
        return false;
    }
    let around = |switch: usize| {
        let mut list: Vec<_> = neighbors[switch]
            .iter()
            .map(|(other, by)| (*other, by.count, by.rate.0, by.delay.0))
            .collect();
        list.sort_unstable();
        list
    };
    let mut of_part: FxHashMap<u32, Vec<_>> = FxHashMap::default();
    members.iter().all(|&switch| {
        let mine = around(switch);
        *of_part.entry(parts[switch]).or_insert_with(|| mine.clone()) == mine
    })
}

/// Divides colors until switches of one have as many links of each kind to each color.
fn refined(mut colors: Vec<u32>, neighbors: &[Vec<(u32, Bundle)>]) -> Vec<u32> {
    let mut count = 0;
    loop {
        let mut numbers = FxHashMap::default();
        let next: Vec<u32> = neighbors
            .iter()
            .zip(&colors)
            .map(|(around, &color)| {
                let mut kinds: FxHashMap<(u32, u64, u64), u64> = FxHashMap::default();
                for (other, by) in around {
                    let kind = (colors[*other as usize], by.rate.0, by.delay.0);
                    *kinds.entry(kind).or_insert(0) += u64::from(by.count);
                }
                let mut kinds: Vec<_> = kinds.into_iter().collect();
                kinds.sort_unstable();
                let new = numbers.len() as u32;
                *numbers.entry((color, kinds)).or_insert(new)
            })
            .collect();
        colors = next;
        if numbers.len() == count {
            return colors;
        }
        count = numbers.len();
    }
}
