//! Transports by name, each with the parameters and the network of its reference.
//!
//! A transport is added in three places of this file: a variant of [`TransportKind`] with its
//! parameters, its profile, and a line of `TransportKind::simulation`.

use crate::config::{Balancing, Config, EarlyDrop, Ecn, Marking, Overflow, PathChoice, Pfc};
use crate::error::PacketError;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::network::engine::Simulation;
use crate::network::halves::Halves;
use crate::network::pair::Pair;
use crate::topology::Topology;
use crate::transport::Transport;
use crate::transport::dcqcn::{Dcqcn, DcqcnParameters};
use crate::transport::dctcp::{Dctcp, DctcpParameters};
use crate::transport::eqds::{Eqds, EqdsParameters};
use crate::transport::hpcc::{Hpcc, HpccParameters};
use crate::transport::line_rate::{LineRate, TIMEOUT};
use crate::transport::mptcp::{Mptcp, MptcpParameters};
use crate::transport::ndp::{Ndp, NdpParameters};
use crate::transport::nscc::{Nscc, NsccParameters};
use crate::transport::rccc::{Rccc, RcccParameters};
use crate::transport::swift::{Swift, SwiftParameters};
use lightloom_model::{Duration, Invalid, Rate, choices};

/// A transport and its parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TransportKind {
    /// Line rate over endless buffers, for closed forms.
    Ideal,
    /// RoCE with PFC and without congestion control.
    Roce,
    /// A window that follows the share of marked packets.
    Dctcp(DctcpParameters),
    /// Coupled windows of subflows on several paths.
    Mptcp(MptcpParameters),
    /// Rates that congestion notifications cut, over RoCE.
    Dcqcn(DcqcnParameters),
    /// Windows from what switches write into packets, over RoCE.
    Hpcc(HpccParameters),
    /// Windows that keep round trips near a target.
    Swift(SwiftParameters),
    /// Pulls by the receiver, over switches that cut payloads off.
    Ndp(NdpParameters),
    /// Windows by delay and marks, over such switches.
    Nscc(NsccParameters),
    /// Credit from the receiver, over such switches.
    Eqds(EqdsParameters),
    /// The same as Ultra Ethernet has it.
    Rccc(RcccParameters),
}

choices! {
    /// The transports that [`profile`] knows.
    pub enum TransportName: "transport" {
        Ideal = "ideal": "Sends at line rate into endless queues: hash collisions alone",
        Roce = "roce": "Sends at line rate over a lossless network (PFC)",
        Dctcp = "dctcp": "A window that follows the share of marked packets",
        Mptcp = "mptcp": "Subflows on several paths, with windows that are coupled (LIA)",
        Dcqcn = "dcqcn": "Rates that congestion notifications cut, over a lossless network",
        Hpcc = "hpcc": "Windows that switches' telemetry (INT) sets, over a lossless network",
        Swift = "swift": "Windows that keep the delay of packets near a target",
        Ndp = "ndp": "Pulls by the receiver, over switches that trim packets",
        Eqds = "eqds": "Credit from the receiver, over switches that trim packets",
        Nscc = "uet-nscc": "Ultra Ethernet: windows by delay and marks, over such switches",
        Rccc = "uet-rccc": "Ultra Ethernet: credit from the receiver, over such switches",
    }
}

