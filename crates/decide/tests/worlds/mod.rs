//! Regions, policies and demands to decide on.

#![allow(dead_code, reason = "each test file uses a part")]

#[path = "../../../schedule/tests/all/common/cases.rs"]
pub mod common;

use common::Random;
use lightloom_decide::{Decider, NumaNodes, Policy, Reconfigure, Region, SizedRegion, Upcoming};
use lightloom_model::{
    Allocator, CircuitRate, Duration, Failures, Fibers, Invalid, PerServer, Rate, RelayCost,
    SwitchTiming,
};
use lightloom_schedule::{NicCircuit, makespans};
use proptest::prelude::*;

pub const GBPS: u64 = 1_000_000_000;
pub const US: u64 = 1_000_000;

/// A decider, what is held and what is upcoming.
#[derive(Debug, Clone)]
pub struct World {
    pub region: Region,
    pub policy: Policy,
    pub timing: SwitchTiming,
    pub upcoming: Vec<Upcoming>,
}

impl World {
    pub fn decider(&self) -> Decider {
        made(self.region.clone(), self.policy, self.timing).expect("a consistent region")
    }
}

/// A decider for a region that states the ports of each server.
pub fn made(region: Region, policy: Policy, timing: SwitchTiming) -> Result<Decider, Invalid> {
    Ok(Decider::new(SizedRegion::new(ports_of(&region).len(), region)?, policy, timing))
}

/// The ports of each server, which the region states.
pub fn ports_of(region: &Region) -> Vec<u32> {
    match &region.ports {
        PerServer::Each(ports) => ports.iter().copied().map(u32::from).collect(),
        PerServer::All(_) => panic!("how many servers there are is not known"),
    }
}

pub fn region(servers: usize, ports: u16) -> Region {
    Region {
        ports: PerServer::Each(vec![ports; servers]),
        allowed: None,
        planes: None,
        numa_nodes: NumaNodes::TWO,
        circuit_rate: CircuitRate::new(Rate(400 * GBPS)).expect("above 0"),
        eps_rates: PerServer::Each(vec![Rate(800 * GBPS); servers]),
        eps_nics: Some(2),
        split: true,
        failures: Failures::default(),
    }
}

pub fn policy(when: Reconfigure) -> Policy {
    Policy { allocator: Allocator::Best, when, relaying: None }
}

/// As [`policy`], of servers that relay at no cost.
pub fn relaying(when: Reconfigure) -> Policy {
    Policy { relaying: Some(RelayCost::default()), ..policy(when) }
}

/// Skewed demand, transposed every other time.
pub fn upcoming(servers: usize, hidden: &[u64], seed: u64) -> Vec<Upcoming> {
    let mut random = Random(seed | 1);
    let mut found: Vec<Upcoming> = Vec::new();
    for (index, &hidden) in hidden.iter().enumerate() {
        let demand = match found.last() {
            Some(last) if index % 2 == 1 => (0..servers * servers)
                .map(|cell| last.demand[cell % servers * servers + cell / servers])
                .collect(),
            _ => common::Case::random(servers, 1, true, &mut random).demand,
        };
        found.push(Upcoming::known(demand, Duration(hidden)));
    }
    found
}

pub fn failures(servers: u32, ports: u32) -> impl Strategy<Value = Failures> {
    let nic = (0..servers, 0..ports.max(1));
    let nics = prop::collection::vec(nic, 0..3);
    let eps_nics = prop::collection::vec((0..servers, 0..2_u32), 0..2);
    let planes = prop::collection::vec(0..ports.max(1), 0..2);
    (nics, eps_nics, planes, any::<bool>()).prop_map(move |(nics, eps_nics, planes, none)| {
        if none || ports == 0 {
            return Failures::default();
        }
        Failures { nics, eps_nics, servers: Vec::new(), planes }
    })
}

pub fn whens() -> impl Strategy<Value = Reconfigure> {
    prop::sample::select(Reconfigure::ALL)
}

pub fn world() -> impl Strategy<Value = World> {
    (2..7_usize, 1..6_u32).prop_flat_map(|(servers, ports)| {
        let planes =
            prop_oneof![Just(None), Just(Some(Fibers::Duplex)), Just(Some(Fibers::Crossed))];
        let times = prop::collection::vec(0..3_000 * US, 1..5);
        let how =
            (planes, whens(), any::<bool>(), any::<bool>(), prop::sample::select(Allocator::ALL));
        (failures(servers as u32, ports), how, times, 0..1_000 * US, any::<u64>()).prop_map(
            move |(failures, (planes, when, keep, relaying, allocator), times, fixed, seed)| {
                World {
                    region: Region { planes, failures, ..region(servers, ports as u16) },
                    policy: Policy {
                        allocator,
                        relaying: relaying.then(RelayCost::default),
                        ..policy(when)
                    },
                    timing: SwitchTiming {
                        fixed: Duration(fixed),
                        per_pair: Duration(US),
                        keep_unchanged: keep,
                        ..SwitchTiming::default()
                    },
                    upcoming: upcoming(servers, &times, seed),
                }
            },
        )
    })
}

/// Whether both NICs of a circuit work.
pub fn works(region: &Region, circuit: &NicCircuit) -> bool {
    [circuit.a, circuit.b].iter().all(|end| {
        let failures = &region.failures;
        end.nic < ports_of(region)[end.server as usize]
            && !failures.nics.contains(&(end.server, end.nic))
            && !failures.planes.contains(&end.nic)
    })
}

/// Seconds of the upcoming all-to-alls over some circuits.
pub fn time(decider: &Decider, circuits: &[u16], upcoming: &[Upcoming]) -> f64 {
    upcoming
        .iter()
        .map(|next| makespans(&decider.request(&next.demand, None), &[circuits])[0])
        .sum()
}
