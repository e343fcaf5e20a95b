//! The links of a network and the bytes on their way over them: as fluid flows, as packets, or over
//! circuits whose ports take turns.
//!
//! All simulators are driven alike: links with lit members, transfers over paths of links, the
//! next transfers to end. A transfer of fluid ends when its last byte has left; the caller adds the
//! latency. One of packets, or over circuits that take turns, ends when the receiver has its last
//! byte.

use super::ends::ends_of;
use super::link::{End, Flow, Link};
use crate::error::ExecuteError;
use crate::packets::{LaunchedId, PacketNetwork};
use crate::recording::SentPackets;
use crate::turns::{CircuitTurn, Part, Together, TurnRules, TurnStatistics, Turns};
use lightloom_flowsim::{EqualFlows, LinkId, PriorityFlowId, PriorityNetwork, Statistics};
use lightloom_kernel::Observer;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::SceneHops;

/// Tokens from here on are of flows that a part starts for a transfer in its care; no owner of a
/// transfer has one.
pub const CONDUCTED: u64 = 3 << 62;

/// A transfer that may be withdrawn.
#[derive(Debug, Clone, Copy)]
pub enum Launch {
    /// As a fluid.
    Fluid(PriorityFlowId),
    /// As packets.
    Packets(LaunchedId),
}

/// Links and what is on its way over them.
#[derive(Debug)]
pub struct Links {
    /// Each link, and how many of its members are lit.
    links: Vec<(Link, u32)>,
    simulator: Simulator,
}

#[derive(Debug)]
enum Simulator {
    Flows {
        network: Box<PriorityNetwork>,
        /// Per link, by how many bytes flows are smaller than the transfers that they stand for.
        omitted: Vec<i64>,
    },
    Packets(Box<PacketNetwork>),
    Turns(Box<Turns>),
}

impl Links {
    /// Fluid flows that share links max-min fairly.
    pub fn flows() -> Self {
        let simulator = Simulator::Flows { network: Box::default(), omitted: Vec::new() };
        Self { links: Vec::new(), simulator }
    }

    /// Packets.
    pub fn packets(network: PacketNetwork) -> Self {
        Self { links: Vec::new(), simulator: Simulator::Packets(Box::new(network)) }
    }

    /// Circuits whose ports take turns; each is recorded, if that is wanted.
    pub fn turns(rules: TurnRules, is_recorded: bool) -> Self {
        let simulator = Simulator::Turns(Box::new(Turns::new(rules, is_recorded)));
        Self { links: Vec::new(), simulator }
    }

    /// Has flows of packets recorded from now on.
    pub fn record_packets(&mut self) {
        if let Simulator::Packets(network) = &mut self.simulator {
            network.record();
        }
    }

    /// What was sent as packets, if that was recorded.
    pub fn sent_packets(&mut self) -> Option<SentPackets> {
        match &mut self.simulator {
            Simulator::Packets(network) => network.sent_packets(),
            Simulator::Flows { .. } | Simulator::Turns(_) => None,
        }
    }

    /// Adds a link whose members are all lit.
    pub fn add(&mut self, link: Link) -> LinkId {
        self.add_lit(link, link.members)
    }

    /// Adds a link of which so many members are lit (0: dark). Links of packets are all added
    /// before the first start.
    pub fn add_lit(&mut self, link: Link, lit: u32) -> LinkId {
        let id = LinkId(self.links.len() as u32);
        self.links.push((link, lit));
        match &mut self.simulator {
            Simulator::Flows { network, omitted } => {
                omitted.push(0);
                network.add_link(link.rate_of(lit))
            }
            Simulator::Packets(network) => {
                network.add_link(&link, lit);
                id
            }
            Simulator::Turns(turns) => {
                turns.add_link(link.rate_of(lit), server_of(&link));
                id
            }
        }
    }

    /// Ends the adding of links.
    ///
    /// # Errors
    /// If packets cannot be sent over them as they were asked to be.
    pub fn seal(&mut self) -> Result<(), ExecuteError> {
        match &mut self.simulator {
            Simulator::Flows { .. } | Simulator::Turns(_) => Ok(()),
            Simulator::Packets(network) => network.seal(),
        }
    }

    /// What a link is, and how many of its members are lit now.
    pub fn link(&self, id: LinkId) -> (Link, u32) {
        self.links[id.0 as usize]
    }

    /// The rate of all members of a link together, lit or not.
    pub fn full_rate(&self, id: LinkId) -> Rate {
        let (link, _) = self.links[id.0 as usize];
        link.rate_of(link.members)
    }

    /// How many links there are.
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// Changes how many members of a link are lit; without any, what is on it waits.
    pub fn set_lit(&mut self, now: Time, id: LinkId, lit: u32) {
        let (link, before) = &mut self.links[id.0 as usize];
        *before = lit;
        match &mut self.simulator {
            Simulator::Flows { network, .. } => network.set_rate(now, id, link.rate_of(lit)),
            Simulator::Packets(network) => network.set_lit(now, id, lit),
            Simulator::Turns(_) => unreachable!("circuits that take turns follow no one else"),
        }
    }

