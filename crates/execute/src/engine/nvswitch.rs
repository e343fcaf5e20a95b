//! What rings do inside workers: those of different communicators share a GPU's NVSwitch port.
//!
//! Parts under way at once progress at equal rates: n of them at 1/n each. Collectives that hold
//! their stream, and all-to-alls, have the port to themselves and are not seen here.

use super::context::Context;
use super::owner::Event;
use lightloom_model::{Duration, Time, WorkerId};

/// The part of a ring inside one worker.
#[derive(Debug)]
struct Part {
    ring: u32,
    /// Time that it still takes alone.
    left: Duration,
}

/// The port of each GPU of a worker, which act alike.
#[derive(Debug, Default)]
struct Port {
    parts: Vec<Part>,
    /// When `left` was right.
    since: Time,
    /// Events of earlier generations are out of date.
    generation: u32,
}

impl Port {
    /// Brings what is left up to date.
    fn settle(&mut self, now: Time) {
        let each = now.since(self.since).0 / self.parts.len().max(1) as u64;
        for part in &mut self.parts {
            part.left = Duration(part.left.0.saturating_sub(each));
        }
        self.since = now;
    }

    /// When the first part will be done, unless another one starts.
    fn next(&self) -> Option<Time> {
        let shortest = self.parts.iter().map(|part| part.left.0).min()?;
        Some(self.since + Duration(shortest.saturating_mul(self.parts.len() as u64)))
    }
}

/// The ports of all workers.
#[derive(Debug, Default)]
pub(super) struct NvSwitches {
    ports: Vec<Port>,
}

impl NvSwitches {
    /// Starts the part of a ring that takes `work` alone.
    pub(super) fn start(
        &mut self,
        context: &mut Context<'_>,
        worker: WorkerId,
        ring: u32,
        work: Duration,
    ) {
        if self.ports.len() <= worker.index() {
            self.ports.resize_with(context.graph.workers(), Port::default);
        }
        let port = &mut self.ports[worker.index()];
        port.settle(context.now);
        port.parts.push(Part { ring, left: work });
        Self::plan(port, context, worker);
    }

    /// Rings whose parts in a worker are done now, in the order in which they started.
    pub(super) fn done(
        &mut self,
        context: &mut Context<'_>,
        worker: WorkerId,
        generation: u32,
    ) -> Vec<u32> {
        let port = &mut self.ports[worker.index()];
        if port.generation != generation {
            return Vec::new();
        }
        port.settle(context.now);
        let is_done = |part: &Part| part.left == Duration::ZERO;
        let done = port.parts.iter().filter(|part| is_done(part)).map(|part| part.ring).collect();
        port.parts.retain(|part| !is_done(part));
        Self::plan(port, context, worker);
        done
    }

    fn plan(port: &mut Port, context: &mut Context<'_>, worker: WorkerId) {
        port.generation = port.generation.wrapping_add(1);
        if let Some(time) = port.next() {
            context.schedule(time, Event::InsideDone { worker, generation: port.generation });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// When parts that begin together are done, by playing the port from one end to the next.
    fn ends(works: &[u64]) -> Vec<u64> {
        let mut port = Port::default();
        for (ring, &work) in (0..).zip(works) {
            port.settle(Time::ZERO);
            port.parts.push(Part { ring, left: Duration(work) });
        }
        let mut ends = vec![0; works.len()];
        while let Some(time) = port.next() {
            port.settle(time);
            let (done, left) =
                port.parts.drain(..).partition(|part: &Part| part.left == Duration::ZERO);
            let done: Vec<Part> = done;
            assert!(!done.is_empty(), "nothing is done at {}", time.0);
            for part in done {
                ends[part.ring as usize] = time.0;
            }
            port.parts = left;
        }
        ends
    }

    #[test]
    fn a_port_is_shared_equally_until_the_first_part_is_done() {
        assert_eq!(ends(&[7]), [7]);
        assert_eq!(ends(&[10, 10, 10]), [30, 30, 30]);
        // 2 x 4 until the shorter one is done, then 6 alone.
        assert_eq!(ends(&[10, 4]), [14, 8]);
        assert_eq!(ends(&[1, 2, 3, 4]), [4, 7, 9, 10]);
    }

    #[test]
    fn a_part_that_starts_later_has_its_share_from_then_on() {
        let mut port = Port::default();
        port.parts.push(Part { ring: 0, left: Duration(10) });
        port.settle(Time(4));
        port.parts.push(Part { ring: 1, left: Duration(2) });
        assert_eq!(port.next(), Some(Time(8)), "2 at half of the speed");
        port.settle(Time(8));
        assert_eq!(port.parts.iter().map(|part| part.left.0).collect::<Vec<_>>(), [4, 0]);
    }

    proptest! {
        /// Processor sharing in closed form: of n parts in ascending order, the k-th is done after
        /// all the work of those before it, and as much of its own for each of those after it.
        #[test]
        fn parts_are_done_in_the_order_of_their_work(
            works in prop::collection::vec(1_u64..1_000_000, 1..12),
        ) {
            let ended = ends(&works);
            for (own, end) in works.iter().zip(&ended) {
                let expected: u64 = works.iter().map(|other| (*other).min(*own)).sum();
                prop_assert_eq!(*end, expected);
            }
        }
    }
}
