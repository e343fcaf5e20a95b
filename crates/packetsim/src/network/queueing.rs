//! What a queue does with a packet: admits, marks, trims or drops it.

use crate::config::{Config, Ecn, Marking, Overflow};
use crate::hash::mix;

/// The rules of all queues, and their random choices.
#[derive(Debug, Clone)]
pub(super) struct Queueing {
    /// Packets that meet more than this may be marked on arrival, or on departure.
    mark_on_arrival: u32,
    mark_on_departure: u32,
    ecn: Option<Ecn>,
    /// Maximum number of bytes in a data queue.
    data_limit: u32,
    /// The same of control packets, and of headers, in a control queue.
    control_limit: u32,
    header_limit: u32,
    header: u16,
    has_control_queue: bool,
    is_trimming: bool,
    /// State of the random choices.
    random: u64,
}

/// No limit.
const UNLIMITED: u32 = u32::MAX;

impl Queueing {
    pub(super) fn new(config: &Config) -> Self {
        let threshold = |marking| match config.ecn {
            Some(ecn) if ecn.marking == marking => ecn.min_bytes,
            _ => UNLIMITED,
        };
        // With PFC, switches pause links rather than drop packets.
        let is_lossless = config.pfc.is_some();
        let limit = |is_limited, bytes| if is_limited { bytes } else { UNLIMITED };
        let control_limit = config.control_queue_bytes;
        Self {
            mark_on_arrival: threshold(Marking::Arrival),
            mark_on_departure: threshold(Marking::Departure),
            ecn: config.ecn,
            data_limit: limit(!is_lossless, config.queue_bytes),
            control_limit: limit(!is_lossless && config.control_priority, control_limit),
            header_limit: control_limit,
            header: config.header as u16,
            has_control_queue: config.control_priority,
            is_trimming: config.overflow == Overflow::Trim,
            random: mix(config.seed ^ 0x7175_6575_6573),
        }
    }

    /// Whether a packet that finds this much queued may be marked.
    #[inline]
    pub(super) fn may_mark_arrival(&self, queued: u32) -> bool {
        queued > self.mark_on_arrival
    }

    /// Whether a packet that leaves a queue of this length, its own included, may be marked.
    #[inline]
    pub(super) fn may_mark_departure(&self, queued: u32) -> bool {
        queued > self.mark_on_departure
    }

    /// Whether data fits, or is queued though it does not.
    #[inline]
    pub(super) fn admits_data(&self, queued: u32, size: u32) -> bool {
        queued + size <= self.data_limit
    }

    /// Whether a control packet at a switch fits.
    #[inline]
    pub(super) fn admits_control(&self, queued: u32, size: u32) -> bool {
        queued + size <= self.control_limit
    }

    /// Whether the header of a trimmed packet fits.
    pub(super) fn admits_header(&self, queued: u32) -> bool {
        queued + u32::from(self.header) <= self.header_limit
    }

    /// Size of a trimmed packet, in bytes.
    pub(super) fn header(&self) -> u16 {
        self.header
    }

    /// Whether control packets have their own queue.
    #[inline]
    pub(super) fn has_control_queue(&self) -> bool {
        self.has_control_queue
    }

    /// Whether data that does not fit is trimmed.
    pub(super) fn is_trimming(&self) -> bool {
        self.is_trimming
    }

    /// Whether a data packet that may be marked is; perhaps drawn at random.
    pub(super) fn marks(&mut self, queued: u32) -> bool {
        let Some(ecn) = self.ecn else { return false };
        if queued > ecn.max_bytes {
            return true;
        }
        let span = f64::from(ecn.max_bytes - ecn.min_bytes);
        let probability = f64::from(queued - ecn.min_bytes) / span * ecn.probability;
        ((self.draw() >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Whether the last packet of a full queue is trimmed, not the one that finds it full.
    pub(super) fn trims_last(&mut self) -> bool {
        self.draw() & 1 == 1
    }

    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }
}
