//! Circuits on NICs and planes.
//!
//! Where one switch joins any two of its ports, every set of circuits within the ports can be
//! built, and those that stay keep their NICs. Where NIC i of every server is on a switch of its
//! own, circuits are those that these planes can build.

use crate::region::SizedRegion;
use lightloom_model::{Fibers, Invalid};
use lightloom_schedule::{NicCircuit, PlaneNics, Request, circuits_of, map_working_nics};

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
    pub(crate) fn new(region: &SizedRegion) -> Self {
        Self {
            ports: region.working_ports(),
            all_ports: region.ports().to_vec(),
            planes: region.record().planes,
            numa_nodes: region.record().numa_nodes.get(),
            working: region.working_nics(),
            width: region.width(),
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

    /// The planes of the NICs, where some circuits cannot be built.
    fn plane_nics(&self) -> Option<PlaneNics<'_>> {
        self.planes.map(|fibers| PlaneNics { working: &self.working, fibers })
    }

    /// The NICs of circuits within the ports, or of as many as can be built; those that are there
    /// keep their NICs, where another circuit does not need these.
    pub(crate) fn place(&self, circuits: &[u16], previous: &[NicCircuit]) -> Vec<NicCircuit> {
        if let Some(planes) = self.plane_nics() {
            planes.place(circuits, previous)
        } else {
            let (ports, working) = (&self.all_ports, &self.working);
            map_working_nics(circuits, ports, working, self.numa_nodes, previous)
        }
    }

    /// As [`Self::place`]; where some circuits cannot be built, others in their place that serve
    /// the demand of the request.
    pub(crate) fn build(
        &self,
        request: &Request,
        circuits: &[u16],
        previous: &[NicCircuit],
    ) -> (Vec<u16>, Vec<NicCircuit>) {
        match self.plane_nics() {
            Some(planes) => planes.build(request, circuits, previous),
            None => (circuits.to_vec(), self.place(circuits, previous)),
        }
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
        if circuits_of(n, nics) != circuits {
            return Err(Invalid::new("circuits and their NICs do not agree"));
        }
        Ok(())
    }
}
