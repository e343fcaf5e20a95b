//! NICs that place packets in any order, and send again what is missing alone.

use super::scenarios::{play, scenario};
use super::{flow, total};
use crate::presets::{Preset, fat_tree, star};
use crate::transport::line_rate::{LineRate, LineRateParameters};
use crate::{
    Balancing, Cable, Config, Core, FlowSpec, Overflow, PacketScenario, Recovery, Topology,
    TransportKind,
};
use lightloom_model::{Duration, Rate};
use proptest::prelude::*;

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
const RELIABLE: [&str; 5] = ["ideal", "roce", "dcqcn", "hpcc", "swift"];

/// All hosts of a fat tree of 4-port switches send to one of another pod.
fn shift(name: &str, balancing: Balancing) -> PacketScenario {
    let flows = (0..16).map(|host| flow((host, (host + 5) % 16), 2_000_000)).collect();
    let base = scenario(name, fat_tree(16, 4, FAST, Duration(US)).unwrap(), flows);
    PacketScenario { config: Config { balancing, ..base.config }, ..base }
}

/// The mean time of the flows over that alone, and packets sent per packet of payload.
fn outcome(scenario: &PacketScenario) -> (f64, f64) {
    let (report, outcomes) = play(scenario).unwrap();
    let sum: f64 = outcomes.iter().map(|outcome| outcome.slowdown).sum();
    let flows = outcomes.len() as f64;
    let uplinks = report.links.iter().zip(scenario.topology.links());
    let sent: u64 = uplinks
        .filter(|(_, spec)| scenario.topology.is_host(spec.from))
        .map(|(link, _)| link.sent.0)
        .sum();
    let packets = 2_000_000_u64.div_ceil(u64::from(scenario.config.mtu)) as f64;
    let wire = packets * f64::from(scenario.config.packet_bytes());
    (sum / flows, sent as f64 / flows / wire)
}

/// Packets of a flow that take the link that is free first overtake each other. Flows are no slower
/// for it, and nothing is sent twice: what else NICs send is a control packet for each of data.
#[test]
fn balanced_packets_are_no_slower_than_hashed_flows() {
    for name in RELIABLE {
        let (hashed, _) = outcome(&shift(name, Balancing::Hash));
        let (balanced, sent) = outcome(&shift(name, Balancing::Adaptive));
        assert!(balanced <= hashed, "{name}: {balanced}, hashed {hashed}");
        assert!(sent < 1.03, "{name}: {sent} times the payload");
    }
}

fn with_recovery(kind: TransportKind, recovery: Recovery) -> TransportKind {
    match kind {
        TransportKind::Roce(_) => TransportKind::Roce(LineRateParameters { recovery }),
        other => other,
    }
}

/// By go-back-N the same packets are sent again and again, which the report says.
#[test]
fn going_back_is_slow_where_packets_overtake_and_is_said() {
    let mut scenario = shift("roce", Balancing::Adaptive);
    let (selective, _) = outcome(&scenario);
    assert!(play(&scenario).unwrap().0.remarks.is_empty());
    scenario.transport = with_recovery(scenario.transport, Recovery::GoBackN);
    let (slow, sent) = outcome(&scenario);
    assert!(slow > 1.5 * selective && sent > 1.5, "{slow} and {selective}, {sent} sent");
    assert_eq!(
        play(&scenario).unwrap().0.remarks,
        ["Packets overtake each other by this routing, which roce takes for losses: recovery = \
          selective does not."]
    );
}

/// Packets sprayed over planes overtake each other as well.
#[test]
fn sprayed_planes_are_filled_by_nics_that_take_any_order() {
    let cable = Cable { rate: Rate(FAST.0 / 4), delay: Duration(US) };
    let planes = || Preset::Star { cable }.build_sprayed_planes(4, 4).unwrap();
    let flows: Vec<FlowSpec> = (0..4).map(|host| flow((host, (host + 1) % 4), 2_000_000)).collect();
    for name in RELIABLE {
        let (slowdown, _) = outcome(&scenario(name, planes(), flows.clone()));
        assert!(slowdown < 1.25, "{name}: {slowdown}");
    }
    let mut refused = scenario("roce", planes(), flows.clone());
    refused.transport = with_recovery(refused.transport, Recovery::GoBackN);
    for scenario in [refused, scenario("dctcp", planes(), flows)] {
        let text = play(&scenario).unwrap_err().to_string();
        assert!(text.starts_with("packets that are sprayed over planes overtake"), "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// On one path every packet that is dropped is sent once more, and no other.
    #[test]
    fn what_is_lost_alone_is_sent_again(
        sizes in prop::collection::vec(1_u64..60 * 4096, 2..6),
        queue in 1_u32..12,
    ) {
        let topology = star(sizes.len() as u32 + 1, FAST, Duration(US)).unwrap();
        let config = Config {
            queue_bytes: queue * 4160,
            control_priority: true,
            overflow: Overflow::Drop,
            ..super::plain()
        };
        let flows: Vec<FlowSpec> =
            (1..).zip(&sizes).map(|(host, size)| flow((host, 0), *size)).collect();
        let new = |core: &Core| LineRate::with_recovery(core, Recovery::Selective);
        let (simulation, done) = super::run(topology, config, new, &flows);
        let packets: u64 = done.iter().map(|flow| u64::from(flow.packets)).sum();
        prop_assert!(done.iter().all(|flow| flow.received == flow.packets));
        let core = simulation.core();
        let sent: u64 = uplinks(core.topology()).map(|link| core.sent_bytes(link)).sum();
        prop_assert_eq!(sent, 4160 * (packets + total(&simulation, |link| link.drops)));
    }
}

/// The links that leave hosts, but the receiver's, over which acknowledgements go.
fn uplinks(topology: &Topology) -> impl Iterator<Item = crate::PacketLinkId> + '_ {
    (1..topology.nic_count() as u32).map(|nic| topology.uplink(crate::NicId(nic)))
}
