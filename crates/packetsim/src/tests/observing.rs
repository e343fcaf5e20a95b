//! Samples and traces against the whole truth, and that to look changes nothing.

use super::scenarios::{play, scenario};
use super::{flow, lossless, plain};
use crate::presets::{fat_tree, star};
use crate::transport::line_rate::LineRate;
use crate::{
    Config, Ecn, FlowSpec, Marking, Overflow, PacketEvent, PacketFlowId, PacketKind, PacketLinkId,
};
use crate::{EventKind, EventLogging, Sampling, Simulation, TransportName};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};

const FAST: Rate = Rate(100_000_000_000);
const US: u64 = 1_000_000;
/// A full packet and a control packet at 100 Gb/s, in ps.
const PACKET: u64 = 4160 * 80;
const ACK: u64 = 64 * 80;

/// Flows between 16 hosts that meet in many places.
fn crossing() -> Vec<FlowSpec> {
    let pairs = (0..16).flat_map(|host| [(host, (host + 5) % 16), (host, (host * 7 + 3) % 16)]);
    pairs.filter(|(a, b)| a != b).map(|ends| flow(ends, 100_000)).collect()
}

fn tree() -> crate::Topology {
    fat_tree(16, 4, FAST, Duration(US)).unwrap()
}

#[test]
fn looking_changes_nothing() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let mut scenario = scenario(name, tree(), crossing());
        let alone = play(&scenario).unwrap();
        scenario.sampling = Some(Sampling { period: Duration(77_777), max_periods: 10 });
        scenario.event_logging = Some(EventLogging { max_events: 1000, flow: None });
        let watched = play(&scenario).unwrap();
        assert_eq!(alone.0.hash, watched.0.hash, "{name}");
        assert_eq!(alone.1, watched.1);
        assert_eq!((alone.0.samples, alone.0.events.len()), (None, 0));
        assert_eq!(watched.0.events.len(), 1000);
    }
}

#[test]
fn a_lazy_link_looks_as_if_it_were_settled() {
    for config in [plain(), lossless()] {
        let mut simulation = Simulation::new(tree(), config, LineRate::new).unwrap();
        for spec in crossing() {
            simulation.add_flow(&spec).unwrap();
        }
        let mut longest = 0;
        for look in 1..200 {
            let time = Time(look * 333_333);
            let mut done = Vec::new();
            while simulation.advance(time, &mut done, &mut Silent).unwrap() {}
            let mut settled = simulation.clone();
            settled.settle_all();
            let arrivals = [simulation.core().arrivals(), settled.core().arrivals()];
            for index in 0..96 {
                let link = PacketLinkId(index);
                let packets = settled.core().packets_in_queues(link);
                let waiting = packets.iter().map(|packet| u64::from(packet.size)).sum();
                assert_eq!(simulation.core().waiting_bytes(link), waiting);
                let [now, then] = arrivals.each_ref().map(|times| times[index as usize]);
                let carried = settled.core().carried_bytes(link, then);
                assert_eq!(simulation.core().carried_bytes(link, now), carried);
                longest = longest.max(waiting);
            }
        }
        assert!(longest > 3 * 4160, "links were busy");
    }
}

#[test]
fn samples_are_what_a_flow_does() {
    // Packets leave the sender from 0 on and come out of its uplink from 1 us on, 25 in 8.32 us.
    let mut scenario = scenario("ideal", star(2, FAST, Duration(US)).unwrap(), vec![]);
    scenario.flows = vec![flow((0, 1), 50 * 4096), flow((1, 0), 1)];
    scenario.sampling = Some(Sampling { period: Duration(US + 5 * PACKET / 2), max_periods: 100 });
    let (report, _) = play(&scenario).unwrap();
    let samples = report.samples.unwrap();
    assert_eq!(samples.layers, ["host up", "host down"]);
    let up = &samples.rows[0];
    assert_eq!((up.begin, up.end, up.layer), (Time(0), Time(US + 5 * PACKET / 2), 0));
    // Two and a half packets one way, one the other way.
    assert_eq!((up.carried, up.busiest), (Bytes(2 * 4160 + 2080 + 4160), PacketLinkId(0)));
    let possible = (US + 5 * PACKET / 2) as f64 / 80.0;
    assert!((up.max_utilization - 2.5 * 4160.0 / possible).abs() < 1e-12);
    assert!((up.mean_utilization - 3.5 * 4160.0 / (2.0 * possible)).abs() < 1e-12);
    // Later on the uplink is full.
    assert!((samples.rows[4].max_utilization - 1.0).abs() < 1e-12);
    for (layer, links) in [(0, [0, 2]), (1, [1, 3])] {
        let rows = samples.rows.iter().filter(|row| row.layer == layer);
        let carried: u64 = rows.map(|row| row.carried.0).sum();
        assert_eq!(carried, links.map(|link: usize| report.links[link].sent.0).iter().sum());
    }
}

