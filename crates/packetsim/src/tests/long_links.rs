//! Links so long that an acknowledgement takes longer than a timeout, and queues without end: the
//! work of a run follows what it has to carry.

use super::{flow, plain, run};
use crate::transport::Transport;
use crate::transport::eqds::{Eqds, EqdsParameters};
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::{
    Config, Core, Overflow, PacketFlowId, PacketLinkId, PathChoice, Simulation, Topology, presets,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const MTU: u64 = 4096;
const MS: u64 = 1_000_000_000;
const FAST: Rate = Rate(100_000_000_000);

fn pair(delay: u64) -> Topology {
    presets::star(2, FAST, Duration(delay)).unwrap()
}

fn trimming() -> Config {
    let queue_bytes = 34 * 4160;
    Config {
        control_priority: true,
        queue_bytes,
        control_queue_bytes: 2 * queue_bytes,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(4),
        ..plain()
    }
}

fn lossy() -> Config {
    Config { queue_bytes: 1 << 24, ..plain() }
}

fn ndp(core: &Core) -> Ndp {
    Ndp::new(core, NdpParameters::default())
}

fn eqds(core: &Core) -> Eqds {
    Eqds::new(core, EqdsParameters::default())
}

/// Data hops of one flow over two links of 10 ms.
fn hops<T: Transport>(config: Config, transport: fn(&Core) -> T, packets: u64) -> u64 {
    let flows = [flow((0, 1), packets * MTU)];
    run(pair(10 * MS), config, transport, &flows).0.core().counters().data_hops
}

#[test]
fn a_round_trip_is_a_packet_there_and_a_control_packet_back() {
    let topology = presets::fat_tree(16, 4, FAST, Duration(3_000)).unwrap();
    let mut simulation = Simulation::new(topology, plain(), LineRate::new).unwrap();
    for (to, links) in [(1, 2), (2, 4), (15, 6)] {
        let id = simulation.add_flow(&flow((0, to), 1)).unwrap();
        let link = (4160 + 64) * 80 + 2 * 3_000;
        assert_eq!(simulation.core().round_trip(id), Duration(links * link));
    }
}

/// A round trip takes 40 ms, a timeout 0.22 ms.
#[test]
fn nothing_is_sent_again_while_its_acknowledgement_is_on_its_way() {
    for packets in [1, 49, 400] {
        assert_eq!(hops(trimming(), ndp, packets), 2 * packets, "NDP");
        assert_eq!(hops(trimming(), eqds, packets), 2 * packets, "EQDS");
    }
    // Go-back-N would go back twice while it waits for the first acknowledgement of its flow.
    let delay = TIMEOUT.0;
    let flows = [flow((0, 1), 100 * MTU)];
    let (simulation, flows) = run(pair(delay), lossy(), LineRate::new, &flows);
    assert_eq!(simulation.core().counters().data_hops, 200);
    assert_eq!(flows[0].received_at, 101 * 332_800 + 2 * delay);
}

/// NDP sends a window per round trip; 50 packets in 40 ms here.
#[test]
fn a_window_per_round_trip_crosses_a_long_link() {
    let (_, flows) = run(pair(10 * MS), trimming(), ndp, &[flow((0, 1), 500 * MTU)]);
    let rounds = flows[0].done_at as f64 / (40 * MS) as f64;
    assert!((10.0..10.2).contains(&rounds), "{rounds} round trips for ten windows");
}

/// Packets that are lost on a long link are sent again, after two round trips or a little more.
#[test]
fn what_is_lost_on_a_long_link_is_sent_again() {
    for window in [4, 40] {
        let parameters = NdpParameters { window: Some(window), ..NdpParameters::default() };
        let new = |core: &Core| Ndp::new(core, parameters);
        // Headers do not fit: what finds a full queue is lost without a word.
        let tiny = Config { queue_bytes: 4160, control_queue_bytes: 64, ..trimming() };
        let topology = presets::star(9, FAST, Duration(10 * MS)).unwrap();
        let flows: Vec<_> = (1..9).map(|from| flow((from, 0), 100 * MTU)).collect();
        let (simulation, done) = run(topology, tiny, new, &flows);
        assert!(done.iter().all(|flow| flow.received == 100));
        let sent = simulation.core().counters().data_hops;
        assert!(sent < 20 * 800, "{sent} hops for 800 packets of data");
    }
}

/// A circuit to the receiver that is dark for 50 ms: whoever hears nothing tries ever more rarely.
#[test]
fn silence_lengthens_timeouts() {
    fn sent<T: Transport>(transport: fn(&Core) -> T) -> u64 {
        let mut simulation = Simulation::new(pair(1_000_000), trimming(), transport).unwrap();
        simulation.add_flow(&flow((0, 1), MTU)).unwrap();
        let downlink = PacketLinkId(3);
        simulation.set_dark(Time::ZERO, downlink, true);
        simulation.set_dark(Time(50 * MS), downlink, false);
        let mut done = Vec::new();
        assert!(simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap());
        assert!(simulation.core().now() > Time(50 * MS));
        simulation.core().sent_bytes(PacketLinkId(0))
    }
    // Twice as long each time: 0.22 ms to 28 ms, where 227 timeouts of 0.22 ms would fit.
    assert!(sent(ndp) < 12 * 4160, "NDP: {} B", sent(ndp));
    assert!(sent(eqds) < 12 * 4160, "EQDS: {} B", sent(eqds));
}

/// Where nothing is lost nothing is sent again, however long it takes: no timer runs.
#[test]
fn lossless_networks_have_no_timeouts() {
    for config in [plain(), super::lossless()] {
        let mut simulation = Simulation::new(pair(1_000_000), config, LineRate::new).unwrap();
        simulation.add_flow(&flow((0, 1), 10 * MTU)).unwrap();
        let there = PacketLinkId(3);
        simulation.set_dark(Time::ZERO, there, true);
        simulation.set_dark(Time(5 * TIMEOUT.0), there, false);
        let mut done = Vec::new();
        assert!(simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap());
        assert_eq!(simulation.core().counters().data_hops, 20);
    }
}

#[test]
fn packets_that_pile_up_end_the_run() {
    let topology = presets::star(9, FAST, Duration(1_000)).unwrap();
    let mut simulation = Simulation::new(topology, plain(), LineRate::new).unwrap();
    // Eight send into one queue without end; the first is short.
    simulation.add_flow(&flow((1, 0), 100 * MTU)).unwrap();
    for from in 2..9 {
        simulation.add_flow(&flow((from, 0), 1 << 34)).unwrap();
    }
    simulation.limit_packets(200_000);
    let mut done = Vec::new();
    let error = loop {
        match simulation.advance(Time(u64::MAX), &mut done, &mut Silent) {
            Ok(any) => assert!(any, "it does not end"),
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(done, [PacketFlowId(0)], "what had finished is there");
    assert!(error.starts_with("more than 200000 packets are in the network at once, "), "{error}");
    assert!(error.ends_with("limit the queues, make flows smaller or packets larger"));
    let peak = simulation.core().peak_packets();
    assert!((200_000..300_000).contains(&peak), "noticed soon: {peak}");
}

#[test]
fn a_run_below_the_limit_does_not_notice_it() {
    let new = |limit: Option<u64>| {
        let mut simulation = Simulation::new(pair(1_000), plain(), LineRate::new).unwrap();
        simulation.add_flow(&flow((0, 1), 20_000 * MTU)).unwrap();
        if let Some(limit) = limit {
            simulation.limit_packets(limit);
        }
        let mut done = Vec::new();
        simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap();
        (done, simulation.core().now(), simulation.core().peak_packets())
    };
    let free = new(None);
    assert_eq!(new(Some(free.2)), free);
}
