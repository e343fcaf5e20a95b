//! Which transfers go on as one: those that begin at one instant, while servers are told apart by
//! classes alone.
//!
//! What begins at an instant is gathered until all of it has begun. If nothing else is under way,
//! it says which servers are alike, and if that makes transfers few, those of each pair of classes
//! are one piece over links that stand for the NICs of a class. What begins later and respects the
//! classes joins them; what does not has all transfers go on by themselves until the network is
//! idle again.

use super::RackLinks;
use super::alike::{Bundle, Start, bundled, refined};
use super::bundles::Bundles;
use super::pieces::{Member, Transfers};
use super::routes::Route;
use crate::network::{End, Link, Links, Pair};
use lightloom_flowsim::LinkId;
use lightloom_model::Time;
use lightloom_packetsim::Cable;

impl RackLinks {
    /// Begins what was gathered.
    pub(super) fn begin_gathered(&mut self, now: Time, links: &mut Links) {
        let starts = std::mem::take(&mut self.bundles.starts);
        self.bundles.crosses = false;
        let is_idle = self.pieces.is_empty() && !links.is_busy();
        if is_idle {
            self.bundles.account(links);
            self.bundles.classes.clear();
        }
        if let Some(bundles) = self.bundles_of(&starts, is_idle, links) {
            drop(starts);
            for bundle in bundles {
                self.begin_bundle(bundle, now, links);
            }
            return;
        }
        if !self.bundles.classes.is_empty() {
            self.pieces.part([&self.up, &self.down], now, links);
            self.bundles.account(links);
            self.bundles.classes.clear();
        }
        for start in starts {
            self.begin_alone(start, now, links);
        }
    }

    /// What begins, in bundles, if servers are alike; from idleness on that is found anew.
    fn bundles_of(
        &mut self,
        starts: &[Start],
        is_idle: bool,
        links: &mut Links,
    ) -> Option<Vec<Bundle>> {
        #[cfg(test)]
        if self.bundles.is_off {
            return None;
        }
        if !links.are_fluid() {
            return None;
        }
        if !is_idle {
            if self.bundles.classes.is_empty() {
                return None;
            }
            let same = refined(&self.bundles.classes, starts)? == self.bundles.classes;
            return same.then(|| bundled(&self.bundles.classes, starts));
        }
        let servers = 0..self.up.len() as u32;
        let racks: Vec<u32> = servers.map(|server| self.rack(server)).collect();
        let classes = refined(&racks, starts)?;
        let bundles = bundled(&classes, starts);
        if 2 * bundles.len() > starts.len() {
            return None;
        }
        self.set_classes(classes, links);
        Some(bundles)
    }

    /// Has servers be told apart by classes alone, and gives these links.
    fn set_classes(&mut self, classes: Vec<u32>, links: &mut Links) {
        let count = classes.iter().max().map_or(0, |&last| last + 1);
        let mut sizes = vec![0; count as usize];
        for &class in &classes {
            sizes[class as usize] += 1;
        }
        let each = Cable { rate: self.config.nic_rate, delay: self.config.link_delay };
        let most = self.config.nics * self.config.servers_per_rack;
        let Bundles { links: own, seen, .. } = &mut self.bundles;
        for side in [0, 1] {
            while own[side].len() < sizes.len() {
                let link = Link::new(End::Switches, End::Switches, most, each);
                own[side].push(links.add_lit(link, 0));
                seen[side].push(0);
            }
        }
        (self.bundles.classes, self.bundles.sizes) = (classes, sizes);
    }

    fn begin_bundle(&mut self, bundle: Bundle, now: Time, links: &mut Links) {
        let Bundle { from, to, priority, bytes, members } = bundle;
        let ends = [(0, from), (1, to)].map(|(side, class)| {
            let link = self.bundles.links[side][class as usize];
            let nics = self.bundles.sizes[class as usize] * self.config.nics;
            if links.link(link).1 != nics {
                links.set_lit(now, link, nics);
            }
            link
        });
        self.begin(Transfers { members, priority, bytes }, ends, now, links);
    }

    fn begin_alone(&mut self, start: Start, now: Time, links: &mut Links) {
        let Start { member, priority, bytes } = start;
        let ends = [self.up[member.from as usize], self.down[member.to as usize]];
        self.begin(Transfers { members: vec![member], priority, bytes }, ends, now, links);
    }

    /// Begins transfers between these links of their servers.
    fn begin(&mut self, transfers: Transfers, ends: [LinkId; 2], now: Time, links: &mut Links) {
        let Member { from, to, .. } = transfers.members[0];
        let racks = Pair::new(self.rack(from), self.rack(to));
        let roams = transfers.bytes < self.config.min_bytes;
        let piece = self.pieces.add(transfers, roams, racks, ends, now);
        if racks.from == racks.to {
            self.pieces.take_route(piece, Route::default(), now, links);
        } else if let Some(route) = self.route(racks, self.way(piece)) {
            self.take_route(piece, route, now, links);
        }
    }
}
