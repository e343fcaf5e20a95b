//! What several circuit switches ("planes") can build of circuits that one switch could.
//!
//! Circuits must be edge-colored onto the planes, see the sibling module on these. Those that find
//! no plane are given up, and NICs that are then free are joined where a plane can and nothing ends
//! later for it, the neediest pair first. Where circuits are there already, those that are wanted
//! stay on their NICs if all can be built that way.

use super::nics::{NicCircuit, NicEnd};
use super::planes::{Planes, assign_from, assign_partial, assign_planes};
use super::request::Request;
use super::routing::makespans;
use lightloom_model::Fibers;

/// Steps in which circuits push each other from plane to plane, per circuit.
const STEPS_PER_CIRCUIT: u32 = 50;
/// Steps of a second such attempt, which leaves other circuits over.
const PATIENCE: u32 = 20_000;
/// Steps of the search of all assignments, per circuit: each is as long as all circuits.
const SEARCHED_PER_CIRCUIT: u32 = 2;

/// The NICs of servers on planes.
#[derive(Debug, Clone, Copy)]
pub struct PlaneNics<'a> {
    /// Which NICs work, n x planes.
    pub working: &'a [bool],
    /// How their fibers are laid.
    pub fibers: Fibers,
}

impl PlaneNics<'_> {
    /// The NICs of circuits, n x n and within the ports, or of as many as are found; those that are
    /// there keep their NICs where another circuit does not need these.
    ///
    /// # Panics
    /// As [`assign_planes`].
    pub fn place(self, circuits: &[u16], previous: &[NicCircuit]) -> Vec<NicCircuit> {
        let mut placed = self.placements(circuits, previous);
        placed.sort_by_key(|nics| std::cmp::Reverse(nics.len())); // the first of equals
        placed.swap_remove(0)
    }

    /// As [`Self::place`]; where some circuits cannot be built, others in their place that serve
    /// the demand of the request, and of several such sets the one that ends first.
    ///
    /// # Panics
    /// As [`assign_planes`].
    pub fn build(
        self,
        request: &Request,
        circuits: &[u16],
        previous: &[NicCircuit],
    ) -> (Vec<u16>, Vec<NicCircuit>) {
        let wanted = count(circuits);
        let mut best: Option<(f64, Vec<u16>, Vec<NicCircuit>)> = None;
        for mut nics in self.placements(circuits, previous) {
            if nics.len() == wanted {
                return (circuits.to_vec(), nics);
            }
            let mut built = circuits_of(request.servers, &nics);
            let time = self.refill(request, &mut built, &mut nics);
            if best.as_ref().is_none_or(|best| time < best.0) {
                best = Some((time, built, nics));
            }
        }
        let (_, built, nics) = best.expect("at least one placement");
        (built, nics)
    }

    /// Ways to put circuits on planes, all different: one alone if all have NICs in it.
    fn placements(self, circuits: &[u16], previous: &[NicCircuit]) -> Vec<Vec<NicCircuit>> {
        let Self { working, fibers } = self;
        let wanted = count(circuits);
        let effort = STEPS_PER_CIRCUIT * wanted as u32;
        let near = assign_from(circuits, working, fibers, previous, effort);
        if near.len() == wanted {
            return vec![near];
        }
        let exact = assign_planes(circuits, working, fibers, SEARCHED_PER_CIRCUIT * wanted as u32);
        if let Planes::Assigned(all) = exact {
            return vec![all];
        }
        let mut placed = vec![near];
        for effort in [effort, effort.max(PATIENCE)] {
            let some = assign_partial(circuits, working, fibers, effort);
            if some.len() == wanted {
                return vec![some];
            }
            if !placed.contains(&some) {
                placed.push(some);
            }
        }
        placed
    }

    /// Joins free NICs as long as nothing ends later for it; the seconds of the request.
    fn refill(self, request: &Request, built: &mut [u16], nics: &mut Vec<NicCircuit>) -> f64 {
        let n = request.servers;
        let planes = self.working.len() / n;
        let mut free = self.working.to_vec();
        for end in nics.iter().flat_map(|circuit| [circuit.a, circuit.b]) {
            free[end.server as usize * planes + end.nic as usize] = false;
        }
        let larger = |a: usize, b: usize| {
            let bytes = request.demand[a * n + b].max(request.demand[b * n + a]);
            let may = request.allowed.is_none_or(|allowed| allowed[a * n + b]);
            if may { bytes as f64 } else { 0.0 }
        };
        let mut open: Vec<(usize, usize, f64)> = (0..n)
            .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
            .map(|(a, b)| (a, b, larger(a, b)))
            .filter(|&(a, b, bytes)| bytes > 0.0 && self.free_pair(&free, a, b, planes).is_some())
            .collect();
        let mut time = makespans(request, &[built])[0];
        loop {
            let need =
                |&(a, b, bytes): &(usize, usize, f64)| bytes / (f64::from(built[a * n + b]) + 1.0);
            let order =
                |&x: &usize, &y: &usize| need(&open[x]).total_cmp(&need(&open[y])).then(y.cmp(&x));
            let Some(index) = (0..open.len()).max_by(order) else { break };
            let (a, b, _) = open[index];
            let Some((x, y)) = self.free_pair(&free, a, b, planes) else {
                open.remove(index);
                continue;
            };
            add(built, n, [a, b], 1);
            let longer = makespans(request, &[built])[0];
            if longer > time {
                add(built, n, [a, b], -1);
                open.remove(index);
                continue;
            }
            time = longer;
            free[a * planes + x] = false;
            free[b * planes + y] = false;
            nics.push(NicCircuit {
                a: NicEnd { server: a as u32, nic: x as u32 },
                b: NicEnd { server: b as u32, nic: y as u32 },
            });
        }
        nics.sort_unstable();
        time
    }

    /// Free NICs of two servers that a plane can join.
    fn free_pair(self, free: &[bool], a: usize, b: usize, planes: usize) -> Option<(usize, usize)> {
        (0..planes)
            .map(|nic| (nic, self.fibers.partner(nic, planes)))
            .find(|&(x, y)| free[a * planes + x] && free[b * planes + y])
    }
}

fn count(circuits: &[u16]) -> usize {
    circuits.iter().map(|&count| usize::from(count)).sum::<usize>() / 2
}

/// Parallel circuits of each pair, n x n, of circuits on NICs.
pub fn circuits_of(servers: usize, nics: &[NicCircuit]) -> Vec<u16> {
    let mut circuits = vec![0; servers * servers];
    for NicCircuit { a, b } in nics {
        add(&mut circuits, servers, [a.server as usize, b.server as usize], 1);
    }
    circuits
}

fn add(circuits: &mut [u16], servers: usize, [a, b]: [usize; 2], more: i16) {
    for cell in [a * servers + b, b * servers + a] {
        circuits[cell] = circuits[cell].wrapping_add_signed(more);
    }
}
