//! NDP and EQDS against flow completion times of a public packet simulator (csg-htsim, commit
//! 841d9e7b), for its topology, sizes, queues and paths.
//!
//! The reference draws path hashes from its own stream, ours from `mix`: what is compared is the
//! distribution. Numbers: `cargo test --release -p lightloom-packetsim --test reference --
//! --nocapture`.

use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::{Config, Counters, FlowSpec, NicId, Paths, presets, profile};
use std::path::Path;

/// Flows, and completion times in us.
struct Reference {
    hosts: u32,
    flows: Vec<FlowSpec>,
    times: Vec<f64>,
}

/// Reads a file of the reference set; `None`, with a message, where there is no such set.
fn reference(name: &str) -> Option<Reference> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/ref");
    if !folder.is_dir() {
        println!("skipped: no reference results in {}", folder.display());
        return None;
    }
    let text = std::fs::read_to_string(folder.join(name)).expect("a file of the set");
    let mut found = Reference { hosts: 0, flows: Vec::new(), times: Vec::new() };
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("-nodes ") {
            found.hosts = rest.split(' ').next().unwrap().parse().unwrap();
        }
        let fields: Vec<&str> = line.split(',').collect();
        if line.starts_with('#') || fields[0] == "flow_id" {
            continue;
        }
        found.flows.push(FlowSpec {
            source: NicId(fields[1].parse().unwrap()),
            destination: NicId(fields[2].parse().unwrap()),
            size: Bytes(fields[3].parse().unwrap()),
            start: Time::ZERO,
            route: None,
        });
        found.times.push(fields[5].parse().unwrap());
    }
    Some(found)
}

/// Completion times of a transport, ours and the reference's.
fn compare(transport: &str, name: &str, paths: u16, seed: u64) -> Option<(Vec<f64>, Vec<f64>)> {
    let found = reference(name)?;
    let rate = Rate(100_000_000_000);
    let (config, kind) = profile(transport, rate).unwrap();
    let config = Config { paths: Paths::Spray(paths), seed, ..config };
    let radix = presets::smallest_radix(found.hosts);
    let tree = presets::fat_tree(found.hosts, radix, rate, Duration(1_000_000)).unwrap();
    let mut network = kind.network(tree, config).unwrap();
    for spec in &found.flows {
        network.add_flow(spec).unwrap();
    }
    let mut done = Vec::new();
    while network.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    assert_eq!(done.len(), found.flows.len(), "all flows finish");
    let core = network.core();
    let time = |flow: u32| core.flow(flow).done_at as f64 / 1e6;
    let times: Vec<f64> = (0..done.len() as u32).map(time).collect();
    report(name, &times, &found.times, core.counters());
    Some((times, found.times))
}

fn ndp(name: &str) -> Option<(Vec<f64>, Vec<f64>)> {
    compare("ndp", name, 128, 1)
}

fn eqds(name: &str) -> Option<(Vec<f64>, Vec<f64>)> {
    compare("eqds", name, 128, 1)
}

fn mean(times: &[f64]) -> f64 {
    times.iter().sum::<f64>() / times.len() as f64
}

fn quantile(times: &[f64], part: f64) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((times.len() - 1) as f64 * part).round() as usize]
}

fn report(name: &str, ours: &[f64], theirs: &[f64], counters: Counters) {
    let line = |times: &[f64]| {
        let [low, middle, high, top] = [0.0, 0.5, 0.99, 1.0].map(|part| quantile(times, part));
        format!("min {low:.3} mean {:.3} p50 {middle:.3} p99 {high:.3} max {top:.3}", mean(times))
    };
    println!("{name}\n  ours      {}\n  reference {}", line(ours), line(theirs));
    let (data, control) = (counters.data_hops as f64 / 1e6, counters.control_hops as f64 / 1e6);
    println!("  {data:.3} + {control:.3} M packet-hops");
}

/// Mean and p99 lie within so much of the reference.
fn assert_close((ours, theirs): (Vec<f64>, Vec<f64>), tolerance: f64) {
    for (ours, theirs) in
        [(mean(&ours), mean(&theirs)), (quantile(&ours, 0.99), quantile(&theirs, 0.99))]
    {
        let error = ours / theirs - 1.0;
        assert!(error.abs() < tolerance, "{ours} us for {theirs} us, {error:+.3}");
    }
}

#[test]
fn one_flow_is_exact() {
    for place in ["intra", "xpod"] {
        let name = |transport| format!("htsim_one_{place}_128__{transport}_100G_p128.csv");
        let found = [ndp(&name("ndp")), eqds(&name("eqds"))];
        for (ours, theirs) in found.into_iter().flatten() {
            // The reference prints six digits.
            assert!((ours[0] - theirs[0]).abs() <= 0.0005, "{} for {}", ours[0], theirs[0]);
        }
    }
}

#[test]
fn permutations_of_ndp() {
    for name in ["htsim_perm_128_2MB__ndp_100G_p128.csv", "htsim_perm_1024_2MB__ndp_100G_p128.csv"]
    {
        if let Some(found) = ndp(name) {
            assert_close(found, 0.05);
        }
    }
}

#[test]
fn permutations_of_eqds() {
    for name in [
        "htsim_perm_128_2MB__eqds_100G_p128.csv",
        "htsim_perm_128_16MB__eqds_100G_p128.csv",
        "htsim_perm_1024_2MB__eqds_100G_p128.csv",
    ] {
        if let Some(found) = eqds(name) {
            assert_close(found, 0.05);
        }
    }
}

/// One path per flow, drawn at random: mean and p99 of the reference lie among those of 20 draws.
#[test]
fn single_paths_of_eqds() {
    const NAME: &str = "htsim_perm_128_2MB__eqds_100G_p1.csv";
    let runs: Vec<_> = (0..20).map_while(|seed| compare("eqds", NAME, 1, seed)).collect();
    let Some((_, theirs)) = runs.first() else { return };
    for statistic in [mean, |times: &[f64]| quantile(times, 0.99)] {
        let draws: Vec<f64> = runs.iter().map(|(ours, _)| statistic(ours)).collect();
        let (low, high) = (quantile(&draws, 0.05), quantile(&draws, 0.95));
        let theirs = statistic(theirs);
        assert!((low..=high).contains(&theirs), "{theirs} us, ours {low} to {high} us");
    }
}

#[test]
fn all_to_alls() {
    if let Some(found) = ndp("htsim_a2a_128_g8_1MB__ndp_100G_p128.csv") {
        assert_close(found, 0.05);
    }
    if let Some(found) = eqds("htsim_a2a_128_g8_1MB__eqds_100G_p128.csv") {
        assert_close(found, 0.05);
    }
}

#[test]
fn incasts() {
    for senders in [8, 32] {
        let name =
            |transport| format!("htsim_incast_128_{senders}to1_1MB__{transport}_100G_p128.csv");
        let found = [ndp(&name("ndp")), eqds(&name("eqds"))];
        for found in found.into_iter().flatten() {
            assert_close(found, 0.1);
        }
    }
}
