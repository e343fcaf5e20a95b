//! What transports do about single packets that are lost, trimmed, marked or late: call by call.

use super::bench::{Bench, brief, sequences};
use super::{flow, plain};
use crate::PacketKind::{Ack, Cnp, Data, Nack, Pull, Request};
use crate::presets::star;
use crate::transport::dcqcn::{Dcqcn, DcqcnParameters};
use crate::transport::dctcp::{Dctcp, DctcpParameters};
use crate::transport::eqds::{Eqds, EqdsParameters};
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::{Config, Core, ECHO, Overflow, Packet, PacketFlowId, PathChoice, Topology};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);
/// Payload of a packet.
const MTU: u64 = 4096;

fn pair() -> Topology {
    star(2, FAST, Duration(US)).unwrap()
}

/// Finite queues, so that timers run.
fn lossy() -> Config {
    Config { queue_bytes: 100 * 4160, control_priority: true, ..plain() }
}

fn trimming(paths: u16) -> Config {
    Config { overflow: Overflow::Trim, paths: PathChoice::Spray(paths), ..lossy() }
}

fn go_back_n(packets: u64) -> Bench<LineRate> {
    let mut bench = Bench::new(pair(), lossy(), LineRate::new, &[flow((0, 1), packets * MTU)]);
    bench.start(0);
    bench
}

fn ndp(packets: u64, parameters: NdpParameters) -> Bench<Ndp> {
    let new = |core: &Core| Ndp::new(core, parameters);
    let mut bench = Bench::new(pair(), trimming(8), new, &[flow((0, 1), packets * MTU)]);
    bench.start(0);
    bench
}

fn eqds(packets: u64, paths: u16, parameters: EqdsParameters) -> Bench<Eqds> {
    let new = |core: &Core| Eqds::new(core, parameters);
    let mut bench = Bench::new(pair(), trimming(paths), new, &[flow((0, 1), packets * MTU)]);
    bench.start(0);
    bench
}

#[test]
fn go_back_n_reports_a_gap_once_until_it_is_filled() {
    let mut bench = go_back_n(10);
    let sent = bench.burst(0, 99);
    assert_eq!(sequences(&sent), (0..10).collect::<Vec<_>>());
    assert_eq!(brief(&bench.deliver(sent[0])), [(Ack, 1)]);
    // Packet 1 is lost: one negative acknowledgement, whatever follows.
    assert_eq!(brief(&bench.deliver(sent[2])), [(Nack, 1)]);
    for &packet in &sent[3..7] {
        assert!(bench.deliver(packet).is_empty(), "the gap is reported");
    }
    assert_eq!(
        bench.core.flow(PacketFlowId(0)).received,
        1,
        "packets behind a gap are not accepted"
    );
    // Once it is filled, the next gap is reported.
    assert_eq!(brief(&bench.deliver(sent[1])), [(Ack, 2)]);
    assert_eq!(brief(&bench.deliver(sent[7])), [(Nack, 2)]);
    // What has arrived already is acknowledged again.
    assert_eq!(brief(&bench.deliver(sent[0])), [(Ack, 2)]);
}

#[test]
fn go_back_n_continues_from_the_missing_packet() {
    let mut bench = go_back_n(10);
    let sent = bench.burst(0, 6);
    bench.deliver(sent[0]);
    let [nack] = bench.deliver(sent[2])[..] else { panic!("a gap is reported") };
    assert!(bench.deliver(nack).is_empty());
    assert_eq!(sequences(&bench.burst(0, 3)), [1, 2, 3]);
    // The same report again, of a packet that is on its way, goes back again; an old one does not.
    bench.deliver(nack);
    assert_eq!(sequences(&bench.burst(0, 1)), [1]);
    let ack = Packet { kind: Ack, sequence: 5, ..nack };
    bench.deliver(ack);
    assert_eq!(sequences(&bench.burst(0, 2)), [5, 6]);
    bench.deliver(nack);
    assert_eq!(sequences(&bench.burst(0, 99)), [7, 8, 9], "an old report changes nothing");
}

