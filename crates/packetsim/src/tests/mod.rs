//! Tests of the whole simulator against closed forms.

mod balancing;
mod bench;
mod buffers;
mod classes;
mod closed_forms;
mod dcqcn;
mod dctcp;
mod dctcp_by_hand;
mod dragonfly;
mod failures;
mod fitted;
mod go_back_n;
mod go_back_n_replay;
mod halves;
mod hpcc;
mod log_audit;
mod long_links;
mod loss_recovery;
mod mptcp;
mod mptcp_by_hand;
mod nscc;
mod observing;
mod pause_replay;
mod plane_failures;
mod planes;
mod priorities;
mod profiles;
mod programs;
mod properties;
mod queues;
mod rates;
mod rccc;
mod receiver_driven;
mod remarks;
mod replay;
mod routes;
mod routing_oracle;
mod scenarios;
mod selective;
mod series;
mod stall;
mod swift;
mod wiring;
mod wrong_input;

use crate::transport::Transport;
use crate::{
    Config, Core, FlowProgress, FlowSpec, LinkCounters, NicId, PacketFlowId, Pfc, Simulation,
    Topology,
};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Duration, Time};

/// Endless queues, one path per flow.
pub(crate) fn plain() -> Config {
    Config { flowlet_gap: Duration(0), ..Config::ENDLESS }
}

/// [`plain`] with pauses from 15 packets on until 12.
pub(crate) fn lossless() -> Config {
    Config { pfc: Some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 }), ..plain() }
}

pub(crate) fn flow(ends: (u32, u32), bytes: u64) -> FlowSpec {
    FlowSpec {
        source: NicId(ends.0),
        destination: NicId(ends.1),
        size: Bytes(bytes),
        start: Time::ZERO,
        priority: 0,
        class: 0,
        route: None,
    }
}

/// The same flows, each begun a picosecond after the one before it: where several packets would
/// arrive at one instant, they arrive in this order.
pub(crate) fn in_order(flows: impl IntoIterator<Item = FlowSpec>) -> Vec<FlowSpec> {
    let starts = (0..).map(Time);
    let specs = flows.into_iter().zip(starts);
    specs
        .map(|(spec, start)| FlowSpec { start: spec.start + start.since(Time::ZERO), ..spec })
        .collect()
}

/// A flow at the end of a run; times in ps.
pub(crate) struct Finished {
    pub(crate) packets: u32,
    pub(crate) received: u32,
    pub(crate) start: u64,
    pub(crate) received_at: u64,
    pub(crate) done_at: u64,
}

/// Runs to the end; all flows must finish.
pub(crate) fn run<T: Transport>(
    topology: Topology,
    config: Config,
    transport: impl FnOnce(&Core) -> T,
    flows: &[FlowSpec],
) -> (Simulation<T>, Vec<Finished>) {
    let mut simulation = Simulation::new(topology, config, transport).unwrap();
    for spec in flows {
        simulation.add_flow(spec).unwrap();
    }
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    assert_eq!(done.len(), flows.len(), "all flows finish");
    let finished = |flow: u32| {
        let FlowProgress { packets, received, start, received_at, done_at, .. } =
            *simulation.core().flow(PacketFlowId(flow));
        let [start, received_at, done_at] = [start, received_at, done_at].map(|time| time.0);
        Finished { packets, received, start, received_at, done_at }
    };
    let finished = (0..flows.len() as u32).map(finished).collect();
    (simulation, finished)
}

/// The ideal time of a flow, in ps.
pub(crate) fn ideal<T: Transport>(simulation: &Simulation<T>, flow: u32) -> Option<u64> {
    simulation.core().ideal_time(PacketFlowId(flow)).map(|time| time.0)
}

/// The sum of a counter over all links.
pub(crate) fn total<T: Transport>(
    simulation: &Simulation<T>,
    counter: fn(&LinkCounters) -> u64,
) -> u64 {
    let core = simulation.core();
    core.topology().link_ids().map(|link| counter(&core.link_counters(link))).sum()
}
