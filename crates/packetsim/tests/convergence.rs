//! Packets against fluid flows: as packets shrink, or flows grow, phases take as long as the
//! flow-level network says.

#[path = "common/phases.rs"]
mod phases;

use phases::{
    Sizes, errors_by_payload, errors_by_scale, hot_receivers, incast, skewed, slope, uniform,
};

#[test]
fn the_error_of_a_phase_falls_with_the_size_of_packets() {
    for (name, sizes) in [("uniform", uniform as Sizes), ("incast", incast)] {
        let errors = errors_by_payload(sizes);
        assert!(errors.iter().all(|&error| error > 0.0), "{name}: {errors:?}");
        let slope = slope(&errors);
        assert!((0.8..1.2).contains(&slope), "{name}: {errors:?}, slope {slope}");
    }
}

#[test]
fn the_error_of_an_uneven_phase_falls_with_the_size_of_packets() {
    for (name, sizes) in [("hot receivers", hot_receivers as Sizes), ("skewed", skewed)] {
        let errors = errors_by_payload(sizes);
        // What is left is that queues serve first come, first served, not max-min fairly.
        assert!(slope(&errors[..3]) > 0.8, "{name}: {errors:?}");
        assert!(errors[4].abs() < 0.0015, "{name}: {errors:?}");
    }
}

#[test]
fn the_error_of_a_phase_falls_with_the_size_of_flows() {
    for (name, sizes) in [("uniform", uniform as Sizes), ("hot receivers", hot_receivers)] {
        let errors = errors_by_scale(sizes);
        let slope = slope(&errors);
        assert!((0.8..1.2).contains(&slope), "{name}: {errors:?}, slope {slope}");
    }
}
