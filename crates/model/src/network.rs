//! What parts of networks are described with: how all-to-alls are spread, the inside of a server,
//! circuits.

use crate::units::{Bytes, Duration, Rate};
use serde::Deserialize;

choices! {
    /// How the all-to-all is spread over the NICs of a server.
    pub enum AllToAll: "all_to_all" {
        Flat = "flat": "GPU to GPU, each over its own NIC",
        Rail = "rail": "First to the local GPU on the destination's rail (PXN), then across",
        Hierarchical = "hierarchical":
            "Gathered, spread evenly over all NICs of the server, scattered at the receiver",
    }
}

/// How long operations of one kind take inside a server: the latency, that of each peer, then the
/// bytes of the busiest GPU at the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalPace {
    /// Rate that one GPU reaches, per direction.
    pub gpu_rate: Rate,
    /// Start-up latency of one operation.
    pub latency: Duration,
    /// Start-up latency for each other GPU that takes part, as for each step of a ring.
    pub peer: Duration,
}

impl LocalPace {
    /// Time in which the busiest GPU moves this many bytes, with so many others; none for none.
    pub fn time(&self, bytes_per_gpu: u64, peers: u32) -> Duration {
        if bytes_per_gpu == 0 {
            return Duration::ZERO;
        }
        self.start_up(peers) + self.gpu_rate.transmission(Bytes(bytes_per_gpu))
    }

    /// What an operation with so many others takes before its bytes.
    pub fn start_up(&self, peers: u32) -> Duration {
        self.latency + self.hops(u64::from(peers))
    }

    /// Start-up latency of so many hops from GPU to GPU.
    pub fn hops(&self, hops: u64) -> Duration {
        Duration(self.peer.0.saturating_mul(hops))
    }
}

/// The scale-up network inside a server: a non-blocking crossbar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "NvSwitchPaces")]
pub struct NvSwitch {
    /// Of all-to-alls, and of copies from GPU to GPU.
    pub all_to_all: LocalPace,
    /// Of collectives that gather or reduce.
    pub gather: LocalPace,
    /// Of all-reduces where switches add up and spread (NVLink SHARP), if they do.
    pub reduce: Option<SwitchSums>,
}

/// All-reduces by switches that add up what GPUs send, and spread the sum (NVLink SHARP).
///
/// A buffer goes through in rounds: each GPU is the head of a part of it, and each channel of a GPU
/// takes a chunk of that part. The steps of a chunk follow each other, so that a round for each
/// step is under way before the first one is done; and each chunk costs as much as so many bytes
/// more. Of NCCL's chunks (2.30, `src/enqueue.cc`, `src/transport/nvls.cc`), the larger ones of
/// larger buffers, the fastest is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwitchSums {
    /// Rate that one GPU reaches, per direction.
    pub gpu_rate: Rate,
    /// Start-up latency of one operation.
    pub latency: Duration,
    /// Chunks that a GPU has under way at once.
    pub channels: u32,
    /// What a chunk costs beyond its bytes.
    pub chunk_overhead: Bytes,
}

/// Bytes of a chunk.
const CHUNKS: [u64; 4] = [128 << 10, 64 << 10, 32 << 10, 16 << 10];

impl SwitchSums {
    /// Time of adding up the buffers of so many GPUs in each of so many servers: each sends its
    /// buffer once and the sum of its share, `(n + 1) / n` of the buffer for the `2 (n - 1) / n`
    /// of a ring. Several servers send each other the sums meanwhile, which is not in it.
    pub fn time(&self, buffer: u64, gpus: u32, servers: u32) -> Duration {
        if buffer == 0 {
            return Duration::ZERO;
        }
        // added up and spread; between servers also sent there and back
        let steps = if servers == 1 { 2 } else { 4 };
        let together = u128::from(self.channels) * u128::from(gpus);
        let moved = |chunk: u64| {
            let round = u128::from(buffer).min(together * u128::from(chunk));
            let of_gpu =
                (u128::from(buffer) + steps * round) * u128::from(gpus + 1) / u128::from(gpus);
            of_gpu * u128::from(chunk + self.chunk_overhead.0) / u128::from(chunk)
        };
        let least = CHUNKS.map(moved).into_iter().min().unwrap_or(0);
        self.latency + self.gpu_rate.transmission(Bytes(u64::try_from(least).unwrap_or(u64::MAX)))
    }
}

