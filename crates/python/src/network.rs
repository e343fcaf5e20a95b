//! Networks: the dataclasses of `lightloom.fabric.network`, read by name.
//!
//! A part of a network is known by the `kind` of its class; [`PARTS`] is the list.

use crate::errors::NetworkInvalid;
use crate::records::Record;
use lightloom_execute::network::{Network, PartConfig};
use lightloom_execute::parts::{
    Crossbars, Direct, Eps, Ocs, RackCircuits, ScheduledCircuits, SwitchGraph,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// What reads the parts of each kind.
type Reader = fn(&Bound<'_, PyAny>) -> PyResult<Arc<dyn PartConfig>>;

/// Every kind of part.
const PARTS: [(&str, Reader); 7] = [
    ("eps", part_of::<Eps>),
    ("switches", part_of::<SwitchGraph>),
    ("ocs", part_of::<Ocs>),
    ("direct", part_of::<Direct>),
    ("scheduled", part_of::<ScheduledCircuits>),
    ("racks", part_of::<RackCircuits>),
    ("crossbar", part_of::<Crossbars>),
];

/// A network.
pub(crate) struct PyNetwork(pub(crate) Network);

impl FromPyObject<'_, '_> for PyNetwork {
    type Error = PyErr;

    fn extract(network: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let parts: Vec<Bound<'_, PyAny>> = network.getattr("parts")?.extract()?;
        let parts = parts.iter().map(part).collect::<PyResult<_>>()?;
        let others = network.getattr("__dict__")?.cast_into::<PyDict>()?.copy()?;
        others.del_item("parts")?;
        Ok(Self(Network { parts, ..read(&others)? }))
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

fn part_of<T: PartConfig + DeserializeOwned + 'static>(
    part: &Bound<'_, PyAny>,
) -> PyResult<Arc<dyn PartConfig>> {
    Ok(Arc::new(read::<T>(part)?))
}

/// A record; whatever is wrong with it is wrong with the network.
fn read<T: DeserializeOwned>(object: &Bound<'_, PyAny>) -> PyResult<T> {
    let record = object.extract::<Record<T>>();
    record
        .map(|record| record.0)
        .map_err(|error| NetworkInvalid::new_err(error.value(object.py()).to_string()))
}
