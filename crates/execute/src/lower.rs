//! From the token counts of an all-to-all to a [`CollectivePlan`].
//!
//! G is the GPUs of a worker, s the bytes that must cross servers.
//!
//! - **Gather and scatter** (hierarchical): bytes that go out over k NICs are spread evenly over
//!   the k GPUs that own them, `s / k` each. Where a worker is one EP rank, tensor parallelism has
//!   cut every message into G equal parts, so a delegate holds `s / G` of it already and takes in
//!   `s / k (1 - k / G)`; where ranks share the worker, a byte is on the delegate by chance only,
//!   so it takes in `s / k (1 - 1 / G)`. A packet fabric's k is its NICs per server and s all that
//!   the worker sends over it; a circuit bundle's k is its circuits and s what the pair sends over
//!   it; for direct links the same holds per bundle to a neighbour. The step lasts as long as its
//!   busiest delegate. Scatter is the same for received bytes.
//! - **Flat**: rank to rank, each over the NICs of its own GPUs; nothing to gather. With one rank
//!   per worker that is all NICs of the worker evenly.
//! - **Rail**: a rank's bytes first move to the local GPUs on the rail of the destination rank, so
//!   these take in what other ranks send over their rail; nothing to scatter.
//! - **Local**: bytes between GPUs of one worker, in equal parts from each GPU.

use crate::fabric::Fabric;
use crate::fabric::direct::DirectLinks;
use crate::seats::Seats;
use lightloom_model::{AllToAll, Carrier, CollectivePlan, Transfer, WorkerId};

/// Bytes that a delegate takes in (or hands out) when `bytes` are spread over `nics` of them.
pub fn delegate_share(bytes: u64, nics: u32, gpus: u32, ranks: u32) -> u64 {
    let (nics, gpus) = (u128::from(nics), u128::from(gpus));
    let own = if ranks == 1 { nics.min(gpus) } else { 1 };
    // s / k (1 - own / G), rounded up
    (u128::from(bytes) * (gpus - own)).div_ceil(nics * gpus) as u64
}

/// The demand of an all-to-all and what is known of its circuits.
#[derive(Debug, Clone, Copy)]
pub struct Exchange<'a> {
    /// Its members, in order.
    pub members: &'a [WorkerId],
    /// Bytes from member to member, row-major.
    pub demand: &'a [u64],
    /// Bytes from rank to rank, row-major, where data moves rank by rank; else empty.
    pub rank_demand: &'a [u64],
    /// Bytes of each pair that go over the EPS, and circuits of each pair; `None` without an OCS.
    pub circuits: Option<(&'a [u64], &'a [u16])>,
    /// Its ways by sender, if servers of its region relay.
    pub ways: Option<&'a [RegionWay]>,
}

/// Parallel circuits to, or from, a server of the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bundle {
    /// Place of that server in the region.
    pub peer: u32,
    /// How many.
    pub circuits: u32,
}

/// Bytes of one pair of members that go one way, in one or two hops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionWay {
    /// Sending member.
    pub from: u32,
    /// Receiving member.
    pub to: u32,
    /// How many.
    pub bytes: u64,
    /// What carries them.
    pub carrier: Carrier,
    /// Circuits over which they leave the sender; over the EPS if none.
    pub first: Option<Bundle>,
    /// Circuits over which they reach the receiver; over the EPS if none.
    pub last: Option<Bundle>,
}

/// Writes plans for one network.
#[derive(Debug)]
pub struct Planner {
    mode: AllToAll,
    /// NICs on the EPS.
    nics: u32,
    slot_bytes: Vec<u64>,
    bundle_bytes: Vec<u64>,
    used_bundles: Vec<(u32, u32)>,
}

impl Planner {
    /// A planner for networks with so many EPS NICs per server.
    pub fn new(mode: AllToAll, nics: u32) -> Self {
        Self {
            mode,
            nics,
            slot_bytes: Vec::new(),
            bundle_bytes: Vec::new(),
            used_bundles: Vec::new(),
        }
    }

    /// Writes the plan of an all-to-all.
    pub fn plan(
        &mut self,
        exchange: &Exchange,
        seats: &Seats,
        fabric: &Fabric,
        plan: &mut CollectivePlan,
    ) {
        plan.reset(exchange.members.len());
        plan_local(exchange, seats, plan);
        if let Some(ways) = exchange.ways {
            self.plan_ways(ways, exchange.members.len() as u32, seats, plan);
        } else if let Some((eps_bytes, circuits)) = exchange.circuits {
            self.plan_circuits(exchange, (eps_bytes, circuits), seats, plan);
        } else if let Some(direct) = &fabric.direct {
            self.plan_direct(exchange, direct, seats, plan);
        } else if self.mode != AllToAll::Hierarchical && seats.ranks > 1 {
            self.plan_ranks(exchange, seats, plan);
        } else {
            self.plan_spread(exchange, seats, plan);
        }
    }

