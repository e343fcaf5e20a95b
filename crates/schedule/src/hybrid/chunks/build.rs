//! Slots for chunks, one after another, for a target.
//!
//! As in `balanced`: for a target length the room of packets is known, and with it what each line
//! needs of circuits ([`super::super::load`]). Here lines need it for several *sets* of chunks:
//! those released from some time on, with the packets' room since then, and those due by some time.
//! A set that is released at r cannot end before r and its load; the largest such end, over all
//! lines and sets, is what a slot is to keep from rising. A slot is a greedy matching of what is
//! there when it begins, pairs of lines with late ends first; it is held as long as the largest end
//! rises least for the time that it takes, and it begins at once, or at the next release where that
//! is better.

use super::super::budget::HybridBudget;
use super::super::demand::HybridDemand;
use super::super::load::{Need, need};
use super::demand::ChunkDemand;
use super::plan::{PlannedSlot, Queues, serve};

/// Holds that are tried for a slot.
const HOLDS: usize = 24;

/// What slots are to reach.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// When circuits may send each chunk.
    pub release: &'a [u64],
    /// The largest lateness, which is the length if nothing has a deadline.
    pub late: i64,
    /// Share of the latest end from which on a line is urgent.
    pub urgent: f64,
}

/// Chunks released from some time on, or due by some time.
struct Set {
    from: u64,
    due: i64,
    /// When packets begin, and end if the target is met.
    packets: [u64; 2],
    room: u64,
    members: Vec<bool>,
    left: Vec<u64>,
    needs: Vec<Need>,
}

/// What a slot would do.
struct Choice {
    /// How much the latest end rises per time.
    rise: f64,
    /// Bytes per time.
    rate: f64,
    hold: u64,
    matching: Vec<i32>,
    start: u64,
}

/// Slots of a plan at most, and for each chunk and pair of lines: without a delay they may be so
/// short that there is no end of them.
const MAX_SLOTS: [usize; 2] = [1 << 10, 16];

/// Slots after which packets carry the rest by the target, or by their end if that is later;
/// nothing if the budget is spent before, or there would be too many.
pub(super) fn for_target(
    demand: &ChunkDemand,
    queues: &Queues,
    target: Target,
    budget: &HybridBudget,
) -> Option<Vec<PlannedSlot>> {
    let bytes = demand.bytes_where(|_| true);
    let whole = demand.part(&bytes).expect("it fits");
    let mut work = Work::new(demand, queues, whole, target);
    let mut slots = Vec::new();
    let [always, each] = MAX_SLOTS;
    let max_slots = always + each * (demand.chunks.len() + bytes.len());
    while work.is_in_need() {
        if budget.is_spent() || slots.len() >= max_slots {
            return None;
        }
        let turned = work.now.saturating_add(demand.delay);
        let later = target.release.iter().zip(&work.left);
        let later = later.filter(|one| *one.1 > 0 && *one.0 > turned).map(|one| *one.0).min();
        let choices = [Some(turned), later].into_iter().flatten();
        let better = |x: &Choice, y: &Choice| {
            (x.rise - 1e-9).total_cmp(&y.rise).then(y.rate.total_cmp(&x.rate))
        };
        let choice = choices.filter_map(|start| work.choose(start)).min_by(better);
        let Some(choice) = choice else {
            // Nothing that is here needs a circuit.
            let Some(later) = later else { break };
            work.now = later - demand.delay;
            continue;
        };
        work.serve(&choice);
        let not_before = if Some(choice.start) == later { choice.start } else { 0 };
        slots.push(PlannedSlot { matching: choice.matching, hold: choice.hold, not_before });
    }
    Some(slots)
}

struct Work<'a> {
    demand: &'a ChunkDemand<'a>,
    queues: &'a Queues,
    whole: HybridDemand<'a>,
    release: &'a [u64],
    urgent: f64,
    left: Vec<u64>,
    sets: Vec<Set>,
    last_due: i64,
    now: u64,
}

impl<'a> Work<'a> {
    fn new(
        demand: &'a ChunkDemand,
        queues: &'a Queues,
        whole: HybridDemand<'a>,
        target: Target<'a>,
    ) -> Self {
        let left: Vec<u64> = demand.chunks.iter().map(|chunk| chunk.bytes).collect();
        let dues = demand.dues();
        let last_due = dues.iter().copied().max().unwrap_or(0).cast_signed();
        let mut work = Self {
            demand,
            queues,
            whole,
            release: target.release,
            urgent: target.urgent,
            left,
            sets: Vec::new(),
            last_due,
            now: 0,
        };
        let mut releases: Vec<u64> = target.release.to_vec();
        releases.sort_unstable();
        releases.dedup();
        // Of many, some.
        let step = releases.len().div_ceil(12).max(1);
        for &from in releases.iter().step_by(step) {
            let members = target.release.iter().map(|&release| release >= from).collect();
            work.add_set(from, &dues, target.late, members);
        }
        if demand.has_deadlines() {
            for due in demand.thresholds(|chunk| chunk.deadline) {
                let members = dues.iter().map(|&own| own <= due).collect();
                work.add_set(0, &dues, target.late, members);
            }
        }
        work
    }

