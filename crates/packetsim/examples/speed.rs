//! Packet-hops per second: `speed HOSTS RATE_GBPS BYTES PATTERN`, the pattern one of `permutation`
//! and `all-to-all` (in groups of 8).

use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::transport::line_rate::LineRate;
use lightloom_packetsim::{Config, FlowSpec, NicId, Overflow, Paths, Pfc, Simulation, presets};

fn flows(hosts: u32, pattern: &str, bytes: u64) -> Vec<FlowSpec> {
    let mut pairs = Vec::new();
    if pattern == "permutation" {
        // one cycle through all hosts in a scattered order
        let step = (hosts / 2 + 1) | 1;
        let order: Vec<u32> = (0..hosts)
            .map(|index| (u64::from(index) * u64::from(step) % u64::from(hosts)) as u32)
            .map(|x| x.reverse_bits() >> (32 - hosts.trailing_zeros()))
            .collect();
        for index in 0..hosts as usize {
            pairs.push((order[index], order[(index + 1) % hosts as usize]));
        }
    } else {
        let groups = hosts / 8;
        for group in 0..groups {
            for from in 0..8 {
                for to in (0..8).filter(|&to| to != from) {
                    pairs.push((group + from * groups, group + to * groups));
                }
            }
        }
    }
    let spec = |(from, to)| FlowSpec {
        source: NicId(from),
        destination: NicId(to),
        size: Bytes(bytes),
        start: Time::ZERO,
        route: None,
    };
    pairs.into_iter().map(spec).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |index: usize, default: u64| {
        words.get(index).map_or(default, |word| word.parse().expect("a number"))
    };
    let hosts = number(1, 1024) as u32;
    let rate = Rate(number(2, 100) * 1_000_000_000);
    let bytes = number(3, 2_000_000);
    let pattern = words.get(4).map_or("permutation", String::as_str);
    let radix = presets::smallest_radix(hosts);
    let topology = presets::fat_tree(hosts, radix, rate, Duration(1_000_000)).expect("a tree");
    let config = Config {
        mtu: 4096,
        header: 64,
        full_tail: true,
        control_bytes: 64,
        control_priority: false,
        queue_bytes: u32::MAX,
        control_queue_bytes: u32::MAX,
        overflow: Overflow::Drop,
        ecn: None,
        pfc: (number(6, 1) == 1).then_some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 }),
        paths: Paths::Ecmp,
        seed: number(5, 1),
    };
    let mut simulation = Simulation::new(topology, config, LineRate::new).expect("valid");
    for spec in flows(hosts, pattern, bytes) {
        simulation.add_flow(&spec).expect("valid");
    }
    let begin = std::time::Instant::now();
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).expect("not interrupted") {}
    let wall = begin.elapsed().as_secs_f64();
    let core = simulation.core();
    let mut times: Vec<f64> =
        done.iter().map(|flow| core.flow(flow.0).done_at as f64 / 1e6).collect();
    times.sort_by(f64::total_cmp);
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let counters = core.counters();
    let hops = counters.data_hops + counters.control_hops;
    println!(
        "{} flows, FCT us min {:.3} mean {mean:.3} p50 {:.3} max {:.3}",
        times.len(),
        times[0],
        times[times.len() / 2],
        times[times.len() - 1]
    );
    println!(
        "{hops} packet-hops ({} data), {} events, {wall:.3} s, {:.2} M packet-hops/s",
        counters.data_hops,
        counters.events,
        hops as f64 / wall / 1e6
    );
}
