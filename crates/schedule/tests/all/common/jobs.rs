//! Jobs that `TopoOpt` makes topologies for.

#![allow(dead_code, reason = "each user takes a part")]

use lightloom_schedule::topoopt::{RingGroup, Strides, TopoOptTopology, TopoRequest, topology};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
pub struct Job {
    pub servers: u32,
    pub degree: u32,
    pub rings: Vec<RingGroup>,
    pub strides: Strides,
    pub demand: Vec<(u32, u32, u64)>,
    pub phases: Vec<u32>,
    pub max_routes: u32,
}

impl Job {
    pub fn new(servers: u32, degree: u32) -> Self {
        let (rings, strides, demand) = (vec![], Strides::Geometric, vec![]);
        Self { servers, degree, rings, strides, demand, phases: vec![], max_routes: 4 }
    }

    pub fn rings(servers: u32, degree: u32, rings: &[(&[u32], u64)]) -> Self {
        let group = |&(members, edge_bytes): &(&[u32], u64)| RingGroup {
            members: members.to_vec(),
            edge_bytes,
            phase: 0,
        };
        Self { rings: rings.iter().map(group).collect(), ..Self::new(servers, degree) }
    }

    pub fn pairs(servers: u32, degree: u32, demand: Vec<(u32, u32, u64)>) -> Self {
        Self { demand, ..Self::new(servers, degree) }
    }

    pub fn request(&self) -> TopoRequest<'_> {
        TopoRequest {
            servers: self.servers,
            degree: self.degree,
            rings: &self.rings,
            strides: self.strides,
            demand: &self.demand,
            phases: &self.phases,
            max_routes: self.max_routes,
        }
    }

    pub fn find(&self) -> TopoOptTopology {
        topology(&self.request()).unwrap()
    }

    pub fn refusal(&self) -> String {
        topology(&self.request()).unwrap_err().to_string()
    }
}

/// Paths of each ordered pair.
pub fn routes(found: &TopoOptTopology) -> BTreeMap<(u32, u32), Vec<Vec<u32>>> {
    let mut routes: BTreeMap<(u32, u32), Vec<Vec<u32>>> = BTreeMap::new();
    for route in found.routes.iter() {
        routes.entry((route[0], route[route.len() - 1])).or_default().push(route.to_vec());
    }
    routes
}

/// Parallel circuits of each pair, in both orders.
pub fn links(found: &TopoOptTopology) -> BTreeMap<(u32, u32), u32> {
    found.circuits.iter().flat_map(|c| [((c.a, c.b), c.count), ((c.b, c.a), c.count)]).collect()
}

/// Jobs of fewer servers and ports than these.
pub fn job(servers: u32, degree: u32) -> impl Strategy<Value = Job> {
    (2..servers, 2..degree, 1..6_u32).prop_flat_map(|(servers, degree, max_routes)| {
        let demand = prop::collection::vec((0..servers, 0..servers, 0..10_000_u64), 0..60);
        let largest = servers.min(7) as usize;
        let members = prop::sample::subsequence((0..servers).collect::<Vec<_>>(), 0..=largest);
        let ring = (members.prop_shuffle(), 0..50_000_u64)
            .prop_map(|(members, edge_bytes)| RingGroup { members, edge_bytes, phase: 0 });
        let strides = prop_oneof![Just(Strides::Geometric), Just(Strides::One)];
        (demand, prop::collection::vec(ring, 0..5), strides).prop_map(
            move |(demand, rings, strides)| Job {
                servers,
                degree,
                rings,
                strides,
                demand,
                phases: vec![],
                max_routes,
            },
        )
    })
}