/// An NVSwitch as it is written: what gathers has the pace of everything, where it is not said.
#[derive(Deserialize)]
struct NvSwitchPaces {
    gpu_rate_bps: Rate,
    latency_ps: Duration,
    gather_rate_bps: Option<Rate>,
    gather_latency_ps: Option<Duration>,
    gather_peer_ps: Duration,
    reduce_rate_bps: Option<Rate>,
    #[serde(default)]
    reduce_latency_ps: Duration,
    #[serde(default)]
    reduce_channels: u32,
    #[serde(default)]
    reduce_chunk_overhead: u64,
}

impl From<NvSwitchPaces> for NvSwitch {
    fn from(written: NvSwitchPaces) -> Self {
        let (gpu_rate, latency) = (written.gpu_rate_bps, written.latency_ps);
        Self {
            all_to_all: LocalPace { gpu_rate, latency, peer: Duration::ZERO },
            gather: LocalPace {
                gpu_rate: written.gather_rate_bps.unwrap_or(gpu_rate),
                latency: written.gather_latency_ps.unwrap_or(latency),
                peer: written.gather_peer_ps,
            },
            reduce: written.reduce_rate_bps.map(|gpu_rate| SwitchSums {
                gpu_rate,
                latency: written.reduce_latency_ps,
                channels: written.reduce_channels,
                chunk_overhead: Bytes(written.reduce_chunk_overhead),
            }),
        }
    }
}

impl NvSwitch {
    /// One pace for everything, with however many peers.
    pub fn uniform(gpu_rate: Rate, latency: Duration) -> Self {
        let pace = LocalPace { gpu_rate, latency, peer: Duration::ZERO };
        Self { all_to_all: pace, gather: pace, reduce: None }
    }

    /// Time of a collective in which the busiest GPU moves so many bytes around so many others.
    ///
    /// Where it adds up their buffers, of which a ring moves `2 (n - 1) / n`, switches may do so
    /// instead. The faster one is taken, as NCCL does.
    pub fn collective(&self, bytes_per_gpu: u64, peers: u32, adds_up: bool) -> Duration {
        let ring = self.gather.time(bytes_per_gpu, peers);
        let Some(sums) = self.reduce.filter(|_| adds_up && peers > 0) else { return ring };
        let buffer = u128::from(bytes_per_gpu) * u128::from(peers + 1) / (2 * u128::from(peers));
        ring.min(sums.time(u64::try_from(buffer).unwrap_or(u64::MAX), peers + 1, 1))
    }
}

/// What software takes to begin operations between servers, before or alongside the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartUp {
    /// Of a message, and of every step of a ring, over the network.
    #[serde(rename = "message_ps")]
    pub message: Duration,
    /// Of an all-to-all.
    #[serde(rename = "all_to_all_ps")]
    pub all_to_all: Duration,
    /// More of it for each rank in other servers that a rank sends to.
    #[serde(rename = "peer_ps")]
    pub peer: Duration,
    /// More of it where a rank sends to others of its server, too, or across rails.
    #[serde(rename = "mixed_ps")]
    pub mixed: Duration,
}

impl StartUp {
    /// Of an all-to-all in which every rank sends to this many ranks of other servers.
    pub fn of_all_to_all(&self, peers: u32, is_mixed: bool) -> Duration {
        let mixed = if is_mixed { self.mixed } else { Duration::ZERO };
        let peers = Duration(self.peer.0.saturating_mul(u64::from(peers)));
        Duration(self.all_to_all.0.saturating_add(mixed.0).saturating_add(peers.0))
    }
}

/// A bundle of parallel direct links between two servers, duplex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(from = "[u32; 3]")]
pub struct Circuit {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Number of parallel links.
    pub count: u32,
}

