//! Transfers between racks, in pieces that can be withdrawn, cut and sent elsewhere; several that
//! are alike are one.

use super::routes::Route;
use crate::network::{CONDUCTED, Flow, Launch, Links, Pair};
use crate::slab::Slab;
use lightloom_flowsim::LinkId;
use lightloom_model::Time;
use rustc_hash::FxHashMap;

/// Where a piece is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Stage {
    /// At its source, for its destination.
    #[default]
    Whole,
    /// At its source, for a rack that stores it.
    FirstHop { relay: u32 },
    /// At the rack that has stored it.
    SecondHop { relay: u32 },
}

/// A transfer of the run, and its servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub token: u64,
    pub from: u32,
    pub to: u32,
}

/// Transfers that are alike, or one alone.
#[derive(Debug, Clone)]
pub(super) struct Transfers {
    pub members: Vec<Member>,
    pub priority: u8,
    /// Of each.
    pub bytes: u64,
}

/// A part of a transfer, or the same of all that are alike; bytes are those of each.
#[derive(Debug, Clone)]
struct Piece {
    transfer: u32,
    /// How many transfers are alike.
    count: u32,
    stage: Stage,
    /// Whether it takes what is lit instead of waiting for a circuit of its pair.
    roams: bool,
    /// Racks of the source and of the destination.
    racks: Pair<u32>,
    /// The links of its servers, or of their classes.
    ends: [LinkId; 2],
    /// Its present path, if it has one.
    route: Option<Route>,
    flow: Option<Launch>,
    /// Bytes with which it took its path, and those left when it was last looked at.
    started: u64,
    left: u64,
    /// When it took its path.
    since: u64,
    /// When it was last looked at.
    settled: u64,
    /// Its place in `active`.
    place: usize,
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            transfer: 0,
            count: 1,
            stage: Stage::default(),
            roams: false,
            racks: Pair::new(0, 0),
            ends: [LinkId::default(); 2],
            route: None,
            flow: None,
            started: 0,
            left: 0,
            since: 0,
            settled: 0,
            place: 0,
        }
    }
}

/// A transfer, or several that are alike.
#[derive(Debug, Clone, Default)]
struct Transfer {
    members: Vec<Member>,
    priority: u8,
    /// Pieces that have not arrived.
    pieces: u32,
}

/// A piece that waits at its source, what it has left, and of how many transfers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub piece: u32,
    pub left: u64,
    pub count: u32,
}

/// All transfers that are on their way.
#[derive(Debug)]
pub(super) struct Pieces {
    racks: u32,
    transfers: Slab<Transfer>,
    slots: Slab<Piece>,
    active: Vec<u32>,
    /// How many of them are between two racks.
    crossing: usize,
    #[cfg(test)]
    opened: u64,
    /// Bytes that each rack has sent to each other one since `measure` was last called.
    sent: Vec<u64>,
    /// By rack, the links into and out of what it stores, if those are links.
    stores: Vec<[LinkId; 2]>,
}

impl Pieces {
    pub(super) fn new(racks: u32, stores: Vec<[LinkId; 2]>) -> Self {
        Self {
            racks,
            stores,
            transfers: Slab::default(),
            slots: Slab::default(),
            active: Vec::new(),
            crossing: 0,
            #[cfg(test)]
            opened: 0,
            sent: vec![0; (racks * racks) as usize],
        }
    }

    /// Pairs of racks.
    pub(super) fn pairs(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.active.is_empty()
    }

    /// Whether none is between two racks.
    pub(super) fn stay_inside(&self) -> bool {
        self.crossing == 0
    }

    /// Those on their way, in an order that depends on nothing but what has happened.
    pub(super) fn active(&self) -> Vec<u32> {
        self.active.clone()
    }

    /// The piece of a token, if it is one of a piece.
    pub(super) fn of_token(token: u64) -> Option<u32> {
        (token >= CONDUCTED).then_some(token as u32)
    }

