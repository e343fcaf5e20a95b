//! Queues and utilization over time, in bounded memory.

use crate::error::PacketError;
use crate::network::core::Core;
use crate::report::{LayerSample, Samples};
use crate::topology::{PacketLinkId, Topology};
use lightloom_model::{Bytes, Duration, Time};

/// Maximum of the maximum number of periods: some hundred bytes each per layer.
const MAX_PERIODS: usize = 1_000_000;

/// Samples queues and links in regular periods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// Length of a period, to begin with.
    pub period: Duration,
    /// Maximum number of periods; beyond, neighbors are merged and the period doubles.
    pub max_periods: usize,
}

/// Takes the samples.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    sampling: Sampling,
    period: Duration,
    begin: Time,
    layers: Vec<Layer>,
    /// Bytes that had come out of each link by `begin`.
    carried: Vec<u64>,
    /// Per period one row for each layer.
    rows: Vec<LayerSample>,
}

/// The links of a layer.
#[derive(Debug, Clone)]
struct Layer {
    links: Vec<PacketLinkId>,
    /// Bits per second, all together.
    rate: f64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, topology: &Topology) -> Result<Self, PacketError> {
        if sampling.period.0 == 0 || !(2..=MAX_PERIODS).contains(&sampling.max_periods) {
            return Err(PacketError::invalid(format!(
                "samples every {} ps, at most {}; expected a period above 0 and 2 to {MAX_PERIODS} \
                 samples",
                sampling.period.0, sampling.max_periods
            )));
        }
        let mut layers = vec![Layer { links: Vec::new(), rate: 0.0 }; topology.layers().len()];
        for (index, link) in topology.links().iter().enumerate() {
            let layer = &mut layers[usize::from(link.layer)];
            layer.links.push(PacketLinkId(index as u32));
            layer.rate += link.rate.0 as f64;
        }
        Ok(Self {
            sampling,
            period: sampling.period,
            begin: Time::ZERO,
            layers,
            carried: vec![0; topology.links().len()],
            rows: Vec::new(),
        })
    }

    /// When the current period ends.
    pub(crate) fn next_sample(&self) -> Time {
        self.begin + self.period
    }

    /// Ends a period.
    pub(crate) fn sample(&mut self, core: &Core) {
        let now = core.now();
        if now == self.begin {
            return;
        }
        let arrivals = core.arrivals();
        for layer in 0..self.layers.len() {
            let row = self.sample_layer(core, layer, &arrivals);
            self.rows.push(row);
        }
        self.begin = now;
        // As soon as there are enough, so that the next period is a whole one of the new length.
        if self.rows.len() / self.layers.len().max(1) >= self.sampling.max_periods / 2 * 2 {
            self.merge();
        }
    }

    fn sample_layer(&mut self, core: &Core, layer: usize, arrivals: &[Time]) -> LayerSample {
        let now = core.now();
        let seconds = now.since(self.begin).as_seconds();
        let Layer { links, rate } = &self.layers[layer];
        let first = links[0];
        let mut row = LayerSample {
            begin: self.begin,
            end: now,
            layer: layer as u8,
            carried: Bytes(0),
            mean_utilization: 0.0,
            max_utilization: 0.0,
            busiest: first,
            mean_queue_bytes: 0.0,
            max_queue: Bytes(0),
            longest: first,
        };
        let mut queued = 0;
        for &link in links {
            let before = &mut self.carried[link.index()];
            let until_now = core.carried_bytes(link, arrivals[link.index()]);
            let carried = until_now - std::mem::replace(before, until_now);
            row.carried += Bytes(carried);
            let possible = core.topology().links()[link.index()].rate.0 as f64 * seconds;
            let utilization = (carried * 8) as f64 / possible;
            if utilization > row.max_utilization {
                (row.max_utilization, row.busiest) = (utilization, link);
            }
            let waiting = core.waiting_bytes(link);
            queued += waiting;
            if waiting > row.max_queue.0 {
                (row.max_queue, row.longest) = (Bytes(waiting), link);
            }
        }
        row.mean_utilization = (row.carried.0 * 8) as f64 / (rate * seconds);
        row.mean_queue_bytes = queued as f64 / links.len() as f64;
        row
    }

    /// Merges every two neighboring periods; later ones last twice as long.
    fn merge(&mut self) {
        let layers = self.layers.len();
        let pairs = self.rows.chunks_exact(2 * layers);
        debug_assert!(pairs.remainder().is_empty(), "an even number of periods is kept");
        let merged = pairs.flat_map(|pair| {
            let (early, late) = pair.split_at(layers);
            early.iter().zip(late).map(|(early, late)| merge(early, late))
        });
        self.rows = merged.collect();
        self.period += self.period;
    }

    /// All samples, the last one until now.
    pub(crate) fn samples(mut self, core: &Core) -> Samples {
        self.sample(core);
        Samples { layers: core.topology().layers().to_vec(), period: self.period, rows: self.rows }
    }
}