    fn add_set(&mut self, from: u64, dues: &[u64], late: i64, members: Vec<bool>) {
        let of = |times: &[u64]| -> Vec<u64> {
            times.iter().zip(&members).filter(|one| *one.1).map(|one| *one.0).collect()
        };
        let due = of(dues).into_iter().max().unwrap_or(0).cast_signed();
        let produced = of(&self.demand.releases()).into_iter().min().unwrap_or(0);
        let end = u64::try_from(due.saturating_add(late)).unwrap_or(0);
        let mut left = vec![0; self.demand.rows * self.demand.columns];
        for (chunk, _) in self.demand.chunks.iter().zip(&members).filter(|one| *one.1) {
            left[self.demand.cell(chunk)] += chunk.bytes;
        }
        let room = self.demand.rates.eps_bytes(end.saturating_sub(produced));
        let lines = 0..self.whole.lines();
        let needs = lines.map(|line| need(&self.whole, &left, room, line)).collect();
        let packets = [produced, end];
        self.sets.push(Set { from, due, packets, room, members, left, needs });
    }

    fn is_in_need(&self) -> bool {
        self.sets.iter().any(|set| set.needs.iter().any(|need| need.bytes > 0))
    }

    /// When a line would end at the earliest that needs so much for a set, before its due time.
    fn end(&self, set: &Set, need: Need, now: u64) -> f64 {
        if need.bytes == 0 {
            return (now.cast_signed() - self.last_due) as f64;
        }
        ((now.max(set.from) + need.load(self.demand.delay)).cast_signed() - set.due) as f64
    }

    /// The best slot that begins to send then; nothing if nobody in need has bytes by then.
    fn choose(&self, start: u64) -> Option<Choice> {
        let latest = self.latest_end();
        let matching = self.matching(start, latest)?;
        let joined = self.joined(&matching, start);
        let mut idle = vec![true; self.whole.lines()];
        for pair in &joined {
            pair.lines.iter().for_each(|&line| idle[line] = false);
        }
        // Latest end of an idle line, per set: its load, as time may pass the set's release.
        let load = |set: &Set| {
            let lines = idle.iter().zip(&set.needs).filter(|one| *one.0 && one.1.bytes > 0);
            lines.map(|one| one.1.load(self.demand.delay)).max()
        };
        let idle: Vec<Option<u64>> = self.sets.iter().map(load).collect();
        let try_hold = |hold: u64| {
            let (end, sent) = self.after(&joined, &idle, start + hold);
            let time = (start + hold - self.now) as f64;
            Choice {
                rise: (end - latest) / time,
                rate: sent as f64 / time,
                hold,
                matching: Vec::new(),
                start,
            }
        };
        let better = |x: &Choice, y: &Choice| {
            let tie = (x.rise - y.rise).abs() < 1e-9;
            let order = if tie { std::cmp::Ordering::Equal } else { x.rise.total_cmp(&y.rise) };
            order.then(y.rate.total_cmp(&x.rate))
        };
        let found = self.holds(&joined, start).into_iter().map(try_hold).min_by(better)?;
        Some(Choice { matching, ..found })
    }

    fn latest_end(&self) -> f64 {
        let ends = self
            .sets
            .iter()
            .flat_map(|set| set.needs.iter().map(|&need| self.end(set, need, self.now)));
        ends.fold(f64::MIN, f64::max)
    }

    /// A greedy matching of what is there by then, pairs of lines with late ends first.
    fn matching(&self, start: u64, latest: f64) -> Option<Vec<i32>> {
        let origin = (self.now.cast_signed() - self.last_due) as f64;
        let urgency = |set: &Set, line: usize| {
            let share = (self.end(set, set.needs[line], self.now) - origin) / (latest - origin);
            (share - self.urgent).max(0.0) / (1.0 - self.urgent)
        };
        let of_set = |set| (0..self.whole.lines()).map(|line| urgency(set, line)).collect();
        let urgencies: Vec<Vec<f64>> = self.sets.iter().map(of_set).collect();
        let mut keys = Vec::new();
        let longest = self.left.iter().copied().max().unwrap_or(0) as f64;
        let mut is_needed = false;
        for (cell, order) in self.queues.cells.iter().enumerate() {
            let here = |chunk: &u32| {
                self.left[*chunk as usize] > 0 && self.release[*chunk as usize] <= start
            };
            let bytes: u64 = order.iter().filter(|c| here(c)).map(|&c| self.left[c as usize]).sum();
            if bytes == 0 {
                continue;
            }
            let (mut key, mut wanted) = (0.0, false);
            for line in self.whole.lines_of(cell) {
                let mut urgent = 0.0_f64;
                for (set, urgencies) in self.sets.iter().zip(&urgencies) {
                    let wants = set.needs[line].bytes > 0 && set.left[cell] > set.needs[line].small;
                    if wants && order.iter().any(|c| set.members[*c as usize] && here(c)) {
                        wanted = true;
                        urgent = urgent.max(urgencies[line]);
                    }
                }
                key += longest * urgent;
            }
            is_needed |= wanted;
            // What packets carry anyway fills ports that would idle.
            keys.push((key + bytes as f64 * if wanted { 1.0 } else { 1e-18 }, cell));
        }
        keys.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        let mut matching = vec![-1; self.demand.rows];
        let mut used = vec![false; self.demand.columns];
        for (_, cell) in keys {
            let (row, column) = (cell / self.demand.columns, cell % self.demand.columns);
            if matching[row] < 0 && !used[column] {
                matching[row] = column as i32;
                used[column] = true;
            }
        }
        is_needed.then_some(matching)
    }
}

