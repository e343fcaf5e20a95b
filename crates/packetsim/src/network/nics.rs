//! NICs: the links by which they send, and when the transport is woken for them.

use super::clock::{Clock, Timer};
use crate::topology::{NicId, PacketLinkId, Topology};
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
    uplinks: Vec<PacketLinkId>,
    /// Per link the NIC that sends by it.
    senders: Vec<NicId>,
    /// Those of the first class of traffic first.
    wakes: Vec<Wake>,
    /// Per NIC the priority of what it sent last, where it has several transports.
    last: Vec<u8>,
}

impl Nics {
    /// For so many classes of traffic, each with a transport of its own.
    pub(super) fn new(topology: &Topology, classes: usize) -> Self {
        let nics = (0..topology.nic_count() as u32).map(NicId);
        let uplinks: Vec<PacketLinkId> = nics.map(|nic| topology.uplink(nic)).collect();
        let mut senders = vec![NO_NIC; topology.links().len()];
        for (nic, uplink) in uplinks.iter().enumerate() {
            senders[uplink.index()] = NicId(nic as u32);
        }
        let wakes = vec![Wake { time: NEVER, has_event: false }; uplinks.len() * classes];
        let last = vec![u8::MAX; if classes == 1 { 0 } else { uplinks.len() }];
        Self { uplinks, senders, wakes, last }
    }

    pub(super) fn len(&self) -> usize {
        self.uplinks.len()
    }

    /// The link by which a NIC sends.
    #[inline]
    pub(super) fn uplink(&self, nic: NicId) -> PacketLinkId {
        self.uplinks[nic.index()]
    }

    /// The NIC that sends by a link out of a host.
    #[inline]
    pub(super) fn sender(&self, link: PacketLinkId) -> NicId {
        self.senders[link.index()]
    }

    /// Where the wakes of a NIC are for the transport of a class, as if it were a NIC of its own.
    #[inline]
    pub(super) fn place(&self, nic: NicId, class: usize) -> NicId {
        NicId(nic.0 + (class * self.uplinks.len()) as u32)
    }

    /// The NIC and the class of a place.
    #[inline]
    pub(super) fn at(&self, place: NicId) -> (NicId, usize) {
        if place.index() < self.uplinks.len() {
            return (place, 0);
        }
        let (class, nic) = (place.index() / self.uplinks.len(), place.index() % self.uplinks.len());
        (NicId(nic as u32), class)
    }

    /// Notes the priority of what a NIC sends.
    pub(super) fn set_last_priority(&mut self, nic: NicId, priority: u8) {
        self.last[nic.index()] = priority;
    }

    /// See [`super::core::Core::last_priority`].
    #[inline]
    pub(super) fn last_priority(&self, nic: NicId) -> u8 {
        self.last.get(nic.index()).copied().unwrap_or(u8::MAX)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::star;
    use lightloom_model::{Duration, Rate};

    fn three() -> (Nics, Clock) {
        let topology = star(3, Rate(1), Duration(1)).unwrap();
        (Nics::new(&topology, 1), Clock::new(6, 3, Duration(1_000)))
    }

    /// When the transport is woken for a NIC.
    fn wakes(nics: &mut Nics, clock: &mut Clock) -> Vec<(u64, u32)> {
        let mut woken = Vec::new();
        while let Some(due) = clock.next(Time(u64::MAX)) {
            let nic = match clock.other(due) {
                super::super::clock::Event::Nic(nic) => {
                    nics.clear_event(nic);
                    nic
                }
                super::super::clock::Event::Timer(Timer::Wake(nic)) => nic,
                other => panic!("{other:?}"),
            };
            if nics.is_woken(nic, clock.now()) {
                woken.push((clock.now().0, nic.0));
            }
        }
        woken
    }

    #[test]
    fn uplinks_and_nics_lead_to_each_other() {
        let (nics, _) = three();
        assert_eq!(nics.len(), 3);
        for nic in (0..3).map(NicId) {
            assert_eq!(nics.uplink(nic), PacketLinkId(2 * nic.0));
            assert_eq!(nics.sender(nics.uplink(nic)), nic);
        }
        assert_eq!(nics.sender(PacketLinkId(1)), NO_NIC);
    }

    #[test]
    fn the_earliest_time_counts_and_each_time_wakes_once() {
        let (mut nics, mut clock) = three();
        for time in [500, 300, 400, 300] {
            nics.wake(&mut clock, NicId(1), Time(time));
        }
        nics.wake(&mut clock, NicId(2), Time(350));
        assert_eq!(wakes(&mut nics, &mut clock), [(300, 1), (350, 2)]);
        // After it was woken, a later time is another one.
        nics.wake(&mut clock, NicId(1), Time(900));
        assert_eq!(wakes(&mut nics, &mut clock), [(900, 1)]);
    }

    #[test]
    fn a_time_in_the_past_wakes_now() {
        let (mut nics, mut clock) = three();
        clock.advance_to(Time(700));
        nics.wake(&mut clock, NicId(0), Time(2));
        assert_eq!(wakes(&mut nics, &mut clock), [(700, 0)]);
    }
}
