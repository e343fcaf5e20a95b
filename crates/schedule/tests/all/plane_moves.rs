//! Circuits that are there stay on their NICs: no assignment keeps more of them.

use crate::common::cases::{Random, joined_pairs};
use lightloom_model::Fibers;
use lightloom_schedule::{
    NicCircuit, NicEnd, PlaneMoves, Planes, assign_from, assign_planes, assign_planes_from,
    check_planes,
};

const EFFORT: u32 = 20_000;

fn joined(a: u32, b: u32, nics: [u32; 2]) -> NicCircuit {
    NicCircuit { a: NicEnd { server: a, nic: nics[0] }, b: NicEnd { server: b, nic: nics[1] } }
}

fn assigned(found: &PlaneMoves) -> &[NicCircuit] {
    let Planes::Assigned(nics) = &found.planes else { panic!("{found:?}") };
    nics
}

/// A region drawn at random: circuits that are wanted, and others that are there.
struct Region {
    n: usize,
    planes: usize,
    working: Vec<bool>,
    fibers: Fibers,
    wanted: Vec<(usize, usize)>,
    previous: Vec<NicCircuit>,
}

impl Region {
    /// Circuits that some assignment has, and those of another one, each in part.
    fn random(n: usize, planes: usize, fibers: Fibers, random: &mut Random) -> Self {
        let working = (0..n * planes).map(|_| random.uniform() < 0.95).collect();
        let mut region = Self { n, planes, working, fibers, wanted: vec![], previous: vec![] };
        region.previous = region.draw(1.0, random);
        let pair = |c: NicCircuit| (c.a.server as usize, c.b.server as usize);
        region.wanted = region.draw(1.0, random).into_iter().map(pair).collect();
        region.wanted.sort_unstable();
        region
    }

    fn draw(&self, share: f64, random: &mut Random) -> Vec<NicCircuit> {
        let mut free = self.working.clone();
        let mut drawn = Vec::new();
        for _ in 0..self.n * self.planes * 3 {
            let [a, b] = [0, 1].map(|_| (random.uniform() * self.n as f64) as usize);
            let nic = (random.uniform() * self.planes as f64) as usize;
            let far = self.fibers.partner(nic, self.planes);
            let (one, other) = (a * self.planes + nic, b * self.planes + far);
            if a < b && free[one] && free[other] && random.uniform() < share {
                (free[one], free[other]) = (false, false);
                drawn.push(joined(a as u32, b as u32, [nic as u32, far as u32]));
            }
        }
        drawn.sort_unstable();
        drawn
    }

    fn counts(&self) -> Vec<u16> {
        joined_pairs(self.n, &self.wanted)
    }

    /// The most previous circuits that any assignment of all wanted ones has, by trying all.
    fn max_kept(&self, from: usize, free: &mut [bool]) -> Option<usize> {
        let Some(&(a, b)) = self.wanted.get(from) else { return Some(0) };
        let mut largest = None;
        for nic in 0..self.planes {
            let far = self.fibers.partner(nic, self.planes);
            let ends = [a * self.planes + nic, b * self.planes + far];
            if !free[ends[0]] || !free[ends[1]] {
                continue;
            }
            (free[ends[0]], free[ends[1]]) = (false, false);
            let circuit = joined(a as u32, b as u32, [nic as u32, far as u32]);
            let kept = usize::from(self.previous.contains(&circuit));
            let rest = self.max_kept(from + 1, free);
            largest = largest.max(rest.map(|rest| rest + kept));
            (free[ends[0]], free[ends[1]]) = (true, true);
        }
        largest
    }

    /// Previous circuits that are wanted, each pair on its own.
    fn keepable(&self) -> usize {
        let before = self.previous.iter().map(|c| (c.a.server as usize, c.b.server as usize));
        let before = joined_pairs(self.n, &before.collect::<Vec<_>>());
        let both = self.counts().into_iter().zip(before).map(|(one, other)| one.min(other));
        both.map(usize::from).sum::<usize>() / 2
    }