#[test]
fn go_back_n_times_out_after_silence_alone() {
    let mut bench = go_back_n(4);
    let sent = bench.burst(0, 99);
    let [ack] = bench.deliver(sent[0])[..] else { panic!("acknowledged") };
    bench.core.set_now(Time(US));
    bench.deliver(ack);
    // The timer runs from the first packet; progress was made since.
    bench.core.set_now(Time(TIMEOUT.0));
    bench.timer(0);
    assert!(bench.next(0).is_none(), "something was acknowledged within the timeout");
    bench.core.set_now(Time(TIMEOUT.0 + US));
    bench.timer(0);
    assert_eq!(sequences(&bench.burst(0, 99)), [1, 2, 3]);
}

#[test]
fn ndp_sends_a_window_and_then_one_packet_per_pull() {
    let mut bench = ndp(9, NdpParameters { window: Some(4), ..NdpParameters::default() });
    let sent = bench.burst(0, 99);
    assert_eq!(sequences(&sent), [0, 1, 2, 3]);
    let mut paths: Vec<u16> = sent.iter().map(|packet| packet.path).collect();
    paths.sort_unstable();
    paths.dedup();
    assert_eq!(paths.len(), 4, "consecutive packets take different paths");
    // The acknowledgement of the first packet pulls; those that follow at once wait for a turn.
    let replies: Vec<_> = sent[..3].iter().flat_map(|&packet| bench.deliver(packet)).collect();
    assert_eq!(brief(&replies), [(Ack, 0), (Ack, 1), (Ack, 2)]);
    assert_eq!(replies.iter().map(|reply| reply.value).collect::<Vec<_>>(), [1, 0, 0]);
    bench.deliver(replies[1]);
    assert!(bench.next(0).is_none(), "an acknowledgement without a pull permits nothing");
    bench.deliver(replies[0]);
    assert_eq!(sequences(&bench.burst(0, 99)), [4]);
    let pulls = bench.wake(1);
    assert_eq!((pulls.len(), pulls[0].kind, pulls[0].value), (1, Pull, 2));
    bench.deliver(pulls[0]);
    assert_eq!(sequences(&bench.burst(0, 99)), [5]);
    // A pull that overtakes another counts for both.
    let [pull] = bench.wake(1)[..] else { panic!("the third pull") };
    bench.deliver(Packet { value: 4, ..pull });
    assert_eq!(sequences(&bench.burst(0, 99)), [6, 7]);
    bench.deliver(pull);
    assert!(bench.next(0).is_none());
}

#[test]
fn ndp_flows_of_one_nic_take_turns_as_senders_and_as_receivers() {
    let new = |core: &Core| Ndp::new(core, NdpParameters::default());
    let flows = [0, 1].map(|_| flow((0, 1), 5 * MTU));
    let mut bench = Bench::new(pair(), trimming(8), new, &flows);
    bench.start(0);
    bench.start(1);
    let sent = bench.burst(0, 99);
    let turns: Vec<u32> = sent.iter().map(|packet| packet.flow.0).collect();
    assert_eq!(turns, [0, 1].repeat(5));
    // Pulls wait for four packets of the first flow, then for four of the other.
    for flow in [0, 1] {
        for &packet in sent.iter().filter(|packet| packet.flow.0 == flow).take(4) {
            bench.deliver(packet);
        }
    }
    let turns: Vec<u32> = (0..7).flat_map(|_| bench.wake(1)).map(|pull| pull.flow.0).collect();
    assert_eq!(turns, [0, 1, 0, 1, 0, 1, 1], "the first packet was pulled for by its reply");
}

/// A receiver that has all of a flow pulls no more of it: what waited is not sent.
#[test]
fn ndp_pulls_nothing_of_a_complete_flow() {
    let new = |core: &Core| Ndp::new(core, NdpParameters::default());
    let flows = [3, 100].map(|packets| flow((0, 1), packets * MTU));
    let mut bench = Bench::new(pair(), trimming(8), new, &flows);
    bench.start(0);
    bench.start(1);
    let sent = bench.burst(0, 8);
    for &packet in sent.iter().filter(|packet| packet.flow.0 == 0) {
        bench.deliver(packet);
    }
    assert!(bench.wake(1).is_empty(), "two pulls waited for a flow that needs none");
    // Its waiting pulls do not count: the next acknowledgement pulls by itself, in time.
    bench.core.set_now(Time(10 * US));
    let [ack] = bench.deliver(sent[1])[..] else { panic!("one reply") };
    assert_eq!((ack.flow.0, ack.kind, ack.value), (1, Ack, 1));
}

