//! Flow completion times of reference simulators, and ours of the same flows.
//!
//! The set lies outside the repository: ffsim-opera (commit 461b21f) for DCTCP, csg-htsim
//! (841d9e7b) for the others. Both draw paths at random, and the former starts flows in the order
//! of a hash map, so one run of theirs is compared with ours over seeds, which draw both.

use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::transport::dctcp::DctcpParameters;
use lightloom_packetsim::{FlowSpec, NicId, PathChoice, Pfc, TransportKind, presets, profile};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the set is looked for.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/ref");

/// Seeds over which distributions are compared.
pub const SEEDS: u64 = 20;

/// The statistics that [`summary`] returns.
pub const STATISTICS: [&str; 4] = ["mean", "p50", "p99", "max"];

/// One file.
pub struct Reference {
    pub name: String,
    pub hosts: u32,
    pub flows: Vec<FlowSpec>,
    /// Completion times in us.
    pub times: Vec<f64>,
}

/// All files whose names have one of these parts, by name; none, with a message, where there is no
/// such folder.
pub fn files(folder: &Path, parts: &[&str]) -> Vec<Reference> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        println!("skipped: there are no reference results in {}", folder.display());
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    paths.sort();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.retain(|path| parts.iter().any(|part| name(path).contains(part)));
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a readable file");
    paths.iter().map(|path| parse(&name(path), &read(path))).collect()
}

/// Reads a file: comments, one of which has the command with `-nodes`, then a table with columns
/// in any order. Flows start together, so when they start is left out.
pub fn parse(name: &str, text: &str) -> Reference {
    let (comments, rows): (Vec<_>, Vec<_>) = text.lines().partition(|line| line.starts_with('#'));
    let mut words = comments.iter().flat_map(|line| line.split(' '));
    let hosts = words.by_ref().find(|&word| word == "-nodes").and_then(|_| words.next());
    let columns: Vec<&str> = rows[0].split(',').collect();
    let column = |name| columns.iter().position(|&column| column == name).expect("a column");
    let [source, destination, size, time] = ["src", "dst", "bytes", "fct_us"].map(column);
    let table: Vec<Vec<&str>> = rows[1..].iter().map(|row| row.split(',').collect()).collect();
    let flow = |row: &Vec<&str>| FlowSpec {
        source: NicId(row[source].parse().expect("a host")),
        destination: NicId(row[destination].parse().expect("a host")),
        size: Bytes(row[size].parse().expect("bytes")),
        start: Time::ZERO,
        priority: 0,
        class: 0,
        route: None,
    };
    Reference {
        name: name.to_owned(),
        hosts: hosts.expect("-nodes").parse().expect("a number of hosts"),
        flows: table.iter().map(flow).collect(),
        times: table.iter().map(|row| row[time].parse().expect("a time")).collect(),
    }
}

impl Reference {
    /// The name is `htsim_SCENARIO__TRANSPORT_100G_pPATHS.csv` or `ffsim_SCENARIO_100G_qQUEUE.csv`.
    pub fn scenario(&self) -> &str {
        let (_, rest) = self.name.split_once('_').expect("a simulator");
        let end = rest.find("__").or_else(|| rest.find("_100G")).expect("a rate of 100 Gb/s");
        &rest[..end]
    }

    /// The name by which [`profile`] knows it.
    pub fn transport(&self) -> &str {
        let after = self.name.split_once("__");
        after.map_or("dctcp", |(_, rest)| rest.split('_').next().expect("a transport"))
    }

    /// Over how many paths packets are sprayed, or how many packets fit into a queue.
    pub fn last_number(&self) -> u16 {
        let (_, last) = self.name.rsplit_once('_').expect("several words");
        last[1..].trim_end_matches(".csv").parse().expect("a number")
    }

    /// Whether packets of one flow take different paths.
    pub fn is_sprayed(&self) -> bool {
        self.name.starts_with("htsim") && self.last_number() > 1
    }
}

/// Our completion times of the flows of a file, in us, in no particular order.
pub fn simulate(reference: &Reference, seed: u64) -> Vec<f64> {
    let rate = Rate(100_000_000_000);
    let (mut config, mut kind) = profile(reference.transport(), rate).expect("a transport");
    config.seed = seed;
    if config.paths != PathChoice::Ecmp {
        config.paths = PathChoice::Spray(reference.last_number());
    }
    match &mut kind {
        TransportKind::Dctcp(parameters) => {
            *parameters = DctcpParameters::FFSIM;
            // Their queues hold the packet that is being sent, too.
            config.queue_bytes = (u32::from(reference.last_number()) - 1) * config.packet_bytes();
        }
        TransportKind::Hpcc(parameters) => {
            parameters.base_rtt = Some(Duration(12_000_000));
            config.pfc = Some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 });
            config.header = 64;
        }
        TransportKind::Swift(_) => config.header = 0,
        _ => {}
    }
    let radix = presets::smallest_radix(reference.hosts);
    let tree = presets::fat_tree(reference.hosts, radix, rate, Duration(1_000_000)).unwrap();
    let mut network = kind.simulation(tree, config).expect("valid");
    let mut order: Vec<usize> = (0..reference.flows.len()).collect();
    if reference.transport() == "dctcp" {
        // ffsim-opera starts flows in the order of a hash map.
        order.sort_by_cached_key(|&index| hash((seed, index)));
    }
    for index in order {
        network.add_flow(&reference.flows[index]).expect("a path");
    }
    let mut done = Vec::new();
    while network.advance(Time(u64::MAX), &mut done, &mut Silent).expect("not interrupted") {}
    assert_eq!(done.len(), reference.flows.len(), "all flows of {} finish", reference.name);
    done.iter().map(|flow| network.core().flow(*flow).done_at.0 as f64 / 1e6).collect()
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Mean, median, 99th percentile and maximum. A percentile is the value of the nearest rank, as in
/// the heads of the files.
pub fn summary(times: &[f64]) -> [f64; 4] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = |part: f64| (part * sorted.len() as f64).round().max(1.0) as usize;
    let [middle, high, top] = [0.5, 0.99, 1.0].map(|part| sorted[rank(part) - 1]);
    [times.iter().sum::<f64>() / times.len() as f64, middle, high, top]
}

/// A statistic of the reference, and the interval in which ours lies for nine seeds of ten.
pub struct Comparison {
    pub reference: f64,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Comparison {
    fn new(reference: f64, mut ours: Vec<f64>) -> Self {
        ours.sort_by(f64::total_cmp);
        // Of 20, the second from either end.
        let (count, skipped) = (ours.len(), ours.len() / 20);
        let median = f64::midpoint(ours[(count - 1) / 2], ours[count / 2]);
        Self { reference, low: ours[skipped], median, high: ours[count - 1 - skipped] }
    }

    /// How far the nearest of ours is from the reference, in parts of it; 0 if that lies between.
    pub fn outside(&self) -> f64 {
        self.reference.clamp(self.low, self.high) / self.reference - 1.0
    }
}

/// All [`STATISTICS`] over seeds from 1 on, on all processors.
pub fn compare(reference: &Reference, seeds: u64) -> [Comparison; 4] {
    let next = AtomicU64::new(1);
    let work = || {
        let mut found = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed > seeds {
                return found;
            }
            found.push(summary(&simulate(reference, seed)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let runs: Vec<[f64; 4]> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("no panic")).collect()
    });
    let theirs = summary(&reference.times);
    std::array::from_fn(|index| {
        Comparison::new(theirs[index], runs.iter().map(|run| run[index]).collect())
    })
}
