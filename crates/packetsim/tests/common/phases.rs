//! All-to-alls of packets and of fluid flows over one switch.

use lightloom_flowsim::FlowNetwork;
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Rate, Time};
use lightloom_packetsim::transport::line_rate::LineRate;
use lightloom_packetsim::{
    Balancing, Config, FlowSpec, NicId, Overflow, PathChoice, Simulation, presets,
};

const HOSTS: u32 = 16;
const RATE: Rate = Rate(400_000_000_000);
const DELAY: Duration = Duration(500_000);
const HEADER: u32 = 8;

/// Payloads of packets in B, from large to small.
pub const PAYLOADS: [u32; 5] = [8192, 4096, 2048, 1024, 512];

/// By how much flows grow.
pub const SCALES: [u64; 4] = [1, 2, 4, 8];

/// Bytes from a host to another.
pub type Sizes = fn(u32, u32) -> u64;

pub fn uniform(_from: u32, _to: u32) -> u64 {
    1 << 17
}

/// Two hot experts.
pub fn hot_receivers(_from: u32, to: u32) -> u64 {
    match to {
        3 => 1 << 19,
        11 => 1 << 18,
        _ => 1 << 16,
    }
}

/// Every row and column different.
pub fn skewed(from: u32, to: u32) -> u64 {
    (1 << 14) * u64::from(1 + from % 3) * u64::from(1 + (to * 7) % HOSTS)
}

pub fn incast(_from: u32, to: u32) -> u64 {
    u64::from(to == 0) << 18
}

fn pairs(sizes: Sizes, scale: u64) -> Vec<(u32, u32, u64)> {
    let all = (0..HOSTS).flat_map(|from| (0..HOSTS).map(move |to| (from, to)));
    all.filter(|(from, to)| from != to)
        .map(|(from, to)| (from, to, scale * sizes(from, to)))
        .filter(|&(_, _, bytes)| bytes > 0)
        .collect()
}

/// When the last packet of the phase is received, in s.
fn packets(sizes: Sizes, scale: u64, mtu: u32) -> f64 {
    let config = Config {
        mtu,
        header: HEADER,
        full_tail: false,
        control_bytes: 1,
        control_priority: true,
        queue_bytes: u32::MAX,
        control_queue_bytes: u32::MAX,
        overflow: Overflow::Drop,
        early_drop: None,
        ecn: None,
        pfc: None,
        telemetry: false,
        links_fail: false,
        highest_priority: 0,
        paths: PathChoice::Ecmp,
        balancing: Balancing::Hash,
        flowlet_gap: Duration(0),
        plane_silence: None,
        shared_buffer: None,
        loss: 0.0,
        seed: 1,
    };
    let topology = presets::star(HOSTS, RATE, DELAY).unwrap();
    let mut network = Simulation::new(topology, config, LineRate::new).unwrap();
    for (from, to, bytes) in pairs(sizes, scale) {
        let spec = FlowSpec {
            source: NicId(from),
            destination: NicId(to),
            size: Bytes(bytes),
            start: Time::ZERO,
            priority: 0,
            class: 0,
            route: None,
        };
        network.add_flow(&spec).unwrap();
    }
    let mut done = Vec::new();
    while network.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    let times = done.iter().map(|flow| network.core().flow(*flow).received_at);
    times.max().unwrap().as_seconds()
}

/// The same at flow level, headers included, and the propagation.
fn fluid(sizes: Sizes, scale: u64, mtu: u32) -> f64 {
    let mut network = FlowNetwork::new();
    let up: Vec<_> = (0..HOSTS).map(|_| network.add_link(RATE)).collect();
    let down: Vec<_> = (0..HOSTS).map(|_| network.add_link(RATE)).collect();
    for (from, to, bytes) in pairs(sizes, scale) {
        let wire = bytes + bytes.div_ceil(u64::from(mtu)) * u64::from(HEADER);
        let path = [up[from as usize], down[to as usize]];
        network.start(Time::ZERO, Bytes(wire), &path, 0);
    }
    let (mut end, mut done) = (Time::ZERO, Vec::new());
    while let Some(time) = network.next_completion() {
        end = time;
        network.advance(time, &mut done);
    }
    (end + DELAY + DELAY).as_seconds()
}

/// How much longer packets take than fluid flows, in parts, for each of [`PAYLOADS`].
pub fn errors_by_payload(sizes: Sizes) -> [f64; 5] {
    PAYLOADS.map(|mtu| packets(sizes, 1, mtu) / fluid(sizes, 1, mtu) - 1.0)
}

/// The same for each of [`SCALES`], packets of 4,096 B.
pub fn errors_by_scale(sizes: Sizes) -> [f64; 4] {
    SCALES.map(|scale| packets(sizes, scale, 4096) / fluid(sizes, scale, 4096) - 1.0)
}

/// The exponent with which the error falls between the first and the last, per halving.
pub fn slope(errors: &[f64]) -> f64 {
    (errors[0] / errors[errors.len() - 1]).log2() / (errors.len() - 1) as f64
}
