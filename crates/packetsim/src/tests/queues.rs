//! Queues at their limits, counted by hand, and rules that relate one run to another.

use super::{flow, lossless, plain, run, total};
use crate::presets::{fat_tree, leaf_spine, star};
use crate::transport::line_rate::LineRate;
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::transport::{Next, Transport};
use crate::{
    Cable, Config, Control, Core, Ecn, FlowSpec, Marking, NicId, Overflow, Packet, PacketFlowId,
    PacketKind, PacketLinkId, PathChoice, Pfc, Simulation, Topology, profile,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
/// A full packet at 100 Gb/s, in ps.
const PACKET: u64 = 4160 * 80;

fn three_hosts() -> Topology {
    star(3, FAST, Duration(US)).unwrap()
}

/// From hosts 0 and 1 to host 2, whose port is link 5.
fn pairs(packets: u64) -> [FlowSpec; 2] {
    [0, 1].map(|host| flow((host, 2), packets * 4096))
}
const PORT: PacketLinkId = PacketLinkId(5);

/// Sends control packets at the start of each flow, as many as it has data packets, and nothing
/// else.
#[derive(Debug, Default)]
struct Signals {
    received: u64,
}

impl Transport for Signals {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        let source = core.endpoints(flow).source();
        for _ in 0..core.flow(flow).packets {
            core.send_control(source, Control::new(PacketKind::Request, flow));
        }
    }

    fn next(&mut self, _core: &mut Core, _nic: NicId, _at: Time) -> Next {
        Next::Nothing
    }

    fn receive(&mut self, _core: &mut Core, _nic: NicId, _packet: Packet) {
        self.received += 1;
    }
}

/// Two packets arrive in each packet time, one leaves: after pair i (from 0 on), i + 1 wait. So a
/// queue of k drops one of each pair from pair k on.
#[test]
fn a_full_control_queue_drops_control_packets() {
    let (n, k) = (50, 7);
    let limited = Config { control_priority: true, control_queue_bytes: k * 64, ..plain() };
    for (config, drops) in [
        (limited, u64::from(n - k)),
        (Config { control_queue_bytes: u32::MAX, ..limited }, 0),
        // With data in one queue, or without loss, there is no such limit.
        (Config { control_priority: false, ..limited }, 0),
        (Config { pfc: lossless().pfc, ..limited }, 0),
    ] {
        let mut simulation =
            Simulation::new(three_hosts(), config, |_| Signals::default()).unwrap();
        for spec in pairs(u64::from(n)) {
            simulation.add_flow(&spec).unwrap();
        }
        simulation.advance(Time(u64::MAX), &mut Vec::new(), &mut Silent).unwrap();
        assert_eq!(simulation.core().link_counters(PORT).control_drops, drops);
        assert_eq!(simulation.transport().received, 2 * u64::from(n) - drops);
        assert_eq!(total(&simulation, |link| link.drops), 0, "no data was lost");
    }
}

/// The same with data: go-back-N sends again, so only the first drop is counted by hand.
#[test]
fn a_full_data_queue_drops_from_its_limit_on() {
    for k in [3, 8] {
        // Pair k is the first that does not fit; the one before it does.
        for (packets, drops) in [(u64::from(k), 0), (u64::from(k) + 1, 1)] {
            let config = Config { queue_bytes: k * 4160, control_priority: true, ..plain() };
            let (simulation, _) = run(three_hosts(), config, LineRate::new, &pairs(packets));
            assert_eq!(simulation.core().link_counters(PORT).drops, drops, "{k}: {packets}");
            let peak = simulation.core().peak_bytes(PORT);
            assert_eq!(peak, k * 4160, "a queue may be exactly full");
        }
    }
}

/// As many packets as in the test before, but their payloads are trimmed. All headers arrive.
#[test]
fn a_full_data_queue_trims_where_it_would_drop() {
    let (n, k) = (40, 6);
    let config = Config {
        queue_bytes: k * 4160,
        control_queue_bytes: 100 * 64,
        control_priority: true,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(1),
        ..plain()
    };
    let parameters = NdpParameters { window: Some(n), ..NdpParameters::default() };
    let new = |core: &Core| Ndp::new(core, parameters);
    let mut simulation = Simulation::new(three_hosts(), config, new).unwrap();
    for spec in pairs(u64::from(n)) {
        simulation.add_flow(&spec).unwrap();
    }
    // Until the last pair has arrived, before anything that was trimmed comes back. Headers go
    // first and take up transmission time, so a few more are trimmed than packets dropped above.
    let last_pair = Time(u64::from(n) * PACKET + US);
    simulation.advance(last_pair, &mut Vec::new(), &mut Silent).unwrap();
    let trims = simulation.core().link_counters(PORT).trims;
    assert!((u64::from(n - k)..u64::from(n - k) + 2).contains(&trims), "{trims}");
    assert_eq!(total(&simulation, |link| link.drops + link.control_drops), 0);
}

