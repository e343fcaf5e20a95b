//! Relaying between the slots of hybrid schedules: closed forms, linear programs, replay.

use crate::common::regimes::{self, Random};
use crate::common::simplex::{Program, Row};
use lightloom_model::Rate;
use lightloom_schedule::hybrid::{
    HybridBudget, HybridDemand, HybridMethod, HybridRelay, HybridSchedule, PortRates, check_hybrid,
    relay_hybrid, schedule_hybrid,
};
use proptest::prelude::*;

fn demand(bytes: &[u64], delay: u64, [circuit, eps]: [u64; 2]) -> HybridDemand<'_> {
    let n = bytes.len().isqrt();
    let rates = PortRates { circuit: Rate(circuit), eps: Rate(eps) };
    HybridDemand::new(n, n, bytes, delay, rates).unwrap()
}

/// The schedule without and with relaying.
fn both(demand: &HybridDemand, method: HybridMethod) -> [HybridSchedule; 2] {
    let plain = schedule_hybrid(demand, method);
    let found = relay_hybrid(demand, plain.clone(), &HybridBudget::USUAL).unwrap();
    check_hybrid(demand, &found).unwrap_or_else(|error| panic!("{method:?}: {error}"));
    [plain, found]
}

fn relays(found: &HybridSchedule) -> &[HybridRelay] {
    found.relays.as_deref().expect("relaying was allowed")
}

/// Each of n servers sends these bytes to the next one, the one after it, and so on.
fn shifts(n: usize, sizes: &[u64]) -> Vec<u64> {
    let cell = |cell: usize| {
        let step = (cell % n + n - cell / n) % n;
        step.checked_sub(1).and_then(|step| sizes.get(step)).copied().unwrap_or(0)
    };
    (0..n * n).map(cell).collect()
}

/// Shifts of a, b and c bytes: two slots carry the third shift by one hop of each, which takes c
/// twice and saves a delay. With packets at a share s, T (1 + 2 s) = a + b + 2 c + 2 delay.
#[test]
fn the_smallest_shift_goes_over_the_two_others() {
    for n in [4, 5, 9] {
        let bytes = shifts(n, &[500_000, 400_000, 20_000]);
        let demand = demand(&bytes, 100_000, [100, 1]);
        let [plain, found] = both(&demand, HybridMethod::Balanced);
        let (twice, once) = (1_140_000.0 / 1.02, 1_220_000.0 / 1.01);
        assert_eq!((plain.slots.len(), found.slots.len()), (3, 2));
        assert!((plain.length as f64 - once).abs() < 2.0, "{} {once}", plain.length);
        assert!((found.length as f64) < twice * 1.001, "{} {twice}", found.length);
        // The bound knows that bytes over a relay take two circuits, and is met.
        assert_eq!(found.lower_bound, twice.ceil() as u64);
        assert!(relays(&found).iter().all(|relay| (relay.first, relay.second) == (0, 1)));
    }
}

#[test]
fn nothing_is_relayed_where_a_slot_costs_less() {
    for (delay, third) in [(0, 20_000), (10_000, 20_000), (100_000, 300_000)] {
        let bytes = shifts(5, &[500_000, 400_000, third]);
        let [plain, found] = both(&demand(&bytes, delay, [100, 1]), HybridMethod::Balanced);
        assert_eq!((relays(&found), found.length), (&[][..], plain.length));
        assert_eq!((&found.slots, &found.eps), (&plain.slots, &plain.eps));
        assert!(found.lower_bound <= plain.lower_bound);
    }
}

#[test]
fn relaying_expects_servers_that_send_and_receive() {
    let rates = PortRates { circuit: Rate(4), eps: Rate(1) };
    let demand = HybridDemand::new(2, 3, &[5; 6], 1, rates).unwrap();
    let plain = schedule_hybrid(&demand, HybridMethod::Balanced);
    let refused = relay_hybrid(&demand, plain, &HybridBudget::USUAL).unwrap_err();
    assert_eq!(refused.0, "relaying expects a square demand, got 2 x 3");
}

