//! Exact Poisson variates, many at a time.
//!
//! A normal variate, rounded down, is accepted at once or by a cheap squeeze in 98 of 100 cases;
//! what the discrete normal lacks of the Poisson distribution comes from a double exponential by
//! rejection (Ahrens and Dieter, "Computer generation of Poisson deviates from modified normal
//! distributions", ACM TOMS 8(2), 1982, algorithm PD). The paper proves that the mixture is
//! Poisson for every mean from 10 on. Means below 10: inversion, term by term.

use std::f64::consts::TAU;

use crate::stream::Generator;

/// Smallest mean for which the normal lies below the Poisson distribution where it must.
pub const NORMAL_FROM: f64 = 10.0;

/// Says that the squeeze did not accept the normal variate; no count is as large.
pub const UNDECIDED: u32 = u32::MAX;

/// From `mean - 1.1484` on the Poisson distribution lies above the discrete normal.
const COVERED: f64 = 1.1484;

/// Draws a Poisson variate of a mean from 0 to `2^31 - 2^20`.
pub fn poisson(mean: f64, rng: &mut Generator) -> u32 {
    if mean < NORMAL_FROM {
        return invert(mean, rng);
    }
    let normal = rng.normal();
    let uniform = rng.unit();
    let count = squeeze(mean, normal, uniform);
    if count == UNDECIDED { correct(mean, normal, uniform, rng) } else { count }
}

/// The rounded normal variate if it is surely accepted, else `UNDECIDED`; without branches.
#[inline]
#[expect(clippy::needless_bitwise_bool, reason = "branches would keep it out of SIMD lanes")]
pub fn squeeze(mean: f64, normal: f64, uniform: f64) -> u32 {
    let drawn = mean + mean.sqrt() * normal;
    let count = drawn as i32;
    let below = mean - f64::from(count);
    let squeezed = 6.0 * mean * mean * uniform >= below * below * below;
    let accepted = (mean >= NORMAL_FROM) & (drawn >= 0.0) & ((below <= COVERED) | squeezed);
    if accepted { count as u32 } else { UNDECIDED }
}

/// Finishes what `squeeze` did not decide, for a mean of at least `NORMAL_FROM`.
#[cold]
pub fn correct(mean: f64, normal: f64, uniform: f64, rng: &mut Generator) -> u32 {
    let lacking = Lacking::new(mean);
    let drawn = mean + mean.sqrt() * normal;
    if drawn >= 0.0 {
        let count = drawn as u32;
        let [(poisson, px), (discrete, fx)] = lacking.terms(count);
        if discrete * (1.0 - uniform) <= poisson * (px - fx).exp() {
            return count;
        }
    }
    lacking.draw(rng)
}

/// Adds terms of the distribution until they exceed a uniform number.
fn invert(mean: f64, rng: &mut Generator) -> u32 {
    // beyond this the terms are below 1e-27 and no longer move a sum of 53 bits
    const LAST: u32 = 70;
    loop {
        let mut left = rng.unit();
        let mut term = (-mean).exp();
        for count in 0..LAST {
            if left < term {
                return count;
            }
            left -= term;
            term *= mean / f64::from(count + 1);
        }
    }
}

/// Poisson probability of a count of at least 5, as (factor, exponent), to 1e-6 of it at 5 and to
/// 1e-8 from 10 on, by Stirling's series of the factorial.
pub fn stirling(count: u32, mean: f64) -> (f64, f64) {
    let number = f64::from(count);
    let below = mean - number;
    let delta = 1.0 / (12.0 * number) - 1.0 / (360.0 * number * number * number);
    let exponent = number * (below / number).ln_1p() - below - delta;
    (1.0 / (TAU * number).sqrt(), exponent)
}

/// The part of the Poisson distribution that the discrete normal does not cover.
struct Lacking {
    mean: f64,
    sd: f64,
    /// The paper's factor of the discrete normal, its polynomial, and the constant `c` of its hat.
    omega: f64,
    coefficients: [f64; 4],
    hat: f64,
}

impl Lacking {
    fn new(mean: f64) -> Self {
        let sd = mean.sqrt();
        let b1 = 1.0 / (24.0 * mean);
        let b2 = 0.3 * b1 * b1;
        let c3 = b1 * b2 / 7.0;
        let c2 = b2 - 15.0 * c3;
        let c1 = b1 - 6.0 * b2 + 45.0 * c3;
        let c0 = 1.0 - b1 + 3.0 * b2 - 15.0 * c3;
        let omega = 1.0 / (TAU.sqrt() * sd);
        Self { mean, sd, omega, coefficients: [c0, c1, c2, c3], hat: 0.1069 / mean }
    }

