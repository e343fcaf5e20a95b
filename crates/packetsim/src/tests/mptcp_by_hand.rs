//! MPTCP in small worlds worked out by hand: who sends which data, what is sent again over which
//! path, and how windows grow.

use super::bench::{Bench, sequences};
use super::{flow, plain};
use crate::presets::star;
use crate::transport::mptcp::{Mptcp, MptcpParameters};
use crate::{Config, Core, Packet, PacketFlowId, PacketKind};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const MS: u64 = 1_000 * US;
const MTU: u64 = 4096;
const FLOW: PacketFlowId = PacketFlowId(0);

fn parameters(subflows: u16, window: u32) -> MptcpParameters {
    let (initial_window, timer_tick) = (window, Duration(1));
    MptcpParameters {
        subflows,
        initial_window: Some(initial_window),
        timer_tick,
        ..MptcpParameters::default()
    }
}

fn bench(packets: u64, parameters: MptcpParameters) -> Bench<Mptcp> {
    let config = Config { queue_bytes: 1 << 24, ..plain() };
    let new = |core: &Core| Mptcp::new(core, parameters);
    let topology = star(2, Rate(100_000_000_000), Duration(US)).unwrap();
    let mut bench = Bench::new(topology, config, new, &[flow((0, 1), packets * MTU)]);
    bench.start(0);
    bench
}

/// Paths, numbers in the subflow, and numbers of the data.
fn parts(packets: &[Packet]) -> Vec<(u16, u32, u32)> {
    packets.iter().map(|packet| (packet.path, packet.value, packet.sequence)).collect()
}

fn on_path(packets: &[Packet], path: u16) -> Vec<Packet> {
    packets.iter().copied().filter(|packet| packet.path == path).collect()
}

/// Delivers packets and their acknowledgements.
fn acknowledge(bench: &mut Bench<Mptcp>, sent: &[Packet]) {
    for &packet in sent {
        let [ack] = bench.deliver(packet)[..] else { panic!("one for every packet") };
        assert_eq!((ack.kind, ack.path), (PacketKind::Ack, packet.path));
        bench.deliver(ack);
    }
}

fn windows(bench: &Bench<Mptcp>) -> Vec<f64> {
    bench.transport.windows(&bench.core, FLOW)
}

/// Subflows take turns, and whichever has room takes what is next.
#[test]
fn data_goes_to_whichever_subflow_has_room() {
    let mut bench = bench(100, parameters(2, 2));
    let sent = bench.burst(0, 99);
    assert_eq!(parts(&sent), [(0, 0, 0), (1, 0, 1), (0, 1, 2), (1, 1, 3)]);
    // Only the second path answers: each acknowledgement makes room for two packets.
    let [third, fourth] = on_path(&sent, 1)[..] else { panic!("two packets") };
    acknowledge(&mut bench, &[third]);
    assert_eq!(parts(&bench.burst(0, 99)), [(1, 2, 4), (1, 3, 5)]);
    acknowledge(&mut bench, &[fourth]);
    assert_eq!(parts(&bench.burst(0, 99)), [(1, 4, 6), (1, 5, 7)]);
    assert_eq!(windows(&bench), [2.0, 4.0]);
    acknowledge(&mut bench, &on_path(&sent, 0)[..1]);
    assert_eq!(parts(&bench.burst(0, 99)), [(0, 2, 8), (0, 3, 9)]);
}

/// The last packets go to whoever is first; the rest of the windows stays empty.
#[test]
fn a_flow_ends_when_all_of_its_data_is_acknowledged() {
    let mut bench = bench(3, parameters(2, 10));
    let sent = bench.burst(0, 99);
    assert_eq!(parts(&sent), [(0, 0, 0), (1, 0, 1), (0, 1, 2)]);
    acknowledge(&mut bench, &sent[1..2]);
    acknowledge(&mut bench, &sent[..1]);
    assert!(!bench.core.flow(FLOW).is_done());
    acknowledge(&mut bench, &sent[2..]);
    assert!(bench.core.flow(FLOW).is_done());
    assert!(bench.next(0).is_none());
}

