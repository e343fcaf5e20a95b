//! The parameters of a packet simulation: the fields of these tables are the keys of Python's.
//!
//! Times are in picoseconds, rates in bits per second and sizes in bytes, as the names say.

use crate::arrays::Given;
use crate::choices::Named;
use lightloom_model::{Duration, Rate};
use lightloom_packetsim::transport::dcqcn::DcqcnParameters;
use lightloom_packetsim::transport::dctcp::DctcpParameters;
use lightloom_packetsim::transport::eqds::EqdsParameters;
use lightloom_packetsim::transport::hpcc::HpccParameters;
use lightloom_packetsim::transport::mptcp::MptcpParameters;
use lightloom_packetsim::transport::ndp::NdpParameters;
use lightloom_packetsim::transport::nscc::NsccParameters;
use lightloom_packetsim::transport::rccc::RcccParameters;
use lightloom_packetsim::transport::swift::SwiftParameters;
use lightloom_packetsim::{
    Config, EarlyDrop, Ecn, Marking, Overflow, PathChoice, Pfc, TransportKind,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// All parameters of a run but its topology, its flows and its seed.
#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
pub(super) struct PacketTables<'py> {
    packet: PacketTable,
    queue: QueueTable,
    /// Its fields are those of the transport.
    transport: Bound<'py, PyAny>,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct PacketTable {
    mtu_bytes: u32,
    header_bytes: u32,
    control_bytes: u32,
    full_tail: bool,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct QueueTable {
    size_bytes: u32,
    control_size_bytes: u32,
    control_priority: bool,
    overflow: Named<Overflow>,
    early_drop: Option<EarlyDropTable>,
    ecn: Option<EcnTable>,
    pfc: Option<PfcTable>,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct EarlyDropTable {
    share: f64,
    probability: f64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct EcnTable {
    min_bytes: u32,
    max_bytes: u32,
    probability: f64,
    marking: Named<Marking>,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct PfcTable {
    pause_bytes: u32,
    resume_bytes: u32,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct DctcpTable {
    initial_window: u32,
    initial_threshold: u32,
    gain: f32,
    initial_alpha: f32,
    min_timeout_ps: u64,
    timer_tick_ps: u64,
    bursts: bool,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct MptcpTable {
    subflows: u16,
    initial_window: u32,
    initial_threshold: u32,
    min_timeout_ps: u64,
    timer_tick_ps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct DcqcnTable {
    cnp_interval_ps: u64,
    cut_interval_ps: u64,
    alpha_interval_ps: u64,
    gain: f64,
    increase_interval_ps: u64,
    increase_bytes: u64,
    recovery_stages: u32,
    additive_bps: u64,
    hyper_bps: u64,
    minimum_bps: u64,
    clamp_target: bool,
    timeout_ps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct HpccTable {
    utilization: f64,
    stages: u32,
    additive_bytes: u64,
    base_rtt_ps: Option<u64>,
    timeout_ps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct SwiftTable {
    initial_window: f64,
    min_window: f64,
    max_window: f64,
    additive: f64,
    decrease: f64,
    max_decrease: f64,
    base_target_ps: u64,
    per_link_ps: u64,
    scaling_ps: u64,
    scaling_min: f64,
    scaling_max: f64,
    timeout_ps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct NsccTable {
    paths: u16,
    base_rtt_ps: Option<u64>,
    target_delay_ps: Option<u64>,
    timeout_ps: u64,
}

#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct RcccTable {
    paths: u16,
    window: Option<u32>,
    pull_percent: u32,
    timeout_ps: u64,
}

/// Of NDP and EQDS, which spray.
#[derive(FromPyObject, IntoPyObject)]
#[pyo3(from_item_all)]
struct PulledTable {
    paths: u16,
    window: u32,
    pull_percent: u32,
    timeout_ps: u64,
}

impl<'py> PacketTables<'py> {
    /// Those of a profile.
    pub(super) fn new(
        py: Python<'py>,
        (config, transport): (Config, TransportKind),
    ) -> PyResult<Self> {
        let packet = PacketTable {
            mtu_bytes: config.mtu,
            header_bytes: config.header,
            control_bytes: config.control_bytes,
            full_tail: config.full_tail,
        };
        let queue = QueueTable {
            size_bytes: config.queue_bytes,
            control_size_bytes: config.control_queue_bytes,
            control_priority: config.control_priority,
            overflow: Named(config.overflow),
            early_drop: config.early_drop.map(EarlyDropTable::from),
            ecn: config.ecn.map(EcnTable::from),
            pfc: config.pfc.map(PfcTable::from),
        };
        Ok(Self { packet, queue, transport: transport_table(py, &config, transport)? })
    }

    /// A profile with these parameters in the place of its own.
    pub(super) fn of_profile(
        self,
        (config, transport): (Config, TransportKind),
    ) -> PyResult<(Config, TransportKind)> {
        let Self { packet, queue, transport: own } = self;
        let mut config = Config {
            mtu: packet.mtu_bytes,
            header: packet.header_bytes,
            full_tail: packet.full_tail,
            control_bytes: packet.control_bytes,
            control_priority: queue.control_priority,
            queue_bytes: queue.size_bytes,
            control_queue_bytes: queue.control_size_bytes,
            overflow: queue.overflow.0,
            early_drop: queue.early_drop.map(EarlyDrop::from),
            ecn: queue.ecn.map(Ecn::from),
            pfc: queue.pfc.map(Pfc::from),
            ..config
        };
        let transport = match transport {
            TransportKind::Ideal | TransportKind::Roce => transport,
            TransportKind::Dctcp(_) => {
                TransportKind::Dctcp(own.extract::<Given<DctcpTable>>()?.0.into())
            }
            TransportKind::Mptcp(_) => {
                TransportKind::Mptcp(own.extract::<Given<MptcpTable>>()?.0.into())
            }
            TransportKind::Dcqcn(_) => {
                TransportKind::Dcqcn(own.extract::<Given<DcqcnTable>>()?.0.into())
            }
            TransportKind::Hpcc(_) => {
                TransportKind::Hpcc(own.extract::<Given<HpccTable>>()?.0.into())
            }
            TransportKind::Swift(_) => {
                TransportKind::Swift(own.extract::<Given<SwiftTable>>()?.0.into())
            }
            TransportKind::Nscc(_) => {
                let NsccTable { paths, base_rtt_ps, target_delay_ps, timeout_ps } =
                    own.extract::<Given<NsccTable>>()?.0;
                config.paths = PathChoice::Spray(paths);
                let [base_rtt, target_delay] =
                    [base_rtt_ps, target_delay_ps].map(|time| time.map(Duration));
                let timeout = Duration(timeout_ps);
                TransportKind::Nscc(NsccParameters { base_rtt, target_delay, timeout })
            }
            TransportKind::Rccc(_) => {
                let table = own.extract::<Given<RcccTable>>()?.0;
                config.paths = PathChoice::Spray(table.paths);
                TransportKind::Rccc(table.into())
            }
            TransportKind::Ndp(_) => {
                let PulledTable { paths, window, pull_percent, timeout_ps } =
                    own.extract::<Given<PulledTable>>()?.0;
                config.paths = PathChoice::Spray(paths);
                let timeout = Duration(timeout_ps);
                TransportKind::Ndp(NdpParameters { window, pull_percent, timeout })
            }
            TransportKind::Eqds(_) => {
                let PulledTable { paths, window, pull_percent, timeout_ps } =
                    own.extract::<Given<PulledTable>>()?.0;
                config.paths = PathChoice::Spray(paths);
                let timeout = Duration(timeout_ps);
                TransportKind::Eqds(EqdsParameters { window, pull_percent, timeout })
            }
        };
        Ok((config, transport))
    }
}

/// The parameters of the transport itself.
fn transport_table<'py>(
    py: Python<'py>,
    config: &Config,
    transport: TransportKind,
) -> PyResult<Bound<'py, PyAny>> {
    let paths = match config.paths {
        PathChoice::Ecmp => 1,
        PathChoice::Spray(paths) => paths,
    };
    let table = match transport {
        TransportKind::Ideal | TransportKind::Roce => PyDict::new(py),
        TransportKind::Dctcp(own) => DctcpTable::from(own).into_pyobject(py)?,
        TransportKind::Mptcp(own) => MptcpTable::from(own).into_pyobject(py)?,
        TransportKind::Dcqcn(own) => DcqcnTable::from(own).into_pyobject(py)?,
        TransportKind::Hpcc(own) => HpccTable::from(own).into_pyobject(py)?,
        TransportKind::Swift(own) => SwiftTable::from(own).into_pyobject(py)?,
        TransportKind::Nscc(NsccParameters { base_rtt, target_delay, timeout }) => {
            let [base_rtt_ps, target_delay_ps] =
                [base_rtt, target_delay].map(|time| time.map(|time| time.0));
            NsccTable { paths, base_rtt_ps, target_delay_ps, timeout_ps: timeout.0 }
                .into_pyobject(py)?
        }
        TransportKind::Rccc(RcccParameters { window, pull_percent, timeout }) => {
            let timeout_ps = timeout.0;
            RcccTable { paths, window, pull_percent, timeout_ps }.into_pyobject(py)?
        }
        TransportKind::Ndp(NdpParameters { window, pull_percent, timeout })
        | TransportKind::Eqds(EqdsParameters { window, pull_percent, timeout }) => {
            let timeout_ps = timeout.0;
            PulledTable { paths, window, pull_percent, timeout_ps }.into_pyobject(py)?
        }
    };
    Ok(table.into_any())
}

impl From<RcccTable> for RcccParameters {
    fn from(table: RcccTable) -> Self {
        let RcccTable { window, pull_percent, timeout_ps, .. } = table;
        Self { window, pull_percent, timeout: Duration(timeout_ps) }
    }
}

impl From<EarlyDrop> for EarlyDropTable {
    fn from(EarlyDrop { share, probability }: EarlyDrop) -> Self {
        Self { share, probability }
    }
}

impl From<EarlyDropTable> for EarlyDrop {
    fn from(EarlyDropTable { share, probability }: EarlyDropTable) -> Self {
        Self { share, probability }
    }
}

impl From<Ecn> for EcnTable {
    fn from(Ecn { marking, min_bytes, max_bytes, probability }: Ecn) -> Self {
        Self { min_bytes, max_bytes, probability, marking: Named(marking) }
    }
}

impl From<EcnTable> for Ecn {
    fn from(EcnTable { min_bytes, max_bytes, probability, marking }: EcnTable) -> Self {
        Self { marking: marking.0, min_bytes, max_bytes, probability }
    }
}

impl From<Pfc> for PfcTable {
    fn from(Pfc { pause_bytes, resume_bytes }: Pfc) -> Self {
        Self { pause_bytes, resume_bytes }
    }
}

impl From<PfcTable> for Pfc {
    fn from(PfcTable { pause_bytes, resume_bytes }: PfcTable) -> Self {
        Self { pause_bytes, resume_bytes }
    }
}

impl From<DctcpParameters> for DctcpTable {
    fn from(own: DctcpParameters) -> Self {
        Self {
            initial_window: own.initial_window,
            initial_threshold: own.initial_threshold,
            gain: own.gain,
            initial_alpha: own.initial_alpha,
            min_timeout_ps: own.min_timeout.0,
            timer_tick_ps: own.timer_tick.0,
            bursts: own.bursts,
        }
    }
}

impl From<DctcpTable> for DctcpParameters {
    fn from(table: DctcpTable) -> Self {
        Self {
            initial_window: table.initial_window,
            initial_threshold: table.initial_threshold,
            gain: table.gain,
            initial_alpha: table.initial_alpha,
            min_timeout: Duration(table.min_timeout_ps),
            timer_tick: Duration(table.timer_tick_ps),
            bursts: table.bursts,
        }
    }
}

impl From<MptcpParameters> for MptcpTable {
    fn from(own: MptcpParameters) -> Self {
        Self {
            subflows: own.subflows,
            initial_window: own.initial_window,
            initial_threshold: own.initial_threshold,
            min_timeout_ps: own.min_timeout.0,
            timer_tick_ps: own.timer_tick.0,
        }
    }
}

impl From<MptcpTable> for MptcpParameters {
    fn from(table: MptcpTable) -> Self {
        Self {
            subflows: table.subflows,
            initial_window: table.initial_window,
            initial_threshold: table.initial_threshold,
            min_timeout: Duration(table.min_timeout_ps),
            timer_tick: Duration(table.timer_tick_ps),
        }
    }
}

impl From<DcqcnParameters> for DcqcnTable {
    fn from(own: DcqcnParameters) -> Self {
        Self {
            cnp_interval_ps: own.cnp_interval.0,
            cut_interval_ps: own.cut_interval.0,
            alpha_interval_ps: own.alpha_interval.0,
            gain: own.gain,
            increase_interval_ps: own.increase_interval.0,
            increase_bytes: own.increase_bytes,
            recovery_stages: own.recovery_stages,
            additive_bps: own.additive.0,
            hyper_bps: own.hyper.0,
            minimum_bps: own.minimum.0,
            clamp_target: own.clamp_target,
            timeout_ps: own.timeout.0,
        }
    }
}

impl From<DcqcnTable> for DcqcnParameters {
    fn from(table: DcqcnTable) -> Self {
        Self {
            cnp_interval: Duration(table.cnp_interval_ps),
            cut_interval: Duration(table.cut_interval_ps),
            alpha_interval: Duration(table.alpha_interval_ps),
            gain: table.gain,
            increase_interval: Duration(table.increase_interval_ps),
            increase_bytes: table.increase_bytes,
            recovery_stages: table.recovery_stages,
            additive: Rate(table.additive_bps),
            hyper: Rate(table.hyper_bps),
            minimum: Rate(table.minimum_bps),
            clamp_target: table.clamp_target,
            timeout: Duration(table.timeout_ps),
        }
    }
}

impl From<HpccParameters> for HpccTable {
    fn from(own: HpccParameters) -> Self {
        Self {
            utilization: own.utilization,
            stages: own.stages,
            additive_bytes: own.additive_bytes,
            base_rtt_ps: own.base_rtt.map(|base| base.0),
            timeout_ps: own.timeout.0,
        }
    }
}

impl From<HpccTable> for HpccParameters {
    fn from(table: HpccTable) -> Self {
        Self {
            utilization: table.utilization,
            stages: table.stages,
            additive_bytes: table.additive_bytes,
            base_rtt: table.base_rtt_ps.map(Duration),
            timeout: Duration(table.timeout_ps),
        }
    }
}

impl From<SwiftParameters> for SwiftTable {
    fn from(own: SwiftParameters) -> Self {
        Self {
            initial_window: own.initial_window,
            min_window: own.min_window,
            max_window: own.max_window,
            additive: own.additive,
            decrease: own.decrease,
            max_decrease: own.max_decrease,
            base_target_ps: own.base_target.0,
            per_link_ps: own.per_link.0,
            scaling_ps: own.scaling.0,
            scaling_min: own.scaling_min,
            scaling_max: own.scaling_max,
            timeout_ps: own.timeout.0,
        }
    }
}

impl From<SwiftTable> for SwiftParameters {
    fn from(table: SwiftTable) -> Self {
        Self {
            initial_window: table.initial_window,
            min_window: table.min_window,
            max_window: table.max_window,
            additive: table.additive,
            decrease: table.decrease,
            max_decrease: table.max_decrease,
            base_target: Duration(table.base_target_ps),
            per_link: Duration(table.per_link_ps),
            scaling: Duration(table.scaling_ps),
            scaling_min: table.scaling_min,
            scaling_max: table.scaling_max,
            timeout: Duration(table.timeout_ps),
        }
    }
}