/// Pulls leave 1 % later than packets would, so that retransmissions have room.
#[test]
fn ndp_spaces_pulls_by_its_percentage() {
    for (percent, interval) in [(99, 332_800 * 100 / 99), (50, 665_600), (100, 332_800)] {
        let parameters = NdpParameters { pull_percent: percent, ..NdpParameters::default() };
        let mut bench = ndp(20, parameters);
        let sent = bench.burst(0, 99);
        assert_eq!(bench.deliver(sent[0])[0].value, 1);
        bench.core.set_now(Time(interval - 1));
        assert_eq!(bench.deliver(sent[1])[0].value, 0, "{percent} %: too early");
        bench.core.set_now(Time(interval));
        assert_eq!(bench.wake(1)[0].value, 2);
        bench.core.set_now(Time(2 * interval));
        assert_eq!(bench.deliver(sent[2])[0].value, 3, "{percent} %: in time");
    }
}

#[test]
fn ndp_sends_trimmed_packets_again_before_new_ones() {
    let mut bench = ndp(20, NdpParameters { window: Some(4), ..NdpParameters::default() });
    let sent = bench.burst(0, 99);
    let [nack] = bench.deliver_trimmed(sent[2])[..] else { panic!("one reply") };
    assert_eq!((nack.kind, nack.sequence, nack.value), (Nack, 2, 1));
    bench.deliver(nack);
    assert_eq!(sequences(&bench.burst(0, 99)), [2]);
    // A header of a packet that the receiver has is no loss.
    bench.core.set_now(Time(US));
    bench.deliver(sent[1]);
    assert_eq!(brief(&bench.deliver_trimmed(sent[1])), [(Ack, 1)]);
}

/// A window of 50 is lost. The sender, who has heard nothing, waits for the second check, then
/// sends half of the overdue packets, and one more for each silent period.
#[test]
fn ndp_sends_half_of_the_overdue_packets_again() {
    let mut bench = ndp(50, NdpParameters::default());
    assert_eq!(bench.burst(0, 99).len(), 50);
    bench.timer(0);
    assert!(bench.next(0).is_none(), "at the first check nothing is overdue");
    bench.timer(0);
    assert_eq!(sequences(&bench.burst(0, 99)), (0..26).collect::<Vec<_>>());
    bench.timer(0);
    assert_eq!(sequences(&bench.burst(0, 99)), [26], "silence permits one more");
}

#[test]
fn eqds_acknowledges_the_first_packet_every_fourth_and_the_last() {
    let mut bench = eqds(40, 8, EqdsParameters::default());
    let sent = bench.burst(0, 99);
    assert_eq!(sent.len(), 40, "a window of speculative credit is enough");
    let mut acknowledged = Vec::new();
    for &packet in &sent {
        let replies = bench.deliver(packet);
        acknowledged.extend(replies.iter().map(|reply| (reply.kind, reply.sequence)));
    }
    // 16,384 B are exceeded by four packets of 4,160 B; the last packet requests its own.
    let expected: Vec<_> = (0..40)
        .filter(|packet| packet % 4 == 0 || *packet == 39)
        .map(|packet| (Ack, packet + 1))
        .collect();
    assert_eq!(acknowledged, expected);
}