    /// One flow per pair, over all NICs of the server, or of the worker where `flat` deals them
    /// out.
    fn plan_spread(&self, exchange: &Exchange, seats: &Seats, plan: &mut CollectivePlan) {
        let members = exchange.members.len() as u32;
        let mut received = vec![0; members as usize];
        for from in 0..members {
            let mut sent = 0;
            for (to, bytes) in remote(exchange, from) {
                let ends = workers(exchange, from, to);
                let slot = |worker| seats.slots_of(worker).start as u16;
                let carrier = Carrier::Eps { from_slot: slot(ends.0), to_slot: slot(ends.1) };
                plan.transfers.push(Transfer { from, to, bytes, carrier });
                sent += bytes;
                received[to as usize] += bytes;
            }
            if self.mode == AllToAll::Hierarchical {
                raise(plan.gather_of(from), seats, sent, self.nics);
            }
            plan.end_sender();
        }
        if self.mode == AllToAll::Hierarchical {
            for to in 0..members {
                raise(plan.scatter_of(to), seats, received[to as usize], self.nics);
            }
        }
    }

    /// Rank to rank (`flat`), or over the rail of the destination (`rail`); one flow per pair of
    /// members and pair of NIC slots.
    fn plan_ranks(&mut self, exchange: &Exchange, seats: &Seats, plan: &mut CollectivePlan) {
        let members = exchange.members.len() as u32;
        let slots = seats.slots as usize;
        for from in 0..members {
            let mut moved = vec![0_u64; slots];
            for to in (0..members).filter(|&to| to != from) {
                self.add_slots(exchange, seats, (from, to), &mut moved);
                for (cell, &bytes) in self.slot_bytes.iter().enumerate() {
                    if bytes > 0 {
                        let (from_slot, to_slot) = ((cell / slots) as u16, (cell % slots) as u16);
                        let carrier = Carrier::Eps { from_slot, to_slot };
                        plan.transfers.push(Transfer { from, to, bytes, carrier });
                    }
                }
            }
            let busiest = moved.iter().copied().max().unwrap_or(0);
            plan.gather[from as usize] = busiest.div_ceil(u64::from(seats.gpus_per_slot()));
            plan.nvswitch_bytes += moved.iter().sum::<u64>();
            plan.end_sender();
        }
    }

    /// Bytes of a pair by (sending slot, receiving slot) into `slot_bytes`, and what the local
    /// GPUs on each rail take in from other ranks into `moved`.
    fn add_slots(
        &mut self,
        exchange: &Exchange,
        seats: &Seats,
        (from, to): (u32, u32),
        moved: &mut [u64],
    ) {
        let ranks = seats.ranks;
        let slots = seats.slots as usize;
        let row_length = exchange.members.len() * ranks as usize;
        let (source, destination) = workers(exchange, from, to);
        self.slot_bytes.clear();
        self.slot_bytes.resize(slots * slots, 0);
        for sending in 0..ranks {
            let own = seats.slot_of_rank(source, sending) as usize;
            let row = (from * ranks + sending) as usize * row_length;
            for receiving in 0..ranks {
                let bytes = exchange.rank_demand[row + (to * ranks + receiving) as usize];
                let target = seats.slot_of_rank(destination, receiving) as usize;
                let mut slot = own;
                if self.mode == AllToAll::Rail {
                    slot = target;
                    if own != target {
                        moved[target] += bytes;
                    }
                }
                self.slot_bytes[slot * slots + target] += bytes;
            }
        }
    }

    fn plan_circuits(
        &self,
        exchange: &Exchange,
        (eps_bytes, circuits): (&[u64], &[u16]),
        seats: &Seats,
        plan: &mut CollectivePlan,
    ) {
        let members = exchange.members.len() as u32;
        let mut received = vec![0; members as usize];
        for from in 0..members {
            let mut sent = 0;
            for (to, bytes) in remote(exchange, from) {
                let cell = (from * members + to) as usize;
                let over_eps = eps_bytes[cell];
                let optical = bytes - over_eps;
                if optical > 0 {
                    let count = u32::from(circuits[cell]);
                    plan.transfers.push(Transfer {
                        from,
                        to,
                        bytes: optical,
                        carrier: Carrier::Circuit,
                    });
                    raise(plan.gather_of(from), seats, optical, count);
                    raise(plan.scatter_of(to), seats, optical, count);
                }
                if over_eps > 0 {
                    let carrier = Carrier::Eps { from_slot: 0, to_slot: 0 };
                    plan.transfers.push(Transfer { from, to, bytes: over_eps, carrier });
                    sent += over_eps;
                    received[to as usize] += over_eps;
                }
            }
            raise(plan.gather_of(from), seats, sent, self.nics);
            plan.end_sender();
        }
        for to in 0..members {
            raise(plan.scatter_of(to), seats, received[to as usize], self.nics);
        }
    }

