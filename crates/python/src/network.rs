//! Networks: the dataclasses of `lightloom.fabric.network`, read attribute by attribute.
//!
//! A part of a network is known by the `kind` of its class; [`PARTS`] is the list.

use crate::errors::NetworkInvalid;
use crate::records::Record;
use lightloom_decide::Reconfigure;
use lightloom_execute::network::{Network, PartConfig};
use lightloom_execute::parts::{
    Crossbars, Cycle, Direct, Eps, Lateness, MatchingFinder, Ocs, RelayChunk, Route,
    ScheduledCircuits, Slot, TurnRules, TurnTiming,
};
use lightloom_model::{
    AllToAll, Allocator, Choice, Circuit, Duration, Failures, Fibers, FirstAllToAll, LocalPace,
    NvSwitch, Rate, StartUp, SwitchTiming,
};
use lightloom_schedule::permutation::Method;
use numpy::{AllowTypeChange, Element, PyArrayLikeDyn};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// What reads the parts of each kind.
type Reader = fn(&Bound<'_, PyAny>) -> PyResult<Arc<dyn PartConfig>>;

/// Every kind of part.
const PARTS: [(&str, Reader); 5] = [
    ("eps", |part| Ok(Arc::new(part.extract::<Record<Eps>>()?.0))),
    ("ocs", |part| Ok(Arc::new(Ocs::from(read::<PyOcs>(part)?)))),
    ("direct", |part| Ok(Arc::new(Direct::try_from(read::<PyDirect>(part)?)?))),
    ("scheduled", |part| Ok(Arc::new(ScheduledCircuits::try_from(read::<PyScheduled>(part)?)?))),
    ("crossbar", |part| Ok(Arc::new(Crossbars::from(read::<PyCrossbars>(part)?)))),
];

/// A network.
pub(crate) struct PyNetwork(pub(crate) Network);

#[derive(FromPyObject)]
struct Attributes<'py> {
    servers: u32,
    gpus_per_server: u32,
    nvswitch: PyNvSwitch,
    start_up: Record<StartUp>,
    all_to_all: Name<AllToAll>,
    delegates: bool,
    regroup_above: u32,
    parts: Vec<Bound<'py, PyAny>>,
}

#[derive(FromPyObject)]
struct PyNvSwitch {
    gpu_rate_bps: u64,
    latency_ps: u64,
    gather_rate_bps: Option<u64>,
    gather_latency_ps: Option<u64>,
    gather_peer_ps: u64,
}

