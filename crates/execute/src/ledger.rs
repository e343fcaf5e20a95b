//! The ledger: bytes by purpose and by what carried them, and the proof that none is lost.

use crate::error::ExecuteError;
use crate::network::Path;
use lightloom_model::PurposeId;

/// The columns that every ledger has: inside servers, and the parts that most networks have. Those
/// of other parts follow, then what relays passed on.
const COLUMNS: [&str; 4] = ["nvswitch", "eps", "ocs", "direct"];
const NVSWITCH: usize = 0;

/// Bytes of one purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurposeBytes {
    /// The purpose.
    pub name: String,
    /// Bytes moved, by column.
    pub carried: Vec<u64>,
    /// Bytes between workers that the task graph implies.
    pub implied: u64,
    /// Bytes that left a worker.
    pub sent: u64,
    /// Bytes that arrived at a worker.
    pub received: u64,
}

/// Bytes moved, by purpose and by the part of the network that carried them, and both ends of every
/// transfer between workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// What carried the bytes of each column; relayed bytes are counted once more per relay.
    pub columns: Vec<&'static str>,
    /// By purpose.
    pub purposes: Vec<PurposeBytes>,
    /// The column of each part of the network, after that of `nvswitch`.
    column_of: Vec<usize>,
}

impl Ledger {
    /// A ledger for purposes of these names and the bytes that the task graph implies for each, on
    /// a network of parts of these names.
    pub(crate) fn new(
        names: &[String],
        implied: &[u64],
        parts: impl Iterator<Item = &'static str>,
    ) -> Self {
        let mut columns = COLUMNS.to_vec();
        let mut column_of = vec![NVSWITCH];
        for name in parts {
            let place = columns.iter().position(|&column| column == name);
            column_of.push(place.unwrap_or(columns.len()));
            if place.is_none() {
                columns.push(name);
            }
        }
        columns.push("relayed");
        let purposes = names.iter().zip(implied).map(|(name, &implied)| PurposeBytes {
            name: name.clone(),
            carried: vec![0; columns.len()],
            implied,
            ..PurposeBytes::default()
        });
        Self { purposes: purposes.collect(), columns, column_of }
    }

    /// Notes bytes of a transfer between two workers that begins.
    pub(crate) fn send(&mut self, purpose: PurposeId, path: &Path, bytes: u64) {
        self.purposes[purpose.index()].sent += bytes;
        self.add(purpose, self.column_of[path.part.index()], bytes);
        self.add(purpose, self.columns.len() - 1, bytes * u64::from(path.relays));
    }

    /// Notes the arrival of bytes.
    pub(crate) fn receive(&mut self, purpose: PurposeId, bytes: u64) {
        self.purposes[purpose.index()].received += bytes;
    }

    /// Notes bytes inside servers.
    pub(crate) fn inside(&mut self, purpose: PurposeId, bytes: u64) {
        self.add(purpose, NVSWITCH, bytes);
    }

    fn add(&mut self, purpose: PurposeId, column: usize, bytes: u64) {
        let cell = &mut self.purposes[purpose.index()].carried[column];
        *cell = cell.saturating_add(bytes);
    }

    /// Checks that what was sent was received and is what the task graph implies.
    ///
    /// # Errors
    /// Names the first purpose for which it is not.
    pub(crate) fn check(&self) -> Result<(), ExecuteError> {
        for PurposeBytes { name, implied, sent, received, .. } in &self.purposes {
            if implied != sent || sent != received {
                return Err(ExecuteError::NotConserved(format!(
                    "bytes of {name} are not conserved: {implied} implied by the task graph, \
                     {sent} sent, {received} received"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::PartId;
    use lightloom_model::Duration;

    fn ledger() -> Ledger {
        Ledger::new(&["tp".into(), "ep".into()], &[0, 5], ["eps", "ocs", "rotor"].into_iter())
    }

    fn path(part: usize, relays: u32) -> Path {
        let (latency, part) = (Duration::ZERO, PartId::at(part));
        Path { part, latency, relays, sending_nics: 1, receiving_nics: 1, forwarding_gpus: 0 }
    }

    #[test]
    fn a_lost_byte_is_found() {
        let mut ledger = ledger();
        ledger.send(PurposeId(1), &path(1, 0), 5);
        ledger.receive(PurposeId(1), 4);
        assert_eq!(
            ledger.check().unwrap_err().to_string(),
            "bytes of ep are not conserved: 5 implied by the task graph, 5 sent, 4 received"
        );
        ledger.receive(PurposeId(1), 1);
        assert_eq!(ledger.check(), Ok(()));
        assert_eq!(ledger.purposes[1].carried, [0, 0, 5, 0, 0, 0]);
    }

    #[test]
    fn a_byte_that_was_never_to_be_sent_is_found() {
        let mut ledger = ledger();
        for bytes in [5, 1] {
            ledger.send(PurposeId(1), &path(0, 0), bytes);
            ledger.receive(PurposeId(1), bytes);
        }
        assert_eq!(
            ledger.check().unwrap_err().to_string(),
            "bytes of ep are not conserved: 5 implied by the task graph, 6 sent, 6 received"
        );
    }

    #[test]
    fn relayed_bytes_count_where_they_leave_and_once_per_relay() {
        let mut ledger = ledger();
        ledger.send(PurposeId(0), &path(1, 1), 3);
        ledger.send(PurposeId(0), &path(0, 1), 4);
        ledger.send(PurposeId(0), &path(2, 2), 5);
        assert_eq!(ledger.columns, ["nvswitch", "eps", "ocs", "direct", "rotor", "relayed"]);
        assert_eq!(ledger.purposes[0].carried, [0, 4, 3, 0, 5, 3 + 4 + 10]);
        assert_eq!(ledger.purposes[0].sent, 12);
        ledger.inside(PurposeId(0), u64::MAX);
        ledger.inside(PurposeId(0), 1);
        assert_eq!(ledger.purposes[0].carried[NVSWITCH], u64::MAX);
    }
}
