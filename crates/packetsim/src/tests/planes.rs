//! Several planes: what they are made of, and closed forms against one plane as fast as all.

use super::{Finished, flow, ideal, plain, run};
use crate::presets::Preset;
use crate::transport::line_rate::LineRate;
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::{
    Cable, Config, Core, FlowSpec, NicId, Overflow, PacketLinkId, PathChoice, PlaneChoice,
    PlaneTurns, Simulation, Topology,
};
use lightloom_model::{Duration, Rate};

const US: u64 = 1_000_000;
/// Time of a packet at the rate of all planes together, 400 Gb/s.
const SPAN: u64 = 4160 * 20;
const HOSTS: u32 = 16;

/// A link of one of so many planes.
fn cable(planes: u32) -> Cable {
    Cable { rate: Rate(400_000_000_000 / u64::from(planes)), delay: Duration(US) }
}

fn sprayed(planes: u32) -> Topology {
    Preset::Star { cable: cable(planes) }.build_sprayed_planes(HOSTS, planes).unwrap()
}

/// Endless queues, sprayed packets.
fn spraying() -> Config {
    Config {
        control_priority: true,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(64),
        ..plain()
    }
}

/// Flows that send all of their packets at once.
fn at_once(core: &Core) -> Ndp {
    Ndp::new(core, NdpParameters { window: Some(10_000), ..NdpParameters::default() })
}

fn play(topology: Topology, flows: &[FlowSpec]) -> (Simulation<Ndp>, Vec<Finished>) {
    run(topology, spraying(), at_once, flows)
}

/// (N + 1) S + 2 D on one plane; on p of them each of two links takes p S, and the NIC that joins
/// the receiver's ports one more S.
#[test]
fn one_flow_over_all_planes_is_as_fast_as_over_one_but_for_its_last_packet() {
    for packets in [1_u64, 7, 489] {
        let flows = [flow((0, 5), packets * 4096)];
        let one = Preset::Star { cable: cable(1) }.build(HOSTS).unwrap();
        assert_eq!(play(one, &flows).1[0].received_at, (packets + 1) * SPAN + 2 * US);
        for planes in [2, 4, 8] {
            let (simulation, finished) = play(sprayed(planes), &flows);
            let expected = (packets + 2 * u64::from(planes) + 1) * SPAN + 2 * US;
            assert_eq!(finished[0].received_at, expected, "{packets} over {planes}");
            assert_eq!(ideal(&simulation, 0), Some(expected), "{packets} over {planes}");
        }
    }
}

/// Each port sends its share of 300 packets, to a packet; acknowledgements return by all ports.
#[test]
fn ports_share_packets_evenly() {
    let (simulation, _) = play(sprayed(4), &[flow((2, 9), 300 * 4096)]);
    let core = simulation.core();
    let sent = |from: &str, to: &str| -> Vec<u64> {
        let specs = core.topology().links();
        let name = |node| core.topology().title(node);
        let is_between = |link: &PacketLinkId| {
            let spec = specs[link.0 as usize];
            name(spec.from) == from && name(spec.to).ends_with(to)
        };
        let links = core.topology().link_ids().filter(is_between);
        links.map(|link| core.sent_bytes(link)).collect()
    };
    assert_eq!(sent("nic-2", "/switch"), [75 * 4160; 4]);
    let returned = sent("nic-9", "/switch");
    assert!(returned.len() == 4 && returned.iter().all(|&bytes| bytes > 60 * 64), "{returned:?}");
}

/// Every host sends and receives one flow: none waits for another, but for acknowledgements.
#[test]
fn a_permutation_over_all_planes_takes_what_one_flow_takes() {
    let flows: Vec<_> =
        (0..HOSTS).map(|host| flow((host, (host + 5) % HOSTS), 489 * 4096)).collect();
    let (_, alone) = play(sprayed(4), &flows[..1]);
    let (_, finished) = play(sprayed(4), &flows);
    for one in finished {
        let ratio = one.received_at as f64 / alone[0].received_at as f64;
        assert!((1.0..1.04).contains(&ratio), "{ratio}");
    }
}

