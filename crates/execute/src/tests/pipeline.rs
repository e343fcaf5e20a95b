//! Sends, receives and the bubble.

use super::{NIC, US, carried, compute, play, receive, send, spent};
use crate::parts::Eps;
use crate::testing::{IDLE, PP, WORK, empty_graph, eps, packet};
use lightloom_model::{Duration, Rate};

/// Picoseconds of 1 MB over 8 NICs of 400 Gb/s.
const MEGABYTE: u64 = 1_000_000 * NIC / 8;

#[test]
fn a_send_takes_size_over_rate_plus_latency() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![compute(100), send(1, 0, 1_000_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 100 + MEGABYTE + 2 * US);
    assert_eq!(spent(&outcome, 1, IDLE), 100);
    assert_eq!(spent(&outcome, 1, PP), MEGABYTE + 2 * US);
    assert_eq!(outcome.critical_path[WORK.index()], 100);
    assert_eq!(outcome.critical_path[PP.index()], MEGABYTE + 2 * US);
    assert_eq!(carried(&outcome, "pp")[1], 1_000_000);
}

#[test]
fn latency_grows_with_the_tiers_crossed() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 0, 0)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    for (other, links) in [(1, 2), (2, 4), (4, 6)] {
        graph.worker_server = vec![0, other];
        let eps = Eps { servers_per_tor: 2, servers_per_pod: 4, ..eps(8) };
        let outcome = play(&graph, &packet(8).with(eps));
        assert_eq!(outcome.step.0, links * US, "to server {other}");
    }
}

