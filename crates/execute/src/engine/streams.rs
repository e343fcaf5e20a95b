//! The streams of all workers: how far each has come, and when.

use crate::critical_path::CriticalPath;
use crate::index::Index;
use lightloom_model::{RoleId, TaskIndex, Time, WorkerId};

/// A stream of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(u32);

/// Whether a stream resumes by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Waiting {
    /// It does.
    #[default]
    No,
    /// Its next task waits for somebody else.
    Task,
    /// Its tasks are done.
    Done,
}

/// State of one stream.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    /// Whose it is.
    pub worker: WorkerId,
    /// Which of the worker's; 0 is the main one.
    pub number: u8,
    /// The worker's role.
    pub role: RoleId,
    /// Its next turn: an index into [`Index::stream`].
    pub next: u32,
    /// Its own clock.
    pub at: Time,
    /// What led to `at`.
    pub path: CriticalPath,
    /// What it waits for.
    pub waiting: Waiting,
}

impl Stream {
    /// The task whose turn is next, if there is one.
    #[inline]
    pub(super) fn turn(&self, index: &Index) -> Option<TaskIndex> {
        index.stream(self.role, usize::from(self.number)).get(self.next as usize).copied()
    }
}

/// All streams, worker by worker.
#[derive(Debug)]
pub(crate) struct Streams {
    list: Vec<Stream>,
    per_worker: u32,
    /// Streams that may resume.
    pub released: Vec<StreamId>,
}

impl Streams {
    /// All streams at the start; the spans that lead them on are recorded, or not.
    pub(super) fn new(index: &Index, recorded: bool) -> Self {
        let path = if recorded { CriticalPath::recorded() } else { CriticalPath::default() };
        let mut list = Vec::with_capacity(index.role_of.len() * index.streams);
        for (worker, &role) in index.role_of.iter().enumerate() {
            for number in 0..index.streams {
                list.push(Stream {
                    worker: WorkerId(worker as u32),
                    number: number as u8,
                    role,
                    next: 0,
                    at: Time::ZERO,
                    path: path.clone(),
                    waiting: Waiting::No,
                });
            }
        }
        let released = (0..list.len() as u32).map(StreamId).collect();
        Self { list, per_worker: index.streams as u32, released }
    }

    /// All streams, in order.
    pub(super) fn iter(&self) -> std::slice::Iter<'_, Stream> {
        self.list.iter()
    }

    /// The streams of each worker, in order.
    pub(super) fn by_worker(&self) -> std::slice::ChunksExact<'_, Stream> {
        self.list.chunks_exact(self.per_worker as usize)
    }

    /// A stream of a worker.
    pub(super) fn of(&self, worker: WorkerId, number: u8) -> StreamId {
        StreamId(worker.0 * self.per_worker + u32::from(number))
    }

    /// Tasks done, over all streams.
    pub(super) fn tasks_done(&self) -> u64 {
        self.list.iter().map(|stream| u64::from(stream.next)).sum()
    }
}

impl std::ops::Index<StreamId> for Streams {
    type Output = Stream;

    fn index(&self, id: StreamId) -> &Stream {
        &self.list[id.0 as usize]
    }
}

impl std::ops::IndexMut<StreamId> for Streams {
    fn index_mut(&mut self, id: StreamId) -> &mut Stream {
        &mut self.list[id.0 as usize]
    }
}
