//! Changes in batches: what a switch holds after each, and that no pair goes dark without need.

use crate::common::cases::Random;
use lightloom_schedule::{ChangeBatch, ChangeBatches, NicCircuit, NicEnd, plan_batches};
use std::collections::BTreeSet;

type Circuits = BTreeSet<NicCircuit>;

fn joined(a: (u32, u32), b: (u32, u32)) -> NicCircuit {
    NicCircuit { a: NicEnd { server: a.0, nic: a.1 }, b: NicEnd { server: b.0, nic: b.1 } }
}

fn pair(circuit: &NicCircuit) -> (u32, u32) {
    (circuit.a.server, circuit.b.server)
}

/// Circuits on random NICs; one switch joins any two.
fn drawn(servers: u32, nics: u32, share: f64, random: &mut Random) -> Vec<NicCircuit> {
    let mut ends: Vec<NicEnd> =
        (0..servers).flat_map(|server| (0..nics).map(move |nic| NicEnd { server, nic })).collect();
    for i in (1..ends.len()).rev() {
        ends.swap(i, (random.uniform() * (i + 1) as f64) as usize);
    }
    let pairs = ends.chunks_exact(2).filter(|pair| pair[0].server != pair[1].server);
    let mut found: Vec<NicCircuit> = pairs
        .map(|pair| NicCircuit { a: pair[0].min(pair[1]), b: pair[0].max(pair[1]) })
        .filter(|_| random.uniform() < share)
        .collect();
    found.sort_unstable();
    found
}

/// Pairs that must have a live circuit all the time.
fn protected(from: &[NicCircuit], to: &[NicCircuit], has_eps: &[bool]) -> BTreeSet<(u32, u32)> {
    let after: BTreeSet<(u32, u32)> = to.iter().map(pair).collect();
    let without = |p: &(u32, u32)| !(has_eps[p.0 as usize] && has_eps[p.1 as usize]);
    from.iter().map(pair).filter(|p| after.contains(p) && without(p)).collect()
}

/// Makes the change, batch by batch; returns the pairs that went dark.
fn replay(
    from: &[NicCircuit],
    to: &[NicCircuit],
    has_eps: &[bool],
    plan: &ChangeBatches,
) -> Vec<(u32, u32)> {
    let mut held: Circuits = from.iter().copied().collect();
    let mut dark = BTreeSet::new();
    for batch in &plan.batches {
        assert!(batch.pairs() > 0, "a batch of nothing");
        for circuit in &batch.delete {
            assert!(held.remove(circuit), "{circuit:?} is not there");
        }
        let live: BTreeSet<(u32, u32)> = held.iter().map(pair).collect();
        dark.extend(protected(from, to, has_eps).difference(&live).copied());
        for circuit in &batch.create {
            let ends = held.iter().flat_map(|held| [held.a, held.b]);
            let busy: BTreeSet<NicEnd> = ends.collect();
            assert!(!busy.contains(&circuit.a) && !busy.contains(&circuit.b), "{circuit:?}");
            held.insert(*circuit);
        }
    }
    assert_eq!(held, to.iter().copied().collect());
    let touched = plan.batches.iter().map(|batch| batch.delete.len() + batch.create.len());
    let kept = from.iter().filter(|circuit| to.contains(circuit)).count();
    assert_eq!(touched.sum::<usize>(), from.len() + to.len() - 2 * kept, "more than needed");
    dark.into_iter().collect()
}

#[test]
fn batches_lead_there_and_name_who_goes_dark() {
    let mut random = Random(1);
    let mut batches = 0;
    for round in 0..400 {
        let (servers, nics) = (3 + round % 5, 1 + round / 5 % 4);
        let from = drawn(servers, nics, 0.8, &mut random);
        let to = drawn(servers, nics, 0.8, &mut random);
        let has_eps: Vec<bool> = (0..servers).map(|_| random.uniform() < 0.3).collect();
        let max_pairs = 2 + (random.uniform() * 6.0) as usize;
        let plan = plan_batches(&from, &to, &has_eps, max_pairs);
        assert_eq!(replay(&from, &to, &has_eps, &plan), plan.dark, "{round}");
        assert!(plan.batches.iter().all(|batch| batch.pairs() <= max_pairs), "{round}");
        batches += plan.batches.len();
    }
    assert!(batches > 600, "{batches}");
}

