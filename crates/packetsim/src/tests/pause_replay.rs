//! PFC against an independent replay: hosts that send to one over one switch, event by event.
//!
//! Cables have different lengths, so that events meet at the switch at one picosecond by chance
//! alone; cases where they do are left out, as either may go first.

use super::{flow, plain, run};
use crate::transport::line_rate::LineRate;
use crate::{Cable, Config, FlowSpec, PacketLinkId, Pfc, Topology};
use lightloom_model::{Duration, Rate};
use proptest::prelude::*;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Bytes of a packet on the wire.
const PACKET: u64 = 4160;

#[derive(Debug, Clone)]
struct World {
    /// Packets of every sender, delay of its cable in ps.
    senders: Vec<(u64, u64)>,
    host_gbps: u64,
    receiver_gbps: u64,
    receiver_delay: u64,
    pause_bytes: u64,
    resume_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A sender's transmitter is free.
    Free(usize),
    /// A packet of a sender is at the switch.
    Arrives(usize),
    /// The switch has sent a packet of a sender.
    Left(usize),
    /// A sender is told to pause, or to resume.
    Pause(usize),
    Resume(usize),
}

impl Event {
    /// Whether the order of two events at one time makes a difference.
    fn meets(self, other: Self) -> bool {
        let place = |event| match event {
            Self::Free(sender) | Self::Pause(sender) | Self::Resume(sender) => Some(sender),
            Self::Arrives(_) | Self::Left(_) => None,
        };
        place(self) == place(other)
    }
}

/// What is known of a sender, and of its link at the switch.
#[derive(Debug, Clone, Copy, Default)]
struct Port {
    sent: u64,
    is_busy: bool,
    is_paused: bool,
    is_pausing: bool,
    buffered: u64,
    received: u64,
    paused_at: u64,
    pauses: u64,
    paused_for: u64,
    done_at: u64,
}

fn span(gbps: u64) -> u64 {
    (PACKET * 8000).div_ceil(gbps)
}

impl World {
    /// When all has arrived of each sender, how often it was paused, and for how long; `None` if
    /// two events meet.
    fn replay(&self) -> Option<Vec<(u64, u64, u64)>> {
        let mut ports = vec![Port::default(); self.senders.len()];
        let mut events: BinaryHeap<Reverse<(u64, Event)>> =
            (0..ports.len()).map(|sender| Reverse((0, Event::Free(sender)))).collect();
        let mut queue: VecDeque<usize> = VecDeque::new();
        let (mut is_serving, mut instant, mut at_once) = (false, 0, Vec::new());
        while let Some(Reverse((now, event))) = events.pop() {
            if now > instant {
                at_once.clear();
            }
            if now > 0 && at_once.iter().any(|&other| event.meets(other)) {
                return None;
            }
            at_once.push(event);
            instant = now;
            let mut add = |time, event| events.push(Reverse((time, event)));
            match event {
                Event::Free(sender) => ports[sender].is_busy = false,
                Event::Pause(sender) => {
                    let port = &mut ports[sender];
                    (port.is_paused, port.paused_at) = (true, now);
                    port.pauses += 1;
                }
                Event::Resume(sender) => {
                    let port = &mut ports[sender];
                    port.is_paused = false;
                    port.paused_for += now - port.paused_at;
                }
                Event::Arrives(sender) => {
                    queue.push_back(sender);
                    let port = &mut ports[sender];
                    port.buffered += PACKET;
                    if port.buffered > self.pause_bytes && !port.is_pausing {
                        port.is_pausing = true;
                        add(now + self.senders[sender].1, Event::Pause(sender));
                    }
                }
                Event::Left(sender) => {
                    is_serving = false;
                    let port = &mut ports[sender];
                    port.received += 1;
                    port.done_at = now + self.receiver_delay;
                    port.buffered -= PACKET;
                    if port.is_pausing && port.buffered < self.resume_bytes {
                        port.is_pausing = false;
                        add(now + self.senders[sender].1, Event::Resume(sender));
                    }
                }
            }
            for (sender, port) in ports.iter_mut().enumerate() {
                let (packets, delay) = self.senders[sender];
                if !port.is_busy && !port.is_paused && port.sent < packets {
                    (port.is_busy, port.sent) = (true, port.sent + 1);
                    let free = now + span(self.host_gbps);
                    add(free, Event::Free(sender));
                    add(free + delay, Event::Arrives(sender));
                }
            }
            if !is_serving && let Some(sender) = queue.pop_front() {
                is_serving = true;
                add(now + span(self.receiver_gbps), Event::Left(sender));
            }
        }
        let found = |port: Port| (port.done_at, port.pauses, port.paused_for);
        Some(ports.into_iter().map(found).collect())
    }

