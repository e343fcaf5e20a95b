//! A part of a network that this crate does not know: a bus that all servers share.

use lightloom_execute::network::{
    Below, Division, End, Link, Links, Network, NetworkPart, Pair, PartConfig, PartId, Path,
    Setting,
};
use lightloom_execute::{ExecuteError, Extent, LinkUse, Options, Outcome, execute};
use lightloom_flowsim::LinkId;
use lightloom_kernel::Silent;
use lightloom_model::{
    AllToAll, Amount, Category, CategoryUse, Duration, Invalid, NvSwitch, Peer, Rate, Role, RoleId,
    StartUp, Tag, Task, TaskGraph, TaskKind, Time, WorkerId,
};
use lightloom_packetsim::Cable;
use std::sync::Arc;

/// Everything crosses one link, one after the other or at once.
#[derive(Debug, Clone, Copy)]
struct Bus {
    rate: Rate,
    delay: Duration,
}

impl PartConfig for Bus {
    fn name(&self) -> &'static str {
        "bus"
    }

    fn validate(&self, _network: &Network, _below: &[Arc<dyn PartConfig>]) -> Result<(), Invalid> {
        if self.rate.0 > 0 { Ok(()) } else { Err(Invalid::new("a bus of 0 b/s carries nothing")) }
    }

    fn extent(&self, _network: &Network, _below: Duration) -> Extent {
        Extent { rate: self.rate, delay: self.delay }
    }

    fn build(
        &self,
        setting: &mut Setting<'_>,
    ) -> Result<Option<Box<dyn NetworkPart>>, ExecuteError> {
        let cable = Cable { rate: self.rate, delay: self.delay };
        let link = setting.links.add(Link::new(End::Switches, End::Switches, 1, cable));
        Ok(Some(Box::new(BusLink { id: setting.id, delay: self.delay, link })))
    }
}

#[derive(Debug)]
struct BusLink {
    id: PartId,
    delay: Duration,
    link: LinkId,
}

impl NetworkPart for BusLink {
    fn divide(&self, _pair: &Pair, bytes: u64, _below: Below<'_>, division: &mut Division) {
        let path = Path {
            part: self.id,
            latency: self.delay,
            relays: 0,
            sending_nics: 1,
            receiving_nics: 1,
            forwarding_gpus: 0,
        };
        division.push(path, &[self.link], bytes);
    }

    fn link_use(&mut self, end: Time, links: &Links) -> Vec<LinkUse> {
        vec![LinkUse::of_links("bus", &[self.link], links, end)]
    }
}

const US: u64 = 1_000_000;

/// 8 Gb/s: a byte takes a nanosecond.
fn network(rate: u64) -> Network {
    Network {
        servers: 4,
        gpus_per_server: 8,
        nvswitch: NvSwitch::uniform(Rate(8_000_000_000_000), Duration(US)),
        start_up: StartUp::default(),
        parts: vec![Arc::new(Bus { rate: Rate(rate), delay: Duration(3 * US) })],
        all_to_all: AllToAll::Hierarchical,
        delegates: true,
        regroup_above: u32::MAX,
    }
}

/// Worker 0 sends to 1 and worker 2 to 3, so many bytes each, at once.
fn two_sends(bytes: [u64; 2]) -> TaskGraph {
    let moving = CategoryUse::Communication("pp".into());
    let uses = [("work", CategoryUse::Compute), ("pp", moving)];
    let waits = [("reconfiguration", CategoryUse::Reconfiguration), ("idle", CategoryUse::Idle)];
    let category = |(name, used_for): (&str, _)| Category { name: String::from(name), used_for };
    let role = |worker: u32| {
        let other = Peer::Role(RoleId(worker ^ 1));
        let size = Amount::Fixed(bytes[worker as usize / 2]);
        let kind = if worker.is_multiple_of(2) {
            TaskKind::Send { peer: other, tag: Tag(0), bytes: size }
        } else {
            TaskKind::Receive { peer: other, tag: Tag(0) }
        };
        let tasks = vec![Task::new(kind, lightloom_model::CategoryId(1))];
        Role { name: format!("worker {worker}"), workers: vec![WorkerId(worker)], tasks }
    };
    TaskGraph {
        gpus_per_worker: 8,
        worker_server: (0..4).collect(),
        categories: uses.into_iter().chain(waits).map(category).collect(),
        roles: (0..4).map(role).collect(),
        ..TaskGraph::default()
    }
}

fn play(bytes: [u64; 2]) -> Outcome {
    execute(&two_sends(bytes), &network(8_000_000_000), &Options::default(), &mut Silent)
        .expect("a valid step")
}

#[test]
fn transfers_share_the_bus() {
    // One alone takes 1 ms; of two at once, the smaller one ends after twice its time.
    assert_eq!(play([1_000_000, 0]).step.0, 1000 * US + 3 * US);
    assert_eq!(play([1_000_000, 1_000_000]).step.0, 2000 * US + 3 * US);
    let uneven = play([1_000_000, 3_000_000]);
    assert_eq!(uneven.step.0, 4000 * US + 3 * US);
    assert_eq!((uneven.links[0].name.as_str(), uneven.links[0].carried_bytes), ("bus", 4_000_000));
    let share = 4000.0 / 4003.0;
    assert!((uneven.links[0].max - share).abs() < 1e-9);
}

#[test]
fn the_ledger_has_a_column_of_its_name() {
    let ledger = play([5, 7]).ledger;
    assert_eq!(ledger.columns, ["nvswitch", "eps", "ocs", "direct", "bus", "relayed"]);
    // The GPU of the one NIC copies seven eighths at either end, rounded up.
    assert_eq!(ledger.purposes[0].carried, [2 * (5 + 7), 0, 0, 0, 12, 0]);
}

#[test]
fn its_own_check_is_made() {
    let refused = execute(&two_sends([1, 1]), &network(0), &Options::default(), &mut Silent);
    assert_eq!(refused.unwrap_err().to_string(), "a bus of 0 b/s carries nothing");
    let twice = Network { parts: vec![network(8).parts[0].clone(); 2], ..network(8) };
    let refused = execute(&two_sends([1, 1]), &twice, &Options::default(), &mut Silent);
    assert_eq!(refused.unwrap_err().to_string(), "a network has one part bus, not two");
}
