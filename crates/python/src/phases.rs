//! Packets as the model of a run, and the book of phases of `lightloom.simulate`.

use crate::arrays::Given;
use crate::errors::refuse;
use crate::network::PyNetwork;
use crate::records::values;
use crate::watcher::Watcher;
use lightloom_execute::{
    Network, PacketTransport, PhaseBook as Book, PhaseChoice, PhaseCount, PlaneFailure, Repeats,
};
use lightloom_model::{Duration, Time};
use lightloom_packetsim::PacketError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// `lightloom.simulate.Packets`: what is none is as the transport's reference has it.
#[derive(FromPyObject)]
pub(crate) struct Packets {
    transport: String,
    mtu_bytes: Option<u32>,
    queue_bytes: Option<u32>,
    seed: u64,
    repeats: String,
    /// Which plane, when it fails and is repaired, and how long until switches know, in ps.
    plane_failure: Option<(u32, u64, Option<u64>, u64)>,
}

/// What a run is asked to be other than fluid flows.
pub(crate) enum PacketModel<'py> {
    /// Flows stretched by phases.
    Phases(PyRef<'py, PhaseBook>),
    /// Packets throughout.
    Packets(Packets),
}

impl<'py> FromPyObject<'_, 'py> for PacketModel<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(book) = object.cast::<PhaseBook>() {
            return Ok(Self::Phases(book.to_owned().borrow()));
        }
        let Given(packets) = object.extract()?;
        Ok(Self::Packets(packets))
    }
}

/// The same, without the interpreter.
pub(crate) enum ReadModel {
    /// See [`PacketModel`].
    Phases(Arc<Mutex<Book>>),
    /// See [`PacketModel`].
    Packets(Box<PacketTransport>),
}

impl PacketModel<'_> {
    /// For a network.
    pub(crate) fn of(self, network: &Network) -> PyResult<ReadModel> {
        Ok(match self {
            Self::Phases(phases) => ReadModel::Phases(Arc::clone(&phases.book)),
            Self::Packets(packets) => ReadModel::Packets(Box::new(packets.options(network)?)),
        })
    }
}

impl ReadModel {
    /// The book, for as long as it is looked at.
    pub(crate) fn book(&self) -> Option<MutexGuard<'_, Book>> {
        match self {
            Self::Phases(book) => Some(lock(book)),
            Self::Packets(_) => None,
        }
    }

    /// How packets are sent, where there is no book.
    pub(crate) fn options(&self) -> &PacketTransport {
        match self {
            Self::Phases(_) => unreachable!("a book has its own"),
            Self::Packets(options) => options,
        }
    }
}

/// What panicked while it had the book left nothing half done that matters: phases are known or
/// pending.
fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Packets {
    /// For a network.
    fn options(self, network: &Network) -> PyResult<PacketTransport> {
        let fitted = |extent| {
            PacketTransport::new(&self.transport, extent).map_err(|error| refuse(error.into()))
        };
        let whole = fitted(network.extent())?;
        let mut options = fitted(network.extent_of(&whole))?;
        options.plane_failure = self.plane_failure.map(|(plane, time, repaired, detection)| {
            let (time, repaired) = (Time(time), repaired.map(Time));
            PlaneFailure { plane, time, repaired, detection: Duration(detection) }
        });
        options.config.seed = self.seed;
        options.repeats = match self.repeats.as_str() {
            "once" => Repeats::Once,
            "each" => Repeats::Each,
            "together" => Repeats::InOneNetwork,
            other => {
                let text = format!("repeats = '{other}': expected one of once, each, together");
                return Err(refuse(PacketError::Invalid(text).into()));
            }
        };
        if let Some(mtu) = self.mtu_bytes {
            options.config.mtu = mtu;
        }
        if let Some(queue) = self.queue_bytes {
            options.config.queue_bytes = queue;
        }
        Ok(options)
    }
}

/// The phases of steps on one network; see `lightloom.simulate.Phases`.
#[pyclass(frozen)]
pub(crate) struct PhaseBook {
    book: Arc<Mutex<Book>>,
}

#[pymethods]
impl PhaseBook {
    #[new]
    fn new(
        network: PyNetwork,
        packets: Given<Packets>,
        sample: Option<usize>,
        purposes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let PyNetwork(network) = network;
        let options = packets.0.options(&network)?;
        let choice = match sample.map(NonZeroUsize::new) {
            None => PhaseChoice::All,
            Some(Some(most)) => PhaseChoice::AtMost(most),
            Some(None) => {
                return Err(PyValueError::new_err("sample = 0: expected 1 phase or more"));
            }
        };
        let mut book = Book::new(&network, &options, choice).map_err(refuse)?;
        if let Some(names) = purposes {
            book.choose(names);
        }
        Ok(Self { book: Arc::new(Mutex::new(book)) })
    }

    /// A book of phases that are counted and never simulated.
    #[staticmethod]
    fn counting(network: PyNetwork, packets: Given<Packets>) -> PyResult<Self> {
        let PyNetwork(network) = network;
        let options = packets.0.options(&network)?;
        let book = Book::new(&network, &options, PhaseChoice::Counted).map_err(refuse)?;
        Ok(Self { book: Arc::new(Mutex::new(book)) })
    }

    /// Payload of a full packet, in bytes.
    fn mtu(&self, py: Python<'_>) -> u32 {
        py.detach(|| lock(&self.book).options().config.mtu)
    }

    /// Phases still to be simulated, and about how many packet-hops these are.
    fn pending(&self, py: Python<'_>) -> (usize, u64) {
        py.detach(|| lock(&self.book).pending())
    }

    /// About how many packet-hops everything is that was met, equal phases included.
    fn all_hops(&self, py: Python<'_>) -> u64 {
        py.detach(|| lock(&self.book).all_hops())
    }

    /// About how many flows everything is that was met, equal phases included.
    fn all_flows(&self, py: Python<'_>) -> u64 {
        py.detach(|| lock(&self.book).all_flows())
    }

    /// About how many packet-hops of whole steps are simulated, some of which repeat.
    fn placed_hops(&self, py: Python<'_>) -> u64 {
        py.detach(|| lock(&self.book).placed_hops())
    }

    /// Simulates what is pending.
    fn simulate(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let (_, hops) = self.pending(py);
        let mut watcher = Watcher::new(progress, hops);
        let result = py.detach(|| lock(&self.book).simulate(&mut watcher));
        match watcher.error {
            Some(error) => Err(error),
            None => result.map_err(refuse),
        }
    }

    /// What is known of each purpose that was met: `lightloom.simulate.PhaseCount` by name.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts: Vec<(String, PhaseCount)> = py.detach(|| {
            let book = lock(&self.book);
            book.counts().map(|(name, count)| (name.to_owned(), *count)).collect()
        });
        let times = PyDict::new(py);
        for (purpose, count) in counts.iter().filter(|(_, count)| count.distinct > 0) {
            let count = values!(py;
                distinct: count.distinct,
                simulated: count.simulated,
                size_bytes: count.bytes,
                simulated_bytes: count.simulated_bytes,
                mean: count.mean(),
                minimum: count.minimum,
                maximum: count.maximum,
                packet_hops: count.packet_hops,
            );
            times.set_item(purpose, count)?;
        }
        Ok(times)
    }
}