/// Two hops in the time-expanded network of given matchings, as a linear program: the shortest
/// length over all holds and routes. It is the dual that is solved, for which nothing is a start.
fn shortest(
    bytes: &[u64],
    delay: u64,
    [circuit, eps]: [u64; 2],
    matchings: &[Vec<Option<usize>>],
) -> f64 {
    let (n, slots) = (bytes.len().isqrt(), matchings.len());
    let share = eps as f64 / circuit as f64;
    let delays = slots as f64 * delay as f64;
    // Multipliers: of each port in each slot, of each pair, of each line.
    let (port, pair) = (|slot: usize, row: usize| slot * n + row, |cell: usize| slots * n + cell);
    let line = |line: usize| slots * n + n * n + line;
    let width = line(2 * n);
    let mut rows = Vec::new();
    for slot in 0..slots {
        let mut coefficients = vec![0.0; width];
        (0..n).for_each(|row| coefficients[port(slot, row)] = 1.0);
        (0..2 * n).for_each(|index| coefficients[line(index)] = share);
        rows.push(Row { coefficients, bound: 1.0 });
    }
    let mut path = |ports: &[usize], from: usize, to: usize| {
        let mut coefficients = vec![0.0; width];
        for &port in ports {
            coefficients[port] = -1.0;
        }
        coefficients[pair(from * n + to)] = -1.0;
        coefficients[line(from)] += 1.0;
        coefficients[line(n + to)] += 1.0;
        rows.push(Row { coefficients, bound: 0.0 });
    };
    for (first, matching) in matchings.iter().enumerate() {
        for (from, relay) in matching.iter().enumerate() {
            let Some(relay) = *relay else { continue };
            path(&[port(first, from)], from, relay);
            for (second, later) in matchings.iter().enumerate().skip(first + 1) {
                let Some(to) = later[relay] else { continue };
                if relay != from && to != relay && to != from {
                    path(&[port(first, from), port(second, relay)], from, to);
                }
            }
        }
    }
    let mut objective = vec![0.0; width];
    for (cell, &bytes) in bytes.iter().enumerate() {
        objective[pair(cell)] = -(bytes as f64);
        objective[line(cell / n)] += bytes as f64;
        objective[line(n + cell % n)] += bytes as f64;
    }
    (0..2 * n).for_each(|index| objective[line(index)] -= share * delays);
    let optimum = Program { objective, rows }.maximize().expect("packets alone are enough");
    delays + optimum.value
}

fn matchings(found: &HybridSchedule, n: usize) -> Vec<Vec<Option<usize>>> {
    let column = |&to: &i32| usize::try_from(to).ok();
    found.slots.matchings.chunks_exact(n).map(|slot| slot.iter().map(column).collect()).collect()
}

#[test]
fn holds_and_routes_are_near_the_linear_program_of_their_slots() {
    let mut relayed = 0;
    for (seed, kind) in (1..).zip(regimes::KINDS.into_iter().cycle().take(12)) {
        let bytes = regimes::demand(kind, 5, &mut Random(seed * 104_729));
        let rates = [[10, 1], [4, 1]][seed as usize % 2];
        let demand = demand(&bytes, 30_000_000, rates);
        let [_, found] = both(&demand, HybridMethod::Balanced);
        let exact = shortest(&bytes, 30_000_000, rates, &matchings(&found, 5));
        let over = found.length as f64 / exact;
        assert!((0.999_999..1.002).contains(&over), "{kind} {seed}: {over}");
        relayed += usize::from(!relays(&found).is_empty());
    }
    assert!(relayed >= 4, "{relayed} of 12");
}

/// All sequences of up to three matchings of three servers, each with its best holds and routes.
#[test]
fn no_sequence_of_matchings_is_below_the_bound_or_much_shorter() {
    let all = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let all = all.map(|to| to.map(Some).to_vec());
    let mut random = Random(5);
    let (mut over, mut cases) = (0.0, 0.0);
    for delay in [100, 1_000, 3_000] {
        for rates in [[10, 1], [3, 1]] {
            let bytes: Vec<u64> = (0..9)
                .map(|cell| if cell % 4 == 0 { 0 } else { (random.uniform() * 9_999.0) as u64 })
                .collect();
            let demand = demand(&bytes, delay, rates);
            let sum = |cell: fn(usize, usize) -> usize, line| {
                (0..3).map(|other| bytes[cell(line, other)]).sum::<u64>() as f64
            };
            let row = |line| sum(|row, column| row * 3 + column, line);
            let column = |line| sum(|column, row| row * 3 + column, line);
            let packets = (0..3).map(|line| row(line).max(column(line))).fold(0.0, f64::max);
            let mut best = packets * rates[0] as f64 / rates[1] as f64;
            for count in 1..=3 {
                for index in 0..6_usize.pow(count) {
                    let slots = (0..count).map(|place| all[index / 6_usize.pow(place) % 6].clone());
                    let slots: Vec<_> = slots.collect();
                    best = best.min(shortest(&bytes, delay, rates, &slots));
                }
            }
            let [_, found] = both(&demand, HybridMethod::Balanced);
            assert!((found.lower_bound as f64) < best + 1.0, "{} {best}", found.lower_bound);
            over += found.length as f64 / best;
            cases += 1.0;
        }
    }
    assert!(over / cases < 1.02, "{}", over / cases);
}

