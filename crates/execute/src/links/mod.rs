//! What carries bytes: links, the paths over them, and the simulators behind them.
//!
//! [`Links`] are driven alike whether bytes are fluid flows or packets ([`crate::packets`]); a
//! [`Division`] is what of the bytes of a pair takes which path.

mod carrier;
mod ends;
pub(crate) mod link;
mod paths;
pub(crate) mod shares;
mod usage;

pub use carrier::{CONDUCTED, Launch, Links};
pub use link::{End, Flow, Link};
pub use paths::{Division, PartId, Path, PathId, Paths, Share};
pub use shares::{equal_shares, weighted_shares};
pub use usage::LinkUse;
