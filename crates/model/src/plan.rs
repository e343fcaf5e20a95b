//! How one all-to-all is carried: the plan that a simulator plays and a runtime executes.
//!
//! MixNet section 5.3 has five steps: (1) find the delegate GPUs, (2) gather onto them over
//! NVSwitch, (3) exchange between servers, (4) meanwhile exchange inside the servers, (5) scatter
//! from the delegates. A [`CollectivePlan`] is the outcome of step 1: the sizes of all the others.

/// What carries bytes from one server to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Carrier {
    /// NVSwitch: both ends are on one server.
    Local,
    /// The packet fabric, from one group of NICs to another. Servers whose NICs are used evenly
    /// have one group, number 0.
    Eps {
        /// NIC group of the sender's server.
        from_slot: u16,
        /// NIC group of the receiver's server.
        to_slot: u16,
    },
    /// The regional circuits between the two servers.
    Circuit,
    /// Two hops within a region, over a server that passes the bytes on.
    Relay {
        /// That server.
        server: u32,
        /// Whether they reach it over circuits, not the EPS.
        circuit_in: bool,
        /// Whether they leave it over circuits, not the EPS.
        circuit_out: bool,
    },
    /// A fixed route over direct links and relays.
    Direct {
        /// Index into [`crate::Direct::routes`].
        route: u32,
    },
}

/// Bytes from one member of a group to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// Sending member.
    pub from: u32,
    /// Receiving member.
    pub to: u32,
    /// Size.
    pub bytes: u64,
    /// Way.
    pub carrier: Carrier,
}

/// The sizes of the steps of one all-to-all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectivePlan {
    /// Step 3, by sender: those of member `i` are `transfers[first[i]..first[i + 1]]`.
    pub transfers: Vec<Transfer>,
    /// Where each sender's transfers begin; one entry more than members.
    pub first: Vec<u32>,
    /// Step 2: bytes that the busiest delegate GPU of each member takes in from other GPUs.
    pub gather: Vec<u64>,
    /// Step 5: bytes that the busiest delegate GPU of each member hands out to other GPUs.
    pub scatter: Vec<u64>,
    /// Step 4: bytes that each GPU of a member sends to other GPUs of the member.
    pub local: Vec<u64>,
    /// Bytes of steps 2, 4 and 5 together, of all members, for the books.
    pub nvswitch_bytes: u64,
}

impl CollectivePlan {
    /// Empties the plan for a group of this many members and keeps its memory.
    pub fn reset(&mut self, members: usize) {
        self.transfers.clear();
        self.first.clear();
        self.first.push(0);
        for column in [&mut self.gather, &mut self.scatter, &mut self.local] {
            column.clear();
            column.resize(members, 0);
        }
        self.nvswitch_bytes = 0;
    }

    /// Ends the transfers of the next sender.
    pub fn end_sender(&mut self) {
        self.first.push(self.transfers.len() as u32);
    }

    /// The gather step of a member, and the books.
    pub fn gather_of(&mut self, member: u32) -> (&mut u64, &mut u64) {
        (&mut self.gather[member as usize], &mut self.nvswitch_bytes)
    }

    /// The scatter step of a member, and the books.
    pub fn scatter_of(&mut self, member: u32) -> (&mut u64, &mut u64) {
        (&mut self.scatter[member as usize], &mut self.nvswitch_bytes)
    }

    /// Where the transfers of a member are.
    pub fn sent_by(&self, member: u32) -> std::ops::Range<usize> {
        let member = member as usize;
        self.first[member] as usize..self.first[member + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_are_found_by_sender() {
        let mut plan = CollectivePlan::default();
        plan.reset(3);
        let transfer = |from, to| Transfer { from, to, bytes: 1, carrier: Carrier::Circuit };
        plan.transfers.push(transfer(0, 1));
        plan.end_sender();
        plan.end_sender();
        plan.transfers.extend([transfer(2, 0), transfer(2, 1)]);
        plan.end_sender();
        assert_eq!(plan.sent_by(0), 0..1);
        assert_eq!(plan.sent_by(1), 1..1);
        assert_eq!(plan.sent_by(2), 1..3);
    }

    #[test]
    fn a_reset_plan_remembers_nothing() {
        let mut plan =
            CollectivePlan { gather: vec![7; 9], nvswitch_bytes: 3, ..Default::default() };
        plan.reset(2);
        assert_eq!(plan.gather, [0, 0]);
        assert_eq!((plan.nvswitch_bytes, plan.first.as_slice()), (0, &[0][..]));
    }
}
