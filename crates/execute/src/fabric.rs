//! The network of a run: all parts, their links, and the clock that some of them follow.

use crate::circuits::Circuits;
use crate::error::ExecuteError;
use crate::links::{CONDUCTED, Division, Flow, LinkUse, Links, PartId, Path};
use crate::network::{
    AllToAllDemand, Below, DelegateHolds, Lowering, Network, NetworkPart, Pair, Placement,
    RingOrder, Setting, delegate_share,
};
use crate::turns::Together;
use lightloom_flowsim::LinkId;
use lightloom_kernel::{Interrupted, Observer};
use lightloom_model::{AllToAll, Bytes, Duration, NvSwitch, ServerId, StartUp, Time, WorkerId};

/// Changes by the clock after which who watches is asked.
const OBSERVE_EVERY: u32 = 1 << 12;

/// Everything that carries bytes.
#[derive(Debug)]
pub(crate) struct Fabric {
    /// The links of all parts, and what is on its way over them.
    pub(crate) links: Links,
    /// Transfers started.
    pub(crate) started: u64,
    parts: Vec<Box<dyn NetworkPart>>,
    nvswitch: NvSwitch,
    start_up: StartUp,
    /// The part that takes transfers into its care, if one does.
    conductor: Option<usize>,
    /// When it has taken those that it has not launched yet.
    taken_at: Option<Time>,
    /// Tokens of flows that have ended; empty between calls.
    ended: Vec<u64>,
    /// Whether bytes are spread over all NICs of a path, whichever GPU they come from.
    has_delegates: bool,
    /// When links next change by the clock; nothing if none do.
    next_change: Option<Time>,
}

impl Fabric {
    /// Adds the links of all parts but of circuits that follow decisions.
    ///
    /// # Errors
    /// If a part cannot serve the job.
    pub(crate) fn new(
        network: &Network,
        placement: &Placement,
        mut links: Links,
    ) -> Result<Self, ExecuteError> {
        let mut parts = Vec::with_capacity(network.parts.len());
        for (place, part) in network.parts.iter().enumerate() {
            let id = PartId::at(place);
            let mut setting = Setting { id, network, placement, links: &mut links };
            parts.extend(part.build(&mut setting)?);
        }
        let conductor = network.parts.iter().position(|part| part.conducts());
        let (nvswitch, start_up) = (network.nvswitch, network.start_up);
        let mut fabric = Self {
            links,
            started: 0,
            parts,
            nvswitch,
            start_up,
            conductor,
            taken_at: None,
            ended: Vec::new(),
            has_delegates: network.delegates && network.all_to_all == AllToAll::Hierarchical,
            next_change: None,
        };
        fabric.follow_clock(Time::ZERO);
        Ok(fabric)
    }