    /// Poisson and discrete normal probability of a count, each as (factor, exponent).
    fn terms(&self, count: u32) -> [(f64, f64); 2] {
        let below = self.mean - f64::from(count);
        let poisson = if count < 10 {
            let factor = (1..=count).map(|i| self.mean / f64::from(i)).product();
            (factor, -self.mean)
        } else {
            stirling(count, self.mean)
        };
        let x = (0.5 - below) / self.sd;
        let square = x * x;
        let [c0, c1, c2, c3] = self.coefficients;
        let normal = self.omega * (((c3 * square + c2) * square + c1) * square + c0);
        [poisson, (normal, -0.5 * square)]
    }

    /// Draws from it by rejection from a double exponential around `mean + 1.8 sd`.
    fn draw(&self, rng: &mut Generator) -> u32 {
        loop {
            let exponential = rng.exponential();
            let signed = 2.0 * rng.unit() - 1.0;
            let t = 1.8 + exponential.copysign(signed);
            if t > -0.6744 {
                let count = (self.mean + self.sd * t) as u32;
                let [(poisson, px), (normal, fx)] = self.terms(count);
                let lacking =
                    poisson * (px + exponential).exp() - normal * (fx + exponential).exp();
                if self.hat * signed.abs() <= lacking {
                    return count;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact Poisson probability.
    fn probability(mean: f64, count: u32) -> f64 {
        ((1..=count).map(|i| (mean / f64::from(i)).ln()).sum::<f64>() - mean).exp()
    }

    /// Probability that a normal number of this mean and variance, rounded down, is the count.
    fn rounded_normal(mean: f64, count: u32) -> f64 {
        // Simpson's rule
        const STEPS: u32 = 64;
        let density = |i: u32| {
            let x = f64::from(count) + f64::from(i) / f64::from(STEPS) - mean;
            (-x * x / (2.0 * mean)).exp() / (TAU * mean).sqrt()
        };
        let weight = |i: u32| match i {
            0 | STEPS => 1.0,
            _ => 2.0 + 2.0 * f64::from(i % 2),
        };
        (0..=STEPS).map(|i| weight(i) * density(i)).sum::<f64>() / f64::from(3 * STEPS)
    }

    /// Means from the smallest on, with counts within five standard deviations.
    fn cases() -> impl Iterator<Item = (f64, u32)> {
        (0..60).flat_map(|i| {
            let mean = 10.0 * 1.08_f64.powi(i) + 0.013 * f64::from(i);
            let reach = 5.0 * mean.sqrt();
            let (low, high) = ((mean - reach).max(0.0) as u32, (mean + reach) as u32);
            (low..=high).map(move |count| (mean, count))
        })
    }

    #[test]
    fn both_probabilities_are_right() {
        for (mean, count) in cases() {
            let [(poisson, px), (normal, fx)] = Lacking::new(mean).terms(count);
            let (exact, rounded) = (probability(mean, count), rounded_normal(mean, count));
            assert!((poisson * px.exp() / exact - 1.0).abs() < 2e-8, "{count} at {mean}");
            // the paper's polynomial; its error matters in proportion to the probability
            assert!((normal * fx.exp() - rounded).abs() < 1e-7, "{count} at {mean}");
        }
    }

    #[test]
    fn what_is_accepted_at_once_is_covered() {
        for (mean, count) in cases() {
            let below = mean - f64::from(count);
            let refused = 1.0 - probability(mean, count) / rounded_normal(mean, count);
            let bound = if below <= COVERED { 0.0 } else { below.powi(3) / (6.0 * mean * mean) };
            assert!(refused <= bound + 1e-9, "{count} at {mean}: {refused} above {bound}");
        }
    }

    #[test]
    fn the_hat_covers_what_lacks() {
        for (mean, count) in cases() {
            let lacking = Lacking::new(mean);
            let missing = probability(mean, count) - rounded_normal(mean, count);
            // t in [first, last) gives the count; the hat is least at the end far from 1.8
            let [first, last] = [0.0, 1.0].map(|i| (f64::from(count) + i - mean) / lacking.sd);
            let far = (first - 1.8).abs().max((last - 1.8).abs());
            if first > -0.6744 {
                assert!(missing <= lacking.hat * (-far).exp() + 1e-12, "{count} at {mean}");
            } else if last <= -0.6744 {
                assert!(missing <= 1e-12, "{count} at {mean}");
            }
        }
    }
}
