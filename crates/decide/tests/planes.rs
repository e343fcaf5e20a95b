//! Circuits on NICs and planes: what cannot be built, what is built instead, what stays.

mod worlds;

use lightloom_decide::{CircuitAllocator, Decision, Held, Reconfigure, Region, Upcoming};
use lightloom_model::record::Value;
use lightloom_model::{
    Allocator, Duration, Failures, Fibers, Invalid, Pairs, PerServer, Rate, SwitchTiming,
};
use lightloom_schedule::{NicCircuit, NicEnd, Request};
use worlds::{GBPS, made, policy, region};

/// Proposes the same for every request.
struct Same(Vec<u16>);

impl CircuitAllocator for Same {
    fn allocate(&mut self, requests: &[Request]) -> Result<Vec<Vec<u16>>, Invalid> {
        Ok(vec![self.0.clone(); requests.len()])
    }
}

fn circuit(a: (u32, u32), b: (u32, u32)) -> NicCircuit {
    let end = |(server, nic)| NicEnd { server, nic };
    NicCircuit { a: end(a), b: end(b) }
}

/// Circuits between pairs of servers, n x n.
fn circuits(servers: usize, pairs: &[(usize, usize)]) -> Vec<u16> {
    let mut found = vec![0; servers * servers];
    for &(a, b) in pairs {
        found[a * servers + b] += 1;
        found[b * servers + a] += 1;
    }
    found
}

/// Bytes that pairs send in both directions.
fn demand(servers: usize, pairs: &[(usize, usize, u64)]) -> Vec<u64> {
    let mut found = vec![0; servers * servers];
    for &(a, b, bytes) in pairs {
        (found[a * servers + b], found[b * servers + a]) = (bytes, bytes);
    }
    found
}

/// Four servers on two planes, and a triangle that they cannot take: three circuits among three
/// servers, of which a plane takes one.
struct Triangle {
    region: Region,
    more: Vec<(usize, usize, u64)>,
}

impl Triangle {
    fn new(more: &[(usize, usize, u64)]) -> Self {
        let region = Region { planes: Some(Fibers::Duplex), ..region(4, 2) };
        Self { region, more: more.to_vec() }
    }

    fn decide(&self) -> Decision {
        let policy = policy(Reconfigure::Always);
        let timing = SwitchTiming::default();
        let mut decider = made(self.region.clone(), policy, timing).expect("consistent");
        let held = decider.hold(vec![0; 16]).expect("no circuits");
        let mut pairs = vec![(0, 1, 90_000_000), (1, 2, 80_000_000), (0, 2, 70_000_000)];
        pairs.extend(&self.more);
        let next = [Upcoming::known(demand(4, &pairs), Duration::ZERO)];
        let mut triangle = Same(circuits(4, &[(0, 1), (1, 2), (0, 2)]));
        decider.decide_by(&held, &next, &mut triangle).expect("within the ports")
    }

    /// Circuits that were built in addition to the two of the triangle.
    fn refilled(&self) -> Vec<NicCircuit> {
        let decision = self.decide();
        let new = |circuit: &&NicCircuit| circuit.b.server == 3;
        assert_eq!(decision.held.nics.iter().filter(|circuit| !new(circuit)).count(), 2);
        decision.held.nics.iter().filter(new).copied().collect()
    }
}

#[test]
fn what_finds_no_plane_is_given_up() {
    let decision = Triangle::new(&[]).decide();
    // Nothing else is wanted, so that the other NICs stay dark.
    assert_eq!(decision.held.nics.len(), 2);
    assert_eq!(decision.change.create, decision.held.nics);
    let [one, other] = decision.held.nics[..] else { panic!("two circuits") };
    assert_ne!(one.a.nic, other.a.nic, "one of a plane each");
    assert_eq!((one.a.nic, other.a.nic), (one.b.nic, other.b.nic), "both ends on one plane");
}

#[test]
fn free_nics_are_joined_for_what_needs_them() {
    // The fourth server has two free NICs; both ends of the path that the triangle leaves have one.
    let bytes = 60_000_000;
    let found = Triangle::new(&[(0, 3, bytes), (1, 3, bytes), (2, 3, bytes)]).refilled();
    assert_eq!(found.len(), 2);
    assert_ne!(found[0].b.nic, found[1].b.nic);
    // A pair that sends nothing gets nothing.
    let wanted = [0, 1, 2].map(|server| Triangle::new(&[(server, 3, bytes)]).refilled().len());
    assert_eq!(wanted.iter().sum::<usize>(), 2, "{wanted:?}: a middle has no NIC free");
    // Nor does one that may not have circuits.
    let mut closed = Triangle::new(&[(0, 3, bytes), (1, 3, bytes), (2, 3, bytes)]);
    let mut allowed = vec![true; 16];
    for server in 0..3 {
        (allowed[server * 4 + 3], allowed[12 + server]) = (false, false);
    }
    closed.region.allowed = Some(Pairs::new(4, allowed, "allowed").expect("symmetric"));
    assert_eq!(closed.refilled(), []);
}

