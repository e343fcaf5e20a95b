//! Times that can be computed by hand.

use super::{flow, lossless, plain, run};
use crate::presets::fat_tree;
use crate::transport::line_rate::LineRate;
use lightloom_model::{Duration, Rate};

const US: u64 = 1_000_000;

/// (N + H - 1) full packets, H delays, and an acknowledgement all the way back.
fn one_flow(packets: u64, links: u64, gbps: u64) -> u64 {
    (packets + links - 1) * 4160 * 8000 / gbps + links * US + links * 64 * 8000 / gbps + links * US
}

#[test]
fn one_flow_takes_what_store_and_forward_takes() {
    for gbps in [100, 400] {
        for (destination, links) in [(1, 2), (4, 4), (127, 6)] {
            for config in [plain(), lossless()] {
                let topology = fat_tree(128, 8, Rate(gbps * 1_000_000_000), Duration(US)).unwrap();
                let specs = [flow((0, destination), 2_000_000)];
                let (simulation, flows) = run(topology, config, LineRate::new, &specs);
                assert_eq!(flows[0].done_at, one_flow(489, links, gbps));
                assert_eq!(simulation.core().ideal_time(0), Some(flows[0].received_at));
            }
        }
    }
    assert_eq!([one_flow(489, 2, 100), one_flow(489, 6, 100)], [167_082_240, 176_433_920]);
}
