//! Exact multinomial draws.
//!
//! Independent Poisson counts with means in proportion to the weights are, given their sum, a
//! multinomial draw of that many copies. So most copies come from Poisson counts that are expected
//! to reach the wanted number nearly, copies that are missing are placed one by one, and copies
//! too many are taken from among all, each being as likely. Neither step changes the distribution:
//! copies are independent of each other and of how many the Poisson counts gave. Conditional
//! binomials, the usual way, took three to five times as long.

use crate::places::Places;
use crate::poisson::{NORMAL_FROM, UNDECIDED, correct, poisson, squeeze};
use crate::stream::Generator;

/// Memory that draws of one thread share.
#[derive(Debug, Default)]
pub struct Scratch {
    /// As long as a row.
    pub normals: Vec<f64>,
    /// As long as a row.
    pub uniforms: Vec<f64>,
    means: Vec<f64>,
    fresh: Vec<u32>,
    places: Places,
}

impl Scratch {
    /// Scratch for rows of so many experts.
    pub fn new(experts: usize) -> Self {
        let [normals, uniforms, means] = [(); 3].map(|()| vec![0.0; experts]);
        Self { normals, uniforms, means, fresh: vec![0; experts], places: Places::default() }
    }
}

/// Draws how many of `copies` go to each of the weights.
///
/// `weights` are at least 0 and sum to `total > 0`; `counts` and the scratch are as long as they.
pub fn multinomial(
    copies: u32,
    weights: &[f64],
    total: f64,
    counts: &mut [u32],
    scratch: &mut Scratch,
    rng: &mut Generator,
) {
    counts.fill(0);
    let mut left = i64::from(copies);
    while let Some(expected) = stage(left, weights.len()) {
        left -= add_poisson(expected / total, weights, counts, scratch, rng);
    }
    if left > 0 {
        add(left as u32, weights.iter().copied(), counts, &mut scratch.places, rng);
    } else if left < 0 {
        remove(left.unsigned_abs() as u32, counts, &mut scratch.places, rng);
    }
}

/// How many of the copies left to expect from Poisson counts, if these are worth their while.
///
/// Only time depends on it. Figures are rounded from measurements: a Poisson count takes twice as
/// long as placing a copy, and every round of counts as long as ten copies. Of `n` copies, `n`
/// expected ones miss the number by `0.8 sqrt(n)`, above or below; where that is many, counts stay
/// below and a second round makes up for them.
fn stage(left: i64, experts: usize) -> Option<f64> {
    let (number, experts) = (left as f64, experts as f64);
    let root = number.max(0.0).sqrt();
    let round = 2.0 * experts + 10.0;
    let shortfall = if 0.8 * root > round + 20.0 { 1.5 * root } else { 0.0 };
    (number > round + 30.0 + shortfall.max(root)).then_some(number - shortfall)
}

/// Adds Poisson counts of the means `scale * weights`; returns their sum.
fn add_poisson(
    scale: f64,
    weights: &[f64],
    counts: &mut [u32],
    scratch: &mut Scratch,
    rng: &mut Generator,
) -> i64 {
    let Scratch { normals, uniforms, means, fresh, places } = scratch;
    rng.fill(normals, Generator::normal);
    rng.fill(uniforms, Generator::unit);
    for (mean, weight) in means.iter_mut().zip(weights) {
        *mean = weight * scale;
    }
    let given = means.iter().zip(normals.iter().zip(uniforms.iter()));
    for (count, (mean, (normal, uniform))) in fresh.iter_mut().zip(given) {
        *count = squeeze(*mean, *normal, *uniform);
    }
    let mut sum = 0;
    let mut rare = 0.0;
    for (place, count) in fresh.iter_mut().enumerate() {
        if *count == UNDECIDED {
            let mean = means[place];
            *count = if mean < NORMAL_FROM {
                rare += mean;
                0
            } else {
                correct(mean, normals[place], uniforms[place], rng)
            };
        }
        sum += i64::from(*count);
    }
    for (count, more) in counts.iter_mut().zip(fresh) {
        *count += *more;
    }
    // experts of small means share one Poisson count, whose copies are placed one by one
    let more = poisson(rare, rng);
    let only_rare = means.iter().map(|mean| if *mean < NORMAL_FROM { *mean } else { 0.0 });
    add(more, only_rare, counts, places, rng);
    sum + i64::from(more)
}

/// Places copies one by one.
fn add(
    copies: u32,
    weights: impl ExactSizeIterator<Item = f64>,
    counts: &mut [u32],
    places: &mut Places,
    rng: &mut Generator,
) {
    if copies == 0 {
        return;
    }
    let total = places.set(weights);
    let mut left = copies;
    while left > 0 {
        // rounding may hit the total itself, beyond the last place
        if let Some(count) = counts.get_mut(places.find(rng.unit() * total)) {
            *count += 1;
            left -= 1;
        }
    }
}

/// Takes copies out one by one, each as likely as any other that is left.
fn remove(copies: u32, counts: &mut [u32], places: &mut Places, rng: &mut Generator) {
    let total = places.set(counts.iter().map(|count| f64::from(*count)));
    let mut left = copies;
    while left > 0 {
        let number = rng.unit() * total;
        let place = places.find(number);
        if let Some(count) = counts.get_mut(place) {
            // an expert's copies go from the back: those beyond its count are gone already
            if number - places.before(place) < f64::from(*count) {
                *count -= 1;
                left -= 1;
            }
        }
    }
}