/// The links of two senders to one port buffer half of what waits each. With a threshold of exactly
/// k packets, k of them are not too many.
#[test]
fn pfc_pauses_above_its_threshold_and_not_at_it() {
    let sent = 20;
    // What is buffered of each link after its packet i (from 0 on), the one in service included:
    // of 2 (i + 1) packets that came, i have left.
    let buffered = |packets: u64| packets.div_ceil(2) + 1;
    let largest = buffered(sent - 1);
    for (threshold, pauses) in [(largest * 4160, 0), (largest * 4160 - 1, 1)] {
        let threshold = u32::try_from(threshold).unwrap();
        let pfc = Some(Pfc { pause_bytes: threshold, resume_bytes: threshold });
        let config = Config { pfc, ..plain() };
        let (simulation, _) = run(three_hosts(), config, LineRate::new, &pairs(sent));
        assert_eq!(total(&simulation, |link| link.pauses) > 0, pauses > 0, "{threshold} B");
    }
}

/// The published runs of DCTCP mark from the 51st packet on when a packet departs: of two times n
/// packets, all but the first k + 1 and the last k, see the test of marks.
#[test]
fn the_profile_of_dctcp_marks_beyond_fifty_packets() {
    let (config, _) = profile("dctcp", FAST).unwrap();
    let n = 200;
    let specs = [0, 1].map(|host| flow((host, 2), n * u64::from(config.mtu)));
    let (simulation, _) = run(three_hosts(), config, LineRate::new, &specs);
    assert_eq!(simulation.core().link_counters(PORT).marks, 2 * n - 2 * 50 - 1);
}

/// Kmin itself is not above Kmin, nor is Kmax above Kmax.
#[test]
fn marks_begin_above_their_thresholds() {
    let n = 30;
    // On arrival of pair i, i wait before its first packet and i + 1 before its second, less one
    // that leaves: lengths are 0, 0 (sent at once), 1, 2, 2, 3 ... up to n - 1, n. On departure
    // of the packet after the last pair, n wait, itself included.
    let peak = n * 4160;
    for (marking, longest) in [(Marking::Arrival, peak - 4160), (Marking::Departure, peak)] {
        for (threshold, marks) in [(longest, 0), (longest - 1, 1)] {
            let (min_bytes, max_bytes) = (threshold, threshold);
            let ecn = Ecn { marking, min_bytes, max_bytes, probability: 1.0 };
            let config = Config { ecn: Some(ecn), ..plain() };
            let (simulation, _) = run(three_hosts(), config, LineRate::new, &pairs(u64::from(n)));
            assert_eq!(simulation.core().peak_bytes(PORT), peak);
            assert_eq!(
                simulation.core().link_counters(PORT).marks,
                marks,
                "{marking:?} {threshold}"
            );
        }
    }
}

/// The queue passes the ramp, of 300 packets, once up by halves and once down; 100 packets find,
/// or leave, more than Kmax.
#[test]
fn on_the_ramp_a_tenth_is_marked_on_average() {
    for marking in [Marking::Arrival, Marking::Departure] {
        let (min_bytes, max_bytes) = (50 * 4160, 350 * 4160);
        let ecn = Ecn { marking, min_bytes, max_bytes, probability: 0.2 };
        let config = Config { ecn: Some(ecn), ..plain() };
        let (simulation, _) = run(three_hosts(), config, LineRate::new, &pairs(400));
        let marks = simulation.core().link_counters(PORT).marks as f64;
        let on_ramp = 600.0 * 0.1;
        // Four deviations of the draws.
        let error = (marks - 100.0 - on_ramp).abs();
        assert!(error < 4.0 * f64::sqrt(on_ramp), "{marking:?}: {marks} marks");
    }
}

