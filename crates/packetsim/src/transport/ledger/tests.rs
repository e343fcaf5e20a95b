use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const FLOW: PacketFlowId = PacketFlowId(0);
const PACKETS: u32 = 200;

fn send(ledger: &mut Ledger) -> Option<Sending> {
    let sending = ledger.next(FLOW)?;
    ledger.send(FLOW, sending);
    Some(sending)
}

#[test]
fn lost_packets_go_first_in_order() {
    let mut ledger = Ledger::default();
    ledger.open(FLOW, 130);
    for number in 0..129 {
        assert_eq!(send(&mut ledger), Some(Sending { sequence: number, is_new: true }));
    }
    for number in [128, 3, 70, 3] {
        assert_eq!(ledger.lose(FLOW, number), !(number == 3 && ledger.lost(FLOW) == 3));
    }
    ledger.acknowledge_one(FLOW, 70);
    let order: Vec<u32> = std::iter::from_fn(|| send(&mut ledger)).map(|it| it.sequence).collect();
    assert_eq!(order, [3, 128, 129]);
    assert_eq!((ledger.unsent(FLOW), ledger.lost(FLOW)), (0, 0));
}

#[test]
fn overdue_packets_are_lost_at_the_second_check() {
    let mut ledger = Ledger::default();
    ledger.open(FLOW, PACKETS);
    for _ in 0..100 {
        send(&mut ledger);
    }
    assert_eq!(ledger.expire(FLOW), 0);
    for _ in 0..50 {
        send(&mut ledger);
    }
    ledger.acknowledge(FLOW, 60, 0);
    ledger.acknowledge_one(FLOW, 63);
    ledger.lose(FLOW, 80);
    let again = send(&mut ledger);
    assert_eq!(again, Some(Sending { sequence: 80, is_new: false }));
    // 60 to 99 but 63, arrived, and 80, just sent again.
    assert_eq!(ledger.expire(FLOW), 38);
    assert_eq!(send(&mut ledger).map(|it| it.sequence), Some(60));
    // Now 80 and what was sent as new between; not 60.
    assert_eq!(ledger.expire(FLOW), 51);
}

/// Acknowledgements take different paths: what one has told, a later one that was sent earlier does
/// not take back.
#[test]
fn acknowledgements_that_are_overtaken_take_nothing_back() {
    let mut ledger = Ledger::default();
    ledger.open(FLOW, PACKETS);
    for _ in 0..100 {
        send(&mut ledger);
    }
    ledger.acknowledge(FLOW, 60, 0);
    ledger.acknowledge(FLOW, 20, 0);
    // Packet 30, ahead of 20, and all 16 before it.
    ledger.acknowledge(FLOW, 20, 10 << 16 | 0xffff);
    assert!(!ledger.lose(FLOW, 59) && ledger.lose(FLOW, 60));
    ledger.expire(FLOW);
    assert_eq!(ledger.expire(FLOW), 39, "61 to 99");
    assert_eq!(send(&mut ledger), Some(Sending { sequence: 60, is_new: false }));
}

proptest! {
    /// Acknowledgements, in any order of arrival, against sets.
    #[test]
    fn acknowledgements_say_what_arrived(
        order in Just((0..PACKETS).collect::<Vec<u32>>()).prop_shuffle(),
        taken in 1..PACKETS as usize,
    ) {
        let mut ledger = Ledger::default();
        ledger.open(FLOW, PACKETS);
        while send(&mut ledger).is_some() {}
        let mut here = BTreeSet::new();
        let mut numbers = BTreeSet::new();
        for &number in &order[..taken] {
            prop_assert!(ledger.receive(FLOW, number));
            prop_assert!(!ledger.receive(FLOW, number));
            here.insert(number);
            let expected = (0..=PACKETS).find(|number| !here.contains(number)).unwrap();
            prop_assert_eq!(ledger.expected(FLOW), expected);
            let selection = ledger.selection(FLOW, number);
            ledger.acknowledge(FLOW, expected, selection);
            numbers.extend(0..expected);
            if number > expected {
                numbers.extend(here.range(number.saturating_sub(HISTORY)..=number));
            }
        }
        // Exactly the packets that the sender does not know of expire.
        ledger.expire(FLOW);
        prop_assert_eq!(ledger.expire(FLOW) as usize, PACKETS as usize - numbers.len());
        for number in 0..PACKETS {
            prop_assert_eq!(ledger.has(FLOW, number), here.contains(&number));
        }
    }
}