/// A circuit of half the rate that a pair has over the EPS, which it could not share, is refused.
#[test]
fn nics_are_not_joined_where_something_would_end_later() {
    let pairs = [0, 1, 2].map(|server| (server, 3, 400_000_000));
    let both = |split: bool, eps: u64| {
        let mut triangle = Triangle::new(&pairs);
        triangle.region.split = split;
        triangle.region.eps_rates = PerServer::All(Rate(eps));
        triangle.refilled().len()
    };
    // 400 MB take 8 ms over a circuit; 1,200 MB of server 3 over 8 Tb/s take 1.2 ms.
    assert_eq!(both(false, 8_000 * GBPS), 0);
    assert_eq!(both(true, 8_000 * GBPS), 2);
    // Over 400 Gb/s they take 24 ms, and without two of the three 8.
    assert_eq!(both(false, 400 * GBPS), 2);
}

/// The neediest pair is joined first: that of most bytes per circuit, those it has already counted.
#[test]
fn the_neediest_pair_is_joined_first() {
    // A triangle that leaves two NICs free, and two servers whose NICs are all free.
    let built = |pairs: &[(usize, usize, u64)]| {
        let region = Region { planes: Some(Fibers::Duplex), ..region(5, 2) };
        let policy = policy(Reconfigure::Always);
        let mut decider = made(region, policy, SwitchTiming::default()).unwrap();
        let held = decider.hold(vec![0; 25]).unwrap();
        let next = [Upcoming::known(demand(5, pairs), Duration::ZERO)];
        let mut triangle = Same(circuits(5, &[(0, 1), (1, 2), (0, 2)]));
        let found = decider.decide_by(&held, &next, &mut triangle).expect("within the ports");
        let row = |server: usize| found.held.circuits[server * 5..][..3].iter().sum::<u16>();
        [row(3), row(4), found.held.circuits[3 * 5 + 4]]
    };
    let mb = 1_000_000;
    let of = |third: u64, fourth: u64, between: u64| {
        let mut pairs: Vec<(usize, usize, u64)> =
            (0..3).flat_map(|server| [(server, 3, third * mb), (server, 4, fourth * mb)]).collect();
        pairs.extend([(0, 1, 90 * mb), (1, 2, 90 * mb), (0, 2, 90 * mb), (3, 4, between * mb)]);
        built(&pairs)
    };
    assert_eq!(of(60, 30, 1), [2, 0, 0]);
    assert_eq!(of(30, 60, 1), [0, 2, 0]);
    assert_eq!(of(60, 40, 130), [0, 0, 2]);
    // After one circuit for 100 MB, 50 MB per circuit are less than 60.
    assert_eq!(of(60, 40, 100), [1, 0, 1]);
}

/// Crossed fibers join NIC 2 j of one server with NIC 2 j + 1 of the other.
#[test]
fn crossed_fibers_join_neighboring_nics() {
    for seed in 1..40 {
        let region = Region { planes: Some(Fibers::Crossed), ..region(5, 4) };
        let policy = policy(Reconfigure::Always);
        let mut decider = made(region, policy, SwitchTiming::default()).unwrap();
        let next = worlds::upcoming(5, &[0], seed);
        let held = decider.decide(&decider.start(), &next).held;
        assert!(!held.nics.is_empty());
        assert!(held.nics.iter().all(|circuit| circuit.a.nic ^ 1 == circuit.b.nic), "{held:?}");
        decider.check(&held).expect("what was decided");
    }
}

/// A plane that has failed takes its NICs from every server, and the others carry on.
#[test]
fn a_failed_plane_is_as_one_plane_fewer() {
    for seed in 1..30 {
        let decide = |planes: u16, failed: Vec<u32>| {
            let failures = Failures { planes: failed, ..Failures::default() };
            let region = Region { planes: Some(Fibers::Duplex), failures, ..region(4, planes) };
            let policy = policy(Reconfigure::BreakEven);
            let mut decider = made(region, policy, SwitchTiming::default()).unwrap();
            decider.decide(&decider.start(), &worlds::upcoming(4, &[0, 0], seed))
        };
        // The last plane of three, so that indices stay.
        let (failed, fewer) = (decide(3, vec![2]), decide(2, vec![]));
        assert_eq!(failed, fewer, "seed {seed}");
    }
}

