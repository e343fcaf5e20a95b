//! Flows: what the network knows of them; what a transport knows is its own.

use crate::routing::mix;
use crate::topology::{LinkId, NicId};
use lightloom_model::{Bytes, Time};

/// A flow, numbered in the order in which they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// A flow to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSpec {
    /// Where it begins.
    pub source: NicId,
    /// Where it ends.
    pub destination: NicId,
    /// Payload.
    pub size: Bytes,
    /// When.
    pub start: Time,
    /// The links that it takes, instead of shortest paths by hash; acknowledgements go back the
    /// same way.
    pub route: Option<Vec<LinkId>>,
}

/// What every packet of a flow asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    pub(crate) ends: [u32; 2],
    /// Seeds the choice among equal paths.
    pub(crate) hash: u32,
    /// Number of an explicit route, or `NO_ROUTE`.
    pub(crate) route: u32,
}

impl Way {
    /// What chooses among equal paths.
    #[inline]
    pub(crate) fn entropy(self, path: u16, is_forward: bool) -> u64 {
        mix(u64::from(self.hash) << 17 ^ u64::from(path) << 1 ^ u64::from(is_forward))
    }
}

pub(crate) const NO_ROUTE: u32 = u32::MAX;

/// Progress of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// Payload in bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u32,
    /// Packets that the receiver has, each counted once.
    pub received: u32,
    /// When it started, in ps.
    pub start: u64,
    /// When the receiver had everything, in ps; `u64::MAX` until then.
    pub received_at: u64,
    /// When the sender knew that, in ps; `u64::MAX` until then.
    pub done_at: u64,
}

/// All flows, by what is looked at together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flows {
    pub(crate) ways: Vec<Way>,
    pub(crate) state: Vec<Flow>,
    routes: Vec<(u32, u32)>,
    route_links: Vec<u32>,
    pub(crate) done: usize,
}

impl Flows {
    pub(crate) fn add(&mut self, spec: &FlowSpec, mtu: u32, hash: u32) -> u32 {
        let route = spec.route.as_ref().map_or(NO_ROUTE, |links| {
            self.routes.push((self.route_links.len() as u32, links.len() as u32));
            self.route_links.extend(links.iter().map(|link| link.0));
            self.routes.len() as u32 - 1
        });
        self.ways.push(Way { ends: [spec.source.0, spec.destination.0], hash, route });
        self.state.push(Flow {
            bytes: spec.size.0,
            packets: spec.size.0.div_ceil(u64::from(mtu)).max(1) as u32,
            received: 0,
            start: spec.start.0,
            received_at: u64::MAX,
            done_at: u64::MAX,
        });
        self.ways.len() as u32 - 1
    }

    /// The link that follows after `behind` of an explicit route; `None` at its end.
    pub(crate) fn route_link(&self, route: u32, is_forward: bool, behind: u16) -> Option<u32> {
        let (start, length) = self.routes[route as usize];
        let behind = u32::from(behind);
        if behind >= length {
            return None;
        }
        let place = if is_forward { behind } else { length - 1 - behind };
        Some(self.route_links[(start + place) as usize] ^ u32::from(!is_forward))
    }
}