/// A packet is half out of a link after half of its time, however long that is; one without a
/// header and without bytes takes no time, and has carried nothing.
#[test]
fn samples_see_the_largest_packets_on_the_slowest_links_and_empty_ones() {
    let config = Config { mtu: 65_000, header: 0, full_tail: false, ..plain() };
    let size = 65_000;
    let slow = Rate(1_000);
    let sending = slow.transmission(Bytes(size));
    let network = star(3, slow, Duration(US)).unwrap();
    let mut scenario = scenario("ideal", network, vec![flow((0, 1), size), flow((2, 1), 0)]);
    scenario.config = config;
    scenario.sampling = Some(Sampling { period: Duration(US + sending.0 / 2), max_periods: 1_000 });
    scenario.until = Time(4 * sending.0);
    let rows = play(&scenario).unwrap().0.samples.unwrap().rows;
    let up: Vec<u64> = rows.iter().filter(|row| row.layer == 0).map(|row| row.carried.0).collect();
    // The acknowledgment of the empty flow goes up, too.
    assert_eq!(up[..2], [size / 2 + 64, size / 2]);
}

#[test]
fn many_samples_are_merged_and_nothing_is_lost() {
    let mut scenario = scenario("ideal", tree(), crossing());
    let mut sample = |every, max_periods| {
        scenario.sampling = Some(Sampling { period: Duration(every), max_periods });
        play(&scenario).unwrap().0.samples.unwrap()
    };
    let (fine, coarse) = (sample(50_000, 1_000_000), sample(50_000, 9));
    let layers = fine.layers.len();
    assert!(fine.rows.len() > 300 * layers && coarse.rows.len() <= 9 * layers);
    assert!(coarse.period.0 % 50_000 == 0 && (coarse.period.0 / 50_000).is_power_of_two());
    assert!(coarse.rows.len() >= 4 * layers);
    let period = coarse.period;
    for layer in 0..layers as u8 {
        let rows = |samples: &crate::Samples| -> Vec<_> {
            samples.rows.iter().filter(|row| row.layer == layer).copied().collect()
        };
        let (fine, coarse) = (rows(&fine), rows(&coarse));
        assert!(coarse.windows(2).all(|pair| pair[0].end == pair[1].begin));
        // All but the last have the period that the samples state: the shortest that suffices.
        let (_, all) = coarse.split_last().unwrap();
        assert!(all.iter().all(|row| row.end.since(row.begin) == period));
        assert_eq!(
            (coarse[0].begin, coarse.last().unwrap().end),
            (Time(0), fine.last().unwrap().end)
        );
        let carried =
            |rows: &[crate::LayerSample]| rows.iter().map(|row| row.carried.0).sum::<u64>();
        assert_eq!(carried(&fine), carried(&coarse));
        // The first merged sample, of looks at the fine period, from the fine ones.
        let parts: Vec<_> = fine.iter().filter(|row| row.end <= coarse[0].end).collect();
        assert_eq!(parts.last().unwrap().end, coarse[0].end);
        assert_eq!(parts.iter().map(|row| row.carried.0).sum::<u64>(), coarse[0].carried.0);
        let queue = parts.iter().map(|row| row.max_queue.0).max().unwrap();
        assert!(coarse[0].max_queue.0 <= queue);
    }
}

fn brief(event: &PacketEvent) -> (u64, EventKind, u32, PacketKind) {
    (event.time.0, event.event, event.link.0, event.packet_kind)
}

#[test]
fn a_trace_tells_the_life_of_a_packet() {
    let mut scenario = scenario("ideal", star(3, FAST, Duration(US)).unwrap(), vec![]);
    scenario.flows = vec![flow((0, 2), 4096), flow((1, 2), 4096)];
    scenario.event_logging = Some(EventLogging { max_events: 100, flow: Some(PacketFlowId(1)) });
    let (report, _) = play(&scenario).unwrap();
    let (arrival, begin) = (PACKET + US, 2 * PACKET + US);
    let received = begin + PACKET + US;
    let expected = [
        (0, EventKind::Sent, 2, PacketKind::Data),
        (arrival, EventKind::Arrived, 2, PacketKind::Data),
        (begin, EventKind::Sent, 5, PacketKind::Data),
        (received, EventKind::Delivered, 5, PacketKind::Data),
        (received, EventKind::Sent, 4, PacketKind::Ack),
        (received + ACK + US, EventKind::Arrived, 4, PacketKind::Ack),
        (received + ACK + US, EventKind::Sent, 3, PacketKind::Ack),
        (received + 2 * (ACK + US), EventKind::Delivered, 3, PacketKind::Ack),
    ];
    assert_eq!(report.events.iter().map(brief).collect::<Vec<_>>(), expected);
    assert!(report.events.iter().all(|event| event.flow == PacketFlowId(1)));
    scenario.event_logging = Some(EventLogging { max_events: 3, flow: Some(PacketFlowId(1)) });
    let (report, _) = play(&scenario).unwrap();
    assert_eq!(report.events.iter().map(brief).collect::<Vec<_>>(), expected[..3]);
    // What is still in flight was sent, too.
    scenario.until = Time(begin);
    scenario.event_logging = Some(EventLogging { max_events: 9, flow: Some(PacketFlowId(1)) });
    let (report, _) = play(&scenario).unwrap();
    assert_eq!(report.events.iter().map(brief).collect::<Vec<_>>(), expected[..3]);
}

