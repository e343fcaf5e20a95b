//! The demand of an all-to-all as bytes, and its share between workers.

use crate::links::equal_shares;
use lightloom_model::{AllToAll, GroupId, Payload, TaskGraph};

/// How often a token of several ranks of one member crosses the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Copies {
    /// Once for each copy.
    #[default]
    Each,
    /// Once; the receiving member copies it to its ranks (dispatch).
    OnArrival,
    /// Once; the sending member adds up what its ranks have for the token's home (combine).
    BeforeLeaving,
}

/// Writes bytes from member to member, row-major, into `demand`. The diagonal stays in the server.
pub(crate) fn member_demand(
    graph: &TaskGraph,
    payload: Payload,
    group: GroupId,
    members: usize,
    demand: &mut Vec<u64>,
) {
    match payload {
        Payload::Bytes(bytes) => uniform(bytes, members, demand),
        Payload::Block { demand: table, block, transposed, unit_bytes, .. } => {
            let table = &graph.demands[table.index()];
            let cell = table.cell(group, block);
            let counts = &table.counts[cell * members * members..(cell + 1) * members * members];
            scale(counts, members, transposed, unit_bytes, demand);
        }
    }
}

/// Writes bytes from rank to rank, as [`member_demand`]; each member is this many ranks.
pub(crate) fn rank_demand(
    graph: &TaskGraph,
    payload: Payload,
    group: GroupId,
    members: usize,
    ranks: u32,
    demand: &mut Vec<u64>,
) {
    let size = members * ranks as usize;
    match payload {
        Payload::Bytes(bytes) => {
            // A buffer is in equal parts on the ranks of a worker.
            let mut rows = Vec::with_capacity(size);
            rows.extend(equal_shares(bytes, ranks as usize));
            demand.clear();
            for row in 0..size {
                demand.extend(equal_shares(rows[row % ranks as usize], size));
            }
        }
        Payload::Block { demand: table, block, transposed, unit_bytes, .. } => {
            let table = &graph.demands[table.index()];
            let cell = table.cell(group, block);
            let counts = &table.rank_counts[cell * size * size..(cell + 1) * size * size];
            scale(counts, size, transposed, unit_bytes, demand);
        }
    }
}

/// Whether it is known what the ranks of members send each other.
pub(crate) fn knows_ranks(graph: &TaskGraph, payload: Payload) -> bool {
    match payload {
        Payload::Bytes(_) => false,
        Payload::Block { demand, .. } => !graph.demands[demand.index()].rank_counts.is_empty(),
    }
}

fn uniform(bytes: u64, members: usize, demand: &mut Vec<u64>) {
    demand.clear();
    for _ in 0..members {
        demand.extend(equal_shares(bytes, members));
    }
}

/// Bytes from member to member where a block would have these counts.
pub(crate) fn estimated_demand(payload: Payload, counts: &[u64], members: usize) -> Vec<u64> {
    let Payload::Block { transposed, unit_bytes, .. } = payload else {
        unreachable!("only blocks are estimated")
    };
    let mut demand = Vec::with_capacity(counts.len());
    scale(counts, members, transposed, unit_bytes, &mut demand);
    demand
}

fn scale<T: Copy + Into<u64>>(
    counts: &[T],
    size: usize,
    transposed: bool,
    unit_bytes: u64,
    demand: &mut Vec<u64>,
) {
    let bytes = |count: T| count.into() * unit_bytes;
    demand.clear();
    if transposed {
        for row in 0..size {
            demand.extend((0..size).map(|column| bytes(counts[column * size + row])));
        }
    } else {
        demand.extend(counts.iter().map(|&count| bytes(count)));
    }
}

/// Bytes of an all-to-all that cross between workers.
pub(crate) fn remote_bytes(
    graph: &TaskGraph,
    payload: Payload,
    group: GroupId,
    members: usize,
    spread: AllToAll,
) -> u128 {
    let by_rank = match spread {
        AllToAll::Flat => true,
        AllToAll::Rail => copies(graph, payload) == Copies::Each,
        AllToAll::Hierarchical => false,
    };
    let Payload::Block { demand, block, unit_bytes, .. } = payload else {
        let mut demand = Vec::new();
        let ranks = if by_rank { ranks_per_worker(graph) } else { 1 };
        rank_demand(graph, payload, group, members, ranks, &mut demand);
        return remote(&demand, members, ranks as usize).into();
    };
    let table = &graph.demands[demand.index()];
    let ranks = if by_rank { table.ranks_per_member.max(1) as usize } else { 1 };
    let size = members * ranks;
    let counts = if ranks > 1 { &table.rank_counts } else { &table.counts };
    let cell = table.cell(group, block);
    let counts = &counts[cell * size * size..(cell + 1) * size * size];
    u128::from(remote(counts, members, ranks)) * u128::from(unit_bytes)
}