    fn solve(&self) -> PlaneMoves {
        self.solve_within(EFFORT)
    }

    fn solve_within(&self, effort: u32) -> PlaneMoves {
        let working = &self.working;
        assign_planes_from(&self.counts(), working, self.fibers, &self.previous, effort)
    }
}

#[test]
fn as_many_stay_as_brute_force_finds() {
    let mut random = Random(11);
    let mut moved = 0;
    for round in 0..600 {
        let fibers = if round % 2 == 0 { Fibers::Duplex } else { Fibers::Crossed };
        let (n, planes) = (3 + round % 3, 2 + round / 3 % 3);
        let region = Region::random(n, planes, fibers, &mut random);
        let found = region.solve();
        let largest = region.max_kept(0, &mut region.working.clone()).expect("drawn from one");
        let nics = assigned(&found);
        check_planes(&region.counts(), &region.working, fibers, nics).unwrap();
        let kept = nics.iter().filter(|nic| region.previous.contains(nic)).count();
        assert_eq!(kept, largest, "{round}: {:?} to {:?}", region.previous, region.wanted);
        assert_eq!(found.moves as usize, region.keepable() - kept, "{round}");
        assert!(found.is_fewest, "{round}");
        moved += found.moves;
    }
    assert!(moved > 50, "nothing to move in these cases: {moved}");
}

#[test]
fn what_is_wanted_stays_where_it_is() {
    let mut random = Random(3);
    for fibers in [Fibers::Duplex, Fibers::Crossed] {
        let mut region = Region::random(16, 5, fibers, &mut random);
        let pair = |c: &NicCircuit| (c.a.server as usize, c.b.server as usize);
        region.wanted = region.previous.iter().map(pair).collect();
        let found = region.solve();
        assert_eq!(assigned(&found), region.previous);
        assert_eq!((found.moves, found.is_fewest), (0, true));
    }
}

/// A pair gives up the one of its two circuits that is in the way, not the first.
#[test]
fn a_pair_gives_up_the_circuit_that_others_need() {
    let previous = [joined(0, 1, [0, 0]), joined(0, 1, [1, 1]), joined(2, 3, [0, 0])];
    let wanted = joined_pairs(4, &[(0, 1), (2, 3), (0, 2)]);
    let found = assign_planes_from(&wanted, &[true; 8], Fibers::Duplex, &previous, EFFORT);
    assert_eq!((found.moves, found.is_fewest), (0, true));
    let expected = [joined(0, 1, [0, 0]), joined(0, 2, [1, 1]), joined(2, 3, [0, 0])];
    assert_eq!(assigned(&found), expected);
}

/// Large regions: servers that swap partners move little, where anew most would move.
#[test]
fn a_small_drift_moves_few_circuits() {
    let (n, planes) = (32, 6);
    for (fibers, seed) in [(Fibers::Duplex, 5), (Fibers::Crossed, 6)] {
        let mut random = Random(seed);
        let mut region = Region::random(n, planes, fibers, &mut random);
        region.working = vec![true; n * planes];
        let pair = |c: &NicCircuit| (c.a.server as usize, c.b.server as usize);
        region.wanted = region.previous.iter().map(pair).collect();
        // a-b and c-d become a-c and b-d
        for _ in 0..2 {
            let (a, b) = region.wanted.swap_remove(0);
            let other =
                region.wanted.iter().position(|&(c, d)| c != a && c != b && d != a && d != b);
            let (c, d) = region.wanted.swap_remove(other.unwrap());
            region.wanted.extend([(a.min(c), a.max(c)), (b.min(d), b.max(d))]);
        }
        region.wanted.sort_unstable();
        let found = region.solve();
        check_planes(&region.counts(), &region.working, fibers, assigned(&found)).unwrap();
        assert!(found.moves <= 8, "{fibers:?}: {} moves", found.moves);
    }
}