/// The same without a window: sets of packets, and a look at all of them each time.
#[derive(Default)]
struct Sets {
    packets: u32,
    received: BTreeSet<u32>,
    acknowledged: BTreeSet<u32>,
    lost: BTreeSet<u32>,
    again: BTreeSet<u32>,
    next: u32,
    checked: u32,
}

impl Sets {
    fn expected(&self) -> u32 {
        (0..=self.packets).find(|number| !self.received.contains(number)).unwrap()
    }

    fn lose(&mut self, number: u32) -> bool {
        !self.acknowledged.contains(&number) && self.lost.insert(number)
    }

    fn acknowledge(&mut self, expected: u32, number: u32) {
        self.acknowledged.extend(0..expected);
        if number > expected {
            // What the acknowledgement can say: this one and, of 16 before it, those received.
            let before = number.saturating_sub(HISTORY);
            self.acknowledged.extend(self.received.range(before..=number));
        }
    }

    fn send(&mut self) -> Option<Sending> {
        self.lost.retain(|number| !self.acknowledged.contains(number));
        if let Some(sequence) = self.lost.pop_first() {
            self.again.insert(sequence);
            return Some(Sending { sequence, is_new: false });
        }
        let sequence = self.next;
        self.next += 1;
        (sequence < self.packets).then_some(Sending { sequence, is_new: true })
    }

    fn expire(&mut self) -> u32 {
        let overdue: Vec<u32> = (0..self.checked)
            .filter(|number| {
                let known = [&self.acknowledged, &self.lost, &self.again];
                !known.iter().any(|set| set.contains(number))
            })
            .collect();
        self.lost.extend(&overdue);
        self.again.clear();
        self.checked = self.next.min(self.packets);
        overdue.len() as u32
    }
}

/// What happens next to the packets of a flow in [`a_sliding_window_is_as_good_as_all_packets`].
#[derive(Debug, Clone, Copy)]
enum Step {
    /// So many are sent.
    Send(u8),
    /// One of those on the wire arrives; which, in parts of all.
    Arrive(u16),
    /// It is dropped, and the sender learns that.
    Reject(u16),
    /// It is dropped silently.
    Drop(u16),
    Check,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..12_u8).prop_map(Step::Send),
        30 => any::<u16>().prop_map(Step::Arrive),
        2 => any::<u16>().prop_map(Step::Reject),
        1 => any::<u16>().prop_map(Step::Drop),
        1 => Just(Step::Check),
    ]
}