/// Whichever path it is: one that is the last of the next round anyway proves nothing.
#[test]
fn eqds_skips_the_path_of_a_trimmed_packet_once() {
    for skipped in 0..4 {
        let mut bench = eqds(100, 4, EqdsParameters::default());
        let sent = bench.burst(0, 4);
        let mut paths: Vec<u16> = sent.iter().map(|packet| packet.path).collect();
        paths.sort_unstable();
        assert_eq!(paths, [0, 1, 2, 3], "a round takes every path once");
        let taken = sent.iter().find(|packet| packet.path == skipped);
        let trimmed = *taken.expect("one takes each path");
        let [nack] = bench.deliver_trimmed(trimmed)[..] else { panic!("reported at once") };
        assert_eq!(
            (nack.kind, nack.sequence, nack.value),
            (Nack, trimmed.sequence, u32::from(skipped))
        );
        bench.deliver(nack);
        // Credit for nine packets.
        bench.deliver(Packet { kind: Pull, value: 9 * 8 + 8, ..nack });
        let rounds = bench.burst(0, 7);
        assert_eq!(sequences(&rounds[..1]), [trimmed.sequence], "the trimmed packet goes first");
        let count = |path: u16, packets: &[Packet]| {
            packets.iter().filter(|packet| packet.path == path).count()
        };
        assert_eq!(count(skipped, &rounds[..3]), 0, "skipped in one round of the other three");
        for path in 0..4 {
            assert_eq!(count(path, &rounds[3..]), 1, "and taken again in the next");
        }
    }
}

/// Each trimmed packet is worth a packet with its header, 9 units, of credit before all other
/// flows.
#[test]
fn eqds_pulls_for_every_trimmed_packet_first() {
    let new = |core: &Core| Eqds::new(core, EqdsParameters::default());
    let flows = [0, 1].map(|host| flow((host, 2), 20 * MTU));
    let mut bench = Bench::new(star(3, FAST, Duration(US)).unwrap(), trimming(8), new, &flows);
    bench.start(0);
    bench.start(1);
    let [trimmed, others] = [0, 1].map(|nic| bench.burst(nic, 99));
    bench.deliver(others[0]);
    for &packet in &trimmed[..4] {
        bench.deliver_trimmed(packet);
    }
    let turns: Vec<u32> = (0..6).flat_map(|_| bench.wake(2)).map(|pull| pull.flow.0).collect();
    // Four times 9 units are five grants of 8; then whoever wants credit.
    assert_eq!(turns[..5], [0; 5]);
    assert_eq!(turns[5], 1);
}

/// Beyond what a flow wants, a receiver grants a window more, to keep links busy, and no more.
#[test]
fn eqds_grants_at_most_a_window_beyond_the_target() {
    let parameters = EqdsParameters { window: Some(10), ..EqdsParameters::default() };
    let mut bench = eqds(4, 8, parameters);
    let sent = bench.burst(0, 1);
    bench.deliver(sent[0]);
    let grants: Vec<u32> =
        std::iter::from_fn(|| bench.wake(1).first().map(|pull| pull.value)).take(99).collect();
    // Grants of 8 units of 512 B. The target is 1; a window is 10 packets of 4,160 B, 81 units: the
    // first grant at which so much is exceeded is the last.
    let expected: Vec<u32> = (1..12).map(|pull| 8 * pull).collect();
    assert_eq!(grants, expected);
}

#[test]
fn eqds_sends_on_credit_alone_once_it_has_feedback() {
    let mut bench = eqds(100, 8, EqdsParameters { window: Some(10), ..EqdsParameters::default() });
    let sent = bench.burst(0, 4);
    let [ack] = bench.deliver(sent[0])[..] else { panic!("the first is acknowledged") };
    bench.deliver(ack);
    assert!(bench.next(0).is_none(), "speculative credit lapses");
    // A pull grants the payload of one packet: 8 units of 512 B.
    let [pull] = bench.wake(1)[..] else { panic!("one pull") };
    assert_eq!((pull.kind, pull.value), (Pull, 8));
    bench.deliver(pull);
    assert_eq!(sequences(&bench.burst(0, 99)), [4]);
    bench.deliver(pull);
    assert!(bench.next(0).is_none(), "the same pull grants nothing again");
}

