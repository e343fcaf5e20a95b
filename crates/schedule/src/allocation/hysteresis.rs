//! Allocation that leaves circuits alone unless others are clearly faster.
//!
//! Demand drifts a little from step to step, and so do the circuits that suit it best: following
//! it exactly darkens circuits for nothing. What is there stays if it is within a tolerance of a
//! bound, without looking further; else a few circuits are moved, starting from those; only if that
//! does not suffice is the demand allocated anew, and what then need not change is undone.

use super::allocate::allocate;
use super::bound::line_bound_of;
use super::problem::Problem;
use super::request::{Allocation, Request, changed_pairs};
use super::routing::{finish_at, makespan};
use super::search::search;
use super::sticky::settle;
use lightloom_model::Allocator;

/// As [`allocate()`], but with few changes of the previous circuits: the makespan is at most
/// `1 + tolerance` times what the allocator would have, or a bound.
///
/// # Panics
/// If the tolerance is negative.
pub fn allocate_within(allocator: Allocator, request: &Request, tolerance: f64) -> Allocation {
    assert!(tolerance >= 0.0, "tolerance {tolerance}");
    let Some(previous) = request.previous.filter(|_| tolerance > 0.0) else {
        return allocate(allocator, request);
    };
    let problem = Problem::new(request);
    let stay = problem.adopt(previous);
    let time = makespan(&problem, &stay.count);
    let limit = line_bound_of(&problem) * (1.0 + tolerance);
    if time <= limit {
        return finish_at(&problem, stay.count, allocator, time);
    }
    if time.is_finite() {
        let (near, in_time) = search(&problem, stay.clone(), limit, 0);
        if in_time {
            let near = settle(&problem, previous, near, limit);
            let time = makespan(&problem, &near.count);
            return finish_at(&problem, near.count, allocator, time);
        }
    }
    let fresh = allocate(allocator, request);
    let limit = fresh.makespan * (1.0 + tolerance);
    if time <= limit {
        return finish_at(&problem, stay.count, allocator, time);
    }
    let near = settle(&problem, previous, problem.adopt(&fresh.circuits), limit);
    if changed_pairs(previous, &near.count) < changed_pairs(previous, &fresh.circuits) {
        let time = makespan(&problem, &near.count);
        return finish_at(&problem, near.count, fresh.chosen, time);
    }
    fresh
}
