//! Pipeline sends: asynchronous transfers from a worker to the same one of another stage.
//!
//! Arrival is when the last byte has left plus the latency of the longest of the paths taken. A
//! receiver that waits spends the time until the send on the bubble, the rest on the transfer.

use super::worker::{Step, Waiting};
use super::{Engine, Owner, trace};
use crate::critical_path::CriticalPath;
use crate::fabric::Piece;
use crate::ledger::Purpose;
use lightloom_model::{Carrier, Category, Duration, Task, Time, WorkerId};

/// A message that was sent or is waited for.
#[derive(Debug, Clone, Default)]
pub struct Message {
    from: WorkerId,
    to: WorkerId,
    tag: u32,
    bytes: u64,
    purpose: Option<Purpose>,
    /// When it was sent, and what led to that.
    sent: Option<Time>,
    path: CriticalPath,
    category: Option<Category>,
    pieces_left: u32,
    latency: Duration,
    arrival: Option<Time>,
    /// Receiver, and its task, if it waits already.
    waiting: Option<Task>,
}

impl Engine<'_> {
    /// Starts a send.
    pub(super) fn send(&mut self, from: WorkerId, task: &Task, peer: (u32, u32), bytes: u64) {
        let to = self.counterpart(from, peer.0);
        let id = self.message(from, to, peer.1);
        let purpose = Purpose::of(task.category).expect("checked");
        let pieces = self.fabric.pieces(&self.seats, (from, to), bytes);
        let servers = (self.seats.server[from as usize], self.seats.server[to as usize]);
        let mut message = std::mem::take(&mut self.messages[id]);
        message.bytes = bytes;
        message.purpose = Some(purpose);
        message.sent = Some(self.now);
        message.path = self.workers[from as usize].path;
        message.category = Some(task.category);
        message.latency = Duration::ZERO;
        let propagation = |piece: &Piece| self.fabric.propagation(servers, piece.carrier);
        let latency = pieces.iter().map(propagation).max().unwrap_or(Duration::ZERO);
        let is_phase = |piece: &&Piece| piece.carrier != Carrier::Local && piece.bytes > 0;
        let phase = pieces.iter().filter(is_phase);
        let phase =
            phase.map(|piece| (self.fabric.way(servers, piece.carrier), piece.bytes, latency));
        let phase: Vec<_> = phase.collect();
        let stretch = self.stretch(purpose, &phase);
        for piece in pieces {
            self.ledger.send(purpose, piece.carrier, piece.bytes);
            self.ledger.relay(purpose, piece.bytes * self.fabric.relays(piece.carrier));
            let latency = if piece.carrier == Carrier::Local {
                self.fabric.local_time(bytes.div_ceil(u64::from(self.seats.gpus)))
            } else {
                if piece.bytes > 0 {
                    let token = Owner::Message(id).token();
                    let way = self.fabric.way(servers, piece.carrier);
                    self.fabric.start(self.now, piece.bytes, stretch, &way, token);
                    message.pieces_left += 1;
                }
                self.fabric.latency(servers, piece.carrier)
            };
            message.latency = message.latency.max(latency);
        }
        let on_its_way = message.pieces_left > 0;
        self.messages[id] = message;
        if !on_its_way {
            self.message_arrives(id);
        }
    }

    /// A part of a message has left.
    pub(super) fn message_piece_done(&mut self, id: u32) {
        self.messages[id].pieces_left -= 1;
        if self.messages[id].pieces_left == 0 {
            self.message_arrives(id);
        }
    }

    fn message_arrives(&mut self, id: u32) {
        let message = &mut self.messages[id];
        let arrival = self.now + message.latency;
        message.arrival = Some(arrival);
        let ends = [u64::from(message.from), u64::from(message.to), u64::from(message.tag)];
        self.trace.record(arrival, trace::MESSAGE, &ends);
        self.ledger.receive(message.purpose.expect("sent"), message.bytes);
        if let Some(task) = message.waiting.take() {
            let to = message.to;
            let path = self.take_message(to, &task, id);
            let at = self.workers[to as usize].at;
            self.release(to, at, path);
        }
    }

    /// Waits for a message, unless it is there.
    pub(super) fn receive(&mut self, to: WorkerId, task: &Task, stage: u32, tag: u32) -> Step {
        let from = self.counterpart(to, stage);
        let id = self.message(from, to, tag);
        if self.messages[id].arrival.is_none() {
            self.messages[id].waiting = Some(*task);
            self.workers[to as usize].waiting = Waiting::Message { stage, tag };
            return Step::Wait;
        }
        self.workers[to as usize].path = self.take_message(to, task, id);
        Step::Next
    }

    /// Moves the receiver's clock to the arrival, if that is later; returns what led there.
    fn take_message(&mut self, to: WorkerId, task: &Task, id: u32) -> CriticalPath {
        let message = std::mem::take(&mut self.messages[id]);
        self.messages.free(id);
        self.message_of.remove(&(message.from, message.to, message.tag));
        let sent = message.sent.expect("only sent messages arrive");
        let arrival = message.arrival.expect("arrived");
        self.record_beside(to, task, (sent, arrival));
        let at = self.workers[to as usize].at;
        if arrival <= at {
            return self.workers[to as usize].path;
        }
        let category = message.category.expect("sent");
        let turn = sent.max(at);
        self.spend(to, task, Category::Bubble, (at, turn));
        self.spend(to, task, category, (turn, arrival));
        self.workers[to as usize].at = arrival;
        message.path.extended(category, arrival.since(sent))
    }

    /// The worker with the same replica and member in another stage.
    fn counterpart(&self, id: WorkerId, stage: u32) -> WorkerId {
        let layout = &self.graph.layout;
        let per_stage = layout.replicas * layout.members;
        stage * per_stage + id % per_stage
    }

    fn message(&mut self, from: WorkerId, to: WorkerId, tag: u32) -> u32 {
        let messages = &mut self.messages;
        *self.message_of.entry((from, to, tag)).or_insert_with(|| {
            let id = messages.take();
            messages[id] = Message { from, to, tag, ..Message::default() };
            id
        })
    }
}
