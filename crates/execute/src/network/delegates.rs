//! Delegates: the GPUs through which bytes of a server reach the NICs of a path.
//!
//! G is the GPUs of a worker, s the bytes that leave over k NICs. They are spread evenly over the k
//! GPUs that own these NICs, `s / k` each. Where a worker is one EP rank, tensor parallelism has
//! cut every message into G equal parts, so a delegate holds `s / G` of it already and receives
//! `s / k (1 - k / G)`; where ranks share the worker, a byte is on the delegate by chance only, so
//! it receives `s / k (1 - 1 / G)`. Where workers share all NICs of their server, delegates may be
//! GPUs of others and hold nothing of it: `s / k`.

use super::placement::Placement;

/// What of the bytes that leave over its NIC a delegate holds already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DelegateHolds {
    /// The delegate may be a GPU of another worker.
    Nothing,
    /// A byte is on its delegate by chance.
    ByChance,
    /// Each GPU holds an equal part of the worker's bytes, and sends as much as it can of it.
    EqualPart,
}

impl DelegateHolds {
    /// Of workers whose GPUs hold equal parts, or parts by chance, of their bytes.
    pub(crate) fn new(placement: &Placement, are_equal: bool) -> Self {
        match are_equal {
            _ if placement.shares_nics() => Self::Nothing,
            true => Self::EqualPart,
            false => Self::ByChance,
        }
    }
}

/// Bytes that a delegate receives (or sends) when `bytes` of a worker of so many GPUs are spread
/// over `nics` of them.
pub(crate) fn delegate_share(bytes: u64, nics: u32, gpus: u32, held: DelegateHolds) -> u64 {
    let (nics, gpus) = (u128::from(nics), u128::from(gpus));
    let own = match held {
        DelegateHolds::Nothing => 0,
        DelegateHolds::ByChance => 1,
        DelegateHolds::EqualPart => nics.min(gpus),
    };
    // s / k (1 - own / G), rounded up
    (u128::from(bytes) * (gpus - own)).div_ceil(nics * gpus) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delegate_holds_a_part_already() {
        // One rank of 8 GPUs: each GPU holds an eighth of every message.
        assert_eq!(delegate_share(800, 8, 8, DelegateHolds::EqualPart), 0);
        assert_eq!(delegate_share(800, 2, 8, DelegateHolds::EqualPart), 300);
        assert_eq!(delegate_share(800, 1, 8, DelegateHolds::EqualPart), 700);
        // Eight ranks of one GPU each: a byte is on its delegate by chance.
        assert_eq!(delegate_share(800, 8, 8, DelegateHolds::ByChance), 88);
        assert_eq!(delegate_share(800, 1, 8, DelegateHolds::ByChance), 700);
        // Delegates of other workers hold nothing, whatever the worker's GPUs do.
        assert_eq!(delegate_share(800, 8, 4, DelegateHolds::Nothing), 100);
    }

    #[test]
    fn more_nics_than_gpus_need_no_copies_and_rounding_is_upwards() {
        assert_eq!(delegate_share(800, 16, 8, DelegateHolds::EqualPart), 0);
        assert_eq!(delegate_share(1, 2, 8, DelegateHolds::EqualPart), 1);
        assert_eq!(delegate_share(0, 2, 8, DelegateHolds::EqualPart), 0);
    }
}
