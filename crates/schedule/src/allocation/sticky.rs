//! Stickiness: equally fast circuits that change fewer of those that are there.
//!
//! A switch moves each port pair in its own time, and circuits that stay can be used meanwhile. The
//! old and the new circuits differ by alternating trails: a circuit made, one torn down, one made
//! ... A trail is undone if nothing ends later for it. Trails are undone one at a time, so the
//! fewest changes are not guaranteed: finding these is a search over all circuits that are as fast.

use super::problem::{Circuits, Problem};
use super::request::changed_pairs;
use super::routing::makespan;
use super::search::Search;

/// Circuits made that one trail may undo.
const LONGEST_TRAIL: usize = 8;

/// Circuits as fast as these (which take `time`) that change no more of the previous ones.
pub(super) fn settle(
    problem: &Problem,
    previous: &[u16],
    circuits: Circuits,
    time: f64,
) -> Circuits {
    let changed = changed_pairs(previous, &circuits.count);
    if !time.is_finite() || changed == 0 {
        return circuits;
    }
    let settled = if problem.request.split {
        Trail::<true>::new(problem, previous, &circuits, time).undo_all()
    } else {
        Trail::<false>::new(problem, previous, &circuits, time).undo_all()
    };
    // Loads are summed step by step there: the last digit is decided here.
    let as_fast = makespan(problem, &settled.count) <= time;
    if as_fast && changed_pairs(previous, &settled.count) < changed { settled } else { circuits }
}

/// Circuits that differ from the previous ones, and the trail that is being undone.
struct Trail<'p, 'r, const SPLIT: bool> {
    problem: &'p Problem<'r>,
    previous: &'p [u16],
    search: Search<'p, 'r, SPLIT>,
    /// Circuits added (or taken away) so far.
    steps: Vec<(usize, usize, bool)>,
}

impl<'p, 'r, const SPLIT: bool> Trail<'p, 'r, SPLIT> {
    fn new(problem: &'p Problem<'r>, previous: &'p [u16], circuits: &Circuits, time: f64) -> Self {
        let search = Search::new(problem, circuits.clone(), time);
        Self { problem, previous, search, steps: vec![] }
    }

    /// Undoes all that can be undone, one trail at a time.
    fn undo_all(mut self) -> Circuits {
        for a in 0..self.problem.n {
            for b in a + 1..self.problem.n {
                while self.torn(a, b) && self.keep(a, b) {}
                while self.made(a, b) && self.undo(a, b) {}
            }
        }
        self.search.into_circuits()
    }

    /// Whether more of these circuits are there than were.
    fn made(&self, a: usize, b: usize) -> bool {
        self.search.circuits().of(a, b) > self.old(a, b)
    }

    /// Whether fewer are.
    fn torn(&self, a: usize, b: usize) -> bool {
        self.search.circuits().of(a, b) < self.old(a, b)
    }

    fn old(&self, a: usize, b: usize) -> u16 {
        self.previous[a * self.problem.n + b]
    }

    fn has_port(&self, server: usize) -> bool {
        self.search.circuits().free[server] > 0
    }

    /// Leaves an old circuit where it is, if its ports are free and nothing ends later for it.
    fn keep(&mut self, a: usize, b: usize) -> bool {
        if !self.search.circuits().has_room(a, b) || !self.problem.may_join(a, b) {
            return false;
        }
        self.step(a, b, true);
        self.end()
    }

    /// Undoes the trail from a circuit made, both ways, as far as nothing ends later for it.
    fn undo(&mut self, a: usize, b: usize) -> bool {
        self.step(a, b, false);
        let mut ends = [Some(a), Some(b)];
        for _ in 0..LONGEST_TRAIL {
            for end in &mut ends {
                *end = end.and_then(|server| self.extend(server));
            }
            if self.all_in_time() {
                self.steps.clear();
                return true;
            }
            if ends == [None, None] {
                break;
            }
        }
        self.end()
    }

    /// Gives a free port of this server back to an old circuit; the far end may have to give up a
    /// new one for it, whose other end is where the trail goes on.
    fn extend(&mut self, server: usize) -> Option<usize> {
        if !self.has_port(server) {
            return None;
        }
        let far = self.far_end(server)?;
        let mut next = None;
        if !self.has_port(far) {
            let (new, old) = self.rows(far);
            let beyond = new.iter().zip(old).position(|(new, old)| new > old)?;
            self.step(far, beyond, false);
            next = Some(beyond);
        }
        self.step(server, far, true);
        next
    }

    /// The far end of an old circuit of this server that was torn down: the first one with a free
    /// port, or else the first.
    fn far_end(&self, server: usize) -> Option<usize> {
        let (new, old) = self.rows(server);
        let torn = new.iter().zip(old).enumerate().filter(|(_, (new, old))| new < old);
        let mut first = None;
        for (far, _) in torn.filter(|&(far, _)| self.problem.may_join(server, far)) {
            if self.has_port(far) {
                return Some(far);
            }
            first = first.or(Some(far));
        }
        first
    }

    /// Circuits of a server to each other now, and before.
    fn rows(&self, server: usize) -> (&[u16], &[u16]) {
        let row = server * self.problem.n..(server + 1) * self.problem.n;
        (&self.search.circuits().count[row.clone()], &self.previous[row])
    }

    fn step(&mut self, a: usize, b: usize, more: bool) {
        self.search.shift(a, b, more);
        self.steps.push((a, b, more));
    }

    fn all_in_time(&self) -> bool {
        self.steps.iter().all(|&(a, b, _)| self.search.in_time(a) && self.search.in_time(b))
    }

    /// Ends the trail; takes it back if something ends later for it.
    fn end(&mut self) -> bool {
        let good = self.all_in_time();
        while let Some((a, b, more)) = self.steps.pop() {
            if !good {
                self.search.shift(a, b, !more);
            }
        }
        good
    }
}