/// The transport of this name, with the network for which its reference configures it. Where the
/// reference has thresholds and rates that grow with those of the links, they are for NICs of
/// `rate`.
///
/// # Errors
/// If there is none of this name; says which there are.
pub fn profile(name: &str, rate: Rate) -> Result<(Config, TransportKind), PacketError> {
    let name: TransportName = name.parse().map_err(|Invalid(text)| PacketError::Invalid(text))?;
    Ok(match name {
        TransportName::Ideal => (ENDLESS, TransportKind::Ideal),
        TransportName::Roce => (ROCE, TransportKind::Roce),
        TransportName::Dctcp => (DCTCP, TransportKind::Dctcp(DctcpParameters::default())),
        TransportName::Mptcp => (MPTCP, TransportKind::Mptcp(MptcpParameters::default())),
        TransportName::Dcqcn => {
            (dcqcn_network(rate), TransportKind::Dcqcn(DcqcnParameters::of_rate(rate)))
        }
        TransportName::Hpcc => {
            (hpcc_network(rate), TransportKind::Hpcc(HpccParameters::of_rate(rate)))
        }
        TransportName::Swift => (SWIFT, TransportKind::Swift(SwiftParameters::default())),
        TransportName::Ndp => (trimming(true), TransportKind::Ndp(NdpParameters::default())),
        TransportName::Eqds => (trimming(false), TransportKind::Eqds(EqdsParameters::default())),
        TransportName::Nscc => (uet_network(rate), TransportKind::Nscc(NsccParameters::default())),
        TransportName::Rccc => (uet_network(rate), TransportKind::Rccc(RcccParameters::default())),
    })
}

/// Packets of 4,096 B and headers and control packets of 64 B; queues without end.
const ENDLESS: Config = Config {
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
    paths: PathChoice::Ecmp,
    balancing: Balancing::Hash,
    flowlet_gap: Duration(50_000_000),
    seed: 1,
};

/// `htsim_roce` of csg-htsim: pauses from 15 packets on, goes on below 12.
const ROCE: Config =
    Config { pfc: Some(Pfc { pause_bytes: 15 * 4096, resume_bytes: 12 * 4096 }), ..ENDLESS };

/// ffsim-opera, the simulator of TopoOpt and MixNet: full packets of 8,936 B, marks from the 51st
/// on when a packet departs, acknowledgements that take no room. The published runs of MixNet give
/// it queues of 10,000 packets (`-q 10000`) with the one being sent, which ours do not hold.
const DCTCP: Config = Config {
    mtu: 8936,
    header: 0,
    control_bytes: 1,
    control_priority: true,
    queue_bytes: 9_999 * 8936,
    ecn: Some(Ecn {
        marking: Marking::Departure,
        min_bytes: 50 * 8936,
        max_bytes: 50 * 8936,
        probability: 1.0,
    }),
    ..ENDLESS
};

/// Jumbo frames and acknowledgements among data. Queues of 100 packets as in csg-htsim, which drops
/// a tenth of what meets the last three places; here the share grows from 0 at half of the queue
/// (RED). Without it, in the lock step of simulated time, which flow a full queue drops is decided
/// by phases: one that adds packets loses, and another never does.
const MPTCP: Config = Config {
    mtu: 8936,
    queue_bytes: 100 * 9000,
    early_drop: Some(EarlyDrop { share: 0.5, probability: 0.1 }),
    ..ENDLESS
};

/// The ns-3 model of HPCC (Li et al., SIGCOMM 2019). For each 25 Gb/s, marks from 100 kB on with a
/// probability that rises to 0.2 at 400 kB, on departure. Its buffer of 8 MB for each 25 Gb/s
/// pauses an input that holds an eighth of what is free: here, of the whole buffer.
/// Acknowledgements have priority.
fn dcqcn_network(rate: Rate) -> Config {
    let bytes = |per_25_gbps: u64| {
        let bytes = u128::from(rate.0) * u128::from(per_25_gbps) / 25_000_000_000;
        u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
    };
    Config {
        full_tail: false,
        control_priority: true,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: bytes(100_000),
            max_bytes: bytes(400_000),
            probability: 0.2,
        }),
        pfc: Some(Pfc {
            pause_bytes: bytes(1_000_000),
            resume_bytes: bytes(1_000_000).saturating_sub(3 * 1024).max(1),
        }),
        ..ENDLESS
    }
}

/// As [`dcqcn_network`], with the telemetry of up to five switches (2 B, and 8 B each) in headers
/// instead of marks.
fn hpcc_network(rate: Rate) -> Config {
    let network = dcqcn_network(rate);
    Config { header: network.header + 2 + 5 * 8, ecn: None, telemetry: true, ..network }
}

