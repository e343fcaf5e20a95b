//! How fast packets are simulated.
//!
//! `speed TRANSPORT HOSTS RATE_GBPS MEGABYTES permutation|all-to-all [SEED [THREADS]]`: a fat tree
//! of smallest switches, 1 us per link; one cycle through all hosts in random order, or all pairs
//! in groups of 8 hosts, each group spread over the tree. Prints completion times, packet-hops (a
//! packet that leaves a link), time of the run without its set-up, and peak memory. The time is
//! processor time for one thread, and time on the clock for two.

use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::{Balance, FlowSpec, NicId, PacketFlowId, presets, profile};

/// Fisher and Yates by a small generator (splitmix64): any order does.
fn shuffled(count: u32, seed: u64) -> Vec<u32> {
    let mut state = seed;
    let mut order: Vec<u32> = (0..count).collect();
    for last in (1..order.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        order.swap(last, ((word ^ (word >> 31)) % (last as u64 + 1)) as usize);
    }
    order
}

fn pairs(hosts: u32, pattern: &str, seed: u64) -> Vec<(u32, u32)> {
    match pattern {
        "permutation" => {
            let order = shuffled(hosts, seed);
            let next = order.iter().cycle().skip(1);
            order.iter().copied().zip(next.copied()).collect()
        }
        "all-to-all" => {
            let groups = hosts / 8;
            let place = |group, member| group + member * groups;
            (0..groups)
                .flat_map(|group| (0..64).map(move |pair| (group, pair / 8, pair % 8)))
                .filter(|(_, from, to)| from != to)
                .map(|(group, from, to)| (place(group, from), place(group, to)))
                .collect()
        }
        _ => panic!("expected permutation or all-to-all, not {pattern:?}"),
    }
}

/// A field of `/proc/self/status` in kB.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Processor time of this process, in s.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn print_balance(balance: Balance, events: u64) {
    println!(
        "{} windows; {:.3} M events of the half that had more in each: at most {:.2} times one \
         thread",
        balance.windows,
        balance.critical_events as f64 / 1e6,
        events as f64 / balance.critical_events as f64
    );
}

/// A flow that starts at once.
fn flow(from: u32, to: u32, megabytes: f64) -> FlowSpec {
    FlowSpec {
        source: NicId(from),
        destination: NicId(to),
        size: Bytes((megabytes * 1e6) as u64),
        start: Time::ZERO,
        priority: 0,
        class: 0,
        route: None,
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let word =
        |index: usize, default: &str| words.get(index).map_or(default, |word| word).to_owned();
    let name = word(0, "roce");
    let hosts: u32 = word(1, "1024").parse().expect("a number of hosts");
    let rate: u64 = word(2, "100").parse().expect("a rate in Gb/s");
    let megabytes: f64 = word(3, "2").parse().expect("a size in MB");
    let pattern = word(4, "permutation");
    let seed: u64 = word(5, "1").parse().expect("a seed");

    let rate = Rate(rate * 1_000_000_000);
    let radix = presets::smallest_radix(hosts);
    let topology = presets::fat_tree(hosts, radix, rate, Duration(1_000_000)).expect("a fat tree");
    let (mut config, transport) = profile(&name, rate).expect("a transport");
    config.seed = seed;
    let is_divided = word(6, "1") == "2";
    let network = if is_divided {
        transport.simulation_in_halves(topology, config)
    } else {
        transport.simulation(topology, config)
    };
    let mut network = network.expect("a valid configuration");
    for (from, to) in pairs(hosts, &pattern, seed) {
        let spec = flow(from, to, megabytes);
        network.add_flow(&spec).expect("hosts are joined");
    }
    let (begin, clock) = (processor_time(), std::time::Instant::now());
    let mut done = Vec::new();
    let flows = network.core().flow_count();
    while done.len() < flows {
        network.advance(Time(u64::MAX), &mut done, &mut Silent).expect("not interrupted");
    }
    let elapsed = clock.elapsed().as_secs_f64();
    let seconds = if is_divided { elapsed } else { processor_time() - begin };

    let core = network.core();
    let time = |&flow: &PacketFlowId| core.flow(flow).done_at.0 as f64 / 1e6;
    let mut times: Vec<f64> = done.iter().map(time).collect();
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    println!(
        "{name}, {pattern} of {megabytes} MB: {} flows, FCT [us] mean {mean:.1} p50 {:.1} \
         p99 {:.1} max {:.1}",
        times.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    );
    let counters = network.counters();
    let hops = counters.data_hops + counters.control_hops;
    println!(
        "{:.2} + {:.2} M packet-hops (data + control), {:.2} M events, {seconds:.2} s: {:.2} M \
         packet-hops/s, {:.2} M data; {} packets at most at once, {} MB",
        counters.data_hops as f64 / 1e6,
        counters.control_hops as f64 / 1e6,
        counters.events as f64 / 1e6,
        hops as f64 / seconds / 1e6,
        counters.data_hops as f64 / seconds / 1e6,
        network.peak_packets(),
        status("VmHWM") / 1000
    );
    if let Some(balance) = network.balance() {
        print_balance(balance, counters.events);
    }
}