/// F senders of N packets: the last of all takes F N S on the way to the receiver, whose link is
/// busy from the first packet on; so it does where flows keep to planes and take turns.
#[test]
fn an_incast_takes_what_the_receivers_links_take() {
    let (senders, packets, planes) = (8, 48, 4);
    let flows: Vec<_> = (1..=senders).map(|host| flow((host, 0), packets * 4096)).collect();
    let all = u64::from(senders) * packets * SPAN;
    let last = |finished: Vec<Finished>| finished.iter().map(|it| it.received_at).max().unwrap();
    let one = Preset::Star { cable: cable(1) }.build(HOSTS).unwrap();
    assert_eq!(last(play(one, &flows).1), all + SPAN + 2 * US);
    let (_, finished) = play(sprayed(planes), &flows);
    // The last packets of all planes arrive together, and take turns into the host.
    assert_eq!(last(finished), all + (2 * u64::from(planes) + 1) * SPAN + 2 * US);
    let fabric = Preset::Star { cable: cable(planes) };
    let topology = fabric.build_planes(HOSTS, planes).unwrap();
    let mut turns = PlaneTurns::new(PlaneChoice::RoundRobin, planes, 1);
    let placed: Vec<_> = flows
        .iter()
        .map(|spec| {
            let nic = |host: NicId, plane: u32| NicId(plane * HOSTS + host.0);
            let plane = turns.next(spec.source.0);
            let ends = [spec.source, spec.destination].map(|host| nic(host, plane));
            FlowSpec { source: ends[0], destination: ends[1], ..spec.clone() }
        })
        .collect();
    let (_, finished) = run(topology, plain(), LineRate::new, &placed);
    assert_eq!(last(finished), all + u64::from(planes) * SPAN + 2 * US);
}

/// A flow that keeps to one of p planes takes p times as long.
#[test]
fn a_flow_on_one_plane_has_its_rate() {
    let topology = Preset::Star { cable: cable(4) }.build_planes(HOSTS, 4).unwrap();
    let ends = (2 * HOSTS + 3, 2 * HOSTS + 7);
    let (_, finished) = run(topology, plain(), LineRate::new, &[flow(ends, 489 * 4096)]);
    assert_eq!(finished[0].received_at, 490 * 4 * SPAN + 2 * US);
}

#[test]
fn planes_are_copies_that_share_hosts_alone() {
    let fabric = Preset::FatTree { radix: 4, cable: cable(1) };
    let star = fabric.build(HOSTS).unwrap();
    for (planes, topology, hosts) in [
        (3, fabric.build_planes(HOSTS, 3).unwrap(), HOSTS as usize),
        (5, fabric.build_sprayed_planes(HOSTS, 5).unwrap(), 2 * HOSTS as usize),
    ] {
        let switches = star.node_count() - HOSTS as usize;
        assert_eq!(topology.node_count(), planes * switches + hosts);
        let nics = if hosts > HOSTS as usize { 2 * HOSTS as usize } else { 0 };
        assert_eq!(topology.links().len(), planes * star.links().len() + nics);
        let plane_of = |node| {
            let title = topology.title(node);
            title.split_once('/').map(|(plane, _)| plane.to_owned())
        };
        for link in topology.links() {
            let ends = [link.from, link.to].map(plane_of);
            assert!(ends.iter().any(Option::is_none) || ends[0] == ends[1], "{ends:?}");
        }
    }
    let topology = fabric.build_planes(HOSTS, 3).unwrap();
    for nic in 0..3 * HOSTS {
        let first = topology.links()[topology.uplink(NicId(nic)).0 as usize];
        assert_eq!(first.from.0, nic % HOSTS);
        assert_eq!(
            topology.title(first.to),
            format!("plane-{}/tor-{}", nic / HOSTS, nic % HOSTS / 2)
        );
    }
}

#[test]
fn there_is_at_least_one_plane() {
    let fabric = Preset::Star { cable: cable(1) };
    let error = fabric.build_planes(4, 0).map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), "0 planes; expected at least one");
}