/// Queues of 1,000 packets, which Swift does not fill. Acknowledgements wait among data, as in
/// csg-htsim: Swift measures both ways.
const SWIFT: Config = Config { queue_bytes: 1_000 * ENDLESS.packet_bytes(), ..ENDLESS };

/// `htsim_ndp` and `htsim_eqds` of csg-htsim: sprays over 128 paths, queues of 35 packets, in NDP
/// without their headers. They hold the packet that is being sent, too; ours do not.
fn trimming(is_ndp: bool) -> Config {
    let packet = ENDLESS.packet_bytes();
    let queue = 35 * if is_ndp { ENDLESS.mtu } else { packet };
    Config {
        full_tail: is_ndp,
        control_priority: true,
        queue_bytes: queue - packet,
        control_queue_bytes: 2 * queue,
        overflow: Overflow::Trim,
        paths: PathChoice::Spray(128),
        ..ENDLESS
    }
}

/// As [`trimming`], with what `htsim_uec` sets for a three-tier tree of links of 1 us: queues of
/// what such a round trip takes, marks from a fifth of that on, more and more up to four fifths.
/// Of 64 paths.
fn uet_network(rate: Rate) -> Config {
    let network = trimming(false);
    let packet = network.packet_bytes();
    let sent = u128::from(rate.0) * 12 / 8_000_000;
    let bytes = sent + u128::from(6 * (packet + network.control_bytes));
    // Below 4 GB.
    let packets = bytes.div_ceil(u128::from(packet)).clamp(2, 60_000) as u32;
    let whole = |fifths: u32| (packets * fifths).div_ceil(5) * packet;
    let queue = whole(5);
    Config {
        queue_bytes: queue - packet,
        control_queue_bytes: 2 * queue,
        ecn: Some(Ecn {
            marking: Marking::Departure,
            min_bytes: whole(1),
            max_bytes: whole(4),
            probability: 1.0,
        }),
        paths: PathChoice::Spray(64),
        ..network
    }
}

impl TransportKind {
    /// Its name.
    pub fn name(self) -> TransportName {
        match self {
            Self::Ideal => TransportName::Ideal,
            Self::Roce => TransportName::Roce,
            Self::Dctcp(_) => TransportName::Dctcp,
            Self::Mptcp(_) => TransportName::Mptcp,
            Self::Dcqcn(_) => TransportName::Dcqcn,
            Self::Hpcc(_) => TransportName::Hpcc,
            Self::Swift(_) => TransportName::Swift,
            Self::Ndp(_) => TransportName::Ndp,
            Self::Eqds(_) => TransportName::Eqds,
            Self::Nscc(_) => TransportName::Nscc,
            Self::Rccc(_) => TransportName::Rccc,
        }
    }

    /// An idle network with this transport.
    ///
    /// # Errors
    /// If the configuration makes no sense.
    pub fn simulation(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        self.build(topology, config, None)
    }

    /// As [`Self::simulation`], by two threads with the same results, for flows without explicit
    /// routes. What it records of packet events is not put together.
    ///
    /// # Errors
    /// If the network cannot be divided into two halves.
    pub fn simulation_in_halves(
        self,
        topology: Topology,
        config: Config,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        let halves = Halves::of(&topology);
        let halves = halves.map_err(|why| PacketError::invalid(format!("no two halves: {why}")))?;
        self.build(topology, config, Some(halves))
    }

