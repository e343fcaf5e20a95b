//! Lowered all-to-alls, counted byte by byte from rank to rank.

use crate::demand::Copies;
use crate::fabric::Fabric;
use crate::links::{End, Links};
use crate::lower::Lowerer;
use crate::network::{AllToAllDemand, Lowering, Network};
use crate::parts::Eps;
use crate::testing::{empty_graph, eps, packet, with_blocks};
use lightloom_model::{AllToAll, GroupId, WorkerId};
use proptest::prelude::*;
use std::collections::BTreeMap;

const GPUS: u64 = 8;

/// Members each on another server and of so many ranks, and bytes from rank to rank.
#[derive(Debug, Clone)]
struct World {
    members: usize,
    ranks: usize,
    nics: u32,
    bytes: Vec<u64>,
}

impl World {
    fn size(&self) -> usize {
        self.members * self.ranks
    }

    /// Bytes from one rank of a member to one of another.
    fn between(&self, (from, sending): (usize, usize), (to, receiving): (usize, usize)) -> u64 {
        let (row, column) = (from * self.ranks + sending, to * self.ranks + receiving);
        self.bytes[row * self.size() + column]
    }

    /// All pairs of ranks with their bytes: member and rank of both.
    fn pairs(&self) -> impl Iterator<Item = ((usize, usize), (usize, usize), u64)> + '_ {
        let rank = |index: usize| (index / self.ranks, index % self.ranks);
        (0..self.size() * self.size()).map(move |cell| {
            let (from, to) = (rank(cell / self.size()), rank(cell % self.size()));
            (from, to, self.between(from, to))
        })
    }

    /// Bytes from member to member, row-major.
    fn demand(&self) -> Vec<u64> {
        let mut demand = vec![0; self.members * self.members];
        for ((from, _), (to, _), bytes) in self.pairs() {
            demand[from * self.members + to] += bytes;
        }
        demand
    }

    /// The lowering of these bytes, and those of each pair of members and pair of NIC groups.
    fn lower(&self, mode: AllToAll, demand: &[u64], copies: Copies) -> (Lowering, Carried) {
        let mut graph = with_blocks(empty_graph(1, 1, self.members as u32), &[]);
        graph.demands[0].ranks_per_member = self.ranks as u32;
        let network = Network { all_to_all: mode, ..packet(self.members as u32) };
        let network = network.with(Eps { nics: self.nics, ..eps(self.members as u32) });
        let placement = network.place(&graph).unwrap();
        let mut fabric = Fabric::new(&network, &placement, Links::flows()).unwrap();
        let members: Vec<WorkerId> = (0..self.members as u32).map(WorkerId).collect();
        let is_by_rank = mode != AllToAll::Hierarchical && self.ranks > 1;
        let all_to_all = AllToAllDemand {
            group: GroupId(0),
            members: &members,
            demand,
            rank_demand: if is_by_rank { &self.bytes } else { &[] },
            copies,
            placement: &placement,
        };
        let mut lowering = Lowering::default();
        Lowerer::new(&network).lower(&all_to_all, &mut fabric, None, &mut lowering);
        let mut carried = Carried::new();
        for member in 0..self.members {
            for transfer in &lowering.transfers[lowering.sent_by(member as u32)] {
                assert_eq!(transfer.from as usize, member, "transfers are by sender");
                let links = lowering.links(transfer.path);
                let ends = [fabric.links.link(links[0]).0, fabric.links.link(links[1]).0];
                let (End::Nics { server, group }, End::Nics { server: other, group: last }) =
                    (ends[0].from, ends[1].to)
                else {
                    panic!("from NICs to NICs")
                };
                assert_eq!((server.0, other.0), (transfer.from, transfer.to));
                let key = ((member, usize::from(group)), (other.0 as usize, usize::from(last)));
                *carried.entry(key).or_default() += transfer.bytes;
            }
        }
        (lowering, carried)
    }
}

/// Bytes from member and NIC group to member and NIC group.
type Carried = BTreeMap<((usize, usize), (usize, usize)), u64>;

fn worlds() -> impl Strategy<Value = World> {
    let ranks = prop::sample::select(vec![1_usize, 2, 4, 8]);
    (2_usize..5, ranks).prop_flat_map(|(members, ranks)| {
        let cell = prop_oneof![1 => Just(0_u64), 3 => 1_u64..1_000_000];
        let nics = prop::sample::select(vec![8_u32, 16]);
        let size = members * ranks;
        (nics, prop::collection::vec(cell, size * size)).prop_map(move |(nics, bytes)| World {
            members,
            ranks,
            nics,
            bytes,
        })
    })
}

