//! One step of a controller: from what it has measured and what its switches hold to what they hold
//! next. Pure functions, each next to the run over a given demand that calls it step by step
//! ([`crate::helios`], [`crate::xnest_plus`], [`crate::rotornet`]).
//!
//! - [`helios_step`]: matchings of largest weight, kept if they gain too little;
//! - [`xnest_step`]: one half of the switches turns, the other keeps its older plan;
//! - [`rotor_slot`]: a slot of a round robin, from queues alone;
//! - [`DemandEstimate`]: what is expected, from what was measured; [`Estimator::Clairvoyant`] names
//!   the assumption that no controller can make;
//! - [`serve_over_time`]: demand that arrives period by period, under any of these steps.
//!
//! A run over a known demand plans from what is left of it, so it is clairvoyant in this sense.

mod estimate;
mod over_time;

pub use crate::epochs::SwitchStep;
pub use crate::helios::helios_step;
pub use crate::rotornet::{RotorQueues, RotorSlot, rotor_slot, rotor_slot_by};
pub use crate::xnest_plus::{Turning, XnestStep, xnest_step, xnest_step_by};
pub use estimate::{DemandEstimate, Estimator};
pub use over_time::{OverTime, serve_over_time};
