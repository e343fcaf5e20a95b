//! Delegates: the GPUs through which bytes of a server reach the NICs of a path.
//!
//! G is the GPUs of a worker, s the bytes that leave over k NICs. They are spread evenly over the k
//! GPUs that own these NICs, `s / k` each. Where a worker is one EP rank, tensor parallelism has
//! cut every message into G equal parts, so a delegate holds `s / G` of it already and receives
//! `s / k (1 - k / G)`; where ranks share the worker, a byte is on the delegate by chance only, so
//! it receives `s / k (1 - 1 / G)`. What leaves by the same NICs, whatever its destination, shares
//! their delegates: on a packet fabric all that the worker sends, on circuits what it sends over
//! those to one server. The gather lasts as long as its busiest delegate. Scatter is the same for
//! received bytes.

use crate::network::{Lowering, Placement};
use lightloom_flowsim::LinkId;

/// Bytes that a delegate receives (or sends) when `bytes` are spread over `nics` of them.
pub(super) fn delegate_share(bytes: u64, nics: u32, gpus: u32, ranks: u32) -> u64 {
    let (nics, gpus) = (u128::from(nics), u128::from(gpus));
    let own = if ranks == 1 { nics.min(gpus) } else { 1 };
    // s / k (1 - own / G), rounded up
    (u128::from(bytes) * (gpus - own)).div_ceil(nics * gpus) as u64
}

/// A member and the NICs by which some of its bytes leave or arrive.
#[derive(Debug, Clone, Copy)]
struct Port {
    member: u32,
    link: LinkId,
    nics: u32,
}

/// What crosses the NICs of all members in one direction.
#[derive(Debug, Default)]
struct Ports {
    /// Bytes over each link.
    bytes: Vec<u64>,
    used: Vec<Port>,
}

impl Ports {
    #[inline]
    fn add(&mut self, port: Port, bytes: u64) {
        let sum = &mut self.bytes[port.link.0 as usize];
        if *sum == 0 {
            self.used.push(port);
        }
        *sum += bytes;
    }

    /// Raises a step of each member to the bytes of its busiest delegate; returns those of all.
    fn raise(&mut self, step: &mut [u64], placement: &Placement) -> u64 {
        let mut total = 0;
        for Port { member, link, nics } in self.used.drain(..) {
            let bytes = std::mem::take(&mut self.bytes[link.0 as usize]);
            let share = delegate_share(bytes, nics, placement.gpus, placement.ranks);
            let busiest = &mut step[member as usize];
            *busiest = (*busiest).max(share);
            total += share * u64::from(nics);
        }
        total
    }
}

/// Finds gather and scatter of lowered all-to-alls; keeps its memory.
#[derive(Debug, Default)]
pub(super) struct Delegates {
    sending: Ports,
    receiving: Ports,
}

impl Delegates {
    /// Gather and scatter for the transfers of a lowering, over networks of so many links.
    pub(super) fn assign(&mut self, lowering: &mut Lowering, placement: &Placement, links: usize) {
        self.sending.bytes.resize(links, 0);
        self.receiving.bytes.resize(links, 0);
        for transfer in &lowering.transfers {
            let (path, links) = (lowering.path(transfer.path), lowering.links(transfer.path));
            let exit = Port { member: transfer.from, link: links[0], nics: path.sending_nics };
            self.sending.add(exit, transfer.bytes);
            let last = links[links.len() - 1];
            let entry = Port { member: transfer.to, link: last, nics: path.receiving_nics };
            self.receiving.add(entry, transfer.bytes);
        }
        let copied = self.sending.raise(&mut lowering.gather, placement)
            + self.receiving.raise(&mut lowering.scatter, placement);
        lowering.nvswitch_bytes += copied;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delegate_holds_a_part_already() {
        // One rank of 8 GPUs: each GPU holds an eighth of every message.
        assert_eq!(delegate_share(800, 8, 8, 1), 0);
        assert_eq!(delegate_share(800, 2, 8, 1), 300);
        assert_eq!(delegate_share(800, 1, 8, 1), 700);
        // Eight ranks of one GPU each: a byte is on its delegate by chance.
        assert_eq!(delegate_share(800, 8, 8, 8), 88);
        assert_eq!(delegate_share(800, 1, 8, 8), 700);
    }

    #[test]
    fn more_nics_than_gpus_need_no_copies_and_rounding_is_upwards() {
        assert_eq!(delegate_share(800, 16, 8, 1), 0);
        assert_eq!(delegate_share(1, 2, 8, 1), 1);
        assert_eq!(delegate_share(0, 2, 8, 1), 0);
    }
}