/// A gap on one path is repaired there, after three duplicates, and leaves the other alone.
#[test]
fn each_subflow_repairs_its_own_losses() {
    let mut bench = bench(100, parameters(2, 6));
    let sent = bench.burst(0, 99);
    let (first, second) = (on_path(&sent, 0), on_path(&sent, 1));
    acknowledge(&mut bench, &first[1..3]);
    assert!(bench.next(0).is_none(), "two may be packets out of order");
    acknowledge(&mut bench, &first[3..4]);
    assert_eq!(parts(&bench.burst(0, 99)), [(0, 0, 0)]);
    assert_eq!(windows(&bench), [6.0, 6.0], "half of 6, and three that have left");
    let acks = bench.deliver(first[0]);
    assert_eq!(sequences(&acks), [4], "the gap is filled");
    assert_eq!(bench.core.flow(FLOW).received, 4);
    acknowledge(&mut bench, &second);
    assert!(windows(&bench)[1] > 6.0);
}

/// What a path that is silent has in flight is given to the other one, once. Its subflow tries
/// its first packet again, at twice the time each.
#[test]
fn a_timeout_gives_data_to_the_other_subflow_once() {
    let mut bench = bench(8, parameters(2, 3));
    let sent = bench.burst(0, 99);
    acknowledge(&mut bench, &on_path(&sent, 1));
    let rest = bench.burst(0, 99);
    assert_eq!(parts(&rest), [(1, 3, 6), (1, 4, 7)]);
    acknowledge(&mut bench, &rest);
    assert!(bench.next(0).is_none(), "everything was sent once");
    bench.core.set_now(Time(10 * MS - 1));
    bench.timer(0);
    assert!(bench.next(0).is_none(), "it is not yet time");
    bench.core.set_now(Time(10 * MS));
    bench.timer(0);
    let again = bench.burst(0, 99);
    let mut found = parts(&again);
    found.sort_unstable();
    assert_eq!(found, [(0, 0, 0), (1, 5, 0), (1, 6, 2), (1, 7, 4)]);
    bench.core.set_now(Time(25 * MS));
    acknowledge(&mut bench, &on_path(&again, 1)[..1]);
    bench.core.set_now(Time(30 * MS - 1));
    bench.timer(0);
    assert!(bench.next(0).is_none(), "twice the time");
    bench.core.set_now(Time(30 * MS));
    bench.timer(0);
    assert_eq!(parts(&bench.burst(0, 99)), [(0, 0, 0)], "each packet is given once");
    acknowledge(&mut bench, &on_path(&again, 1)[1..]);
    let progress = *bench.core.flow(FLOW);
    assert!(progress.is_done() && progress.received == 8);
    // What arrives late on the other path counts for nothing.
    let late = bench.deliver(sent[0]);
    bench.deliver(late[0]);
    assert_eq!(bench.core.flow(FLOW).received, 8);
    bench.timer(0);
    assert!(bench.next(0).is_none(), "nothing is left to do");
}

/// What was acknowledged meanwhile is not sent by the other subflow.
#[test]
fn data_that_arrived_is_not_given_away() {
    let mut bench = bench(4, parameters(2, 1));
    let sent = bench.burst(0, 99);
    assert_eq!(parts(&sent), [(0, 0, 0), (1, 0, 1)]);
    bench.core.set_now(Time(10 * MS));
    bench.timer(0);
    // Both time out: both try again, and neither may take more than its window of one.
    assert_eq!(parts(&bench.burst(0, 99)), [(0, 0, 0), (1, 0, 1)]);
    acknowledge(&mut bench, &sent[1..]);
    // The second now takes the data of the first, and not its own, which has arrived.
    assert_eq!(parts(&bench.burst(0, 99)), [(1, 1, 0), (1, 2, 2)]);
}

