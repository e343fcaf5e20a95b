//! Why flows do not finish.

use crate::core::Core;
use crate::error::PacketError;

/// Stuck flows that are named.
const NAMED: usize = 3;

/// Says what flows that will never finish wait for.
pub(crate) fn stuck(core: &Core) -> PacketError {
    let unfinished: Vec<u32> =
        (0..core.flow_count() as u32).filter(|&flow| core.flow(flow).done_at == u64::MAX).collect();
    let named = unfinished.iter().take(NAMED).map(|&flow| {
        let ([source, destination], state) = (core.ends(flow), core.flow(flow));
        format!(
            "flow {flow} from NIC {source} to NIC {destination}, {} of {} packets received",
            state.received, state.packets
        )
    });
    PacketError::Stuck(format!(
        "{} flows will never finish: {}{}",
        unfinished.len(),
        named.collect::<Vec<_>>().join("; "),
        if unfinished.len() > NAMED { "; ..." } else { "" }
    ))
}