    fn below(&self) -> Below<'_> {
        Below::new(&self.parts)
    }

    /// How long operations inside a server take.
    pub(crate) fn nvswitch(&self) -> &NvSwitch {
        &self.nvswitch
    }

    /// What software takes to begin operations between servers.
    pub(crate) fn start_up(&self) -> &StartUp {
        &self.start_up
    }

    /// What software takes for a message, or for a step of a ring, over a path.
    pub(crate) fn message_start_up(&self, path: &Path) -> Duration {
        if path.part == PartId::INSIDE { Duration::ZERO } else { self.start_up.message }
    }

    /// What copies to and from the GPUs whose NICs a path takes add to bytes between two workers.
    pub(crate) fn copies(&self, placement: &Placement, path: &Path, bytes: u64) -> Detour {
        if path.forwarding_gpus > 0 {
            // to the local GPUs on the rail of the destination, which is one more hop
            let each = Bytes(bytes.div_ceil(u64::from(path.forwarding_gpus)));
            let time = self.nvswitch.all_to_all.gpu_rate.transmission(each);
            return Detour { time, latency: self.nvswitch.gather.peer, bytes };
        }
        if !self.has_delegates || path.part == PartId::INSIDE {
            return Detour::default();
        }
        let nics = [path.sending_nics, path.receiving_nics];
        let held = DelegateHolds::new(placement, true);
        let shares = nics.map(|nics| delegate_share(bytes, nics, placement.gpus, held));
        let busiest = shares[0].max(shares[1]);
        let time = self.nvswitch.all_to_all.gpu_rate.transmission(Bytes(busiest));
        // each end that copies is one more hop, as of a ring inside a server
        let ends = shares.iter().filter(|&&share| share > 0).count();
        let latency = Duration(self.nvswitch.gather.peer.0.saturating_mul(ends as u64));
        let copied = u64::from(nics[0]) * shares[0] + u64::from(nics[1]) * shares[1];
        Detour { time, latency, bytes: copied }
    }

    /// Divides bytes of two workers among paths; one of no links where they share a server.
    pub(crate) fn divide(
        &self,
        placement: &Placement,
        ends: Pair<WorkerId>,
        bytes: u64,
        division: &mut Division,
    ) {
        if push_inside(placement, ends, bytes, division) {
            return;
        }
        self.below().divide(&placement.pair(ends), bytes, division);
    }

    /// Divides what a ring sends from one member to the next in one of its orders.
    pub(crate) fn divide_edge(
        &self,
        placement: &Placement,
        ends: Pair<WorkerId>,
        order: &RingOrder,
        division: &mut Division,
    ) {
        if !order.has_own_circuits {
            self.divide(placement, ends, order.bytes, division);
        } else if !push_inside(placement, ends, order.bytes, division) {
            self.below().divide_edge(&placement.pair(ends), order.bytes, division);
        }
    }

    /// Divides what crosses each edge of a ring of these members among orders.
    pub(crate) fn ring_orders(
        &self,
        placement: &Placement,
        members: &[WorkerId],
        bytes: u64,
    ) -> Vec<RingOrder> {
        let servers: Vec<ServerId> =
            members.iter().map(|&worker| placement.server(worker)).collect();
        if self.parts.is_empty() {
            let order = (0..members.len() as u32).collect();
            return vec![RingOrder { order, bytes, has_own_circuits: false }];
        }
        self.below().ring_orders(&servers, bytes)
    }

    /// Lowers an all-to-all between whole servers; over the circuits that follow decisions, if
    /// there are any.
    pub(crate) fn lower_all_to_all(
        &mut self,
        circuits: Option<&mut Circuits<'_>>,
        all_to_all: &AllToAllDemand<'_>,
        lowering: &mut Lowering,
    ) {
        if let Some(circuits) = circuits {
            circuits.lower_all_to_all(all_to_all, Below::new(&self.parts), lowering);
        } else if let Some((top, below)) = self.parts.split_last_mut() {
            top.lower_all_to_all(all_to_all, Below::new(below), lowering);
        }
    }

    /// Divides bytes of a pair of NIC groups among paths.
    pub(crate) fn divide_pair(&self, pair: &Pair, bytes: u64, division: &mut Division) {
        self.below().divide(pair, bytes, division);
    }

    /// Whether every server reaches every other one.
    pub(crate) fn joins_all(&self) -> bool {
        self.below().joins_all()
    }

    /// Whether one server reaches another.
    pub(crate) fn joins(&self, from: ServerId, to: ServerId) -> bool {
        from == to || self.below().joins(from, to)
    }

    /// Starts a transfer; see [`Links::start`].
    pub(crate) fn start(&mut self, now: Time, flow: Flow, path: &[LinkId]) {
        // A part that decides on what begins now waits until all of it has begun.
        let is_due = |change: Time| change < now || (change == now && self.conductor.is_none());
        if self.next_change.is_some_and(is_due) {
            self.follow_clock(now);
        }
        self.started += 1;
        if let Some(place) = self.conductor
            && self.parts[place].conduct(now, flow, path, &mut self.links)
        {
            self.taken_at = Some(now);
        } else {
            self.links.start(now, flow, path);
        }
    }

    /// Starts transfers that begin together; see [`Links::start_together`].
    pub(crate) fn start_together(
        &mut self,
        now: Time,
        shape: Together,
        transfers: &[(Flow, &[LinkId])],
    ) -> Duration {
        if self.conductor.is_some() {
            // It cares for each of them, as of any other.
            for &(flow, path) in transfers {
                self.start(now, flow, path);
            }
            return Duration::ZERO;
        }
        if self.next_change.is_some_and(|change| change <= now) {
            self.follow_clock(now);
        }
        self.started += transfers.len() as u64;
        self.links.start_together(now, shape, transfers)
    }

    /// Time from the end of a transfer to the arrival of its last byte.
    pub(crate) fn latency(&self, path: &Path) -> Duration {
        if self.links.ends_on_arrival() { Duration::ZERO } else { path.latency }
    }

    /// Continues to the next time, but not beyond `limit`, at which transfers end; see
    /// [`Links::run_until`]. Links change by the clock only while bytes are on their way.
    ///
    /// # Errors
    /// As [`Links::run_until`].
    #[inline]
    pub(crate) fn run_until(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Time>, ExecuteError> {
        if self.next_change.is_none() && self.conductor.is_none() {
            return self.links.run_until(limit, done, observer);
        }
        self.run_by_the_clock(limit, done, observer)
    }

    fn run_by_the_clock(
        &mut self,
        limit: Option<Time>,
        done: &mut Vec<u64>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Time>, ExecuteError> {
        let mut changes = 0_u32;
        if let Some(now) = self.taken_at {
            // What ends at the very time ends first, and may have more begin.
            let end = self.links.run_until(Some(now), done, observer)?;
            if end.is_some() || limit == Some(now) {
                self.conduct(end.unwrap_or(now), done);
                return Ok(end);
            }
            self.launch(now);
        }
        while let Some(change) = self.next_change.filter(|_| self.is_busy()) {
            if limit.is_some_and(|limit| limit < change) {
                break;
            }
            let end = self.links.run_until(Some(change), done, observer)?;
            if let Some(end) = end {
                self.conduct(end, done);
                return Ok(Some(end));
            }
            self.follow_clock(change);
            // Between two events there may be any number of changes.
            changes += 1;
            if changes.is_multiple_of(OBSERVE_EVERY) && observer.progress(change, 0).is_break() {
                return Err(ExecuteError::Interrupted(Interrupted { now: change, done: 0 }));
            }
        }
        let end = self.links.run_until(limit, done, observer)?;
        if let Some(end) = end {
            self.conduct(end, done);
        }
        Ok(end)
    }

    /// Whether something is on its way, on links or in the care of a part.
    fn is_busy(&self) -> bool {
        self.links.is_busy() || self.conductor.is_some_and(|place| self.parts[place].is_busy())
    }

    /// Tells the part that has transfers in its care which of its flows have ended; what is left
    /// of the tokens is of whole transfers.
    fn conduct(&mut self, now: Time, done: &mut Vec<u64>) {
        let Some(place) = self.conductor else { return };
        let mut ended = std::mem::take(&mut self.ended);
        std::mem::swap(&mut ended, done);
        for &token in &ended {
            if token < CONDUCTED {
                done.push(token);
            } else {
                self.parts[place].conducted(now, token, &mut self.links, done);
            }
        }
        ended.clear();
        self.ended = ended;
    }

    /// Has the part that has transfers in its care send what it has taken.
    fn launch(&mut self, now: Time) {
        self.taken_at = None;
        if let Some(place) = self.conductor {
            self.parts[place].launch(now, &mut self.links);
        }
        self.find_next_change(now);
    }

    fn follow_clock(&mut self, now: Time) {
        for part in &mut self.parts {
            part.follow_clock(now, &mut self.links);
        }
        self.find_next_change(now);
    }

    fn find_next_change(&mut self, now: Time) {
        self.next_change = self.parts.iter().filter_map(|part| part.next_change(now)).min();
    }

    /// Use of each class of links up to the end of a run.
    pub(crate) fn link_use(&mut self, end: Time) -> Vec<LinkUse> {
        let links = &self.links;
        self.parts.iter_mut().flat_map(|part| part.link_use(end, links)).collect()
    }
}

/// Detour over the NVSwitch of bytes that leave or arrive over the NICs of other GPUs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Detour {
    /// Of the busiest GPU, alongside the network.
    pub(crate) time: Duration,
    /// Until the network has the first of them, and the receiver the last.
    pub(crate) latency: Duration,
    /// Of all GPUs.
    pub(crate) bytes: u64,
}

/// The path of bytes between two workers of one server; false if they are on two.
fn push_inside(
    placement: &Placement,
    ends: Pair<WorkerId>,
    bytes: u64,
    division: &mut Division,
) -> bool {
    let (from, to) = placement.servers(ends);
    if from == to {
        let path = Path {
            part: PartId::INSIDE,
            latency: Duration::ZERO,
            relays: 0,
            sending_nics: 0,
            receiving_nics: 0,
            forwarding_gpus: 0,
        };
        division.push(path, &[], bytes);
    }
    from == to
}
