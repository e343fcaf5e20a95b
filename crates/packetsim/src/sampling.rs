//! Queues and utilisation over time, in bounded memory.

use crate::core::Core;
use crate::error::PacketError;
use crate::report::{Sample, Samples};
use crate::scenario::Sampling;
use crate::topology::{LinkId, Topology};
use lightloom_model::{Bytes, Duration, Time};

/// Looks at all links in regular periods.
#[derive(Debug, Clone)]
pub(crate) struct Sampler {
    sampling: Sampling,
    period: u64,
    begin: u64,
    layers: Vec<Layer>,
    /// Bytes that had come out of each link by `begin`.
    carried: Vec<u64>,
    /// Per period one row for each layer.
    rows: Vec<Sample>,
}

/// The links of a layer.
#[derive(Debug, Clone)]
struct Layer {
    links: Vec<u32>,
    /// Bits per second, all together.
    rate: f64,
}

impl Sampler {
    pub(crate) fn new(sampling: Sampling, topology: &Topology) -> Result<Self, PacketError> {
        if sampling.every.0 == 0 || sampling.most < 2 {
            return Err(PacketError::invalid(format!(
                "samples every {} ps, at most {}; expected a period above 0 and at least 2 samples",
                sampling.every.0, sampling.most
            )));
        }
        let mut layers = vec![Layer { links: Vec::new(), rate: 0.0 }; topology.layers().len()];
        for (index, link) in topology.links().iter().enumerate() {
            let layer = &mut layers[usize::from(link.layer)];
            layer.links.push(index as u32);
            layer.rate += link.rate.0 as f64;
        }
        Ok(Self {
            sampling,
            period: sampling.every.0,
            begin: 0,
            layers,
            carried: vec![0; topology.links().len()],
            rows: Vec::new(),
        })
    }

    /// When to look next.
    pub(crate) fn next_look(&self) -> Time {
        Time(self.begin) + Duration(self.period)
    }

    /// Ends a period.
    pub(crate) fn look(&mut self, core: &Core) {
        let now = core.now();
        if now == self.begin {
            return;
        }
        if self.rows.len() / self.layers.len().max(1) >= self.sampling.most / 2 * 2 {
            self.merge();
        }
        let arrivals = core.arrivals();
        for layer in 0..self.layers.len() {
            let row = self.sample(core, layer, &arrivals);
            self.rows.push(row);
        }
        self.begin = now;
    }

    fn sample(&mut self, core: &Core, layer: usize, arrivals: &[u64]) -> Sample {
        let now = core.now();
        let seconds = Duration(now - self.begin).as_seconds();
        let Layer { links, rate } = &self.layers[layer];
        let first = LinkId(links[0]);
        let mut row = Sample {
            begin: Time(self.begin),
            end: Time(now),
            layer: layer as u8,
            carried: Bytes(0),
            mean_utilisation: 0.0,
            max_utilisation: 0.0,
            busiest: first,
            mean_queue_bytes: 0.0,
            max_queue: Bytes(0),
            longest: first,
        };
        let mut queued = 0;
        for &link in links {
            let id = LinkId(link);
            let before = &mut self.carried[link as usize];
            let until_now = core.carried_bytes(id, arrivals[link as usize]);
            let carried = until_now - std::mem::replace(before, until_now);
            row.carried += Bytes(carried);
            let possible = core.topology().links()[link as usize].rate.0 as f64 * seconds;
            let utilisation = (carried * 8) as f64 / possible;
            if utilisation > row.max_utilisation {
                (row.max_utilisation, row.busiest) = (utilisation, id);
            }
            let waiting = core.waiting_bytes(id);
            queued += waiting;
            if waiting > row.max_queue.0 {
                (row.max_queue, row.longest) = (Bytes(waiting), id);
            }
        }
        row.mean_utilisation = (row.carried.0 * 8) as f64 / (rate * seconds);
        row.mean_queue_bytes = queued as f64 / links.len() as f64;
        row
    }

    /// Joins every two neighbouring periods; later ones last twice as long.
    fn merge(&mut self) {
        let layers = self.layers.len();
        let pairs = self.rows.chunks_exact(2 * layers);
        debug_assert!(pairs.remainder().is_empty(), "an even number of periods is kept");
        let joined = pairs.flat_map(|pair| {
            let (early, late) = pair.split_at(layers);
            early.iter().zip(late).map(|(early, late)| join(early, late))
        });
        self.rows = joined.collect();
        self.period = self.period.saturating_mul(2);
    }

    /// All samples, the last one until now.
    pub(crate) fn samples(mut self, core: &Core) -> Samples {
        self.look(core);
        Samples {
            layers: core.topology().layers().to_vec(),
            period: Duration(self.period),
            rows: self.rows,
        }
    }
}

/// One period of two that follow one another.
fn join(early: &Sample, late: &Sample) -> Sample {
    let spans = [early, late].map(|row| row.end.since(row.begin).0 as f64);
    let mean =
        |values: [f64; 2]| (values[0] * spans[0] + values[1] * spans[1]) / (spans[0] + spans[1]);
    let busy = if late.max_utilisation > early.max_utilisation { late } else { early };
    let long = if late.max_queue > early.max_queue { late } else { early };
    Sample {
        begin: early.begin,
        end: late.end,
        layer: early.layer,
        carried: early.carried + late.carried,
        mean_utilisation: mean([early.mean_utilisation, late.mean_utilisation]),
        max_utilisation: busy.max_utilisation,
        busiest: busy.busiest,
        mean_queue_bytes: mean([early.mean_queue_bytes, late.mean_queue_bytes]),
        max_queue: long.max_queue,
        longest: long.longest,
    }
}
