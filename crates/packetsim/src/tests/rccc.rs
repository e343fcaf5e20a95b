//! RCCC over a network: line rate, an incast in which receivers share out their link, lost control.

use super::{flow, ideal, run, total};
use crate::presets::{fat_tree, star};
use crate::transport::Parameters;
use crate::transport::rccc::{Rccc, RcccParameters};
use crate::{Config, Core, FlowSpec, PacketFlowId, PacketLinkId, Simulation, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
const PACKET: u64 = 4160 * 80;

fn rccc(core: &Core) -> Rccc {
    Rccc::new(core, RcccParameters::default())
}

fn with(parameters: RcccParameters) -> impl FnOnce(&Core) -> Rccc {
    move |core| Rccc::new(core, parameters)
}

fn network(rate: Rate) -> Config {
    profile("uet-rccc", rate).unwrap().0
}

/// Within its first window a flow is at line rate; behind that it is as fast as credit, which is
/// granted in payload at 99 % of the rate and spent with headers.
#[test]
fn a_flow_alone_runs_at_line_rate_and_then_at_that_of_its_credit() {
    for gbps in [100, 400] {
        let rate = Rate(gbps * 1_000_000_000);
        for destination in [1, 4, 127] {
            let topology = || fat_tree(128, 8, rate, Duration(US)).unwrap();
            let short = [flow((0, destination), 10 * 4096)];
            let (simulation, flows) = run(topology(), network(rate), rccc, &short);
            assert_eq!(Some(flows[0].received_at), ideal(&simulation, 0));
            let long = [flow((0, destination), 6_000 * 4096)];
            let (simulation, flows) = run(topology(), network(rate), rccc, &long);
            let share = ideal(&simulation, 0).unwrap() as f64 / flows[0].received_at as f64;
            assert!((0.985..=0.992).contains(&share), "{destination} at {gbps}: {share}");
            assert_eq!(total(&simulation, |link| link.trims), 0);
        }
    }
}

/// Credit of half the rate takes twice the time.
#[test]
fn credit_is_granted_at_the_rate_that_is_set() {
    for percent in [25, 50] {
        let parameters = RcccParameters { pull_percent: percent, ..RcccParameters::default() };
        let topology = star(2, FAST, Duration(US)).unwrap();
        let flows = [flow((0, 1), 4_000 * 4096)];
        let (_, done) = run(topology, network(FAST), with(parameters), &flows);
        let expected = 4_000 * PACKET * 100 / u64::from(percent);
        let found = done[0].received_at as f64 / expected as f64;
        assert!((0.99..1.01).contains(&found), "{percent} %: {found}");
    }
}

/// After the first windows nothing is trimmed, the link is never idle, and shares are equal.
#[test]
fn an_incast_shares_a_link_that_is_never_idle() {
    for senders in [2, 8, 32] {
        let topology = star(senders + 1, FAST, Duration(3 * US)).unwrap();
        let mut simulation = Simulation::new(topology, network(FAST), rccc).unwrap();
        for source in 0..senders {
            simulation.add_flow(&flow((source, senders), 1 << 32)).unwrap();
        }
        let mut advance = |until_us: u64| {
            simulation.advance(Time(until_us * US), &mut Vec::new(), &mut Silent).unwrap();
            let core = simulation.core();
            let count = |flow: u32| f64::from(core.flow(PacketFlowId(flow)).received);
            let received: Vec<f64> = (0..senders).map(count).collect();
            let waiting = core.waiting_bytes(PacketLinkId(2 * senders + 1));
            (received, waiting, total(&simulation, |link| link.trims))
        };
        let (before, _, trims) = advance(10_000);
        let (after, waiting, later_trims) = advance(20_000);
        assert_eq!(later_trims, trims, "{senders} senders: credit fills no queue");
        assert!(waiting <= 4 * 4160 * u64::from(senders), "{waiting} B wait");
        let got: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let share = got.iter().sum::<f64>() * 4160.0 / (12_500.0 * 10_000.0);
        assert!((0.98..=1.0).contains(&share), "{senders} senders have {share} of the link");
        let bounds =
            got.iter().fold((f64::MAX, 0.0_f64), |(low, high), &one| (low.min(one), high.max(one)));
        assert!(bounds.1 - bounds.0 <= 8.0, "{senders}: {bounds:?}, two pulls at most apart");
    }
}

/// A sender with two receivers divides what it asks for; neither grants what the other's flow uses.
#[test]
fn a_sender_of_two_flows_shares_its_link() {
    let topology = star(3, FAST, Duration(US)).unwrap();
    let flows = [flow((0, 1), 2_000 * 4096), flow((0, 2), 2_000 * 4096)];
    let (_, done) = run(topology, network(FAST), rccc, &flows);
    for one in &done {
        let share = (4_000 * PACKET) as f64 / one.received_at as f64;
        assert!((0.98..=1.0).contains(&share), "{share}");
    }
}

/// 32 flows take as much longer as their last packets of one byte take, and less than half of what
/// credit for full ones would.
#[test]
fn a_short_last_packet_asks_for_no_more_credit_than_it_uses() {
    let last = |bytes: u64| {
        let topology = star(33, FAST, Duration(US)).unwrap();
        let parameters = RcccParameters { window: Some(1), ..RcccParameters::default() };
        let flows: Vec<FlowSpec> = (0..32).map(|from| flow((from, 32), bytes)).collect();
        let (simulation, done) = run(topology, network(FAST), with(parameters), &flows);
        assert_eq!(total(&simulation, |link| link.trims), 0);
        done.iter().map(|one| one.received_at).max().unwrap()
    };
    let longer = last(200 * 4096 + 1) - last(200 * 4096);
    assert!((32 * 65 * 80..16 * PACKET).contains(&longer), "{longer} ps");
}

/// Control packets that are lost are requested again.
#[test]
fn lost_credit_and_acknowledgements_are_made_good() {
    for control_queue_bytes in [64, 128, 1024] {
        let config = Config { control_queue_bytes, ..network(FAST) };
        let topology = star(101, FAST, Duration(US)).unwrap();
        let flows: Vec<FlowSpec> = (0..100).map(|from| flow((from, 100), 60 * 4096)).collect();
        let (simulation, done) = run(topology, config, rccc, &flows);
        assert!(total(&simulation, |link| link.control_drops) > 0);
        assert!(done.iter().all(|one| one.received == one.packets));
    }
}

/// The window is one and a half round trips unless it is given.
#[test]
fn the_first_window_is_what_is_sent_before_anything_is_heard() {
    let silent = |window: Option<u32>| {
        let topology = star(2, FAST, Duration(20 * US)).unwrap();
        let parameters = RcccParameters { window, ..RcccParameters::default() };
        let mut simulation = Simulation::new(topology, network(FAST), with(parameters)).unwrap();
        simulation.add_flow(&flow((0, 1), 1 << 30)).unwrap();
        // The first feedback is under way until after 80 us.
        simulation.advance(Time(80 * US), &mut Vec::new(), &mut Silent).unwrap();
        simulation.core().sent_bytes(PacketLinkId(0)) / 4160
    };
    assert_eq!(silent(Some(7)), 7);
    assert_eq!(silent(Some(100)), 100);
    let round_trip = 80 * US + 2 * PACKET + 2 * 64 * 80;
    assert_eq!(silent(None), 80 * US / PACKET + 1, "the link is busy for {round_trip} ps");
}

#[test]
fn wrong_parameters_are_refused() {
    let zero = Duration::ZERO;
    for wrong in [
        RcccParameters { window: Some(0), ..RcccParameters::default() },
        RcccParameters { window: Some(1 << 15), ..RcccParameters::default() },
        RcccParameters { pull_percent: 0, ..RcccParameters::default() },
        RcccParameters { timeout: zero, ..RcccParameters::default() },
    ] {
        let error = wrong.validate().unwrap_err().to_string();
        assert!(error.starts_with("RCCC with a window of"), "{error}");
    }
}