#[test]
fn a_leafs_uplinks_have_the_rate_of_spines_and_its_downlinks_that_of_hosts() {
    let [host, spine] = [Rate(100), Rate(400)];
    let topology = leaf_spine(10, 4, 2, host, spine, Duration(7)).unwrap();
    let count = |layer: &str, rate: Rate| {
        let links = topology.links().iter();
        let paused = links.filter(|link| {
            topology.layers()[usize::from(link.layer)] == layer && link.rate == rate
        });
        paused.count()
    };
    assert_eq!(["host up", "host down"].map(|layer| count(layer, host)), [10, 10]);
    // Three leaves, the last one with two hosts, on two spines.
    assert_eq!(["tor up", "tor down"].map(|layer| count(layer, spine)), [6, 6]);
    assert_eq!(topology.links().len(), 32);
    assert!(topology.links().iter().all(|link| link.delay == Duration(7)));
    // A packet between leaves spends a quarter of the time on the two links between switches.
    let topology = leaf_spine(8, 4, 1, FAST, Rate(4 * FAST.0), Duration(US)).unwrap();
    let (_, flows) = run(topology, plain(), LineRate::new, &[flow((0, 7), 4096)]);
    assert_eq!(flows[0].received_at, 2 * PACKET + 2 * PACKET / 4 + 4 * US);
}

/// Flows of a permutation and an incast, by a relabeling of hosts; no two packets of different
/// hosts arrive at one instant, where their order would be random.
fn traffic(label: impl Fn(u32) -> u32) -> Vec<FlowSpec> {
    let permutation = (0..8).map(|host| (host, (host + 3) % 8, 60_000));
    let incast = [1, 2, 5].map(|host| (host, 0, 90_000));
    permutation
        .chain(incast)
        .zip((0..).map(|index| Time(1_238 * index)))
        .map(|((from, to, bytes), start)| FlowSpec {
            start,
            ..flow((label(from), label(to)), bytes)
        })
        .collect()
}

/// Twice the rate and half the delay: everything takes half the time.
#[test]
fn a_network_that_is_twice_as_fast_takes_half_the_time() {
    for config in [plain(), lossless()] {
        let times = |factor: u64| {
            let rate = Rate(factor * FAST.0);
            let topology = star(8, rate, Duration(2 * US / factor)).unwrap();
            let specs: Vec<FlowSpec> = traffic(|host| host)
                .into_iter()
                .map(|spec| FlowSpec { start: Time(spec.start.0 / factor), ..spec })
                .collect();
            let (_, flows) = run(topology, config, LineRate::new, &specs);
            flows.iter().map(|flow| (flow.received_at, flow.done_at)).collect::<Vec<_>>()
        };
        let halved: Vec<_> = times(1).iter().map(|&(a, b)| (a / 2, b / 2)).collect();
        assert_eq!(times(2), halved);
    }
}

/// Hosts of one switch may change places.
#[test]
fn relabeled_hosts_have_the_same_times() {
    for config in [plain(), lossless()] {
        let times = |label: fn(u32) -> u32| {
            let topology = star(8, FAST, Duration(US)).unwrap();
            let (simulation, flows) = run(topology, config, LineRate::new, &traffic(label));
            let hops = simulation.core().counters().data_hops;
            (flows.iter().map(|flow| flow.done_at).collect::<Vec<_>>(), hops)
        };
        let expected = times(|host| host);
        assert_eq!(times(|host| (5 * host + 2) % 8), expected);
        assert_eq!(times(|host| 7 - host), expected);
    }
}

/// A later start delays a run as a whole.
#[test]
fn a_run_that_starts_later_ends_later_by_as_much() {
    let times = |start: u64| {
        let specs: Vec<FlowSpec> = traffic(|host| host)
            .into_iter()
            .map(|spec| FlowSpec { start: spec.start + Duration(start), ..spec })
            .collect();
        let topology = fat_tree(8, 4, FAST, Duration(US)).unwrap();
        let (_, flows) = run(topology, lossless(), LineRate::new, &specs);
        flows.iter().map(|flow| flow.done_at - start).collect::<Vec<_>>()
    };
    assert_eq!(times(0), times(123_456_789));
}

/// Packets that never wait are late by exactly the headers: with a header as long as the payload,
/// a flow takes twice as long on the wire.
#[test]
fn headers_take_their_share_of_the_wire() {
    let config = |header| Config { mtu: 1000, header, control_bytes: 10, ..plain() };
    let mut topology = Topology::new();
    let hosts = [topology.add_host(), topology.add_host()];
    let cable = Cable { rate: FAST, delay: Duration(US) };
    topology.connect(hosts[0], hosts[1], cable, ["there", "back"]).unwrap();
    let received = |header| {
        let specs = [flow((0, 1), 64_000)];
        run(topology.clone(), config(header), LineRate::new, &specs).1[0].received_at - US
    };
    assert_eq!(received(0), 64 * 1000 * 80);
    assert_eq!(received(1000), 2 * received(0));
}
