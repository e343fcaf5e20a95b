//! What a link is, in the words that both simulators understand.
//!
//! A link of the network is a *bundle*: parallel members of one rate and delay, in one direction.
//! As a fluid it is as fast as its lit members together; as packets every member is a link of its
//! own, and a dark one holds back what is queued for it.

use lightloom_model::{Duration, Rate, ServerId};
use lightloom_packetsim::Cable;

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// A server, by NICs that belong to the link alone, or by its NVSwitch.
    Server(ServerId),
    /// A group of a server's NICs on the packet fabric.
    Nics {
        /// Server.
        server: ServerId,
        /// Index of the group.
        group: u16,
    },
    /// The switches of the packet fabric, which choose the path among themselves.
    Switches,
    /// A switch of a rack of servers, or one that joins racks, by its number.
    Rack(u32),
    /// Where a rack keeps what it passes on.
    Store(u32),
}

/// Parallel members from one end to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Sending end.
    pub from: End,
    /// Receiving end; the same server where bytes pass through it.
    pub to: End,
    /// How many members may ever be lit.
    pub members: u32,
    /// How many of them a transfer uses that begins while all are dark.
    pub awaited: u32,
    /// Rate of each member.
    pub rate: Rate,
    /// Propagation delay, or what it takes to pass a server.
    pub delay: Duration,
}

impl Link {
    /// From one end to another over this many members, which are always lit.
    pub fn new(from: End, to: End, members: u32, each: Cable) -> Self {
        let Cable { rate, delay } = each;
        Self { from, to, members, awaited: members, rate, delay }
    }

    /// Circuits from one server to another.
    pub fn circuits(from: ServerId, to: ServerId, members: u32, each: Cable) -> Self {
        Self::new(End::Server(from), End::Server(to), members, each)
    }

    /// Through the NVSwitch of a server that relays bytes of others.
    pub fn relay(server: ServerId, inside: Cable) -> Self {
        Self::new(End::Server(server), End::Server(server), 1, inside)
    }

    /// Whether bytes on it pass through a server.
    pub fn is_relay(&self) -> bool {
        self.from == self.to && matches!(self.from, End::Server(_))
    }

    /// The rate of so many members together.
    pub fn rate_of(&self, lit: u32) -> Rate {
        Rate(self.rate.0.saturating_mul(u64::from(lit)))
    }
}

/// A transfer over a path of links.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Size, as the ledger counts it.
    pub bytes: u64,
    /// As a fluid it takes this many times as long as its bytes alone would.
    pub stretch: f64,
    /// What has a higher one goes first.
    pub priority: u8,
    /// Comes back when it has ended.
    pub token: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_add_up_and_never_overflow() {
        let link = |rate| {
            let each = Cable { rate: Rate(rate), delay: Duration::ZERO };
            Link::circuits(ServerId(0), ServerId(1), 3, each)
        };
        assert_eq!(link(5).rate_of(3), Rate(15));
        assert_eq!(link(5).rate_of(0), Rate(0));
        assert_eq!(link(u64::MAX / 2).rate_of(3), Rate(u64::MAX));
    }

    #[test]
    fn only_a_server_relays() {
        let each = Cable { rate: Rate(1), delay: Duration::ZERO };
        assert!(!Link::new(End::Switches, End::Switches, 1, each).is_relay());
        assert!(Link::relay(ServerId(3), each).is_relay());
    }
}
