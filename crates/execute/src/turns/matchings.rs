//! The turn of an all-to-all: matchings that carry its bytes, one after another.

use super::slots::{TurnTiming, bytes_in};
use lightloom_model::{Duration, Invalid, Rate};
use lightloom_schedule::permutation::{Demand, Matchings, Method, Slots, decompose_below};
use rustc_hash::FxHashMap;

/// Bytes from one port to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Where they enter the crossbars.
    pub from: u32,
    /// Where they leave them.
    pub to: u32,
    /// Size.
    pub bytes: u64,
}

/// A circuit of a turn, in times from its begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    /// Where it enters the crossbars.
    pub from: u32,
    /// Where it leaves them.
    pub to: u32,
    /// When the crossbars begin to turn for it.
    pub begin: Duration,
    /// When they may turn for another one.
    pub end: Duration,
}

/// What happens in the turn of an all-to-all, in times from its begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TurnPlan {
    /// How long it took to find its matchings.
    pub deciding: Duration,
    /// When each piece has arrived.
    pub arrivals: Vec<Duration>,
    /// When all ports are free again.
    pub end: Duration,
    /// Matchings.
    pub slots: u64,
    /// The circuits of all matchings.
    pub circuits: Vec<Held>,
}

/// The ports of one side in the order in which pieces name them.
fn lines(ports: impl Iterator<Item = u32>) -> (Vec<u32>, FxHashMap<u32, usize>) {
    let (mut all, mut index) = (Vec::new(), FxHashMap::default());
    for port in ports {
        index.entry(port).or_insert_with(|| {
            all.push(port);
            all.len() - 1
        });
    }
    (all, index)
}

/// The matchings that end first, of methods that take so long to find them, and how long it took;
/// of equals those of the earlier method.
fn first_to_end(
    demand: &Demand,
    methods: impl Iterator<Item = (Method, Duration)>,
    timing: &TurnTiming,
    rate: Rate,
) -> (Slots, Duration) {
    let mut best: Option<(Duration, Slots, Duration)> = None;
    for (method, deciding) in methods {
        // No slot carries more than its length does.
        let below = best.as_ref().map_or(u64::MAX, |(end, _, _)| {
            bytes_in(Duration(end.0.saturating_sub(deciding.0)), rate).saturating_add(1)
        });
        let Some(plan) = decompose_below(demand, method, below) else { continue };
        let Matchings::Slots(slots) = plan else {
            unreachable!("all ports stop while crossbars turn")
        };
        let end = deciding + timing.matchings(&slots.holds, rate);
        if best.as_ref().is_none_or(|(earliest, _, _)| end < *earliest) {
            best = Some((end, slots, deciding));
        }
    }
    let (_, slots, deciding) = best.expect("a first method has no limit");
    (slots, deciding)
}

