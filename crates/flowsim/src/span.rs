//! How long bits take at a rate, in whole picoseconds.

use lightloom_model::units::PS_PER_S;

pub(crate) const PS: f64 = PS_PER_S as f64;
/// Rounding errors of bits left and of rates, relative to the time to send and absolute in ps,
/// within which a finish time counts as the whole picosecond that it nearly is.
pub(crate) const RELATIVE_SNAP: f64 = 1.0 / (1u64 << 42) as f64;
pub(crate) const ABSOLUTE_SNAP: f64 = 1.0 / 1024.0;

/// Picoseconds to send `bits` at `rate` (bits per second), rounded up; `None` for ever.
pub(crate) fn time_to_send(bits: f64, rate: f64) -> Option<u64> {
    if bits <= 0.0 {
        return Some(0);
    }
    let exact = bits * PS / rate;
    if exact >= u64::MAX as f64 / 2.0 {
        return None;
    }
    // Not `round` nor, below, `ceil`, which are calls on processors without SSE 4.1.
    let nearest = (exact + 0.5) as i64 as f64;
    if (exact - nearest).abs() > exact * RELATIVE_SNAP + ABSOLUTE_SNAP {
        return Some(nearest as u64 + u64::from(nearest < exact));
    }
    let whole = |number: f64| number.fract() == 0.0 && number < (1u64 << 53) as f64;
    if whole(bits) && whole(rate) {
        let bit_ps = u128::from(bits as u64) * u128::from(PS_PER_S);
        return Some(bit_ps.div_ceil(u128::from(rate as u64)) as u64);
    }
    Some(nearest as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightloom_model::{Bytes, Rate};
    use proptest::prelude::*;

    #[test]
    fn times_are_whole_picoseconds_rounded_up() {
        assert_eq!(time_to_send(8e9, 4e11), Some(20_000_000_000));
        assert_eq!(time_to_send(8.0, 3.2e12), Some(3));
        assert_eq!(time_to_send(0.0, 1.0), Some(0));
        assert_eq!(time_to_send(8e9, 4e11 / 3.0), Some(60_000_000_000));
        assert_eq!(time_to_send(8e9, 4e11 / 7.0), Some(140_000_000_000));
    }

    #[test]
    fn nothing_arrives_without_a_rate() {
        assert_eq!(time_to_send(8.0, 0.0), None);
        assert_eq!(time_to_send(0.0, 0.0), Some(0));
        assert_eq!(time_to_send(f64::INFINITY, 1.0), None);
    }

    proptest! {
        #[test]
        fn whole_rates_agree_with_integer_arithmetic(
            size in 1u64..1 << 40, rate in 1_000_000u64..4_000_000_000_000,
        ) {
            let expected = Rate(rate).transmission(Bytes(size)).0;
            prop_assert_eq!(time_to_send(size as f64 * 8.0, rate as f64), Some(expected));
        }
    }
}
