//! Makes sure that servers that talk to each other can reach each other.

use lightloom_model::Invalid;
use rustc_hash::FxHashMap;

use super::links::{Links, Parts};
use super::matching::PairDemand;

/// Joins the parts of the graph that have talking pairs between them.
///
/// Two parts are joined by a free port of each where they have one. A part without free ports has
/// a cycle if servers have two ports or more, so it can give up a circuit without falling apart:
/// the one whose pair wants least.
///
/// # Errors
/// If servers have only one port and more than two must be connected.
pub(super) fn connect(
    talking: &[(u32, u32)],
    demand: &PairDemand,
    links: &mut Links,
) -> Result<(), Invalid> {
    let wants: FxHashMap<(u32, u32), f64> =
        demand.pairs.iter().map(|&(a, b, bytes)| ((a, b), bytes)).collect();
    let mut parts = Parts::of(links);
    for &(a, b) in talking {
        if parts.find(a) == parts.find(b) {
            continue;
        }
        let (near, other) = (give_port(a, links, &wants), give_port(b, links, &wants));
        match (near, other) {
            (Some(near), Some(other)) => {
                links.add(near.0, other.0);
                // The far ends of two circuits that were given up can be joined, too.
                if let (Some(x), Some(y)) = (near.1, other.1) {
                    links.add(x, y);
                }
            }
            _ => {
                return Err(Invalid(format!(
                    "servers {a} and {b} talk but cannot be connected with the ports they have; \
                     give each server at least 2"
                )));
            }
        }
        parts.join(a, b);
    }
    Ok(())
}

/// A server of this part with a free port, and the far end of the circuit given up for it, if any.
fn give_port(
    start: u32,
    links: &mut Links,
    wants: &FxHashMap<(u32, u32), f64>,
) -> Option<(u32, Option<u32>)> {
    let neighbors = links.neighbors();
    let mut part = vec![start];
    let mut seen = vec![false; links.servers()];
    seen[start as usize] = true;
    for index in 0.. {
        let Some(&server) = part.get(index) else { break };
        for &peer in neighbors.of(server) {
            if !seen[peer as usize] {
                seen[peer as usize] = true;
                part.push(peer);
            }
        }
    }
    if let Some(&server) = part.iter().find(|&&server| links.free(server) > 0) {
        return Some((server, None));
    }
    let mut bundles: Vec<(f64, u32, u32, u32)> = links
        .circuits()
        .filter(|circuit| seen[circuit.a as usize])
        .map(|c| (wants.get(&(c.a, c.b)).copied().unwrap_or(0.0), c.a, c.b, c.count))
        .collect();
    bundles.sort_by(|x, y| x.0.total_cmp(&y.0).then((x.1, x.2).cmp(&(y.1, y.2))));
    for (_, a, b, count) in bundles {
        links.remove(a, b);
        if count > 1 || reaches(a, b, links) {
            return Some((a, Some(b)));
        }
        links.add(a, b);
    }
    None
}

fn reaches(from: u32, to: u32, links: &Links) -> bool {
    let mut parts = Parts::of(links);
    parts.find(from) == parts.find(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two triangles with a bridge, and a pair apart, all ports in use: the bridge is what is
    /// wanted least, but its part would fall apart without it, so that the next one is given up.
    #[test]
    fn a_bridge_is_not_given_up() {
        let triangle = |first: u32| {
            let sides = [(0, 1, 5.0), (0, 2, 6.0), (1, 2, 9.0), (1, 2, 9.0)];
            sides.map(|(a, b, bytes)| (first + a, first + b, bytes))
        };
        let wanted = [&triangle(0)[..], &[(0, 3, 0.0)], &triangle(3), &[(6, 7, 9.0); 3]].concat();
        let mut links = Links::new(8, 3);
        for &(a, b, _) in &wanted {
            links.add(a, b);
        }
        assert!((0..8).all(|server| links.free(server) == 0));
        connect(&[(0, 6)], &PairDemand { pairs: wanted }, &mut links).unwrap();
        let counts = [(0, 3), (0, 1), (0, 6), (1, 7), (6, 7)].map(|(a, b)| links.count(a, b));
        assert_eq!(counts, [1, 0, 1, 1, 2]);
        assert!((0..8).all(|server| links.free(server) == 0));
    }
}