/// Pulls that come together, after others were lost, are worth a window at most.
#[test]
fn eqds_has_no_more_credit_than_a_window() {
    let mut bench = eqds(100, 8, EqdsParameters { window: Some(10), ..EqdsParameters::default() });
    let sent = bench.burst(0, 1);
    let [ack] = bench.deliver(sent[0])[..] else { panic!("the first is acknowledged") };
    bench.deliver(ack);
    let [pull] = bench.wake(1)[..] else { panic!("one pull") };
    // Fifty packets' worth of units at once: 41,600 B are ten packets on the wire.
    bench.deliver(Packet { value: 50 * 8, ..pull });
    assert_eq!(sequences(&bench.burst(0, 99)), (1..=10).collect::<Vec<_>>());
    // What was cut off is not granted later.
    bench.deliver(Packet { value: 51 * 8, ..pull });
    assert_eq!(sequences(&bench.burst(0, 99)), [11]);
}

#[test]
fn eqds_requests_credit_after_silence() {
    let mut bench = eqds(6, 8, EqdsParameters::default());
    let sent = bench.burst(0, 99);
    // The target is whatever is missing: the speculative window covers the flow.
    assert!(sent.iter().all(|packet| packet.value == 1));
    let [request] = bench.timer(0)[..] else { panic!("a request") };
    assert_eq!((request.kind, request.sequence), (Request, 0), "nothing is overdue yet");
    let [request] = bench.timer(0)[..] else { panic!("another request") };
    assert_eq!((request.kind, request.sequence), (Request, 6));
    // The receiver has nothing, has granted nothing, and will pull six packets of 9 units each.
    let replies = bench.deliver(request);
    assert_eq!(brief(&replies), [(Ack, 0), (Pull, 0)]);
    let grants: Vec<u32> = (0..7).flat_map(|_| bench.wake(1)).map(|pull| pull.value).collect();
    assert_eq!(grants, [8, 16, 24, 32, 40, 48, 56]);
}

#[test]
fn dcqcn_notifies_once_per_interval_and_flow() {
    let rate = FAST;
    for (interval, expected) in [(50 * US, [true, false, false, true]), (0, [true; 4])] {
        let parameters =
            DcqcnParameters { cnp_interval: Duration(interval), ..DcqcnParameters::of_rate(rate) };
        let new = |core: &Core| Dcqcn::new(core, parameters);
        let flows = [flow((0, 1), 100 * MTU), flow((0, 1), 100 * MTU)];
        let mut bench = Bench::new(pair(), plain(), new, &flows);
        bench.start(0);
        bench.start(1);
        let sent = bench.burst(0, 2);
        let [a, b] = [sent[0], sent[1]];
        assert_ne!(a.flow, b.flow, "flows take turns");
        for (time, expected) in [0, 1, 49, 50].into_iter().zip(expected) {
            bench.core.set_now(Time(time * US));
            let replies = bench.deliver_marked(a);
            let is_notified = replies.iter().any(|reply| reply.kind == Cnp);
            assert_eq!(is_notified, expected, "at {time} us of {interval} ps");
        }
        // The other flow has an interval of its own, and unmarked packets cause none.
        assert!(bench.deliver_marked(b).iter().any(|reply| reply.kind == Cnp));
        bench.core.set_now(Time(500 * US));
        assert!(bench.deliver(b).iter().all(|reply| reply.kind == Ack));
    }
}

#[test]
fn dcqcn_paces_a_flow_at_its_rate() {
    let parameters = DcqcnParameters::of_rate(FAST);
    let new = |core: &Core| Dcqcn::new(core, parameters);
    let mut bench = Bench::new(pair(), plain(), new, &[flow((0, 1), 100 * MTU)]);
    bench.start(0);
    let packet = bench.next(0).unwrap();
    assert_eq!(bench.next_time(0), Some(Time(332_800)), "one packet time at line rate");
    let [cnp] = bench.deliver_marked(packet)[..1] else { panic!("a notification") };
    bench.deliver(cnp);
    bench.core.set_now(Time(332_800));
    assert!(bench.next(0).is_some());
    assert_eq!(bench.next_time(0), Some(Time(3 * 332_800)), "twice as long at half the rate");
}

