//! How launched transfers go: in batches, in turn, as far as bundles between racks have room.

use super::launched::{Launched, LaunchedId, Waiting};
use super::network::PacketNetwork;
use crate::links::link::Flow;
use lightloom_flowsim::LinkId;
use lightloom_model::Time;

/// Packets of a batch on each of the members that share it.
const PACKETS: u64 = 1;

impl PacketNetwork {
    /// Starts a transfer that may be withdrawn; its token comes back when the last byte has
    /// arrived.
    pub fn launch(&mut self, now: Time, flow: Flow, path: &[LinkId]) -> LaunchedId {
        let Flow { bytes, priority, token, .. } = flow;
        let priority = self.rank(priority);
        let number = self.launched.take();
        let launched = &mut self.launched[number];
        launched.serial += 1;
        (launched.token, launched.priority) = (token, priority);
        (launched.bytes, launched.unsent) = (bytes, bytes);
        launched.path.clear();
        launched.path.extend_from_slice(path);
        let id = LaunchedId { number, serial: launched.serial };
        let limited = path.iter().copied().filter(|&link| self.most_on_way(link).is_some());
        let limited = self.turns.limited(limited.collect());
        self.launched[number].limited = limited;
        self.turns.begin(id);
        self.get_ready(id);
        self.pump_later(now);
        id
    }

    /// Bytes of it that have not arrived; nothing if all have.
    pub fn left(&self, id: LaunchedId) -> Option<u64> {
        let launched = self.active(id)?;
        let missing = |&batch: &u32| self.missing(batch);
        let left = launched.unsent + launched.batches.iter().map(missing).sum::<u64>();
        (left > 0).then_some(left)
    }

    /// Takes it off its path: bytes that have not arrived; nothing if all have.
    pub fn withdraw(&mut self, now: Time, id: LaunchedId) -> Option<u64> {
        let left = self.left(id)?;
        for batch in std::mem::take(&mut self.launched[id.number].batches) {
            self.abandon(batch);
        }
        let arrived = self.launched[id.number].bytes - left;
        self.end(id.number, arrived);
        self.pump_later(now);
        Some(left)
    }

    /// It, unless it has ended.
    fn active(&self, id: LaunchedId) -> Option<&Launched> {
        let launched = &self.launched[id.number];
        self.turns.is_there(id).then_some(launched)
    }

    /// It is no longer there; so many of its bytes have crossed its path.
    fn end(&mut self, number: u32, arrived: u64) {
        for link in std::mem::take(&mut self.launched[number].path) {
            self.carried[link.0 as usize] += arrived;
        }
        self.turns.end(number);
        self.launched.free(number);
    }

    /// All that can be sent is on its way once everything of this instant has been asked for:
    /// those that begin together take turns. One after the other, the first would fill its bundles
    /// over NICs that the others wait for, while theirs are idle.
    fn pump_later(&mut self, now: Time) {
        if let Some(before) = self.turns.due.replace(now).filter(|&before| before < now) {
            self.pump(before);
        }
    }

    /// What was asked for at an instant before this time is on its way.
    pub(super) fn pump_due(&mut self, limit: Option<Time>) {
        let is_over = |due: &Time| limit.is_none_or(|limit| *due < limit);
        if let Some(due) = self.turns.due.filter(is_over) {
            self.turns.due = None;
            self.pump(due);
        }
    }

    /// All that can be sent is on its way.
    pub(super) fn pump(&mut self, now: Time) {
        while let Some((it, waited_for)) = self.turns.ready.pop_front() {
            let is_there = self.turns.is_there(it.id);
            if let Some(full) = self.turns.full(it.limited).filter(|_| is_there) {
                self.turns.wait(full, it);
                self.turns.wake(waited_for.filter(|&other| other != full));
                continue;
            }
            let has_bytes = is_there && self.launched[it.id.number].unsent > 0;
            if has_bytes && self.send_batch(it.id, now) {
                self.turns.get_ready(it, None);
            }
            self.turns.wake(waited_for);
        }
    }

