//! Go-back-N over a wire that loses packets, against the textbook: what is sent next, and what the
//! receiver replies, packet by packet.

use super::bench::Bench;
use super::{flow, plain};
use crate::presets::star;
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::{Config, Packet, PacketKind};
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;
use std::collections::VecDeque;

/// Both ends as the textbook has them.
#[derive(Debug, Default)]
struct Textbook {
    packets: u32,
    /// Sender: the first packet not acknowledged, and the next to send.
    first: u32,
    next: u32,
    /// Receiver: the packet that it waits for, and whether it has reported it.
    expected: u32,
    has_reported: bool,
}

impl Textbook {
    fn send(&mut self) -> Option<u32> {
        let sequence = (self.next < self.packets).then_some(self.next)?;
        self.next += 1;
        Some(sequence)
    }

    fn receive(&mut self, sequence: u32) -> Option<(PacketKind, u32)> {
        if sequence == self.expected {
            self.expected += 1;
            self.has_reported = false;
        } else if sequence > self.expected {
            if self.has_reported {
                return None;
            }
            self.has_reported = true;
            return Some((PacketKind::Nack, self.expected));
        }
        Some((PacketKind::Ack, self.expected))
    }

    fn hear(&mut self, kind: PacketKind, sequence: u32) {
        self.first = self.first.max(sequence);
        self.next = self.next.max(self.first);
        if kind == PacketKind::Nack && sequence == self.first {
            self.next = self.first;
        }
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Send,
    /// The first packet on the way there arrives, or is lost.
    There {
        is_lost: bool,
    },
    /// The first reply arrives, or is lost.
    Back {
        is_lost: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Send),
        6 => prop::bool::weighted(0.15).prop_map(|is_lost| Step::There { is_lost }),
        5 => prop::bool::weighted(0.15).prop_map(|is_lost| Step::Back { is_lost }),
    ]
}

proptest! {
    #[test]
    fn each_packet_and_each_reply_is_that_of_the_textbook(
        packets in 1..60_u32,
        steps in proptest::collection::vec(step(), 1..500),
    ) {
        let config = Config { queue_bytes: 1 << 20, ..plain() };
        let topology = star(2, Rate(100_000_000_000), Duration(1_000)).unwrap();
        let flows = [flow((0, 1), u64::from(packets) * 4096)];
        let mut bench = Bench::new(topology, config, LineRate::new, &flows);
        let mut textbook = Textbook { packets, ..Textbook::default() };
        bench.start(0);
        let (mut there, mut back) = (VecDeque::<Packet>::new(), VecDeque::<Packet>::new());
        let reliable = [Step::Send, Step::There { is_lost: false }, Step::Back { is_lost: false }];
        let finish = std::iter::repeat_n(reliable, 400).flatten();
        let mut now = 0;
        for step in steps.into_iter().chain(finish) {
            match step {
                Step::Send => {
                    let sent = bench.next(0);
                    prop_assert_eq!(sent.map(|packet| packet.sequence), textbook.send());
                    there.extend(sent);
                }
                Step::There { is_lost } => {
                    let Some(packet) = there.pop_front().filter(|_| !is_lost) else { continue };
                    let replies = bench.deliver(packet);
                    let brief = replies.first().map(|reply| (reply.kind, reply.sequence));
                    prop_assert_eq!(brief, textbook.receive(packet.sequence));
                    prop_assert!(replies.len() < 2);
                    back.extend(replies);
                }
                Step::Back { is_lost } => {
                    let Some(reply) = back.pop_front().filter(|_| !is_lost) else { continue };
                    bench.deliver(reply);
                    textbook.hear(reply.kind, reply.sequence);
                }
            }
            if there.is_empty() && back.is_empty() && textbook.next == packets {
                // Nothing will come any more but a timeout.
                now += 3 * TIMEOUT.0;
                bench.core.set_now(Time(now));
                bench.timer(0);
                if textbook.next > textbook.first {
                    textbook.next = textbook.first;
                }
            }
        }
        prop_assert_eq!((textbook.expected, textbook.first), (packets, packets));
        prop_assert!(bench.core.flow(crate::PacketFlowId(0)).is_done());
    }
}
