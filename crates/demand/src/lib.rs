//! Draws the token copies of the synthetic gate, row by row.
//!
//! A row holds the copies that one source rank routes to each expert in one layer, micro-batch and
//! step: Dirichlet shares around the popularity of the experts, then a multinomial draw from the
//! shares, then the cap of one copy per token and expert. All three are exact up to the rounding
//! of 64-bit floats. Where popularity comes from is the caller's business. A [`Gate`] says how many
//! of the tokens behind such counts reach a member.

#![warn(unreachable_pub)]

pub mod cap;
pub mod fold;
pub mod gamma;
pub mod gate;
pub mod multinomial;
pub mod places;
pub mod poisson;
pub mod rows;
pub mod stream;

pub use cap::cap;
pub use fold::{FoldedRows, SummedRows};
pub use gamma::Gammas;
pub use gate::Gate;
pub use multinomial::{Scratch, multinomial};
pub use rows::{FittingRows, Rows};
pub use stream::{Generator, Stream};
