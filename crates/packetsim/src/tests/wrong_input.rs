//! Input that makes no sense gets one line that says what was given and what was expected.

use super::scenarios::{play, scenario};
use super::{flow, plain};
use crate::presets::star;
use crate::{
    Cable, Config, EarlyDrop, Ecn, FlowSpec, Marking, Overflow, PacketLinkId, PathChoice, Pfc,
    Topology,
};
use lightloom_model::{Duration, Rate};

const FAST: Rate = Rate(100_000_000_000);

#[test]
fn wrong_settings_are_refused() {
    let ecn = |min_bytes, max_bytes, probability| {
        Some(Ecn { marking: Marking::Arrival, min_bytes, max_bytes, probability })
    };
    let pfc = |pause_bytes, resume_bytes| Some(Pfc { pause_bytes, resume_bytes });
    let early = |share, probability| Some(EarlyDrop { share, probability });
    let mtu = "mtu 0 B and header 64 B make packets of 64 B; expected an MTU above 0 and packets \
               of at most 65,535 B";
    let queue = "packets of 4160 B do not fit a queue of 4000 B; enlarge the queue or make the MTU \
                 smaller";
    let cases = [
        (Config { mtu: 0, ..plain() }, mtu),
        (Config { mtu: 65_472, ..plain() }, "mtu 65472 B and header 64 B make packets of 65536 B;"),
        (Config { control_bytes: 0, ..plain() }, "control packets of 0 B; expected 1 to 32,768 B"),
        (
            Config { header: 0, overflow: Overflow::Trim, ..plain() },
            "packets are trimmed to headers of 0 B; expected at least 1",
        ),
        (Config { queue_bytes: 4000, ..plain() }, queue),
        (
            Config { control_queue_bytes: 63, ..plain() },
            "control packets of 64 B do not fit a control queue of 63 B",
        ),
        (
            Config { ecn: ecn(9, 8, 0.5), ..plain() },
            "ECN marks from 9 to 8 B with probability 0.5; expected Kmin <= Kmax and 0 < Pmax <= 1",
        ),
        (Config { ecn: ecn(1, 2, 1.5), ..plain() }, "ECN marks from 1 to 2 B with probability 1.5"),
        (
            Config { ecn: ecn(1, 2, f64::NAN), ..plain() },
            "ECN marks from 1 to 2 B with probability NaN;",
        ),
        (
            Config { early_drop: early(1.0, 0.5), ..plain() },
            "early drops from 1 of the queue on with probability 0.5; expected 0 <= share < 1 and \
             0 < probability <= 1",
        ),
        (
            Config { early_drop: early(0.0, 0.0), ..plain() },
            "early drops from 0 of the queue on with probability 0;",
        ),
        (
            Config { early_drop: early(0.5, f64::NAN), ..plain() },
            "early drops from 0.5 of the queue on with probability NaN;",
        ),
        (
            Config { early_drop: early(0.5, 0.5), pfc: pfc(9, 8), ..plain() },
            "early drops, and PFC, with which nothing is dropped; turn one of them off",
        ),
        (
            Config { pfc: pfc(5, 6), ..plain() },
            "PFC pauses above 5 B and resumes below 6 B; expected 0 < resume <= pause",
        ),
        (
            Config { paths: PathChoice::Spray(0), ..plain() },
            "packets are sprayed over 0 paths; expected at least 1",
        ),
    ];
    for (config, expected) in cases {
        let mut scenario =
            scenario("ideal", star(2, FAST, Duration(1)).unwrap(), vec![flow((0, 1), 1)]);
        scenario.config = config;
        let text = play(&scenario).unwrap_err().to_string();
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.contains('\n') && !text.contains("  "), "{text}");
    }
}

/// Two switches that nothing joins, a host on each, and a third host behind the first one.
fn parts() -> Topology {
    let mut topology = Topology::new();
    let hosts: Vec<_> = (0..3).map(|_| topology.add_host()).collect();
    let switches: Vec<_> = (0..2).map(|_| topology.add_switch()).collect();
    let names = ["up", "down"];
    for pair in [(hosts[0], switches[0]), (hosts[1], switches[1]), (hosts[0], hosts[2])] {
        topology.connect(pair.0, pair.1, Cable { rate: FAST, delay: Duration(1) }, names).unwrap();
    }
    topology
}

#[test]
fn wrong_flows_are_refused() {
    let route = |links: &[u32]| Some(links.iter().copied().map(PacketLinkId).collect::<Vec<_>>());
    let between = |ends: &str, reason: &str| format!("flow from {ends}: {reason}");
    let to_host_2 = |reason: &str| between("NIC 2 of host 0 to host 2", reason);
    let unreachable = |ends: &str| {
        between(ends, "no path of switches joins them; through hosts, give it a route")
    };
    // NICs: 0 to switch 3, 1 to switch 4, 2 of host 0 and 3 of host 2 on the link between them.
    let cases = [
        (flow((0, 1), 1), unreachable("NIC 0 of host 0 to host 1")),
        (flow((0, 3), 1), unreachable("NIC 0 of host 0 to host 2")),
        (flow((3, 0), 1), unreachable("host 2 to NIC 0 of host 0")),
        (flow((0, 7), 1), "flow from NIC 0 to NIC 7: there are 4 NICs, from 0 on".into()),
        (flow((0, 2), 1), between("NIC 0 of host 0 to NIC 2 of host 0", "both are of one host")),
        (flow((2, 3), 1 << 60), to_host_2("1152921504606846976 B are over 2^31 packets of 4096 B")),
        (
            FlowSpec { route: route(&[4, 5]), ..flow((2, 3), 1) },
            to_host_2("links [4, 5] are no path from the one to the other"),
        ),
        (
            FlowSpec { route: route(&[99]), ..flow((2, 3), 1) },
            to_host_2("links [99] are no path from the one to the other"),
        ),
        (
            FlowSpec { route: route(&[]), ..flow((2, 3), 1) },
            to_host_2("links [] are no path from the one to the other"),
        ),
    ];
    for (spec, expected) in cases {
        let text = play(&scenario("ideal", parts(), vec![spec])).unwrap_err().to_string();
        assert_eq!(text, expected);
    }
    let flows = vec![FlowSpec { route: route(&[4]), ..flow((2, 3), 1) }, flow((3, 2), 1)];
    assert_eq!(play(&scenario("ideal", parts(), flows)).unwrap().1.len(), 2);
}

#[test]
fn times_that_do_not_fit_the_clock_are_refused() {
    let text = star(2, FAST, Duration(10_u64.pow(19))).map(|_| ()).unwrap_err().to_string();
    assert_eq!(
        text,
        "the link between node 0 and node 2 has a delay of 10000000 s; expected at most \
         1,000,000 s"
    );
    // Nine hours for each packet are no problem.
    let slow = star(2, Rate(1), Duration(0)).unwrap();
    let (_, outcomes) = play(&scenario("ideal", slow, vec![flow((0, 1), 8192)])).unwrap();
    assert_eq!(outcomes[0].received_at.0, 3 * 4160 * 8_000_000_000_000);
}
