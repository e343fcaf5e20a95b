//! A step as operations: what it sent as packets, and what every flow waited for.
//!
//! A [`Moment`] is the end of an operation and a span after it. Every critical path carries that of
//! its time; where several have to be over, [`Waits`] joins theirs, so that none is forgotten that
//! did not decide in this run. A transfer is an operation that ends when its last byte has arrived.
//! From that, the flows and the links, whoever plays the operations again over the same network
//! finds the same times.

use lightloom_model::{Duration, Time};
use lightloom_packetsim::{Config, Extent, FlowSpec, Topology, TransportKind};

/// The end of an operation, and a span after it; by default the begin of the step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Index of the operation.
    pub operation: u32,
    /// Time after its end.
    pub later: Duration,
}

impl Moment {
    /// Later by a span.
    #[must_use]
    pub(crate) fn after(self, span: Duration) -> Self {
        Self { later: Duration(self.later.0.saturating_add(span.0)), ..self }
    }
}

/// What an operation does once what it waits for is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Nothing: it is over when all of these are.
    Join(Vec<Moment>),
    /// A transfer begins, and is over when it has arrived.
    Transfer(Moment),
}

/// The operations of a run so far; the first is the begin of the step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Waits {
    operations: Vec<Operation>,
}

impl Default for Waits {
    fn default() -> Self {
        Self { operations: vec![Operation::Join(Vec::new())] }
    }
}

impl Waits {
    fn add(&mut self, operation: Operation) -> Moment {
        self.operations.push(operation);
        Moment { operation: self.operations.len() as u32 - 1, later: Duration::ZERO }
    }

    /// A transfer that begins at a moment; its end.
    pub(crate) fn transfer(&mut self, begin: Moment) -> Moment {
        self.add(Operation::Transfer(begin))
    }

    /// When all of these are over.
    pub(crate) fn join(&mut self, mut moments: Vec<Moment>) -> Moment {
        moments.sort_unstable_by_key(|it| (it.operation, std::cmp::Reverse(it.later)));
        moments.dedup_by_key(|it| it.operation);
        match *moments.as_slice() {
            [] => Moment::default(),
            [only] => only,
            [begin, other] if begin == Moment::default() => other,
            _ => self.add(Operation::Join(moments)),
        }
    }
}

/// A flow of packets that a run sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentFlow {
    /// Index of the transfer that it is a part of, among those of the run.
    pub transfer: u32,
    /// What was sent.
    pub spec: FlowSpec,
    /// When its receiver had everything.
    pub arrived: Time,
}

/// The packets of a run.
#[derive(Debug, Clone)]
pub struct SentPackets {
    /// Servers, switches and links; servers are the first hosts.
    pub topology: Topology,
    /// Sizes, queues, paths.
    pub config: Config,
    /// Who sends what when.
    pub transport: TransportKind,
    /// The network whose round trip queues and windows hold.
    pub extent: Extent,
    /// In the order in which they began.
    pub flows: Vec<SentFlow>,
}

impl PartialEq for SentPackets {
    /// Whether the same was sent in the same way; the flows know where.
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.config, it.transport, it.extent);
        parts(self) == parts(other) && self.flows == other.flows
    }
}

/// A step as operations and the flows of its transfers.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What waits for what; operations wait for earlier ones alone.
    pub operations: Vec<Operation>,
    /// When the step is over.
    pub end: Moment,
    /// The packets.
    pub packets: SentPackets,
    /// Transfers that began at another time than what they waited for says, as those over circuits
    /// do that were switched.
    pub unexplained: u64,
}

impl Recording {
    pub(crate) fn new(mut waits: Waits, ends: Vec<Moment>, packets: SentPackets) -> Self {
        let end = waits.join(ends);
        let mut recording = Self { operations: waits.operations, end, packets, unexplained: 0 };
        recording.unexplained = recording.check();
        recording
    }

    /// How many transfers did not begin when what they waited for was over.
    fn check(&self) -> u64 {
        let mut transfers: Vec<(Time, Time)> = Vec::new();
        for SentFlow { transfer, spec, arrived } in &self.packets.flows {
            transfers.resize(transfers.len().max(*transfer as usize + 1), Default::default());
            let (begin, end) = &mut transfers[*transfer as usize];
            (*begin, *end) = (spec.start, (*end).max(*arrived));
        }
        let mut sent = transfers.into_iter();
        let mut ends: Vec<Time> = Vec::with_capacity(self.operations.len());
        let mut unexplained = 0;
        for operation in &self.operations {
            let time = |moment: &Moment| ends[moment.operation as usize] + moment.later;
            let end = match operation {
                Operation::Join(moments) => moments.iter().map(time).max().unwrap_or_default(),
                Operation::Transfer(moment) => {
                    let (begin, end) = sent.next().unwrap_or_default();
                    unexplained += u64::from(time(moment) != begin);
                    end
                }
            };
            ends.push(end);
        }
        unexplained + sent.count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(operation: u32, later: u64) -> Moment {
        Moment { operation, later: Duration(later) }
    }

    #[test]
    fn moments_of_one_operation_are_the_latest_of_them() {
        let mut waits = Waits::default();
        assert_eq!(waits.join(vec![]), Moment::default());
        assert_eq!(waits.join(vec![moment(0, 3), moment(0, 5)]), moment(0, 5));
        let sent = waits.transfer(moment(0, 5));
        assert_eq!(sent, moment(1, 0));
        assert_eq!(waits.join(vec![sent, Moment::default()]), sent);
        let both = waits.join(vec![sent.after(Duration(2)), moment(0, 9), sent]);
        assert_eq!(both, moment(2, 0));
        assert_eq!(waits.operations[2], Operation::Join(vec![moment(0, 9), moment(1, 2)]));
    }
}
