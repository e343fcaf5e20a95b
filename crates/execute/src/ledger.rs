//! The books: bytes by purpose and carrier, and the proof that none is lost.

use crate::error::ExecuteError;
use lightloom_model::{Carrier, Category, Invalid};

/// What bytes are moved for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Purpose {
    /// Tensor parallelism.
    Tp,
    /// Dispatch and combine.
    Ep,
    /// Pipeline.
    Pp,
    /// Gradients and parameters.
    Dp,
    /// Context parallelism.
    Cp,
}

impl Purpose {
    /// Names in results, in order of the number.
    pub const NAMES: [&'static str; 5] = ["tp", "ep", "pp", "dp", "cp"];

    /// The purpose of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn from_name(name: &str) -> Result<Self, Invalid> {
        let all = [Self::Tp, Self::Ep, Self::Pp, Self::Dp, Self::Cp];
        let found = all.into_iter().find(|&purpose| Self::NAMES[purpose as usize] == name);
        found.ok_or_else(|| {
            Invalid(format!("purpose {name:?}: expected {}", Self::NAMES.join(", ")))
        })
    }

    /// The purpose of a communication task of this category.
    ///
    /// # Errors
    /// If the category is none of communication.
    pub fn of(category: Category) -> Result<Self, Invalid> {
        match category {
            Category::Tp => Ok(Self::Tp),
            Category::Ep => Ok(Self::Ep),
            Category::Pp => Ok(Self::Pp),
            Category::Dp => Ok(Self::Dp),
            Category::Cp => Ok(Self::Cp),
            other => Err(Invalid(format!(
                "a communication task is charged to {}: expected tp, ep, pp, dp or cp",
                other.name()
            ))),
        }
    }
}

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

/// Bytes moved, by purpose and carrier, and both ends of every transfer between workers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    /// `[purpose][carrier]`.
    pub bytes: [[u64; 5]; 5],
    /// Bytes that the task graph implies, by purpose, between workers.
    pub implied: [u64; 5],
    /// Bytes that left a worker.
    pub sent: [u64; 5],
    /// Bytes that arrived at a worker.
    pub received: [u64; 5],
}

impl Ledger {
    /// Notes a transfer between two workers that begins.
    pub fn send(&mut self, purpose: Purpose, carrier: Carrier, bytes: u64) {
        self.sent[purpose as usize] += bytes;
        self.add(purpose, column(carrier), bytes);
    }

    /// Notes the arrival of bytes.
    pub fn receive(&mut self, purpose: Purpose, bytes: u64) {
        self.received[purpose as usize] += bytes;
    }

    /// Notes bytes inside servers.
    pub fn inside(&mut self, purpose: Purpose, bytes: u64) {
        self.add(purpose, NVSWITCH, bytes);
    }

    /// Notes bytes forwarded by relays.
    pub fn relay(&mut self, purpose: Purpose, bytes: u64) {
        self.add(purpose, RELAYED, bytes);
    }

    fn add(&mut self, purpose: Purpose, column: usize, bytes: u64) {
        let cell = &mut self.bytes[purpose as usize][column];
        *cell = cell.saturating_add(bytes);
    }

    /// Checks that what was sent was received and is what the task graph implies.
    ///
    /// # Errors
    /// Names the first purpose for which it is not.
    pub fn check(&self) -> Result<(), ExecuteError> {
        for (purpose, name) in Purpose::NAMES.iter().enumerate() {
            let (implied, sent) = (self.implied[purpose], self.sent[purpose]);
            let received = self.received[purpose];
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

    #[test]
    fn a_lost_byte_is_found() {
        let mut ledger = Ledger { implied: [0, 5, 0, 0, 0], ..Ledger::default() };
        ledger.send(Purpose::Ep, Carrier::Circuit, 5);
        ledger.receive(Purpose::Ep, 4);
        assert_eq!(
            ledger.check().unwrap_err().to_string(),
            "bytes of ep are not conserved: 5 implied by the task graph, 5 sent, 4 received"
        );
        ledger.receive(Purpose::Ep, 1);
        assert_eq!(ledger.check(), Ok(()));
        assert_eq!(ledger.bytes[1], [0, 0, 5, 0, 0]);
    }

    #[test]
    fn compute_moves_no_bytes() {
        let text = Purpose::of(Category::Expert).unwrap_err().to_string();
        assert_eq!(
            text,
            "a communication task is charged to expert: expected tp, ep, pp, dp or cp"
        );
    }
}
