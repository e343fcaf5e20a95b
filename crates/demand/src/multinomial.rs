//! Exact multinomial draws.
//!
//! Independent Poisson counts with means in proportion to the weights are, given their sum, a
//! multinomial draw of that many copies. There are two ways to the wanted sum, and neither changes
//! the distribution:
//!
//! * *Repair*: copies that are missing are placed one by one, and copies too many are taken from
//!   among all, each being as likely: copies are independent of each other and of their number.
//! * *Absorb*: the expert of the largest weight takes what the others leave, and the draw is
//!   accepted with the probability of that count over that of its mode, else made anew.
//!
//! To absorb is faster where experts are few, as one takes a large share. Conditional binomials,
//! the usual method, took longer than either, as each waits for the one before.

use std::f64::consts::TAU;

use crate::places::Places;
use crate::poisson::{NORMAL_FROM, UNDECIDED, correct, poisson, squeeze, stirling};
use crate::stream::Generator;

/// Memory that draws of one thread share.
#[derive(Debug, Default)]
pub struct Scratch {
    /// As long as a row.
    pub normals: Vec<f64>,
    /// As long as a row.
    pub uniforms: Vec<f64>,
    means: Vec<f64>,
    places: Places,
}

impl Scratch {
    /// Scratch for rows of so many experts.
    pub fn new(experts: usize) -> Self {
        let [normals, uniforms, means] = [(); 3].map(|()| vec![0.0; experts]);
        Self { normals, uniforms, means, places: Places::default() }
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
    let scale = f64::from(copies) / total;
    match choose(copies, weights, total) {
        Method::Absorb(place) => {
            while !absorb(copies, place, scale, weights, counts, (scratch, rng)) {}
        }
        Method::Repair => {
            let drawn = draw_poisson(scale, None, weights, counts, (scratch, rng));
            if drawn < u64::from(copies) {
                let missing = (u64::from(copies) - drawn) as u32;
                add(missing, weights.iter().copied(), counts, &mut scratch.places, rng);
            } else if drawn > u64::from(copies) {
                let excess = (drawn - u64::from(copies)) as u32;
                remove(excess, counts, &mut scratch.places, rng);
            }
        }
        Method::Place => {
            counts.fill(0);
            add(copies, weights.iter().copied(), counts, &mut scratch.places, rng);
        }
    }
}

/// How to draw a row. Only time depends on it.
enum Method {
    /// All copies one by one.
    Place,
    /// Poisson counts, repaired.
    Repair,
    /// Poisson counts, absorbed by this expert.
    Absorb(usize),
}

/// Smallest expected count of an expert that absorbs; far from 0, as the acceptance needs.
const ABSORB_FROM: f64 = 40.0;

/// The fastest method, by figures rounded from measurements.
///
/// In units of the time to place one copy, a Poisson count takes 2, a round of counts 10 more and
/// an acceptance 6. `n` expected copies miss their number by `0.8 sqrt(n)`, above or below. A draw
/// is accepted with the probability `sqrt(p)` about, `p` being the share of the largest expert.
fn choose(copies: u32, weights: &[f64], total: f64) -> Method {
    let number = f64::from(copies);
    let round = 2.0 * weights.len() as f64 + 10.0;
    let repair = round + 0.8 * number.sqrt();
    if number < repair {
        return Method::Place;
    }
    // no share reaches more than 1
    if round + 6.0 > repair {
        return Method::Repair;
    }
    let (place, largest) = weights.iter().enumerate().fold((0, 0.0), |best, (place, weight)| {
        if *weight > best.1 { (place, *weight) } else { best }
    });
    let share = largest / total;
    if (round + 6.0) / share.sqrt() < repair && share * number >= ABSORB_FROM {
        Method::Absorb(place)
    } else {
        Method::Repair
    }
}

/// Draws all counts but one, which takes the rest; whether that was accepted.
fn absorb(
    copies: u32,
    place: usize,
    scale: f64,
    weights: &[f64],
    counts: &mut [u32],
    (scratch, rng): (&mut Scratch, &mut Generator),
) -> bool {
    let drawn = draw_poisson(scale, Some(place), weights, counts, (scratch, rng));
    if drawn >= u64::from(copies) {
        return false;
    }
    counts[place] = copies - drawn as u32;
    rng.unit() < relative_to_mode(counts[place], weights[place] * scale)
}

/// A number not above 1 and in proportion to the Poisson probability of a count above 0.
///
/// By Stirling's formula no probability exceeds `1 / sqrt(2 pi floor(mean))`, by which this one is
/// divided.
fn relative_to_mode(count: u32, mean: f64) -> f64 {
    let (factor, exponent) = stirling(count, mean);
    factor * (TAU * mean.floor()).sqrt() * exponent.exp()
}

/// Draws counts of the means `scale * weights`, none for a place to skip; returns their sum.
fn draw_poisson(
    scale: f64,
    skip: Option<usize>,
    weights: &[f64],
    counts: &mut [u32],
    (scratch, rng): (&mut Scratch, &mut Generator),
) -> u64 {
    let Scratch { normals, uniforms, means, places } = scratch;
    rng.fill(normals, Generator::normal);
    rng.fill(uniforms, Generator::unit);
    for (mean, weight) in means.iter_mut().zip(weights) {
        *mean = weight * scale;
    }
    if let Some(place) = skip {
        means[place] = 0.0;
    }
    let draws = means.iter().zip(normals.iter().zip(uniforms.iter()));
    for (count, (mean, (normal, uniform))) in counts.iter_mut().zip(draws) {
        *count = squeeze(*mean, *normal, *uniform);
    }
    let (mut sum, mut rare) = (0, 0.0);
    for (place, count) in counts.iter_mut().enumerate() {
        if *count == UNDECIDED {
            let mean = means[place];
            *count = if mean < NORMAL_FROM {
                rare += mean;
                0
            } else {
                correct(mean, normals[place], uniforms[place], rng)
            };
        }
        sum += u64::from(*count);
    }
    if rare > 0.0 {
        // experts of small means share one Poisson count, whose copies are placed one by one
        let more = poisson(rare, rng);
        let only_rare = means.iter().map(|mean| if *mean < NORMAL_FROM { *mean } else { 0.0 });
        add(more, only_rare, counts, places, rng);
        sum += u64::from(more);
    }
    sum
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
