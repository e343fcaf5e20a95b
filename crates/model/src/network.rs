//! What parts of networks are described with: how all-to-alls are spread, the inside of a server,
//! circuits.

use crate::choices;
use crate::units::{Duration, Rate};

choices! {
    /// How the all-to-all is spread over the NICs of a server.
    pub enum AllToAll: "all_to_all" {
        Flat = "flat": "GPU to GPU, each over its own NIC",
        Rail = "rail": "First to the local GPU on the destination's rail (PXN), then across",
        Hierarchical = "hierarchical":
            "Gathered, spread evenly over all NICs of the server, scattered at the receiver",
    }
}

/// The scale-up network inside a server: a non-blocking crossbar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvSwitch {
    /// Rate of one GPU, per direction.
    pub gpu_rate: Rate,
    /// Start-up latency of one local collective or copy.
    pub latency: Duration,
}

/// A bundle of parallel direct links between two servers, duplex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Number of parallel links.
    pub count: u32,
}
