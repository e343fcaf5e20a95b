//! Counters of a run: per link, and in total.

use lightloom_model::Duration;

/// Events of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Data packets dropped at its queue.
    pub drops: u64,
    /// Data packets whose payload was trimmed.
    pub trims: u64,
    /// Data packets marked.
    pub marks: u64,
    /// Number of times PFC paused it.
    pub pauses: u64,
    /// Total time for which it was paused.
    pub paused: Duration,
    /// Control packets dropped.
    pub control_drops: u64,
}

impl std::ops::Add for LinkCounters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            drops: self.drops + other.drops,
            trims: self.trims + other.trims,
            marks: self.marks + other.marks,
            pauses: self.pauses + other.pauses,
            paused: self.paused + other.paused,
            control_drops: self.control_drops + other.control_drops,
        }
    }
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packet-hops of data with payload: one for each link that a packet leaves.
    pub data_hops: u64,
    /// Packet-hops of all other packets.
    pub control_hops: u64,
    /// Events.
    pub events: u64,
}

impl std::ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            data_hops: self.data_hops + other.data_hops,
            control_hops: self.control_hops + other.control_hops,
            events: self.events + other.events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn every_counter_adds_up() {
        let counters = LinkCounters {
            drops: 1,
            trims: 2,
            marks: 3,
            pauses: 4,
            paused: Duration(5),
            control_drops: 6,
        };
        let two = LinkCounters {
            drops: 2,
            trims: 4,
            marks: 6,
            pauses: 8,
            paused: Duration(10),
            control_drops: 12,
        };
        assert_eq!(counters + counters, two);
        assert_eq!(counters + LinkCounters::default(), counters);
    }
}
