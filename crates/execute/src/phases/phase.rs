//! One phase: transfers that begin together, in terms that do not depend on where they are.
//!
//! Servers, pods, ToRs and links are numbered in the order in which transfers name them. Two phases
//! are equal if that makes them the same: the same bytes over the same kinds of links, at servers
//! that share ToRs and pods alike. Equal phases take equal times, as only what is equal is
//! simulated; which servers, ToRs and pods of the whole these are makes no difference but to the
//! hashes that spread flows over equal paths.

use crate::error::ExecuteError;
use crate::network::{End, Flow, Link, Links, Network, PacketFabric};
use crate::packets::{PacketTransport, Place};
use lightloom_flowsim::LinkId;
use lightloom_kernel::{Observer, RunHash, Silent};
use lightloom_model::{Duration, ServerId, Time};
use rustc_hash::FxHashMap;

/// Transfers that begin together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Phase {
    places: Vec<Place>,
    /// All links, of as many members as are lit.
    links: Vec<Link>,
    /// Paths of all transfers, one after the other, as indices of links.
    paths: Vec<u32>,
    transfers: Vec<Transfer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Transfer {
    /// End of its path in `paths`.
    end: u32,
    bytes: u64,
    latency: Duration,
}

/// What a simulation found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Found {
    /// Time until the last receiver had everything.
    pub time: Duration,
    /// See [`super`].
    pub stretch: f64,
    /// Packets that left a link.
    pub packet_hops: u64,
}

/// Numbers in the order of appearance.
#[derive(Debug, Default)]
struct Numbers(FxHashMap<u32, u32>);

impl Numbers {
    /// The number of something, and whether it is new.
    fn of(&mut self, what: u32) -> (u32, bool) {
        let next = self.0.len() as u32;
        let number = *self.0.entry(what).or_insert(next);
        (number, number == next)
    }
}

/// Gives numbers to what transfers name.
struct Canon<'a> {
    network: &'a Network,
    servers: Numbers,
    pods: Numbers,
    tors: Numbers,
    places: Vec<Place>,
}

impl Canon<'_> {
    fn server(&mut self, server: ServerId) -> ServerId {
        let (number, is_new) = self.servers.of(server.0);
        if is_new {
            let fabric = self.network.packet_fabric();
            let place = fabric.map_or(Place::default(), |fabric| fabric.place(server));
            if fabric.is_some_and(PacketFabric::tells_places_apart) {
                self.places.push(place);
            } else {
                let (pod, tor) = (self.pods.of(place.pod).0, self.tors.of(place.tor).0);
                self.places.push(Place { pod, tor });
            }
        }
        ServerId(number)
    }

    fn end(&mut self, end: End) -> End {
        match end {
            End::Server(server) => End::Server(self.server(server)),
            End::Nics { server, group } => End::Nics { server: self.server(server), group },
            End::Switches | End::Rack(_) | End::Store(_) => end,
        }
    }

    fn link(&mut self, link: Link, lit: u32) -> Link {
        let (from, to) = (self.end(link.from), self.end(link.to));
        Link { from, to, members: lit, awaited: lit, ..link }
    }
}

impl Phase {
    /// From paths, bytes and latencies of transfers.
    pub(super) fn new<'a>(
        network: &Network,
        links: &Links,
        transfers: impl Iterator<Item = (&'a [LinkId], u64, Duration)>,
    ) -> Self {
        let mut canon = Canon {
            network,
            servers: Numbers::default(),
            pods: Numbers::default(),
            tors: Numbers::default(),
            places: Vec::new(),
        };
        let mut numbers = Numbers::default();
        let (mut own, mut paths, mut list) = (Vec::new(), Vec::new(), Vec::new());
        for (path, bytes, latency) in transfers {
            for &link in path {
                let (number, is_new) = numbers.of(link.0);
                if is_new {
                    let (link, lit) = links.link(link);
                    own.push(canon.link(link, lit));
                }
                paths.push(number);
            }
            list.push(Transfer { end: paths.len() as u32, bytes, latency });
        }
        Self { places: canon.places, links: own, paths, transfers: list }
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.transfers.is_empty()
    }