    /// Transfers come that are alike: one piece, without a path.
    pub(super) fn add(
        &mut self,
        transfers: Transfers,
        roams: bool,
        racks: Pair<u32>,
        ends: [LinkId; 2],
        now: Time,
    ) -> u32 {
        let transfer = self.transfers.take();
        let Transfers { members, priority, bytes } = transfers;
        let count = members.len() as u32;
        self.transfers[transfer] = Transfer { members, priority, pieces: 0 };
        let (since, settled) = (now.0, now.0);
        let (stage, left) = (Stage::Whole, bytes);
        let piece = Piece { count, stage, roams, racks, ends, ..Piece::default() };
        self.open(Piece { transfer, left, since, settled, ..piece })
    }

    fn open(&mut self, piece: Piece) -> u32 {
        let number = self.slots.take();
        self.transfers[piece.transfer].pieces += 1;
        self.crossing += usize::from(piece.racks.from != piece.racks.to);
        self.slots[number] = Piece { place: self.active.len(), ..piece };
        self.active.push(number);
        #[cfg(test)]
        {
            self.opened += 1;
        }
        number
    }

    fn close(&mut self, number: u32) {
        let Piece { place, racks, .. } = self.slots[number];
        self.crossing -= usize::from(racks.from != racks.to);
        self.active.swap_remove(place);
        if let Some(&moved) = self.active.get(place) {
            self.slots[moved].place = place;
        }
        self.slots.free(number);
    }

    /// From which rack to which a piece is to be brought.
    pub(super) fn ends(&self, piece: u32) -> Pair<u32> {
        let Piece { stage, racks, .. } = self.slots[piece];
        match stage {
            Stage::Whole | Stage::FirstHop { .. } => racks,
            Stage::SecondHop { relay } => Pair::new(relay, racks.to),
        }
    }

    pub(super) fn route(&self, piece: u32) -> Option<&Route> {
        self.slots[piece].route.as_ref()
    }

    /// Whether a piece takes what is lit.
    pub(super) fn roams(&self, piece: u32) -> bool {
        self.slots[piece].roams
    }

    /// When a piece took its path.
    pub(super) fn since(&self, piece: u32) -> u64 {
        self.slots[piece].since
    }

    /// Starts a piece, which is on no path, over one.
    pub(super) fn take_route(&mut self, number: u32, route: Route, now: Time, links: &mut Links) {
        let Piece { transfer, count, stage, left: bytes, ends: [up, down], .. } =
            self.slots[number];
        let store = |rack: u32, way: usize| Some(self.stores.get(rack as usize)?[way]);
        let (first, last) = match stage {
            Stage::Whole => (Some(up), Some(down)),
            Stage::FirstHop { relay } => (Some(up), store(relay, 0)),
            Stage::SecondHop { relay } => (store(relay, 1), Some(down)),
        };
        let path: Vec<LinkId> =
            first.into_iter().chain(route.links.iter().copied()).chain(last).collect();
        let priority = self.transfers[transfer].priority;
        let token = CONDUCTED | u64::from(number);
        let flow = Flow { bytes, stretch: 1.0, priority, token };
        let piece = &mut self.slots[number];
        piece.flow = Some(links.launch(now, flow, count, &path));
        piece.route = Some(route);
        (piece.started, piece.since, piece.settled) = (bytes, now.0, now.0);
    }

    /// Counts what a piece has sent until now; false if it has ended, which is yet to be told.
    fn settle(&mut self, number: u32, now: Time, links: &mut Links) -> bool {
        let Some(flow) = self.slots[number].flow else { return true };
        let left = links.left(now, flow, CONDUCTED | u64::from(number));
        self.slots[number].settled = now.0;
        self.count(number, left.unwrap_or(0));
        left.is_some()
    }

    /// Counts what a piece has sent, given what it has left.
    fn count(&mut self, number: u32, left: u64) {
        let Pair { from, to } = self.ends(number);
        let piece = &mut self.slots[number];
        // Bits are rounded up to bytes: one may seem to come back.
        let sent = piece.left.saturating_sub(left);
        piece.left = left;
        if from != to {
            self.sent[(from * self.racks + to) as usize] += sent * u64::from(piece.count);
        }
    }

