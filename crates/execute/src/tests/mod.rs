//! Runs of small graphs against closed forms.

mod all_to_all;
mod circuits;
mod delegates;
mod failures;
mod horizon;
mod local;
mod lowering;
mod messages;
mod packets;
mod phases;
mod pipeline;
mod policies;
mod predictors;
mod programs;
mod refusals;
mod regions;
mod relaying;
mod replay;
mod ring;
mod ring_replay;
mod rules;
mod scheduled;
mod sharing;
mod turns;
mod whole;

use crate::network::Network;
use crate::parts::{Direct, Route};
use crate::testing::{DP, PP, compute, family, task};
use crate::{Options, Outcome, execute};
use lightloom_kernel::Silent;
use lightloom_model::{
    Amount, CategoryId, Circuit, Collective, CollectiveKind, Duration, FamilyId, GroupFamily,
    Handle, Inside, Payload, Peer, Rate, RoleId, Tag, Task, TaskGraph, TaskKind,
};

/// Picoseconds per microsecond.
const US: u64 = 1_000_000;

/// Picoseconds per byte at 400 Gb/s.
const NIC: u64 = 20;

fn play(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { share_equal_work: true, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

fn refuse(graph: &TaskGraph, network: &Network) -> String {
    execute(graph, network, &Options::default(), &mut Silent).expect_err("invalid").to_string()
}

fn spent(outcome: &Outcome, role: usize, category: CategoryId) -> u64 {
    outcome.roles[role].spent[category.index()]
}

/// Bytes by column of the ledger that were moved for a category's purpose.
fn carried(outcome: &Outcome, purpose: &str) -> Vec<u64> {
    let found = outcome.ledger.purposes.iter().find(|found| found.name == purpose);
    found.expect("a purpose of the graph").carried.clone()
}

/// Demand of servers of which these pairs send each other so many bytes, and the others nothing.
fn pairs(servers: usize, ends: &[(usize, usize)], bytes: u32) -> Vec<u32> {
    let mut tokens = vec![0; servers * servers];
    for &(a, b) in ends {
        (tokens[a * servers + b], tokens[b * servers + a]) = (bytes, bytes);
    }
    tokens
}

fn send(role: u32, tag: u32, bytes: u64) -> Task {
    let peer = Peer::Role(RoleId(role));
    task(TaskKind::Send { peer, tag: Tag(tag), bytes: Amount::Fixed(bytes) }, PP)
}

fn receive(role: u32, tag: u32) -> Task {
    task(TaskKind::Receive { peer: Peer::Role(RoleId(role)), tag: Tag(tag) }, PP)
}

/// The family of [`ring`], which tests add to a graph.
const RING: FamilyId = FamilyId(1);

/// An asynchronous collective over the family that a test has added.
fn ring(kind: CollectiveKind, handle: u32, bytes: u64, inside_per_gpu: u64) -> Task {
    let collective = Collective {
        kind,
        family: Some(RING),
        payload: Payload::Bytes(bytes),
        inside: Inside { per_gpu: Amount::Fixed(inside_per_gpu), total: None, peers: 0 },
        asynchronous: true,
    };
    Task { handle: Some(Handle(handle)), ..task(TaskKind::Collective(collective), DP) }
}

fn wait(handle: u32) -> Task {
    task(TaskKind::Wait { handle: Handle(handle), slowed_ppm: 0 }, DP)
}

fn one_ring(workers: u32) -> GroupFamily {
    family("dp", &[workers])
}

/// A line of three servers with two parallel links each, and one route over the middle.
fn line() -> Direct {
    let route = |servers: &[u32]| Route { servers: servers.to_vec() };
    Direct {
        nic_rate: Rate(400_000_000_000),
        link_delay: Duration(US),
        relay_delay: Duration(3 * US),
        circuits: vec![Circuit { a: 0, b: 1, count: 2 }, Circuit { a: 1, b: 2, count: 2 }],
        routes: vec![route(&[0, 1]), route(&[1, 2]), route(&[0, 1, 2])],
        cycles: vec![],
    }
}

/// Max-min fair rates of flows over these links: all grow alike until a link is full, whose flows
/// then stay, and so on.
fn fair_rates(capacities: &[f64], paths: &[&[usize]]) -> Vec<f64> {
    let mut left = capacities.to_vec();
    let mut rates = vec![f64::NAN; paths.len()];
    loop {
        let open: Vec<usize> = (0..rates.len()).filter(|&flow| rates[flow].is_nan()).collect();
        if open.is_empty() {
            return rates;
        }
        let share = |link: usize| {
            let crossing = open.iter().filter(|&&flow| paths[flow].contains(&link));
            left[link] / crossing.count() as f64
        };
        let (full, level) = (0..left.len())
            .map(|link| (link, share(link)))
            .filter(|(_, level)| !level.is_nan())
            .min_by(|a, b| a.1.total_cmp(&b.1))
            .expect("an open flow crosses a link");
        for flow in open {
            if paths[flow].contains(&full) {
                rates[flow] = level;
                for &link in paths[flow] {
                    left[link] = (left[link] - level).max(0.0);
                }
            }
        }
    }
}
