//! Lowers all-to-alls to what a network carries: transfers over paths, and copies in servers.
//!
//! MixNet section 5.3 has five steps: (1) find the delegate GPUs, (2) gather onto them over
//! NVSwitch, (3) send between servers, (4) meanwhile send inside the servers, (5) scatter from the
//! delegates. A [`crate::network::Lowering`] is the outcome of step 1: the sizes of all the others.

mod all_to_all;
mod delegates;
mod inside;
mod regroup;

pub(crate) use all_to_all::Lowerer;