    /// Takes a piece off its path; false if it has ended, which is yet to be told.
    pub(super) fn withdraw(&mut self, number: u32, now: Time, links: &mut Links) -> bool {
        let Some(flow) = self.slots[number].flow else { return true };
        let Some(left) = links.withdraw(now, flow, CONDUCTED | u64::from(number)) else {
            return false;
        };
        self.count(number, left);
        let piece = &mut self.slots[number];
        (piece.flow, piece.route, piece.settled) = (None, None, now.0);
        true
    }

    /// Pieces at their source that wait for a circuit to their destination. Those on a circuit that
    /// `has_moved` denies to have been lit since a time have what they had then.
    pub(super) fn direct(
        &mut self,
        has_moved: impl Fn(u32, u64) -> bool,
        now: Time,
        links: &mut Links,
    ) -> Vec<Waiting> {
        let mut direct = Vec::new();
        for number in self.active() {
            let Piece { stage, roams, racks, settled, ref route, .. } = self.slots[number];
            if stage != Stage::Whole || roams || racks.from == racks.to {
                continue;
            }
            let circuits = route.iter().flat_map(|route| &route.circuits);
            let is_still = !circuits.clone().any(|&circuit| has_moved(circuit, settled));
            if is_still || self.settle(number, now, links) {
                let Piece { left, count, .. } = self.slots[number];
                direct.push(Waiting { piece: number, left, count });
            }
        }
        direct
    }

    /// Pieces at their relay: rack, racks of source and destination, bytes left of all.
    pub(super) fn relayed(&mut self, now: Time, links: &mut Links) -> Vec<(u32, Pair<u32>, u64)> {
        let mut relayed = Vec::new();
        for number in self.active() {
            if let Stage::SecondHop { relay } = self.slots[number].stage
                && self.settle(number, now, links)
            {
                let Piece { racks, left, count, .. } = self.slots[number];
                relayed.push((relay, racks, left * u64::from(count)));
            }
        }
        relayed
    }

    /// Cuts bytes off a piece that is on no path, for a relay: the number of the new piece, or of
    /// the same if it is all that is left.
    pub(super) fn cut(&mut self, number: u32, bytes: u64, relay: u32) -> u32 {
        let stage = Stage::FirstHop { relay };
        if bytes >= self.slots[number].left {
            self.slots[number].stage = stage;
            return number;
        }
        self.slots[number].left -= bytes;
        let piece = Piece { stage, left: bytes, ..self.slots[number].clone() };
        self.open(piece)
    }

    /// Ends the first hops that are under way: what has arrived at a relay is there, what has not
    /// waits at its source again. Returns those pieces, none of which is on a path.
    pub(super) fn end_first_hops(&mut self, now: Time, links: &mut Links) -> Vec<u32> {
        let mut ended = Vec::new();
        for number in self.active() {
            let Stage::FirstHop { relay } = self.slots[number].stage else { continue };
            if !self.withdraw(number, now, links) {
                continue;
            }
            let Piece { started, left, .. } = self.slots[number];
            let stored = Piece {
                stage: Stage::SecondHop { relay },
                left: started - left,
                ..self.slots[number].clone()
            };
            if stored.left > 0 && left > 0 {
                ended.push(self.open(stored));
                self.slots[number].stage = Stage::Whole;
            } else if left > 0 {
                self.slots[number].stage = Stage::Whole;
            } else {
                (self.slots[number].stage, self.slots[number].left) = (stored.stage, started);
            }
            ended.push(number);
        }
        ended
    }

    /// If the piece that has ended was the first of two hops: the rack that it is at, and that of
    /// its destination.
    pub(super) fn next_hop(&self, number: u32) -> Option<Pair<u32>> {
        let Piece { stage, racks, .. } = self.slots[number];
        let Stage::FirstHop { relay } = stage else { return None };
        Some(Pair::new(relay, racks.to))
    }

