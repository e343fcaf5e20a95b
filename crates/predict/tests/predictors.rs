//! What holds for every built-in predictor, whatever it fits.

use lightloom_model::{Choice, Invalid};
use lightloom_predict::{LoadPredictor, PredictorChoice, PredictorName};
use proptest::prelude::*;

/// Loads per step, layer and expert.
type Trace = Vec<Vec<Vec<f64>>>;

fn build(name: PredictorName, experts: usize) -> Box<dyn LoadPredictor> {
    PredictorChoice { name, window: 8 }.build(experts).expect("few experts")
}

/// Observes whole steps.
fn observe(made: &mut dyn LoadPredictor, trace: &Trace) {
    for (step, layers) in trace.iter().enumerate() {
        for (layer, loads) in layers.iter().enumerate() {
            made.observe(step as u64, layer as u32, loads).expect("loads in order");
        }
    }
}

/// Predictions of every layer of the step after a trace, each after the layers before it were
/// observed with these loads.
fn predictions(name: PredictorName, trace: &Trace, next: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut made = build(name, next[0].len());
    observe(&mut *made, trace);
    let step = trace.len() as u64;
    let mut found = Vec::new();
    for (layer, loads) in next.iter().enumerate() {
        found.push(made.predict(step, layer as u32).expect("an open step"));
        made.observe(step, layer as u32, loads).expect("loads in order");
    }
    found
}

fn close(one: &[Vec<f64>], other: &[Vec<f64>], tolerance: f64) -> bool {
    one.iter().map(Vec::len).eq(other.iter().map(Vec::len))
        && one
            .iter()
            .flatten()
            .zip(other.iter().flatten())
            .all(|(one, other)| (one - other).abs() <= tolerance)
}

/// Loads that sum to one.
fn shares(loads: &[f64]) -> Vec<f64> {
    let total: f64 = loads.iter().sum();
    loads.iter().map(|load| load / total).collect()
}

/// Steps of some layers and experts, the last of which is to be predicted.
fn trace() -> impl Strategy<Value = Trace> {
    (2..6_usize, 1..4_usize, 1..14_usize).prop_flat_map(|(experts, layers, steps)| {
        let loads = prop::collection::vec(0.01..10.0_f64, experts);
        prop::collection::vec(prop::collection::vec(loads, layers), steps)
    })
}

fn names() -> impl Strategy<Value = PredictorName> {
    prop::sample::select(PredictorName::ALL)
}

