//! What carries bytes between servers: fluid flows over links, or packets.
//!
//! Either is asked in the same words: links of a rate, transfers over paths of links, the next
//! transfers to end. A transfer of fluid ends when its last byte has left; the caller adds the
//! latency. One of packets ends when the receiver has its last byte.

use crate::error::ExecuteError;
use crate::packets::PacketNetwork;
use lightloom_flowsim::{LinkId, PriorityNetwork, Statistics};
use lightloom_kernel::Observer;
use lightloom_model::{Bytes, Duration, Rate, Time};

/// What a link stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Out of a server by a group of its NICs on the packet fabric.
    Up {
        /// Server.
        server: u32,
        /// Group of NICs.
        slot: u16,
    },
    /// Into a server, as `Up`.
    Down {
        /// Server.
        server: u32,
        /// Group of NICs.
        slot: u16,
    },
    /// Between the switches of the packet fabric.
    Switch,
    /// Through a server that passes bytes on, which takes this long besides.
    Relay {
        /// Server.
        server: u32,
        /// Forwarding delay.
        delay: Duration,
    },
    /// Parallel circuits from one server to another.
    Circuits {
        /// Sending server.
        from: u32,
        /// Receiving server.
        to: u32,
        /// Most that there may ever be.
        most: u32,
        /// Rate of each.
        rate: Rate,
        /// Propagation delay.
        delay: Duration,
    },
}

/// A transfer over a path of links.
#[derive(Debug, Clone, Copy)]
pub struct Flow {
    /// Size, as the ledger counts it.
    pub bytes: u64,
    /// As a fluid it takes this many times as long as its bytes alone would.
    pub stretch: f64,
    /// Fluids of a higher one go first.
    pub priority: u8,
    /// Comes back when it has ended.
    pub token: u64,
}

/// Links and what is on its way over them.
#[derive(Debug)]
pub struct Medium {
    wires: Vec<(Wire, Rate)>,
    carriage: Carriage,
}

#[derive(Debug)]
enum Carriage {
    Flows {
        network: Box<PriorityNetwork>,
        /// Per link, by how many bytes flows are smaller than the transfers that they stand for.
        spared: Vec<i64>,
    },
    Packets(Box<PacketNetwork>),
}

impl Medium {
    /// Fluid flows that share links max-min fairly.
    pub fn flows() -> Self {
        let carriage = Carriage::Flows { network: Box::default(), spared: Vec::new() };
        Self { wires: Vec::new(), carriage }
    }

    /// Packets.
    pub fn packets(network: PacketNetwork) -> Self {
        Self { wires: Vec::new(), carriage: Carriage::Packets(Box::new(network)) }
    }

    /// Adds a link of this rate (0: dark). Links of packets are all added before the first start.
    pub fn add_link(&mut self, rate: Rate, wire: Wire) -> LinkId {
        let link = LinkId(self.wires.len() as u32);
        self.wires.push((wire, rate));
        match &mut self.carriage {
            Carriage::Flows { network, spared } => {
                spared.push(0);
                network.add_link(rate)
            }
            Carriage::Packets(network) => {
                network.add_link(rate, wire);
                link
            }
        }
    }

    /// Ends the adding of links.
    ///
    /// # Errors
    /// If packets cannot be sent over them as they were asked to be.
    pub fn seal(&mut self) -> Result<(), ExecuteError> {
        match &mut self.carriage {
            Carriage::Flows { .. } => Ok(()),
            Carriage::Packets(network) => network.seal(),
        }
    }

    /// What a link stands for, and its rate now.
    pub fn wire(&self, link: LinkId) -> (Wire, Rate) {
        self.wires[link.0 as usize]
    }

    /// Changes the rate of a link; at 0 it is dark and what is on it waits.
    pub fn set_rate(&mut self, now: Time, link: LinkId, rate: Rate) {
        self.wires[link.0 as usize].1 = rate;
        match &mut self.carriage {
            Carriage::Flows { network, .. } => network.set_rate(now, link, rate),
            Carriage::Packets(network) => network.set_rate(now, link, rate),
        }
    }

    /// Starts a transfer over a path.
    pub fn start(&mut self, now: Time, flow: Flow, path: &[LinkId]) {
        let Flow { bytes, stretch, priority, token } = flow;
        match &mut self.carriage {
            Carriage::Flows { network, spared } => {
                let mut size = bytes;
                if stretch.to_bits() != 1_f64.to_bits() {
                    size = (bytes as f64 * stretch).round() as u64;
                    for link in path {
                        spared[link.0 as usize] += bytes.wrapping_sub(size).cast_signed();
                    }
                }
                network.start(now, Bytes(size), priority, path, token);
            }
            Carriage::Packets(network) => network.start(now, bytes, path, token),
        }
    }

    /// Goes on to the next time, but not beyond `limit`, at which transfers end; their tokens are
    /// then in `done`. Nothing if none ends until then.
    ///
    /// # Errors
    /// If the observer asks to stop, or packets are on their way for ever.
    pub fn run_until(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Time>, ExecuteError> {
        match &mut self.carriage {
            Carriage::Flows { network, .. } => {
                let next = network.next_completion();
                let next = next.filter(|&next| limit.is_none_or(|limit| next <= limit));
                if let Some(next) = next {
                    network.advance(next, done);
                }
                Ok(next)
            }
            Carriage::Packets(network) => network.run_until(limit, done, observer),
        }
    }

    /// Whether transfers are on their way.
    pub fn is_busy(&self) -> bool {
        match &self.carriage {
            Carriage::Flows { network, .. } => network.active() > 0,
            Carriage::Packets(network) => network.is_busy(),
        }
    }

    /// Whether a transfer ends where it arrives, not where it leaves.
    pub fn ends_on_arrival(&self) -> bool {
        matches!(self.carriage, Carriage::Packets(_))
    }

    /// Bytes of the transfers that have crossed a link.
    pub fn carried(&self, link: LinkId) -> u64 {
        match &self.carriage {
            Carriage::Flows { network, spared } => {
                let carried = network.carried(link);
                carried.saturating_add_signed(spared[link.0 as usize])
            }
            Carriage::Packets(network) => network.carried(link),
        }
    }

    /// What the flow simulation has done; nothing for packets.
    pub fn flow_statistics(&self) -> Statistics {
        match &self.carriage {
            Carriage::Flows { network, .. } => network.statistics(),
            Carriage::Packets(_) => Statistics::default(),
        }
    }

    /// Packets that left a link, once for each; none of fluids.
    pub fn packet_hops(&self) -> u64 {
        match &self.carriage {
            Carriage::Flows { .. } => 0,
            Carriage::Packets(network) => network.packet_hops(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_kernel::Silent;

    #[test]
    fn stretched_flows_take_longer_and_count_their_bytes() {
        let mut medium = Medium::flows();
        let link = medium.add_link(Rate(8_000_000_000), Wire::Switch);
        let mut done = Vec::new();
        let flow = Flow { bytes: 1_000_000, stretch: 1.25, priority: 0, token: 7 };
        medium.start(Time(0), flow, &[link]);
        let early = Some(Time(1_249_999_999));
        assert_eq!(medium.run_until(early, &mut done, &mut Silent), Ok(None));
        let end = Some(Time(1_250_000_000));
        assert_eq!(medium.run_until(end, &mut done, &mut Silent), Ok(end));
        assert_eq!((done, medium.carried(link)), (vec![7], 1_000_000));
    }
}
