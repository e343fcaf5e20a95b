//! Behavior of single systems' schedulers on demand that is small enough to work out by hand.

use crate::common::cases::matrix;
use lightloom_schedule::helios::helios_matchings;
use lightloom_schedule::rotornet::{Cycling, Rotor, rotate};
use lightloom_schedule::topoopt::{Strides, TopoRequest, topology};

#[test]
fn helios_counts_no_more_than_an_epoch_carries() {
    // Uncapped, 0 -> 1 alone outweighs the two circuits that send 90 + 95 of the 100 that fit.
    let demand = matrix(4, &[(0, 1, 1_000), (0, 2, 90), (3, 1, 95)]);
    let found = helios_matchings(&demand, 4, 1, 100).unwrap();
    assert_eq!(found, [[2, 3, 0, 1]]);
    // With room for all of it, the large transfer wins.
    let found = helios_matchings(&demand, 4, 1, 1_000).unwrap();
    assert_eq!(found[0][..2], [1, 0]);
}

fn rotor(nodes: usize, slot: Option<u64>, relay: bool) -> Rotor {
    let cycling = Cycling::Shared;
    Rotor { nodes, switches: 1, slot, delay: 1, held: false, relay, cycling }
}

#[test]
fn a_rotor_slot_is_the_largest_entry_or_a_tenth_of_the_mean_one() {
    let demand = matrix(4, &[(0, 1, 70), (1, 2, 30), (0, 3, 20)]);
    let found = rotate(&demand, &rotor(4, None, false)).unwrap();
    assert!(found.holds.iter().all(|&hold| hold == 70), "{:?}", found.holds);
    // The longest line is 90 bytes over 3 entries: slots of 90 / 30.
    let found = rotate(&demand, &rotor(4, None, true)).unwrap();
    assert!(found.holds.iter().all(|&hold| hold == 3), "{:?}", found.holds);
}

#[test]
fn relays_take_only_what_exceeds_the_next_own_slot() {
    // 10 of 12 bytes go at once; the 2 left fit the next slot of the pair.
    let fits = rotate(&matrix(3, &[(0, 1, 12)]), &rotor(3, Some(10), true)).unwrap();
    assert_eq!((fits.relayed(), fits.turns.as_slice()), (0, &[0, 1, 2][..]));
    // 15 of 25 are left, 5 more than fit: node 2 takes those and delivers them in the fourth slot.
    let spills = rotate(&matrix(3, &[(0, 1, 25)]), &rotor(3, Some(10), true)).unwrap();
    assert_eq!((spills.relayed(), spills.turns.as_slice()), (5, &[0, 1, 2, 3][..]));
}

#[test]
fn topoopt_counts_the_larger_direction_of_a_pair() {
    // Circuits are duplex: 60 bytes each way need as much of them as 60 one way, less than 100.
    let demand = [(0, 1, 60), (1, 0, 60), (0, 2, 100)];
    let request = TopoRequest {
        servers: 3,
        degree: 3,
        rings: &[],
        strides: Strides::One,
        demand: &demand,
        phases: &[],
        max_routes: 1,
    };
    let found = topology(&request).unwrap();
    let links: Vec<_> = found.circuits.iter().map(|c| (c.a, c.b, c.count)).collect();
    assert_eq!(links, [(0, 1, 1), (0, 2, 2), (1, 2, 1)]);
}

#[test]
fn epochs_that_cannot_suffice_are_refused_at_once() {
    let sizes = lightloom_schedule::epochs::Epochs { nodes: 2, switches: 1, epoch: 4, delay: 0 };
    let run = |bytes| lightloom_schedule::helios::helios(&[0, bytes, 0, 0], &sizes);
    assert_eq!(run(40).unwrap().matchings.len(), 10);
    let text = run(1 << 53).unwrap_err().to_string();
    assert_eq!(text, "16384 epochs of 4 bytes do not serve this demand");
}
