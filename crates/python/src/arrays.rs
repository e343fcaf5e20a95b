//! Arrays and records from Python, copied, so that the interpreter lock can be released and nobody
//! else changes them meanwhile.
//!
//! What has arrays is a struct that derives `FromPyObject`, from attributes or from a dictionary;
//! [`Given`] turns whatever is wrong with one into one line.

use lightloom_model::{Invalid, Rate};
use numpy::ndarray::Dimension;
use numpy::{Element, PyArray, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::Borrowed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

/// A matrix, row after row.
#[derive(Debug, Clone)]
pub(crate) struct Matrix<T> {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<T>,
}

impl<T> Matrix<T> {
    /// Refuses a matrix with another number of columns.
    pub(crate) fn expect_columns(&self, name: &str, columns: usize) -> PyResult<()> {
        if self.columns == columns {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("{name}: expected rows of {columns} values")))
    }

    /// Refuses a matrix of another size.
    pub(crate) fn expect_square(&self, name: &str, size: usize) -> PyResult<()> {
        if self.rows == size && self.columns == size {
            return Ok(());
        }
        let Self { rows, columns, .. } = self;
        let text = format!("{name}: expected {size} x {size} values, got {rows} x {columns}");
        Err(PyValueError::new_err(text))
    }

    /// Its rows; there are none if it has no columns.
    pub(crate) fn iter_rows(&self) -> impl Iterator<Item = &[T]> {
        self.values.chunks_exact(self.columns.max(1))
    }
}

/// A list of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Column<T>(pub(crate) Vec<T>);

/// Matrices one after another.
#[derive(Debug, Clone)]
pub(crate) struct Cube<T> {
    pub(crate) shape: [usize; 3],
    pub(crate) values: Vec<T>,
}

impl<T: Element + Copy> FromPyObject<'_, '_> for Matrix<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let (shape, values) = copied::<T, numpy::Ix2>(&object, "matrix")?;
        Ok(Self { rows: shape[0], columns: shape[1], values })
    }
}

impl<T: Element + Copy> FromPyObject<'_, '_> for Column<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        copied::<T, numpy::Ix1>(&object, "list").map(|(_, values)| Self(values))
    }
}

impl<T: Element + Copy> FromPyObject<'_, '_> for Cube<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let (shape, values) = copied::<T, numpy::Ix3>(&object, "three-dimensional array")?;
        Ok(Self { shape: [shape[0], shape[1], shape[2]], values })
    }
}

/// An array of any shape, row-major.
#[derive(Debug, Clone)]
pub(crate) struct Flat<T>(pub(crate) Vec<T>);

impl<T: Element + Copy> FromPyObject<'_, '_> for Flat<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        copied::<T, numpy::IxDyn>(&object, "flat array").map(|(_, values)| Self(values))
    }
}

/// Rates in bits per second.
#[derive(Debug, Clone)]
pub(crate) struct Rates(pub(crate) Vec<Rate>);

impl FromPyObject<'_, '_> for Rates {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let Column(rates) = Column::<u64>::extract(object)?;
        Ok(Self(rates.into_iter().map(Rate).collect()))
    }
}

/// The shape and the values of an array, row after row.
pub(crate) fn copied<T: Element + Copy, D: Dimension>(
    object: &Bound<'_, PyAny>,
    what: &str,
) -> PyResult<(Vec<usize>, Vec<T>)> {
    let Ok(array) = object.cast::<PyArray<T, D>>() else {
        return Err(mismatch::<T>(object, what));
    };
    let whole_steps =
        array.strides().iter().all(|step| step.unsigned_abs().is_multiple_of(size_of::<T>()));
    if !array.is_aligned() || !whole_steps {
        return Err(PyValueError::new_err("expected an aligned array; make a copy of it"));
    }
    let array = array.try_readonly().map_err(|error| PyValueError::new_err(error.to_string()))?;
    let shape = array.shape().to_vec();
    let view = array.as_array();
    let values = match view.as_slice() {
        Some(values) => values.to_vec(),
        None => view.iter().copied().collect(),
    };
    Ok((shape, values))
}

fn mismatch<T: Element>(object: &Bound<'_, PyAny>, what: &str) -> PyErr {
    let expected = T::get_dtype(object.py());
    let shape = match object.cast::<PyUntypedArray>() {
        Ok(array) => format!("{} of shape {:?}", array.dtype(), array.shape()),
        Err(_) => match object.get_type().name() {
            Ok(name) => name.to_string(),
            Err(error) => return error,
        },
    };
    PyTypeError::new_err(format!("expected a {what} of {expected}, got {shape}"))
}

/// A record whose attributes are all converted; what is wrong with one is one line.
pub(crate) struct Given<T>(pub(crate) T);

impl<'a, 'py, T: FromPyObject<'a, 'py>> FromPyObject<'a, 'py> for Given<T> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        T::extract(object).map(Self).map_err(|error| one_line(py, error.into()))
    }
}

/// What is wrong with an attribute, after its name.
fn one_line(py: Python<'_>, error: PyErr) -> PyErr {
    let mut parts = Vec::new();
    let mut last = error;
    loop {
        let text = last.value(py).to_string();
        let field = text.strip_prefix("failed to extract field ");
        parts.push(field.unwrap_or(&text).to_owned());
        match last.cause(py) {
            Some(cause) => last = cause,
            None => break,
        }
    }
    let text = parts.join(": ");
    let is_type = last.is_instance_of::<PyTypeError>(py);
    if is_type { PyTypeError::new_err(text) } else { PyValueError::new_err(text) }
}

/// Input that the core refuses, as Python's `ValueError`.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn refuse(Invalid(text): Invalid) -> PyErr {
    PyValueError::new_err(text)
}