    /// Ways over a region's relays: what leaves, or reaches, a member over the same circuits, or
    /// over the EPS, goes by the delegates of these, whatever its other end.
    fn plan_ways(
        &self,
        ways: &[RegionWay],
        members: u32,
        seats: &Seats,
        plan: &mut CollectivePlan,
    ) {
        let mut rest = ways;
        for from in 0..members {
            let (own, others) = rest.split_at(rest.partition_point(|way| way.from == from));
            rest = others;
            for way in own {
                let RegionWay { from, to, bytes, carrier, .. } = *way;
                plan.transfers.push(Transfer { from, to, bytes, carrier });
            }
            let sent = own.iter().map(|way| (way.first, way.bytes));
            for (nics, bytes) in self.by_bundle(sent) {
                raise(plan.gather_of(from), seats, bytes, nics);
            }
            plan.end_sender();
        }
        for to in 0..members {
            let received = ways.iter().filter(|way| way.to == to);
            for (nics, bytes) in self.by_bundle(received.map(|way| (way.last, way.bytes))) {
                raise(plan.scatter_of(to), seats, bytes, nics);
            }
        }
    }

    /// NICs and bytes of each bundle of circuits, and of the EPS.
    fn by_bundle(&self, parts: impl Iterator<Item = (Option<Bundle>, u64)>) -> Vec<(u32, u64)> {
        let mut sums: Vec<(Option<Bundle>, u64)> = Vec::new();
        for (bundle, bytes) in parts {
            match sums.iter_mut().find(|(other, _)| *other == bundle) {
                Some((_, sum)) => *sum += bytes,
                None => sums.push((bundle, bytes)),
            }
        }
        let nics = |bundle: Option<Bundle>| bundle.map_or(self.nics, |bundle| bundle.circuits);
        sums.into_iter().map(|(bundle, bytes)| (nics(bundle), bytes)).collect()
    }

    fn plan_direct(
        &mut self,
        exchange: &Exchange,
        direct: &DirectLinks,
        seats: &Seats,
        plan: &mut CollectivePlan,
    ) {
        let members = exchange.members.len() as u32;
        for from in 0..members {
            for (to, bytes) in remote(exchange, from) {
                let ends = workers(exchange, from, to);
                let servers = (seats.server[ends.0.index()], seats.server[ends.1.index()]);
                for (route, bytes) in direct.shares(servers.0, servers.1, bytes) {
                    if bytes > 0 {
                        let carrier = Carrier::Direct { route };
                        plan.transfers.push(Transfer { from, to, bytes, carrier });
                    }
                }
            }
            plan.end_sender();
        }
        for sending in [true, false] {
            self.delegate_direct(direct, seats, plan, sending);
        }
    }

    /// Gather or scatter of all members, bundle by bundle: a bundle has one server at each end.
    fn delegate_direct(
        &mut self,
        direct: &DirectLinks,
        seats: &Seats,
        plan: &mut CollectivePlan,
        sending: bool,
    ) {
        self.bundle_bytes.resize(direct.bundles.len(), 0);
        let mut used = std::mem::take(&mut self.used_bundles);
        for transfer in &plan.transfers {
            let Carrier::Direct { route } = transfer.carrier else { continue };
            let route = direct.route(route);
            let (member, bundle) = if sending {
                (transfer.from, route.first_bundle)
            } else {
                (transfer.to, route.last_bundle)
            };
            let bytes = &mut self.bundle_bytes[bundle as usize];
            if *bytes == 0 {
                used.push((member, bundle));
            }
            *bytes += transfer.bytes;
        }
        for (member, bundle) in used.drain(..) {
            let bytes = std::mem::take(&mut self.bundle_bytes[bundle as usize]);
            let count = direct.bundles[bundle as usize].count;
            if sending {
                raise(plan.gather_of(member), seats, bytes, count);
            } else {
                raise(plan.scatter_of(member), seats, bytes, count);
            }
        }
        self.used_bundles = used;
    }
}

/// Adds bytes that so many delegates of a member share to its busiest one and to the books.
fn raise((busiest, total): (&mut u64, &mut u64), seats: &Seats, bytes: u64, nics: u32) {
    let share = delegate_share(bytes, nics, seats.gpus, seats.ranks);
    *busiest = (*busiest).max(share);
    *total += share * u64::from(nics);
}

fn plan_local(exchange: &Exchange, seats: &Seats, plan: &mut CollectivePlan) {
    let members = exchange.members.len();
    for member in 0..members {
        let bytes = exchange.demand[member * members + member];
        plan.local[member] = bytes.div_ceil(u64::from(seats.gpus));
        plan.nvswitch_bytes += bytes;
    }
}

/// Other members that get bytes, and how many.
fn remote<'a>(exchange: &Exchange<'a>, from: u32) -> impl Iterator<Item = (u32, u64)> + use<'a> {
    let members = exchange.members.len();
    let row = &exchange.demand[from as usize * members..(from as usize + 1) * members];
    row.iter()
        .enumerate()
        .map(|(to, &bytes)| (to as u32, bytes))
        .filter(move |&(to, bytes)| to != from && bytes > 0)
}

fn workers(exchange: &Exchange, from: u32, to: u32) -> (WorkerId, WorkerId) {
    (exchange.members[from as usize], exchange.members[to as usize])
}