    /// Whether transfers share a link.
    pub(super) fn shares_links(&self) -> bool {
        self.paths.len() > self.links.len()
    }

    /// Bytes of all transfers.
    pub(super) fn bytes(&self) -> u64 {
        self.transfers.iter().map(|transfer| transfer.bytes).sum()
    }

    /// What it takes of the memory.
    pub(super) fn size_bytes(&self) -> usize {
        self.paths.len() * size_of::<u32>()
            + self.transfers.len() * size_of::<Transfer>()
            + self.links.len() * size_of::<Link>()
    }

    /// 128 bits that tell phases apart.
    pub(super) fn digest(&self) -> u128 {
        let mut hash = RunHash::new();
        let mut words = |kind: u32, words: &[u64]| hash.record(Time::ZERO, kind, words);
        for place in &self.places {
            words(0, &[u64::from(place.pod), u64::from(place.tor)]);
        }
        for link in &self.links {
            let (server, rate) =
                (|server: ServerId| u64::from(server.0), link.rate_of(link.members).0);
            match (link.from, link.to) {
                (End::Nics { server: at, group }, _) => {
                    words(1, &[server(at), u64::from(group), rate]);
                }
                (_, End::Nics { server: at, group }) => {
                    words(2, &[server(at), u64::from(group), rate]);
                }
                (End::Server(at), End::Server(_)) if link.is_relay() => {
                    words(4, &[server(at), link.delay.0, rate]);
                }
                (End::Server(from), End::Server(to)) => {
                    let members = u64::from(link.members);
                    words(5, &[server(from), server(to), members, link.rate.0, link.delay.0]);
                }
                _ => words(3, &[rate]),
            }
        }
        let mut begin = 0;
        for transfer in &self.transfers {
            let path = &self.paths[begin..transfer.end as usize];
            begin = transfer.end as usize;
            let path: Vec<u64> = path.iter().map(|&link| u64::from(link)).collect();
            words(6, &path);
            words(7, &[transfer.bytes, transfer.latency.0]);
        }
        hash.digest()
    }

    /// Paths and transfers.
    fn each(&self) -> impl Iterator<Item = (Vec<LinkId>, &Transfer)> {
        let mut begin = 0;
        self.transfers.iter().map(move |transfer| {
            let path = &self.paths[begin..transfer.end as usize];
            begin = transfer.end as usize;
            (path.iter().map(|&link| LinkId(link)).collect(), transfer)
        })
    }

    /// About how many packets leave how many links, those that go back for each included.
    pub(super) fn packet_hops(&self, network: &Network, options: &PacketTransport) -> u64 {
        let (mtu, is_pulled) = (options.config.mtu, options.transport.is_pulled());
        let mut hops = 0;
        for (path, transfer) in self.each() {
            let mut links = 0;
            let mut entry = (ServerId(0), 0);
            for id in &path {
                let link = &self.links[id.0 as usize];
                links += match (link.from, link.to) {
                    (End::Nics { server, group }, _) => {
                        entry = (server, group);
                        0
                    }
                    (_, End::Nics { server, group }) => {
                        let fabric = network.packet_fabric().expect("it has the NICs");
                        let places = [entry.0, server].map(|at| self.places[at.index()]);
                        fabric.hops(places[0], places[1], entry.1 == group)
                    }
                    // the link between two racks, which is found as bytes begin, included
                    (End::Rack(_), End::Server(_)) => 2,
                    (End::Switches, _) | (_, End::Switches) => 0,
                    _ if link.is_relay() => 2,
                    _ => 1,
                };
            }
            let flows = self.flows_of(&path, transfer.bytes, mtu);
            let packets = transfer.bytes.div_ceil(flows).div_ceil(u64::from(mtu));
            // what a flow begins with needs nobody to ask for it
            let asked = if is_pulled { packets - packets.min(1) } else { 0 };
            hops += flows * (2 * packets + asked) * links;
        }
        hops
    }