/// Sends pieces by the matchings that end first, of methods that take so long to find them; two
/// ports have one piece at most.
///
/// # Errors
/// If slots lose so much time, or pieces are so large, that no schedule is found.
pub(super) fn in_matchings(
    pieces: &[Piece],
    methods: impl Iterator<Item = (Method, Duration)>,
    timing: &TurnTiming,
    rate: Rate,
) -> Result<TurnPlan, Invalid> {
    let (rows, row_of) = lines(pieces.iter().map(|piece| piece.from));
    let (columns, column_of) = lines(pieces.iter().map(|piece| piece.to));
    let mut left = vec![0_u64; rows.len() * columns.len()];
    let cell = |piece: &Piece| row_of[&piece.from] * columns.len() + column_of[&piece.to];
    let mut piece_of = vec![usize::MAX; left.len()];
    for (number, piece) in pieces.iter().enumerate() {
        left[cell(piece)] += piece.bytes;
        piece_of[cell(piece)] = number;
    }
    let delay = bytes_in(timing.overhead(), rate);
    let demand = Demand::new(rows.len(), columns.len(), &left, delay, false)
        .map_err(|Invalid(text)| Invalid(format!("crossbar: {text}")))?;
    let (slots, deciding) = first_to_end(&demand, methods, timing, rate);
    let arrivals = vec![Duration::ZERO; pieces.len()];
    let mut plan = TurnPlan { deciding, arrivals, ..TurnPlan::default() };
    let mut begin = Duration::ZERO;
    for (matching, &hold) in slots.matchings.chunks_exact(rows.len()).zip(&slots.holds) {
        let (length, _) = timing.matching(hold, hold, rate);
        for (row, &column) in matching.iter().enumerate() {
            let Ok(column) = usize::try_from(column) else { continue };
            let cell = row * columns.len() + column;
            let sent = left[cell].min(hold);
            if sent == 0 {
                continue;
            }
            left[cell] -= sent;
            let (_, arrival) = timing.matching(hold, sent, rate);
            let arrived = &mut plan.arrivals[piece_of[cell]];
            *arrived = (begin + arrival).max(*arrived);
            let (from, to) = (rows[row], columns[column]);
            plan.circuits.push(Held { from, to, begin, end: begin + length });
        }
        plan.slots += 1;
        begin += length;
    }
    assert!(left.iter().all(|&bytes| bytes == 0), "a schedule sends all of its demand");
    // What is on its way when the last slot ends holds nobody up: the next turn begins dark.
    plan.end = begin;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const US: u64 = 1_000_000;
    const RATE: Rate = Rate(400_000_000_000);
    const TIMING: TurnTiming = TurnTiming {
        latency: Duration(2 * US),
        guard: Duration(US),
        length: None,
        is_aligned: false,
        is_held: false,
    };

    fn piece(from: u32, to: u32, bytes: u64) -> Piece {
        Piece { from, to, bytes }
    }

    /// Between four rows and five columns.
    fn pieces_of(sizes: &[u64]) -> Vec<Piece> {
        let wanted = sizes.iter().enumerate().filter(|&(_, &bytes)| bytes > 0);
        wanted.map(|(cell, &bytes)| piece(cell as u32 / 5, 100 + cell as u32 % 5, bytes)).collect()
    }

    fn by(pieces: &[Piece], method: Method, timing: &TurnTiming) -> TurnPlan {
        in_matchings(pieces, [(method, Duration::ZERO)].into_iter(), timing, RATE).unwrap()
    }

    #[test]
    fn a_doubly_stochastic_demand_takes_its_line_and_an_overhead_per_matching() {
        // Three ports, two cyclic shifts: 20 us and 40 us.
        let pieces: Vec<Piece> = (0..3)
            .flat_map(|from| {
                [(1, 1_000_000), (2, 2_000_000)]
                    .map(|(shift, bytes)| piece(from, 10 + (from + shift) % 3, bytes))
            })
            .collect();
        for method in [Method::Bvn, Method::Critical, Method::Auto] {
            let plan = by(&pieces, method, &TIMING);
            assert_eq!((plan.slots, plan.end), (2, Duration((60 + 2 * 3) * US)));
            assert_eq!(plan.arrivals.iter().max(), Some(&plan.end));
            assert_eq!(plan.circuits.len(), 6);
        }
    }

    #[test]
    fn one_pair_has_one_circuit() {
        let plan = by(&[piece(4, 9, 500_000)], Method::Bvn, &TIMING);
        assert_eq!((plan.slots, plan.end), (1, Duration(13 * US)));
        let held = Held { from: 4, to: 9, begin: Duration::ZERO, end: Duration(13 * US) };
        assert_eq!(plan.circuits, [held]);
    }

    proptest! {
        /// Whatever is slower is left out early, and nothing else.
        #[test]
        fn nothing_that_was_tried_ends_before_what_is_chosen(
            sizes in prop::collection::vec(0_u64..3_000_000, 20),
            deciding in prop::collection::vec(0..100 * US, 9),
            length in prop::option::of(4 * US..200 * US),
        ) {
            let timing = TurnTiming { length: length.map(Duration), ..TIMING };
            let pieces = pieces_of(&sizes);
            let all: Vec<(Method, Duration)> =
                Method::single().zip(deciding.into_iter().map(Duration)).collect();
            let chosen = in_matchings(&pieces, all.iter().copied(), &timing, RATE).unwrap();
            let ends = all.into_iter().map(|one| {
                let plan = in_matchings(&pieces, [one].into_iter(), &timing, RATE).unwrap();
                plan.deciding + plan.end
            });
            prop_assert_eq!(ends.min(), Some(chosen.deciding + chosen.end));
        }

        /// Cyclic shifts alone last as long as their largest pairs. So where each pair wants more
        /// than equal demand by a share at most, an all-to-all takes longer by that share at most.
        #[test]
        fn a_little_imbalance_costs_as_little(
            bytes in 1_u64..3_000_000,
            share in 0.0..0.2,
            draws in prop::collection::vec(0.0..1.0, 25),
            deciding in 0..100 * US,
        ) {
            let more = |draw: f64| bytes + (bytes as f64 * share * draw) as u64;
            let methods = [Method::RoundRobin, Method::Bvn, Method::Greedy, Method::Threshold];
            let time = |pieces: &[Piece]| {
                let all = methods.iter().map(|&method| (method, Duration(deciding)));
                let plan = in_matchings(pieces, all, &TIMING, RATE).unwrap();
                (plan.deciding + plan.end).0 as f64
            };
            let of = |size: &dyn Fn(usize) -> u64| {
                (0..25)
                    .filter(|cell| cell / 5 != cell % 5)
                    .map(|cell| piece(cell as u32 / 5, 100 + cell as u32 % 5, size(cell)))
                    .collect::<Vec<Piece>>()
            };
            let (equal, noisy) = (of(&|_| bytes), of(&|cell| more(draws[cell])));
            prop_assert!(time(&noisy) <= time(&equal) * (1.0 + share));
        }

        /// The matchings of any demand are matchings, and carry each piece in the time that it is
        /// joined, no sooner than its busiest port could.
        #[test]
        fn no_port_has_two_circuits_at_once(
            sizes in prop::collection::vec(0_u64..3_000_000, 20),
            method in prop::sample::select(Method::single().collect::<Vec<Method>>()),
            length in prop::option::of(4 * US..200 * US),
        ) {
            let timing = TurnTiming { length: length.map(Duration), ..TIMING };
            let pieces = pieces_of(&sizes);
            let plan = by(&pieces, method, &timing);
            for side in [|held: &Held| held.from, |held: &Held| held.to] {
                let mut spans: Vec<(u32, Duration, Duration)> =
                    plan.circuits.iter().map(|held| (side(held), held.begin, held.end)).collect();
                spans.sort_unstable();
                for two in spans.windows(2) {
                    prop_assert!(two[0].0 != two[1].0 || two[0].2 <= two[1].1);
                }
            }
            for (piece, &arrival) in pieces.iter().zip(&plan.arrivals) {
                let own = |held: &&Held| (held.from, held.to) == (piece.from, piece.to);
                let spans = plan.circuits.iter().filter(own).map(|held| held.end.0 - held.begin.0);
                let joined: u64 = spans.sum();
                prop_assert!(joined >= piece.bytes * 20);
                prop_assert!(arrival <= plan.end);
            }
            let of = |port| pieces.iter().filter(move |piece| piece.from == port);
            let sums = (0..4).map(|port| of(port).map(|piece| piece.bytes).sum());
            let busiest: u64 = sums.max().unwrap_or(0);
            prop_assert!(plan.end.0 >= busiest * 20);
        }
    }
}
