//! Flows by the names of their scenarios, as the reference simulators were given them.

use lightloom_model::{Bytes, Time};
use lightloom_packetsim::{FlowSpec, NicId};

/// The finalizer of splitmix64 (Steele et al., OOPSLA 2014): orders the hosts of a permutation.
fn mix(word: u64) -> u64 {
    let mut x = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// How many hosts there are and their flows, which all start at once: `one_HOSTS_SIZE` from the
/// first host to the last, `perm_HOSTS_SIZE` one cycle through all hosts, `incast_HOSTS_Kto1_SIZE`
/// to host 0 from K hosts at equal distances, `a2a_HOSTS_gG_SIZE` all pairs in groups of G hosts
/// that are HOSTS / G apart.
pub fn flows(name: &str) -> (u32, Vec<FlowSpec>) {
    let words: Vec<&str> = name.split('_').collect();
    let hosts: u32 = words[1].parse().expect("a number of hosts");
    let size = bytes(words[words.len() - 1]);
    let pairs: Vec<(u32, u32)> = match words[0] {
        "one" => vec![(0, hosts - 1)],
        "perm" => {
            let mut order: Vec<u32> = (0..hosts).collect();
            order.sort_by_key(|&host| mix(host.into()));
            (0..order.len()).map(|at| (order[at], order[(at + 1) % order.len()])).collect()
        }
        "incast" => {
            let senders: u32 = words[2].trim_end_matches("to1").parse().expect("a number");
            // To the nearest whole number, and a half to the even one.
            let place = |sender| f64::from(sender) * f64::from(hosts) / f64::from(senders + 1);
            (1..=senders).map(|it| (place(it).round_ties_even() as u32, 0)).collect()
        }
        "a2a" => {
            let group: u32 = words[2][1..].parse().expect("a number");
            let apart = hosts / group;
            let members = |first: u32| (first..hosts).step_by(apart as usize);
            (0..apart)
                .flat_map(|first| members(first).map(move |source| (first, source)))
                .flat_map(|(first, source)| members(first).map(move |it| (source, it)))
                .filter(|(source, destination)| source != destination)
                .collect()
        }
        kind => panic!("no scenario {kind}"),
    };
    let flow = |(source, destination)| FlowSpec {
        source: NicId(source),
        destination: NicId(destination),
        size,
        start: Time::ZERO,
        priority: 0,
        class: 0,
        route: None,
    };
    (hosts, pairs.into_iter().map(flow).collect())
}

/// `10kB`, `2MB`.
fn bytes(text: &str) -> Bytes {
    let (number, unit) = text.split_at(text.len() - 2);
    let number: u64 = number.parse().expect("a number of bytes");
    Bytes(number * if unit == "kB" { 1000 } else { 1_000_000 })
}
