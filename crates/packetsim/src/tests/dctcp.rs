//! DCTCP against closed forms, and marks where they are stated to be.

use super::{flow, plain, run};
use crate::presets::{fat_tree, star};
use crate::transport::Parameters;
use crate::transport::dctcp::{Dctcp, DctcpParameters};
use crate::transport::line_rate::LineRate;
use crate::{
    Cable, Config, Core, Ecn, FlowSpec, Marking, NicId, PacketFlowId, PacketLinkId, Simulation,
    Topology,
};
use lightloom_model::{Duration, Rate};

const US: u64 = 1_000_000;
const PACKET: u32 = 8936;
/// Time to send a packet at 100 Gb/s, in ps.
const SPAN: u64 = 714_880;
const FAST: Rate = Rate(100_000_000_000);

/// Packets of 8,936 B, acknowledgements of 1 B that overtake data, marks beyond 50 packets.
fn config(queue_packets: u32) -> Config {
    Config {
        mtu: PACKET,
        header: 0,
        control_bytes: 1,
        control_priority: true,
        queue_bytes: queue_packets * PACKET,
        ecn: Some(marks(Marking::Departure, 50)),
        ..plain()
    }
}

fn marks(marking: Marking, packets: u32) -> Ecn {
    let bytes = packets * PACKET;
    Ecn { marking, min_bytes: bytes, max_bytes: bytes, probability: 1.0 }
}

fn dctcp(parameters: DctcpParameters) -> impl FnOnce(&Core) -> Dctcp {
    move |core| Dctcp::new(core, parameters)
}

fn total_marks<T: crate::transport::Transport>(simulation: &Simulation<T>, links: u32) -> u64 {
    (0..links).map(|link| simulation.core().link_counters(PacketLinkId(link)).marks).sum()
}

#[test]
fn one_flow_takes_what_store_and_forward_takes() {
    for (destination, links) in [(1, 2), (4, 4), (127, 6)] {
        let topology = fat_tree(128, 8, FAST, Duration(US)).unwrap();
        let specs = [flow((0, destination), 2_000_000)];
        let (_, flows) = run(topology, config(200), dctcp(DctcpParameters::FFSIM), &specs);
        let there = (224 + links - 1) * SPAN + links * US;
        assert_eq!(flows[0].received_at, there);
        assert_eq!(flows[0].done_at, there + links * (80 + US));
    }
    assert_eq!([225 * SPAN + 4 * US, 229 * SPAN + 12 * US], [164_848_000, 175_707_520]);
}

/// Two hosts send n packets each to a third: two arrive as one leaves. When the j-th leaves, j
/// wait, itself included, as long as more arrive, then 2n - j. On arrival of the i-th pair, i - 1
/// and i wait.
#[test]
fn packets_are_marked_where_the_queue_is_beyond_the_threshold() {
    let (n, k) = (200, 50);
    for (marking, expected) in
        [(Marking::Departure, 2 * n - 2 * k - 1), (Marking::Arrival, 2 * n - 2 * k - 3)]
    {
        let config = Config { ecn: Some(marks(marking, k)), ..config(1000) };
        let specs = [0, 1].map(|host| flow((host, 2), u64::from(n * PACKET)));
        let topology = star(3, FAST, Duration(US)).unwrap();
        let (simulation, _) = run(topology, config, LineRate::new, &specs);
        assert_eq!(total_marks(&simulation, 6), u64::from(expected));
    }
}

#[test]
fn a_window_below_the_threshold_is_never_marked() {
    for (window, expected) in [(50, false), (51, true)] {
        let parameters = DctcpParameters {
            initial_window: Some(window),
            initial_threshold: window,
            ..DctcpParameters::default()
        };
        let specs = [0, 1].map(|host| flow((host, 2), 25 * u64::from(PACKET)));
        // Both windows stand still: 50 packets are too few for a 51st to wait.
        let specs = if expected { [0, 1].map(|host| flow((host, 2), 4_000_000)) } else { specs };
        let topology = star(3, FAST, Duration(US)).unwrap();
        let (simulation, _) = run(topology, config(1000), dctcp(parameters), &specs);
        assert_eq!(total_marks(&simulation, 6) > 0, expected);
    }
}

/// A fast link into a slow one: `0 -> switch -> 1`.
fn funnel(slow: Rate) -> Topology {
    let mut topology = Topology::new();
    let hosts = [topology.add_host(), topology.add_host()];
    let switch = topology.add_switch();
    for (host, rate) in hosts.into_iter().zip([FAST, slow]) {
        topology
            .connect(host, switch, Cable { rate, delay: Duration(US) }, ["up", "down"])
            .unwrap();
    }
    topology
}

