//! Messages: asynchronous transfers from one worker to another.
//!
//! Messages of one purpose and priority from a worker to another go in the order in which they are
//! sent, as those of a communicator do: one begins when the last byte of the one before has left.
//!
//! Where one leaves or arrives over NICs of other GPUs, its chunks are copied over the NVSwitch
//! while others cross the network: the slower one counts, and a latency.
//!
//! A message whose task has a handle is a *rendezvous*: it leaves when its turn has come and its
//! receiver waits for it, and the task is done when it has arrived.
//!
//! Arrival is when the last byte has left plus the latency of the longest of the paths taken and,
//! if it crossed the network, the start-up of a message. A receiver that waits is idle until the
//! message is sent; the rest it spends on the transfer.

use super::completion::{Completions, End};
use super::context::{Context, Step, record};
use super::owner::Owner;
use super::streams::StreamId;
use crate::critical_path::CriticalPath;
use crate::index::Turn;
use crate::network::{Division, Pair, PartId, Share};
use crate::recording::Moment;
use crate::slab::Slab;
use lightloom_model::{Duration, Priority, PurposeId, Tag, Task, TaskKind, Time, WorkerId};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A message that was sent or is waited for.
#[derive(Debug, Default)]
struct Message<'a> {
    key: MessageKey,
    bytes: u64,
    /// When it was sent, by which task, and what led to that. Of a rendezvous, when both ends were
    /// there.
    sent: Option<(Time, &'a Task)>,
    path: CriticalPath,
    /// The sender's stream and task, if it is a rendezvous.
    sender: Option<(StreamId, Turn<'a>)>,
    pieces_left: u32,
    /// When its copies to and from other GPUs are done.
    copied: Time,
    latency: Duration,
    /// When it begins, what its arrival waits for, then that, if it is recorded.
    begin: Moment,
    waits: Vec<Moment>,
    arrived: Moment,
    arrival: Option<Time>,
    /// The stream that waits already, at this task.
    waiting: Option<(StreamId, &'a Task)>,
}

/// Which message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct MessageKey {
    from: WorkerId,
    to: WorkerId,
    tag: Tag,
}

/// Whose messages go in order.
type Line = (WorkerId, WorkerId, PurposeId, Priority);

/// All messages on their way.
#[derive(Debug, Default)]
pub(super) struct Messages<'a> {
    entries: Slab<Message<'a>>,
    known: FxHashMap<MessageKey, u32>,
    /// Sent messages whose last byte has not left, in order; the first of a line is under way.
    lines: FxHashMap<Line, VecDeque<u32>>,
}

impl<'a> Messages<'a> {
    /// Sends a message: it begins when those before it have left.
    pub(super) fn send(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        id: StreamId,
        turn: Turn<'a>,
    ) {
        let task = turn.task;
        let TaskKind::Send { peer, tag, bytes: amount } = task.kind else {
            unreachable!("only sends are sent")
        };
        let from = context.streams[id].worker;
        let to = context.index.peer(context.graph, from, peer).expect("checked");
        let number = self.find(MessageKey { from, to, tag });
        let message = &mut self.entries[number];
        message.bytes = context.graph.amount(amount, from);
        message.sent = Some((context.now, task));
        message.path = context.streams[id].path.clone();
        message.begin = message.path.moment;
        message.sender = task.handle.map(|_| (id, turn));
        let line = self.lines.entry(line_of(context, message)).or_default();
        line.push_back(number);
        if line.len() == 1 {
            self.begin(context, completions, number);
        }
    }

    /// Begins a message whose turn it is, and those after it while nothing of them is to leave. A
    /// rendezvous waits for its receiver.
    fn begin(&mut self, context: &mut Context<'a>, completions: &mut Completions<'a>, number: u32) {
        let mut next = Some(number);
        while let Some(number) = next {
            let Message { key: MessageKey { from, to, .. }, bytes, sent, sender, waiting, .. } =
                self.entries[number];
            if sender.is_some() && waiting.is_none() {
                return;
            }
            let (_, task) = sent.expect("sent");
            self.note_begin(context, number);
            let mut division = Division::default();
            context.fabric.divide(&context.placement, Pair::new(from, to), bytes, &mut division);
            let stretch = phase_stretch(context, task, &division);
            self.start_pieces(context, number, &division, stretch);
            if self.entries[number].pieces_left > 0 {
                return;
            }
            next = self.leave(context, completions, number);
        }
    }

