//! What holds for all packets, queues and paths of a run.
//!
//! The header of a trimmed packet continues with priority (Handley et al., SIGCOMM 2017). In half
//! of the cases the last packet of the queue is cut instead, so that packets in lock step share the
//! loss. Marking on departure is earlier news by the time in the queue.

use crate::error::PacketError;
use crate::packet::HIGHEST_PRIORITY;
use lightloom_model::{Duration, by_name, choices};
use serde::{Deserialize, Serialize};

choices! {
    /// What happens to a data packet that finds its queue full.
    pub enum Overflow: "overflow" {
        Drop = "drop": "It is dropped",
        Trim = "trim": "Its payload is cut off, or that of the last one in the queue, at random",
    }
}

choices! {
    /// When a queue decides whether to mark a packet.
    pub enum Marking: "marking" {
        Arrival = "arrival": "On arrival, this packet not counted",
        Departure = "departure": "When it begins to be sent after it waited, this packet counted",
    }
}

/// Marking by queue length: never below `min_bytes`, always above `max_bytes`, in between with a
/// probability that grows linearly to `probability`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecn {
    /// Kmin; bytes of data in the queue.
    pub min_bytes: u32,
    /// Kmax.
    pub max_bytes: u32,
    /// Pmax.
    pub probability: f64,
    /// When.
    #[serde(with = "by_name")]
    pub marking: Marking,
}

/// Random early drops (RED, Floyd and Jacobson 1993, on the present queue): data that finds more
/// than a share of the queue taken is treated as if the queue were full, with a probability that
/// grows linearly to `probability` where it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlyDrop {
    /// Share of the queue.
    pub share: f64,
    /// Probability where the queue is full.
    pub probability: f64,
}

/// A buffer that all ports of a switch share, in place of a limit for each: a queue holds at most
/// `alpha` times what is free (Choudhury and Hahne 1998).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedBuffer {
    /// Data that all ports of a switch queue together.
    pub bytes: u32,
    /// Factor.
    pub alpha: f64,
}

/// Priority flow control (IEEE 802.1Qbb), per ingress link of a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pfc {
    /// The sender is paused once more than this is buffered of what came over a link.
    pub pause_bytes: u32,
    /// It goes on once less than this is left.
    pub resume_bytes: u32,
}

/// How a packet's path is chosen among equal ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathChoice {
    /// One path per flow, by hash.
    Ecmp,
    /// Each packet on one of so many paths of its flow, in an order that the transport chooses.
    Spray(u16),
}

choices! {
    /// How switches choose among the links of equal paths.
    pub enum Balancing: "routing" {
        Hash = "ecmp": "By a hash: a path per flow, or per packet where the transport sprays",
        Adaptive = "adaptive": "Each packet to the link that could send it first",
        Flowlets = "flowlet": "As adaptive, but for packets that follow closely on those before",
        Valiant = "valiant": "In a dragonfly, over the group of a host at random",
        UgalLocal = "ugal-l": "So where the queues at the first switch speak for it",
        UgalGlobal = "ugal-g": "So where the queues on the way out of the group do",
    }
}

