//! Swift over a network: the delay that it keeps, flow scaling, windows below a packet.

use super::{flow, run, total};
use crate::presets::{fat_tree, star};
use crate::transport::swift::{Swift, SwiftParameters};
use crate::{Config, Core, PacketFlowId, PacketLinkId, Simulation, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);

fn swift(parameters: SwiftParameters) -> impl FnOnce(&Core) -> Swift {
    move |core| Swift::new(core, parameters)
}

fn network() -> Config {
    profile("swift", FAST).unwrap().0
}

/// An incast of long flows to the last host of a star, after `until_us`.
fn incast(senders: u32, parameters: SwiftParameters, until_us: u64) -> Simulation<Swift> {
    let topology = star(senders + 1, FAST, Duration(US)).unwrap();
    let mut simulation = Simulation::new(topology, network(), swift(parameters)).unwrap();
    for source in 0..senders {
        simulation.add_flow(&flow((source, senders), 1 << 32)).unwrap();
    }
    advance(&mut simulation, until_us);
    simulation
}

fn advance(simulation: &mut Simulation<Swift>, until_us: u64) {
    simulation.advance(Time(until_us * US), &mut Vec::new(), &mut Silent).unwrap();
}

fn received(simulation: &Simulation<Swift>, flows: u32) -> Vec<f64> {
    let core = simulation.core();
    (0..flows).map(|flow| f64::from(core.flow(PacketFlowId(flow)).received)).collect()
}

/// A window that exceeds what a round trip takes fills the line from the start.
#[test]
fn a_flow_alone_runs_at_line_rate_once_its_window_is_large_enough() {
    let topology = fat_tree(128, 8, FAST, Duration(US)).unwrap();
    let parameters = SwiftParameters { initial_window: Some(60.0), ..SwiftParameters::default() };
    let specs = [flow((0, 127), 20_000_000)];
    let (simulation, flows) = run(topology, network(), swift(parameters), &specs);
    assert_eq!(Some(flows[0].received_at), super::ideal(&simulation, 0));
}

/// The window of a flow that starts small grows by a packet per round trip: after k round trips
/// k initial windows and k (k - 1) / 2 packets.
#[test]
fn a_small_window_grows_by_a_packet_per_round_trip() {
    let topology = fat_tree(128, 8, FAST, Duration(US)).unwrap();
    let parameters = SwiftParameters { initial_window: Some(4.0), ..SwiftParameters::default() };
    let mut simulation = Simulation::new(topology, network(), swift(parameters)).unwrap();
    simulation.add_flow(&flow((0, 127), 1 << 30)).unwrap();
    let trip = simulation.core().round_trip(PacketFlowId(0)).0 as f64 / US as f64;
    for trips in [10.0, 20.0] {
        advance(&mut simulation, (trips * trip) as u64);
        let found = received(&simulation, 1)[0];
        let expected = trips * 4.0 + trips * (trips - 1.0) / 2.0;
        assert!((found / expected - 1.0).abs() < 0.15, "{trips}: {found}, expected {expected}");
    }
}

/// All flows of an incast are held near the target of their windows: with W packets each in
/// flight, a round trip takes as long as the bottleneck takes for all of them, which is the target.
#[test]
fn the_delay_of_an_incast_is_the_target() {
    for senders in [4, 32] {
        let parameters = SwiftParameters::default();
        let mut simulation = incast(senders, parameters, 10_000);
        let packet = u64::from(network().packet_bytes());
        let mut waited = 0.0;
        let before = received(&simulation, senders);
        for step in 1..=400 {
            advance(&mut simulation, 10_000 + 25 * step);
            let bytes = simulation.core().waiting_bytes(PacketLinkId(2 * senders + 1));
            waited += bytes as f64 / 12_500.0 / 400.0;
        }
        let after = received(&simulation, senders);
        let got: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let idle = simulation.core().round_trip(PacketFlowId(0)).0 as f64 / US as f64;
        // The window for which delay and target are the same.
        let target = |window: f64| {
            let [low, high] = [0.1_f64, 100.0].map(|it| 1.0 / it.sqrt());
            let share = (1.0 / window.sqrt() - high) / (low - high);
            20.0 + 2.0 * 3.053_435 + 100.0 * share.clamp(0.0, 1.0)
        };
        let delay = |window: f64| f64::from(senders) * window * packet as f64 / 12_500.0;
        let (mut low, mut high) = (0.01, 1000.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if delay(middle) < target(middle) { low = middle } else { high = middle }
        }
        let expected = target(low);
        let found = idle + waited;
        assert!((found / expected - 1.0).abs() < 0.15, "{senders}: {found} us of {expected} us");
        let share = got.iter().sum::<f64>() * packet as f64 / (12_500.0 * 10_000.0);
        assert!(share > 0.97, "{senders} senders share {share} of the link");
        let squares: f64 = got.iter().map(|it| it * it).sum();
        let fairness = got.iter().sum::<f64>().powi(2) / (f64::from(senders) * squares);
        assert!(fairness > 0.9, "Jain's index {fairness} of {senders}");
        assert_eq!(total(&simulation, |link| link.drops), 0);
    }
}

/// More flows than packets fit the target: windows below one packet pace, and nothing is lost.
#[test]
fn windows_of_many_flows_are_below_a_packet() {
    let parameters = SwiftParameters { initial_window: Some(1.0), ..SwiftParameters::default() };
    let mut simulation = incast(600, parameters, 20_000);
    let windows: Vec<f64> =
        (0..600).map(|flow| simulation.transport().window(PacketFlowId(flow))).collect();
    let mean = windows.iter().sum::<f64>() / 600.0;
    assert!(mean < 1.0, "{mean} packets");
    let before: f64 = received(&simulation, 600).iter().sum();
    let drops = total(&simulation, |link| link.drops);
    advance(&mut simulation, 30_000);
    let packets = received(&simulation, 600).iter().sum::<f64>() - before;
    let share = packets * 4160.0 / (12_500.0 * 10_000.0);
    assert!(share > 0.9, "{share} of the link");
    assert_eq!(total(&simulation, |link| link.drops), drops, "none is lost any more");
}

/// A window of a quarter of a packet is a packet per four round trips.
#[test]
fn a_window_below_a_packet_paces() {
    let parameters = SwiftParameters {
        initial_window: Some(0.25),
        max_window: 0.25,
        ..SwiftParameters::default()
    };
    let mut simulation = incast(1, parameters, 1_000);
    let trip = simulation.core().round_trip(PacketFlowId(0)).0 as f64 / US as f64;
    let expected = 1_000.0 / (4.0 * trip);
    let received_at = received(&simulation, 1)[0];
    assert!((received_at - expected).abs() <= 1.0, "{received_at} packets instead of {expected}");
    advance(&mut simulation, 2_000);
    let received_at = received(&simulation, 1)[0];
    assert!((received_at - 2.0 * expected).abs() <= 1.0, "{received_at} packets in twice the time");
}
