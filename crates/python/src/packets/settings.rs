//! The parameters of a packet simulation by name: one list says how each is read and written.

use lightloom_model::{Duration, Rate};
use lightloom_packetsim::transport::dcqcn::DcqcnParameters;
use lightloom_packetsim::transport::dctcp::DctcpParameters;
use lightloom_packetsim::{Config, Ecn, Marking, Overflow, Paths, Pfc, TransportKind};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// One table of parameters, which are all written to it or all read from it.
struct Table<'py> {
    entries: Bound<'py, PyDict>,
    is_read: bool,
}

impl<'py> Table<'py> {
    fn at<T>(&self, key: &str, field: &mut T) -> PyResult<()>
    where
        T: Clone + IntoPyObjectExt<'py>,
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        if self.is_read {
            *field = self.get(key)?.extract::<T>().map_err(|error| {
                let error: PyErr = error.into();
                PyValueError::new_err(format!("{key}: {error}"))
            })?;
            return Ok(());
        }
        self.entries.set_item(key, field.clone())
    }

    fn get(&self, key: &str) -> PyResult<Bound<'py, PyAny>> {
        let entry = self.entries.get_item(key)?;
        entry.ok_or_else(|| PyValueError::new_err(format!("the core was not given '{key}'")))
    }

    /// A span of time, by a key that ends in `_ps`.
    fn time(&self, key: &str, field: &mut Duration) -> PyResult<()> {
        self.at(key, &mut field.0)
    }

    /// A rate, by a key that ends in `_bps`.
    fn rate(&self, key: &str, field: &mut Rate) -> PyResult<()> {
        self.at(key, &mut field.0)
    }

    /// One of several words.
    fn word<W: Copy + PartialEq>(
        &self,
        key: &str,
        field: &mut W,
        words: &[(&str, W)],
    ) -> PyResult<()> {
        let known = words.iter().find(|(_, value)| value == field);
        let mut text = known.map_or(String::new(), |(name, _)| (*name).to_owned());
        self.at(key, &mut text)?;
        let chosen = words.iter().find(|(name, _)| **name == text);
        let (_, value) = chosen.ok_or_else(|| {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            PyValueError::new_err(format!("{key} = '{text}': expected one of {}", names.join(", ")))
        })?;
        *field = *value;
        Ok(())
    }

    /// A table in this one.
    fn part(&self, key: &str) -> PyResult<Self> {
        let (py, is_read) = (self.entries.py(), self.is_read);
        if is_read {
            return Ok(Self { entries: self.get(key)?.cast_into::<PyDict>()?, is_read });
        }
        let entries = PyDict::new(py);
        self.entries.set_item(key, &entries)?;
        Ok(Self { entries, is_read })
    }

    /// A table in this one that may be absent; `begin` is what its parameters are before they are
    /// read.
    fn optional<T>(
        &self,
        key: &str,
        field: &mut Option<T>,
        begin: T,
        visit: impl FnOnce(&Self, &mut T) -> PyResult<()>,
    ) -> PyResult<()> {
        let is_there = if self.is_read { !self.get(key)?.is_none() } else { field.is_some() };
        if !is_there {
            *field = None;
            return self.entries.set_item(key, self.entries.py().None());
        }
        visit(&self.part(key)?, field.get_or_insert(begin))
    }
}