#[test]
fn an_oversubscribed_tor_slows_two_sends_down() {
    let mut graph = empty_graph(2, 2, 1);
    graph.roles[0].tasks = vec![send(1, 0, 1_000_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let slow = Eps { servers_per_tor: 2, tor_uplink: Some(Rate(4 * eps(4).nic_rate.0)), ..eps(4) };
    let outcome = play(&graph, &packet(4).with(slow));
    // Two servers' 8 NICs each share an uplink of 4: a quarter of the rate each.
    assert_eq!(outcome.step.0, 4 * MEGABYTE + 4 * US);
}

#[test]
fn stages_on_one_server_send_over_nvswitch() {
    let mut graph = empty_graph(2, 1, 1);
    graph.gpus_per_worker = 4;
    graph.worker_server = vec![0, 0];
    graph.roles[0].tasks = vec![send(1, 0, 1_800_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let outcome = play(&graph, &packet(1));
    // 450 kB per GPU at 450 GB/s, after the start-up of 2 us.
    assert_eq!(outcome.step.0, 2 * US + US);
    assert_eq!(carried(&outcome, "pp"), [1_800_000, 0, 0, 0, 0]);
    assert_eq!(outcome.flows, 0);
}

#[test]
fn a_message_that_is_there_costs_nothing() {
    let mut graph = empty_graph(2, 1, 1);
    graph.roles[0].tasks = vec![send(1, 3, 8)];
    graph.roles[1].tasks = vec![compute(10 * US), receive(0, 3), compute(US)];
    let outcome = play(&graph, &packet(2));
    assert_eq!(outcome.step.0, 11 * US);
    assert_eq!(spent(&outcome, 1, IDLE), 0);
    assert_eq!(outcome.critical_path[WORK.index()], 11 * US);
}

/// 1F1B of p stages and m micro-batches without communication times: the bubble is (p-1)/m of the
/// ideal time (Narayanan et al. 2021, section 2.2).
#[test]
fn the_bubble_of_1f1b() {
    let (stages, batches, forward, backward) = (4_u32, 8_u32, 3 * US, 6 * US);
    let mut graph = empty_graph(stages, 1, 1);
    for stage in 0..stages {
        let tasks = &mut graph.roles[stage as usize].tasks;
        let mut step = |is_forward: bool, batch: u32| {
            let (from, to) = if is_forward { (-1, 1) } else { (1, -1) };
            let peer = |offset: i32| stage.checked_add_signed(offset).filter(|&peer| peer < stages);
            let tag = batch * 2 + u32::from(is_forward);
            if let Some(peer) = peer(from) {
                tasks.push(receive(peer, tag));
            }
            tasks.push(compute(if is_forward { forward } else { backward }));
            if let Some(peer) = peer(to) {
                tasks.push(send(peer, tag, 0));
            }
        };
        let warm_up = (stages - 1 - stage).min(batches);
        (0..warm_up).for_each(|batch| step(true, batch));
        for batch in 0..batches {
            if warm_up + batch < batches {
                step(true, warm_up + batch);
            }
            step(false, batch);
        }
    }
    let eps = Eps { link_delay: Duration::ZERO, ..eps(stages) };
    let outcome = play(&graph, &packet(stages).with(eps));
    let ideal = u64::from(batches) * (forward + backward);
    let bubble = u64::from(stages - 1) * (forward + backward);
    assert_eq!(outcome.step.0, ideal + bubble);
    for stage in 0..stages as usize {
        assert_eq!(spent(&outcome, stage, IDLE), bubble, "stage {stage}");
    }
    assert_eq!(outcome.critical_path[WORK.index()], ideal + bubble);
}

#[test]
fn tors_that_share_a_server_carry_what_one_tor_would() {
    // Two servers of eight NICs: the uplinks of two, four or eight ToRs carry as much in all.
    let mut graph = empty_graph(2, 2, 1);
    graph.roles[0].tasks = vec![send(1, 0, 1_000_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let step = |rails: u32| {
        let fabric = Eps {
            rails,
            servers_per_tor: 1,
            tor_uplink: Some(Rate(eps(4).nic_rate.0 * 4 / u64::from(rails))),
            ..eps(4)
        };
        play(&graph, &packet(4).with(fabric)).step.0
    };
    assert_eq!(eps(4).nics, 8);
    let once = step(1);
    assert!([2, 4, 8].into_iter().all(|rails| step(rails) == once));
}

#[test]
fn each_rail_has_uplinks_of_its_own() {
    // Two servers under each set of eight ToRs, each ToR with an uplink as fast as one of its NICs.
    let mut graph = empty_graph(2, 2, 1);
    graph.roles[0].tasks = vec![send(1, 0, 1_000_000)];
    graph.roles[1].tasks = vec![receive(0, 0)];
    let rails = |uplinks: u64| Eps {
        rails: eps(4).nics,
        servers_per_tor: 2,
        tor_uplink: Some(Rate(uplinks * eps(4).nic_rate.0)),
        ..eps(4)
    };
    let step = |uplinks| play(&graph, &packet(4).with(rails(uplinks))).step.0;
    assert_eq!(step(1), 2 * MEGABYTE + 4 * US);
    assert_eq!(step(2), MEGABYTE + 4 * US);
}

/// 1F1B of stages that take different times: the slowest one is never idle once it has begun.
#[test]
fn the_slowest_stage_sets_the_pace() {
    let (batches, times) = (9, [10 * US, 30 * US, 20 * US]);
    let mut graph = empty_graph(3, 1, 1);
    for batch in 0..batches {
        for (stage, &time) in times.iter().enumerate() {
            let tasks = &mut graph.roles[stage].tasks;
            if stage > 0 {
                tasks.push(receive(stage as u32 - 1, batch));
            }
            tasks.push(compute(time));
            if stage < 2 {
                tasks.push(send(stage as u32 + 1, batch, 0));
            }
        }
    }
    let outcome = play(&graph, &packet(3));
    let latency = 2 * US;
    let begin = times[0] + latency;
    assert_eq!(outcome.step.0, begin + u64::from(batches) * times[1] + latency + times[2]);
    assert_eq!(spent(&outcome, 1, WORK), u64::from(batches) * times[1]);
    assert_eq!(spent(&outcome, 1, PP), latency);
    assert_eq!(spent(&outcome, 1, IDLE), times[0] + latency + times[2]);
}
