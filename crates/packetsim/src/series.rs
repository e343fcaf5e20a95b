//! Series over time of every link and flow, in bounded memory.
//!
//! What neither moved nor waited in a period has no row for it. Where there are too many rows,
//! neighboring periods are merged and later ones last twice as long.

use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::report::{Carrier, Series, SeriesRow};
use crate::topology::PacketLinkId;
use lightloom_model::{Bytes, Duration, Time};
use std::collections::VecDeque;

/// Maximum number of periods: a run that does little has few rows, but is looked at in each.
const MAX_PERIODS: u32 = 10_000;
/// Maximum of the maximum number of rows: 32 bytes each.
const MAX_ROWS: usize = 100_000_000;

/// Keeps series of links and flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeriesSampling {
    /// Length of a period, to begin with.
    pub period: Duration,
    /// Maximum number of rows, unless links and flows are more in one period.
    pub max_rows: usize,
}

/// Takes the series.
#[derive(Debug)]
pub(crate) struct SeriesSampler {
    period: Duration,
    max_rows: usize,
    /// Number of periods that have ended.
    periods: u32,
    begin: Time,
    links: Vec<LinkState>,
    /// Flows that have not started, in the order of their starts.
    waiting: VecDeque<(Time, PacketFlowId)>,
    /// Those that are under way, and what their receivers had of them.
    open: Vec<(PacketFlowId, u64)>,
    rows: Vec<SeriesRow>,
}

/// A link when the current period began.
#[derive(Debug, Clone, Copy, Default)]
struct LinkState {
    /// Bytes that had come out of it.
    carried: u64,
    /// Bytes of data that waited for it.
    waiting: u64,
    /// Maximum of these until then.
    peak: u32,
}

impl SeriesSampler {
    /// Series of so many links, and of flows that start no sooner than at these times.
    pub(crate) fn new(
        sampling: SeriesSampling,
        links: usize,
        starts: impl Iterator<Item = Time>,
    ) -> Result<Self, PacketError> {
        let SeriesSampling { period, max_rows } = sampling;
        if period.0 == 0 || !(1..=MAX_ROWS).contains(&max_rows) {
            return Err(PacketError::invalid(format!(
                "series of periods of {} ps and at most {max_rows} rows; expected a period above 0 \
                 and 1 to {MAX_ROWS} rows",
                period.0
            )));
        }
        let mut waiting: Vec<_> = starts.zip((0..).map(PacketFlowId)).collect();
        waiting.sort_unstable();
        Ok(Self {
            period,
            max_rows,
            periods: 0,
            begin: Time::ZERO,
            links: vec![LinkState::default(); links],
            waiting: waiting.into(),
            open: Vec::new(),
            rows: Vec::new(),
        })
    }

    /// When the current period ends.
    pub(crate) fn next_sample(&self) -> Time {
        Time((u64::from(self.periods) + 1).saturating_mul(self.period.0))
    }

    /// Ends a period.
    pub(crate) fn sample(&mut self, simulation: &mut dyn AnySimulation) {
        if simulation.core().now() == self.begin {
            return;
        }
        let links: Vec<PacketLinkId> = simulation.core().topology().link_ids().collect();
        let peaks: Vec<u32> = links.iter().map(|&link| simulation.take_peak(link)).collect();
        let core = simulation.core();
        let arrivals = core.arrivals();
        for link in links {
            let (place, before) = (link.index(), self.links[link.index()]);
            let carried = core.carried_bytes(link, arrivals[place]);
            let peak = before.waiting.max(u64::from(peaks[place]));
            self.add(Carrier::Link(link), carried - before.carried, peak);
            let (waiting, peak) = (core.waiting_data(link), before.peak.max(peaks[place]));
            self.links[place] = LinkState { carried, waiting, peak };
        }
        self.sample_flows(core);
        self.begin = core.now();
        self.periods += 1;
        // Only whole periods of the next length, so that the current one is a whole one.
        while self.is_full() && self.periods.is_multiple_of(2) {
            self.merge();
        }
    }

    fn sample_flows(&mut self, core: &Core) {
        let now = core.now();
        let count = self.waiting.partition_point(|&(start, _)| start <= now);
        self.open.extend(self.waiting.drain(..count).map(|(_, flow)| (flow, 0)));
        self.open.sort_unstable();
        let mut open = std::mem::take(&mut self.open);
        open.retain_mut(|(flow, before)| {
            let received = core.received_bytes(*flow);
            self.add(Carrier::Flow(*flow), received - *before, 0);
            *before = received;
            core.flow(*flow).received < core.flow(*flow).packets
        });
        self.open = open;
    }

    fn add(&mut self, of: Carrier, bytes: u64, peak: u64) {
        if bytes > 0 || peak > 0 {
            let (bytes, peak_queue) = (Bytes(bytes), Bytes(peak));
            self.rows.push(SeriesRow { period: self.periods, of, bytes, peak_queue });
        }
    }

    fn is_full(&self) -> bool {
        self.periods > 1 && (self.rows.len() > self.max_rows || self.periods >= MAX_PERIODS)
    }

    /// Merges every two neighboring periods; later ones last twice as long.
    fn merge(&mut self) {
        for row in &mut self.rows {
            row.period /= 2;
        }
        self.rows.sort_by_key(|row| (row.period, row.of));
        self.rows.dedup_by(|late, early| {
            let is_same = (late.period, late.of) == (early.period, early.of);
            if is_same {
                early.bytes += late.bytes;
                early.peak_queue = early.peak_queue.max(late.peak_queue);
            }
            is_same
        });
        self.period += self.period;
        self.periods = self.periods.div_ceil(2);
    }

    /// All rows, the last period until now, and the longest queue of each link.
    pub(crate) fn finish(mut self, simulation: &mut dyn AnySimulation) -> (Series, Vec<u32>) {
        self.sample(simulation);
        while self.is_full() {
            self.merge();
        }
        let peaks = self.links.iter().map(|link| link.peak).collect();
        (Series { period: self.period, rows: self.rows }, peaks)
    }
}