/// Sizes, queues, paths. What the run decides is no part of the serialized form, where a word
/// stands for its packets (`mtu_bytes`) or its queues (`size_bytes`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "independent properties of a network")]
pub struct Config {
    /// Payload of a full packet, in bytes.
    #[serde(rename = "mtu_bytes")]
    pub mtu: u32,
    /// Header of a data packet, in bytes; a trimmed packet is this long.
    #[serde(rename = "header_bytes")]
    pub header: u32,
    /// Whether the last packet of a flow is as long as the others on the wire.
    pub full_tail: bool,
    /// Size of acknowledgements and other control packets, in bytes.
    pub control_bytes: u32,
    /// Whether control packets have a separate queue, served first.
    pub control_priority: bool,
    /// Data that a switch port queues, in bytes.
    #[serde(rename = "size_bytes")]
    pub queue_bytes: u32,
    /// Control packets that it queues, in bytes.
    #[serde(rename = "control_size_bytes")]
    pub control_queue_bytes: u32,
    /// What happens to more data.
    #[serde(with = "by_name")]
    pub overflow: Overflow,
    /// Drops before the queue is full.
    pub early_drop: Option<EarlyDrop>,
    /// Marking.
    pub ecn: Option<Ecn>,
    /// Lossless queues.
    pub pfc: Option<Pfc>,
    /// Whether switches write into data packets what they know of the links over which they send
    /// them, and receivers echo it: in-band telemetry (INT).
    #[serde(skip)]
    pub telemetry: bool,
    /// Whether links may fail during the run, so that even lossless networks lose packets.
    #[serde(skip)]
    pub links_fail: bool,
    /// The highest priority of a flow, up to [`HIGHEST_PRIORITY`]: each has queues of its own,
    /// with limits, marks and pauses as here, and higher ones are served first.
    #[serde(skip)]
    pub highest_priority: u8,
    /// Paths.
    pub paths: PathChoice,
    /// How switches choose among them.
    #[serde(rename = "routing", with = "by_name")]
    pub balancing: Balancing,
    /// With flowlets: from this time after a packet on, the next one may take another path.
    #[serde(rename = "flowlet_gap_ps")]
    pub flowlet_gap: Duration,
    /// Time without an arrival after which a NIC that sprays packets takes a plane for failed,
    /// where links may fail; `None`: two round trips and what a full queue takes.
    #[serde(rename = "plane_silence_ps", default)]
    pub plane_silence: Option<Duration>,
    /// Buffers that ports share.
    #[serde(default)]
    pub shared_buffer: Option<SharedBuffer>,
    /// Probability that a packet is lost on a link, whichever it is and whatever it carries.
    #[serde(default)]
    pub loss: f64,
    /// Seed of all random choices.
    pub seed: u64,
}

impl Config {
    /// Packets of 4,096 B and headers and control packets of 64 B; queues without end.
    pub const ENDLESS: Self = Self {
        mtu: 4096,
        header: 64,
        full_tail: true,
        control_bytes: 64,
        control_priority: false,
        queue_bytes: u32::MAX,
        control_queue_bytes: u32::MAX,
        overflow: Overflow::Drop,
        early_drop: None,
        ecn: None,
        pfc: None,
        telemetry: false,
        links_fail: false,
        highest_priority: 0,
        paths: PathChoice::Ecmp,
        balancing: Balancing::Hash,
        flowlet_gap: Duration(50_000_000),
        plane_silence: None,
        shared_buffer: None,
        loss: 0.0,
        seed: 1,
    };

    /// Bytes of a full packet on the wire.
    pub const fn packet_bytes(&self) -> u32 {
        self.mtu + self.header
    }

    /// Whether packets may take other than shortest paths.
    pub(crate) fn has_detours(&self) -> bool {
        use Balancing::{UgalGlobal, UgalLocal, Valiant};
        matches!(self.balancing, Valiant | UgalLocal | UgalGlobal)
    }

