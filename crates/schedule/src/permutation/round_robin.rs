//! Cyclic shifts, each held to the largest demand on it.
//!
//! Shift `s` joins row `i` to column `i + s`, counted round the longer side. Each pair is served
//! by exactly one shift, so there are never more slots than lines. On demand with hot columns and
//! little else (MoE routing) this is close to the bound; on skewed pairs it is far from it.
//! Relabelling lines changes the shifts and hence the length.

use super::demand::Demand;
use super::slots::Slots;

pub(super) fn decompose(demand: &Demand) -> Slots {
    let (rows, columns) = (demand.rows, demand.columns);
    let around = rows.max(columns);
    let mut slots = Slots::default();
    for shift in 0..around {
        let from = slots.matchings.len();
        let mut hold = 0;
        for row in 0..rows {
            let column = if row + shift >= around { row + shift - around } else { row + shift };
            let bytes = if column < columns { demand.bytes[row * columns + column] } else { 0 };
            hold = hold.max(bytes);
            slots.matchings.push(if bytes > 0 { column as i32 } else { -1 });
        }
        if hold > 0 {
            slots.holds.push(hold);
        } else {
            slots.matchings.truncate(from);
        }
    }
    slots
}
