//! How fast steps are simulated: `cargo bench -p lightloom-execute -- [JOB] [NETWORK]`.
//!
//! Jobs: `1k` (1,024 GPUs, Mixtral 8x22B: TP8 PP8 EP8 DP2, 8 micro-batches) by default, `32k`
//! (32,768 GPUs, Mixtral 8x7B: TP4 PP4 EP8, 16 micro-batches), `8k` and `2k` (the same with fewer
//! groups, to see how the cost per flow grows). All networks by default. Prints the wall and the
//! processor time of one core, what was simulated, and the peak memory of the process.

mod synthetic;

use lightloom_execute::{Options, execute};
use lightloom_kernel::Silent;
use std::time::Instant;
use synthetic::{Job, graph, network};

fn job(name: &str) -> Option<Job> {
    match name {
        "1k" => Some(Job {
            stages: 8,
            replicas: 2,
            members: 8,
            micro_batches: 8,
            layers_per_stage: 7,
            copies: 65_536,
            hidden: 6144,
        }),
        "2k" | "8k" | "32k" => Some(Job {
            stages: 4,
            replicas: match name {
                "2k" => 16,
                "8k" => 64,
                _ => 256,
            },
            members: 4,
            micro_batches: 16,
            layers_per_stage: 8,
            copies: 131_072,
            hidden: 4096,
        }),
        _ => None,
    }
}

/// Processor time of this process so far, in seconds, where the system tells (Linux: ticks of
/// 10 ms, the 14th word, 12 after the program's name).
fn processor_s() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/stat").ok()?;
    let words = status.rsplit_once(") ")?.1;
    let ticks: f64 = words.split_whitespace().nth(11)?.parse().ok()?;
    Some(ticks / 100.0)
}

/// Peak resident memory so far, in GB, where the system tells.
fn peak_memory_gb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024.0 / 1e9)
}

fn main() {
    // Cargo passes options such as --bench; names are everything else.
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let sharing = !std::env::args().any(|argument| argument == "--no-sharing");
    let job_name = names.first().map_or("1k", String::as_str);
    let job = job(job_name).expect("jobs are 1k, 2k, 8k and 32k");
    let started = Instant::now();
    let graph = graph(&job);
    println!("{job_name}: graph built in {:.2} s", started.elapsed().as_secs_f64());
    let all = ["fat-tree", "oversub", "mixnet", "topoopt"].map(String::from);
    let wanted = if names.len() > 1 { &names[1..] } else { &all[..] };
    for name in wanted {
        let network = network(&job, name).expect("networks are fat-tree, oversub, mixnet, topoopt");
        let options = Options { share_equal_work: sharing, ..Options::default() };
        let (started, busy) = (Instant::now(), processor_s());
        let outcome = execute(&graph, &network, &options, &mut Silent).expect("a valid graph");
        let wall = started.elapsed().as_secs_f64();
        let cpu = processor_s().zip(busy).map_or(f64::NAN, |(after, before)| after - before);
        println!(
            "{job_name} {name:9} {wall:6.2} s wall, {cpu:6.2} s cpu, step {:.4} s, \
             {:.2e} events ({:.2e}/s), {:.2e} flows ({:.2e}/s), {:.2e} tasks, \
             {:.1} flows touched per flow, peak {:.2} GB",
            outcome.step.as_seconds(),
            outcome.events as f64,
            outcome.events as f64 / cpu,
            outcome.flows as f64,
            outcome.flows as f64 / cpu,
            outcome.tasks as f64,
            outcome.flow_statistics.flows_touched as f64 / outcome.flows.max(1) as f64,
            peak_memory_gb().unwrap_or(f64::NAN),
        );
        let circuits = outcome.circuits;
        if circuits.decisions > 0 {
            println!(
                "    {} decisions, {} reconfigurations, exposed {:.1} %, shared {:.1} %, \
                 makespan {:.3} of the bound",
                circuits.decisions,
                circuits.reconfigurations,
                100.0 * circuits.exposed.0 as f64 / circuits.delay.0.max(1) as f64,
                100.0 * circuits.shared as f64 / circuits.allocations.max(1) as f64,
                circuits.makespan_s / circuits.bound_s,
            );
        }
    }
}
