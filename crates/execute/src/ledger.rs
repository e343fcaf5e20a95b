//! The ledger: bytes by purpose and carrier, and the proof that none is lost.

use crate::error::ExecuteError;
use lightloom_model::{Carrier, PurposeId};

/// Where bytes travel; relayed bytes are counted once more per relay.
pub const CARRIER_NAMES: [&str; 5] = ["nvswitch", "eps", "ocs", "direct", "relayed"];
pub(crate) const NVSWITCH: usize = 0;
pub(crate) const RELAYED: usize = 4;

fn column(carrier: Carrier) -> usize {
    match carrier {
        Carrier::Local => NVSWITCH,
        Carrier::Eps { .. } => 1,
        Carrier::Circuit => 2,
        // where they leave their source
        Carrier::Relay { circuit_in, .. } => 1 + usize::from(circuit_in),
        Carrier::Direct { .. } => 3,
    }
}

/// Bytes of one purpose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurposeBytes {
    /// The purpose.
    pub name: String,
    /// Bytes moved, by carrier.
    pub carried: [u64; CARRIER_NAMES.len()],
    /// Bytes between workers that the task graph implies.
    pub implied: u64,
    /// Bytes that left a worker.
    pub sent: u64,
    /// Bytes that arrived at a worker.
    pub received: u64,
}

/// Bytes moved, by purpose and carrier, and both ends of every transfer between workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// By purpose.
    pub purposes: Vec<PurposeBytes>,
}

impl Ledger {
    /// A ledger for purposes of these names and the bytes that the task graph implies for each.
    pub(crate) fn new(names: &[String], implied: &[u64]) -> Self {
        let purposes = names.iter().zip(implied).map(|(name, &implied)| PurposeBytes {
            name: name.clone(),
            implied,
            ..PurposeBytes::default()
        });
        Self { purposes: purposes.collect() }
    }

    /// Notes a transfer between two workers that begins, and the relays that it passes.
    pub(crate) fn send(&mut self, purpose: PurposeId, carrier: Carrier, bytes: u64, relays: u64) {
        self.purposes[purpose.index()].sent += bytes;
        self.add(purpose, column(carrier), bytes);
        self.add(purpose, RELAYED, bytes * relays);
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

    fn ledger() -> Ledger {
        Ledger::new(&["tp".into(), "ep".into()], &[0, 5])
    }

    #[test]
    fn a_lost_byte_is_found() {
        let mut ledger = ledger();
        ledger.send(PurposeId(1), Carrier::Circuit, 5, 0);
        ledger.receive(PurposeId(1), 4);
        assert_eq!(
            ledger.check().unwrap_err().to_string(),
            "bytes of ep are not conserved: 5 implied by the task graph, 5 sent, 4 received"
        );
        ledger.receive(PurposeId(1), 1);
        assert_eq!(ledger.check(), Ok(()));
        assert_eq!(ledger.purposes[1].carried, [0, 0, 5, 0, 0]);
    }

    #[test]
    fn relayed_bytes_count_where_they_leave_and_once_per_relay() {
        let mut ledger = ledger();
        let over = |circuit_in| Carrier::Relay { server: 3, circuit_in, circuit_out: true };
        ledger.send(PurposeId(0), over(true), 3, 1);
        ledger.send(PurposeId(0), over(false), 4, 1);
        ledger.send(PurposeId(0), Carrier::Direct { route: 0 }, 5, 2);
        assert_eq!(ledger.purposes[0].carried, [0, 4, 3, 5, 3 + 4 + 10]);
        assert_eq!(ledger.purposes[0].sent, 12);
        ledger.inside(PurposeId(0), u64::MAX);
        ledger.inside(PurposeId(0), 1);
        assert_eq!(ledger.purposes[0].carried[NVSWITCH], u64::MAX);
    }
}
