//! The closed sets of names that the core knows, for `lightloom.schedule.choices` and others.

use lightloom_decide::Reconfigure;
use lightloom_model::{AllToAll, Allocator, Choice, Fibers, FirstAllToAll};
use lightloom_packetsim::{Balancing, PlaneChoice, TransportName};
use lightloom_predict::PredictorName;
use lightloom_schedule::hybrid::{ChunkMethod, HybridMethod};
use lightloom_schedule::permutation::Method;
use lightloom_schedule::relay::{PathKind, RelayVerdict};
use lightloom_schedule::rotornet::Cycling;
use lightloom_schedule::steps::{Estimator, Turning};
use lightloom_schedule::topoopt::Strides;
use lightloom_schedule::xnest_plus::{Reading, SwitchRule};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Adds the function to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(choices, module)?)
}

/// Name and description of every choice.
type Entries = Vec<(&'static str, &'static str)>;

fn entries<T: Choice>() -> Entries {
    T::ALL.iter().map(|choice| (choice.name(), choice.description())).collect()
}

/// A set that Python may list: its key, and what lists it.
type Set = (&'static str, fn() -> Entries);

/// Every set that Python may list.
const SETS: [Set; 20] = [
    (AllToAll::KEY, entries::<AllToAll>),
    (Allocator::KEY, entries::<Allocator>),
    (Balancing::KEY, entries::<Balancing>),
    (ChunkMethod::KEY, entries::<ChunkMethod>),
    (Cycling::KEY, entries::<Cycling>),
    (Estimator::KEY, entries::<Estimator>),
    (Fibers::KEY, entries::<Fibers>),
    (FirstAllToAll::KEY, entries::<FirstAllToAll>),
    (HybridMethod::KEY, entries::<HybridMethod>),
    (Method::KEY, entries::<Method>),
    (PredictorName::KEY, entries::<PredictorName>),
    (Reading::KEY, entries::<Reading>),
    (Reconfigure::KEY, entries::<Reconfigure>),
    (PathKind::KEY, entries::<PathKind>),
    (PlaneChoice::KEY, entries::<PlaneChoice>),
    (RelayVerdict::KEY, entries::<RelayVerdict>),
    (Strides::KEY, entries::<Strides>),
    (SwitchRule::KEY, entries::<SwitchRule>),
    (TransportName::KEY, entries::<TransportName>),
    (Turning::KEY, entries::<Turning>),
];

/// The names of a set and what each is, in the order in which messages list them.
#[pyfunction]
fn choices(key: &str) -> PyResult<Entries> {
    let found = SETS.iter().find(|(known, _)| *known == key);
    let (_, list) = found.ok_or_else(|| {
        let known: Vec<&str> = SETS.iter().map(|(known, _)| *known).collect();
        let key: String = key.chars().take(60).flat_map(char::escape_debug).collect();
        PyValueError::new_err(format!("no set of choices '{key}': expected {}", known.join(", ")))
    })?;
    Ok(list())
}

/// The choice of this name.
pub(crate) fn parse<T: Choice>(name: &str) -> PyResult<T> {
    T::parse(name).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A choice by its name, both ways.
pub(crate) struct Named<T>(pub(crate) T);

impl<'a, 'py, T: Choice> FromPyObject<'a, 'py> for Named<T> {
    type Error = PyErr;

    fn extract(name: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let given: String = name.extract()?;
        parse(&given).map(Self)
    }
}

impl<'py, T: Choice> IntoPyObject<'py> for Named<T> {
    type Target = PyString;
    type Output = Bound<'py, PyString>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(PyString::new(py, self.0.name()))
    }
}
