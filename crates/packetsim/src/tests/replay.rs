//! Random flows against an independent replay, exactly: tier by tier, without events.
//!
//! Hosts under one leaf send at line rate to hosts under others, over one spine. Data goes one way
//! and acknowledgements the other, so that each link carries either, and what a tier passes on
//! never returns to it: all that a link does follows from the arrivals at it, in order.

use super::{flow, plain, run};
use crate::transport::line_rate::LineRate;
use crate::{Config, FlowSpec, presets};
use lightloom_model::{Duration, Rate, Time};
use proptest::prelude::*;
use std::cell::Cell;

/// Hosts under each leaf; those under the first one send.
const PER_LEAF: u32 = 3;

#[derive(Debug, Clone)]
struct World {
    host_gbps: u64,
    spine_gbps: u64,
    delay: u64,
    config: Config,
    /// Source, destination, bytes, start.
    flows: Vec<(u32, u32, u64, u64)>,
    /// Whether two packets have reached a link at one picosecond: either may go first.
    met: Cell<bool>,
}

/// A packet at a link: when, of which flow, which one, how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Passing {
    time: u64,
    flow: usize,
    sequence: u64,
    bytes: u64,
}

impl World {
    fn packets(&self, flow: usize) -> u64 {
        self.flows[flow].2.div_ceil(u64::from(self.config.mtu))
    }

    /// Bytes of a packet on the wire.
    fn size(&self, flow: usize, sequence: u64) -> u64 {
        let (mtu, header) = (u64::from(self.config.mtu), u64::from(self.config.header));
        let is_last = sequence + 1 == self.packets(flow);
        let rest = self.flows[flow].2 - (self.packets(flow) - 1) * mtu;
        header + if is_last && !self.config.full_tail { rest } else { mtu }
    }

    /// What a host sends: a packet of each of its flows in turn, whenever the link is free.
    fn sent(&self, host: u32) -> Vec<Passing> {
        let mut starts: Vec<(u64, usize)> = (0..self.flows.len())
            .filter(|&flow| self.flows[flow].0 == host)
            .map(|flow| (self.flows[flow].3, flow))
            .collect();
        starts.sort_unstable();
        starts.reverse();
        let (mut now, mut turns) = (0, std::collections::VecDeque::new());
        let mut sent = Vec::new();
        while !(starts.is_empty() && turns.is_empty()) {
            if turns.is_empty() {
                now = now.max(starts.last().expect("flows that are to start").0);
            }
            while starts.last().is_some_and(|&(start, _)| start <= now) {
                let (_, flow) = starts.pop().expect("as above");
                turns.push_back((flow, 0));
            }
            let (flow, sequence) = turns.pop_front().expect("one has started");
            let bytes = self.size(flow, sequence);
            sent.push(Passing { time: now, flow, sequence, bytes });
            now += span(bytes, self.host_gbps);
            if sequence + 1 < self.packets(flow) {
                turns.push_back((flow, sequence + 1));
            }
        }
        sent
    }

    /// What arrives at the far end of a link, of what reaches the near end in order of time.
    fn cross(&self, gbps: u64, mut queued: Vec<Passing>) -> Vec<Passing> {
        queued.sort_unstable();
        let meets = |pair: &[Passing]| pair[0].time == pair[1].time;
        self.met.set(self.met.get() || queued.windows(2).any(meets));
        let mut free = 0;
        for packet in &mut queued {
            free = packet.time.max(free) + span(packet.bytes, gbps);
            packet.time = free + self.delay;
        }
        queued
    }

    /// When all data of each flow has arrived, and when its sender knows.
    fn replay(&self) -> Vec<(u64, u64)> {
        let there = |packet: &Passing| self.flows[packet.flow].1;
        let from = |packet: &Passing| self.flows[packet.flow].0;
        let hosts = 0..3 * PER_LEAF;
        let up: Vec<Passing> =
            hosts.clone().flat_map(|host| self.cross(self.host_gbps, self.sent(host))).collect();
        let spine = self.cross(self.spine_gbps, up);
        let data = self.down(&spine, there);
        let mut ends = vec![(0, 0); self.flows.len()];
        for packet in &data {
            let last = &mut ends[packet.flow].0;
            *last = packet.time.max(*last);
        }
        let bytes = u64::from(self.config.control_bytes);
        let acks: Vec<Passing> =
            data.into_iter().map(|packet| Passing { bytes, ..packet }).collect();
        let of = |host: u32| acks.iter().copied().filter(move |ack| there(ack) == host).collect();
        let up: Vec<Passing> =
            hosts.flat_map(|host| self.cross(self.host_gbps, of(host))).collect();
        let mut climbing = Vec::new();
        for leaf in 1..3 {
            let under = |ack: &&Passing| there(ack) / PER_LEAF == leaf;
            climbing
                .extend(self.cross(self.spine_gbps, up.iter().filter(under).copied().collect()));
        }
        for ack in self.down(&climbing, from) {
            let last = &mut ends[ack.flow].1;
            *last = ack.time.max(*last);
        }
        ends
    }

