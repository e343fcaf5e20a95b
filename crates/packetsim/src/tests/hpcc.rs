//! HPCC over a network: the share of a link that a flow takes, queues of an incast, fairness.

use super::{flow, run, total};
use crate::presets::{fat_tree, star};
use crate::transport::hpcc::{Hpcc, HpccParameters};
use crate::{Config, Core, FlowSpec, PacketFlowId, PacketLinkId, Simulation, Topology, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;

fn hpcc(parameters: HpccParameters) -> impl FnOnce(&Core) -> Hpcc {
    move |core| Hpcc::new(core, parameters)
}

fn network(rate: Rate) -> Config {
    profile("hpcc", rate).unwrap().0
}

fn started(
    topology: Topology,
    rate: Rate,
    flows: &[FlowSpec],
    parameters: HpccParameters,
) -> Simulation<Hpcc> {
    let mut simulation = Simulation::new(topology, network(rate), hpcc(parameters)).unwrap();
    for spec in flows {
        simulation.add_flow(spec).unwrap();
    }
    simulation
}

fn advance(simulation: &mut Simulation<Hpcc>, until_us: u64) {
    simulation.advance(Time(until_us * US), &mut Vec::new(), &mut Silent).unwrap();
}

fn received(simulation: &Simulation<Hpcc>, flows: u32) -> Vec<f64> {
    let core = simulation.core();
    (0..flows).map(|flow| f64::from(core.flow(PacketFlowId(flow)).received)).collect()
}

/// Alone, U is the share of the line that a flow takes, and W = W eta / U + `W_AI` in balance:
/// the share is eta / (1 - `W_AI` / W), with W that share of a round trip at full rate.
#[test]
fn a_flow_alone_takes_the_target_share_of_its_link() {
    for gbps in [100, 400] {
        let rate = Rate(gbps * 1_000_000_000);
        let topology = fat_tree(128, 8, rate, Duration(US)).unwrap();
        let mut simulation =
            started(topology, rate, &[flow((0, 127), 1 << 30)], HpccParameters::of_rate(rate));
        advance(&mut simulation, 500);
        let before = received(&simulation, 1)[0];
        advance(&mut simulation, 2_500);
        let packets = received(&simulation, 1)[0] - before;
        let trip = simulation.core().round_trip(PacketFlowId(0)).0 as f64;
        let line = rate.0 as f64 / 8.0 / 1e12;
        let additive = HpccParameters::of_rate(rate).additive_bytes as f64;
        let share = 0.95 + additive / (line * trip);
        let bytes = f64::from(simulation.core().config().packet_bytes());
        let found = packets * bytes / (line * 2_000.0 * US as f64);
        assert!((found / share - 1.0).abs() < 0.002, "{gbps} Gb/s: {found}, expected {share}");
        assert_eq!(simulation.core().peak_bytes(PacketLinkId(1)), 0);
    }
}

/// What all send in their first round trip waits, and then drains: a link that has a queue counts
/// as used beyond its rate. With the increase of the paper, what is free of a round trip over the
/// flows, `W_AI` = W (1 - eta) / N, shares become equal.
#[test]
fn the_queue_of_an_incast_drains_and_stays_short() {
    for senders in [4, 16] {
        let rate = Rate(100_000_000_000);
        let topology = star(senders + 1, rate, Duration(3 * US)).unwrap();
        let specs: Vec<_> = (0..senders).map(|source| flow((source, senders), 1 << 30)).collect();
        // 12.5 kB are sent in a us.
        let additive_bytes = 12 * 12_500 / 20 / u64::from(senders);
        let parameters = HpccParameters { additive_bytes, ..HpccParameters::of_rate(rate) };
        let mut simulation = started(topology, rate, &specs, parameters);
        let down = PacketLinkId(2 * senders + 1);
        advance(&mut simulation, 10_000);
        let before = received(&simulation, senders);
        let mut longest = 0;
        for step in 1..=300 {
            advance(&mut simulation, 10_000 + 10 * step);
            longest = longest.max(simulation.core().waiting_bytes(down));
        }
        let packet = u64::from(simulation.core().config().packet_bytes());
        // Never more than one packet of each at once.
        assert!(longest <= u64::from(senders) * packet, "{longest} B of {senders} senders");
        let after = received(&simulation, senders);
        let got: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let all = 3_000.0 * US as f64 / (packet * 80) as f64;
        let share = got.iter().sum::<f64>() / all;
        assert!((0.9..=1.0).contains(&share), "{senders} senders share {share} of the link");
        let squares: f64 = got.iter().map(|it| it * it).sum();
        let fairness = got.iter().sum::<f64>().powi(2) / (f64::from(senders) * squares);
        assert!(fairness > 0.95, "Jain's index {fairness} of {senders}");
        assert_eq!(total(&simulation, |link| link.drops), 0);
    }
}

/// A flow that comes later gets its share, and one that leaves gives it back.
#[test]
fn shares_follow_who_comes_and_goes() {
    let rate = Rate(100_000_000_000);
    let topology = star(3, rate, Duration(US)).unwrap();
    let short = FlowSpec { start: Time(500 * US), ..flow((1, 2), 20_000_000) };
    let (simulation, flows) = run(
        topology,
        network(rate),
        hpcc(HpccParameters::of_rate(rate)),
        &[flow((0, 2), 60_000_000), short],
    );
    // Both at half of 95 % while the second is there.
    let alone = 20e6 * 8.0 / 0.95 / 100e9 * (4202.0 / 4096.0);
    let took = (flows[1].received_at - flows[1].start) as f64 / 1e12;
    assert!((took / (2.0 * alone) - 1.0).abs() < 0.1, "{took} s against {}", 2.0 * alone);
    let whole = 80e6 * 8.0 / 0.95 / 100e9 * (4202.0 / 4096.0);
    let end = flows[0].received_at as f64 / 1e12;
    assert!((end / whole - 1.0).abs() < 0.03, "{end} s against {whole}");
    assert_eq!(total(&simulation, |link| link.pauses), 0);
}

#[test]
#[should_panic(expected = "HPCC needs switches that write telemetry (INT)")]
fn switches_have_to_write_telemetry() {
    let rate = Rate(100_000_000_000);
    let topology = star(2, rate, Duration(US)).unwrap();
    let core = Core::with_flows(topology, Config { telemetry: false, ..network(rate) }, &[]);
    let _ = Hpcc::new(&core, HpccParameters::of_rate(rate));
}