impl From<[u32; 3]> for Circuit {
    fn from([a, b, count]: [u32; 3]) -> Self {
        Self { a, b, count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte per picosecond.
    const FAST: Rate = Rate(8_000_000_000_000);

    #[test]
    fn an_operation_takes_its_latency_its_peers_and_its_bytes() {
        let pace = LocalPace { gpu_rate: FAST, latency: Duration(100), peer: Duration(10) };
        for (bytes, peers, expected) in [(7, 0, 107), (7, 3, 137), (1, 1, 111)] {
            assert_eq!(pace.time(bytes, peers), Duration(expected));
        }
        // Nothing is not begun.
        assert_eq!(pace.time(0, 7), Duration::ZERO);
    }

    #[test]
    fn a_uniform_crossbar_has_one_pace_for_everything() {
        let uniform = NvSwitch::uniform(FAST, Duration(5));
        assert_eq!(uniform.all_to_all, uniform.gather);
        let time = |peers| uniform.gather.time(3, peers);
        assert_eq!((time(0), time(7)), (Duration(8), Duration(8)));
    }

    #[test]
    fn the_start_up_of_an_all_to_all_is_the_sum_of_its_parts() {
        let (all_to_all, peer) = (Duration(1000), Duration(10));
        let start_up = StartUp { message: Duration(7), all_to_all, peer, mixed: Duration(100) };
        for peers in [0, 1, 63] {
            let pure = 1000 + 10 * u64::from(peers);
            assert_eq!(start_up.of_all_to_all(peers, false), Duration(pure));
            assert_eq!(start_up.of_all_to_all(peers, true), Duration(pure + 100));
        }
        assert_eq!(StartUp::default().of_all_to_all(9, true), Duration::ZERO);
    }

    fn sums(gpu_rate: Rate) -> SwitchSums {
        let latency = Duration(3);
        SwitchSums { gpu_rate, latency, channels: 16, chunk_overhead: Bytes(0) }
    }

    #[test]
    fn switches_add_up_where_that_is_faster_than_a_ring() {
        let gather = LocalPace { gpu_rate: FAST, latency: Duration(0), peer: Duration(0) };
        let inside = NvSwitch { all_to_all: gather, gather, reduce: Some(sums(Rate(FAST.0 / 2))) };
        // of a buffer of 8 GB among 8: 14 around a ring, or 9 and two rounds at half of the rate
        let (ring, gb) = (14_000_000_000, 1_000_000_000);
        assert_eq!(inside.collective(ring, 7, true), Duration(ring));
        let fast = NvSwitch { reduce: Some(sums(FAST)), ..inside };
        let rounds = 2 * 8 * 16 * (16 << 10) * 9 / 8;
        assert_eq!(fast.collective(ring, 7, true), Duration(9 * gb + rounds + 3));
        assert_eq!(fast.collective(ring, 7, false), Duration(ring));
        // among two, a ring moves half as much
        assert_eq!(fast.collective(8 * gb, 1, true), Duration(8 * gb));
        assert_eq!(fast.collective(0, 7, true), Duration::ZERO);
        assert_eq!(NvSwitch { reduce: None, ..inside }.collective(5, 7, true), Duration(5));
    }

    #[test]
    fn smaller_buffers_go_through_in_smaller_chunks() {
        // a chunk costs 16 KiB more; a round of 16 KiB chunks is 2 MiB of 8 GPUs with 16 channels
        let dear = SwitchSums { chunk_overhead: Bytes(16 << 10), ..sums(FAST) };
        for (buffer, servers, chunk, steps) in [
            (4_u64 << 30, 1, 128, 2),
            (4 << 30, 2, 128, 4),
            (128 << 20, 1, 64, 2),
            (128 << 20, 2, 64, 4),
            (16 << 20, 1, 32, 2),
        ] {
            let round = 8 * 16 * (chunk << 10);
            let moved = (buffer + steps * round) * 9 / 8 * (chunk + 16) / chunk;
            assert_eq!(dear.time(buffer, 8, servers), Duration(moved + 3), "{buffer}");
        }
        // a buffer of less than a round is a round
        assert_eq!(sums(FAST).time(80, 8, 1), Duration(3 * 90 + 3));
        assert_eq!(dear.time(0, 8, 1), Duration::ZERO);
    }

    #[test]
    fn absurd_times_stay_at_the_maximum() {
        let endless = Duration(u64::MAX);
        let pace = LocalPace { gpu_rate: FAST, latency: Duration(1), peer: endless };
        assert_eq!(pace.time(1, 2), endless);
        let start_up = StartUp { peer: endless, mixed: endless, ..StartUp::default() };
        assert_eq!(start_up.of_all_to_all(3, true), endless);
    }
}