    /// A message begins once it was sent and the one before it has left, and a rendezvous once its
    /// receiver is there.
    fn note_begin(&mut self, context: &mut Context<'a>, number: u32) {
        let message = &mut self.entries[number];
        if let (Some(_), Some((receiver, _))) = (message.sender, message.waiting) {
            message.begin = context.join([message.begin, context.streams[receiver].path.moment]);
        }
        if context.waits.is_some() {
            message.waits.push(message.begin);
        }
    }

    fn start_pieces(
        &mut self,
        context: &mut Context<'a>,
        number: u32,
        Division { paths, shares }: &Division,
        stretch: f64,
    ) {
        let message = &mut self.entries[number];
        let (_, task) = message.sent.expect("sent");
        let purpose = context.purpose(task);
        for share in shares {
            let path = paths.path(share.path);
            context.send(purpose, path, share.bytes);
            let latency = if path.part == PartId::INSIDE {
                let gpus = u64::from(context.placement.gpus);
                context.fabric.nvswitch().all_to_all.time(message.bytes.div_ceil(gpus), 0)
            } else {
                if share.bytes > 0 {
                    let owner = Owner::Message(number);
                    let links = paths.links(share.path);
                    context.start(links, share.bytes, stretch, task.priority, owner);
                    if context.waits.is_some() {
                        message.waits.push(context.note_transfer(message.begin));
                    }
                    message.pieces_left += 1;
                }
                let copies = context.fabric.copies(&context.placement, path, share.bytes);
                context.ledger.inside(purpose, copies.bytes);
                message.copied = message.copied.max(context.now + copies.time);
                if context.waits.is_some() {
                    message.waits.push(message.begin.after(copies.time));
                }
                let start_up = context.fabric.message_start_up(path) + copies.latency;
                context.fabric.latency(path) + start_up
            };
            message.latency = message.latency.max(latency);
        }
    }

    /// A part of a message has left.
    pub(super) fn piece_done(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        number: u32,
    ) {
        self.entries[number].pieces_left -= 1;
        if self.entries[number].pieces_left == 0
            && let Some(next) = self.leave(context, completions, number)
        {
            self.begin(context, completions, next);
        }
    }

    /// The last byte of a message has left; says whose turn is next.
    fn leave(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        number: u32,
    ) -> Option<u32> {
        let key = line_of(context, &self.entries[number]);
        let line = self.lines.get_mut(&key).expect("its turn has come");
        let first = line.pop_front();
        assert_eq!(first, Some(number), "messages of a pair leave in order");
        let next = line.front().copied();
        if next.is_none() {
            self.lines.remove(&key);
        }
        if let Some(following) = next.filter(|_| context.waits.is_some()) {
            // copies do not keep the one after it
            let message = &self.entries[number];
            let left = message.waits.iter().filter(|it| it.operation != message.begin.operation);
            let sent = self.entries[following].begin;
            let left = left.copied().chain([message.begin, sent]);
            self.entries[following].begin = context.join(left);
        }
        self.arrive(context, completions, number);
        next
    }

    fn arrive(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        number: u32,
    ) {
        let message = &mut self.entries[number];
        let arrival = context.now.max(message.copied) + message.latency;
        message.arrival = Some(arrival);
        message.arrived = context.join(std::mem::take(&mut message.waits)).after(message.latency);
        let MessageKey { from, to, tag } = message.key;
        let ids = [u64::from(from.0), u64::from(to.0), u64::from(tag.0)];
        context.hash.record(arrival, record::MESSAGE, &ids);
        let (sent, task) = message.sent.expect("sent");
        let purpose: PurposeId = context.purpose(task);
        context.receive(purpose, message.bytes);
        if let Some((stream, turn)) = message.sender {
            let mut path = message.path.clone();
            path.charge(task.category, arrival.since(sent));
            path.moment = message.arrived;
            let end = End { began: sent, together: sent, done: arrival, late: (sent, sent), path };
            completions.complete(context, stream, turn, end);
        }
        if let Some((stream, task)) = message.waiting.take() {
            let path = self.take(context, stream, task, number);
            let at = context.streams[stream].at;
            context.release(stream, at, path);
        }
    }