/// All parameters of a run but its topology, its flows and its seed.
fn visit(table: &Table<'_>, config: &mut Config, transport: &mut TransportKind) -> PyResult<()> {
    let packet = table.part("packet")?;
    packet.at("mtu_bytes", &mut config.mtu)?;
    packet.at("header_bytes", &mut config.header)?;
    packet.at("control_bytes", &mut config.control_bytes)?;
    packet.at("full_tail", &mut config.full_tail)?;
    let queue = table.part("queue")?;
    queue.at("size_bytes", &mut config.queue_bytes)?;
    queue.at("control_size_bytes", &mut config.control_queue_bytes)?;
    queue.at("control_priority", &mut config.control_priority)?;
    let overflows = [("drop", Overflow::Drop), ("trim", Overflow::Trim)];
    queue.word("overflow", &mut config.overflow, &overflows)?;
    let begin = Ecn { marking: Marking::Arrival, min_bytes: 0, max_bytes: 0, probability: 1.0 };
    queue.optional("ecn", &mut config.ecn, begin, |ecn, field| {
        ecn.at("min_bytes", &mut field.min_bytes)?;
        ecn.at("max_bytes", &mut field.max_bytes)?;
        ecn.at("probability", &mut field.probability)?;
        let markings = [("arrival", Marking::Arrival), ("departure", Marking::Departure)];
        ecn.word("marking", &mut field.marking, &markings)
    })?;
    let begin = Pfc { pause_bytes: 0, resume_bytes: 0 };
    queue.optional("pfc", &mut config.pfc, begin, |pfc, field| {
        pfc.at("pause_bytes", &mut field.pause_bytes)?;
        pfc.at("resume_bytes", &mut field.resume_bytes)
    })?;
    let transport_table = table.part("transport")?;
    visit_paths(&transport_table, &mut config.paths)?;
    visit_transport(&transport_table, transport)
}

/// Transports that spray say over how many paths; others take one path per flow.
fn visit_paths(table: &Table<'_>, paths: &mut Paths) -> PyResult<()> {
    match paths {
        Paths::Ecmp => Ok(()),
        Paths::Spray(paths) => table.at("paths", paths),
    }
}

fn visit_transport(table: &Table<'_>, transport: &mut TransportKind) -> PyResult<()> {
    match transport {
        TransportKind::Ideal | TransportKind::Roce => Ok(()),
        TransportKind::Dctcp(own) => visit_dctcp(table, own),
        TransportKind::Dcqcn(own) => visit_dcqcn(table, own),
        TransportKind::Ndp(own) => {
            table.at("window", &mut own.window)?;
            table.at("pull_percent", &mut own.pull_percent)?;
            table.time("timeout_ps", &mut own.timeout)
        }
        TransportKind::Eqds(own) => {
            table.at("window", &mut own.window)?;
            table.at("pull_percent", &mut own.pull_percent)?;
            table.time("timeout_ps", &mut own.timeout)
        }
    }
}

fn visit_dctcp(table: &Table<'_>, own: &mut DctcpParameters) -> PyResult<()> {
    table.at("initial_window", &mut own.initial_window)?;
    table.at("initial_threshold", &mut own.initial_threshold)?;
    table.at("gain", &mut own.gain)?;
    table.at("initial_alpha", &mut own.initial_alpha)?;
    table.time("min_timeout_ps", &mut own.min_timeout)?;
    table.time("timer_tick_ps", &mut own.timer_tick)
}

fn visit_dcqcn(table: &Table<'_>, own: &mut DcqcnParameters) -> PyResult<()> {
    table.time("cnp_interval_ps", &mut own.cnp_interval)?;
    table.time("cut_interval_ps", &mut own.cut_interval)?;
    table.time("alpha_interval_ps", &mut own.alpha_interval)?;
    table.at("gain", &mut own.gain)?;
    table.time("increase_interval_ps", &mut own.increase_interval)?;
    table.at("increase_bytes", &mut own.increase_bytes)?;
    table.at("recovery_stages", &mut own.recovery_stages)?;
    table.rate("additive_bps", &mut own.additive)?;
    table.rate("hyper_bps", &mut own.hyper)?;
    table.rate("minimum_bps", &mut own.minimum)?;
    table.at("clamp_target", &mut own.clamp_target)?;
    table.time("timeout_ps", &mut own.timeout)
}

/// The parameters of a transport's profile, as tables.
pub(super) fn write(
    py: Python<'_>,
    (mut config, mut transport): (Config, TransportKind),
) -> PyResult<Bound<'_, PyDict>> {
    let table = Table { entries: PyDict::new(py), is_read: false };
    visit(&table, &mut config, &mut transport)?;
    Ok(table.entries)
}

/// A profile with the parameters of the tables, which have all of them.
pub(super) fn read(
    tables: &Bound<'_, PyDict>,
    (mut config, mut transport): (Config, TransportKind),
) -> PyResult<(Config, TransportKind)> {
    let table = Table { entries: tables.clone(), is_read: true };
    visit(&table, &mut config, &mut transport)?;
    Ok((config, transport))
}
