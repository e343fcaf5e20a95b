//! Line rate without congestion control: RoCE where the network is lossless (PFC), ideal where
//! buffers have no end.
//!
//! Every packet is acknowledged; the receiver takes packets in order only and asks for the first
//! missing one (go-back-N, as RoCE NICs do).

use super::{ActiveFlows, Next, Transport};
use crate::core::Core;
use crate::packet::{Kind, Packet};

/// State of the flows.
#[derive(Debug, Clone)]
pub struct LineRate {
    active: ActiveFlows,
    /// Per flow the next number to send and to expect.
    next: Vec<u32>,
    expected: Vec<u32>,
}

impl LineRate {
    /// For the NICs of a network.
    pub fn new(core: &Core) -> Self {
        Self { active: ActiveFlows::new(core.nic_count()), next: Vec::new(), expected: Vec::new() }
    }
}

impl Transport for LineRate {
    fn start(&mut self, core: &mut Core, flow: u32) {
        let needed = self.next.len().max(flow as usize + 1);
        self.next.resize(needed, 0);
        self.expected.resize(needed, 0);
        self.active.add(core.ends(flow)[0], flow);
    }

    fn next(&mut self, core: &mut Core, nic: u32, _at: u64) -> Next {
        let Some(flow) = self.active.first(nic) else { return Next::Nothing };
        let number = self.next[flow as usize];
        self.next[flow as usize] += 1;
        if number + 1 == core.flow(flow).packets {
            self.active.remove_first(nic);
        } else {
            self.active.rotate(nic);
        }
        Next::Packet(core.new_data(flow, number, 0))
    }

    fn receive(&mut self, core: &mut Core, nic: u32, packet: Packet) {
        let flow = packet.flow;
        match packet.kind {
            Kind::Data => {
                let expected = &mut self.expected[flow as usize];
                let is_next = packet.number == *expected;
                *expected += u32::from(is_next);
                let kind = if packet.number >= *expected { Kind::Nack } else { Kind::Ack };
                let number = *expected;
                if is_next {
                    core.received(flow);
                }
                core.send_control(nic, kind, flow, (number, 0), (0, 0));
            }
            Kind::Ack if packet.number == core.flow(flow).packets => core.finish(flow),
            Kind::Nack => {
                self.next[flow as usize] = packet.number;
                self.active.add(nic, flow);
            }
            _ => {}
        }
    }
}