    /// Waits for a message, unless it is there.
    pub(super) fn receive(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        id: StreamId,
        task: &'a Task,
    ) -> Step {
        let TaskKind::Receive { peer, tag } = task.kind else {
            unreachable!("only receives are received")
        };
        let to = context.streams[id].worker;
        let from = context.index.peer(context.graph, to, peer).expect("checked");
        let number = self.find(MessageKey { from, to, tag });
        if self.entries[number].arrival.is_none() {
            self.entries[number].waiting = Some((id, task));
            let step = context.wait(id);
            self.meet(context, completions, id, number);
            return step;
        }
        context.streams[id].path = self.take(context, id, task, number);
        Step::Next
    }

    /// Begins a rendezvous that was sent before and whose turn has come, now that its receiver is
    /// there.
    fn meet(
        &mut self,
        context: &mut Context<'a>,
        completions: &mut Completions<'a>,
        id: StreamId,
        number: u32,
    ) {
        let message = &mut self.entries[number];
        let (Some(_), Some((_, task))) = (message.sender, message.sent) else { return };
        message.sent = Some((context.now, task));
        message.path = context.streams[id].path.clone();
        let line = line_of(context, message);
        if self.lines[&line].front() == Some(&number) {
            self.begin(context, completions, number);
        }
    }

    /// Moves the receiver's clock to the arrival, if that is later; returns what led there.
    fn take(
        &mut self,
        context: &mut Context<'a>,
        id: StreamId,
        task: &Task,
        number: u32,
    ) -> CriticalPath {
        let message = std::mem::take(&mut self.entries[number]);
        self.entries.free(number);
        self.known.remove(&message.key);
        let (sent, sender) = message.sent.expect("only sent messages arrive");
        let arrival = message.arrival.expect("arrived");
        context.accounts.record_alongside(message.key.to, task, (sent, arrival), sent);
        let at = context.streams[id].at;
        let moment = context.join([context.streams[id].path.moment, message.arrived]);
        if arrival <= at {
            let mut path = std::mem::take(&mut context.streams[id].path);
            path.moment = moment;
            return path;
        }
        let turn = sent.max(at);
        context.spend(id, task, context.index.idle, (at, turn));
        context.spend(id, task, sender.category, (turn, arrival));
        context.streams[id].at = arrival;
        let mut path = message.path;
        path.charge(sender.category, arrival.since(sent));
        path.moment = moment;
        path
    }

    /// Messages in use.
    pub(super) fn in_use(&self) -> usize {
        self.entries.in_use()
    }

    fn find(&mut self, key: MessageKey) -> u32 {
        let entries = &mut self.entries;
        *self.known.entry(key).or_insert_with(|| {
            let number = entries.take();
            entries[number] = Message { key, ..Message::default() };
            number
        })
    }
}

/// The line of a message that was sent.
fn line_of(context: &Context<'_>, message: &Message<'_>) -> Line {
    let (_, task) = message.sent.expect("sent");
    (message.key.from, message.key.to, context.purpose(task), task.priority)
}

/// How much longer the shares of a message take as packets than as fluids.
fn phase_stretch(
    context: &mut Context<'_>,
    task: &Task,
    Division { paths, shares }: &Division,
) -> f64 {
    let latency = |share: &Share| paths.path(share.path).latency;
    let longest = shares.iter().map(latency).max().unwrap_or(Duration::ZERO);
    let is_sent = |share: &&Share| share.bytes > 0 && !paths.links(share.path).is_empty();
    let transfers = shares.iter().filter(is_sent);
    let transfers = transfers.map(|share| (paths.links(share.path), share.bytes, longest));
    let purpose = context.purpose(task);
    context.stretch(purpose, transfers)
}