/// As exactly as a predictor states its fit.
fn tolerance(name: PredictorName) -> f64 {
    match name {
        PredictorName::Copilot => 1e-3,
        // Iterations that end early depend on rounding.
        PredictorName::CopilotGradient => 2e-2,
        _ => 1e-9,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn predictions_are_shares(name in names(), mut trace in trace()) {
        let next = trace.pop().expect("one step or more");
        for shares in predictions(name, &trace, &next) {
            prop_assert_eq!(shares.len(), next[0].len());
            prop_assert!(shares.iter().all(|&share| (0.0..=1.0 + 1e-9).contains(&share)));
            prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{}", name);
        }
    }

    /// Experts have no order: other labels lead to the same predictions under those labels.
    #[test]
    fn relabelled_experts_are_predicted_alike(
        name in names(), mut trace in trace(), turn in 1..5_usize,
    ) {
        let turned = |loads: &Vec<f64>| {
            let mut other = loads.clone();
            other.reverse();
            other.rotate_left(turn % loads.len());
            other
        };
        let mut other: Trace =
            trace.iter().map(|step| step.iter().map(turned).collect()).collect();
        let (next, last) = (trace.pop().expect("a step"), other.pop().expect("a step"));
        let found: Vec<Vec<f64>> = predictions(name, &trace, &next).iter().map(turned).collect();
        let relabelled = predictions(name, &other, &last);
        prop_assert!(close(&found, &relabelled, tolerance(name)), "{} {:?}", name, relabelled);
    }

    /// Loads count as shares: any unit will do, even another one per observation.
    #[test]
    fn the_unit_of_loads_does_not_matter(name in names(), mut trace in trace()) {
        let mut unit = 1.0;
        let mut scaled = trace.clone();
        for loads in scaled.iter_mut().flatten() {
            // Powers of two leave every digit as it is.
            unit = if unit > 1e6 { 0.125 } else { unit * 4.0 };
            for load in loads.iter_mut() {
                *load *= unit;
            }
        }
        let (next, other) = (trace.pop().expect("a step"), scaled.pop().expect("a step"));
        prop_assert_eq!(predictions(name, &trace, &next), predictions(name, &scaled, &other));
    }

    /// To predict is not to learn: neither what is predicted twice nor what is predicted early
    /// changes any later prediction. Fits that iterate start from the last one, and of several
    /// minima may find another: they only repeat themselves.
    #[test]
    fn predicting_changes_nothing(name in names(), mut trace in trace(), early in 1..9_u64) {
        let next = trace.pop().expect("one step or more");
        let plain = predictions(name, &trace, &next);
        let mut made = build(name, next[0].len());
        for (step, layers) in trace.iter().enumerate() {
            let step = step as u64;
            for (layer, loads) in layers.iter().enumerate() {
                if tolerance(name) < 1e-6 {
                    made.predict(step + early, layer as u32).expect("an open step");
                    made.predict(step, layer as u32).expect("an open step");
                }
                made.observe(step, layer as u32, loads).expect("loads in order");
            }
        }
        let step = trace.len() as u64;
        for (layer, loads) in next.iter().enumerate() {
            let found = made.predict(step, layer as u32).expect("an open step");
            let again = made.predict(step, layer as u32).expect("an open step");
            prop_assert_eq!(&found, &again);
            let near = close(&[found], &plain[layer..=layer], tolerance(name));
            prop_assert!(near, "{} {}", name, layer);
            made.observe(step, layer as u32, loads).expect("loads in order");
        }
    }

    /// What is refused leaves nothing behind.
    #[test]
    fn refused_loads_teach_nothing(name in names(), mut trace in trace()) {
        let next = trace.pop().expect("one step or more");
        let experts = next[0].len();
        let (mut plain, mut disturbed) = (build(name, experts), build(name, experts));
        observe(&mut *plain, &trace);
        observe(&mut *disturbed, &trace);
        let step = trace.len() as u64;
        for wrong in [vec![1.0; experts + 1], vec![0.0; experts], vec![f64::NAN; experts]] {
            prop_assert!(disturbed.observe(step, 0, &wrong).is_err());
        }
        if let Some(last) = step.checked_sub(1) {
            prop_assert!(disturbed.observe(last, 0, &next[0]).is_err());
            prop_assert!(disturbed.predict(last, 0).is_err());
        }
        for layer in 0..next.len() as u32 {
            prop_assert_eq!(plain.predict(step, layer), disturbed.predict(step, layer));
        }
    }

    /// Loads that never change are predicted, by all but the one that looks at nothing.
    #[test]
    fn what_never_changes_is_predicted(
        name in names(), loads in prop::collection::vec(0.1..1.0_f64, 2..6), steps in 1..12_usize,
    ) {
        let trace = vec![vec![loads.clone(); 2]; steps];
        let shares = shares(&loads);
        let found = predictions(name, &trace, &trace[0]);
        let uniform = vec![1.0 / loads.len() as f64; loads.len()];
        let expected = match name {
            PredictorName::Uniform => [uniform.clone(), uniform],
            // The first layer has none before it.
            PredictorName::PreviousLayer => [uniform, shares],
            _ => [shares.clone(), shares],
        };
        prop_assert!(close(&found, &expected, 1e-3), "{} {:?}", name, found);
    }

    /// Those without a fit, by their definitions.
    #[test]
    fn baselines_are_their_definitions(mut trace in trace()) {
        let next = trace.pop().expect("one step or more");
        let uniform = vec![1.0 / next[0].len() as f64; next[0].len()];
        let before: Vec<Vec<f64>> = std::iter::once(uniform.clone())
            .chain(next[..next.len() - 1].iter().map(|loads| shares(loads)))
            .collect();
        let found = predictions(PredictorName::PreviousLayer, &trace, &next);
        prop_assert!(close(&found, &before, 1e-12));
        let found = predictions(PredictorName::LastStep, &trace, &next);
        let last = trace.last().map(|last| last.iter().map(|loads| shares(loads)).collect());
        prop_assert!(close(&found, &last.unwrap_or(before), 1e-12));
        // The weight of a new step: that of a plain mean at first, and a fifth at least.
        let found = predictions(PredictorName::Ewma, &trace, &next);
        for (layer, found) in found.iter().enumerate().filter(|_| !trace.is_empty()) {
            let mut level = uniform.clone();
            for (step, layers) in trace.iter().enumerate() {
                let rate = (1.0 / (step + 1) as f64).max(0.2);
                for (mean, share) in level.iter_mut().zip(shares(&layers[layer])) {
                    *mean = (1.0 - rate) * *mean + rate * share;
                }
            }
            prop_assert!(close(std::slice::from_ref(found), &[level], 1e-12));
        }
    }

    /// A layer learns from itself and from the one before it alone.
    #[test]
    fn layers_further_away_do_not_matter(name in names(), mut trace in trace(), seed in 1..9_u32) {
        let next = trace.pop().expect("one step or more");
        let plain = predictions(name, &trace, &next);
        let mut changed = trace.clone();
        for (step, layers) in changed.iter_mut().enumerate() {
            for loads in layers.iter_mut().skip(2) {
                loads.rotate_left((step + seed as usize) % next[0].len());
            }
        }
        let found = predictions(name, &changed, &next);
        let kept = plain.len().min(2);
        prop_assert_eq!(&plain[..kept], &found[..kept]);
    }
}

#[test]
fn every_name_builds_and_says_what_it_is() {
    for &name in PredictorName::ALL {
        assert_eq!(name.name().parse::<PredictorName>().unwrap(), name);
        assert!(!name.description().is_empty());
        let found = build(name, 3).predict(0, 0).unwrap();
        assert_eq!(found, [1.0 / 3.0; 3], "{name}: nothing was seen");
    }
    let text = "nearest".parse::<PredictorName>().unwrap_err().to_string();
    assert!(text.contains("previous-layer") && text.contains("nearest"), "{text}");
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    for &name in PredictorName::ALL {
        let refusal = |experts, window| {
            let made = PredictorChoice { name, window }.build(experts);
            made.map(drop).map_err(|Invalid(text)| text)
        };
        let text = refusal(0, 8).unwrap_err();
        assert!(text.starts_with("experts: expected a whole number from 1 to"), "{name}: {text}");
        let fits = matches!(
            name,
            PredictorName::Copilot | PredictorName::CopilotGradient | PredictorName::Ridge
        );
        for window in [0, 1, 1025] {
            assert_eq!(refusal(4, window).is_err(), fits, "{name}");
        }
        assert_eq!((refusal(4, 2), refusal(1, 1024)), (Ok(()), Ok(())), "{name}");
    }
}

/// A layer may run early of the next one, as micro-batches do, and is still its input.
#[test]
fn a_layer_may_be_steps_ahead() {
    for &name in PredictorName::ALL {
        let loads = |step: u64| [1.0 + (step * 5 % 7) as f64, 2.0, 1.0 + (step * 3 % 5) as f64];
        let (mut together, mut early) = (build(name, 3), build(name, 3));
        for step in 0..12 {
            together.observe(step, 0, &loads(step)).unwrap();
            together.observe(step, 1, &loads(step + 1)).unwrap();
        }
        for first in [0, 6] {
            for step in first..first + 6 {
                early.observe(step, 0, &loads(step)).unwrap();
            }
            for step in first..first + 6 {
                early.observe(step, 1, &loads(step + 1)).unwrap();
            }
        }
        assert_eq!(together.predict(12, 1), early.predict(12, 1), "{name}");
    }
}

#[test]
fn ridge_looks_at_the_layer_before_once_it_has_four_pairs() {
    // Layers 1 are the same, layers 0 differ.
    let layer = |step: u64, salt: u64| {
        [0, 1, 2].map(|expert| ((step * 7 + expert * 5 + salt * (step * expert)) % 11 + 1) as f64)
    };
    let mut made = [1, 4].map(|salt| (salt, build(PredictorName::Ridge, 3)));
    let mut differ = Vec::new();
    for step in 0..12 {
        let found = made.each_mut().map(|(salt, one)| {
            one.observe(step, 0, &layer(step, *salt)).unwrap();
            let found = one.predict(step, 1).unwrap();
            one.observe(step, 1, &layer(step, 2)).unwrap();
            found
        });
        differ.push(found[0] != found[1]);
    }
    // Nothing surprises in the first step of a layer, so that steps 1 to 4 are four pairs.
    assert_eq!(differ[..5], [false; 5]);
    assert!(differ[5..].iter().any(|&differs| differs));
}