/// The last of 13 packets finds ten waiting: nothing behind it tells of the loss, a timeout does.
#[test]
fn a_lost_tail_is_sent_again_after_the_timeout() {
    for tick in [1, 1_000_000_000] {
        let parameters = DctcpParameters { timer_tick: Duration(tick), ..DctcpParameters::FFSIM };
        let specs = [flow((0, 1), 13 * u64::from(PACKET))];
        let topology = funnel(Rate(10_000_000_000));
        let (simulation, flows) = run(topology, config(10), dctcp(parameters), &specs);
        // Twelve over the slow link, back, ten milliseconds, and once there and back.
        let back = 2 * US + 80 + 800;
        let last = SPAN + 12 * 10 * SPAN + 2 * US + back;
        let resent = (last + 10_000 * US).next_multiple_of(tick);
        assert_eq!(flows[0].done_at, resent + 11 * SPAN + 2 * US + back);
        assert_eq!(simulation.core().link_counters(PacketLinkId(3)).drops, 1);
    }
}

/// A window that grows by one packet per round trip overflows a queue by one packet. Those behind
/// it say so: no timeout, and the window is halved.
#[test]
fn three_duplicates_bring_a_packet_back_at_once() {
    let packets = 600;
    let parameters = DctcpParameters {
        initial_window: Some(40),
        initial_threshold: 40,
        ..DctcpParameters::default()
    };
    let specs = [flow((0, 1), packets * u64::from(PACKET))];
    let config = Config { ecn: None, ..config(40) };
    let topology = funnel(Rate(50_000_000_000));
    let (simulation, flows) = run(topology, config, dctcp(parameters), &specs);
    let core = simulation.core();
    assert_eq!(core.link_counters(PacketLinkId(3)).drops, 1);
    // The slow link is never idle, and nothing is sent twice but what was lost.
    let busy = packets * 2 * SPAN;
    assert_eq!(core.sent_bytes(PacketLinkId(3)), packets * u64::from(PACKET));
    assert_eq!(flows[0].received_at, SPAN + US + busy + US);
    let window = simulation.transport().window(PacketFlowId(0));
    assert!((22.0..40.0).contains(&window), "{window} packets");
}

/// Many senders, few buffers: everything arrives, and what was sent was received or dropped.
#[test]
fn whatever_is_lost_arrives_in_the_end() {
    for (senders, queue, bytes) in [(2, 8, 3_000_000), (8, 20, 1_000_000), (31, 60, 400_000)] {
        let topology = star(32, FAST, Duration(US)).unwrap();
        let specs: Vec<FlowSpec> = (1..=senders).map(|host| flow((host, 0), bytes)).collect();
        let parameters =
            DctcpParameters { min_timeout: Duration(500 * US), ..DctcpParameters::default() };
        let (simulation, flows) = run(topology, config(queue), dctcp(parameters), &specs);
        let core = simulation.core();
        let sent: u64 =
            (1..=senders).map(|host| core.sent_bytes(core.topology().uplink(NicId(host)))).sum();
        let down = core.topology().uplink(NicId(0)).reverse();
        let drops = core.link_counters(down).drops;
        assert!(drops > 0, "{senders} senders");
        assert_eq!(sent, core.sent_bytes(down) + drops * u64::from(PACKET));
        let needed: u64 = flows.iter().map(|flow| u64::from(flow.packets)).sum();
        assert!(sent >= (needed + drops) * u64::from(PACKET));
        assert!(flows.iter().all(|flow| flow.received == flow.packets));
    }
}

/// Two long flows share a link fairly, keep it busy, and keep its queue near the threshold.
#[test]
fn long_flows_share_a_link_without_filling_its_queue() {
    let bytes = 60_000_000;
    let specs = [0, 1].map(|host| flow((host, 2), bytes));
    let topology = star(3, FAST, Duration(US)).unwrap();
    let parameters = DctcpParameters { initial_window: Some(10), ..DctcpParameters::default() };
    let (simulation, flows) = run(topology, config(1000), dctcp(parameters), &specs);
    let down = PacketLinkId(5);
    let ideal = 2 * bytes.div_ceil(u64::from(PACKET)) * SPAN;
    let last = flows.iter().map(|flow| flow.done_at).max().unwrap();
    let first = flows.iter().map(|flow| flow.done_at).min().unwrap();
    assert!(last < ideal + ideal / 100, "{last} ps, ideal {ideal}");
    assert!(first > ideal * 9 / 10, "{first} ps, ideal {ideal}");
    assert_eq!(simulation.core().link_counters(down).drops, 0);
    let peak = simulation.core().peak_bytes(down) / PACKET;
    assert!((51..150).contains(&peak), "{peak} packets");
}

#[test]
fn wrong_parameters_are_refused() {
    let default = DctcpParameters::default();
    let text = |parameters: DctcpParameters| parameters.validate().unwrap_err().to_string();
    assert!(
        text(DctcpParameters { initial_window: Some(0), ..default }).contains("at least 1 each")
    );
    assert!(text(DctcpParameters { gain: 0.0, ..default }).contains("0 < gain <= 1"));
    assert!(text(DctcpParameters { initial_alpha: 1.5, ..default }).contains("alpha 1.5"));
    assert!(text(DctcpParameters { timer_tick: Duration(0), ..default }).contains("above 0"));
}
