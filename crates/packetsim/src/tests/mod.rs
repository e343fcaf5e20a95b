//! Tests of the whole simulator against closed forms.

mod closed_forms;
mod dcqcn;
mod dctcp;
mod go_back_n;
mod observing;
mod properties;
mod receiver_driven;
mod routes;
mod scenarios;
mod stuck;
mod wrong_input;

use crate::transport::Transport;
use crate::{Config, Core, Flow, FlowSpec, NicId, Overflow, Paths, Pfc, Simulation, Topology};
use lightloom_kernel::Silent;
use lightloom_model::{Bytes, Time};

/// 4,096 B of payload, 64 B headers and control packets, endless queues, one path per flow.
pub fn plain() -> Config {
    Config {
        mtu: 4096,
        header: 64,
        full_tail: true,
        control_bytes: 64,
        control_priority: false,
        queue_bytes: u32::MAX,
        control_queue_bytes: u32::MAX,
        overflow: Overflow::Drop,
        ecn: None,
        pfc: None,
        paths: Paths::Ecmp,
        seed: 1,
    }
}

/// [`plain`] with pauses from 15 packets on until 12.
pub fn lossless() -> Config {
    Config { pfc: Some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 }), ..plain() }
}

pub fn flow(ends: (u32, u32), bytes: u64) -> FlowSpec {
    FlowSpec {
        source: NicId(ends.0),
        destination: NicId(ends.1),
        size: Bytes(bytes),
        start: Time::ZERO,
        route: None,
    }
}

/// Runs to the end; all flows must finish.
pub fn run<T: Transport>(
    topology: Topology,
    config: Config,
    transport: impl FnOnce(&Core) -> T,
    flows: &[FlowSpec],
) -> (Simulation<T>, Vec<Flow>) {
    let mut simulation = Simulation::new(topology, config, transport).unwrap();
    for spec in flows {
        simulation.add_flow(spec).unwrap();
    }
    let mut done = Vec::new();
    while simulation.advance(Time(u64::MAX), &mut done, &mut Silent).unwrap() {}
    assert_eq!(done.len(), flows.len(), "all flows finish");
    let states = (0..flows.len() as u32).map(|flow| *simulation.core().flow(flow)).collect();
    (simulation, states)
}