#[test]
fn parallel_circuits_end_on_different_numa_nodes() {
    let ends = |numa_nodes: u32| {
        let nodes = Value::read(u64::from(numa_nodes), "numa_nodes").expect("a few nodes");
        let region = Region { numa_nodes: nodes, ..region(2, 4) };
        let decider = made(region, policy(Reconfigure::Always), SwitchTiming::default()).unwrap();
        let held = decider.hold(circuits(2, &[(0, 1), (0, 1)])).unwrap();
        let node = |end: NicEnd| end.nic * numa_nodes / 4;
        held.nics.iter().flat_map(|circuit| [node(circuit.a), node(circuit.b)]).collect::<Vec<_>>()
    };
    assert_eq!(ends(2), [0, 0, 1, 1]);
    assert_eq!(ends(1), [0, 0, 0, 0]);
}

/// Circuits that stay keep their NICs, whatever joins them.
#[test]
fn circuits_that_stay_keep_their_nics() {
    for planes in [None, Some(Fibers::Duplex)] {
        let region = Region { planes, ..region(6, 3) };
        let policy = policy(Reconfigure::Always);
        let mut decider = made(region, policy, SwitchTiming::default()).unwrap();
        let first = circuits(6, &[(0, 1), (2, 3)]);
        let held = decider.hold(first).unwrap();
        let next = [Upcoming::known(demand(6, &[(0, 1, 5), (2, 3, 5), (4, 5, 5)]), Duration::ZERO)];
        let mut more = Same(circuits(6, &[(0, 1), (2, 3), (4, 5), (0, 5)]));
        let decision = decider.decide_by(&held, &next, &mut more).unwrap();
        assert_eq!(decision.change.keep, held.nics);
        assert_eq!((decision.change.create.len(), decision.pairs), (2, 2));
        assert!(decision.change.delete.is_empty() && decision.change.moved.is_empty());
    }
}

#[test]
fn circuits_on_wrong_nics_are_not_held() {
    let refusal = |planes: Option<Fibers>, nics: Vec<NicCircuit>, pairs: &[(usize, usize)]| {
        let region = Region { planes, ..region(3, 2) };
        let decider = made(region, policy(Reconfigure::Always), SwitchTiming::default()).unwrap();
        let circuits = circuits(3, pairs);
        let held = Held { circuits, nics, chosen: Allocator::Static };
        decider.check(&held).map_err(|Invalid(text)| text)
    };
    let one = circuit((0, 0), (1, 0));
    assert_eq!(refusal(None, vec![one], &[(0, 1)]), Ok(()));
    let text = refusal(None, vec![circuit((0, 0), (3, 0))], &[]).unwrap_err();
    assert_eq!(text, "server 3 has no NIC 0");
    let text = refusal(None, vec![circuit((0, 2), (1, 0))], &[]).unwrap_err();
    assert_eq!(text, "server 0 has no NIC 2");
    let twice = vec![one, circuit((0, 0), (2, 0))];
    let text = refusal(None, twice, &[]).unwrap_err();
    assert_eq!(text, "NIC 0 of server 0 ends two circuits");
    let text = refusal(None, vec![circuit((1, 0), (0, 0))], &[(0, 1)]).unwrap_err();
    assert_eq!(text, "NICs 1/0 and 0/0 cannot be joined");
    let across = circuit((0, 0), (1, 1));
    let text = refusal(Some(Fibers::Duplex), vec![across], &[(0, 1)]).unwrap_err();
    assert_eq!(text, "NICs 0/0 and 1/1 cannot be joined");
    assert_eq!(refusal(Some(Fibers::Crossed), vec![across], &[(0, 1)]), Ok(()));
    assert!(refusal(Some(Fibers::Crossed), vec![one], &[(0, 1)]).is_err());
    let reversed = vec![circuit((0, 1), (2, 1)), one];
    let text = refusal(None, reversed, &[(0, 1), (0, 2)]).unwrap_err();
    assert_eq!(text, "circuits on NICs are not sorted");
    let text = refusal(None, vec![one], &[(0, 1), (0, 2)]).unwrap_err();
    assert_eq!(text, "circuits and their NICs do not agree");
}