    /// About how many flows carry it.
    pub(super) fn flows(&self, mtu: u32) -> u64 {
        self.each().map(|(path, transfer)| self.flows_of(&path, transfer.bytes, mtu)).sum()
    }

    /// About how many flows carry bytes over a path: one for each member of the widest bundle, and
    /// between racks, where they go in batches, one for each packet.
    fn flows_of(&self, path: &[LinkId], bytes: u64, mtu: u32) -> u64 {
        let links = || path.iter().map(|id| self.links[id.0 as usize]);
        let is_nics = |end| matches!(end, End::Nics { .. });
        let is_shared = |link: &Link| {
            let ends = [link.from, link.to];
            ends.into_iter().any(is_nics) || !ends.contains(&End::Switches)
        };
        let widest = links().filter(is_shared).map(|link| u64::from(link.members)).max();
        let flows = widest.unwrap_or(1).clamp(1, bytes.max(1));
        let in_batches = links().any(|link| matches!(link.from, End::Rack(_) | End::Store(_)));
        if in_batches { flows.max(bytes.div_ceil(u64::from(mtu))) } else { flows }
    }

    /// How many alike parts it has, one per NIC of a server, if no transfer crosses more than one
    /// switch: each is the same under any switch.
    pub(super) fn alike_parts(&self, network: &Network) -> Option<u64> {
        let mut parts = None;
        for (path, _) in self.each() {
            let [first, .., last] = path[..] else { return None };
            let [first, last] = [first, last].map(|id| self.links[id.0 as usize]);
            let (End::Nics { server: from, group }, End::Nics { server: to, group: at }) =
                (first.from, last.to)
            else {
                return None;
            };
            let places = [from, to].map(|server| self.places[server.index()]);
            if network.packet_fabric()?.hops(places[0], places[1], group == at) != 2 {
                return None;
            }
            let fewest = first.members.min(last.members).max(1);
            parts = Some(parts.map_or(fewest, |so_far: u32| so_far.min(fewest)));
        }
        parts.map(u64::from)
    }

    /// Plays it as packets, and finds by how much flows have to be stretched to take as long.
    ///
    /// # Errors
    /// If the observer asks to stop, or packets never arrive.
    pub(super) fn simulate(
        &self,
        network: &Network,
        options: &PacketTransport,
        observer: &mut dyn Observer,
    ) -> Result<Found, ExecuteError> {
        let packets = network.packet_links(&self.places, options, &[0])?;
        let (ends, packet_hops) = self.play(packets, observer)?;
        let last = ends.into_iter().max().unwrap_or(Time::ZERO);
        let (alone, _) = self.play(Links::flows(), &mut Silent)?;
        let ratio = |(transfer, end): (&Transfer, &Time)| {
            (last.0.saturating_sub(transfer.latency.0)) as f64 / end.0 as f64
        };
        let stretch = self.transfers.iter().zip(&alone).map(ratio).fold(f64::INFINITY, f64::min);
        Ok(Found { time: last.since(Time::ZERO), stretch, packet_hops })
    }

    /// When each transfer ends, all begun at 0, and the packet-hops of all.
    fn play(
        &self,
        mut links: Links,
        observer: &mut dyn Observer,
    ) -> Result<(Vec<Time>, u64), ExecuteError> {
        for &link in &self.links {
            links.add(link);
        }
        links.seal()?;
        for (number, (path, transfer)) in self.each().enumerate() {
            let flow =
                Flow { bytes: transfer.bytes, stretch: 1.0, priority: 0, token: number as u64 };
            links.start(Time::ZERO, flow, &path);
        }
        let mut ends = vec![Time::ZERO; self.transfers.len()];
        let mut done = Vec::new();
        while let Some(time) = links.run_until(None, &mut done, observer)? {
            for number in done.drain(..) {
                ends[number as usize] = time;
            }
        }
        Ok((ends, links.packet_hops(observer)?.all))
    }
}