    /// A network in one piece or in two halves.
    pub(crate) fn build(
        self,
        topology: Topology,
        config: Config,
        halves: Option<Halves>,
    ) -> Result<Box<dyn AnySimulation>, PacketError> {
        match self {
            Self::Ideal | Self::Roce => boxed(topology, config, halves, LineRate::new),
            Self::Dctcp(parameters) => {
                parameters.validate()?;
                let dctcp = |core: &Core| Dctcp::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, dctcp)
            }
            Self::Mptcp(parameters) => {
                parameters.validate()?;
                let mptcp = |core: &Core| Mptcp::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, mptcp)
            }
            Self::Dcqcn(parameters) => {
                parameters.validate()?;
                let dcqcn = |core: &Core| Dcqcn::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, dcqcn)
            }
            Self::Hpcc(parameters) => {
                parameters.validate()?;
                let config = Config { telemetry: true, ..config };
                let hpcc = |core: &Core| Hpcc::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, hpcc)
            }
            Self::Swift(parameters) => {
                parameters.validate()?;
                let swift = |core: &Core| Swift::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, swift)
            }
            Self::Ndp(parameters) => {
                parameters.validate()?;
                let ndp = |core: &Core| Ndp::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, ndp)
            }
            Self::Nscc(parameters) => {
                parameters.validate()?;
                let nscc = |core: &Core| Nscc::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, nscc)
            }
            Self::Rccc(parameters) => {
                parameters.validate()?;
                let rccc = |core: &Core| Rccc::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, rccc)
            }
            Self::Eqds(parameters) => {
                parameters.validate()?;
                let eqds = |core: &Core| Eqds::new(core, parameters).expect("just validated");
                boxed(topology, config, halves, eqds)
            }
        }
    }

    /// The longest time for which a sender may be silent before it tries again.
    pub(crate) fn longest_timeout(self) -> Duration {
        match self {
            Self::Ideal | Self::Roce => TIMEOUT,
            Self::Dctcp(parameters) => parameters.longest_timeout(),
            Self::Mptcp(parameters) => parameters.longest_timeout(),
            Self::Dcqcn(parameters) => parameters.timeout,
            Self::Hpcc(parameters) => parameters.timeout,
            Self::Swift(parameters) => parameters.timeout,
            Self::Ndp(parameters) => parameters.longest_timeout(),
            Self::Nscc(parameters) => parameters.longest_timeout(),
            Self::Rccc(parameters) => parameters.longest_timeout(),
            Self::Eqds(parameters) => parameters.longest_timeout(),
        }
    }
}

