//! Gather and scatter of lowered all-to-alls: what leaves by the same NICs shares their delegates.
//!
//! Whatever its destination: on a packet fabric that is all that the worker sends, on circuits what
//! it sends over those to one server. The gather lasts as long as its busiest delegate. Scatter is
//! the same for received bytes.

use crate::network::{DelegateHolds, Lowering, Placement, delegate_share};
use lightloom_flowsim::LinkId;

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
        let held = DelegateHolds::new(placement, placement.ranks == 1);
        let mut total = 0;
        for Port { member, link, nics } in self.used.drain(..) {
            let bytes = std::mem::take(&mut self.bytes[link.0 as usize]);
            let share = delegate_share(bytes, nics, placement.gpus, held);
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
