//! The dragonfly: its links and distances, and throughput by routing against closed forms.

use super::{Finished, flow, lossless, plain, run};
use crate::flow::Endpoints;
use crate::hash::mix;
use crate::network::routing::Routing;
use crate::presets::Preset;
use crate::transport::line_rate::LineRate;
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::{
    Balancing, Cable, Config, Core, Dragonfly, FlowSpec, NicId, Overflow, PacketLinkId, PathChoice,
    Simulation, Topology,
};
use lightloom_model::{Duration, Rate};
use std::collections::BTreeMap;

const US: u64 = 1_000_000;
const SPAN: u64 = 4160 * 80;
const CABLE: Cable = Cable { rate: Rate(100_000_000_000), delay: Duration(US) };

/// p = h = 2, a = 4: nine groups of eight hosts if complete.
const SMALL: Dragonfly = Dragonfly { hosts_per_switch: 2, switches_per_group: 4, global_links: 2 };
const GROUP: u32 = 8;

fn dragonfly(hosts: u32) -> Topology {
    Preset::Dragonfly { shape: SMALL, cable: CABLE }.build(hosts).unwrap()
}

/// Endless queues, and as many paths as make loads of links even.
fn spraying(balancing: Balancing) -> Config {
    Config {
        control_priority: true,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(1024),
        balancing,
        ..plain()
    }
}

/// Flows that send all of their packets at once.
fn at_once(core: &Core) -> Ndp {
    let timeout = Duration(1_000_000 * US);
    let parameters = NdpParameters { window: Some(100_000), timeout, ..NdpParameters::default() };
    Ndp::new(core, parameters)
}

/// Packets that arrive per time of a packet at a NIC, until the mean flow has all of them.
fn throughput(balancing: Balancing, flows: &[FlowSpec], packets: u64) -> f64 {
    let (_, finished) = run(dragonfly(72), spraying(balancing), at_once, flows);
    let times = finished.iter().map(|one: &Finished| (one.received_at - 5 * US) as f64);
    let mean = times.sum::<f64>() / finished.len() as f64;
    (packets * SPAN) as f64 / mean
}

/// Every host sends to the one of its index in the next group.
fn adversarial(packets: u64) -> Vec<FlowSpec> {
    (0..72).map(|host| flow((host, (host + GROUP) % 72), packets * 4096)).collect()
}

/// Every host sends to every other one.
fn uniform(packets: u64) -> Vec<FlowSpec> {
    let pairs = (0..72).flat_map(|one| (1..72).map(move |by| (one, (one + by) % 72)));
    pairs.map(|ends| flow(ends, packets * 4096)).collect()
}

#[test]
fn groups_are_joined_pairwise_and_every_switch_uses_its_ports() {
    let count = |topology: &Topology, layer: &str| {
        let index = topology.layers().iter().position(|name| name == layer);
        topology.links().iter().filter(|link| Some(usize::from(link.layer)) == index).count() / 2
    };
    // Complete: 9 groups of 4 switches, 36 pairs of groups.
    let complete = dragonfly(72);
    assert_eq!([count(&complete, "local"), count(&complete, "global")], [9 * 6, 36]);
    assert_eq!(complete.links().len(), 2 * (72 + 54 + 36));
    // Three groups: four of eight ports of each to each other one.
    let three = dragonfly(24);
    assert_eq!([count(&three, "local"), count(&three, "global")], [3 * 6, 3 * 4]);
    for (topology, ports) in [(&complete, 2), (&three, 2)] {
        let mut used: BTreeMap<u32, usize> = BTreeMap::new();
        for link in topology.link_ids().filter(|&link| topology.is_global(link)) {
            *used.entry(topology.links()[link.0 as usize].from.0).or_default() += 1;
        }
        assert!(used.values().all(|&links| links == ports), "{used:?}");
    }
    assert_eq!(dragonfly(8).links().len(), 2 * (8 + 6), "one group needs no others");
}

