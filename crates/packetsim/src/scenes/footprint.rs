//! What flows have in common: classes of links, such that two flows without a class in common can
//! never meet in a queue, wherever switches send their packets.

use crate::flow::FlowSpec;
use crate::network::core::Core;
use crate::topology::{NicId, NodeId, PacketLinkId};
use rustc_hash::{FxHashMap, FxHashSet};

/// Classes of links, and those that flows use.
#[derive(Debug)]
pub(super) struct Footprints {
    /// The class of each link: that of its reverse, as acknowledgements go there, and of all links
    /// among which a switch may choose in its place.
    classes: Vec<u32>,
    /// Classes between two switches with NICs.
    between: FxHashMap<(NodeId, NodeId), Vec<u32>>,
}

impl Footprints {
    pub(super) fn new(core: &Core) -> Self {
        let mut classes: Vec<u32> = (0..core.topology().links().len() as u32).collect();
        for link in core.topology().link_ids() {
            unite(&mut classes, link, link.reverse());
        }
        for choice in core.routing().choices() {
            for pair in choice.windows(2) {
                unite(&mut classes, pair[0], pair[1]);
            }
        }
        for link in 0..classes.len() as u32 {
            classes[link as usize] = root(&mut classes, link);
        }
        Self { classes, between: FxHashMap::default() }
    }

    pub(super) fn class(&self, link: PacketLinkId) -> u32 {
        self.classes[link.index()]
    }

    pub(super) fn count(&self) -> usize {
        self.classes.len()
    }

    /// The classes of the links that packets of a flow may cross, each once.
    pub(super) fn of(&mut self, core: &Core, flow: &FlowSpec) -> Vec<u32> {
        let mut classes: Vec<u32> = if let Some(route) = &flow.route {
            route.iter().map(|&link| self.class(link)).collect()
        } else {
            let ends = [flow.source, flow.destination];
            let ends = ends.map(|nic| self.class(core.topology().uplink(nic)));
            ends.into_iter().chain(self.between(core, flow).iter().copied()).collect()
        };
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    fn between(&mut self, core: &Core, flow: &FlowSpec) -> &[u32] {
        let links = core.topology().links();
        let attached = |nic: NicId| links[core.topology().uplink(nic).index()].to;
        let [from, to] = [flow.source, flow.destination].map(attached);
        self.between.entry((from, to)).or_insert_with(|| {
            let mut found = FxHashSet::default();
            for (start, nic) in [(from, flow.destination), (to, flow.source)] {
                let (mut nodes, mut seen) = (vec![start], FxHashSet::default());
                while let Some(node) = nodes.pop() {
                    if node == attached(nic) || !seen.insert(node) {
                        continue;
                    }
                    let several = core.routing().several(node, nic);
                    let only = core.routing().next(node, nic, 0);
                    let only = only.filter(|_| several.is_empty());
                    for &link in several.iter().chain(&only) {
                        found.insert(self.classes[link.index()]);
                        nodes.push(links[link.index()].to);
                    }
                }
            }
            found.into_iter().collect()
        })
    }
}

fn root(classes: &mut [u32], mut link: u32) -> u32 {
    while classes[link as usize] != link {
        let next = classes[classes[link as usize] as usize];
        classes[link as usize] = next;
        link = next;
    }
    link
}

fn unite(classes: &mut [u32], a: PacketLinkId, b: PacketLinkId) {
    let (a, b) = (root(classes, a.0), root(classes, b.0));
    classes[a.max(b) as usize] = a.min(b);
}
