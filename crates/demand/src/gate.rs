//! The least informative gate with given expert loads: how likely a token reaches each member.
//!
//! A token draws one of all sets of `top_k` experts, within `slots` of the groups of node-limited
//! routing, with probability proportional to the product of its experts' weights, the weights such
//! that every expert is chosen as often as it is to be. This is conditional Poisson sampling (Chen,
//! Dempster and Liu, Biometrika 81, 1994).
//!
//! Experts fall into *blocks*, the finest pieces that lie in one member and one group. Coefficient
//! `j` of a block's polynomial sums the weights of its sets of `j` experts; products of such
//! polynomials, truncated after `top_k`, count sets over several blocks. Only positive numbers are
//! added, so that nothing cancels. Several rows are computed side by side.

use lightloom_model::Invalid;
use rayon::prelude::*;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::array::from_fn;
use std::ops::Range;

/// Rows that start from the weights of their mean.
const ROWS: usize = 512;

/// Passes that fit the weights, and the error of the experts' chances that ends them.
const PASSES: usize = 60;
const PRECISION: f64 = 1e-4;

/// Groups x slots x experts of a token; some 1 GB.
const MAX_TERMS: usize = 1 << 24;

/// Rows side by side.
const LANES: usize = 4;

/// What takes the place of a divisor that is 0.
const TINY: f64 = 1e-300;

/// One number of each of several rows.
type Lanes = [f64; LANES];

/// Experts, the members and groups that share them, and how tokens choose.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields)]
pub struct Gate {
    /// Experts of a layer.
    experts: usize,
    /// Members, of as many consecutive experts each.
    members: usize,
    /// Groups of consecutive experts.
    groups: usize,
    /// Groups that a token may choose from.
    slots: usize,
    /// Experts of a token.
    top_k: usize,
}

/// Numbers that do not fit each other are refused.
impl<'de> Deserialize<'de> for Gate {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let gate = Self::deserialize(source)?;
        gate.validate().map_err(D::Error::custom)?;
        Ok(gate)
    }
}

/// Ways to choose elsewhere while a group takes a slot, for each group, and all ways there are.
struct Outside {
    rests: Polynomials,
    total: Lanes,
}

/// Polynomials of the same number of terms, one after the other.
#[derive(Clone)]
struct Polynomials {
    terms: usize,
    values: Vec<Lanes>,
}

impl Polynomials {
    fn zeros(count: usize, terms: usize) -> Self {
        Self { terms, values: vec![[0.0; LANES]; count * terms] }
    }

    /// All of them are 1.
    fn ones(count: usize, terms: usize) -> Self {
        let mut ones = Self::zeros(count, terms);
        ones.values.iter_mut().step_by(terms).for_each(|first| *first = [1.0; LANES]);
        ones
    }

    fn at(&self, index: usize) -> &[Lanes] {
        &self.values[index * self.terms..][..self.terms]
    }

    fn at_mut(&mut self, index: usize) -> &mut [Lanes] {
        &mut self.values[index * self.terms..][..self.terms]
    }

    /// The products of the first 0, 1, 2, ... of some of these, in the order of `indices`.
    fn running(&self, indices: impl ExactSizeIterator<Item = usize>) -> Self {
        let mut products = Self::zeros(indices.len() + 1, self.terms);
        products.values[0] = [1.0; LANES];
        for (place, index) in indices.enumerate() {
            let (done, next) = products.values.split_at_mut((place + 1) * self.terms);
            add_product(&done[place * self.terms..], self.at(index), next);
        }
        products
    }
}

impl Gate {
    /// Experts of a layer.
    pub fn experts(&self) -> usize {
        self.experts
    }

    /// Members, of as many consecutive experts each.
    pub fn members(&self) -> usize {
        self.members
    }

