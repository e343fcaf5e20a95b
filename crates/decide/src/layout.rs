//! Circuits on NICs and planes.
//!
//! Where one switch joins any two of its ports, every set of circuits within the ports can be
//! built, and those that stay keep their NICs. Where NIC i of every server is on a switch of its
//! own, circuits must be edge-colored onto these planes. Those that find no plane are given up, and
//! NICs that are then free are joined where a plane can and nothing ends later for it, the neediest
//! pair first.

use crate::region::Region;
use lightloom_model::{Fibers, Invalid};
use lightloom_schedule::{
    NicCircuit, NicEnd, Request, assign_from, assign_partial, makespans, map_working_nics,
};

/// Steps of the search for planes, per circuit.
const STEPS_PER_CIRCUIT: u32 = 50;

/// The NICs of a region that work.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    all_ports: Vec<u32>,
    working: Vec<bool>,
    width: usize,
    planes: Option<Fibers>,
    numa_nodes: u32,
    /// Optical NICs of each server that work.
    pub ports: Vec<u32>,
}

impl Layout {
    /// The NICs of a region, less those that have failed.
    pub(crate) fn new(region: &Region) -> Self {
        let (width, working) = (region.width(), region.working_nics());
        let count = |server: usize| {
            working[server * width..][..width].iter().filter(|&&works| works).count() as u32
        };
        Self {
            ports: (0..region.servers()).map(count).collect(),
            all_ports: region.ports.clone(),
            planes: region.planes,
            numa_nodes: region.numa_nodes,
            working,
            width,
        }
    }

    /// Whether some circuits within the ports cannot be built.
    pub(crate) fn is_limited(&self) -> bool {
        self.planes.is_some()
    }

    /// Whether both NICs of a circuit work.
    pub(crate) fn works(&self, circuit: &NicCircuit) -> bool {
        [circuit.a, circuit.b].iter().all(|end| {
            let (server, nic) = (end.server as usize, end.nic as usize);
            nic < self.width && self.working[server * self.width + nic]
        })
    }

    /// The NICs of circuits within the ports, or of as many as can be built; those that are there
    /// keep their NICs, where another circuit does not need these.
    pub(crate) fn place(&self, circuits: &[u16], previous: &[NicCircuit]) -> Vec<NicCircuit> {
        let Some(fibers) = self.planes else {
            let (ports, working) = (&self.all_ports, &self.working);
            return map_working_nics(circuits, ports, working, self.numa_nodes, previous);
        };
        let wanted = count(circuits);
        let effort = STEPS_PER_CIRCUIT * wanted as u32;
        let near = assign_from(circuits, &self.working, fibers, previous, effort);
        if near.len() == wanted {
            return near;
        }
        let far = assign_partial(circuits, &self.working, fibers, effort);
        if far.len() > near.len() { far } else { near }
    }

    /// As [`Self::place`]; where some circuits cannot be built, others in their place that serve
    /// the demand of the request.
    pub(crate) fn build(
        &self,
        request: &Request,
        circuits: &[u16],
        previous: &[NicCircuit],
    ) -> (Vec<u16>, Vec<NicCircuit>) {
        let mut nics = self.place(circuits, previous);
        if nics.len() == count(circuits) {
            return (circuits.to_vec(), nics);
        }
        let mut built = counts(request.servers, &nics);
        self.refill(request, &mut built, &mut nics);
        (built, nics)
    }

    /// Joins free NICs as long as nothing ends later for it.
    fn refill(&self, request: &Request, built: &mut [u16], nics: &mut Vec<NicCircuit>) {
        let n = request.servers;
        let mut free = self.working.clone();
        for end in nics.iter().flat_map(|circuit| [circuit.a, circuit.b]) {
            free[end.server as usize * self.width + end.nic as usize] = false;
        }
        let larger = |a: usize, b: usize| {
            let bytes = request.demand[a * n + b].max(request.demand[b * n + a]);
            let may = request.allowed.is_none_or(|allowed| allowed[a * n + b]);
            if may { bytes as f64 } else { 0.0 }
        };
        let mut open: Vec<(usize, usize, f64)> = (0..n)
            .flat_map(|a| (a + 1..n).map(move |b| (a, b)))
            .map(|(a, b)| (a, b, larger(a, b)))
            .filter(|&(a, b, bytes)| bytes > 0.0 && self.free_pair(&free, a, b).is_some())
            .collect();
        let mut time = makespans(request, &[built])[0];
        loop {
            let need =
                |&(a, b, bytes): &(usize, usize, f64)| bytes / (f64::from(built[a * n + b]) + 1.0);
            let order =
                |&x: &usize, &y: &usize| need(&open[x]).total_cmp(&need(&open[y])).then(y.cmp(&x));
            let Some(index) = (0..open.len()).max_by(order) else { break };
            let (a, b, _) = open[index];
            let Some((x, y)) = self.free_pair(&free, a, b) else {
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
            free[a * self.width + x] = false;
            free[b * self.width + y] = false;
            nics.push(NicCircuit {
                a: NicEnd { server: a as u32, nic: x as u32 },
                b: NicEnd { server: b as u32, nic: y as u32 },
            });
        }
        nics.sort_unstable();
    }

    /// Free NICs of two servers that a plane can join.
    fn free_pair(&self, free: &[bool], a: usize, b: usize) -> Option<(usize, usize)> {
        let far = |nic| self.planes.map_or(nic, |fibers| fibers.partner(nic, self.width));
        (0..self.width)
            .map(|nic| (nic, far(nic)))
            .find(|&(x, y)| free[a * self.width + x] && free[b * self.width + y])
    }

    /// Checks that circuits lie on NICs that exist, one on each, that planes can join.
    ///
    /// # Errors
    /// Names the first NIC or pair that is wrong.
    pub(crate) fn check(&self, circuits: &[u16], nics: &[NicCircuit]) -> Result<(), Invalid> {
        let n = self.all_ports.len();
        let mut taken = vec![false; n * self.width];
        for NicCircuit { a, b } in nics {
            for end in [a, b] {
                let (server, nic) = (end.server as usize, end.nic);
                if server >= n || nic >= self.all_ports[server] {
                    return Err(Invalid(format!("server {server} has no NIC {nic}")));
                }
                if std::mem::replace(&mut taken[server * self.width + nic as usize], true) {
                    return Err(Invalid(format!("NIC {nic} of server {server} ends two circuits")));
                }
            }
            let meet =
                |fibers: Fibers| fibers.partner(a.nic as usize, self.width) == b.nic as usize;
            if !self.planes.is_none_or(meet) || a.server >= b.server {
                return Err(Invalid(format!(
                    "NICs {}/{} and {}/{} cannot be joined",
                    a.server, a.nic, b.server, b.nic
                )));
            }
        }
        if !nics.is_sorted() {
            return Err(Invalid::new("circuits on NICs are not sorted"));
        }
        if counts(n, nics) != circuits {
            return Err(Invalid::new("circuits and their NICs do not agree"));
        }
        Ok(())
    }
}

fn count(circuits: &[u16]) -> usize {
    circuits.iter().map(|&count| usize::from(count)).sum::<usize>() / 2
}

/// Parallel circuits of each pair, n x n, of circuits on NICs.
pub(crate) fn counts(servers: usize, nics: &[NicCircuit]) -> Vec<u16> {
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