/// Bytes that GPUs of each NIC group of a member send, and receive, over the NVSwitch.
fn busiest(moves: &[(usize, usize, u64)], groups: usize) -> (u64, u64) {
    let (mut sent, mut received) = (vec![0; groups], vec![0; groups]);
    for &(from, to, bytes) in moves {
        sent[from] += bytes;
        received[to] += bytes;
    }
    let all: u64 = sent.iter().sum();
    (sent.into_iter().chain(received).max().unwrap_or(0), all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn flat_moves_bytes_over_the_nics_of_their_ranks(world in worlds()) {
        let (lowering, carried) = world.lower(AllToAll::Flat, &world.demand(), Copies::Each);
        let mut expected = Carried::new();
        for (from, to, bytes) in world.pairs().filter(|(from, to, _)| from.0 != to.0) {
            if bytes > 0 {
                *expected.entry((from, to)).or_default() += bytes;
            }
        }
        prop_assert_eq!(carried, expected);
        prop_assert_eq!(lowering.peers as usize, (world.members - 1) * world.ranks);
        prop_assert_eq!(lowering.is_mixed, world.ranks > 1);
        prop_assert_eq!(&lowering.gather, &vec![0; world.members]);
        prop_assert_eq!(&lowering.scatter, &vec![0; world.members]);
        for member in 0..world.members {
            let own = world.pairs().filter(|(from, to, _)| (from.0, to.0) == (member, member));
            let moves: Vec<_> = own.map(|(from, to, bytes)| (from.1, to.1, bytes)).collect();
            let (busy, _) = busiest(&moves, world.ranks);
            prop_assert_eq!(lowering.local[member], busy.div_ceil(GPUS / world.ranks as u64));
        }
    }

    #[test]
    fn rails_carry_bytes_over_the_nics_of_their_destination(world in worlds()) {
        let (lowering, carried) = world.lower(AllToAll::Rail, &world.demand(), Copies::Each);
        let mut expected = Carried::new();
        let mut moves = vec![Vec::new(); world.members];
        for (from, to, bytes) in world.pairs().filter(|(_, _, bytes)| *bytes > 0) {
            if from.0 != to.0 {
                *expected.entry(((from.0, to.1), to)).or_default() += bytes;
            }
            // Within a member, and to the rail of ranks elsewhere.
            if from.0 == to.0 || from.1 != to.1 {
                moves[from.0].push((from.1, to.1, bytes));
            }
        }
        prop_assert_eq!(carried, expected);
        prop_assert_eq!(lowering.peers as usize, world.members - 1);
        let mut all = 0;
        for (member, moves) in moves.iter().enumerate() {
            let (busy, sum) = busiest(moves, world.ranks);
            prop_assert_eq!(lowering.local[member], busy.div_ceil(GPUS / world.ranks as u64));
            all += sum;
        }
        prop_assert_eq!(lowering.nvswitch_bytes, all);
    }

    #[test]
    fn tokens_that_cross_once_stay_on_the_rail_of_their_home(world in worlds(), cut in 1_u64..4) {
        prop_assume!(world.ranks > 1);
        // Fewer bytes cross than ranks receive.
        let demand: Vec<u64> = world.demand().iter().map(|bytes| bytes / cut).collect();
        for copies in [Copies::OnArrival, Copies::BeforeLeaving] {
            let (lowering, carried) = world.lower(AllToAll::Rail, &demand, copies);
            for (&(from, to), &bytes) in &carried {
                prop_assert!(from.1 == to.1 && bytes > 0, "{from:?} to {to:?}");
            }
            let mut crossed = vec![0; demand.len()];
            for ((from, to), bytes) in carried {
                crossed[from.0 * world.members + to.0] += bytes;
            }
            for from in 0..world.members {
                for to in (0..world.members).filter(|&to| to != from) {
                    let cell = from * world.members + to;
                    prop_assert_eq!(crossed[cell], demand[cell]);
                }
            }
            // Every copy for another rank than that of the token's rail is made inside a member.
            let copied = |((from, sending), (to, receiving), bytes)| {
                if from == to || sending != receiving { bytes } else { 0 }
            };
            let inside: u64 = world.pairs().map(copied).sum();
            prop_assert_eq!(lowering.nvswitch_bytes, inside);
            // On the way there by the member that receives, on the way back by the one that sends.
            for member in 0..world.members {
                let copier = |(from, to): (usize, usize)| {
                    if copies == Copies::OnArrival { to } else { from }
                };
                let own = world.pairs().filter(|&pair| copier((pair.0.0, pair.1.0)) == member);
                let moves: Vec<_> = own
                    .map(|pair| (pair.0.1, pair.1.1, copied(pair)))
                    .filter(|(_, _, bytes)| *bytes > 0)
                    .collect();
                let (busy, _) = busiest(&moves, world.ranks);
                prop_assert_eq!(lowering.local[member], busy.div_ceil(GPUS / world.ranks as u64));
            }
        }
    }

    #[test]
    fn delegates_gather_what_leaves_and_scatter_what_arrives(world in worlds()) {
        let demand = world.demand();
        let (lowering, carried) = world.lower(AllToAll::Hierarchical, &demand, Copies::Each);
        let remote = |cell: usize| cell / world.members != cell % world.members;
        let expected: Carried = (0..demand.len())
            .filter(|&cell| remote(cell) && demand[cell] > 0)
            .map(|cell| (((cell / world.members, 0), (cell % world.members, 0)), demand[cell]))
            .collect();
        prop_assert_eq!(carried, expected);
        // s / k over each of k NICs, of which a GPU that owns one has its own part already: all of
        // what its rank holds in parts on every GPU, else an eighth.
        let nics = u64::from(world.nics);
        let own = if world.ranks == 1 { nics.min(GPUS) } else { 1 };
        let share = |bytes: u64| (bytes * (GPUS - own)).div_ceil(nics * GPUS);
        let mut copied = 0;
        for member in 0..world.members {
            let others = || (0..world.members).filter(|&other| other != member);
            let out: u64 = others().map(|to| demand[member * world.members + to]).sum();
            let into: u64 = others().map(|from| demand[from * world.members + member]).sum();
            prop_assert_eq!(lowering.gather[member], share(out));
            prop_assert_eq!(lowering.scatter[member], share(into));
            let local = demand[member * world.members + member];
            prop_assert_eq!(lowering.local[member], local.div_ceil(GPUS));
            copied += nics * (share(out) + share(into)) + local;
        }
        prop_assert_eq!(lowering.nvswitch_bytes, copied);
        prop_assert!(!lowering.is_mixed && lowering.peers as usize == world.members - 1);
    }
}