/// One true schedule, and ways to claim something wrong about its relays.
#[test]
fn wrong_relays_are_seen() {
    let bytes = shifts(4, &[500_000, 400_000, 20_000]);
    let demand = demand(&bytes, 100_000, [100, 1]);
    let [_, right] = both(&demand, HybridMethod::Balanced);
    let refused = |change: &dyn Fn(&mut HybridRelay)| {
        let mut wrong = right.clone();
        change(&mut wrong.relays.as_mut().unwrap()[0]);
        check_hybrid(&demand, &wrong).unwrap_err().0
    };
    let one = relays(&right)[0];
    let tail = |text: String| text.replace("hybrid schedule: relay 0: ", "");
    assert_eq!(
        tail(refused(&|relay| relay.relay = 9)),
        "not between servers that send and receive"
    );
    assert_eq!(tail(refused(&|relay| relay.relay = one.source)), "not over a third server");
    assert_eq!(tail(refused(&|relay| relay.second = 0)), "slot 0 is not after slot 0");
    assert_eq!(tail(refused(&|relay| relay.second = 2)), "slot 2 is not after slot 0");
    let other = (0..4).find(|x| ![one.source, one.relay, one.destination].contains(x)).unwrap();
    assert_eq!(
        tail(refused(&|relay| relay.destination = other)),
        format!("slot 1 does not join {} to {other}", one.relay)
    );
    assert_eq!(
        tail(refused(&|relay| relay.bytes = 1 << 50)),
        format!("slot 0: {} cannot send {} bytes more", one.source, 1_u64 << 50)
    );
    let mut more = right.clone();
    more.slots.holds.iter_mut().for_each(|hold| *hold += 50_000);
    more.relays.as_mut().unwrap()[0].bytes += 20_000;
    assert!(check_hybrid(&demand, &more).unwrap_err().0.ends_with(" relayed"));
    // Each fits into the slot, all together do not.
    let mut many = right.clone();
    many.relays = Some(vec![one; 1_000]);
    assert!(check_hybrid(&demand, &many).unwrap_err().0.contains("cannot send"));
    // What is relayed less nobody carries, as all circuits are busy.
    assert!(refused(&|relay| relay.bytes -= 1_000).contains("carry"));
    let unaware = HybridSchedule { relays: None, ..right };
    assert!(check_hybrid(&demand, &unaware).is_err());
}

/// Bytes of each pair that arrive, and what servers keep for others at most, slot by slot.
fn replayed(found: &HybridSchedule, n: usize) -> (Vec<u64>, Vec<u64>) {
    let mut arrived = found.eps.clone();
    let mut kept = vec![0_u64; n];
    let mut peaks = vec![0; n];
    for slot in 0..found.slots.len() as u32 {
        let mut sent = vec![0; n];
        for relay in relays(found).iter().filter(|relay| relay.first == slot) {
            sent[relay.source as usize] += relay.bytes;
            kept[relay.relay as usize] += relay.bytes;
        }
        (0..n).for_each(|server| peaks[server] = peaks[server].max(kept[server]));
        for relay in relays(found).iter().filter(|relay| relay.second == slot) {
            sent[relay.relay as usize] += relay.bytes;
            kept[relay.relay as usize] -= relay.bytes;
            arrived[(relay.source as usize) * n + relay.destination as usize] += relay.bytes;
        }
        for row in 0..n {
            if let Ok(to) = usize::try_from(found.slots.matchings[slot as usize * n + row]) {
                arrived[row * n + to] += found.slots.holds[slot as usize] - sent[row];
            }
        }
    }
    assert!(kept.iter().all(|&bytes| bytes == 0), "bytes stay at a relay");
    (arrived, peaks)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn all_bytes_arrive_no_later_than_without_relays(
        seed in 1..u64::MAX,
        n in 1..8_usize,
        delay in 0..300_000_u64,
        eps in 1..12_u64,
        power in 0..5,
    ) {
        let mut random = Random(seed);
        let bytes: Vec<u64> =
            (0..n * n).map(|_| (1e6 * random.uniform().powi(power)) as u64).collect();
        let demand = demand(&bytes, delay, [12, eps]);
        for &method in HybridMethod::ALL {
            let [plain, found] = both(&demand, method);
            prop_assert!(found.length <= plain.length);
            prop_assert!(found.lower_bound <= plain.lower_bound);
            let (arrived, memory) = replayed(&found, n);
            prop_assert!(arrived.iter().zip(&bytes).all(|(arrived, bytes)| arrived >= bytes));
            prop_assert_eq!(memory, found.relay_memory(n));
        }
    }
}

/// The table of `benches/RESULTS.md` in small.
#[test]
fn relaying_saves_slots_where_delays_are_long() {
    for (kind, limit) in [("mixtral", 0.97), ("pair", 0.97), ("sparse", 1.0), ("uniform", 0.97)] {
        let (mut sum, mut cases) = (0.0, 0.0);
        for seed in 1..3 {
            let bytes = regimes::demand(kind, 10, &mut Random(seed * 7_919));
            for rates in [[10, 1], [4, 1]] {
                let demand = demand(&bytes, 40_000_000, rates);
                let [plain, found] = both(&demand, HybridMethod::Balanced);
                assert!(found.slots.len() <= plain.slots.len());
                sum += found.length as f64 / plain.length as f64;
                cases += 1.0;
            }
        }
        assert!(sum / cases <= limit, "{kind}: {}", sum / cases);
    }
}
