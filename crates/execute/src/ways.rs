//! How an all-reduce goes that several GPUs of each of several servers take part in.
//!
//! Around a ring, or a tree of the same bytes, which is told apart when the bytes are over; along
//! a tree of two servers, which send each other their sums once, half of what a ring between them
//! carries; or added up by the switches inside servers, and along a tree between these (the NVLS
//! tree of NCCL 2.30, `src/graph/tuning.cc`). The way is taken that would end first if nothing
//! else were under way: NCCL knows no more when it begins. Rings of the other workers of a server
//! are of the same all-reduce, and are counted where they share its NICs.

use crate::collective::Circulation;
use crate::fabric::Fabric;
use crate::links::End;
use crate::network::{Division, Pair, PartId, Placement, RingOrder};
use lightloom_model::{
    Bytes, Collective, CollectiveKind, Duration, GroupFamily, GroupId, Payload, TaskGraph, WorkerId,
};

/// Share of a ring's bandwidth that a tree has, in hundredths.
const TREE: u64 = 92;

/// How the bytes of a ring collective go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Way {
    /// Around its members and their GPUs.
    #[default]
    Ring,
    /// Along the GPUs of two servers, which send each other their sums once.
    Pair,
    /// Added up by switches inside, and along a tree between servers.
    Sums,
}

/// What decides about ways.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    /// The step.
    pub graph: &'a TaskGraph,
    /// Where its workers are.
    pub placement: &'a Placement,
    /// What carries their bytes.
    pub fabric: &'a Fabric,
}

/// A group of members, of whom some may be absent.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    members: &'a [WorkerId],
    all: u64,
}

impl<'a> Group<'a> {
    pub(crate) fn new(family: &'a GroupFamily, group: GroupId) -> Self {
        let members = family.members(group);
        Self { members, all: members.len() as u64 * (1 + u64::from(family.absent)) }
    }
}

/// Twice as many steps as a tree of so many members is deep.
pub(crate) fn tree_steps(members: u64) -> u64 {
    2 * u64::from(members.max(1).ilog2())
}

/// What a tree adds to bytes that took so long at a ring's bandwidth.
pub(crate) fn tree_excess(bytes: Duration) -> Duration {
    Duration(bytes.0 / TREE * (100 - TREE))
}

impl Way {
    /// What crosses each edge of a group, of what would go around it. Of two servers each sends its
    /// sum once; of more, the one that has two below it sends as much as a ring.
    pub(crate) fn circulation(
        self,
        collective: &Collective,
        family: &GroupFamily,
        group: GroupId,
    ) -> Circulation {
        let around = Circulation::new(collective, family, group);
        match collective.payload {
            Payload::Bytes(bytes) if self != Self::Ring && Group::new(family, group).all == 2 => {
                Circulation { edge_bytes: bytes, ..around }
            }
            _ => around,
        }
    }
}

