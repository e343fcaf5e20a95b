//! Flow completion times of reference simulators, and ours of the same flows.
//!
//! The set is outside the repository, in `../shared/ref`: ffsim-opera (commit 461b21f) for DCTCP,
//! csg-htsim (841d9e7b) for the others. Both draw paths at random, and the former starts flows in
//! the order of a hash map, so one run of theirs is compared with the distribution over our seeds,
//! which draw both.

use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::{FlowSpec, NicId, Paths, TransportKind, presets, profile};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Names of the columns of [`summary`].
pub const STATISTICS: [&str; 4] = ["mean", "p50", "p99", "max"];

/// One file.
pub struct Reference {
    pub name: String,
    pub hosts: u32,
    pub flows: Vec<FlowSpec>,
    /// Completion times in us.
    pub times: Vec<f64>,
}

/// The folder of the set; `None`, with a message, where there is none.
pub fn folder() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/ref");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: there are no reference results in {}", folder.display());
    None
}

/// All files whose names have one of these parts, by name; none where there is no set.
pub fn files(parts: &[&str]) -> Vec<Reference> {
    let Some(folder) = folder() else { return Vec::new() };
    let entries = std::fs::read_dir(folder).expect("a readable folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.retain(|path| parts.iter().any(|part| name(path).contains(part)));
    paths.iter().map(|path| read(&name(path), path)).collect()
}

fn read(name: &str, path: &Path) -> Reference {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let mut found =
        Reference { name: name.to_owned(), hosts: 0, flows: Vec::new(), times: Vec::new() };
    let mut columns: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some((_, rest)) = line.split_once("-nodes ") {
            found.hosts = rest.split(' ').next().unwrap().parse().expect("a number of hosts");
        }
        if line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split(',').collect();
        if columns.is_empty() {
            columns = fields;
            continue;
        }
        let field = |name: &str| {
            let place = columns.iter().position(|column| *column == name).expect("a column");
            fields[place]
        };
        let number = |name| field(name).parse::<u32>().expect("a whole number");
        let time: f64 = field("fct_us").parse().expect("a time");
        rows.push((number("src"), number("dst"), number("bytes"), time));
    }
    for (source, destination, bytes, time) in rows {
        found.flows.push(FlowSpec {
            source: NicId(source),
            destination: NicId(destination),
            size: Bytes(u64::from(bytes)),
            start: Time::ZERO,
            route: None,
        });
        found.times.push(time);
    }
    found
}

/// Our completion times of the flows of a file, in us.
pub fn simulate(reference: &Reference, seed: u64) -> Vec<f64> {
    let rate = Rate(100_000_000_000);
    let (mut config, mut kind) = profile(transport(&reference.name), rate).expect("a transport");
    config.seed = seed;
    if let Some((_, paths)) = reference.name.rsplit_once("_p")
        && config.paths != Paths::Ecmp
    {
        config.paths = Paths::Spray(paths.trim_end_matches(".csv").parse().expect("paths"));
    }
    if let TransportKind::Dctcp(parameters) = &mut kind {
        parameters.bursts = true;
        let (_, queue) = reference.name.split_once("_q").expect("a queue length in the name");
        let packets: u32 = queue.trim_end_matches(".csv").parse().expect("a queue length");
        // Their queues hold the packet that is being sent, too.
        config.queue_bytes = (packets - 1) * config.packet_bytes();
    }
    let radix = presets::smallest_radix(reference.hosts);
    let tree = presets::fat_tree(reference.hosts, radix, rate, Duration(1_000_000)).unwrap();
    let mut network = kind.network(tree, config).expect("valid");
    let mut order: Vec<usize> = (0..reference.flows.len()).collect();
    order.sort_by_cached_key(|&index| hash((seed, index)));
    for index in order {
        network.add_flow(&reference.flows[index]).expect("a path");
    }
    let mut done = Vec::new();
    while network.advance(Time(u64::MAX), &mut done, &mut Silent).expect("not interrupted") {}
    assert_eq!(done.len(), reference.flows.len(), "all flows of {} finish", reference.name);
    let time = |flow: u32| network.core().flow(flow).done_at as f64 / 1e6;
    (0..done.len() as u32).map(time).collect()
}

/// The name of the transport of a file: `htsim_PATTERN__TRANSPORT_...` or `ffsim_...`.
fn transport(name: &str) -> &str {
    name.split_once("__").map_or("dctcp", |(_, rest)| rest.split('_').next().unwrap_or_default())
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Mean, median, 99th percentile (nearest rank) and maximum.
pub fn summary(times: &[f64]) -> [f64; 4] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |part: f64| sorted[(part * sorted.len() as f64).ceil() as usize - 1];
    [times.iter().sum::<f64>() / times.len() as f64, rank(0.5), rank(0.99), rank(1.0)]
}

/// What a reference has, and between what ours lies for nine seeds of ten.
pub struct Comparison {
    pub reference: f64,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Comparison {
    /// Whether the reference lies in between, but for so large a part of it.
    pub fn is_inside(&self, slack: f64) -> bool {
        let margin = slack * self.reference;
        (self.low - margin..=self.high + margin).contains(&self.reference)
    }
}

/// All [`STATISTICS`] over seeds 1 to 20.
pub fn compare(reference: &Reference) -> [Comparison; 4] {
    let runs: Vec<[f64; 4]> = (1..=20).map(|seed| summary(&simulate(reference, seed))).collect();
    let theirs = summary(&reference.times);
    std::array::from_fn(|index| {
        let mut ours: Vec<f64> = runs.iter().map(|run| run[index]).collect();
        ours.sort_by(f64::total_cmp);
        // Of 20, the second smallest and the second largest.
        Comparison { reference: theirs[index], low: ours[1], median: ours[10], high: ours[18] }
    })
}