    fn validate(&self) -> Result<(), Invalid> {
        let Self { experts, members, groups, slots, top_k } = *self;
        let divides = |parts: usize| parts > 0 && experts.is_multiple_of(parts);
        if experts == 0 || experts > 1 << 16 || !divides(members) || !divides(groups) {
            return Err(Invalid(format!(
                "{experts} experts do not divide over {members} members and {groups} groups, or \
                 exceed 65,536"
            )));
        }
        let room = (experts / groups).saturating_mul(slots);
        let is_small =
            |terms: usize| groups.saturating_mul(slots).saturating_mul(terms) <= MAX_TERMS;
        if slots == 0 || slots > groups || top_k == 0 || top_k > room || !is_small(top_k) {
            return Err(Invalid(format!(
                "{top_k} experts of {slots} of {groups} groups: expected at most {room}, and a \
                 product of at most {MAX_TERMS}"
            )));
        }
        Ok(())
    }

    /// The probability that a token reaches each member, `(rows, members)`.
    ///
    /// `rows` holds the probability of each expert to be chosen, `(rows, experts)`.
    pub fn reached(&self, rows: &[f64]) -> Vec<f64> {
        rows.chunks(ROWS * self.experts).flat_map(|chunk| self.reached_together(chunk)).collect()
    }

    fn reached_together(&self, rows: &[f64]) -> Vec<f64> {
        let count = (rows.len() / self.experts) as f64;
        let clipped = |row: usize, expert: usize| rows[row * self.experts + expert].clamp(0.0, 1.0);
        let all = 0..rows.len() / self.experts;
        let sum = |expert| all.clone().map(|row| clipped(row, expert)).sum::<f64>();
        let mean: Vec<Lanes> = (0..self.experts).map(|one| [sum(one) / count; LANES]).collect();
        let odds_of_mean: Vec<Lanes> = mean.iter().map(|one| one.map(odds)).collect();
        // weights do not depend on members, and few blocks are fast
        let by_group = Self { members: self.groups, ..*self };
        // rows resemble each other: their weights start from those of their mean
        let start = by_group.fit(&mean, odds_of_mean.clone());
        let reach = |first: usize| {
            let width = LANES.min(all.end - first);
            let lane = |lane: usize| first + lane.min(width - 1);
            let chance: Vec<Lanes> =
                (0..self.experts).map(|expert| from_fn(|l| clipped(lane(l), expert))).collect();
            let mut weights = start.clone();
            for ((weight, own), mean) in weights.iter_mut().zip(&chance).zip(&odds_of_mean) {
                *weight = from_fn(|l| weight[l] * ratio(odds(own[l]), mean[l]));
            }
            let reach = self.reach(&self.sets(&by_group.fit(&chance, weights)));
            (0..width).flat_map(move |l| reach.clone().into_iter().map(move |one| one[l]))
        };
        let firsts: Vec<usize> = all.clone().step_by(LANES).collect();
        let parts: Vec<Vec<f64>> =
            firsts.into_par_iter().map(|first| reach(first).collect()).collect();
        parts.concat()
    }

    /// Weights of experts with the wanted chances.
    fn fit(&self, chance: &[Lanes], mut weights: Vec<Lanes>) -> Vec<Lanes> {
        let mut fitted = weights.clone();
        let mut is_going = [true; LANES];
        for _ in 0..PASSES {
            // a common factor cancels; without it products of weights could leave the floats
            let largest: Lanes =
                from_fn(|l| weights.iter().fold(TINY, |before: f64, one| before.max(one[l])));
            for (weight, kept) in weights.iter_mut().zip(&mut fitted) {
                *weight = from_fn(|l| weight[l] / largest[l]);
                *kept = from_fn(|l| if is_going[l] { weight[l] } else { kept[l] });
            }
            let (found, damping) = self.chances(&weights, &self.sets(&weights));
            let pairs = found.iter().zip(chance);
            let is_far = |l: usize| pairs.clone().any(|(a, b)| (a[l] - b[l]).abs() > PRECISION);
            is_going = from_fn(|l| is_going[l] && is_far(l));
            if is_going == [false; LANES] {
                break;
            }
            self.correct(&mut weights, &pairs, &damping);
        }
        fitted
    }