    /// What of queues differs from those of another configuration, if anything does.
    pub(crate) fn queue_difference(&self, other: &Self) -> Option<&'static str> {
        let trims = self.overflow == Overflow::Trim;
        let differs = [
            (self.queue_bytes != other.queue_bytes, "size_bytes"),
            (self.control_queue_bytes != other.control_queue_bytes, "control_size_bytes"),
            (self.control_priority != other.control_priority, "control_priority"),
            (self.overflow != other.overflow, "overflow"),
            (self.early_drop != other.early_drop, "early_drop"),
            (self.ecn != other.ecn, "ecn"),
            (self.pfc != other.pfc, "pfc"),
            (trims && self.header != other.header, "header_bytes"),
        ];
        differs.into_iter().find_map(|(differs, what)| differs.then_some(what))
    }

    /// These settings of packets, queues and paths of a class of traffic, on a network that has
    /// others.
    pub(crate) fn on_network_of(self, other: &Self) -> Self {
        Self {
            links_fail: other.links_fail,
            highest_priority: other.highest_priority,
            balancing: other.balancing,
            flowlet_gap: other.flowlet_gap,
            plane_silence: other.plane_silence,
            shared_buffer: other.shared_buffer,
            loss: other.loss,
            seed: other.seed,
            ..self
        }
    }

    /// Checks sizes and thresholds.
    ///
    /// # Errors
    /// Says which value is wrong and what was expected.
    pub fn validate(&self) -> Result<(), PacketError> {
        let wrong = |text: String| Err(PacketError::invalid(text));
        let packet = u64::from(self.mtu) + u64::from(self.header);
        if self.mtu == 0 || packet > u64::from(u16::MAX) {
            return wrong(format!(
                "mtu {} B and header {} B make packets of {packet} B; expected an MTU above 0 and \
                 packets of at most 65,535 B",
                self.mtu, self.header
            ));
        }
        if self.control_bytes == 0 || self.control_bytes > 1 << 15 {
            return wrong(format!(
                "control packets of {} B; expected 1 to 32,768 B",
                self.control_bytes
            ));
        }
        if self.header == 0 && self.overflow == Overflow::Trim {
            return wrong("packets are trimmed to headers of 0 B; expected at least 1".into());
        }
        if packet > u64::from(self.queue_bytes) {
            return wrong(format!(
                "packets of {packet} B do not fit a queue of {} B; enlarge the queue or make the \
                 MTU smaller",
                self.queue_bytes
            ));
        }
        if self.control_bytes.max(self.header) > self.control_queue_bytes {
            return wrong(format!(
                "control packets of {} B do not fit a control queue of {} B",
                self.control_bytes.max(self.header),
                self.control_queue_bytes
            ));
        }
        if let Some(ecn) = self.ecn {
            let probable = ecn.probability > 0.0 && ecn.probability <= 1.0;
            if ecn.min_bytes > ecn.max_bytes || !probable {
                return wrong(format!(
                    "ECN marks from {} to {} B with probability {}; expected Kmin <= Kmax and 0 < \
                     Pmax <= 1",
                    ecn.min_bytes, ecn.max_bytes, ecn.probability
                ));
            }
        }
        self.check_early_drop()?;
        self.check_shared_buffer()?;
        if !(0.0..1.0).contains(&self.loss) {
            return wrong(format!("a loss of {}; expected at least 0 and below 1", self.loss));
        }
        if let Some(pfc) = self.pfc
            && (pfc.resume_bytes > pfc.pause_bytes || pfc.pause_bytes == 0 || pfc.resume_bytes == 0)
        {
            return wrong(format!(
                "PFC pauses above {} B and resumes below {} B; expected 0 < resume <= pause",
                pfc.pause_bytes, pfc.resume_bytes
            ));
        }
        if self.highest_priority > HIGHEST_PRIORITY {
            return wrong(format!(
                "priorities up to {}; expected at most {HIGHEST_PRIORITY}",
                self.highest_priority
            ));
        }
        if self.plane_silence == Some(Duration::ZERO) {
            return wrong("planes are silent after 0 us; expected more".into());
        }
        if self.paths == PathChoice::Spray(0) {
            return wrong("packets are sprayed over 0 paths; expected at least 1".into());
        }
        Ok(())
    }

    fn check_shared_buffer(&self) -> Result<(), PacketError> {
        let Some(SharedBuffer { bytes, alpha }) = self.shared_buffer else { return Ok(()) };
        let least = f64::from(self.packet_bytes()) * (1.0 + 1.0 / alpha);
        if alpha.is_nan() || alpha <= 0.0 || f64::from(bytes) < least {
            return Err(PacketError::invalid(format!(
                "a shared buffer of {bytes} B with alpha {alpha}; expected alpha above 0 and room \
                 for a packet, {least:.0} B"
            )));
        }
        if self.pfc.is_some() || self.early_drop.is_some() {
            return Err(PacketError::invalid(
                "a shared buffer, and PFC or early drops, which have limits of their own; turn one \
                 of them off",
            ));
        }
        Ok(())
    }

    fn check_early_drop(&self) -> Result<(), PacketError> {
        let Some(EarlyDrop { share, probability }) = self.early_drop else {
            return Ok(());
        };
        let is_probable = probability > 0.0 && probability <= 1.0;
        if !(0.0..1.0).contains(&share) || !is_probable {
            return Err(PacketError::invalid(format!(
                "early drops from {share} of the queue on with probability {probability}; expected \
                 0 <= share < 1 and 0 < probability <= 1"
            )));
        }
        if self.pfc.is_some() {
            return Err(PacketError::invalid(
                "early drops, and PFC, with which nothing is dropped; turn one of them off",
            ));
        }
        Ok(())
    }
}