/// One period of two successive ones.
fn merge(early: &LayerSample, late: &LayerSample) -> LayerSample {
    let spans = [early, late].map(|row| row.end.since(row.begin).0 as f64);
    let mean =
        |values: [f64; 2]| (values[0] * spans[0] + values[1] * spans[1]) / (spans[0] + spans[1]);
    let busy = if late.max_utilization > early.max_utilization { late } else { early };
    let long = if late.max_queue > early.max_queue { late } else { early };
    LayerSample {
        begin: early.begin,
        end: late.end,
        layer: early.layer,
        carried: early.carried + late.carried,
        mean_utilization: mean([early.mean_utilization, late.mean_utilization]),
        max_utilization: busy.max_utilization,
        busiest: busy.busiest,
        mean_queue_bytes: mean([early.mean_queue_bytes, late.mean_queue_bytes]),
        max_queue: long.max_queue,
        longest: long.longest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    fn sample(span: [u64; 2], carried: u64, utilization: [f64; 2], queue: [f64; 2]) -> LayerSample {
        LayerSample {
            begin: Time(span[0]),
            end: Time(span[1]),
            layer: 3,
            carried: Bytes(carried),
            mean_utilization: utilization[0],
            max_utilization: utilization[1],
            busiest: PacketLinkId(span[0] as u32),
            mean_queue_bytes: queue[0],
            max_queue: Bytes(queue[1] as u64),
            longest: PacketLinkId(span[1] as u32),
        }
    }

    #[test]
    fn merged_periods_add_bytes_weigh_means_by_time_and_keep_maxima() {
        let early = sample([0, 100], 50, [0.2, 0.9], [10.0, 70.0]);
        let late = sample([100, 400], 30, [0.6, 0.8], [50.0, 90.0]);
        let merged = merge(&early, &late);
        assert_eq!((merged.begin, merged.end, merged.layer), (Time(0), Time(400), 3));
        assert_eq!(merged.carried, Bytes(80));
        assert!((merged.mean_utilization - 0.5).abs() < 1e-12);
        assert!((merged.mean_queue_bytes - 40.0).abs() < 1e-12);
        // The busiest link is that of the early period, the longest queue that of the late one.
        assert!((merged.max_utilization - 0.9).abs() < 1e-12 && merged.busiest == PacketLinkId(0));
        assert_eq!((merged.max_queue, merged.longest), (Bytes(90), PacketLinkId(400)));
    }

    #[test]
    fn of_equal_maxima_the_earlier_link_is_named() {
        let rows = [0, 100].map(|begin| sample([begin, begin + 100], 1, [0.5, 0.7], [1.0, 9.0]));
        let merged = merge(&rows[0], &rows[1]);
        assert_eq!((merged.busiest, merged.longest), (PacketLinkId(0), PacketLinkId(100)));
    }
}
