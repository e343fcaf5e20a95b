//! Several transports on one network: each class of flows has its own.
//!
//! A NIC sends what the transport of the highest priority has; transports of one priority take
//! turns, packet by packet. No transport knows of another: each paces its pulls and credit as if
//! its receivers had nothing else.

use super::interface::{Next, Transport};
use super::table::PerNic;
use crate::flow::PacketFlowId;
use crate::network::core::Core;
use crate::packet::Packet;
use crate::topology::NicId;
use lightloom_model::Time;

/// A transport, whichever it is.
pub(crate) type AnyTransport = Box<dyn Transport + Send>;

/// The transport of each class.
pub(crate) struct Several {
    all: Vec<AnyTransport>,
    /// Classes by priority, the highest first.
    groups: Vec<(u8, Vec<usize>)>,
    /// Per NIC and group, whose turn it is.
    turns: PerNic<Vec<usize>>,
}

impl Several {
    /// Those of all classes of a network, with the priority of the flows of each.
    pub(crate) fn new(core: &Core, all: Vec<AnyTransport>, priorities: &[u8]) -> Self {
        let of = |priority: u8| {
            let has = |class: &usize| priorities[*class] == priority;
            (priority, (0..all.len()).filter(has).collect::<Vec<usize>>())
        };
        let groups = (0..core.priorities()).rev().map(of);
        let groups: Vec<_> = groups.filter(|(_, group)| !group.is_empty()).collect();
        let turns = PerNic::new(core.nic_count(), |_| vec![0; groups.len()]);
        Self { all, groups, turns }
    }

    /// The transport of a flow, which is at work from now on.
    fn of(&mut self, core: &mut Core, flow: PacketFlowId) -> &mut AnyTransport {
        let class = core.class_of(flow);
        core.set_class(class);
        &mut self.all[class]
    }
}

impl Transport for Several {
    fn start(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.of(core, flow).start(core, flow);
    }

    /// The transport that may send first, or from the earliest time on, is at work afterwards.
    fn next(&mut self, core: &mut Core, nic: NicId, at: Time) -> Next {
        let paused = core.paused_priorities(nic);
        let mut earliest: Option<(Time, usize)> = None;
        for (turn, (priority, group)) in self.turns[nic].iter_mut().zip(&self.groups) {
            if paused & 1 << priority != 0 {
                continue;
            }
            for place in (0..group.len()).map(|step| (*turn + step) % group.len()) {
                let class = group[place];
                core.set_class(class);
                match self.all[class].next(core, nic, at) {
                    Next::Packet(id) => {
                        *turn = (place + 1) % group.len();
                        core.set_last_priority(nic, *priority);
                        return Next::Packet(id);
                    }
                    Next::At(time) => {
                        earliest = earliest.into_iter().chain([(time, class)]).min();
                    }
                    Next::Nothing => {}
                }
            }
        }
        let Some((time, class)) = earliest else { return Next::Nothing };
        core.set_class(class);
        Next::At(time)
    }

    fn receive(&mut self, core: &mut Core, nic: NicId, packet: Packet) {
        self.of(core, packet.flow).receive(core, nic, packet);
    }

    fn wake(&mut self, core: &mut Core, nic: NicId) {
        self.all[core.class()].wake(core, nic);
    }

    fn timer(&mut self, core: &mut Core, flow: PacketFlowId) {
        self.of(core, flow).timer(core, flow);
    }
}
