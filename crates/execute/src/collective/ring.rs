//! All-reduce, reduce-scatter and all-gather: the buffer is cut into n parts, each of which goes
//! around the ring once, or twice to be reduced and then gathered (Patarasuk and Yuan 2009).

use super::circulation::Circulation;
use lightloom_model::CollectiveKind;

/// Around members that are so many GPUs of the ring each. With several, the ring passes all GPUs of
/// a member before it goes on to the next: each edge carries the share of the whole ring.
pub(super) fn around(kind: CollectiveKind, bytes: u64, members: usize, gpus: usize) -> Circulation {
    Circulation {
        edge_bytes: ring_edge_bytes(kind, bytes, members * gpus),
        edges: members as u64,
        steps: ring_steps(kind, members),
    }
}

/// Bytes that cross each edge of a ring of n: 2 (n-1)/n of the buffer for an all-reduce, (n-1)/n
/// for its halves, rounded up.
pub fn ring_edge_bytes(kind: CollectiveKind, bytes: u64, members: usize) -> u64 {
    let steps = ring_steps(kind, members);
    let total = (u128::from(bytes) * u128::from(steps)).div_ceil(members as u128);
    u64::try_from(total).unwrap_or(u64::MAX)
}

/// Steps of a ring collective: each moves 1/n of the buffer over every edge.
pub fn ring_steps(kind: CollectiveKind, members: usize) -> u64 {
    let once = members as u64 - 1;
    if kind == CollectiveKind::AllReduce { 2 * once } else { once }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
        for members in 2..9 {
            let of = |kind| around(kind, 840, members, 1);
            let (scatter, gather) = (CollectiveKind::ReduceScatter, CollectiveKind::AllGather);
            let whole = of(CollectiveKind::AllReduce);
            assert_eq!(whole.steps, of(scatter).steps + of(gather).steps);
            assert_eq!(whole.edge_bytes, of(scatter).edge_bytes + of(gather).edge_bytes);
            assert!(whole.is_closed(members));
        }
        // Of 3 members with 2 GPUs each five sixths go over each edge, in two steps.
        let [gather, reduce] = [CollectiveKind::AllGather, CollectiveKind::AllReduce]
            .map(|kind| around(kind, 12, 3, 2));
        assert_eq!((gather.edge_bytes, gather.steps, gather.edges), (10, 2, 3));
        assert_eq!((reduce.edge_bytes, reduce.steps, reduce.edges), (20, 4, 3));
        assert_eq!(ring_edge_bytes(CollectiveKind::AllGather, 10, 3), 7);
        assert_eq!(ring_edge_bytes(CollectiveKind::AllReduce, u64::MAX, 8), u64::MAX);
    }
}
