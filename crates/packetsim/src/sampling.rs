//! Queues and utilization over time, in bounded memory.

use crate::error::PacketError;
use crate::network::core::Core;
use crate::report::{Sample, Samples};
use crate::topology::{LinkId, Topology};
use lightloom_model::{Bytes, Duration, Time};

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
    rows: Vec<Sample>,
}

/// The links of a layer.
#[derive(Debug, Clone)]
struct Layer {
    links: Vec<LinkId>,
    /// Bits per second, all together.
    rate: f64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, topology: &Topology) -> Result<Self, PacketError> {
        if sampling.period.0 == 0 || sampling.max_periods < 2 {
            return Err(PacketError::invalid(format!(
                "samples every {} ps, at most {}; expected a period above 0 and at least 2 samples",
                sampling.period.0, sampling.max_periods
            )));
        }
        let mut layers = vec![Layer { links: Vec::new(), rate: 0.0 }; topology.layers().len()];
        for (index, link) in topology.links().iter().enumerate() {
            let layer = &mut layers[usize::from(link.layer)];
            layer.links.push(LinkId(index as u32));
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
        if self.rows.len() / self.layers.len().max(1) >= self.sampling.max_periods / 2 * 2 {
            self.merge();
        }
        let arrivals = core.arrivals();
        for layer in 0..self.layers.len() {
            let row = self.sample_layer(core, layer, &arrivals);
            self.rows.push(row);
        }
        self.begin = now;
    }

    fn sample_layer(&mut self, core: &Core, layer: usize, arrivals: &[Time]) -> Sample {
        let now = core.now();
        let seconds = now.since(self.begin).as_seconds();
        let Layer { links, rate } = &self.layers[layer];
        let first = links[0];
        let mut row = Sample {
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
fn merge(early: &Sample, late: &Sample) -> Sample {
    let spans = [early, late].map(|row| row.end.since(row.begin).0 as f64);
    let mean =
        |values: [f64; 2]| (values[0] * spans[0] + values[1] * spans[1]) / (spans[0] + spans[1]);
    let busy = if late.max_utilization > early.max_utilization { late } else { early };
    let long = if late.max_queue > early.max_queue { late } else { early };
    Sample {
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
