//! What lines still need of the circuits if packets carry so many bytes of each.

use super::demand::HybridDemand;

/// What a line still needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// Bytes that packets cannot carry.
    pub bytes: u64,
    /// Fewest pairs that need a circuit: without the others, packets can carry the line.
    pub pairs: u64,
    /// Pairs of up to so many bytes are those others.
    pub small: u64,
}

impl Need {
    /// Time of circuits that the line needs at least.
    pub(super) fn load(&self, delay: u64) -> u64 {
        self.bytes + self.pairs * delay
    }
}

/// Needs of all lines, rows first; `room` is what packets carry of a line.
pub(super) fn needs(demand: &HybridDemand, left: &[u64], room: u64) -> Vec<Need> {
    (0..demand.lines()).map(|line| need(demand, left, room, line)).collect()
}

/// Need of one line.
pub(super) fn need(demand: &HybridDemand, left: &[u64], room: u64, line: usize) -> Need {
    let (rows, columns) = (demand.rows, demand.columns);
    let mut pairs: Vec<u64> = if line < rows {
        left[line * columns..(line + 1) * columns].to_vec()
    } else {
        left.iter().skip(line - rows).step_by(columns).copied().collect()
    };
    pairs.retain(|&bytes| bytes > 0);
    let sum: u64 = pairs.iter().sum();
    if sum <= room {
        return Need { small: u64::MAX, ..Need::default() };
    }
    pairs.sort_unstable();
    let mut packets = 0;
    let fits = |bytes: &&u64| {
        packets += **bytes;
        packets <= room
    };
    let fitting = pairs.iter().take_while(fits).count();
    // Equal pairs are alike: all may need a circuit if one does.
    let small = pairs[fitting] - 1;
    Need { bytes: sum - room, pairs: (pairs.len() - fitting) as u64, small }
}

#[cfg(test)]
mod tests {
    use super::super::demand::PortRates;
    use super::*;
    use lightloom_model::Rate;

    #[test]
    fn the_smallest_pairs_go_to_packets_as_far_as_they_fit() {
        let rates = PortRates { circuit: Rate(1), eps: Rate(1) };
        let bytes = [5, 0, 3, 9, 1, 0, 0, 0, 7, 7, 7, 7];
        let demand = HybridDemand::new(3, 4, &bytes, 10, rates).unwrap();
        let row = need(&demand, &bytes, 4, 0);
        assert_eq!(row, Need { bytes: 13, pairs: 2, small: 4 });
        assert_eq!(row.load(demand.delay), 33);
        // 1 byte fits exactly: nothing is needed
        assert_eq!(need(&demand, &bytes, 1, 1), Need { bytes: 0, pairs: 0, small: u64::MAX });
        // of four equal pairs not even one fits, or one does
        assert_eq!(need(&demand, &bytes, 6, 2), Need { bytes: 22, pairs: 4, small: 6 });
        assert_eq!(need(&demand, &bytes, 13, 2), Need { bytes: 15, pairs: 3, small: 6 });
        // column 0 is 5, 1, 7
        assert_eq!(need(&demand, &bytes, 6, 3), Need { bytes: 7, pairs: 1, small: 6 });
        assert_eq!(needs(&demand, &bytes, 4).len(), 7);
    }
}