/// A pair that a slot joins, and what it would send if it were held on and on.
struct Joined {
    cell: usize,
    lines: [usize; 2],
    /// Chunk, when it begins, and bytes.
    sends: Vec<(u32, u64, u64)>,
}

impl Work<'_> {
    fn joined(&self, matching: &[i32], start: u64) -> Vec<Joined> {
        let mut left = self.left.clone();
        let pairs = matching.iter().enumerate().filter(|pair| *pair.1 >= 0);
        let join = |(row, &column): (usize, &i32)| {
            let cell = row * self.demand.columns + column as usize;
            let mut sends = Vec::new();
            let (order, window) = (&self.queues.cells[cell], [start, u64::MAX]);
            serve(order, &mut left, self.release, window, |chunk, from, bytes| {
                sends.push((chunk, from, bytes));
            });
            Joined { cell, lines: self.whole.lines_of(cell), sends }
        };
        pairs.map(join).collect()
    }

    /// Until pairs have sent all that is there, or what a line needs, or more is released.
    fn holds(&self, joined: &[Joined], start: u64) -> Vec<u64> {
        let mut holds = Vec::new();
        let mut next = u64::MAX;
        for pair in joined {
            let mut until = start;
            for &(_, from, bytes) in &pair.sends {
                if from > until {
                    holds.push(until - start);
                    next = next.min(from);
                }
                until = from + bytes;
            }
            holds.push(until - start);
            for line in pair.lines {
                let needs = self.sets.iter().map(|set| set.needs[line].bytes);
                holds.extend(needs.filter(|&bytes| bytes > 0 && bytes < until - start));
            }
        }
        if next < u64::MAX {
            holds.push(next - start);
        }
        holds.retain(|&hold| hold > 0);
        holds.sort_unstable();
        holds.dedup();
        let step = holds.len().div_ceil(HOLDS).max(1);
        holds.into_iter().rev().step_by(step).collect()
    }

    /// The latest end if these pairs send until then, and what they send.
    fn after(&self, joined: &[Joined], idle: &[Option<u64>], until: u64) -> (f64, u64) {
        let mut end = (until.cast_signed() - self.last_due) as f64;
        for (set, load) in self.sets.iter().zip(idle) {
            if let Some(load) = load {
                end = end.max(((until.max(set.from) + load).cast_signed() - set.due) as f64);
            }
        }
        let mut all = 0;
        for pair in joined {
            let sent = |&(_, from, bytes): &(u32, u64, u64)| bytes.min(until.saturating_sub(from));
            all += pair.sends.iter().map(sent).sum::<u64>();
            for set in &self.sets {
                let own = pair.sends.iter().filter(|one| set.members[one.0 as usize]);
                let bytes = own.map(sent).sum::<u64>();
                for line in pair.lines {
                    let need = set.needs[line];
                    let is_done = bytes == set.left[pair.cell] && bytes > need.small;
                    let left = Need {
                        bytes: need.bytes.saturating_sub(bytes),
                        pairs: need.pairs - u64::from(is_done && need.pairs > 0),
                        small: need.small,
                    };
                    end = end.max(self.end(set, left, until));
                }
            }
        }
        (end, all)
    }

    fn serve(&mut self, choice: &Choice) {
        let window = [choice.start, choice.start + choice.hold];
        self.now = window[1];
        for set in &mut self.sets {
            let [from, end] = set.packets;
            let room = self.demand.rates.eps_bytes(end.max(self.now).saturating_sub(from));
            if room > set.room {
                // Packets carry on while circuits are later than the target.
                set.room = room;
                set.needs.fill(Need { bytes: u64::MAX, ..Need::default() });
            }
        }
        for (row, &column) in choice.matching.iter().enumerate().filter(|pair| *pair.1 >= 0) {
            let cell = row * self.demand.columns + column as usize;
            let (order, sets) = (&self.queues.cells[cell], &mut self.sets);
            serve(order, &mut self.left, self.release, window, |chunk, _, bytes| {
                for set in sets.iter_mut().filter(|set| set.members[chunk as usize]) {
                    set.left[cell] -= bytes;
                    for line in self.whole.lines_of(cell) {
                        set.needs[line].bytes = u64::MAX;
                    }
                }
            });
        }
        for Set { room, left, needs, .. } in &mut self.sets {
            for (line, known) in needs.iter_mut().enumerate().filter(|one| one.1.bytes == u64::MAX)
            {
                *known = need(&self.whole, left, *room, line);
            }
        }
    }
}