#[test]
fn dctcp_echoes_the_mark_of_each_packet() {
    let new = |core: &Core| Dctcp::new(core, DctcpParameters::default());
    let mut bench = Bench::new(pair(), lossy(), new, &[flow((0, 1), 10 * MTU)]);
    bench.start(0);
    let sent = bench.burst(0, 99);
    let echoes: Vec<bool> = sent
        .iter()
        .enumerate()
        .map(|(index, &packet)| {
            let replies =
                if index % 3 == 0 { bench.deliver_marked(packet) } else { bench.deliver(packet) };
            assert_eq!(brief(&replies), [(Ack, index as u32 + 1)], "one for every packet");
            replies[0].flags & ECHO != 0
        })
        .collect();
    assert_eq!(echoes, (0..10).map(|index| index % 3 == 0).collect::<Vec<_>>());
}

#[test]
fn dctcp_repeats_the_first_missing_packet_after_three_duplicates() {
    let new = |core: &Core| Dctcp::new(core, DctcpParameters::default());
    let mut bench = Bench::new(pair(), lossy(), new, &[flow((0, 1), 10 * MTU)]);
    bench.start(0);
    let sent = bench.burst(0, 99);
    assert_eq!(sent.len(), 10);
    let duplicates: Vec<_> = sent[1..].iter().flat_map(|&packet| bench.deliver(packet)).collect();
    assert!(duplicates.iter().all(|reply| (reply.kind, reply.sequence) == (Ack, 0)));
    for &duplicate in &duplicates[..2] {
        bench.deliver(duplicate);
        assert!(bench.next(0).is_none(), "two may be packets out of order");
    }
    bench.deliver(duplicates[2]);
    assert_eq!(brief(&bench.burst(0, 99)), [(Data, 0)]);
    // The gap is filled: everything is acknowledged at once.
    assert_eq!(brief(&bench.deliver(sent[0])), [(Ack, 10)]);
}

#[test]
fn dctcp_doubles_its_timeout_until_something_is_acknowledged() {
    let parameters = DctcpParameters { timer_tick: Duration(1), ..DctcpParameters::default() };
    let new = |core: &Core| Dctcp::new(core, parameters);
    let mut bench = Bench::new(pair(), lossy(), new, &[flow((0, 1), 10 * MTU)]);
    bench.start(0);
    bench.burst(0, 99);
    let timeout = parameters.min_timeout.0;
    let mut now = 0;
    for doublings in 0..5 {
        now += timeout << doublings;
        bench.core.set_now(Time(now - 1));
        bench.timer(0);
        assert!(bench.next(0).is_none(), "not before {} timeouts", 1 << doublings);
        bench.core.set_now(Time(now));
        bench.timer(0);
        assert_eq!(brief(&bench.burst(0, 99)), [(Data, 0)], "one packet, the first");
    }
}

/// Time does not increase the rate for long here; every ten packets do.
#[test]
fn dcqcn_recovers_by_bytes_that_are_sent() {
    let parameters = DcqcnParameters {
        increase_interval: Duration(1 << 60),
        increase_bytes: 10 * 4160,
        recovery_stages: 100,
        ..DcqcnParameters::of_rate(FAST)
    };
    let new = |core: &Core| Dcqcn::new(core, parameters);
    let mut bench = Bench::new(pair(), plain(), new, &[flow((0, 1), 1000 * MTU)]);
    bench.start(0);
    let packet = bench.next(0).unwrap();
    let replies = bench.deliver_marked(packet);
    bench.deliver(replies[0]);
    let mut rates = Vec::new();
    for _ in 0..30 {
        let time = bench.next_time(0).unwrap();
        bench.core.set_now(time);
        bench.next(0).expect("its time has come");
        rates.push((bench.transport.rate(PacketFlowId(0)) / 1e9) as u64);
    }
    let (fifty, rest) = rates.split_at(9);
    assert!(fifty.iter().all(|&rate| rate == 50));
    assert_eq!(
        [rest[0], rest[9], rest[10], rest[20]],
        [75, 75, 87, 93],
        "halves of what is missing"
    );
}
