//! Relayed makespan over port bound and over lower bound, and time per call, on synthetic demand.

use std::time::Instant;

use lightloom_model::{Allocator, Rate};
use lightloom_schedule::relay::{RelayCost, RelayRequest, relay};
use lightloom_schedule::{EpsRates, Request, allocate, port_bound};

#[path = "../tests/all/common/regimes.rs"]
mod regimes;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let draws: usize = arguments.first().map_or(5, |text| text.parse().expect("a number"));
    let sizes: Vec<usize> = match arguments.get(1) {
        Some(size) => vec![size.parse().expect("a number")],
        None => vec![8, 16, 24, 32, 64],
    };
    let only = arguments.get(2);
    let rate = Rate(400_000_000_000);
    let (eps_rates, cost) = (EpsRates::Equal(Rate(2 * rate.0)), RelayCost::default());
    for &n in &sizes {
        let ports = vec![6; n];
        for kind in regimes::KINDS.into_iter().filter(|kind| only.is_none_or(|only| only == kind)) {
            for allocator in [Allocator::Static, Allocator::Reference, Allocator::Best] {
                let mut random = regimes::Random(0x9E37_79B9_7F4A_7C15);
                let (mut port, mut bound, mut one_hop) = (0.0, 0.0, 0.0);
                let mut best_seconds = f64::INFINITY;
                for _ in 0..draws {
                    let demand = regimes::demand(kind, n, &mut random);
                    let request = Request::new(&demand, &ports, rate, eps_rates, true).unwrap();
                    let circuits = allocate(allocator, &request).circuits;
                    let relayed =
                        RelayRequest::new(&demand, &circuits, rate, eps_rates, cost).unwrap();
                    for _ in 0..5 {
                        let start = Instant::now();
                        std::hint::black_box(relay(&relayed));
                        best_seconds = best_seconds.min(start.elapsed().as_secs_f64());
                    }
                    let found = relay(&relayed);
                    port += found.makespan / port_bound(&request);
                    bound += found.makespan / found.lower_bound;
                    one_hop += found.one_hop / port_bound(&request);
                }
                let each = draws as f64;
                println!(
                    "{n:3} {kind:8} {allocator:?}: one hop {:.3} relayed {:.3} of port bound, \
                     {:.3} of lower bound, {:.0} us",
                    one_hop / each,
                    port / each,
                    bound / each,
                    best_seconds * 1e6
                );
            }
        }
    }
}