impl From<PyNvSwitch> for NvSwitch {
    fn from(inside: PyNvSwitch) -> Self {
        let PyNvSwitch { gpu_rate_bps, latency_ps, .. } = inside;
        let pace = |rate, latency, peer| LocalPace {
            gpu_rate: Rate(rate),
            latency: Duration(latency),
            peer: Duration(peer),
        };
        Self {
            all_to_all: pace(gpu_rate_bps, latency_ps, 0),
            gather: pace(
                inside.gather_rate_bps.unwrap_or(gpu_rate_bps),
                inside.gather_latency_ps.unwrap_or(latency_ps),
                inside.gather_peer_ps,
            ),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for PyNetwork {
    type Error = PyErr;

    fn extract(network: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let found: Attributes<'py> = read(&network)?;
        Ok(Self(Network {
            servers: found.servers,
            gpus_per_server: found.gpus_per_server,
            nvswitch: found.nvswitch.into(),
            start_up: found.start_up.0,
            parts: found.parts.iter().map(part).collect::<PyResult<_>>()?,
            all_to_all: found.all_to_all.0,
            delegates: found.delegates,
            regroup_above: found.regroup_above,
        }))
    }
}

fn part(part: &Bound<'_, PyAny>) -> PyResult<Arc<dyn PartConfig>> {
    let kind: String = part.getattr("kind")?.extract()?;
    let found = PARTS.iter().find(|(known, _)| *known == kind);
    let (_, reader) = found.ok_or_else(|| {
        let known: Vec<&str> = PARTS.iter().map(|(known, _)| *known).collect();
        NetworkInvalid::new_err(format!("no part '{kind}': expected one of {}", known.join(", ")))
    })?;
    reader(part)
}

#[derive(FromPyObject)]
struct PyOcs {
    ports: u32,
    nic_rate_bps: u64,
    circuit_delay_ps: u64,
    region_of_server: Column<u32>,
    allocator: Name<Allocator>,
    split: bool,
    when: Name<Reconfigure>,
    first: Name<FirstAllToAll>,
    timing: Record<SwitchTiming>,
    relaying: Option<(u64, u64)>,
    planes: Option<Name<Fibers>>,
    failures: Option<Record<Failures>>,
}

impl From<PyOcs> for Ocs {
    fn from(ocs: PyOcs) -> Self {
        Self {
            ports: ocs.ports,
            nic_rate: Rate(ocs.nic_rate_bps),
            circuit_delay: Duration(ocs.circuit_delay_ps),
            region_of_server: ocs.region_of_server.0,
            planes: ocs.planes.map(|planes| planes.0),
            allocator: ocs.allocator.0,
            when: ocs.when.0,
            first: ocs.first.0,
            split: ocs.split,
            relaying: ocs
                .relaying
                .map(|(bytes, latency)| RelayChunk { bytes, latency: Duration(latency) }),
            timing: ocs.timing.0,
            failures: ocs.failures.map(|failures| failures.0).unwrap_or_default(),
        }
    }
}

#[derive(FromPyObject)]
struct PyDirect {
    nic_rate_bps: u64,
    link_delay_ps: u64,
    relay_delay_ps: u64,
    circuits: Column<u32>,
    route_offsets: Column<u32>,
    route_servers: Column<u32>,
    cycle_offsets: Column<u32>,
    cycle_servers: Column<u32>,
    cycle_counts: Column<u32>,
}

impl TryFrom<PyDirect> for Direct {
    type Error = PyErr;

    fn try_from(direct: PyDirect) -> PyResult<Self> {
        let routes = server_lists("route", &direct.route_offsets, &direct.route_servers)?;
        let cycles = server_lists("cycle", &direct.cycle_offsets, &direct.cycle_servers)?;
        if direct.cycle_counts.0.len() != cycles.len() {
            return Err(NetworkInvalid::new_err("cycle_counts needs one entry per cycle"));
        }
        let circuit = |row: &[u32]| Circuit { a: row[0], b: row[1], count: row[2] };
        let cycles = cycles.into_iter().zip(direct.cycle_counts.0);
        Ok(Self {
            nic_rate: Rate(direct.nic_rate_bps),
            link_delay: Duration(direct.link_delay_ps),
            relay_delay: Duration(direct.relay_delay_ps),
            circuits: direct.circuits.0.chunks_exact(3).map(circuit).collect(),
            routes: routes.into_iter().map(|servers| Route { servers }).collect(),
            cycles: cycles.map(|(servers, count)| Cycle { servers, count }).collect(),
        })
    }
}

/// Lists of servers as one column and where each begins.
fn server_lists(
    name: &str,
    offsets: &Column<u32>,
    servers: &Column<u32>,
) -> PyResult<Vec<Vec<u32>>> {
    let exceed = || NetworkInvalid::new_err(format!("{name}_offsets exceed {name}_servers"));
    (offsets.0.windows(2))
        .map(|ends| servers.0.get(ends[0] as usize..ends[1] as usize))
        .map(|servers| servers.map(<[u32]>::to_vec).ok_or_else(exceed))
        .collect()
}

#[derive(FromPyObject)]
struct PyScheduled {
    nic_rate_bps: u64,
    link_delay_ps: u64,
    circuits: Column<u32>,
    dark_ps: Column<u64>,
    hold_ps: Column<u64>,
    min_bytes: u64,
}

impl TryFrom<PyScheduled> for ScheduledCircuits {
    type Error = PyErr;

    fn try_from(scheduled: PyScheduled) -> PyResult<Self> {
        if scheduled.dark_ps.0.len() != scheduled.hold_ps.0.len() {
            return Err(NetworkInvalid::new_err("hold_ps needs one entry per entry of dark_ps"));
        }
        let times = scheduled.dark_ps.0.iter().zip(&scheduled.hold_ps.0);
        let mut slots: Vec<Slot> = times
            .map(|(&dark, &hold)| Slot {
                circuits: Vec::new(),
                dark: Duration(dark),
                hold: Duration(hold),
            })
            .collect();
        for row in scheduled.circuits.0.chunks_exact(4) {
            let count = slots.len();
            let slot = slots.get_mut(row[0] as usize).ok_or_else(|| {
                NetworkInvalid::new_err(format!("a circuit is in slot {} of {count}", row[0]))
            })?;
            slot.circuits.push(Circuit { a: row[1], b: row[2], count: row[3] });
        }
        Ok(Self {
            nic_rate: Rate(scheduled.nic_rate_bps),
            link_delay: Duration(scheduled.link_delay_ps),
            slots,
            min_bytes: scheduled.min_bytes,
        })
    }
}

#[derive(FromPyObject)]
struct PyCrossbars {
    nics: u32,
    nic_rate_bps: u64,
    latency_ps: u64,
    guard_ps: u64,
    slot_ps: Option<u64>,
    aligned: bool,
    held: bool,
    methods: Vec<(Name<Method>, Column<u64>)>,
    lateness: Option<(u64, u64)>,
    failed: Vec<(u32, u32)>,
}

impl From<PyCrossbars> for Crossbars {
    fn from(crossbars: PyCrossbars) -> Self {
        let timing = TurnTiming {
            latency: Duration(crossbars.latency_ps),
            guard: Duration(crossbars.guard_ps),
            length: crossbars.slot_ps.map(Duration),
            is_aligned: crossbars.aligned,
            is_held: crossbars.held,
        };
        let finder = |(Name(method), Column(times))| MatchingFinder {
            method,
            decision: times.into_iter().map(Duration).collect(),
        };
        let lateness = |(mean, seed)| Lateness { mean: Duration(mean), seed };
        Self {
            nics: crossbars.nics,
            nic_rate: Rate(crossbars.nic_rate_bps),
            rules: TurnRules {
                timing,
                finders: crossbars.methods.into_iter().map(finder).collect(),
                lateness: crossbars.lateness.map(lateness),
            },
            failed: crossbars.failed.into_iter().collect(),
        }
    }
}

/// One of a closed set of names.
struct Name<T>(T);

impl<'a, 'py, T: Choice> FromPyObject<'a, 'py> for Name<T> {
    type Error = PyErr;

    fn extract(name: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let given: String = name.extract()?;
        T::parse(&given).map(Self).map_err(|error| NetworkInvalid::new_err(error.to_string()))
    }
}

/// An array of any shape, row-major.
struct Column<T>(Vec<T>);

impl<'a, 'py, T: Element + Copy + 'py> FromPyObject<'a, 'py> for Column<T>
where
    Vec<T>: FromPyObject<'a, 'py>,
{
    type Error = PyErr;

    fn extract(array: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array: PyArrayLikeDyn<'_, T, AllowTypeChange> = array.extract()?;
        Ok(Self(array.as_array().iter().copied().collect()))
    }
}

/// Reads attributes; a wrong one is an error that names it and says why it is wrong.
fn read<'py, T>(object: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error = PyErr>,
{
    object.extract::<T>().map_err(|error| {
        let py = object.py();
        let Some(cause) = error.cause(py) else { return error };
        if cause.is_instance_of::<NetworkInvalid>(py) {
            return cause;
        }
        // "failed to extract field PyOcs.ports" of what is Ocs in Python
        let text = error.value(py).to_string();
        let attribute = text.rsplit_once(" field Py").map_or(text.as_str(), |(_, name)| name);
        let reason = cause.value(py);
        PyValueError::new_err(format!("{attribute} as given to the core: {reason}"))
    })
}
