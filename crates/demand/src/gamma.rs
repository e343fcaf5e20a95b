//! Exact gamma variates, a row of different shapes at a time.
//!
//! Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000:
//! with `d = shape - 1/3`, `c = 1 / sqrt(9 d)` and a standard normal `x`, `d v` is accepted with
//! the probability `exp(x^2 / 2 + d (1 - v + ln v))`, where `v = (1 + c x)^3`. Shapes below 1 draw
//! at `shape + 1` and multiply by `U^(1 / shape)`.
//!
//! The squeeze is tighter than the paper's for large shapes, so that it decides 999 of 1000 cases
//! at shape 40: with `y = c x`, the exponent is `f(y) / (9 c^2) - y^4 / (12 c^2)` where the
//! derivative of `f` is `3 y^4 / (1 + y)` and `f(0) = 0`. So `f(y) >= 0` for `y >= 0` and
//! `f(y) >= -1.2 |y|^5` for `y >= -1/2`; and the exponential exceeds 1 plus its exponent.

use crate::stream::Generator;

/// Says that the squeeze did not decide; no gamma variate is negative.
const UNDECIDED: f64 = -1.0;

/// Shapes of the gamma variates of one row, prepared for drawing.
#[derive(Debug)]
pub struct Gammas {
    /// `shape - 1/3`, of the shape plus one if it is below one.
    d: Vec<f64>,
    /// `1 / sqrt(9 d)`
    c: Vec<f64>,
    /// `1 / shape` of shapes below one, 0 of others; empty if there is none.
    boost: Vec<f64>,
    /// All shapes are one, up to rounding.
    exponential: bool,
    /// Position of the largest shape.
    largest: usize,
}

impl Gammas {
    /// Prepares shapes of at least 0, not all of them 0.
    pub fn new(shapes: &[f64]) -> Self {
        let d: Vec<f64> = shapes
            .iter()
            .map(|shape| if *shape < 1.0 { shape + 2.0 / 3.0 } else { shape - 1.0 / 3.0 })
            .collect();
        let c = d.iter().map(|d| 1.0 / (9.0 * d).sqrt()).collect();
        let mut boost = Vec::new();
        if shapes.iter().any(|shape| *shape < 1.0) {
            boost.extend(shapes.iter().map(|shape| if *shape < 1.0 { 1.0 / shape } else { 0.0 }));
        }
        let exponential = shapes.iter().all(|shape| (shape - 1.0).abs() <= f64::EPSILON);
        let (largest, _) = shapes.iter().enumerate().fold((0, 0.0), |best, (place, shape)| {
            if *shape > best.1 { (place, *shape) } else { best }
        });
        Self { d, c, boost, exponential, largest }
    }

    /// Number of variates in a row.
    pub fn len(&self) -> usize {
        self.d.len()
    }

    /// Whether the row has no variates.
    pub fn is_empty(&self) -> bool {
        self.d.is_empty()
    }

    /// Draws a row into `values`, at least one of them positive; returns the sum.
    ///
    /// `normals` and `uniforms` are scratch; all slices have the length of the row.
    pub fn draw(
        &self,
        values: &mut [f64],
        normals: &mut [f64],
        uniforms: &mut [f64],
        rng: &mut Generator,
    ) -> f64 {
        if self.exponential {
            rng.fill(values, Generator::exponential);
        } else {
            rng.fill(normals, Generator::normal);
            rng.fill(uniforms, Generator::unit);
            self.squeeze(values, normals, uniforms);
            for (place, value) in values.iter_mut().enumerate() {
                if *value < 0.0 {
                    *value = self.decide(place, normals[place], uniforms[place], rng);
                }
            }
        }
        for (value, boost) in values.iter_mut().zip(&self.boost) {
            if *boost > 0.0 {
                *value *= (-rng.exponential() * boost).exp();
            }
        }
        let total: f64 = values.iter().sum();
        if total > 0.0 {
            return total;
        }
        // every variate is too small for a float: the largest shape is then the likeliest to lead
        values[self.largest] = 1.0;
        1.0
    }

    /// Variates that the squeeze accepts, `UNDECIDED` elsewhere; without branches.
    #[expect(clippy::needless_bitwise_bool, reason = "a branch would keep it out of SIMD lanes")]
    fn squeeze(&self, values: &mut [f64], normals: &[f64], uniforms: &[f64]) {
        let draws = self.d.iter().zip(&self.c).zip(normals.iter().zip(uniforms));
        for (value, ((d, c), (x, uniform))) in values.iter_mut().zip(draws) {
            let y = c * x;
            let fourth = y * y * x * x;
            let refusal = fourth * (1.0 + 1.6 * y.abs()) / 12.0;
            let root = 1.0 + y;
            let accepted = (y > -0.5) & (*uniform < 1.0 - refusal);
            *value = if accepted { d * root * root * root } else { UNDECIDED };
        }
    }

    #[cold]
    fn decide(&self, place: usize, normal: f64, uniform: f64, rng: &mut Generator) -> f64 {
        let (d, c) = (self.d[place], self.c[place]);
        let (mut x, mut uniform) = (normal, uniform);
        loop {
            let root = 1.0 + c * x;
            if root > 0.0 {
                let cube = root * root * root;
                // 0 < 1 - uniform <= 1, with the squeeze's sense: small numbers are accepted
                if uniform < (0.5 * x * x + d * (1.0 - cube + cube.ln())).exp() {
                    return d * cube;
                }
            }
            x = rng.normal();
            uniform = rng.unit();
        }
    }
}