    /// Moves weights towards the wanted chances.
    ///
    /// Without groups by wanted over found odds: exact but for the dependence between experts. With
    /// groups by wanted over found chances, damped where that moves a group as a whole.
    fn correct<'a>(
        &self,
        weights: &mut [Lanes],
        pairs: &(impl Iterator<Item = (&'a Lanes, &'a Lanes)> + Clone),
        damping: &[Lanes],
    ) {
        let each = self.experts / self.groups;
        for (group, weights) in weights.chunks_exact_mut(each).enumerate() {
            let of_group = pairs.clone().skip(group * each).take(each);
            let sums = of_group.clone().fold([[0.0; LANES]; 2], |[found, wanted], (a, b)| {
                [from_fn(|l| found[l] + a[l]), from_fn(|l| wanted[l] + b[l])]
            });
            let damped: Lanes =
                from_fn(|l| ratio(sums[1][l], sums[0][l]).powf(damping[group][l] - 1.0));
            for (weight, (reached, wanted)) in weights.iter_mut().zip(of_group) {
                *weight = from_fn(|l| {
                    let factor = if self.groups == 1 {
                        ratio(odds(wanted[l]), odds(reached[l]))
                    } else {
                        ratio(wanted[l], reached[l]) * damped[l]
                    };
                    weight[l] * factor.clamp(1e-3, 1e3)
                });
            }
        }
    }

    fn terms(&self) -> usize {
        self.top_k + 1
    }

    /// Experts of a block.
    fn width(&self) -> usize {
        let (mut a, mut b) = (self.experts / self.members, self.experts / self.groups);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    }

    fn blocks(&self) -> usize {
        self.experts / self.width()
    }

    /// The blocks of a group.
    fn blocks_of_group(&self, group: usize) -> Range<usize> {
        let each = self.blocks() / self.groups;
        group * each..(group + 1) * each
    }

    /// The polynomials of the blocks.
    fn sets(&self, weights: &[Lanes]) -> Polynomials {
        let mut sets = Polynomials::ones(self.blocks(), self.terms());
        for (block, weights) in weights.chunks_exact(self.width()).enumerate() {
            for (expert, weight) in weights.iter().enumerate() {
                add_expert(sets.at_mut(block), expert, weight);
            }
        }
        sets
    }

    /// How often each expert is chosen, and a damping per group.
    ///
    /// The damping is the mean over the variance of a group's copies, at most 1: the inverse of how
    /// strongly their mean follows a common factor of the group's weights.
    fn chances(&self, weights: &[Lanes], sets: &Polynomials) -> (Vec<Lanes>, Vec<Lanes>) {
        let Outside { rests, total } = self.outside_groups(sets);
        let terms = self.terms();
        let mut damping = Vec::with_capacity(self.groups);
        let mut chances = Vec::with_capacity(self.experts);
        let mut work = vec![[0.0; LANES]; terms];
        let mut outside = vec![[0.0; LANES]; terms];
        let mut prefixes = Polynomials::zeros(self.width() + 1, terms);
        for group in 0..self.groups {
            let (blocks, rest) = (self.blocks_of_group(group), rests.at(group));
            let before = sets.running(blocks.clone());
            let after = sets.running(blocks.clone().rev());
            for (place, block) in blocks.clone().enumerate() {
                work.fill([0.0; LANES]);
                add_product(before.at(place), after.at(blocks.len() - 1 - place), &mut work);
                outside.fill([0.0; LANES]);
                add_product(&work, rest, &mut outside);
                let weights_here = &weights[block * self.width()..][..self.width()];
                add_derivative(weights_here, &mut outside, &mut prefixes, &mut chances);
            }
            damping.push(damping_of(before.at(blocks.len()), rest, &total));
        }
        for chance in &mut chances {
            *chance = from_fn(|l| chance[l] / total[l]);
        }
        (chances, damping)
    }

    fn outside_groups(&self, sets: &Polynomials) -> Outside {
        let terms = self.terms();
        let mut full = Polynomials::zeros(self.groups, terms);
        for group in 0..self.groups {
            let blocks = self.blocks_of_group(group);
            let count = blocks.len();
            full.at_mut(group).copy_from_slice(sets.running(blocks).at(count));
        }
        // by slots taken
        let mut start = Polynomials::zeros(self.slots + 1, terms);
        start.values[0] = [1.0; LANES];
        let (mut before, mut after) = (vec![start.clone()], vec![start]);
        for group in 0..self.groups - 1 {
            before.push(touched(&before[group], full.at(group)));
            after.push(touched(&after[group], full.at(self.groups - 1 - group)));
        }
        let mut rests = Polynomials::zeros(self.groups, terms);
        let mut product = vec![[0.0; LANES]; terms];
        for group in 0..self.groups {
            let mut within = after[self.groups - 1 - group].clone();
            for index in terms..within.values.len() {
                let sum = within.values[index - terms];
                within.values[index] = from_fn(|l| sum[l] + within.values[index][l]);
            }
            for chosen in 0..self.slots.min(group + 1) {
                product.fill([0.0; LANES]);
                add_product(
                    before[group].at(chosen),
                    within.at(self.slots - 1 - chosen),
                    &mut product,
                );
                for (sum, term) in rests.at_mut(group).iter_mut().zip(&product) {
                    *sum = from_fn(|l| sum[l] + term[l]);
                }
            }
        }
        let all = touched(&before[self.groups - 1], full.at(self.groups - 1));
        let total = (0..=self.slots).fold([0.0; LANES], |sum: Lanes, taken| {
            from_fn(|l| sum[l] + all.at(taken)[self.top_k][l])
        });
        Outside { rests, total: total.map(|one| one.max(TINY)) }
    }

    /// The probability that a token has an expert in each member.
    fn reach(&self, sets: &Polynomials) -> Vec<Lanes> {
        let Outside { rests, total } = self.outside_groups(sets);
        let (per_member, per_group) = (self.blocks() / self.members, self.blocks() / self.groups);
        let mut kept = vec![[0.0; LANES]; self.terms()];
        let reach = |member: usize| {
            let (first, last) = (member * per_member, (member + 1) * per_member - 1);
            let group = first / per_group;
            let inside = self.blocks_of_group(group);
            if last >= inside.end {
                let mut without = sets.clone();
                for block in first..=last {
                    without.at_mut(block)[1..].fill([0.0; LANES]);
                }
                let lost = self.outside_groups(&without).total;
                return from_fn(|l| 1.0 - lost[l] / total[l]);
            }
            let before = sets.running(inside.clone());
            let after = sets.running(inside.clone().rev());
            kept.fill([0.0; LANES]);
            add_product(
                before.at(first - inside.start),
                after.at(inside.end - 1 - last),
                &mut kept,
            );
            // what is lost without the member: choices that touch its group, and it
            let pairs = before.at(inside.len()).iter().zip(&kept).zip(rests.at(group).iter().rev());
            let lost = pairs.fold([0.0; LANES], |lost: Lanes, ((all, kept), rest)| {
                from_fn(|l| lost[l] + (all[l] - kept[l]) * rest[l])
            });
            from_fn(|l| lost[l] / total[l])
        };
        (0..self.members).map(reach).collect()
    }
}