    /// Says that many transfers will take these paths, those of an all-to-all. That changes no
    /// time, only how fast it is found.
    pub fn expect<'a>(&mut self, paths: impl Iterator<Item = &'a [LinkId]>) {
        if let Simulator::Flows { network, .. } = &mut self.simulator {
            for (first, last) in ends_of(paths) {
                network.expect(&first, &last);
            }
        }
    }

    /// Whether transfers are fluids.
    pub fn are_fluid(&self) -> bool {
        matches!(self.simulator, Simulator::Flows { .. })
    }

    /// Starts this many equal transfers of their bytes alone as one, which may be withdrawn.
    ///
    /// # Panics
    /// Over circuits that take turns, or if several are packets.
    pub fn launch(&mut self, now: Time, flow: Flow, count: u32, path: &[LinkId]) -> Launch {
        let Flow { bytes, priority, token, .. } = flow;
        match &mut self.simulator {
            Simulator::Flows { network, .. } => {
                let flows = EqualFlows { size: Bytes(bytes), priority, count, token };
                Launch::Fluid(network.start_equal(now, flows, path))
            }
            Simulator::Packets(network) => {
                assert_eq!(count, 1, "packets of each transfer are its own");
                Launch::Packets(network.launch(now, flow, path))
            }
            Simulator::Turns(_) => unreachable!("circuits that take turns withdraw nothing"),
        }
    }

    /// Bytes that a launched transfer of this token, or each of equal ones, has left; nothing if it
    /// has ended.
    pub fn left(&mut self, now: Time, launch: Launch, token: u64) -> Option<u64> {
        match (&mut self.simulator, launch) {
            (Simulator::Flows { network, .. }, Launch::Fluid(flow)) => {
                network.left(now, flow, token).map(|left| left.0)
            }
            (Simulator::Packets(network), Launch::Packets(id)) => network.left(id),
            _ => None,
        }
    }

    /// Takes a launched transfer of this token off its path: what it had left; nothing if it has
    /// ended.
    pub fn withdraw(&mut self, now: Time, launch: Launch, token: u64) -> Option<u64> {
        match (&mut self.simulator, launch) {
            (Simulator::Flows { network, .. }, Launch::Fluid(flow)) => {
                network.withdraw(now, flow, token).map(|left| left.0)
            }
            (Simulator::Packets(network), Launch::Packets(id)) => network.withdraw(now, id),
            _ => None,
        }
    }

    /// Starts a transfer over a path.
    pub fn start(&mut self, now: Time, flow: Flow, path: &[LinkId]) {
        let Flow { bytes, stretch, priority, token } = flow;
        match &mut self.simulator {
            Simulator::Flows { network, omitted } => {
                let mut size = bytes;
                if stretch.to_bits() != 1_f64.to_bits() {
                    size = (bytes as f64 * stretch).round() as u64;
                    for link in path {
                        omitted[link.0 as usize] += bytes.wrapping_sub(size).cast_signed();
                    }
                }
                network.start(now, Bytes(size), priority, path, token);
            }
            Simulator::Packets(network) => network.start(now, flow, path),
            Simulator::Turns(turns) => {
                let once = Together::Steps { chunks: 1, steps: 1, is_background: false };
                turns.start(now, once, priority, vec![part(&flow, path)]);
            }
        }
    }

    /// Starts transfers that begin together; how late they begin where members are late at random.
    /// Fluids and packets do not care.
    pub fn start_together(
        &mut self,
        now: Time,
        shape: Together,
        transfers: &[(Flow, &[LinkId])],
    ) -> Duration {
        if let Simulator::Turns(turns) = &mut self.simulator {
            let priority = transfers.iter().map(|(flow, _)| flow.priority).max();
            let parts = transfers.iter().map(|(flow, path)| part(flow, path)).collect();
            return priority
                .map_or(Duration::ZERO, |priority| turns.start(now, shape, priority, parts));
        }
        for &(flow, path) in transfers {
            self.start(now, flow, path);
        }
        Duration::ZERO
    }

    /// Whether transfers of an all-to-all can begin only when all of its members are ready.
    pub fn begins_together(&self) -> bool {
        matches!(self.simulator, Simulator::Turns(_))
    }

    /// Continues to the next time, but not beyond `limit`, at which transfers end; their tokens
    /// are then in `done`. Nothing if none ends until then.
    ///
    /// # Errors
    /// If the observer asks to stop, or packets are on their way for ever.
    pub fn run_until(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Time>, ExecuteError> {
        match &mut self.simulator {
            Simulator::Flows { network, .. } => {
                let next = network.next_completion();
                let next = next.filter(|&next| limit.is_none_or(|limit| next <= limit));
                if let Some(next) = next {
                    network.advance(next, done);
                }
                Ok(next)
            }
            Simulator::Packets(network) => network.run_until(limit, done, observer),
            Simulator::Turns(turns) => Ok(turns.run_until(limit, done)?),
        }
    }

    /// Whether transfers are on their way.
    pub fn is_busy(&self) -> bool {
        match &self.simulator {
            Simulator::Flows { network, .. } => network.active() > 0,
            Simulator::Packets(network) => network.is_busy(),
            Simulator::Turns(turns) => turns.is_busy(),
        }
    }

    /// Whether a transfer ends where it arrives, not where it leaves.
    pub fn ends_on_arrival(&self) -> bool {
        matches!(self.simulator, Simulator::Packets(_) | Simulator::Turns(_))
    }

    /// Bytes of the transfers that have crossed a link, as far as they had when they ended or were
    /// withdrawn.
    pub fn carried(&self, link: LinkId) -> u64 {
        match &self.simulator {
            Simulator::Flows { network, omitted } => {
                let carried = network.carried(link);
                carried.saturating_add_signed(omitted[link.0 as usize])
            }
            Simulator::Packets(network) => network.carried(link),
            Simulator::Turns(turns) => turns.carried(link),
        }
    }

    /// What the flow simulation has done; nothing for packets.
    pub fn flow_statistics(&self) -> Statistics {
        match &self.simulator {
            Simulator::Flows { network, .. } => network.statistics(),
            Simulator::Packets(_) | Simulator::Turns(_) => Statistics::default(),
        }
    }

    /// Packets that left a link, once for each; none of fluids.
    ///
    /// # Errors
    /// If the observer asks to stop.
    pub fn packet_hops(&mut self, observer: &mut dyn Observer) -> Result<SceneHops, ExecuteError> {
        match &mut self.simulator {
            Simulator::Flows { .. } | Simulator::Turns(_) => Ok(SceneHops::default()),
            Simulator::Packets(network) => network.packet_hops(observer),
        }
    }

    /// What turns of circuits were, and the circuits, if they were recorded; nothing of others.
    pub fn end_turns(&mut self) -> (TurnStatistics, Vec<CircuitTurn>) {
        match &mut self.simulator {
            Simulator::Turns(turns) => turns.end(),
            Simulator::Flows { .. } | Simulator::Packets(_) => Default::default(),
        }
    }
}