impl Setting<'_> {
    /// The way of a collective of a group.
    pub(crate) fn way(self, collective: &Collective, family: &GroupFamily, group: GroupId) -> Way {
        let whole = Group::new(family, group);
        let is_reduced = collective.kind == CollectiveKind::AllReduce;
        let peers = collective.inside.peers;
        if !is_reduced || peers == 0 || whole.members.len() < 2 || !self.fabric.joins_all() {
            return Way::Ring;
        }
        let ways = [
            Some(Way::Ring),
            (whole.all == 2).then_some(Way::Pair),
            self.fabric.nvswitch().reduce.map(|_| Way::Sums),
        ];
        let end = |way: &Way| {
            let edge_bytes = way.circulation(collective, family, group).edge_bytes;
            self.end(*way, collective, whole, edge_bytes)
        };
        ways.into_iter().flatten().min_by_key(end).unwrap_or_default()
    }

    /// When it would end that way if nothing else were under way.
    fn end(self, way: Way, collective: &Collective, group: Group<'_>, edge_bytes: u64) -> Duration {
        let ranks = collective.inside.peers.saturating_add(1);
        let (crossing, step) = self.crossing(group.members, edge_bytes, ranks);
        let part = |&member| self.inside(way, collective, group, member);
        let parts = group.members.iter().map(part);
        let (inside, begun) = parts.fold(Default::default(), |(whole, begun), (time, start)| {
            (Duration::max(whole, time), Duration::max(begun, start))
        });
        let bytes = crossing.max(Duration(inside.0.saturating_sub(begun.0)));
        let hops = self.fabric.nvswitch().gather.hops(u64::from(collective.inside.peers));
        let steps = |count: u64| Duration(step.0.saturating_mul(count));
        let tree = steps(tree_steps(group.all)) + hops + tree_excess(bytes);
        let rest = match way {
            Way::Ring => {
                let around = 2 * (group.all - 1);
                tree.min(Duration((step + hops).0.saturating_mul(around)))
            }
            Way::Pair => tree,
            Way::Sums => steps(tree_steps(group.all)),
        };
        begun + bytes + rest
    }

    /// What the part inside one of the members takes, and what of that comes before its bytes.
    pub(crate) fn inside(
        self,
        way: Way,
        collective: &Collective,
        group: Group<'_>,
        member: WorkerId,
    ) -> (Duration, Duration) {
        let (inside, peers) = (self.fabric.nvswitch(), collective.inside.peers);
        let around = self.graph.amount(collective.inside.per_gpu, member);
        if let (Way::Sums, Some(sums)) = (way, inside.reduce) {
            // around a ring of all GPUs, of which one in `gpus` sends to another server
            let (gpus, all) = (u128::from(peers) + 1, u128::from(group.all));
            let ranks = gpus * all;
            let buffer = u128::from(around) * gpus * ranks / (2 * (gpus - 1) * (ranks - 1));
            let servers = u32::try_from(all).unwrap_or(u32::MAX);
            let buffer = u64::try_from(buffer).unwrap_or(u64::MAX);
            let whole = sums.time(buffer, peers + 1, servers);
            return (whole, sums.latency.min(whole));
        }
        let is_whole = group.members.len() == 1;
        let adds_up = is_whole && collective.kind == CollectiveKind::AllReduce;
        let whole = inside.collective(around, peers, adds_up);
        (whole, inside.gather.start_up(peers).min(whole))
    }

    /// How long bytes take from the first member to the second, of which each of a server's rings
    /// sends as many over what it shares with the others; and what a step takes. An all-reduce has
    /// `ranks` GPUs of a server, on at most as many workers.
    fn crossing(self, members: &[WorkerId], bytes: u64, ranks: u32) -> (Duration, Duration) {
        let rings = |workers: u32| u64::from(workers.min(ranks));
        let of_nics = rings(self.placement.workers_per_group());
        let of_server = rings(self.placement.workers_per_server());
        let orders = self.fabric.ring_orders(self.placement, members, bytes);
        let Some(order) = orders.first() else { return Default::default() };
        let RingOrder { order: places, .. } = order;
        let ends = Pair::new(members[places[0] as usize], members[places[1] as usize]);
        let mut division = Division::default();
        self.fabric.divide_edge(self.placement, ends, order, &mut division);
        let Division { paths, shares } = &division;
        let (mut longest, mut step) = (Duration::ZERO, Duration::ZERO);
        for share in shares {
            let path = paths.path(share.path);
            if path.part == PartId::INSIDE {
                continue;
            }
            step = step.max(path.latency + self.fabric.message_start_up(path));
            for &link in paths.links(share.path) {
                let (link, _) = self.fabric.links.link(link);
                let is_of_nics =
                    [link.from, link.to].iter().any(|end| matches!(end, End::Nics { .. }));
                let rings = if is_of_nics { of_nics } else { of_server };
                let bytes = Bytes(share.bytes.saturating_mul(rings));
                longest = longest.max(link.rate_of(link.members).transmission(bytes));
            }
        }
        (longest, step)
    }
}
