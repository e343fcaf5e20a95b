//! Programs of a packet simulation, and when their operations began and ended.

use crate::arrays::Column;
use lightloom_model::Duration;
use lightloom_packetsim::{Action, Milestone, PacketFlowId, Programs, Wait};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Where an operation sends no flow, or needs no unit.
const NONE: u32 = u32::MAX;

/// Operations of programs; `i` waits for `waits[wait_starts[i]..wait_starts[i + 1]]`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct OperationColumns {
    flow: Column<u32>,
    span_ps: Column<u64>,
    unit: Column<u32>,
    wait_starts: Column<u64>,
    waits: Column<u32>,
    milestones: Column<u8>,
}

impl OperationColumns {
    pub(super) fn programs(self) -> PyResult<Programs> {
        let (flows, starts, waits) = (self.flow.0, self.wait_starts.0, self.waits.0);
        let fits = [self.span_ps.0.len(), self.unit.0.len()] == [flows.len(); 2]
            && self.milestones.0.len() == waits.len()
            && starts.len() == flows.len() + 1
            && starts.is_sorted()
            && starts.first() == Some(&0)
            && starts.last() == Some(&(waits.len() as u64));
        if !fits {
            let text = "operations: expected a flow, a span, a unit and a rising place in waits \
                        for each, and a milestone for each wait";
            return Err(PyValueError::new_err(text));
        }
        let wait = |(&operation, &milestone): (&u32, &u8)| {
            let milestone = Milestone::ALL.get(usize::from(milestone)).copied();
            let milestone = milestone.ok_or_else(|| {
                PyValueError::new_err(format!(
                    "operation {operation}: expected a milestone below 3"
                ))
            })?;
            Ok(Wait { operation, milestone })
        };
        let waits: Vec<Wait> =
            waits.iter().zip(&self.milestones.0).map(wait).collect::<PyResult<_>>()?;
        let mut programs = Programs::default();
        for (index, &flow) in flows.iter().enumerate() {
            let (span, unit) = (Duration(self.span_ps.0[index]), self.unit.0[index]);
            let action = match flow {
                NONE => Action::Compute { span, unit: (unit != NONE).then_some(unit) },
                flow => Action::Send(PacketFlowId(flow)),
            };
            programs.add(action, &waits[starts[index] as usize..starts[index + 1] as usize]);
        }
        Ok(programs)
    }
}
