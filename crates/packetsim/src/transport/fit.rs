//! Sizes that follow from what a network holds in flight.
//!
//! References state windows, queues and thresholds for links of one rate and one length. Where a
//! round trip holds more than there, all of them grow by the same factor, and windows fill a round
//! trip. Sizes never shrink: what holds a round trip on a large network holds one on a small one.

use super::table::PerNic;
use crate::config::{Config, Ecn, Pfc};
use crate::flow::PacketFlowId;
use crate::network::core::{Core, sent_bytes};
use crate::topology::NicId;
use lightloom_model::{Duration, Rate};

/// Links of the longest path of the networks of references: three tiers, 1 us each.
const LINKS: u64 = 6;
const LINK_DELAY: Duration = Duration(1_000_000);

/// Round trips that a window fills, in percent: what NDP and EQDS have in csg-htsim.
const FILLED_PERCENT: u64 = 120;

/// What transports are fitted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Of the fastest NIC.
    pub rate: Rate,
    /// Of the longest path: propagation and forwarding one way.
    pub delay: Duration,
}

impl Extent {
    /// The network of references, with links of a rate.
    fn of_reference(rate: Rate) -> Self {
        Self { rate, delay: Duration(LINKS * LINK_DELAY.0) }
    }

    /// Bytes that are in flight while a full packet goes to the receiver and its acknowledgement
    /// comes back.
    fn bytes(self, config: &Config) -> u128 {
        let sent = sent_bytes(self.rate, Duration(2 * self.delay.0));
        let packet = u64::from(config.packet_bytes() + config.control_bytes);
        sent + u128::from(LINKS * packet)
    }

    /// How often what a round trip of the reference holds fits a round trip of this network; at
    /// least once.
    pub(super) fn over(self, reference: Rate, config: &Config) -> f64 {
        let [own, theirs] = [self, Self::of_reference(reference)].map(|it| it.bytes(config) as f64);
        (own / theirs).max(1.0)
    }
}

impl Config {
    /// Queues and thresholds that are so many times as large.
    pub(super) fn grown(self, factor: f64) -> Self {
        let grow = |bytes: u32| (f64::from(bytes) * factor) as u32;
        Self {
            queue_bytes: grow(self.queue_bytes),
            control_queue_bytes: grow(self.control_queue_bytes),
            ecn: self.ecn.map(|ecn| Ecn {
                min_bytes: grow(ecn.min_bytes),
                max_bytes: grow(ecn.max_bytes),
                ..ecn
            }),
            pfc: self.pfc.map(|pfc| Pfc {
                pause_bytes: grow(pfc.pause_bytes),
                resume_bytes: grow(pfc.resume_bytes),
            }),
            ..self
        }
    }
}

/// Packets that fill the round trip of a flow on an idle network, and a fifth more, which are not
/// fewer than the reference has.
pub(super) fn window(core: &Core, flow: PacketFlowId, least: u32) -> u32 {
    if core.flow(flow).packets <= least {
        return least;
    }
    let bytes = core.bytes_in_flight(flow) * u128::from(FILLED_PERCENT) / 100;
    let packets = bytes.div_ceil(u128::from(core.config().packet_bytes()));
    u32::try_from(packets).unwrap_or(u32::MAX).max(least)
}

/// Windows of flows by sending NIC, in packets, where both ends of a flow have to know them.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    packets: PerNic<u32>,
    /// Flows that they are made for.
    flows: usize,
    is_given: bool,
    largest: u32,
}

impl Windows {
    /// The window that is given, else those that fill round trips: `least` packets to `largest`.
    pub(super) fn new(core: &Core, given: Option<u32>, [least, largest]: [u32; 2]) -> Self {
        let packets = PerNic::new(core.nic_count(), |_| given.unwrap_or(least));
        Self { packets, flows: 0, is_given: given.is_some(), largest }
    }

    /// Heeds all flows that are there.
    pub(super) fn heed(&mut self, core: &Core) {
        while !self.is_given && self.flows < core.flow_count() {
            let flow = PacketFlowId(self.flows as u32);
            if core.is_at_work(flow) {
                let present = &mut self.packets[core.endpoints(flow).source()];
                *present = window(core, flow, *present).min(self.largest);
            }
            self.flows += 1;
        }
    }

    /// That of flows from a NIC.
    #[inline]
    pub(super) fn of(&self, nic: NicId) -> u32 {
        self.packets[nic]
    }
}