/// Adds the product of two polynomials, truncated to as many terms.
fn add_product(left: &[Lanes], right: &[Lanes], sum: &mut [Lanes]) {
    let terms = right.len();
    for (j, right) in right.iter().enumerate() {
        for (sum, left) in sum[j..terms].iter_mut().zip(left) {
            *sum = from_fn(|l| sum[l] + left[l] * right[l]);
        }
    }
}

/// Takes one more expert into the polynomial of a block that has so many.
fn add_expert(sets: &mut [Lanes], experts: usize, weight: &Lanes) {
    for j in (1..sets.len().min(experts + 2)).rev() {
        let fewer = sets[j - 1];
        sets[j] = from_fn(|l| sets[j][l] + weight[l] * fewer[l]);
    }
}

/// Adds a group by slots taken: untouched, or with one more taken.
fn touched(state: &Polynomials, group: &[Lanes]) -> Polynomials {
    let mut result = state.clone();
    let terms = state.terms;
    for slot in 1..state.values.len() / terms {
        for (j, own) in group.iter().enumerate().skip(1) {
            for (sum, left) in result.at_mut(slot)[j..].iter_mut().zip(state.at(slot - 1)) {
                *sum = from_fn(|l| sum[l] + left[l] * own[l]);
            }
        }
    }
    result
}