/// A subflow that times out sends all that it had again, as the data that it was.
#[test]
fn a_subflow_that_timed_out_repeats_what_it_had() {
    let mut bench = bench(3, parameters(1, 3));
    let sent = bench.burst(0, 99);
    bench.core.set_now(Time(10 * MS));
    bench.timer(0);
    let again = bench.burst(0, 99);
    assert_eq!(parts(&again), [(0, 0, 0)]);
    acknowledge(&mut bench, &again);
    assert_eq!(parts(&bench.burst(0, 99)), parts(&sent[1..]));
}

/// LIA: n equal windows of w past their thresholds grow by 1 / n of a packet per round trip all
/// together, as far as an halving on one path is a 1 / n of an halving of all.
#[test]
fn coupled_windows_grow_by_one_packet_over_their_number() {
    for subflows in [1_u16, 2, 4] {
        let parameters = MptcpParameters { initial_threshold: 10, ..parameters(subflows, 10) };
        let mut bench = bench(10_000, parameters);
        let first = bench.burst(0, 999);
        bench.core.set_now(Time(10 * US));
        // All have a round trip from here on.
        acknowledge(&mut bench, &first);
        let before: f64 = windows(&bench).iter().sum();
        let sent = bench.burst(0, 999);
        bench.core.set_now(Time(20 * US));
        // One by one, so that windows are what limits.
        for packet in sent {
            acknowledge(&mut bench, &[packet]);
            bench.burst(0, 999);
        }
        let grown = windows(&bench).iter().sum::<f64>() - before;
        let expected = 1.0 / f64::from(subflows);
        assert!((grown / expected - 1.0).abs() < 0.06, "{subflows}: {grown}");
    }
}

/// While packets wait for the NIC, windows do not grow.
#[test]
fn a_window_that_does_not_limit_does_not_grow() {
    let mut bench = bench(100, parameters(2, 4));
    let sent = bench.burst(0, 99);
    acknowledge(&mut bench, &on_path(&sent, 0)[..1]);
    assert_eq!(windows(&bench), [5.0, 4.0]);
    acknowledge(&mut bench, &on_path(&sent, 0)[1..]);
    assert_eq!(windows(&bench), [5.0, 4.0], "its NIC sends nothing meanwhile");
    let more = bench.burst(0, 99);
    assert_eq!(more.len(), 5, "all of the window");
    acknowledge(&mut bench, &more[..1]);
    assert_eq!(windows(&bench), [6.0, 4.0]);
}

/// Karn's algorithm: an acknowledgement after a timeout may be of either packet, and says nothing.
#[test]
fn a_packet_that_was_repeated_measures_nothing() {
    let parameters = MptcpParameters { min_timeout: Duration(20 * US), ..parameters(1, 1) };
    let mut bench = bench(100, parameters);
    let sent = bench.burst(0, 99);
    bench.core.set_now(Time(20 * US));
    bench.timer(0);
    bench.burst(0, 99);
    bench.core.set_now(Time(30 * US));
    acknowledge(&mut bench, &sent);
    // Nothing was measured, and the timeout is still doubled: 40 us from then on.
    let sent = bench.burst(0, 99);
    bench.core.set_now(Time(70 * US - 1));
    bench.timer(0);
    assert!(bench.next(0).is_none());
    bench.core.set_now(Time(70 * US));
    bench.timer(0);
    assert_eq!(parts(&bench.burst(0, 99)), parts(&sent[..1]));
}

/// A round trip of 30 us: 30 us and four times half of that.
#[test]
fn a_timeout_is_the_mean_and_four_deviations() {
    let parameters = MptcpParameters { min_timeout: Duration(20 * US), ..parameters(1, 1) };
    let mut bench = bench(100, parameters);
    let sent = bench.burst(0, 99);
    bench.core.set_now(Time(10 * US));
    acknowledge(&mut bench, &sent);
    let sent = bench.burst(0, 99);
    bench.core.set_now(Time(40 * US - 1));
    bench.timer(0);
    assert!(bench.next(0).is_none(), "10 us and four times 5 us, from 10 us on");
    bench.core.set_now(Time(40 * US));
    bench.timer(0);
    assert_eq!(parts(&bench.burst(0, 99)), parts(&sent[..1]));
}