    /// A piece that has arrived at its relay goes on.
    pub(super) fn begin_second_hop(
        &mut self,
        number: u32,
        route: Route,
        now: Time,
        links: &mut Links,
    ) {
        let relay = self.next_hop(number).expect("it is at its relay").from;
        self.count(number, 0);
        let piece = &mut self.slots[number];
        (piece.stage, piece.left) = (Stage::SecondHop { relay }, piece.started);
        self.take_route(number, route, now, links);
    }

    /// A piece has arrived; adds the tokens of its transfers, if it was the last of them.
    pub(super) fn arrive(&mut self, number: u32, done: &mut Vec<u64>) {
        self.count(number, 0);
        let transfer = self.slots[number].transfer;
        self.close(number);
        let Transfer { members, pieces, .. } = &mut self.transfers[transfer];
        *pieces -= 1;
        if *pieces == 0 {
            done.extend(members.drain(..).map(|member| member.token));
            self.transfers.free(transfer);
        }
    }

    /// Has every transfer go on by itself, on the links of its own servers. Nothing has ended that
    /// is yet to be told.
    pub(super) fn part(&mut self, ends: [&[LinkId]; 2], now: Time, links: &mut Links) {
        let mut parted: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for number in self.active() {
            let Piece { transfer, started, since, ref route, .. } = self.slots[number];
            let route = route.clone();
            assert!(self.withdraw(number, now, links), "it has not ended");
            let Transfer { members, priority, .. } = &self.transfers[transfer];
            let (members, priority) = (members.clone(), *priority);
            let own = parted.entry(transfer).or_insert_with(|| {
                let take = |&member| {
                    let number = self.transfers.take();
                    let members = vec![member];
                    self.transfers[number] = Transfer { members, priority, pieces: 0 };
                    number
                };
                members.iter().map(take).collect()
            });
            let old = self.slots[number].clone();
            let own = own.clone();
            for (transfer, Member { from, to, .. }) in own.into_iter().zip(members) {
                let ends = [ends[0][from as usize], ends[1][to as usize]];
                let piece = self.open(Piece { transfer, count: 1, ends, ..old.clone() });
                if let Some(route) = route.clone() {
                    self.take_route(piece, route, now, links);
                    let piece = &mut self.slots[piece];
                    piece.since = since;
                    if matches!(piece.stage, Stage::FirstHop { .. }) {
                        // What has reached the relay is told apart when the hop ends.
                        piece.started = started;
                    }
                }
            }
            self.close(number);
            self.transfers[transfer].pieces -= 1;
            if self.transfers[transfer].pieces == 0 {
                self.transfers[transfer].members.clear();
                self.transfers.free(transfer);
            }
        }
    }

    /// Bytes that racks have sent to one another since the last call, and that wait, by pair.
    pub(super) fn measure(&mut self, now: Time, links: &mut Links) -> (Vec<u64>, Vec<u64>) {
        let mut waiting = vec![0; self.sent.len()];
        for number in self.active() {
            self.settle(number, now, links);
            let Pair { from, to } = self.ends(number);
            let Piece { left, count, .. } = self.slots[number];
            if from != to {
                waiting[(from * self.racks + to) as usize] += left * u64::from(count);
            }
        }
        let nothing = vec![0; self.sent.len()];
        (std::mem::replace(&mut self.sent, nothing), waiting)
    }

    /// Pieces that there have been.
    #[cfg(test)]
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// Bytes that have not left for their destination, and of those that have, the ones that links
    /// have not counted yet.
    #[cfg(test)]
    pub(super) fn under_way(&mut self, now: Time, links: &mut Links) -> u64 {
        let mut sum = 0;
        for number in self.active() {
            let before = self.slots[number].left;
            self.settle(number, now, links);
            let Piece { stage, count, flow, started, left, .. } = self.slots[number];
            assert!(left <= before + 1, "bytes come back");
            let of_each = match (stage, flow) {
                (_, None) => left,
                (Stage::FirstHop { .. }, _) => started,
                _ => left + (started - left),
            };
            sum += of_each * u64::from(count);
        }
        sum
    }
}