#[test]
fn previous_circuits_that_cannot_be_are_ignored() {
    let wanted = joined_pairs(2, &[(0, 1)]);
    let broken = [false, true, true, true];
    for previous in [
        vec![joined(0, 1, [0, 0])],
        vec![joined(0, 1, [1, 0])],
        vec![joined(0, 7, [1, 1]), joined(0, 1, [9, 9])],
    ] {
        let found = assign_planes_from(&wanted, &broken, Fibers::Duplex, &previous, EFFORT);
        assert_eq!(assigned(&found), [joined(0, 1, [1, 1])]);
        assert_eq!(found.moves, 0, "none that is there could have stayed");
    }
}

/// The same where nothing is proved: each of these would keep the only circuit off NIC 0.
#[test]
fn assignments_ignore_previous_circuits_that_cannot_be() {
    let wanted = joined_pairs(3, &[(0, 1)]);
    let working = [true, true, false, true, true, true, true, true, true];
    for previous in [
        joined(0, 1, [1, 0]),
        joined(0, 1, [2, 2]),
        joined(0, 1, [3, 3]),
        joined(1, 2, [1, 1]),
        joined(0, 2, [1, 1]),
    ] {
        let found = assign_from(&wanted, &working, Fibers::Duplex, &[previous], EFFORT);
        assert_eq!(found, [joined(0, 1, [0, 0])], "{previous:?}");
    }
    let two = [joined(0, 1, [1, 1]), joined(0, 1, [0, 0])];
    assert_eq!(assign_from(&wanted, &working, Fibers::Duplex, &two, EFFORT), two[..1]);
}

/// The last of three planes is duplex: it is used, and an assignment is found if there is one.
#[test]
fn an_odd_plane_is_lit() {
    let mut random = Random(23);
    for round in 0..300 {
        let (n, planes) = (4 + round % 2, 1 + round / 2 % 2 * 2);
        let mut region = Region::random(n, planes, Fibers::Crossed, &mut random);
        region.working = vec![true; n * planes];
        // Any circuits within the ports, so that some cannot be built.
        let mut free = vec![planes; n];
        region.wanted = (0..n * planes * 2)
            .map(|_| [0, 1].map(|_| (random.uniform() * n as f64) as usize))
            .filter(|&[a, b]| {
                let fits = a < b && free[a] > 0 && free[b] > 0;
                if fits {
                    free[a] -= 1;
                    free[b] -= 1;
                }
                fits
            })
            .map(|[a, b]| (a, b))
            .collect();
        region.previous.clear();
        let possible = region.max_kept(0, &mut region.working.clone()).is_some();
        let (counts, working) = (region.counts(), &region.working);
        match assign_planes(&counts, working, Fibers::Crossed, EFFORT) {
            Planes::Assigned(found) => {
                assert!(possible);
                check_planes(&counts, working, Fibers::Crossed, &found).unwrap();
            }
            Planes::Infeasible(reason) => assert!(!possible, "{round}: {reason}"),
            Planes::NotFound(..) => panic!("{round}: not found"),
        }
    }
    let mesh = joined_pairs(4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]);
    assert!(matches!(assign_planes(&mesh, &[true; 12], Fibers::Crossed, 1), Planes::Assigned(_)));
}

/// Two odd groups of servers that use every NIC: each needs server 0 on the last plane.
#[test]
fn an_odd_plane_that_cannot_join_all_is_refused() {
    let mut edges = vec![(0, 1), (0, 4)];
    for x in [1, 4] {
        edges.extend([(x, x + 1), (x, x + 2), (x + 1, x + 2), (x + 1, x + 2)]);
    }
    let mut region = Region {
        n: 7,
        planes: 3,
        working: vec![true; 21],
        fibers: Fibers::Crossed,
        wanted: edges,
        previous: vec![],
    };
    let find =
        |region: &Region| assign_planes(&region.counts(), &region.working, Fibers::Crossed, EFFORT);
    let Planes::Infeasible(reason) = find(&region) else { panic!("assigned") };
    assert_eq!(reason, "no circuits on the last of 3 planes join all servers that have 3");
    assert_eq!(region.max_kept(0, &mut [true; 21]), None);
    region.wanted.retain(|&pair| pair != (0, 4));
    assert!(matches!(find(&region), Planes::Assigned(_)));
}