/// The server whose port a link is.
fn server_of(link: &Link) -> u32 {
    match (link.from, link.to) {
        (End::Nics { server, .. }, _) | (_, End::Nics { server, .. }) => server.0,
        _ => unreachable!("a circuit joins two ports"),
    }
}

/// A transfer as circuits that take turns know it: it crosses a port at each end.
fn part(flow: &Flow, path: &[LinkId]) -> Part {
    let &[from, to] = path else { unreachable!("a circuit joins two ports") };
    Part { path: [from, to], bytes: flow.bytes, token: flow.token }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_kernel::Silent;
    use lightloom_model::ServerId;
    use lightloom_packetsim::Cable;

    const BYTES: u64 = 1_000_000;
    /// Time of `BYTES` over one member, in picoseconds.
    const ALONE: u64 = 1_000_000_000;

    /// Three parallel circuits of 8 Gb/s.
    fn circuits(lit: u32) -> (Links, LinkId) {
        let mut links = Links::flows();
        let each = Cable { rate: Rate(8_000_000_000), delay: Duration::ZERO };
        let id = links.add_lit(Link::circuits(ServerId(0), ServerId(1), 3, each), lit);
        (links, id)
    }

    fn flow(bytes: u64) -> Flow {
        Flow { bytes, stretch: 1.0, priority: 0, token: 0 }
    }

    /// When all transfers have ended.
    fn end(links: &mut Links) -> Option<Time> {
        let mut done = Vec::new();
        let mut last = None;
        while let Some(time) = links.run_until(None, &mut done, &mut Silent).unwrap() {
            last = Some(time);
        }
        last
    }

    #[test]
    fn stretched_flows_take_longer_and_count_their_bytes() {
        let (mut links, link) = circuits(1);
        let mut done = Vec::new();
        links.start(Time(0), Flow { stretch: 1.25, token: 7, ..flow(BYTES) }, &[link]);
        let early = Some(Time(ALONE / 4 * 5 - 1));
        assert_eq!(links.run_until(early, &mut done, &mut Silent), Ok(None));
        let end = Some(Time(ALONE / 4 * 5));
        assert_eq!(links.run_until(end, &mut done, &mut Silent), Ok(end));
        assert_eq!((done, links.carried(link)), (vec![7], BYTES));
    }

    #[test]
    fn as_many_members_as_are_lit_share_a_transfer() {
        for lit in 1..=3 {
            let (mut links, link) = circuits(lit);
            links.start(Time(0), flow(6 * BYTES), &[link]);
            assert_eq!(end(&mut links), Some(Time(6 * ALONE / u64::from(lit))));
        }
    }

    #[test]
    fn what_is_on_a_dark_link_waits() {
        let (mut links, link) = circuits(0);
        links.start(Time(0), flow(BYTES), &[link]);
        assert_eq!(end(&mut links), None);
        assert!(links.is_busy());
        links.set_lit(Time(5 * ALONE), link, 2);
        assert_eq!(links.link(link).1, 2);
        assert_eq!(end(&mut links), Some(Time(5 * ALONE + ALONE / 2)));
        assert!(!links.is_busy());
    }
}