#[test]
fn shortest_paths_cross_one_global_link_and_three_links_of_switches_at_most() {
    let topology = dragonfly(72);
    let routing = Routing::new(&topology, 1).unwrap();
    let mut longest = 0;
    for (from, to) in (0..72).flat_map(|one| (0..72).map(move |other| (one, other))) {
        if from == to {
            continue;
        }
        let ends = Endpoints::new(NicId(from), NicId(to));
        let path = routing.path(&topology, ends, 7).unwrap();
        let global = path.iter().filter(|&&link| topology.is_global(link)).count();
        assert_eq!(global, usize::from(from / GROUP != to / GROUP), "{from} to {to}");
        longest = longest.max(path.len() - 2);
    }
    assert_eq!(longest, 3, "the diameter, between switches");
}

/// All a p = 8 hosts of a group share the one link to the next: 1 / 8.
#[test]
fn minimal_paths_share_one_link_where_groups_send_to_the_next() {
    let flows = adversarial(200);
    let (_, finished) = run(dragonfly(72), spraying(Balancing::Hash), at_once, &flows);
    let last = finished.iter().map(|one| one.received_at).max().unwrap();
    // At most six links and the acknowledgements of other flows are added.
    let alone = 8 * 200 * SPAN;
    assert!((alone..alone + 6 * (US + SPAN) + 8 * 200 * 64 * 80).contains(&last), "{last}");
}

/// Every packet crosses two global links instead of one, of as many as hosts: 1 / 2. Where groups
/// send to the next, that link itself is idle, and the others carry 16 / 7: 7 / 16.
#[test]
fn valiant_reaches_half_of_the_rate_whoever_sends_to_whom() {
    let reached = throughput(Balancing::Valiant, &adversarial(1_000), 1_000);
    assert!((0.41..0.4375).contains(&reached), "{reached}");
    let reached = throughput(Balancing::Valiant, &uniform(8), 8 * 71);
    assert!((0.5..0.6).contains(&reached), "a ninth stays in its group: {reached}");
}

/// Minimal paths suffice for uniform traffic, and UGAL mostly keeps to them. Where they do not, it
/// takes both kinds, up to 1 / 8 + 7 / 16; its own queues do not tell UGAL-L of those at the only
/// link to the next group.
#[test]
fn ugal_is_near_minimal_paths_or_near_valiant() {
    let uniform = |balancing| throughput(balancing, &uniform(8), 8 * 71);
    assert!(uniform(Balancing::Hash) > 0.95);
    assert!(uniform(Balancing::UgalGlobal) > 0.9 && uniform(Balancing::UgalLocal) > 0.85);
    let adversarial = |balancing| throughput(balancing, &adversarial(1_000), 1_000);
    let [local, global] = [Balancing::UgalLocal, Balancing::UgalGlobal].map(adversarial);
    assert!((0.35..0.45).contains(&local), "{local}");
    assert!((0.5..0.5625).contains(&global), "{global}");
}

/// A detour crosses two global links, leaves by the group of its NIC and enters none twice; its
/// packets keep their order, so that transports without spraying finish in the time of its path.
#[test]
fn a_valiant_flow_takes_the_time_of_its_path() {
    for seed in 1..30 {
        let config = Config { balancing: Balancing::Valiant, seed, ..plain() };
        let (simulation, finished) =
            run(dragonfly(72), config, LineRate::new, &[flow((3, 50), 20 * 4096)]);
        let core = simulation.core();
        let used = |link: &PacketLinkId| core.sent_bytes(*link) > 20 * 4096;
        let links: Vec<_> = core.topology().link_ids().filter(used).collect();
        let global = links.iter().filter(|&&link| core.topology().is_global(link)).count();
        assert_eq!(global, 2, "seed {seed}");
        let hops = links.len() as u64;
        assert!((4..=7).contains(&hops));
        assert_eq!(finished[0].received_at, (20 + hops - 1) * SPAN + hops * US);
        assert_eq!(core.ideal_time(crate::PacketFlowId(0)).unwrap().0, finished[0].received_at);
        assert_eq!(u64::from(core.link_count(crate::PacketFlowId(0))), hops);
    }
}