/// Appends the weight of all choices that hold each expert of a block.
///
/// That is the derivative of the total by the log of its weight, backwards through the product that
/// makes the block's polynomial. `outside` are the choices outside of the block.
fn add_derivative(
    weights: &[Lanes],
    outside: &mut [Lanes],
    prefixes: &mut Polynomials,
    chances: &mut Vec<Lanes>,
) {
    let terms = outside.len();
    prefixes.at_mut(0).fill([0.0; LANES]);
    prefixes.values[0] = [1.0; LANES];
    for (expert, weight) in weights.iter().enumerate() {
        let (done, next) = prefixes.values.split_at_mut((expert + 1) * terms);
        next[..terms].copy_from_slice(&done[expert * terms..]);
        add_expert(&mut next[..terms], terms, weight);
    }
    let adjoint = outside;
    adjoint.reverse();
    let first = chances.len();
    chances.resize(first + weights.len(), [0.0; LANES]);
    for (expert, weight) in weights.iter().enumerate().rev() {
        let pairs = adjoint[1..].iter().zip(prefixes.at(expert));
        let slope =
            pairs.fold([0.0; LANES], |slope: Lanes, (a, b)| from_fn(|l| slope[l] + a[l] * b[l]));
        chances[first + expert] = from_fn(|l| weight[l] * slope[l]);
        for j in 0..terms - 1 {
            let next = adjoint[j + 1];
            adjoint[j] = from_fn(|l| adjoint[j][l] + weight[l] * next[l]);
        }
    }
}

fn damping_of(inside: &[Lanes], rest: &[Lanes], total: &Lanes) -> Lanes {
    let copies = inside.iter().zip(rest.iter().rev());
    let copies = copies.map(|(a, b)| -> Lanes { from_fn(|l| a[l] * b[l] / total[l]) });
    let (mut mean, mut square) = ([0.0; LANES], [0.0; LANES]);
    for (count, share) in copies.enumerate() {
        let count = count as f64;
        mean = from_fn(|l| mean[l] + count * share[l]);
        square = from_fn(|l| square[l] + count * count * share[l]);
    }
    from_fn(|l| {
        let variance = square[l] - mean[l] * mean[l];
        (mean[l] / variance.max(TINY)).clamp(0.0, 1.0)
    })
}

/// The quotient of what may be zero.
fn ratio(wanted: f64, found: f64) -> f64 {
    wanted.max(TINY) / found.max(TINY)
}

