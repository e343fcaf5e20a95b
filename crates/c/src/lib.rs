//! The C interface of the decision core: `include/lightloom.h`, for controllers and NCCL plugins.
//!
//! A decider is made from a description of its region, policy and timing as JSON (`description`),
//! and keeps the circuits that are held (`state`); everything else crosses as plain numbers and
//! structs (`interface`). No function lets a panic out, reads a pointer that is null,
//! or writes beyond a capacity; what is refused is told by a status and a line of text (`status`).
//!
//! It assumes what C cannot check: that pointers and lengths belong together, and that a decider is
//! not used after it was destroyed. Work is bounded by limits on sizes ([`MAX_SERVERS`]), not
//! by a clock: allocators that search take as long as they do in Rust.

#![warn(unreachable_pub)]

mod description;
mod interface;
mod state;
mod status;

pub use description::{MAX_PORTS, MAX_SERVERS, MAX_TEXT_BYTES};
pub use interface::{
    ABI_VERSION, LightloomCircuit, LightloomDecision, lightloom_abi_version, lightloom_accept,
    lightloom_create, lightloom_decide, lightloom_destroy, lightloom_hold, lightloom_last_error,
    lightloom_list, lightloom_restore, lightloom_servers, lightloom_text,
};
pub use state::{LightloomDecider, List, MAX_ALL_TO_ALLS, Text};
pub use status::Status;
