//! `RotorLB`: what an epoch has room for takes bytes to racks that can deliver them in the next.
//!
//! [`rotor_slot`] says how many, from what waits at each rack, as it does for a schedule; here they
//! are cut off pieces and sent. First hops that have not ended by the end of the epoch are cut
//! short: what has arrived is stored, what has not waits at its source again.

use super::RackLinks;
use crate::network::{Links, Pair};
use lightloom_model::Time;
use lightloom_schedule::steps::{RotorQueues, rotor_slot};
use std::collections::BTreeMap;

impl RackLinks {
    /// Ends the first hops of the last turn and begins those of this one.
    pub(super) fn balance(&mut self, turn: u64, now: Time, links: &mut Links) {
        for piece in self.pieces.end_first_hops(now, links) {
            let ends = self.pieces.ends(piece);
            self.start_direct(piece, ends, now, links);
        }
        let racks = self.config.banks[0].racks.len() as u32;
        let mut waiting: BTreeMap<(u32, u32), Vec<(u32, u64)>> = BTreeMap::new();
        let mut own = vec![0; (racks * racks) as usize];
        for (piece, left) in self.pieces.direct(now, links) {
            let Pair { from, to } = self.pieces.ends(piece);
            own[(from * racks + to) as usize] += left;
            waiting.entry((from, to)).or_default().push((piece, left));
        }
        if waiting.is_empty() {
            return;
        }
        let mut queues = RotorQueues::new(&own, racks as usize).expect("racks are few");
        for (relay, Pair { from, to }, left) in self.pieces.relayed(now, links) {
            if left > 0 {
                queues.hold(relay, from, to, left).expect("three racks and some bytes");
            }
        }
        let sizes = self.config.sizes(&self.config.banks[0]);
        let rotor = self.config.rules.rotor(sizes);
        let slot = rotor_slot(&mut queues, &rotor, sizes.epoch, turn).expect("sizes were checked");
        for step in slot.moves.into_iter().filter(|step| step.to != step.destination) {
            let pieces = waiting.get_mut(&(step.source, step.destination));
            let Some(pieces) = pieces else { continue };
            let mut bytes = step.bytes;
            while bytes > 0 {
                let Some((piece, left)) = pieces.last_mut() else { break };
                let part = bytes.min(*left);
                let piece = *piece;
                *left -= part;
                if *left == 0 {
                    pieces.pop();
                }
                bytes -= part;
                self.send_to_relay(piece, part, step.to, now, links);
            }
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
        let route = self.route(racks, false).expect("racks that relay are joined");
        self.take_route(piece, route, now, links);
    }
}