/// A search that is cut off anywhere: what it returns is whole, counts its moves, and is called
/// fewest only if it is.
#[test]
fn what_was_found_in_a_few_steps_is_not_called_fewest() {
    let mut random = Random(13);
    let (mut proved, mut cut, mut missed) = (0, 0, 0);
    for round in 0..400 {
        let fibers = if round % 2 == 0 { Fibers::Duplex } else { Fibers::Crossed };
        let region = Region::random(4 + round % 3, 3 + round % 2, fibers, &mut random);
        let largest = region.max_kept(0, &mut region.working.clone()).expect("drawn from one");
        for effort in [0, 1, 4, 9, 14, 20, 40] {
            let found = region.solve_within(effort);
            let Planes::Assigned(nics) = &found.planes else {
                assert_eq!((found.moves, found.is_fewest), (0, false), "{round}");
                missed += 1;
                continue;
            };
            check_planes(&region.counts(), &region.working, fibers, nics).unwrap();
            let kept = nics.iter().filter(|nic| region.previous.contains(nic)).count();
            assert_eq!(found.moves as usize, region.keepable() - kept, "{round}, {effort} steps");
            assert!(!found.is_fewest || kept == largest, "{round}, {effort} steps");
            *(if found.is_fewest { &mut proved } else { &mut cut }) += 1;
        }
    }
    println!("{proved} proved, {cut} cut, {missed} missed");
    assert!(proved > 500 && cut > 100 && missed > 50, "{proved} {cut} {missed}");
}

/// Without a proof circuits that are there stay where they are, too, in nearly all cases.
#[test]
fn assignments_from_what_is_there_keep_nearly_all_that_can_be_kept() {
    let mut random = Random(19);
    let (mut kept, mut largest, mut placed, mut wanted) = (0, 0, 0, 0);
    for round in 0..300 {
        let fibers = if round % 2 == 0 { Fibers::Duplex } else { Fibers::Crossed };
        let region = Region::random(5 + round % 2, 3 + round % 2, fibers, &mut random);
        let found =
            assign_from(&region.counts(), &region.working, fibers, &region.previous, EFFORT);
        kept += found.iter().filter(|nic| region.previous.contains(nic)).count();
        placed += found.len();
        wanted += region.wanted.len();
        largest += region.max_kept(0, &mut region.working.clone()).expect("drawn from one");
    }
    println!("{kept} of {largest} kept, {placed} of {wanted} placed");
    assert!(kept * 100 >= largest * 97, "{kept} of {largest}");
    assert!(placed * 100 >= wanted * 99, "{placed} of {wanted}");
}

/// Server 4 can join server 1 on planes 0 and 1 alone. Plane 0 holds 0 - 1 from before, and 1 - 2
/// was just put on plane 1: either could go to plane 2, and it is the new one that does.
#[test]
fn a_new_circuit_gives_way_before_one_that_was_there() {
    let wanted = joined_pairs(5, &[(0, 1), (1, 2), (1, 4)]);
    let mut working = vec![true; 15];
    working[4 * 3 + 2] = false;
    let previous = [joined(0, 1, [0, 0])];
    let found = assign_from(&wanted, &working, Fibers::Duplex, &previous, EFFORT);
    let expected = [joined(0, 1, [0, 0]), joined(1, 4, [1, 1]), joined(1, 2, [2, 2])];
    assert_eq!(found, expected);
}

#[test]
fn more_circuits_than_nics_are_refused_without_a_search() {
    // 32,768 circuits between two servers of two NICs: each step of a search would visit them all
    let many = 1 << 15;
    let wanted = [0, many, many, 0];
    let previous = [joined(0, 1, [0, 0])];
    let found = assign_planes_from(&wanted, &[true; 4], Fibers::Crossed, &previous, u32::MAX);
    let reason = "server 0 has 32768 circuits but 2 working NICs";
    assert_eq!(found.planes, Planes::Infeasible(reason.into()));
    assert_eq!((found.moves, found.is_fewest), (0, false));
}
