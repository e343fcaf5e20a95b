//! The turn of an all-to-all: matchings that carry its bytes, one after another.

use super::slots::TurnTiming;
use lightloom_model::{Duration, Invalid, Rate};
use lightloom_schedule::permutation::{Budget, Demand, Matchings, Method, decompose_within};
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

/// What happens in a turn, in times from its begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TurnPlan {
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

/// Sends pieces by matchings that a method finds; two ports have one piece at most.
///
/// # Errors
/// If slots lose so much time, or pieces are so large, that no schedule is found.
pub(super) fn in_matchings(
    pieces: &[Piece],
    method: Method,
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
    let demand = Demand::new(rows.len(), columns.len(), &left, timing.overhead_bytes(rate), false)
        .map_err(|Invalid(text)| Invalid(format!("crossbar: {text}")))?;
    let schedule = decompose_within(&demand, method, &Budget::unlimited());
    let Matchings::Slots(slots) = schedule.plan else {
        unreachable!("all ports stop while crossbars turn")
    };
    let mut plan = TurnPlan { arrivals: vec![Duration::ZERO; pieces.len()], ..TurnPlan::default() };
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
            let plan = in_matchings(&pieces, method, &TIMING, RATE).unwrap();
            assert_eq!((plan.slots, plan.end), (2, Duration((60 + 2 * 3) * US)));
            assert_eq!(plan.arrivals.iter().max(), Some(&plan.end));
            assert_eq!(plan.circuits.len(), 6);
        }
    }

    #[test]
    fn one_pair_has_one_circuit() {
        let plan = in_matchings(&[piece(4, 9, 500_000)], Method::Bvn, &TIMING, RATE).unwrap();
        assert_eq!((plan.slots, plan.end), (1, Duration(13 * US)));
        let held = Held { from: 4, to: 9, begin: Duration::ZERO, end: Duration(13 * US) };
        assert_eq!(plan.circuits, [held]);
    }

    proptest! {
        /// The matchings of any demand are matchings, and carry each piece in the time that it is
        /// joined, no sooner than its busiest port could.
        #[test]
        fn no_port_has_two_circuits_at_once(
            sizes in prop::collection::vec(0_u64..3_000_000, 20),
            method in prop::sample::select(Method::single().collect::<Vec<Method>>()),
            length in prop::option::of(4 * US..200 * US),
        ) {
            let timing = TurnTiming { length: length.map(Duration), ..TIMING };
            let all = sizes.iter().enumerate();
            let pieces: Vec<Piece> = all
                .filter(|&(_, &bytes)| bytes > 0)
                .map(|(cell, &bytes)| piece(cell as u32 / 5, 100 + cell as u32 % 5, bytes))
                .collect();
            let plan = in_matchings(&pieces, method, &timing, RATE).unwrap();
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
