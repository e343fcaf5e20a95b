//! Two-hop relaying: demand over circuits, the EPS, and third servers that pass bytes on.
//!
//! Where a region has more servers than a server has circuits, most pairs have no circuit of their
//! own, and the EPS becomes the bottleneck while ports of cold servers idle. A third server may
//! then take bytes in over a circuit (or the EPS) and pass them on over the EPS or a circuit.
//! [`relay`] divides every pair's bytes among its one-hop and two-hop paths such that the last byte
//! arrives early; [`allocate_relayed`] picks the circuits with such routing in mind. Results come
//! with a lower bound whose prices can be checked ([`dual_bound`]), and [`verify`] recomputes every
//! load.
//!
//! Assumes fluid flow at line rate: a relay passes bytes on while it takes further ones in. What
//! relaying costs (staging across the NVSwitch, the time of a chunk, memory) is charged as
//! [`RelayCost`] says. Leaves out three hops, two passes over the EPS (which never help, as one
//! pass takes a subset of the same ports) and contention with other traffic of the region.

mod allocate;
mod cheapest;
mod descent;
mod dual;
mod request;
mod resources;
mod round;
mod solve;
mod verify;

pub use allocate::{Origin, RelayedAllocation, allocate_relayed, expander};
pub use dual::{DualPrices, dual_bound};
pub use lightloom_model::RelayCost;
pub use request::{MAX_BYTES, PathKind, RelayPath, RelayRequest, RelayVerdict, Relayed};
pub use resources::Via;
pub use round::PathShare;
pub use solve::{relay, relay_as};
pub use verify::{Loads, verify};
