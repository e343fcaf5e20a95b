//! Runs of small graphs against closed forms.

mod circuits;
mod exchange;
mod local;
mod packets;
mod phases;
mod pipeline;
mod policies;
mod refusals;
mod relaying;
mod ring;
mod whole;

use crate::testing::{compute, task};
use crate::{Options, Outcome, execute};
use lightloom_kernel::Silent;
use lightloom_model::{Category, Network, RingKind, Scope, Task, TaskGraph, TaskKind};

/// Picoseconds per microsecond.
const US: u64 = 1_000_000;

/// Picoseconds per byte at 400 Gb/s.
const NIC: u64 = 20;

fn play(graph: &TaskGraph, network: &Network) -> Outcome {
    let options = Options { share_equal_work: true, ..Options::default() };
    execute(graph, network, &options, &mut Silent).expect("a valid graph")
}

fn refuse(graph: &TaskGraph, network: &Network) -> String {
    execute(graph, network, &Options::default(), &mut Silent).expect_err("invalid").to_string()
}

fn spent(outcome: &Outcome, stage: usize, category: Category) -> u64 {
    outcome.spent[stage].0[category as usize]
}

fn send(peer_stage: u32, tag: u32, bytes: u64) -> Task {
    task(TaskKind::Send { peer_stage, tag, bytes }, Category::Pp)
}

fn receive(peer_stage: u32, tag: u32) -> Task {
    task(TaskKind::Receive { peer_stage, tag }, Category::Pp)
}

fn ring(kind: RingKind, handle: u32, bytes: u64, local_bytes_per_gpu: u64) -> Task {
    task(TaskKind::Ring { kind, scope: 0, handle, bytes, local_bytes_per_gpu }, Category::Dp)
}

fn wait(handle: u32) -> Task {
    task(TaskKind::Wait { handle }, Category::Dp)
}

fn one_ring(workers: u32) -> Scope {
    Scope { name: "dp".into(), offsets: vec![0, workers], workers: (0..workers).collect() }
}
