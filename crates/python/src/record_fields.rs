//! Records that users write, for `lightloom.schedule.record_fields`: their fields as Python reads
//! them, and their values from Python.

use crate::arrays::refuse;
use crate::records::{Record, to_values};
use lightloom_decide::{Policy, Region};
use lightloom_model::record::{Field, Plain, Takes};
use lightloom_model::{Failures, Invalid, RelayCost, SwitchTiming};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Adds the functions to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<RecordField>()?;
    module.add_function(wrap_pyfunction!(record_fields, module)?)?;
    module.add_function(wrap_pyfunction!(record_values, module)?)?;
    module.add_function(wrap_pyfunction!(switching_time_s, module)?)
}

/// Values as the core has them.
type Values<'py> = Bound<'py, PyAny>;

/// A record that Python may make: its name, its fields, and its values for those written.
type Entry = (&'static str, fn() -> Vec<Field>, for<'py> fn(&Values<'py>) -> PyResult<Values<'py>>);

const fn entry<T: lightloom_model::Record>() -> Entry {
    (T::NAME, T::fields, |written| to_values(written.py(), &written.extract::<Record<T>>()?.0))
}

/// Every record that Python may make.
const RECORDS: [Entry; 5] = [
    entry::<Failures>(),
    entry::<Policy>(),
    entry::<Region>(),
    entry::<RelayCost>(),
    entry::<SwitchTiming>(),
];

fn find(name: &str) -> PyResult<&'static Entry> {
    RECORDS.iter().find(|(known, ..)| *known == name).ok_or_else(|| {
        let known: Vec<&str> = RECORDS.iter().map(|(known, ..)| *known).collect();
        let name: String = name.chars().take(60).flat_map(char::escape_debug).collect();
        refuse(Invalid(format!("no record '{name}': expected {}", known.join(", "))))
    })
}

/// One field of a record; what it `takes` is a flag, a quantity or a whole number within `limits`
/// (also one for each server, if `per_server`), a name or a record (`of` which set, or which),
/// entries of one number or two, or a matrix of flags. One that need not be written and has no
/// default may be nothing.
#[pyclass(frozen, get_all, module = "lightloom._core")]
struct RecordField {
    name: &'static str,
    description: &'static str,
    takes: &'static str,
    limits: Option<(f64, f64)>,
    per_server: bool,
    of: Option<&'static str>,
    required: bool,
    default: Option<Py<PyAny>>,
}

/// The fields of a record, in order.
#[pyfunction]
fn record_fields(py: Python<'_>, name: &str) -> PyResult<Vec<RecordField>> {
    let field = |field: Field| {
        let required = field.default.is_none();
        let default = match field.default {
            Some(Plain::Flag(flag)) => Some(flag.into_pyobject(py)?.to_owned().into_any().unbind()),
            Some(Plain::Number(number)) => Some(number.into_pyobject(py)?.into_any().unbind()),
            Some(Plain::Whole(number)) => Some(number.into_pyobject(py)?.into_any().unbind()),
            Some(Plain::Name(name)) => Some(name.into_pyobject(py)?.into_any().unbind()),
            Some(Plain::Empty) => Some(PyTuple::empty(py).into_any().unbind()),
            Some(Plain::Nothing) | None => None,
        };
        let (takes, per_server) = match field.takes {
            Takes::PerServer(takes) => (*takes, true),
            takes => (takes, false),
        };
        let (takes, limits, of) = match takes {
            Takes::Flag => ("flag", None, None),
            Takes::Quantity(low, high) => ("quantity", Some((low, high)), None),
            Takes::Whole(low, high) => ("whole", Some((low as f64, high as f64)), None),
            Takes::Name(set) => ("name", None, Some(set)),
            Takes::Record(name) => ("record", None, Some(name)),
            Takes::Entries { pairs: false } => ("numbers", None, None),
            Takes::Entries { pairs: true } => ("pairs", None, None),
            Takes::Pairs => ("matrix", None, None),
            Takes::PerServer(_) => unreachable!("one per server, of one per server"),
        };
        Ok(RecordField {
            name: field.name,
            description: field.description,
            takes,
            limits,
            per_server,
            of,
            required,
            default,
        })
    };
    find(name)?.1().into_iter().map(field).collect()
}

/// The values of a record of this name, as the core has them: times are whole picoseconds.
#[pyfunction]
#[allow(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]
fn record_values<'py>(name: &str, written: Bound<'py, PyDict>) -> PyResult<Values<'py>> {
    find(name)?.2(written.as_any())
}

/// Seconds until circuits are up if this many pairs change.
#[pyfunction]
fn switching_time_s(timing: Record<SwitchTiming>, pairs: u32) -> f64 {
    timing.0.for_pairs(pairs).as_seconds()
}
