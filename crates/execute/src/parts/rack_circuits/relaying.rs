//! `RotorLB`: what an epoch has room for takes bytes to racks that can deliver them in the next.
//!
//! [`rotor_slot`] says how many, from what waits at each rack, as it does for a schedule; here they
//! are cut off pieces and sent. First hops that have not ended by the end of the epoch are cut
//! short: what has arrived is stored, what has not waits at its source again.

use super::pieces::Waiting;
use super::{RackLinks, Way};
use crate::network::{Links, Pair};
use lightloom_model::Time;
use lightloom_schedule::steps::{RotorQueues, rotor_slot_by};
use rustc_hash::FxHashMap;

impl RackLinks {
    /// Ends the first hops of the last turn and begins those of this one.
    pub(super) fn balance(&mut self, turn: u64, now: Time, links: &mut Links) {
        for piece in self.pieces.end_first_hops(now, links) {
            let ends = self.pieces.ends(piece);
            self.start_direct(piece, ends, now, links);
        }
        let racks = self.config.banks[0].racks.len() as u32;
        let mut own = vec![0; (racks * racks) as usize];
        let has_moved = |circuit: u32, since: u64| {
            let circuit = &self.board.circuits[circuit as usize];
            circuit.lit > 0 || circuit.dark_since > since
        };
        let direct = self.pieces.direct(has_moved, now, links);
        if direct.is_empty() {
            return;
        }
        for &Waiting { piece, left, count } in &direct {
            let Pair { from, to } = self.pieces.ends(piece);
            own[(from * racks + to) as usize] += left * u64::from(count);
        }
        let mut queues = RotorQueues::new(&own, racks as usize).expect("racks are few");
        for (relay, Pair { from, to }, left) in self.pieces.relayed(now, links) {
            if left > 0 {
                queues.hold(relay, from, to, left).expect("three racks and some bytes");
            }
        }
        let sizes = self.config.sizes(&self.config.banks[0]);
        let rotor = self.config.rules.rotor(sizes);
        let slot = rotor_slot_by(&mut queues, &rotor, &self.matchings, sizes.epoch, turn)
            .expect("sizes were checked");
        let relayed = slot.moves.iter().filter(|step| step.to != step.destination);
        let mut waiting: FxHashMap<(u32, u32), Vec<Waiting>> =
            relayed.clone().map(|step| ((step.source, step.destination), Vec::new())).collect();
        if waiting.is_empty() {
            return;
        }
        for piece in direct {
            let Pair { from, to } = self.pieces.ends(piece.piece);
            if let Some(pieces) = waiting.get_mut(&(from, to)) {
                pieces.push(piece);
            }
        }
        for step in relayed {
            if let Some(pieces) = waiting.get_mut(&(step.source, step.destination)) {
                self.relay(pieces, step.bytes, step.to, now, links);
            }
        }
    }

    /// Sends bytes of pieces that wait to a relay: of the last ones, as much of each of those that
    /// have the same left.
    fn relay(
        &mut self,
        pieces: &mut Vec<Waiting>,
        mut bytes: u64,
        relay: u32,
        now: Time,
        links: &mut Links,
    ) {
        while bytes > 0 {
            let Some(&Waiting { left, .. }) = pieces.last() else { break };
            let others = pieces.iter().rposition(|piece| piece.left != left);
            let equal = others.map_or(0, |place| place + 1)..;
            let count: u64 = pieces[equal.clone()].iter().map(|piece| u64::from(piece.count)).sum();
            let each = bytes.div_ceil(count).min(left);
            for piece in &mut pieces[equal.clone()] {
                piece.left -= each;
                self.send_to_relay(piece.piece, each, relay, now, links);
            }
            if each == left {
                pieces.truncate(equal.start);
            }
            bytes = bytes.saturating_sub(each * count);
        }
    }

    /// Cuts bytes off a piece and sends them to a relay.
    fn send_to_relay(&mut self, piece: u32, bytes: u64, relay: u32, now: Time, links: &mut Links) {
        let ends = self.pieces.ends(piece);
        if !self.pieces.withdraw(piece, now, links) {
            return;
        }
        let cut = self.pieces.cut(piece, bytes, relay);
        if cut != piece {
            self.start_direct(piece, ends, now, links);
        }
        self.start_direct(cut, Pair { to: relay, ..ends }, now, links);
    }

    fn start_direct(&mut self, piece: u32, racks: Pair<u32>, now: Time, links: &mut Links) {
        let route = self.route(racks, Way::Usual).expect("racks that relay are joined");
        self.take_route(piece, route, now, links);
    }
}