    fn simulated(&self) -> Vec<(u64, u64, u64)> {
        let mut topology = Topology::new();
        let hosts: Vec<_> = (0..=self.senders.len()).map(|_| topology.add_host()).collect();
        let switch = topology.add_switch();
        let receiver = (self.receiver_gbps, self.receiver_delay);
        let sender = |&(_, delay): &(u64, u64)| (self.host_gbps, delay);
        let cables = self.senders.iter().map(sender).chain([receiver]);
        for (host, (gbps, delay)) in hosts.into_iter().zip(cables) {
            let cable = Cable { rate: Rate(gbps * 1_000_000_000), delay: Duration(delay) };
            topology.connect(host, switch, cable, ["up", "down"]).unwrap();
        }
        let pfc =
            Pfc { pause_bytes: self.pause_bytes as u32, resume_bytes: self.resume_bytes as u32 };
        let config = Config { pfc: Some(pfc), ..plain() };
        let to = self.senders.len() as u32;
        let flow = |(from, &(packets, _)): (usize, &(u64, u64))| -> FlowSpec {
            flow((from as u32, to), packets * 4096)
        };
        let flows: Vec<FlowSpec> = self.senders.iter().enumerate().map(flow).collect();
        let (simulation, done) = run(topology, config, LineRate::new, &flows);
        let times = |(sender, flow): (usize, &super::Finished)| {
            let counters = simulation.core().link_counters(PacketLinkId(2 * sender as u32));
            assert_eq!(counters.drops, 0, "nothing is lost");
            (flow.received_at, counters.pauses, counters.paused.0)
        };
        done.iter().enumerate().map(times).collect()
    }
}

fn world() -> impl Strategy<Value = World> {
    let sender = (1..120_u64, 1..4_000_000_u64);
    let rates = (50..400_u64, 20..400_u64, 1..4_000_000_u64);
    let thresholds = (1..20 * PACKET, 1..20 * PACKET);
    (proptest::collection::vec(sender, 1..5), rates, thresholds).prop_map(
        |(senders, (host_gbps, receiver_gbps, receiver_delay), (a, b))| World {
            senders,
            host_gbps,
            receiver_gbps,
            receiver_delay,
            pause_bytes: a.max(b),
            resume_bytes: a.min(b),
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        max_global_rejects: 1 << 14,
        ..ProptestConfig::default()
    })]

    #[test]
    fn pauses_come_and_go_when_a_replay_says(world in world()) {
        let expected = world.replay();
        prop_assume!(expected.is_some());
        prop_assert_eq!(Some(world.simulated()), expected);
    }
}

/// One sender at 100 Gb/s into a link at 47: the queue grows by half a packet per packet, and what
/// is on the cable when the pause is sent still comes.
#[test]
fn a_pause_is_too_late_for_what_is_on_the_cable() {
    let world = World {
        senders: vec![(100, 1_000_003)],
        host_gbps: 100,
        receiver_gbps: 47,
        receiver_delay: 7,
        pause_bytes: 5 * PACKET,
        resume_bytes: 5 * PACKET,
    };
    let expected = world.replay().expect("nothing meets");
    assert_eq!(world.simulated(), expected);
    // The link to the receiver never idles: pauses cost nothing here.
    let busy = span(100) + 1_000_003 + 100 * span(47) + 7;
    assert_eq!(expected[0].0, busy);
    assert!(expected[0].1 >= 2, "{} pauses", expected[0].1);
}
