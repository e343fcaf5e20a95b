//! Records: what Python hands over as a mapping or an object, read by serde, and what it gets back,
//! as a dictionary.

use crate::arrays::refuse;
use lightloom_model::Invalid;
use numpy::PyUntypedArray;
use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pythonize::Depythonizer;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A record from a mapping, or from an object whose attributes are its fields; what is wrong with
/// it is one line that begins with the key.
#[derive(Clone, Copy)]
pub(crate) struct Record<T>(pub(crate) T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Record<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let values = plain(&object)?;
        let record = serde_path_to_error::deserialize(&mut Depythonizer::from_object(&values));
        record.map(Self).map_err(|error| {
            let (key, text) = (error.path().to_string(), in_one_line(&error.inner().to_string()));
            let is_named = key == "." || text.starts_with(&key);
            PyValueError::new_err(if is_named { text } else { format!("{key}: {text}") })
        })
    }
}

/// The same as plain values: objects as their attributes by name, arrays as lists.
fn plain<'py>(values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    if values.cast::<PyUntypedArray>().is_ok() {
        return values.call_method0("tolist");
    }
    if let Ok(mapping) = values.cast::<PyDict>() {
        let lists = PyDict::new(values.py());
        for (key, value) in mapping {
            lists.set_item(key, plain(&value)?)?;
        }
        return Ok(lists.into_any());
    }
    if let Ok(tuple) = values.cast::<PyTuple>() {
        let lists = tuple.iter().map(|value| plain(&value)).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyTuple::new(values.py(), lists)?.into_any());
    }
    match values.getattr_opt("__dict__")? {
        Some(attributes) if attributes.is_instance_of::<PyDict>() => plain(&attributes),
        _ => Ok(values.clone()),
    }
}

/// A text that may quote what was given.
fn in_one_line(text: &str) -> String {
    let breaks = |sign: char| sign.is_control() || matches!(sign, '\u{2028}' | '\u{2029}');
    let escaped = |sign: char| {
        if breaks(sign) { sign.escape_debug().to_string() } else { sign.to_string() }
    };
    text.chars().map(escaped).collect()
}

/// The values of a record by name.
pub(crate) fn to_values<'py, T: Serialize>(
    py: Python<'py>,
    record: &T,
) -> PyResult<Bound<'py, PyAny>> {
    pythonize::pythonize(py, record).map_err(|error| refuse(Invalid(error.to_string())))
}

/// A dictionary of values by name: what a dataclass of Python takes, whose fields these are.
macro_rules! values {
    ($py:expr; $($name:ident: $value:expr),+ $(,)?) => {{
        let values = pyo3::types::PyDict::new($py);
        $(values.set_item(stringify!($name), $value)?;)+
        values
    }};
}

pub(crate) use values;
