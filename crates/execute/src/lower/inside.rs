//! What the GPUs of each member send each other alongside the network.
//!
//! NICs of a server are in groups, and so are its GPUs. What enters or leaves a group is spread
//! evenly over its GPUs; the busiest group is the last to be done.

use crate::network::Lowering;

/// Bytes out of and into each group of GPUs of each member.
#[derive(Debug, Default)]
pub(super) struct Inside {
    groups: usize,
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Inside {
    /// Empties it, for so many members with so many groups on their servers.
    pub(super) fn reset(&mut self, members: usize, groups: usize) {
        self.groups = groups;
        for column in [&mut self.sent, &mut self.received] {
            column.clear();
            column.resize(members * groups, 0);
        }
    }

    /// Adds bytes from one group of a member's server to another, or between GPUs of one group.
    pub(super) fn add(&mut self, member: u32, from: u32, to: u32, bytes: u64) {
        let first = member as usize * self.groups;
        self.sent[first + from as usize] += bytes;
        self.received[first + to as usize] += bytes;
    }

    /// Sets the local step of all members.
    pub(super) fn assign(&self, lowering: &mut Lowering, gpus_per_group: u32) {
        let members =
            self.sent.chunks_exact(self.groups).zip(self.received.chunks_exact(self.groups));
        for (local, (sent, received)) in lowering.local.iter_mut().zip(members) {
            let busiest = sent.iter().chain(received).copied().max().unwrap_or(0);
            *local = busiest.div_ceil(u64::from(gpus_per_group));
            lowering.nvswitch_bytes += sent.iter().sum::<u64>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_group_of_each_member_counts() {
        let mut inside = Inside::default();
        inside.reset(2, 2);
        inside.add(0, 0, 1, 60);
        inside.add(0, 1, 1, 41);
        inside.add(1, 1, 0, 7);
        let mut lowering = Lowering::default();
        lowering.reset(2);
        inside.assign(&mut lowering, 4);
        // 101 bytes into the second group of the first member, over four GPUs.
        assert_eq!(lowering.local, [26, 2]);
        assert_eq!(lowering.nvswitch_bytes, 108);
        inside.reset(1, 1);
        assert_eq!(inside.sent, [0]);
    }
}