/// A network with a transport, in one piece or in two halves.
fn boxed<T: Transport + Send + 'static>(
    topology: Topology,
    config: Config,
    halves: Option<Halves>,
    transport: impl Fn(&Core) -> T,
) -> Result<Box<dyn AnySimulation>, PacketError> {
    Ok(match halves {
        None => Box::new(Simulation::new(topology, config, transport)?),
        Some(halves) => Box::new(Pair::new(&topology, halves, config, transport)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_of_dcqcn_grow_with_the_rate() {
        let (config, transport) = profile("dcqcn", Rate(800_000_000_000)).unwrap();
        let ecn = config.ecn.unwrap();
        assert_eq!((ecn.min_bytes, ecn.max_bytes), (3_200_000, 12_800_000));
        assert_eq!(config.pfc.unwrap().pause_bytes, 32_000_000);
        let TransportKind::Dcqcn(parameters) = transport else { panic!("another transport") };
        assert_eq!(
            (parameters.additive, parameters.hyper),
            (Rate(160_000_000), Rate(1_600_000_000))
        );
    }

    #[test]
    fn every_name_has_a_profile_that_is_valid_and_bears_it() {
        for &name in TransportName::ALL {
            for rate in [1, 100_000_000_000, 3_200_000_000_000, u64::MAX] {
                let (config, transport) = profile(name.name(), Rate(rate)).unwrap();
                assert_eq!(transport.name(), name);
                assert_eq!(config.validate(), Ok(()));
                if let TransportKind::Dcqcn(parameters) = transport {
                    assert_eq!(parameters.validate(), Ok(()));
                }
            }
        }
        let error = profile("tcp", Rate(1)).unwrap_err().to_string();
        assert!(error.starts_with("transport = 'tcp': expected one of ideal, roce, dctcp"));
    }

    #[test]
    fn profiles_have_the_networks_of_their_references() {
        let config = |name| profile(name, Rate(100_000_000_000)).unwrap().0;
        let packets = |name, bytes: u32| bytes / config(name).packet_bytes();
        // csg-htsim: pauses from 15 packets on, resumes below 12.
        let pfc = config("roce").pfc.unwrap();
        assert_eq!((pfc.pause_bytes, pfc.resume_bytes), (15 * 4096, 12 * 4096));
        assert!(config("roce").ecn.is_none() && config("ideal").pfc.is_none());
        assert_eq!(config("ideal").queue_bytes, u32::MAX);
        // ffsim-opera: full packets of 8,936 B, 10,000 packets with the one that is sent.
        let dctcp = config("dctcp");
        assert_eq!((dctcp.packet_bytes(), packets("dctcp", dctcp.queue_bytes)), (8936, 9_999));
        let ecn = dctcp.ecn.unwrap();
        assert_eq!((ecn.marking, packets("dctcp", ecn.min_bytes)), (Marking::Departure, 50));
        // 35 packets with the one that is sent; of NDP without their headers.
        for (name, queue) in [("ndp", 35 * 4096 - 4160), ("eqds", 34 * 4160)] {
            let config = config(name);
            assert_eq!((config.queue_bytes, config.paths), (queue, PathChoice::Spray(128)));
            assert!(config.overflow == Overflow::Trim && config.control_priority);
        }
        assert!(config("ndp").full_tail && !config("eqds").full_tail);
    }

    /// `htsim_uec` prints 43 packets, and marks from 9 to 35 packets, at 100 Gb/s.
    #[test]
    fn queues_of_ultra_ethernet_hold_what_a_round_trip_takes() {
        let config = profile("uet-nscc", Rate(100_000_000_000)).unwrap().0;
        let ecn = config.ecn.unwrap();
        let packets = [config.queue_bytes, ecn.min_bytes, ecn.max_bytes].map(|it| it / 4160);
        assert_eq!(packets, [42, 9, 35], "the queue without the packet that is sent");
    }

    #[test]
    fn no_timeout_of_a_profile_exceeds_the_longest() {
        for &name in TransportName::ALL {
            let (_, transport) = profile(name.name(), Rate(100_000_000_000)).unwrap();
            let longest = transport.longest_timeout();
            match transport {
                TransportKind::Ideal | TransportKind::Roce => assert_eq!(longest, TIMEOUT),
                TransportKind::Dctcp(it) => assert_eq!(longest.0, it.min_timeout.0 << 12),
                TransportKind::Mptcp(it) => assert_eq!(longest.0, it.min_timeout.0 << 12),
                TransportKind::Dcqcn(it) => assert_eq!(longest, it.timeout),
                TransportKind::Hpcc(it) => assert_eq!(longest, it.timeout),
                TransportKind::Swift(it) => assert_eq!(longest, it.timeout),
                TransportKind::Ndp(it) => assert_eq!(longest.0, 64 * it.timeout.0),
                TransportKind::Nscc(it) => assert_eq!(longest.0, 64 * it.timeout.0),
                TransportKind::Rccc(it) => assert_eq!(longest.0, 64 * it.timeout.0),
                TransportKind::Eqds(it) => assert_eq!(longest.0, 64 * it.timeout.0),
            }
        }
    }

    #[test]
    fn wrong_parameters_are_refused_before_the_run() {
        let topology = crate::presets::star(2, Rate(1), Duration(1)).unwrap();
        let refuse = |transport: TransportKind| {
            transport.simulation(topology.clone(), ENDLESS).map(|_| ()).unwrap_err().to_string()
        };
        let dctcp = DctcpParameters { initial_window: 0, ..DctcpParameters::default() };
        assert!(refuse(TransportKind::Dctcp(dctcp)).contains("window of 0 packets"));
        let ndp = NdpParameters { window: 0, ..NdpParameters::default() };
        assert!(refuse(TransportKind::Ndp(ndp)).contains("window of 0 packets"));
        let eqds = EqdsParameters { window: 0, ..EqdsParameters::default() };
        assert!(refuse(TransportKind::Eqds(eqds)).contains("window of 0 packets"));
        let dcqcn = DcqcnParameters { gain: 0.0, ..DcqcnParameters::of_rate(Rate(1)) };
        assert!(refuse(TransportKind::Dcqcn(dcqcn)).contains("gain 0"));
    }
}