/// How often a token crosses the network, and who then copies it.
pub(crate) fn copies(graph: &TaskGraph, payload: Payload) -> Copies {
    match payload {
        Payload::Block { demand, transposed, .. } if graph.demands[demand.index()].deduplicated => {
            if transposed {
                Copies::BeforeLeaving
            } else {
                Copies::OnArrival
            }
        }
        _ => Copies::Each,
    }
}

/// Ranks per worker, at least 1.
pub(crate) fn ranks_per_worker(graph: &TaskGraph) -> u32 {
    graph.demands.iter().map(|demand| demand.ranks_per_member).max().unwrap_or(0).max(1)
}

/// Sum of a matrix without what stays in a member.
fn remote<T: Copy + Into<u64>>(matrix: &[T], members: usize, ranks: usize) -> u64 {
    let size = members * ranks;
    let mut total = 0;
    for (row, counts) in matrix.chunks_exact(size.max(1)).enumerate() {
        let member = row / ranks;
        let own = &counts[member * ranks..(member + 1) * ranks];
        let sum = |counts: &[T]| counts.iter().map(|&count| count.into()).sum::<u64>();
        total += sum(counts) - sum(own);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{empty_graph, with_blocks};
    use lightloom_model::DemandId;
    use proptest::prelude::*;

    #[test]
    fn equal_parts_go_to_all_members_and_ranks() {
        let graph = TaskGraph::default();
        let mut demand = Vec::new();
        member_demand(&graph, Payload::Bytes(10), GroupId(0), 3, &mut demand);
        assert_eq!(demand, [4, 3, 3, 4, 3, 3, 4, 3, 3]);
        rank_demand(&graph, Payload::Bytes(10), GroupId(0), 2, 2, &mut demand);
        assert_eq!(demand, [2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1]);
        // Of 5 bytes of each rank, 2 go to the ranks of the other member from the first member's
        // ranks and 3 from the second member's.
        assert_eq!(remote(&demand, 2, 2), 2 + 2 + 3 + 3);
        assert_eq!(remote_bytes(&graph, Payload::Bytes(10), GroupId(0), 2, AllToAll::Flat), 10);
    }

    /// One group of some members of some ranks, and what each rank sends to each.
    fn ranked() -> impl Strategy<Value = (usize, u32, Vec<u32>)> {
        (2_usize..5, 1_u32..4).prop_flat_map(|(members, ranks)| {
            let size = members * ranks as usize;
            let cells = prop::collection::vec(0_u32..1_000, size * size);
            (Just(members), Just(ranks), cells)
        })
    }

    proptest! {
        /// What ranks send each other is what their members do, there and back.
        #[test]
        fn members_send_what_their_ranks_do(
            (members, ranks, rank_counts) in ranked(), transposed in any::<bool>(),
            unit_bytes in 1_u64..9,
        ) {
            let (each, size) = (ranks as usize, members * ranks as usize);
            let mut counts = vec![0; members * members];
            for (cell, count) in rank_counts.iter().enumerate() {
                counts[cell / size / each * members + cell % size / each] += count;
            }
            let mut graph = with_blocks(empty_graph(1, 1, members as u32), &[&counts]);
            graph.demands[0].ranks_per_member = ranks;
            graph.demands[0].rank_counts = rank_counts.clone();
            let demand = DemandId(0);
            let payload = Payload::Block { demand, block: 0, transposed, first: true, unit_bytes };
            let (mut whole, mut parts) = (Vec::new(), Vec::new());
            member_demand(&graph, payload, GroupId(0), members, &mut whole);
            rank_demand(&graph, payload, GroupId(0), members, ranks, &mut parts);
            let mut sums = vec![0; members * members];
            for (cell, bytes) in parts.iter().enumerate() {
                sums[cell / size / each * members + cell % size / each] += bytes;
                let (row, column) = if transposed { (cell % size, cell / size) }
                    else { (cell / size, cell % size) };
                prop_assert_eq!(*bytes, u64::from(rank_counts[row * size + column]) * unit_bytes);
            }
            prop_assert_eq!(&sums, &whole);
            let crossing = (0..members * members).filter(|cell| cell / members != cell % members);
            let expected: u128 = crossing.map(|cell| u128::from(whole[cell])).sum();
            for spread in [AllToAll::Flat, AllToAll::Rail, AllToAll::Hierarchical] {
                let remote = remote_bytes(&graph, payload, GroupId(0), members, spread);
                prop_assert_eq!(remote, expected, "{:?}", spread);
            }
            let counts: Vec<u64> = counts.into_iter().map(u64::from).collect();
            prop_assert_eq!(estimated_demand(payload, &counts, members), whole);
        }
    }
}