#[test]
fn groups_in_the_middle_are_drawn_evenly_and_are_neither_end() {
    let mut entered: BTreeMap<u32, u32> = BTreeMap::new();
    for seed in 0..700 {
        let config = Config { balancing: Balancing::Valiant, seed, ..plain() };
        let flows = [flow((mix(seed) as u32 % 8, 70), 4096)];
        let (simulation, _) = run(dragonfly(72), config, LineRate::new, &flows);
        let core = simulation.core();
        let topology = core.topology();
        let crossed = topology.link_ids().filter(|&link| topology.is_global(link));
        for link in crossed.filter(|&link| core.sent_bytes(link) > 4096) {
            let title = topology.title(topology.links()[link.0 as usize].to);
            let group = title.trim_start_matches("group-").split('/').next().unwrap().to_owned();
            *entered.entry(group.parse().unwrap()).or_default() += 1;
        }
    }
    assert_eq!(entered.remove(&8), Some(700), "every packet reaches its group");
    assert_eq!(entered.keys().copied().collect::<Vec<_>>(), (1..8).collect::<Vec<_>>());
    assert!(entered.values().all(|&count| (65..140).contains(&count)), "{entered:?}");
}

/// On two planes the detours of a flow stay on its plane.
#[test]
fn planes_of_a_dragonfly_have_detours_of_their_own() {
    let fabric = Preset::Dragonfly { shape: SMALL, cable: CABLE };
    for (topology, nics) in [
        (fabric.build_planes(72, 2).unwrap(), 72),
        (fabric.build_sprayed_planes(72, 2).unwrap(), 0),
    ] {
        let flows = [flow((nics + 3, nics + 50), 300 * 4096)];
        let (simulation, _) = run(topology, spraying(Balancing::Valiant), at_once, &flows);
        let core = simulation.core();
        let topology = core.topology();
        let mut sent: BTreeMap<String, u64> = BTreeMap::new();
        for link in topology.link_ids().filter(|&link| topology.is_global(link)) {
            let title = topology.title(topology.links()[link.0 as usize].from);
            let plane = title.split('/').next().unwrap().to_owned();
            *sent.entry(plane).or_default() += core.sent_bytes(link) / 4160;
        }
        let planes: Vec<u64> = sent.into_values().collect();
        // Two global links each.
        let expected = if nics == 0 { [300, 300] } else { [0, 600] };
        assert!(planes.iter().zip(expected).all(|(a, b)| a.abs_diff(b) < 16), "{planes:?}");
    }
}

#[test]
fn what_a_dragonfly_cannot_do_is_refused() {
    let start = |topology: Topology, config: Config| {
        Simulation::new(topology, config, LineRate::new).map(|_| ()).unwrap_err().to_string()
    };
    assert!(start(dragonfly(72), lossless()).contains("turn PFC off (--pfc off)"));
    let valiant = Config { balancing: Balancing::Valiant, ..plain() };
    let star = Preset::Star { cable: CABLE }.build(4).unwrap();
    assert!(start(star, valiant).contains("are for a dragonfly"));
    let build = |hosts, shape| {
        Preset::Dragonfly { shape, cable: CABLE }.build(hosts).map(|_| ()).unwrap_err().to_string()
    };
    assert_eq!(
        build(73, SMALL),
        "73 hosts do not fit a dragonfly with 2 on a switch, 4 switches in a group and 2 global \
         links of each, which has 72; make one of them larger"
    );
    assert!(build(4, Dragonfly { global_links: 0, ..SMALL }).contains("1 to 1,024 of each"));
}

/// A link between groups fails: packets go over a third group, with and without detours.
#[test]
fn a_global_link_that_fails_is_avoided() {
    let topology = dragonfly(72);
    let routing = |failed: Option<PacketLinkId>| {
        let has_failed =
            |link: PacketLinkId| failed.is_some_and(|it| link == it || link == it.reverse());
        Routing::without(&topology, 1, has_failed).unwrap()
    };
    let ends = Endpoints::new(NicId(0), NicId(71));
    let path = routing(None).path(&topology, ends, 3).unwrap();
    let global = *path.iter().find(|&&link| topology.is_global(link)).unwrap();
    let other = routing(Some(global)).path(&topology, ends, 3).unwrap();
    assert!(!other.contains(&global));
    assert_eq!(other.iter().filter(|&&link| topology.is_global(link)).count(), 2);
}
