//! Transfers between racks, in pieces that can be withdrawn, cut and sent elsewhere.

use super::routes::Route;
use crate::network::{CONDUCTED, Flow, Launch, Links, Pair};
use crate::slab::Slab;
use lightloom_flowsim::LinkId;
use lightloom_model::Time;

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

/// A part of a transfer.
#[derive(Debug, Clone)]
struct Piece {
    transfer: u32,
    stage: Stage,
    /// Racks of the source and of the destination.
    racks: Pair<u32>,
    /// The links of its servers.
    ends: [LinkId; 2],
    /// Its present path, if it has one.
    route: Option<Route>,
    flow: Option<Launch>,
    /// Bytes with which it took its path, and those left when it was last looked at.
    started: u64,
    left: u64,
    /// When it took its path.
    since: u64,
    /// Its place in `active`.
    place: usize,
}

impl Default for Piece {
    fn default() -> Self {
        Self {
            transfer: 0,
            stage: Stage::default(),
            racks: Pair::new(0, 0),
            ends: [LinkId::default(); 2],
            route: None,
            flow: None,
            started: 0,
            left: 0,
            since: 0,
            place: 0,
        }
    }
}

/// A transfer between racks.
#[derive(Debug, Clone, Copy, Default)]
struct Transfer {
    token: u64,
    priority: u8,
    /// Pieces that have not arrived.
    pieces: u32,
}

/// All transfers between racks that are on their way.
#[derive(Debug)]
pub(super) struct Pieces {
    racks: u32,
    transfers: Slab<Transfer>,
    slots: Slab<Piece>,
    active: Vec<u32>,
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

    /// Those on their way, in an order that depends on nothing but what has happened.
    pub(super) fn active(&self) -> Vec<u32> {
        self.active.clone()
    }

    /// The piece of a token, if it is one of a piece.
    pub(super) fn of_token(token: u64) -> Option<u32> {
        (token >= CONDUCTED).then_some(token as u32)
    }

    /// A transfer comes: one piece, without a path.
    pub(super) fn add(
        &mut self,
        flow: Flow,
        racks: Pair<u32>,
        ends: [LinkId; 2],
        now: Time,
    ) -> u32 {
        let transfer = self.transfers.take();
        let Flow { token, priority, bytes, .. } = flow;
        self.transfers[transfer] = Transfer { token, priority, pieces: 0 };
        self.open(Piece { transfer, racks, ends, left: bytes, since: now.0, ..Piece::default() })
    }

    fn open(&mut self, piece: Piece) -> u32 {
        let number = self.slots.take();
        self.transfers[piece.transfer].pieces += 1;
        self.slots[number] = Piece { place: self.active.len(), ..piece };
        self.active.push(number);
        number
    }

    fn close(&mut self, number: u32) {
        let place = self.slots[number].place;
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

    /// When a piece took its path.
    pub(super) fn since(&self, piece: u32) -> u64 {
        self.slots[piece].since
    }

    /// Starts a piece, which is on no path, over one.
    pub(super) fn take_route(&mut self, number: u32, route: Route, now: Time, links: &mut Links) {
        let Piece { transfer, stage, left: bytes, ends: [up, down], .. } = self.slots[number];
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
        piece.flow = Some(links.launch(now, flow, &path));
        piece.route = Some(route);
        (piece.started, piece.since) = (bytes, now.0);
    }

    /// Counts what a piece has sent until now; false if it has ended, which is yet to be told.
    fn settle(&mut self, number: u32, now: Time, links: &mut Links) -> bool {
        let Some(flow) = self.slots[number].flow else { return true };
        let left = links.left(now, flow, CONDUCTED | u64::from(number));
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
        self.sent[(from * self.racks + to) as usize] += sent;
    }

    /// Takes a piece off its path; false if it has ended, which is yet to be told.
    pub(super) fn withdraw(&mut self, number: u32, now: Time, links: &mut Links) -> bool {
        let Some(flow) = self.slots[number].flow else { return true };
        let Some(left) = links.withdraw(now, flow, CONDUCTED | u64::from(number)) else {
            return false;
        };
        self.count(number, left);
        let piece = &mut self.slots[number];
        (piece.flow, piece.route) = (None, None);
        true
    }

    /// Pieces at their source that wait for a circuit to their destination, and bytes left.
    pub(super) fn direct(&mut self, now: Time, links: &mut Links) -> Vec<(u32, u64)> {
        let mut direct = Vec::new();
        for number in self.active() {
            if self.slots[number].stage == Stage::Whole && self.settle(number, now, links) {
                direct.push((number, self.slots[number].left));
            }
        }
        direct
    }

    /// Pieces at their relay: rack, racks of source and destination, bytes left.
    pub(super) fn relayed(&mut self, now: Time, links: &mut Links) -> Vec<(u32, Pair<u32>, u64)> {
        let mut relayed = Vec::new();
        for number in self.active() {
            if let Stage::SecondHop { relay } = self.slots[number].stage
                && self.settle(number, now, links)
            {
                let Piece { racks, left, .. } = self.slots[number];
                relayed.push((relay, racks, left));
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

    /// A piece has arrived; the token of its transfer, if it was the last.
    pub(super) fn arrive(&mut self, number: u32) -> Option<u64> {
        self.count(number, 0);
        let transfer = self.slots[number].transfer;
        self.close(number);
        let Transfer { token, pieces, .. } = &mut self.transfers[transfer];
        *pieces -= 1;
        let arrived = (*pieces == 0).then_some(*token);
        if arrived.is_some() {
            self.transfers.free(transfer);
        }
        arrived
    }

    /// Bytes that racks have sent to one another since the last call, and that wait, by pair.
    pub(super) fn measure(&mut self, now: Time, links: &mut Links) -> (Vec<u64>, Vec<u64>) {
        let mut waiting = vec![0; self.sent.len()];
        for number in self.active() {
            self.settle(number, now, links);
            let Pair { from, to } = self.ends(number);
            waiting[(from * self.racks + to) as usize] += self.slots[number].left;
        }
        let nothing = vec![0; self.sent.len()];
        (std::mem::replace(&mut self.sent, nothing), waiting)
    }

    /// Bytes that have not left for their destination, and of those that have, the ones that links
    /// have not counted yet.
    #[cfg(test)]
    pub(super) fn under_way(&mut self, now: Time, links: &mut Links) -> u64 {
        let mut sum = 0;
        for number in self.active() {
            let before = self.slots[number].left;
            self.settle(number, now, links);
            let Piece { stage, flow, started, left, .. } = self.slots[number];
            assert!(left <= before + 1, "bytes come back");
            sum += match (stage, flow) {
                (_, None) => left,
                (Stage::FirstHop { .. }, _) => started,
                _ => left + (started - left),
            };
        }
        sum
    }
}
