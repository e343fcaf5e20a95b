//! Transfers that are alike: as one they are simulated with the same result as apart.
//!
//! Servers of a rack are alike if they send as many transfers of each size to the servers of each
//! class, receive as many from there, and the classes are those of servers that are alike: the
//! coarsest such partition is found by refining racks until nothing changes. NICs of a class and
//! transfers from class to class then stand in the same relations to one another as each of them
//! does, so that max-min fair rates of the transfers are equal at all times (the allocation is
//! unique), and the NICs of a class are one link that is as fast as all of them. All of that holds
//! while nothing else is on the links: what else begins must respect the classes, or they are
//! given up and every server is one again.

use super::pieces::Member;
use rustc_hash::FxHashMap;

/// Rounds of refinement after which servers count as unlike.
const MOST_ROUNDS: usize = 32;

/// A transfer that begins.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub member: Member,
    pub priority: u8,
    pub bytes: u64,
}

/// Transfers of one size and priority from one class of servers to another.
#[derive(Debug, Clone)]
pub(super) struct Bundle {
    pub from: u32,
    pub to: u32,
    pub priority: u8,
    pub bytes: u64,
    pub members: Vec<Member>,
}

/// Splits classes of servers until those of each send and receive alike; the classes are numbered
/// as their first servers are. Nothing if that leads to hardly fewer classes than servers.
pub(super) fn refined(classes: &[u32], starts: &[Start]) -> Option<Vec<u32>> {
    let mut classes = classes.to_vec();
    let mut count = classes.iter().max().map_or(0, |&last| last as usize + 1);
    for _ in 0..MOST_ROUNDS {
        // Order must not matter: sums of hashes of 128 bits, which hardly ever agree by chance.
        let mut sums = vec![0_u128; classes.len()];
        for &Start { member: Member { from, to, .. }, priority, bytes } in starts {
            let [from, to] = [from as usize, to as usize];
            let sent = hash([bytes, priority.into(), classes[to].into(), 0]);
            let received = hash([bytes, priority.into(), classes[from].into(), 1]);
            sums[from] = sums[from].wrapping_add(sent);
            sums[to] = sums[to].wrapping_add(received);
        }
        let mut numbers: FxHashMap<(u32, u128), u32> = FxHashMap::default();
        let number = |(class, sum): (&u32, &u128)| {
            let next = numbers.len() as u32;
            *numbers.entry((*class, *sum)).or_insert(next)
        };
        classes = classes.iter().zip(&sums).map(number).collect();
        if numbers.len() == count {
            return Some(classes);
        }
        count = numbers.len();
        if 2 * count > classes.len() {
            return None;
        }
    }
    None
}

/// Transfers from class to class, in the order in which the first of each begins.
pub(super) fn bundled(classes: &[u32], starts: &[Start]) -> Vec<Bundle> {
    let mut places: FxHashMap<(u32, u32, u8, u64), u32> = FxHashMap::default();
    let mut bundles: Vec<Bundle> = Vec::new();
    for &Start { member, priority, bytes } in starts {
        let [from, to] = [member.from, member.to].map(|server| classes[server as usize]);
        let place = *places.entry((from, to, priority, bytes)).or_insert_with(|| {
            bundles.push(Bundle { from, to, priority, bytes, members: Vec::new() });
            bundles.len() as u32 - 1
        });
        bundles[place as usize].members.push(member);
    }
    bundles
}

/// A hash of four numbers: two runs of the finalizer of `SplitMix64`.
fn hash(numbers: [u64; 4]) -> u128 {
    let run = |seed: u64| {
        numbers.into_iter().fold(seed, |sum, number| {
            let mut x = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ (x >> 31)
        })
    };
    (u128::from(run(0x6c69_6768)) << 64) | u128::from(run(0x746c_6f6f))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Transfers of these sizes between servers.
    fn starts(transfers: &[(u32, u32, u64)]) -> Vec<Start> {
        let start = |(token, &(from, to, bytes)): (u64, &(u32, u32, u64))| Start {
            member: Member { token, from, to },
            priority: 0,
            bytes,
        };
        (0..).zip(transfers).map(start).collect()
    }

    #[test]
    fn servers_of_a_rack_are_alike_if_they_send_and_receive_the_same() {
        let racks = [0, 0, 0, 1, 1, 1];
        let all: Vec<_> = (0..36).map(|cell| (cell / 6, cell % 6, 5)).collect();
        let others: Vec<_> = all.iter().copied().filter(|(from, to, _)| from != to).collect();
        assert_eq!(refined(&racks, &starts(&others)).unwrap(), racks);
        // Each to one of the other rack, whichever.
        let turned = [(0, 4, 5), (1, 5, 5), (2, 3, 5)];
        assert_eq!(refined(&racks, &starts(&turned)).unwrap(), racks);
        // One that receives twice is unlike, and so is who sends to it.
        let racks = [0, 0, 0, 0, 1, 1, 1, 1];
        let twice = [(0, 4, 5), (1, 4, 5), (2, 5, 5), (3, 6, 5)];
        assert_eq!(refined(&racks, &starts(&twice)), None);
        let racks = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1];
        let twice = [(0, 6, 5), (1, 6, 5), (2, 7, 5), (3, 8, 5), (4, 9, 5), (5, 10, 5)];
        let classes = [0, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 4];
        assert_eq!(refined(&racks, &starts(&twice)).unwrap(), classes);
    }

    #[test]
    fn sizes_tell_transfers_apart() {
        let classes = [0, 0, 1, 1];
        let found = bundled(&classes, &starts(&[(0, 2, 5), (1, 3, 5), (0, 3, 6), (1, 2, 6)]));
        let sizes: Vec<_> = found.iter().map(|one| (one.bytes, one.members.len())).collect();
        assert_eq!(sizes, [(5, 2), (6, 2)]);
        let tokens: Vec<_> = found[1].members.iter().map(|member| member.token).collect();
        assert_eq!(tokens, [2, 3]);
    }
}
