//! Packets as the model of a run, and the book of phases of `lightloom.simulate`.

use crate::execute::{Watcher, refuse};
use crate::network::PyNetwork;
use lightloom_execute::{Network, PacketOptions, PhaseBook as Book, PhaseCount};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Transport; MTU and queue in bytes if others than the transport's; seed.
type Packets = (String, Option<u32>, Option<u32>, u64);

/// What a run is asked to be other than fluid flows.
#[derive(FromPyObject)]
pub(crate) enum PacketModel<'py> {
    /// Flows stretched by phases.
    Phases(PyRef<'py, PhaseBook>),
    /// Packets throughout.
    Packets(Packets),
}

/// The same, without the interpreter.
pub(crate) enum ReadModel {
    /// See [`PacketModel`].
    Phases(Arc<Mutex<Book>>),
    /// See [`PacketModel`].
    Packets(PacketOptions),
}

impl PacketModel<'_> {
    /// For a network.
    pub(crate) fn of(self, network: &Network) -> PyResult<ReadModel> {
        Ok(match self {
            Self::Phases(phases) => ReadModel::Phases(Arc::clone(&phases.book)),
            Self::Packets(packets) => ReadModel::Packets(read_packets(packets, network)?),
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
    pub(crate) fn options(&self) -> &PacketOptions {
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

fn read_packets((name, mtu, queue, seed): Packets, network: &Network) -> PyResult<PacketOptions> {
    let mut options =
        PacketOptions::new(&name, network.extent()).map_err(|error| refuse(error.into()))?;
    options.config.seed = seed;
    if let Some(mtu) = mtu {
        options.config.mtu = mtu;
    }
    if let Some(queue) = queue {
        options.config.queue_bytes = queue;
    }
    Ok(options)
}

/// The phases of steps on one network; see `lightloom.simulate.Phases`.
#[pyclass(frozen)]
pub struct PhaseBook {
    book: Arc<Mutex<Book>>,
}

#[pymethods]
impl PhaseBook {
    #[new]
    fn new(
        network: PyNetwork,
        packets: Packets,
        sample: Option<usize>,
        purposes: Option<Vec<String>>,
    ) -> PyResult<Self> {
        let PyNetwork(network) = network;
        let options = read_packets(packets, &network)?;
        let mut book = Book::new(&network, &options, sample).map_err(refuse)?;
        if let Some(names) = purposes {
            book.choose(names);
        }
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

    /// Simulates what is pending.
    fn simulate(&self, py: Python<'_>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let (_, hops) = self.pending(py);
        let mut watcher = Watcher { progress, total: hops.max(1), error: None };
        let result = py.detach(|| lock(&self.book).simulate(&mut watcher));
        match watcher.error {
            Some(error) => Err(error),
            None => result.map_err(refuse),
        }
    }

    /// What is known, by purpose.
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts: Vec<(String, PhaseCount)> = py.detach(|| {
            let book = lock(&self.book);
            book.counts().map(|(name, count)| (name.to_string(), *count)).collect()
        });
        let given = PyDict::new(py);
        for (name, count) in counts {
            let row = PyDict::new(py);
            row.set_item("distinct", count.distinct)?;
            row.set_item("simulated", count.simulated)?;
            row.set_item("size_bytes", count.bytes)?;
            row.set_item("simulated_bytes", count.simulated_bytes)?;
            row.set_item("mean", count.mean())?;
            row.set_item("minimum", count.minimum)?;
            row.set_item("maximum", count.maximum)?;
            row.set_item("packet_hops", count.packet_hops)?;
            given.set_item(name, row)?;
        }
        Ok(given)
    }
}
