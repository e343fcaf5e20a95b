//! The paths of a collective, and what of its bytes each of them carries.
//!
//! A part of the network resolves a path once, when a collective is lowered; from then on a
//! transfer carries its index.

use lightloom_flowsim::LinkId;
use lightloom_model::Duration;

/// A part of a network, in the order of [`crate::network::Network::parts`]; what stays inside
/// servers is of none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(u16);

impl PartId {
    /// The inside of servers: both ends are on one server.
    pub const INSIDE: Self = Self(0);

    /// The part at this place among the parts of a network.
    pub fn at(place: usize) -> Self {
        Self(u16::try_from(place + 1).expect("a network has a few parts"))
    }

    /// Its place after that of what stays inside servers, which is 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A path of a collective: an index into its [`Paths`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathId(u32);

/// What a path is, in addition to its links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The part of the network over which bytes leave their source.
    pub part: PartId,
    /// From the end of a transfer to the arrival of its last byte: propagation and forwarding.
    pub latency: Duration,
    /// Servers that pass the bytes on.
    pub relays: u32,
    /// NICs over which bytes leave the source, each of a GPU of its own.
    pub sending_nics: u32,
    /// NICs over which they reach the destination.
    pub receiving_nics: u32,
    /// GPUs that pass the bytes on inside the source, to others of it on the rail of their
    /// destination; 0 where they leave over the rail that they are on.
    pub forwarding_gpus: u32,
}

/// Paths and their links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    links: Vec<LinkId>,
    /// Each path and its range of links.
    paths: Vec<(Path, [u32; 2])>,
}

impl Paths {
    /// Forgets all paths and keeps the memory.
    pub fn clear(&mut self) {
        self.links.clear();
        self.paths.clear();
    }

    /// Adds a path over these links.
    #[inline]
    pub fn add(&mut self, path: Path, links: &[LinkId]) -> PathId {
        let begin = self.links.len() as u32;
        self.links.extend_from_slice(links);
        self.paths.push((path, [begin, self.links.len() as u32]));
        PathId(self.paths.len() as u32 - 1)
    }

    /// A path.
    #[inline]
    pub fn path(&self, id: PathId) -> &Path {
        &self.paths[id.0 as usize].0
    }

    /// The links of a path, in order; none inside a server.
    #[inline]
    pub fn links(&self, id: PathId) -> &[LinkId] {
        let [begin, end] = self.paths[id.0 as usize].1;
        &self.links[begin as usize..end as usize]
    }
}

/// Bytes that take one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// Path.
    pub path: PathId,
    /// Size.
    pub bytes: u64,
}

/// The paths of a transfer, and how its bytes are divided among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Division {
    /// Paths.
    pub paths: Paths,
    /// What each of them carries, some of them perhaps nothing.
    pub shares: Vec<Share>,
}

impl Division {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.paths.clear();
        self.shares.clear();
    }

    /// Adds a path and what it carries.
    #[inline]
    pub fn push(&mut self, path: Path, links: &[LinkId], bytes: u64) {
        let path = self.paths.add(path, links);
        self.shares.push(Share { path, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(relays: u32) -> Path {
        let latency = Duration(u64::from(relays));
        Path {
            part: PartId::at(0),
            latency,
            relays,
            sending_nics: 1,
            receiving_nics: 1,
            forwarding_gpus: 0,
        }
    }

    #[test]
    fn every_path_has_its_own_links() {
        let mut paths = Paths::default();
        let lists: [&[LinkId]; 4] = [&[LinkId(3)], &[], &[LinkId(1), LinkId(2)], &[LinkId(3)]];
        let ids: Vec<PathId> =
            (0..).zip(lists).map(|(relays, links)| paths.add(path(relays), links)).collect();
        for (relays, (id, links)) in (0..).zip(ids.into_iter().zip(lists)) {
            assert_eq!((paths.links(id), paths.path(id)), (links, &path(relays)));
        }
        paths.clear();
        let id = paths.add(path(9), &[LinkId(7)]);
        assert_eq!(paths.links(id), &[LinkId(7)]);
    }

    #[test]
    fn indices_begin_with_what_stays_inside() {
        let indices = [PartId::INSIDE, PartId::at(0), PartId::at(2)].map(PartId::index);
        assert_eq!(indices, [0, 1, 3]);
    }
}
