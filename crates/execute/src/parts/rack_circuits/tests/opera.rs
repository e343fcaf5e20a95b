//! Opera: switches turn one after the other, and small transfers take what is lit meanwhile.

use super::*;

/// Racks whose rotors hold drawn matchings, each switch for as many epochs as there are switches.
pub(super) fn racks(count: u32, switches: u32, relay: bool, min_bytes: u64) -> RackCircuits {
    let mut config =
        super::racks(count, switches, CircuitPolicy::RotorNet, RackRouting::Direct { relay });
    config.timing.epoch.0 *= u64::from(switches);
    config.rules = EpochRules { cycling: Cycling::Staggered, seed: Some(3), ..config.rules };
    RackCircuits { min_bytes, ..config }
}

/// Circuits of the shortest path over what is lit.
fn hops(run: &Run, from: u32, to: u32) -> Option<u64> {
    let (mut reached, mut hops) = (vec![from], 0);
    while !reached.contains(&to) {
        let lit = run.part.board.circuits.iter().filter(|circuit| circuit.lit > 0);
        let next = lit.filter(|circuit| reached.contains(&circuit.from)).map(|circuit| circuit.to);
        let more: Vec<u32> = next.filter(|rack| !reached.contains(rack)).collect();
        if more.is_empty() {
            return None;
        }
        reached.extend(more);
        hops += 1;
    }
    Some(hops)
}

#[test]
fn small_transfers_leave_at_once_at_every_moment_and_others_wait() {
    let config = racks(12, 4, false, 51);
    let mut waited = 0;
    for moment in 0..24 {
        for (from, to) in [(0, 5), (7, 3), (11, 1)] {
            // In the middle of a turn, one switch is dark.
            let at = (1000 * moment + 1050) * BYTE;
            let end = |bytes| {
                let mut run = Run::new(&config);
                run.start(11, 10, 51_000);
                run.run_until(at);
                run.now = at;
                let path = hops(&run, from, to);
                let transfer = run.start(from, to, bytes);
                run.end();
                (run.arrived[transfer].unwrap() - at, path)
            };
            let (took, path) = end(50);
            assert!((1..=4).contains(&path.expect("all racks are joined")));
            // Beside the bytes that wait on a circuit of their own.
            assert!(took == 50 * BYTE || took <= 100 * BYTE, "{moment}: {took}");
            waited += u64::from(end(51).0 > 100 * BYTE);
        }
    }
    assert!(waited > 40, "{waited} of 72 transfers wait for a circuit of their pair");
}

/// Three matchings of eight racks that are lit: none is more than three circuits away, and no
/// graph of three neighbors has all of seven others at one.
#[test]
fn few_circuits_join_any_two_racks_at_every_moment() {
    let config = racks(8, 4, false, 100_000);
    let mut run = Run::new(&config);
    run.start(0, 1, 99_999);
    for moment in 1..16 {
        run.run_until((1000 * moment + 50) * BYTE);
        let pairs = (0..64).filter(|cell| cell % 9 > 0).map(|cell| (cell / 8, cell % 8));
        let most = pairs.map(|(from, to)| hops(&run, from, to).expect("joined")).max();
        assert!((2..=3).contains(&most.unwrap()), "{moment}: {most:?}");
    }
}

/// One that takes longer than what it began on is lit goes on over what is lit then.
#[test]
fn small_transfers_move_off_circuits_that_go_dark() {
    let config = racks(12, 4, false, 100_000);
    let mut run = Run::new(&config);
    run.run_until(0);
    run.start(0, 5, 20_000);
    let end = run.end();
    // Twenty turns: all racks are joined at all times but for the dark beginning.
    assert_eq!(end, (100 + 20_000) * BYTE);
    assert!(run.part.pieces.is_empty());
    let mut waits = Run::new(&RackCircuits { min_bytes: 0, ..config });
    waits.start(0, 5, 20_000);
    assert!(waits.end() > 2 * end);
}

#[test]
fn what_has_no_slots_has_no_small_transfers() {
    let good = racks(5, 3, true, 100);
    let refusal = |config: RackCircuits| {
        let network = Network { parts: Vec::new(), ..packet(5) }.with(config);
        network.validate().unwrap_err().to_string()
    };
    network(&good);
    let tables = RackCircuits { routing: tables(0, None), ..good.clone() };
    let text = "racks: min_bytes is of bytes that wait for a circuit of their pair";
    assert_eq!(refusal(tables), text);
    let direct = RackRouting::Direct { relay: false };
    let averaged = RackCircuits { routing: direct, averaged: true, ..good };
    let text = "racks: only rotors of shifts, without relaying, have average circuits";
    assert_eq!(refusal(averaged), text);
}

#[test]
fn small_packets_leave_at_once() {
    let config = for_packets(racks(8, 4, false, 100_000));
    let longer = longer_as_packets(&config, "ideal", &[(0, 5, 5000)]);
    assert!(longer.abs() < 0.05, "{longer}");
}
