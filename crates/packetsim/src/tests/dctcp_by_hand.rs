//! DCTCP in small worlds worked out by hand: windows, timeouts, and who sends first.

use super::bench::{Bench, brief, sequences};
use super::{flow, plain, run};
use crate::presets::star;
use crate::transport::dctcp::{Dctcp, DctcpParameters};
use crate::{Cable, Config, Core, ECHO, Packet, PacketFlowId, PacketKind, Topology};
use lightloom_model::{Duration, Rate};

const US: u64 = 1_000_000;
const MTU: u64 = 4096;
const FAST: Rate = Rate(100_000_000_000);
const FLOW: PacketFlowId = PacketFlowId(0);

fn lossy() -> Config {
    Config { queue_bytes: 1 << 24, control_priority: true, ..plain() }
}

fn parameters(window: u32) -> DctcpParameters {
    DctcpParameters {
        initial_window: Some(window),
        timer_tick: Duration(1),
        bursts: false,
        ..DctcpParameters::FFSIM
    }
}

fn bench(packets: u64, parameters: DctcpParameters) -> Bench<Dctcp> {
    let new = |core: &Core| Dctcp::new(core, parameters);
    let topology = star(2, FAST, Duration(US)).unwrap();
    let mut bench = Bench::new(topology, lossy(), new, &[flow((0, 1), packets * MTU)]);
    bench.start(0);
    bench
}

/// Delivers packets and their acknowledgements, the marks of which are given.
fn acknowledge(bench: &mut Bench<Dctcp>, sent: &[Packet], is_marked: bool) {
    for &packet in sent {
        let replies = if is_marked { bench.deliver_marked(packet) } else { bench.deliver(packet) };
        for reply in replies {
            assert_eq!((reply.kind, reply.flags & ECHO != 0), (PacketKind::Ack, is_marked));
            bench.deliver(reply);
        }
    }
}

#[test]
fn an_unmarked_window_doubles_and_a_marked_one_no_longer_does() {
    let mut bench = bench(1000, parameters(10));
    let sent = bench.burst(0, 999);
    assert_eq!(sent.len(), 10);
    // Five acknowledgements let ten packets go, and the window has grown by five.
    acknowledge(&mut bench, &sent[..5], false);
    assert_eq!((bench.transport.window(FLOW), bench.burst(0, 999).len()), (15.0, 10));
    // The first mark ends slow start: each of the others adds a part of a packet.
    acknowledge(&mut bench, &sent[5..6], true);
    let before = bench.transport.window(FLOW);
    assert!(before < 15.1, "{before}");
    acknowledge(&mut bench, &sent[6..10], false);
    let grown = bench.transport.window(FLOW) - before;
    assert!((grown - 4.0 / before).abs() < 0.02, "{grown}");
}

/// The first window of data is that up to the first acknowledgement. If each packet of the next one
/// is marked, alpha rises by g, and the window shrinks by half of alpha.
#[test]
fn a_marked_window_of_data_shrinks_the_window_by_half_of_alpha() {
    for (gain, alpha) in [(0.5, 0.0), (1.0 / 16.0, 0.0), (0.5, 1.0), (0.25, 0.5)] {
        let own =
            DctcpParameters { gain, initial_alpha: alpha, initial_threshold: 20, ..parameters(20) };
        let mut bench = bench(1000, own);
        let sent = bench.burst(0, 999);
        acknowledge(&mut bench, &sent[..1], true);
        let expected = alpha + gain * (1.0 - alpha);
        assert!((bench.transport.alpha(FLOW) - expected).abs() < 1e-6);
        let window = f64::from(20.0 * (1.0 - expected / 2.0));
        let reached = bench.transport.window(FLOW);
        // And it grows by at most its share of a packet.
        assert!((window..window + 0.1).contains(&reached), "{reached} for {window}");
        // No packet is sent until the window has room again.
        let in_flight = 19.0 - reached;
        let quiet = in_flight.floor().max(0.0) as usize;
        acknowledge(&mut bench, &sent[1..=quiet], false);
        assert!(bench.burst(0, 999).len() <= 2, "{quiet} were in excess");
    }
}

/// A third of a window is marked: alpha is g times a third after it, whatever came before.
#[test]
fn alpha_is_the_share_of_marked_packets() {
    let mut bench = bench(1000, DctcpParameters { gain: 1.0, ..parameters(30) });
    let sent = bench.burst(0, 999);
    acknowledge(&mut bench, &sent[..1], false);
    let rest = bench.burst(0, 999);
    // The window of data ends with what was in flight at its begin.
    for (index, packet) in sent[1..].iter().chain(&rest).enumerate() {
        acknowledge(&mut bench, &[*packet], index % 3 == 0);
        if bench.transport.alpha(FLOW) > 0.0 {
            break;
        }
    }
    let alpha = bench.transport.alpha(FLOW);
    assert!((alpha - 1.0 / 3.0).abs() < 0.02, "{alpha}");
}