/// Whether the change can be made one circuit at a time without a pair going dark, by trying all.
fn is_possible(
    held: &Circuits,
    to: &Circuits,
    kept_lit: &BTreeSet<(u32, u32)>,
    seen: &mut BTreeSet<Circuits>,
) -> bool {
    if held == to {
        return true;
    }
    if !seen.insert(held.clone()) {
        return false;
    }
    let lit = |held: &Circuits, p: (u32, u32)| held.iter().any(|circuit| pair(circuit) == p);
    let deleted = held.difference(to).filter_map(|circuit| {
        let mut next = held.clone();
        next.remove(circuit);
        (!kept_lit.contains(&pair(circuit)) || lit(&next, pair(circuit))).then_some(next)
    });
    let busy: BTreeSet<NicEnd> = held.iter().flat_map(|circuit| [circuit.a, circuit.b]).collect();
    let created = to.difference(held).filter_map(|circuit| {
        let fits = !busy.contains(&circuit.a) && !busy.contains(&circuit.b);
        fits.then(|| held.iter().copied().chain([*circuit]).collect::<Circuits>())
    });
    let next: Vec<Circuits> = created.chain(deleted).collect();
    next.iter().any(|next| is_possible(next, to, kept_lit, seen))
}

#[test]
fn no_pair_goes_dark_where_brute_force_keeps_all_lit() {
    let mut random = Random(8);
    let (mut possible, mut impossible) = (0, 0);
    for round in 0..500 {
        let (servers, nics) = (2 + round % 3, 1 + round / 3 % 3);
        let from = drawn(servers, nics, 0.9, &mut random);
        let to = drawn(servers, nics, 0.9, &mut random);
        let has_eps = vec![false; servers as usize];
        let kept_lit = protected(&from, &to, &has_eps);
        let (held, goal) = (from.iter().copied().collect(), to.iter().copied().collect());
        let can = is_possible(&held, &goal, &kept_lit, &mut BTreeSet::new());
        let plan = plan_batches(&from, &to, &has_eps, usize::MAX);
        assert_eq!(plan.dark.is_empty(), can, "{round}: {from:?} to {to:?}");
        *(if can { &mut possible } else { &mut impossible }) += 1;
    }
    assert!(possible > 50 && impossible > 20, "{possible} {impossible}");
}

#[test]
fn on_the_eps_all_changes_at_once() {
    let from = [joined((0, 0), (1, 0)), joined((2, 0), (3, 0))];
    let to = [joined((0, 0), (2, 0)), joined((1, 0), (3, 0))];
    let plan = plan_batches(&from, &to, &[true; 4], 2);
    assert_eq!(plan.batches.len(), 1);
    assert_eq!(
        (plan.batches[0].delete.as_slice(), plan.batches[0].create.as_slice()),
        (&from[..], &to[..])
    );
    assert_eq!(plan_batches(&from, &from, &[], 2), ChangeBatches::default());
    let mut random = Random(3);
    for round in 0..200 {
        let [from, to] = [0.8, 0.4].map(|share| drawn(5, 3, share, &mut random));
        let plan = plan_batches(&from, &to, &[true; 5], usize::MAX);
        assert_eq!(plan.batches.len(), usize::from(from != to), "{round}");
    }
}

/// Make before break: the pair's new circuit is on spare NICs, the old one goes a batch later.
#[test]
fn a_new_circuit_comes_up_before_the_last_old_one_goes() {
    let (old, new) = (joined((0, 0), (1, 0)), joined((0, 1), (1, 1)));
    let plan = plan_batches(&[old], &[new], &[false; 2], 9);
    let steps: Vec<(usize, usize)> =
        plan.batches.iter().map(|batch| (batch.delete.len(), batch.create.len())).collect();
    assert_eq!(steps, [(0, 1), (1, 0)]);
    assert_eq!(plan.dark, []);
    // Without spare NICs it goes dark, and that is said.
    let crossed = joined((0, 0), (1, 1));
    let plan = plan_batches(&[old], &[crossed], &[false; 2], 9);
    assert_eq!(plan.dark, [(0, 1)]);
}

