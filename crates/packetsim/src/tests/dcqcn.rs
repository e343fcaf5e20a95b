//! DCQCN over a network: its rate where nothing marks, fairness, loss.

use super::{flow, ideal, in_order, lossless, plain, run, total};
use crate::presets::{fat_tree, star};
use crate::transport::dcqcn::{Dcqcn, DcqcnParameters};
use crate::{
    Config, Core, Ecn, FlowSpec, Marking, PacketFlowId, PacketLinkId, Simulation, profile,
};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);

fn dcqcn(parameters: DcqcnParameters) -> impl FnOnce(&Core) -> Dcqcn {
    move |core| Dcqcn::new(core, parameters)
}

/// NICs that recover within some 100 us rather than ms.
fn brisk() -> DcqcnParameters {
    DcqcnParameters {
        gain: 1.0 / 16.0,
        increase_interval: Duration(20 * US),
        additive: Rate(500_000_000),
        hyper: Rate(500_000_000),
        ..DcqcnParameters::of_rate(FAST)
    }
}

fn marks(min_bytes: u32, max_bytes: u32) -> Ecn {
    Ecn { marking: Marking::Departure, min_bytes, max_bytes, probability: 0.1 }
}

#[test]
fn a_flow_that_is_never_marked_runs_at_line_rate() {
    for gbps in [100_u64, 300, 800] {
        let rate = Rate(gbps * 1_000_000_000);
        let (config, _) = profile("dcqcn", rate).unwrap();
        let topology = fat_tree(128, 8, rate, Duration(US)).unwrap();
        let specs = [flow((0, 127), 20_000_000)];
        let parameters = DcqcnParameters::of_rate(rate);
        let (simulation, flows) = run(topology, config, dcqcn(parameters), &specs);
        assert_eq!(Some(flows[0].received_at), ideal(&simulation, 0));
        assert_eq!(total(&simulation, |link| link.marks), 0);
    }
}

/// Hosts 0 and 1 send to host 2: all is sent at once, marked, and the rates halve.
#[test]
fn notifications_arrive_after_a_round_trip_and_halve_the_rate() {
    let ecn = Ecn { marking: Marking::Arrival, min_bytes: 0, max_bytes: 0, probability: 1.0 };
    let config = Config { ecn: Some(ecn), control_priority: true, ..plain() };
    let topology = star(3, FAST, Duration(US)).unwrap();
    let parameters = DcqcnParameters { cnp_interval: Duration(50 * US), ..brisk() };
    let mut simulation = Simulation::new(topology, config, dcqcn(parameters)).unwrap();
    for spec in in_order([0, 1].map(|source| flow((source, 2), 10_000_000))) {
        simulation.add_flow(&spec).unwrap();
    }
    let silent = &mut Silent;
    // At the port of host 2 a pair of packets arrives in each packet time, and one leaves. Of the
    // second pair, that of flow 1 finds the other waiting; of the third, both find one, and that of
    // flow 0 leaves as the fifth packet. The notification goes back at once.
    let (span, notification) = (332_800, 5_120);
    let marked = span + US + 5 * span + US;
    let notified = marked + 2 * (notification + US);
    simulation.advance(Time(notified - 1), &mut Vec::new(), silent).unwrap();
    let rate = |simulation: &Simulation<Dcqcn>| simulation.transport().rate(PacketFlowId(0)) as u64;
    assert_eq!(rate(&simulation), 100_000_000_000);
    simulation.advance(Time(notified), &mut Vec::new(), silent).unwrap();
    assert_eq!(rate(&simulation), 50_000_000_000);
    // At most one notification in 50 us each: before the next ones nothing but recovery.
    simulation.advance(Time(notified + 50 * US), &mut Vec::new(), silent).unwrap();
    assert!(rate(&simulation) >= 50_000_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Two flows to one host, one of which starts later: each gets about half, none is lost.
    #[test]
    fn flows_converge_to_their_fair_share(seed in 0u64..1000, later in 0u64..500) {
        let config = Config { ecn: Some(marks(50_000, 200_000)), seed, ..lossless() };
        let topology = star(3, FAST, Duration(US)).unwrap();
        let mut simulation = Simulation::new(topology, config, dcqcn(brisk())).unwrap();
        let second = FlowSpec { start: Time(later * US), ..flow((1, 2), 1 << 30) };
        for spec in [flow((0, 2), 1 << 30), second] {
            simulation.add_flow(&spec).unwrap();
        }
        let count = |simulation: &Simulation<Dcqcn>| {
            [0, 1].map(|flow: u32| f64::from(simulation.core().flow(PacketFlowId(flow)).received))
        };
        // The first 2 ms are theirs to converge, the next 10 are looked at.
        simulation.advance(Time(2000 * US), &mut Vec::new(), &mut Silent).unwrap();
        let before = count(&simulation);
        simulation.advance(Time(12_000 * US), &mut Vec::new(), &mut Silent).unwrap();
        let after = count(&simulation);
        let got = [0, 1].map(|flow| after[flow] - before[flow]);
        let expected = 10_000.0 * US as f64 / 332_800.0;
        let (sum, share) = (got[0] + got[1], got[0] / (got[0] + got[1]));
        prop_assert!((0.4..=0.6).contains(&share), "share {share}");
        let share = sum / expected;
        prop_assert!(sum > 0.9 * expected && sum <= expected + 1.0, "{share} of the rate");
    }
}

#[test]
fn pauses_keep_an_incast_lossless() {
    let ecn = Some(marks(100_000, 400_000));
    for pfc in [lossless().pfc, None] {
        let config = Config { ecn, pfc, queue_bytes: 1 << 16, control_priority: true, ..plain() };
        let parameters = DcqcnParameters { timeout: Duration(1000 * US), ..brisk() };
        let topology = star(17, FAST, Duration(US)).unwrap();
        let specs: Vec<_> = (0..16).map(|source| flow((source, 16), 400_000)).collect();
        let (simulation, flows) = run(topology, config, dcqcn(parameters), &specs);
        let drops = total(&simulation, |link| link.drops);
        let pauses = total(&simulation, |link| link.pauses);
        let sent = simulation.core().sent_bytes(PacketLinkId(2 * 16 + 1)) / 4160;
        let packets = 16 * 98;
        let last = flows.iter().map(|flow| flow.received_at).max().unwrap();
        if pfc.is_some() {
            assert!(drops == 0 && pauses > 0);
            assert_eq!(sent, packets, "nothing is sent twice");
            // The bottleneck never idles: all packets, one after the other.
            assert_eq!(last, (packets + 1) * 332_800 + 2 * US);
        } else {
            // A queue of 15 packets, and all find it full at once: most wait for their timeout.
            assert!(drops > 0 && pauses == 0);
            assert!(sent >= packets && last > (packets + 1) * 332_800 + 2 * US);
        }
    }
}
