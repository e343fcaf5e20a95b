//! Two halves of a network that two threads simulate apart.
//!
//! Switches are divided, and a NIC is in the half of its switch, so that only links between
//! switches cross. What one half does reaches the other no sooner than the shortest delay of these
//! links: for so long neither needs to know of the other.

use crate::topology::{NicId, NodeId, PacketLinkId, Topology};
use lightloom_model::Duration;

/// One of the two halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    First,
    Second,
}

impl Half {
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// How evenly the work of a run was divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    /// Windows in which the halves ran side by side.
    pub windows: u64,
    /// Events of the half that had more, summed over windows: no run takes less time than these.
    pub critical_events: u64,
}

/// Which half the ends of links are in.
#[derive(Debug, Clone)]
pub(crate) struct Halves {
    /// Per link the half of its sending end.
    senders: Vec<Half>,
    /// The shortest delay of a link that crosses.
    pub(crate) lookahead: Duration,
}

impl Halves {
    /// Divides a network; says why not if it cannot be divided.
    pub(crate) fn of(topology: &Topology) -> Result<Self, &'static str> {
        let half = divide(topology)?;
        let links = topology.links();
        let sender = |spec: &crate::topology::LinkSpec| {
            let end = if topology.is_host(spec.from) { spec.to } else { spec.from };
            half[end.index()].ok_or("a switch is joined to no host")
        };
        let senders = links.iter().map(sender).collect::<Result<Vec<Half>, _>>()?;
        let halves = Self { senders, lookahead: Duration::ZERO };
        let crossing = topology.link_ids().filter(|&link| halves.crosses(link));
        let delays = crossing.map(|link| links[link.index()].delay);
        let lookahead = delays.min().ok_or("all hosts are on one switch")?;
        if lookahead == Duration::ZERO {
            return Err("links between its halves have no delay");
        }
        Ok(Self { lookahead, ..halves })
    }

    /// The half of the sending end of a link.
    #[inline]
    pub(crate) fn sender(&self, link: PacketLinkId) -> Half {
        self.senders[link.index()]
    }

    /// The half of its receiving end.
    #[inline]
    pub(crate) fn receiver(&self, link: PacketLinkId) -> Half {
        self.sender(link.reverse())
    }

    /// Whether its ends are in different halves.
    pub(crate) fn crosses(&self, link: PacketLinkId) -> bool {
        self.sender(link) != self.receiver(link)
    }

    /// The half of a NIC.
    pub(crate) fn nic(&self, topology: &Topology, nic: NicId) -> Half {
        self.sender(topology.uplink(nic))
    }
}

/// Per switch its half: those with hosts in order, half of the NICs each; others join most of their
/// neighbors, or in turn either half if they have as many in both.
fn divide(topology: &Topology) -> Result<Vec<Option<Half>>, &'static str> {
    let mut half: Vec<Option<Half>> = vec![None; topology.node_count()];
    let mut nics = vec![0_usize; topology.node_count()];
    for nic in (0..topology.nic_count() as u32).map(NicId) {
        let at = topology.links()[topology.uplink(nic).index()].to;
        if topology.is_host(at) {
            return Err("hosts are joined to one another");
        }
        nics[at.index()] += 1;
    }
    let mut before = 0;
    for (node, &count) in nics.iter().enumerate().filter(|(_, count)| **count > 0) {
        let is_first = 2 * before + count <= topology.nic_count();
        half[node] = Some(if is_first { Half::First } else { Half::Second });
        before += count;
    }
    let out = topology.links_out();
    let switches = || (0..topology.node_count()).filter(|&it| !topology.is_host(NodeId(it as u32)));
    let mut is_first = true;
    loop {
        let mut joined = Vec::new();
        for node in switches().filter(|&node| half[node].is_none()) {
            let neighbors = out[node].iter().map(|link| topology.links()[link.index()].to);
            let halves: Vec<Half> = neighbors.filter_map(|to| half[to.index()]).collect();
            let first = halves.iter().filter(|&&it| it == Half::First).count();
            if halves.is_empty() {
                continue;
            }
            if 2 * first == halves.len() {
                is_first = !is_first;
            }
            let joins_first = 2 * first > halves.len() || 2 * first == halves.len() && is_first;
            joined.push((node, if joins_first { Half::First } else { Half::Second }));
        }
        if joined.is_empty() {
            return Ok(half);
        }
        for (node, its) in joined {
            half[node] = Some(its);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::{fat_tree, leaf_spine, star};
    use crate::topology::Cable;
    use lightloom_model::Rate;

    const DELAY: Duration = Duration(700);

    fn count(halves: &Halves, topology: &Topology, of: impl Fn(PacketLinkId) -> bool) -> usize {
        topology.link_ids().filter(|&link| halves.sender(link) == Half::First && of(link)).count()
    }

    #[test]
    fn halves_of_a_fat_tree_have_as_many_hosts_and_cores() {
        let topology = fat_tree(128, 8, Rate(1), DELAY).unwrap();
        let halves = Halves::of(&topology).unwrap();
        assert_eq!(halves.lookahead, DELAY);
        let nic = |nic| halves.nic(&topology, NicId(nic)).index();
        let nics: Vec<usize> = (0..128).map(nic).collect();
        assert_eq!(nics, [[0; 64], [1; 64]].concat());
        assert_eq!(count(&halves, &topology, |_| true), topology.links().len() / 2);
        // Links between pods and cores, half of them.
        let crossing = count(&halves, &topology, |link| halves.crosses(link));
        assert_eq!(crossing, 128 / 2);
    }

    #[test]
    fn links_of_hosts_never_cross() {
        let topology = leaf_spine(10, 3, 3, Rate(1), Rate(1), DELAY).unwrap();
        let halves = Halves::of(&topology).unwrap();
        for link in topology.link_ids() {
            let spec = topology.links()[link.index()];
            let is_of_host = topology.is_host(spec.from) || topology.is_host(spec.to);
            assert!(!(is_of_host && halves.crosses(link)));
            assert_eq!(halves.receiver(link), halves.sender(link.reverse()));
        }
    }

    #[test]
    fn what_cannot_be_divided_says_why() {
        let why = |topology: &Topology| Halves::of(topology).unwrap_err();
        assert_eq!(why(&star(4, Rate(1), DELAY).unwrap()), "all hosts are on one switch");
        let near = leaf_spine(8, 4, 1, Rate(1), Rate(1), Duration::ZERO).unwrap();
        assert_eq!(why(&near), "links between its halves have no delay");
        let mut pair = Topology::new();
        let hosts = [pair.add_host(), pair.add_host()];
        let cable = Cable { rate: Rate(1), delay: DELAY };
        pair.connect(hosts[0], hosts[1], cable, ["there", "back"]).unwrap();
        assert_eq!(why(&pair), "hosts are joined to one another");
    }
}