#[test]
#[should_panic(expected = "a NIC ends two circuits")]
fn a_nic_ends_one_circuit() {
    plan_batches(&[joined((0, 0), (1, 0)), joined((0, 0), (2, 0))], &[], &[], 2);
}

#[test]
#[should_panic(expected = "a NIC ends two circuits")]
fn a_nic_ends_one_circuit_afterwards() {
    plan_batches(&[], &[joined((0, 0), (1, 0)), joined((2, 0), (1, 0))], &[], 2);
}

#[test]
#[should_panic(expected = "a new circuit may displace two")]
fn a_batch_of_one_pair_is_refused() {
    plan_batches(&[], &[], &[], 1);
}

/// A pair needs no circuit while both its servers reach the EPS, and only then.
#[test]
fn a_pair_is_dark_unless_both_ends_are_on_the_eps() {
    let (from, to) = ([joined((0, 0), (1, 0))], [joined((0, 0), (1, 1))]);
    for (has_eps, dark) in [
        (&[true, true][..], &[][..]),
        (&[true, false], &[(0, 1)]),
        (&[false, true], &[(0, 1)]),
        (&[true], &[(0, 1)]),
        (&[], &[(0, 1)]),
    ] {
        let plan = plan_batches(&from, &to, has_eps, 2);
        assert_eq!(plan.dark, dark, "{has_eps:?}");
        assert_eq!(plan.batches.len(), if dark.is_empty() { 1 } else { 2 }, "{has_eps:?}");
    }
}

/// Circuits that share no NIC: as many batches as their number requires, each of them full.
#[test]
fn batches_are_as_full_as_they_may_be() {
    for count in 1..12 {
        let circuits: Vec<NicCircuit> =
            (0..count).map(|nic| joined((2 * nic, 0), (2 * nic + 1, 0))).collect();
        for max_pairs in 2..6 {
            let sizes: Vec<usize> = circuits.chunks(max_pairs).map(<[_]>::len).collect();
            for (from, to) in [(&circuits[..], &[][..]), (&[], &circuits)] {
                let plan = plan_batches(from, to, &[], max_pairs);
                let found: Vec<usize> = plan.batches.iter().map(ChangeBatch::pairs).collect();
                assert_eq!(found, sizes, "{count} circuits, {max_pairs} at once");
            }
        }
    }
}

/// Two old circuits go for a new one between them: three port pairs, two at once.
#[test]
fn a_batch_counts_the_larger_of_what_goes_and_comes() {
    let from = [joined((0, 0), (1, 0)), joined((2, 0), (3, 0)), joined((4, 0), (5, 0))];
    let to = [joined((0, 0), (2, 0))];
    let plan = plan_batches(&from, &to, &[true; 6], 2);
    let sizes: Vec<_> =
        plan.batches.iter().map(|b| (b.delete.len(), b.create.len(), b.pairs())).collect();
    assert_eq!(sizes, [(2, 1, 2), (1, 0, 1)]);
}

/// However few pairs change at once, no more go dark, and the smaller the batches the more of them.
#[test]
fn small_batches_darken_no_more_pairs() {
    let mut random = Random(15);
    let mut dark = [0, 0];
    for round in 0..400 {
        let (servers, nics) = (2 + round % 4, 1 + round / 4 % 3);
        let from = drawn(servers, nics, 0.9, &mut random);
        let to = drawn(servers, nics, 0.9, &mut random);
        let [all, two] = [usize::MAX, 2].map(|max_pairs| plan_batches(&from, &to, &[], max_pairs));
        dark = [dark[0] + all.dark.len(), dark[1] + two.dark.len()];
        assert!(all.batches.len() <= two.batches.len(), "{round}");
    }
    println!("{dark:?}");
    assert!(dark[0] == dark[1], "{dark:?}");
}