/// The odds of a chance; certainty counts as almost certain.
fn odds(chance: f64) -> f64 {
    chance / (1.0 - chance).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chances of experts and of members by enumeration of all sets, for given weights.
    fn enumerated(gate: &Gate, weights: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (mut total, mut experts) = (0.0, vec![0.0; gate.experts]);
        let mut members = vec![0.0; gate.members];
        for set in 0_u32..1 << gate.experts {
            let chosen: Vec<usize> = (0..gate.experts).filter(|one| set >> one & 1 == 1).collect();
            let parts = |of: usize| {
                let mut parts: Vec<usize> =
                    chosen.iter().map(|one| one * of / gate.experts).collect();
                parts.dedup();
                parts
            };
            if chosen.len() != gate.top_k || parts(gate.groups).len() > gate.slots {
                continue;
            }
            let weight: f64 = chosen.iter().map(|&one| weights[one]).product();
            total += weight;
            for &one in &chosen {
                experts[one] += weight;
            }
            for one in parts(gate.members) {
                members[one] += weight;
            }
        }
        let share = |sums: Vec<f64>| sums.into_iter().map(|sum| sum / total).collect();
        (share(experts), share(members))
    }

    const GATES: [Gate; 4] = [
        Gate { experts: 12, members: 4, groups: 1, slots: 1, top_k: 3 },
        Gate { experts: 12, members: 4, groups: 4, slots: 2, top_k: 3 },
        Gate { experts: 12, members: 2, groups: 3, slots: 2, top_k: 4 },
        Gate { experts: 12, members: 6, groups: 3, slots: 2, top_k: 2 },
    ];

    #[test]
    fn members_are_reached_as_often_as_all_sets_say() {
        for gate in GATES {
            // five rows: more than fit side by side
            let rows: Vec<(Vec<f64>, Vec<f64>)> = (0..5)
                .map(|row| {
                    let weight = |one| 1.0 + f64::from((one * 7 + row * 5) % 11) / 10.0;
                    enumerated(&gate, &(0..12).map(weight).collect::<Vec<f64>>())
                })
                .collect();
            let chances: Vec<f64> = rows.iter().flat_map(|(experts, _)| experts.clone()).collect();
            let expected: Vec<f64> = rows.into_iter().flat_map(|(_, members)| members).collect();
            let reached = gate.reached(&chances);
            assert_eq!(reached.len(), expected.len());
            for (reached, expected) in reached.iter().zip(&expected) {
                assert!((reached - expected).abs() < 2e-3, "{gate:?}: {reached} for {expected}");
            }
        }
    }

    /// Each of the rows side by side is fitted to its end, wherever it stands: the even one, whose
    /// weights are right at once, ends no other.
    #[test]
    fn rows_in_another_order_are_reached_as_often() {
        for gate in GATES {
            let row = |skew: i32| {
                let weight = |one: i32| f64::from(1 + skew * (one * 7 % 11));
                enumerated(&gate, &(0..12).map(weight).collect::<Vec<f64>>()).0
            };
            let rows = [0, 1, 2, 8].map(row);
            let forwards = gate.reached(&rows.concat());
            let back: Vec<f64> = rows.into_iter().rev().flatten().collect();
            let backwards = gate.reached(&back);
            let again = backwards.chunks(gate.members).rev().flatten();
            for (found, expected) in again.zip(&forwards) {
                assert!((found - expected).abs() < 1e-6, "{gate:?}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn equal_chances_are_hypergeometric() {
        let gate = Gate { experts: 256, members: 8, groups: 1, slots: 1, top_k: 8 };
        let missed: f64 = (0..8).map(|one| f64::from(224 - one) / f64::from(256 - one)).product();
        for found in gate.reached(&[8.0 / 256.0; 256]) {
            assert!((found - (1.0 - missed)).abs() < 1e-9, "{found}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        let fits = GATES[1];
        assert!(fits.validate().is_ok());
        for wrong in [
            Gate { experts: 0, ..fits },
            Gate { members: 5, ..fits },
            Gate { groups: 0, ..fits },
            Gate { slots: 5, ..fits },
            Gate { slots: 0, ..fits },
            Gate { top_k: 7, ..fits },
            Gate { top_k: 0, ..fits },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
        assert!(fits.reached(&[]).is_empty());
    }
}
