//! What a flow takes on an idle network: the closed form of store-and-forward along its path (the
//! first one, if it has several).
//!
//! Equal packets follow one another at the pace of the slowest links so far, of as many side by
//! side as they are sprayed over. The last packet may be shorter. It waits for the one before it
//! where both cross the same link, and overtakes it where they take different paths. Leaves out
//! that paths of a flow may have other rates than the first one.

use super::core::Core;
use crate::config::PathChoice;
use crate::flow::PacketFlowId;
use crate::topology::{NodeId, PacketLinkId};
use lightloom_model::{Bytes, Duration};

impl Core {
    /// Time that a flow takes on an idle network until its last byte is received; `None` if there
    /// is no path.
    pub fn ideal_time(&self, flow: PacketFlowId) -> Option<Duration> {
        let path = self.path_of(flow)?;
        let together = self.idle_time(flow, &path, |_| false);
        let state = self.flow(flow);
        let config = self.config_of(flow);
        let is_equal = self.packet_size(flow, state.packets - 1) == config.packet_bytes();
        let is_sprayed = !matches!(config.paths, PathChoice::Ecmp | PathChoice::Spray(1));
        let is_explicit = self.flows.key(flow).is_explicit();
        if is_equal || is_explicit || !(is_sprayed || self.reorders()) {
            return Some(together);
        }
        // Mostly it is the first or the last link that decides, which all packets cross.
        let last = path.len() - 1;
        if self.idle_time(flow, &path, |index| 0 < index && index < last) == together {
            return Some(together);
        }
        let choices = self.widths(flow, &path);
        Some(self.idle_time(flow, &path, |index| choices[index] > 1))
    }

    /// The time along a path, where `is_apart` says which links other packets of the flow may
    /// avoid.
    fn idle_time(
        &self,
        flow: PacketFlowId,
        path: &[PacketLinkId],
        is_apart: impl Fn(usize) -> bool,
    ) -> Duration {
        let full = self.config_of(flow).packet_bytes() as u16;
        let others = u64::from(self.flow(flow).packets - 1);
        let tail = self.packet_size(flow, others as u32) as u16;
        let (mut first_arrival, mut slowest) = (0_u64, (0_u64, 1_u64));
        let (mut full_arrival, mut tail_arrival) = (0_u64, 0_u64);
        for (index, &link) in path.iter().enumerate() {
            let delay = self.topology().links()[link.index()].delay.0;
            let (span, tail_span) = (self.transmission(link, full), self.transmission(link, tail));
            let width = u64::from(self.topology().width(link));
            let is_ahead = tail_arrival < full_arrival && !is_apart(index);
            // Packets that came here before the last one, if that is ahead of some.
            let came = tail_arrival.checked_sub(first_arrival).map_or(0, |since| {
                1 + u128::from(since) * u128::from(slowest.1) / u128::from(slowest.0.max(1))
            });
            if u128::from(span) * u128::from(slowest.1) > u128::from(slowest.0) * u128::from(width)
            {
                slowest = (span, width);
            }
            first_arrival += span + delay;
            // When the link has sent so many packets and one more.
            let sent = |packets: u64| first_arrival - delay + packets * slowest.0 / slowest.1;
            let before = if is_ahead {
                (came as u64).checked_sub(1)
            } else {
                others.checked_sub(width).filter(|_| index == 0 || !is_apart(index))
            };
            let tail_end = tail_arrival.max(before.map_or(0, sent)) + tail_span;
            full_arrival = others.checked_sub(1).map_or(0, |before| sent(before) + delay);
            if is_ahead {
                let behind = others.saturating_sub(came as u64);
                full_arrival = full_arrival.max(tail_end + behind * span + delay);
            }
            tail_arrival = tail_end + delay;
        }
        Duration(tail_arrival.max(full_arrival))
    }

    fn transmission(&self, link: PacketLinkId, bytes: u16) -> u64 {
        self.topology().links()[link.index()].rate.transmission(Bytes(u64::from(bytes))).0
    }

    /// Per link of a path, over how many links in its place packets of the flow may go.
    fn widths(&self, flow: PacketFlowId, path: &[PacketLinkId]) -> Vec<usize> {
        let (links, routing) = (self.topology().links(), self.initial_routing());
        let to = self.endpoints(flow).destination();
        let mut widths = vec![1];
        let mut nodes = vec![links[path[0].index()].to];
        while widths.len() < path.len() {
            let next = |node: NodeId| {
                let several = routing.several(node, to);
                let only = routing.next(node, to, 0).filter(|_| several.is_empty());
                several.iter().copied().chain(only)
            };
            let mut reached: Vec<PacketLinkId> = nodes.into_iter().flat_map(next).collect();
            reached.sort_unstable();
            reached.dedup();
            widths.push(reached.len());
            nodes = reached.iter().map(|link| links[link.index()].to).collect();
            nodes.sort_unstable();
            nodes.dedup();
        }
        widths
    }
}