#[test]
fn a_trace_has_every_loss_and_every_mark() {
    let base = Config { queue_bytes: 3 * 4160, ..plain() };
    let ecn = |marking| Some(Ecn { marking, min_bytes: 4160, max_bytes: 4160, probability: 1.0 });
    for (config, until) in [
        (base, 5 * US),
        (Config { overflow: Overflow::Trim, control_priority: true, ..base }, 5 * US),
        (Config { ecn: ecn(Marking::Arrival), ..plain() }, 1000 * US),
        (Config { ecn: ecn(Marking::Departure), ..plain() }, 1000 * US),
    ] {
        let mut scenario = scenario("ideal", star(5, FAST, Duration(US)).unwrap(), vec![]);
        scenario.config = config;
        scenario.flows = (0..4).map(|host| flow((host, 4), 40_960)).collect();
        scenario.until = Time(until);
        scenario.event_logging = Some(EventLogging { max_events: 1_000_000, flow: None });
        let (report, _) = play(&scenario).unwrap();
        let count = |what| report.events.iter().filter(|event| event.event == what).count() as u64;
        assert_eq!(count(EventKind::Dropped), report.totals.drops + report.totals.control_drops);
        assert_eq!(count(EventKind::Trimmed), report.totals.trims);
        assert_eq!(count(EventKind::Marked), report.totals.marks);
        assert_eq!(
            count(EventKind::Sent),
            report.counters.data_hops + report.counters.control_hops
        );
        assert!(report.totals.drops + report.totals.trims + report.totals.marks > 10);
        assert!(report.events.is_sorted_by_key(|event| event.time));
    }
}

#[test]
fn samples_that_make_no_sense_are_refused() {
    let mut scenario = scenario("ideal", tree(), vec![]);
    for (every, max_periods) in [(0, 10), (5, 1), (5, 1_000_001)] {
        scenario.sampling = Some(Sampling { period: Duration(every), max_periods });
        assert_eq!(
            play(&scenario).unwrap_err().to_string(),
            format!(
                "samples every {every} ps, at most {max_periods}; expected a period above 0 \
                 and 2 to 1000000 samples"
            )
        );
    }
}

/// A picosecond is a period like others: who watches is asked often enough to end it.
#[test]
fn a_run_that_does_little_but_sample_can_be_stopped() {
    struct Impatient(u32);
    impl lightloom_kernel::Observer for Impatient {
        fn progress(&mut self, _: Time, _: u64) -> std::ops::ControlFlow<()> {
            self.0 += 1;
            if self.0 < 100 {
                return std::ops::ControlFlow::Continue(());
            }
            std::ops::ControlFlow::Break(())
        }
    }
    let mut scenario = scenario("ideal", star(2, Rate(1_000), Duration(US)).unwrap(), vec![]);
    scenario.flows = vec![flow((0, 1), 4096)];
    scenario.sampling = Some(Sampling { period: Duration(1), max_periods: 1_000_000 });
    let run = crate::RunningScenario::new(&scenario).unwrap();
    let stopped = run.run(&mut Impatient(0), &mut |_| ()).unwrap_err().to_string();
    assert!(stopped.starts_with("interrupted at 0.0000000001"), "{stopped}");
}

#[test]
fn a_mean_queue_is_that_of_all_links_of_its_layer() {
    // Two flows meet at host 2: its port queues one of each two packets, the other two ports none.
    let mut scenario = scenario("ideal", star(3, FAST, Duration(US)).unwrap(), vec![]);
    scenario.flows = [0, 1].map(|host| flow((host, 2), 40 * 4096)).to_vec();
    scenario.sampling = Some(Sampling { period: Duration(10 * PACKET + US), max_periods: 99 });
    let (report, _) = play(&scenario).unwrap();
    let samples = report.samples.unwrap();
    let down: Vec<_> = samples.rows.iter().filter(|row| row.layer == 1).collect();
    // Nine packets of each flow have come before the first period ends, one pair just then.
    assert_eq!(down[0].longest, PacketLinkId(5));
    assert!(down[0].max_queue.0 >= 9 * 4160);
    assert!((down[0].mean_queue_bytes - down[0].max_queue.0 as f64 / 3.0).abs() < 1e-9);
}
