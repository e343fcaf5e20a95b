//! Records of plain fields, which their own crate defines and serde reads from a mapping.

use pyo3::Borrowed;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pythonize::Depythonizer;
use serde::de::DeserializeOwned;

/// A record; what is wrong with it is one line that begins with the key.
pub(crate) struct Record<T>(pub(crate) T);

impl<T: DeserializeOwned> FromPyObject<'_, '_> for Record<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let record = serde_path_to_error::deserialize(&mut Depythonizer::from_object(&object));
        record.map(Self).map_err(|error| {
            let (key, text) = (error.path().to_string(), error.inner().to_string());
            PyValueError::new_err(if key == "." { text } else { format!("{key}: {text}") })
        })
    }
}