    /// It may try to send.
    fn get_ready(&mut self, id: LaunchedId) {
        let Launched { limited, priority, .. } = self.launched[id.number];
        self.turns.get_ready(Waiting { id, limited, priority }, None);
    }

    /// Sends a batch; returns whether more waits.
    fn send_batch(&mut self, id: LaunchedId, now: Time) -> bool {
        let path = self.launched[id.number].path.clone();
        let most = PACKETS * u64::from(self.mtu()) * self.width(&path) as u64;
        let launched = &mut self.launched[id.number];
        let bytes = launched.unsent.min(most);
        launched.unsent -= bytes;
        let batch = self.send_batch_of(id.number, now, bytes, &path);
        self.launched[id.number].batches.push(batch);
        for link in path {
            self.turns.on_way[link.0 as usize] += bytes;
            if self.most_on_way(link).is_some() {
                self.turns.batches[link.0 as usize].push(batch);
            }
        }
        self.launched[id.number].unsent > 0
    }

    /// A batch is off its path, where others have room for that.
    fn make_room(&mut self, path: &[LinkId], batch: u32, bytes: u64) {
        for &link in path {
            self.turns.on_way[link.0 as usize] -= bytes;
            self.turns.batches[link.0 as usize].retain(|&other| other != batch);
            self.turns.wake(Some(link));
        }
    }

    /// A batch has arrived; the token of its transfer, if that was all of it.
    pub(super) fn batch_arrived(&mut self, number: u32, batch: u32) -> Option<u64> {
        let bytes = self.batch_bytes(batch);
        let launched = &mut self.launched[number];
        launched.batches.retain(|&other| other != batch);
        let is_whole = launched.unsent == 0 && launched.batches.is_empty();
        let (token, all, path) = (launched.token, launched.bytes, launched.path.clone());
        if is_whole {
            self.end(number, all);
        }
        self.forget(batch);
        self.make_room(&path, batch, bytes);
        is_whole.then_some(token)
    }

    /// A batch is sent again, as far as it has not arrived: nobody waits for its packets.
    fn abandon(&mut self, batch: u32) {
        let (path, bytes) = self.forget(batch);
        self.make_room(&path, batch, bytes);
    }

    /// So many members of a bundle are lit, after others were: batches on members that are not
    /// are sent again over those that are, and all wait if none is.
    pub(super) fn follow_lit(&mut self, now: Time, bundle: LinkId, lit: usize) {
        if lit == 0 {
            return;
        }
        for (number, _, batch) in self.too_wide(bundle, lit) {
            let missing = self.missing(batch);
            let launched = &mut self.launched[number];
            launched.batches.retain(|&other| other != batch);
            let is_new = launched.unsent == 0;
            launched.unsent += missing;
            let id = LaunchedId { number, serial: launched.serial };
            self.abandon(batch);
            if is_new {
                self.get_ready(id);
            }
        }
        self.turns.wake(Some(bundle));
        self.pump_later(now);
    }

    /// Batches that are missing bytes and take more members of a bundle than are lit, each with its
    /// transfer and its place in it, in this order.
    fn too_wide(&self, bundle: LinkId, lit: usize) -> Vec<(u32, usize, u32)> {
        let of_bundle = self.turns.batches[bundle.0 as usize].iter().copied();
        let wide = of_bundle.filter(|&batch| self.members_of(batch, bundle) > lit);
        let mut found: Vec<(u32, usize, u32)> = wide
            .filter(|&batch| self.missing(batch) > 0)
            .map(|batch| {
                let number = self.transfer_of(batch);
                let batches = &self.launched[number].batches;
                let place = batches.iter().position(|&other| other == batch);
                (number, place.expect("its transfer knows it"), batch)
            })
            .collect();
        found.sort_unstable();
        found
    }
}