    /// From the spine over the leaves to hosts.
    fn down(&self, spine: &[Passing], to: impl Fn(&Passing) -> u32) -> Vec<Passing> {
        let mut ports = Vec::new();
        for leaf in 0..3 {
            let under: Vec<Passing> =
                spine.iter().copied().filter(|packet| to(packet) / PER_LEAF == leaf).collect();
            let under = self.cross(self.spine_gbps, under);
            for host in leaf * PER_LEAF..(leaf + 1) * PER_LEAF {
                let own = under.iter().copied().filter(|packet| to(packet) == host).collect();
                ports.extend(self.cross(self.host_gbps, own));
            }
        }
        ports
    }
}

/// Picoseconds to send so many bytes, rounded up.
fn span(bytes: u64, gbps: u64) -> u64 {
    (bytes * 8_000).div_ceil(gbps)
}

fn worlds() -> impl Strategy<Value = World> {
    let config = (500_u32..5_000, 0_u32..100, any::<bool>());
    let rates =
        (prop::sample::select(vec![97_u64, 401]), prop::sample::select(vec![53_u64, 1_601]));
    // Starts differ, and are spread over many packets.
    let flow = (0..PER_LEAF, PER_LEAF..3 * PER_LEAF, 1_u64..200_000, 0_u64..1_000_000);
    let flows = prop::collection::vec(flow, 1..12);
    (rates, 1_000_u64..3_000_000, config, flows).prop_map(|(rates, delay, config, flows)| {
        let (mtu, header, full_tail) = config;
        let config = Config { mtu, header, full_tail, ..plain() };
        let apart = |(index, (from, to, bytes, start))| (from, to, bytes, 16 * start + index);
        let flows = (0..).zip(flows).map(apart).collect();
        World {
            host_gbps: rates.0,
            spine_gbps: rates.1,
            delay,
            config,
            flows,
            met: Cell::new(false),
        }
    })
}

/// When each flow has arrived, and is done, in the simulator.
fn simulated(world: &World) -> Vec<(u64, u64)> {
    let rate = |gbps: u64| Rate(gbps * 1_000_000_000);
    let delay = Duration(world.delay);
    let (host, spine) = (rate(world.host_gbps), rate(world.spine_gbps));
    let topology = presets::leaf_spine(3 * PER_LEAF, PER_LEAF, 1, host, spine, delay).unwrap();
    let spec = |&(from, to, bytes, start): &(u32, u32, u64, u64)| FlowSpec {
        start: Time(start),
        ..flow((from, to), bytes)
    };
    let specs: Vec<FlowSpec> = world.flows.iter().map(spec).collect();
    let (_, flows) = run(topology, world.config, LineRate::new, &specs);
    flows.iter().map(|flow| (flow.received_at, flow.done_at)).collect()
}

#[test]
fn two_flows_to_one_host_by_hand() {
    // 10 Gb/s: a packet of 1,250 B takes 1 us on each of four links of 1 us, its acknowledgement of
    // 125 B takes 100 ns. The second flow's packet waits for the first one's at the spine.
    let config = Config { mtu: 1_200, header: 50, control_bytes: 125, ..plain() };
    let flows = vec![(0, 3, 1_200, 0), (1, 3, 1_200, 500_000)];
    let (host_gbps, spine_gbps, delay) = (10, 10, 1_000_000);
    let met = Cell::new(false);
    let world = World { host_gbps, spine_gbps, delay, config, flows, met };
    let expected = [(8_000_000, 12_400_000), (9_000_000, 13_400_000)];
    assert_eq!(world.replay(), expected);
    assert_eq!(simulated(&world), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_flow_ends_at_the_picosecond_of_the_replay(world in worlds()) {
        let expected = world.replay();
        prop_assume!(!world.met.get());
        prop_assert_eq!(simulated(&world), expected);
    }
}