proptest! {
    /// Packets that overtake, get lost and arrive twice: every result equals that of the sets, and
    /// acknowledgements may be about packets that the window has left behind.
    #[test]
    fn a_sliding_window_is_as_good_as_all_packets(
        packets in 1..900_u32,
        steps in proptest::collection::vec(step(), 1..600),
    ) {
        let (mut ledger, mut sets) = (Ledger::default(), Sets { packets, ..Sets::default() });
        // Another flow's ring lies between.
        ledger.open(PacketFlowId(1), 64);
        ledger.open(FLOW, packets);
        let mut wire: Vec<u32> = Vec::new();
        let finish = std::iter::repeat_n([Step::Send(255), Step::Arrive(0)], 3_000).flatten();
        for step in steps.into_iter().chain(finish) {
            let take = |wire: &mut Vec<u32>, place: u16| {
                (!wire.is_empty()).then(|| wire.remove(usize::from(place) % wire.len().min(90)))
            };
            match step {
                Step::Send(count) => for _ in 0..count {
                    let sent = send(&mut ledger);
                    prop_assert_eq!(sent, sets.send());
                    wire.extend(sent.map(|it| it.sequence));
                    if sent.is_none() { break }
                },
                Step::Arrive(place) => if let Some(number) = take(&mut wire, place) {
                    prop_assert_eq!(ledger.has(FLOW, number), sets.received.contains(&number));
                    let is_new = sets.received.insert(number);
                    prop_assert_eq!(ledger.receive(FLOW, number), is_new);
                    let expected = sets.expected();
                    prop_assert_eq!(ledger.expected(FLOW), expected);
                    let selection = ledger.selection(FLOW, number);
                    // At times only the packet itself is acknowledged, as in NDP.
                    if place % 3 == 0 {
                        ledger.acknowledge_one(FLOW, number);
                        sets.acknowledged.insert(number);
                    } else {
                        ledger.acknowledge(FLOW, expected, selection);
                        sets.acknowledge(expected, number);
                    }
                },
                Step::Reject(place) => if let Some(number) = take(&mut wire, place) {
                    prop_assert_eq!(ledger.lose(FLOW, number), sets.lose(number));
                },
                Step::Drop(place) => { take(&mut wire, place); }
                Step::Check => prop_assert_eq!(ledger.expire(FLOW), sets.expire()),
            }
            let lost = sets.lost.difference(&sets.acknowledged).count() as u32;
            prop_assert!(ledger.lost(FLOW) >= lost);
            prop_assert_eq!(ledger.unsent(FLOW), packets - sets.next.min(packets));
        }
    }
}

/// A terabyte, of which few packets are in flight at a time, takes as much memory as a megabyte.
#[test]
fn memory_follows_the_packets_in_flight() {
    let blocks = |packets: u32, in_flight: u32, acknowledge: fn(&mut Ledger, u32)| {
        let mut ledger = Ledger::default();
        ledger.open(FLOW, packets);
        for number in 0..packets {
            assert_eq!(send(&mut ledger), Some(Sending { sequence: number, is_new: true }));
            if let Some(arrived) = number.checked_sub(in_flight) {
                assert!(ledger.receive(FLOW, arrived) && ledger.has(FLOW, arrived));
                acknowledge(&mut ledger, arrived);
            }
        }
        ledger.blocks.len()
    };
    let each_alone = |ledger: &mut Ledger, number| {
        ledger.acknowledge_one(FLOW, number);
    };
    let all_before = |ledger: &mut Ledger, number| ledger.acknowledge(FLOW, number + 1, 0);
    for acknowledge in [each_alone, all_before] {
        assert_eq!(blocks(1_000_000, 50, acknowledge), blocks(1_000, 50, acknowledge));
        // A ring holds what is in flight, less than twice over, and those that it grew out of.
        let large = blocks(1_000_000, 64 * 100, acknowledge);
        assert!((100..=512).contains(&large), "{large}");
    }
}

#[test]
fn rings_of_flows_that_ended_serve_those_that_start() {
    let mut ledger = Ledger::default();
    for flow in (0..1_000).map(PacketFlowId) {
        ledger.open(flow, 100);
        let mut numbers = Vec::new();
        while let Some(sending) = ledger.next(flow) {
            ledger.send(flow, sending);
            numbers.push(sending.sequence);
        }
        assert_eq!(numbers, (0..100).collect::<Vec<_>>(), "nothing is left of the last flow");
        for &number in numbers.iter().rev() {
            assert!(ledger.receive(flow, number), "nor of what it received");
        }
        assert!(ledger.lose(flow, 7));
        ledger.close(flow);
        ledger.close(flow);
        // What is still on its way finds everything done.
        assert!(!ledger.receive(flow, 99) && ledger.has(flow, 99) && !ledger.lose(flow, 42));
        ledger.acknowledge(flow, 60, 3 << 16);
        ledger.acknowledge_one(flow, 99);
        assert_eq!((ledger.next(flow), ledger.lost(flow), ledger.unsent(flow)), (None, 0, 0));
        assert_eq!((ledger.expected(flow), ledger.selection(flow, 99)), (100, 0));
    }
    assert_eq!(ledger.blocks.len(), 2);
}
