//! NSCC over a network: line rate, queues of an incast, shares, paths that are avoided.

use super::{flow, ideal, run, total};
use crate::presets::{fat_tree, star};
use crate::transport::nscc::{Nscc, NsccParameters};
use crate::{Config, Core, PacketFlowId, PacketLinkId, PathChoice, Simulation, profile};
use lightloom_kernel::Silent;
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);

fn nscc(core: &Core) -> Nscc {
    Nscc::new(core, NsccParameters::default())
}

fn network(rate: Rate) -> Config {
    profile("uet-nscc", rate).unwrap().0
}

/// A window of one and a half round trips fills a link from the start.
#[test]
fn a_flow_alone_runs_at_line_rate() {
    for gbps in [100, 400] {
        let rate = Rate(gbps * 1_000_000_000);
        for destination in [1, 4, 127] {
            let topology = fat_tree(128, 8, rate, Duration(US)).unwrap();
            let config = network(rate);
            let (simulation, flows) =
                run(topology, config, nscc, &[flow((0, destination), 3_000 * 4096)]);
            assert_eq!(Some(flows[0].received_at), ideal(&simulation, 0));
        }
    }
}

/// After the first window of all, the queue of an incast stays near the target delay and hardly
/// overflows; shares of the link become equal, and none of it is idle.
#[test]
fn an_incast_shares_a_link_that_is_never_idle() {
    for senders in [2, 8, 32] {
        let topology = star(senders + 1, FAST, Duration(3 * US)).unwrap();
        let mut simulation = Simulation::new(topology, network(FAST), nscc).unwrap();
        for source in 0..senders {
            simulation.add_flow(&flow((source, senders), 1 << 32)).unwrap();
        }
        let mut advance = |until_us: u64| {
            simulation.advance(Time(until_us * US), &mut Vec::new(), &mut Silent).unwrap();
            let core = simulation.core();
            let count = |flow: u32| f64::from(core.flow(PacketFlowId(flow)).received);
            let received: Vec<f64> = (0..senders).map(count).collect();
            (received, core.waiting_bytes(PacketLinkId(2 * senders + 1)), {
                total(&simulation, |link| link.trims)
            })
        };
        let (before, _, trims) = advance(10_000);
        let waiting: u64 = (1..200).map(|step| advance(10_000 + 50 * step).1).sum();
        let delay = waiting as f64 / 199.0 / 12_500.0;
        let (after, _, later_trims) = advance(20_000);
        // Three quarters of a round trip of 12 us and a packet on each of two links.
        let target = 0.75 * 12.7;
        assert!((0.3 * target..1.3 * target).contains(&delay), "{senders}: {delay} us");
        let got: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
        let sum: f64 = got.iter().sum();
        let trimmed = (later_trims - trims) as f64 / sum;
        assert!(trimmed < 0.03, "{senders}: {trimmed} of the packets are trimmed");
        let share = sum * 4160.0 / (12_500.0 * 10_000.0);
        assert!(share > 0.99, "{senders} senders share {share} of the link");
        let squares: f64 = got.iter().map(|it| it * it).sum();
        let fairness = sum * sum / (f64::from(senders) * squares);
        assert!(fairness > 0.9, "Jain's index {fairness} of {senders}");
    }
}

/// One of four paths is slow: marks and trimmed packets make flows avoid it.
#[test]
fn congested_paths_are_avoided() {
    let mut sent = Vec::new();
    for avoids in [true, false] {
        let mut topology = crate::Topology::new();
        let hosts = [topology.add_host(), topology.add_host()];
        let ends = [topology.add_switch(), topology.add_switch()];
        let cable =
            |gbps: u64| crate::Cable { rate: Rate(gbps * 1_000_000_000), delay: Duration(US) };
        for (host, end) in hosts.iter().zip(ends) {
            topology.connect(*host, end, cable(100), ["up", "down"]).unwrap();
        }
        let mut slow = None;
        for gbps in [5, 100, 100, 100] {
            let middle = topology.add_switch();
            let link = topology.connect(ends[0], middle, cable(gbps), ["up", "down"]).unwrap();
            topology.connect(middle, ends[1], cable(100), ["up", "down"]).unwrap();
            slow.get_or_insert(link);
        }
        let mut config = Config { paths: PathChoice::Spray(64), ..network(FAST) };
        if !avoids {
            // No marks, and queues that trim nothing: nothing tells that the path is slow.
            (config.ecn, config.queue_bytes) = (None, u32::MAX);
        }
        let mut simulation = Simulation::new(topology, config, nscc).unwrap();
        simulation.add_flow(&flow((0, 1), 400_000_000)).unwrap();
        let mut received = |until_us: u64| {
            simulation.advance(Time(until_us * US), &mut Vec::new(), &mut Silent).unwrap();
            simulation.core().flow(PacketFlowId(0)).received
        };
        let before = received(2_000);
        sent.push(received(6_000) - before);
    }
    // The flow is as fast as the slow path takes its share of the packets, which avoiding lowers.
    assert!(5 * sent[0] > 6 * sent[1], "{sent:?} packets, with and without avoiding");
}
