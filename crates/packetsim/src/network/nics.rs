//! NICs: the links by which they send, and when the transport is woken for them.

use super::clock::{Clock, Timer};
use crate::topology::{LinkId, NicId, Topology};
use lightloom_model::Time;

const NO_NIC: NicId = NicId(u32::MAX);
const NEVER: Time = Time(u64::MAX);

/// When the transport is woken next for a NIC.
#[derive(Debug, Clone, Copy)]
struct Wake {
    /// [`NEVER`] if it is not.
    time: Time,
    /// Whether the event of the NIC is pending, then or later; an earlier time has a timer.
    has_event: bool,
}

/// All NICs.
#[derive(Debug, Clone)]
pub(super) struct Nics {
    uplinks: Vec<LinkId>,
    /// Per link the NIC that sends by it.
    senders: Vec<NicId>,
    wakes: Vec<Wake>,
}

impl Nics {
    pub(super) fn new(topology: &Topology) -> Self {
        let nics = (0..topology.nic_count() as u32).map(NicId);
        let uplinks: Vec<LinkId> = nics.map(|nic| topology.uplink(nic)).collect();
        let mut senders = vec![NO_NIC; topology.links().len()];
        for (nic, uplink) in uplinks.iter().enumerate() {
            senders[uplink.index()] = NicId(nic as u32);
        }
        let wakes = vec![Wake { time: NEVER, has_event: false }; uplinks.len()];
        Self { uplinks, senders, wakes }
    }

    pub(super) fn len(&self) -> usize {
        self.uplinks.len()
    }

    /// The link by which a NIC sends.
    #[inline]
    pub(super) fn uplink(&self, nic: NicId) -> LinkId {
        self.uplinks[nic.index()]
    }

    /// The NIC that sends by a link out of a host.
    #[inline]
    pub(super) fn sender(&self, link: LinkId) -> NicId {
        self.senders[link.index()]
    }

    /// Wakes the transport for a NIC at this time, unless it is woken earlier.
    #[inline]
    pub(super) fn wake(&mut self, clock: &mut Clock, nic: NicId, time: Time) {
        let time = time.max(clock.now());
        let wake = &mut self.wakes[nic.index()];
        if wake.time <= time {
            return;
        }
        wake.time = time;
        if std::mem::replace(&mut wake.has_event, true) {
            clock.set_timer(time, Timer::Wake(nic));
        } else {
            clock.schedule_nic(nic, time);
        }
    }

    /// Whether the transport is to be woken now, and not by a later event.
    pub(super) fn is_woken(&mut self, nic: NicId, now: Time) -> bool {
        let wake = &mut self.wakes[nic.index()];
        let is_due = wake.time == now;
        if is_due {
            wake.time = NEVER;
        }
        is_due
    }

    /// The event of a NIC is no longer pending.
    pub(super) fn clear_event(&mut self, nic: NicId) {
        self.wakes[nic.index()].has_event = false;
    }
}
