//! Simulated time and the events ahead of it.
//!
//! Three kinds of sources have at most one event pending each, see [`Agenda`]: links, for the
//! arrival of the first packet on their wire; links again, for the end of a transmission that PFC
//! watches; and NICs. Everything else is a timer.

use crate::flow::PacketFlowId;
use crate::topology::{NicId, PacketLinkId};
use lightloom_kernel::{Agenda, Due, PREVIEW, SourceEvent};
use lightloom_model::{Duration, Time};

/// A timer. At one time they expire in this order, so that flows find circuits changed that change
/// at their start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A circuit goes dark.
    Darken(PacketLinkId),
    Light(PacketLinkId),
    /// Links fail or are repaired, by index of the failure.
    Fail(u32),
    Repair(u32),
    /// All switches know that they failed, or were repaired.
    Avoid(u32),
    Restore(u32),
    /// PFC reaches the sending end of a link: it pauses a priority, or resumes it if it is paused.
    /// One kind, as they take turns and must keep their order at one time.
    Signal(PacketLinkId, u8),
    /// A NIC looks whether anything arrives by one of its ports, see [`super::plane_watch`].
    Plane(u32),
    /// A flow starts.
    Start(PacketFlowId),
    /// A timer that the transport set for a flow.
    Flow(PacketFlowId),
    /// The transport wanted to be woken for a NIC.
    Wake(NicId),
}

/// An event other than an arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    /// The transmission of a watched link ends.
    Departure(PacketLinkId),
    /// The event of a NIC.
    Nic(NicId),
    Timer(Timer),
}

/// The time and all pending events.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    now: Time,
    agenda: Agenda<Timer>,
    links: u32,
    events: u64,
}

impl Clock {
    /// A clock at time zero. Events of links are due within `horizon`.
    pub(super) fn new(links: usize, nics: usize, horizon: Duration) -> Self {
        let agenda = Agenda::new(2 * links + nics, horizon);
        Self { now: Time::ZERO, agenda, links: links as u32, events: 0 }
    }

    #[inline]
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Number of events so far.
    #[inline]
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    /// Schedules the arrival of the first packet on the wire of a link.
    #[inline]
    pub(super) fn schedule_arrival(&mut self, link: PacketLinkId, time: Time) {
        self.agenda.schedule(link.0, time);
    }

    /// Schedules the end of the transmission of a watched link.
    pub(super) fn schedule_departure(&mut self, link: PacketLinkId, time: Time) {
        self.agenda.schedule(self.links + link.0, time);
    }

    /// Schedules the event of a NIC that has none pending.
    #[inline]
    pub(super) fn schedule_nic(&mut self, nic: NicId, time: Time) {
        self.agenda.schedule(2 * self.links + nic.0, time);
    }

    /// Sets a timer; one in the past is due now.
    pub(super) fn set_timer(&mut self, time: Time, timer: Timer) {
        self.agenda.set_timer(time.max(self.now), timer);
    }

    /// Advances to the next event, if it is due at or before `limit`.
    #[inline]
    pub(super) fn next(&mut self, limit: Time) -> Option<Due<Timer>> {
        let (time, due) = self.agenda.pop(limit)?;
        debug_assert!(time >= self.now, "time does not run backwards");
        self.now = time;
        self.events += 1;
        Some(due)
    }

    /// When the next event is due.
    pub(super) fn next_time(&mut self) -> Option<Time> {
        self.agenda.next_time()
    }

    /// The last event does not count: the other half of the network has it, too.
    pub(super) fn discount(&mut self) {
        self.events -= 1;
    }

    /// The link of an event that is the arrival of the first packet on its wire.
    #[inline]
    pub(super) fn arrival(&self, due: Due<Timer>) -> Option<PacketLinkId> {
        match due {
            Due::Source(link) if link < self.links => Some(PacketLinkId(link)),
            _ => None,
        }
    }

    /// An event that is not an arrival; these are most, and tested for separately.
    pub(super) fn other(&self, due: Due<Timer>) -> Event {
        match due {
            Due::Source(source) if source < 2 * self.links => {
                Event::Departure(PacketLinkId(source - self.links))
            }
            Due::Source(source) => Event::Nic(NicId(source - 2 * self.links)),
            Due::Timer(timer) => Event::Timer(timer),
        }
    }

    /// Advances to a time before which nothing is due.
    pub(super) fn advance_to(&mut self, time: Time) {
        self.now = self.now.max(time);
    }

    /// The sources of the next events, for prefetching: those below the number of links are
    /// arrivals on them.
    #[inline]
    pub(super) fn upcoming(&self) -> Option<&[SourceEvent; PREVIEW]> {
        self.agenda.upcoming()
    }

    /// The links with packets on their wire, and when the first of these arrives.
    pub(super) fn arrivals(&self) -> impl Iterator<Item = (PacketLinkId, Time)> {
        let is_arrival = |event: &SourceEvent| event.source < self.links;
        let pending = self.agenda.pending().filter(is_arrival);
        pending.map(|event| (PacketLinkId(event.source), event.time))
    }

    /// Whether no event is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.agenda.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn sources_of_one_index_are_different_events() {
        let mut clock = Clock::new(4, 4, Duration(1_000));
        clock.schedule_nic(NicId(2), Time(30));
        clock.schedule_departure(PacketLinkId(2), Time(20));
        clock.schedule_arrival(PacketLinkId(2), Time(10));
        clock.set_timer(Time(40), Timer::Wake(NicId(2)));
        let forever = Time(u64::MAX);
        let due = clock.next(forever).unwrap();
        assert_eq!((clock.arrival(due), clock.now()), (Some(PacketLinkId(2)), Time(10)));
        let mut others = Vec::new();
        while let Some(due) = clock.next(forever) {
            assert_eq!(clock.arrival(due), None);
            others.push((clock.now().0, clock.other(due)));
        }
        let expected = [
            (20, Event::Departure(PacketLinkId(2))),
            (30, Event::Nic(NicId(2))),
            (40, Event::Timer(Timer::Wake(NicId(2)))),
        ];
        assert_eq!(others, expected);
        assert_eq!((clock.events(), clock.is_idle()), (4, true));
    }

    #[test]
    fn a_timer_in_the_past_is_due_now() {
        let mut clock = Clock::new(1, 1, Duration(1_000));
        clock.advance_to(Time(500));
        clock.advance_to(Time(400));
        assert_eq!(clock.now(), Time(500), "time does not run backwards");
        clock.set_timer(Time(3), Timer::Start(PacketFlowId(0)));
        assert!(clock.next(Time(499)).is_none());
        assert!(clock.next(Time(500)).is_some());
        assert_eq!(clock.now(), Time(500));
    }

    #[test]
    fn arrivals_are_those_of_links() {
        let mut clock = Clock::new(3, 2, Duration(1_000));
        clock.schedule_arrival(PacketLinkId(2), Time(70));
        clock.schedule_arrival(PacketLinkId(0), Time(90));
        clock.schedule_departure(PacketLinkId(1), Time(10));
        clock.schedule_nic(NicId(0), Time(20));
        let mut arrivals: Vec<_> = clock.arrivals().collect();
        arrivals.sort_unstable();
        assert_eq!(arrivals, [(PacketLinkId(0), Time(90)), (PacketLinkId(2), Time(70))]);
    }
}
