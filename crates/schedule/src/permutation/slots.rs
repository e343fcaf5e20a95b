//! What schedules are made of: slots (all-stop) or transfers (partial reconfiguration).

/// Matchings that are held one after another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Slots {
    /// Column that each row is joined to, or -1; slot after slot.
    pub matchings: Vec<i32>,
    /// Bytes that a port sends in each slot.
    pub holds: Vec<u64>,
}

/// One circuit of a schedule with partial reconfiguration, used once and for one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairTransfer {
    /// Source.
    pub row: u32,
    /// Destination.
    pub column: u32,
    /// When both ports are free and begin to turn, in bytes since the start; they send a delay
    /// later.
    pub start: u64,
    /// What is sent.
    pub bytes: u64,
}

impl PairTransfer {
    /// When its last byte is sent.
    pub fn end(&self, delay: u64) -> u64 {
        self.start.saturating_add(delay).saturating_add(self.bytes)
    }
}

/// The matchings of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Matchings {
    /// All ports stop while the crossbar changes.
    Slots(Slots),
    /// Only the ports of a new circuit stop; sorted by start.
    Transfers(Vec<PairTransfer>),
}

impl Matchings {
    /// Bytes that a port could send from start to end.
    pub fn length(&self, delay: u64) -> u64 {
        match self {
            Self::Slots(slots) => slots.length(delay),
            Self::Transfers(transfers) => {
                transfers.iter().map(|transfer| transfer.end(delay)).max().unwrap_or(0)
            }
        }
    }

    /// How often the crossbar is set: slots, or new circuits.
    pub fn configurations(&self) -> usize {
        match self {
            Self::Slots(slots) => slots.len(),
            Self::Transfers(transfers) => transfers.len(),
        }
    }
}

impl Slots {
    /// Number of slots.
    pub fn len(&self) -> usize {
        self.holds.len()
    }

    /// Bytes that a port could send from start to end.
    pub fn length(&self, delay: u64) -> u64 {
        // Saturating, because the checker is given schedules that others made.
        let slot = |length: u64, &hold: &u64| length.saturating_add(hold).saturating_add(delay);
        self.holds.iter().fold(0, slot)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty()
    }

    /// No slots yet, and room for so many of so many rows, and for more rows of the last one.
    pub(super) fn with_capacity(slots: usize, rows: usize, more: usize) -> Self {
        let matchings = Vec::with_capacity(slots * rows + more);
        Self { matchings, holds: Vec::with_capacity(slots) }
    }

    pub(super) fn push(&mut self, matching: &[i32], hold: u64) {
        self.matchings.extend_from_slice(matching);
        self.holds.push(hold);
    }

    /// The same of the first `rows` of a matching: what is copied has a fixed size.
    #[inline]
    pub(super) fn push_first<const L: usize>(
        &mut self,
        matching: &[i32; L],
        rows: usize,
        hold: u64,
    ) {
        let end = self.matchings.len() + rows;
        self.matchings.extend_from_slice(matching);
        self.matchings.truncate(end);
        self.holds.push(hold);
    }

    /// Adds slots for the same rows.
    pub(super) fn append(&mut self, others: &Self) {
        self.matchings.extend_from_slice(&others.matchings);
        self.holds.extend_from_slice(&others.holds);
    }

    /// What is sent between any two events; ports that turn are joined to nothing.
    ///
    /// Without delay these slots are as long as the transfers. With delay they show what the ports
    /// do, but are no all-stop schedule.
    pub fn of_transfers(rows: usize, transfers: &[PairTransfer], delay: u64) -> Self {
        // Ends before beginnings: a port may go from one transfer to the next.
        let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * transfers.len());
        for (index, transfer) in transfers.iter().enumerate() {
            events.push((transfer.start.saturating_add(delay), true, index));
            events.push((transfer.end(delay), false, index));
        }
        events.sort_unstable();
        let mut slots = Self::default();
        let mut matching = vec![-1; rows];
        let mut now = 0;
        for &(time, begins, index) in &events {
            if time > now {
                slots.push(&matching, time - now);
                now = time;
            }
            let transfer = &transfers[index];
            matching[transfer.row as usize] = if begins { transfer.column as i32 } else { -1 };
        }
        slots
    }
}