#[test]
fn a_timeout_sends_from_the_first_packet_missing_and_one_at_a_time() {
    let mut bench = bench(100, parameters(8));
    let sent = bench.burst(0, 99);
    acknowledge(&mut bench, &sent[..2], false);
    bench.burst(0, 99);
    bench.core.set_now(lightloom_model::Time(20_000 * US));
    bench.timer(0);
    let again = bench.burst(0, 99);
    assert_eq!(sequences(&again), [2]);
    // What was there already is acknowledged at once, and slow start goes on from there.
    for packet in &sent[3..8] {
        bench.deliver(*packet);
    }
    let replies = bench.deliver(again[0]);
    assert_eq!(brief(&replies), [(PacketKind::Ack, 8)]);
    bench.deliver(replies[0]);
    assert_eq!(sequences(&bench.burst(0, 99)), [8, 9]);
}

/// Hosts at 100 Gb/s and 10 Gb/s, with cables of so many ms.
fn funnel(delay_ms: u64) -> Topology {
    let mut topology = Topology::new();
    let hosts = [topology.add_host(), topology.add_host()];
    let switch = topology.add_switch();
    for (host, rate) in hosts.into_iter().zip([FAST, Rate(10_000_000_000)]) {
        let cable = Cable { rate, delay: Duration(delay_ms * 1_000 * US) };
        topology.connect(host, switch, cable, ["up", "down"]).unwrap();
    }
    topology
}

/// RFC 6298: after samples R and R', RTO = SRTT + 4 RTTVAR. The third of three packets finds the
/// queue of one full; the other two come back, the second a packet time of the slow link later. The
/// first sample is that of an idle network, measured when the connection was made: 10 ms are too
/// early for a round trip of 40 ms.
#[test]
fn a_timeout_is_the_mean_and_four_deviations() {
    let config = Config { queue_bytes: 4160, ..lossy() };
    let own = parameters(3);
    let new = |core: &Core| Dctcp::new(core, own);
    let (_, flows) = run(funnel(10), config, new, &[flow((0, 1), 3 * MTU)]);
    let (fast, slow, ack) = (332_800, 3_328_000, 5_120 + 51_200);
    let trip = 4 * 10_000 * US + ack;
    // Two samples, in whole nanoseconds: the second packet is sent later and waits for the first.
    let first = (fast + slow + trip) / 1000;
    let second = (2 * slow + fast + trip - fast) / 1000;
    let rtt = first - first / 8 + second / 8;
    let three_quarters = |value: u64| value - value / 4;
    let deviation = three_quarters(three_quarters(first / 2)) + (second - first) / 4;
    let resent = fast + 2 * slow + trip + 1000 * (rtt + 4 * deviation);
    let expected = resent + fast + slow + trip;
    let error = flows[0].done_at.abs_diff(expected);
    assert!(error < 10_000, "{} ps for {expected}", flows[0].done_at);
}

/// Flows of one NIC to as many hosts, each less than a window. In bursts, they leave one after the
/// other; in turns, all of them end with the last packets.
#[test]
fn bursts_send_flow_by_flow_and_turns_packet_by_packet() {
    let (count, packets) = (5_u32, 20_u64);
    let finish = |bursts: bool| {
        let own = DctcpParameters { bursts, ..parameters(100) };
        let new = |core: &Core| Dctcp::new(core, own);
        let topology = star(count + 1, FAST, Duration(US)).unwrap();
        let flows: Vec<_> = (1..=count).map(|to| flow((0, to), packets * MTU)).collect();
        let (_, done) = run(topology, lossy(), new, &flows);
        done.iter().map(|flow| flow.received_at).collect::<Vec<_>>()
    };
    let packet = 4160 * 80;
    let after = |sent: u64| (sent + 1) * packet + 2 * US;
    let one_by_one: Vec<u64> = (1..=u64::from(count)).map(|flow| after(flow * packets)).collect();
    assert_eq!(finish(true), one_by_one);
    let in_turns = finish(false);
    let last = u64::from(count) * packets;
    assert_eq!(in_turns.iter().max(), Some(&after(last)));
    let first = *in_turns.iter().min().unwrap();
    assert!(first >= after(last - 2 * u64::from(count)), "all end together");
    let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
    assert!(mean(&in_turns) > 1.5 * mean(&finish(true)), "that is what turns cost on average");
}
