//! What a queue does with a packet: admits, marks, trims or drops it.
//!
//! Random choices are hashes of what they are about: no stream of random numbers is shared, so that
//! one queue does not depend on what happens at others.

use crate::config::{Config, Ecn, Marking, Overflow};
use crate::hash::mix;
use crate::packet::Packet;
use crate::topology::PacketLinkId;
use lightloom_model::Time;

/// What a random choice is about: no two are about the same.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chance<'a> {
    /// The link whose queue it is.
    pub(super) link: PacketLinkId,
    pub(super) packet: &'a Packet,
    /// When the packet comes or goes.
    pub(super) time: Time,
}

impl Chance<'_> {
    fn draw(&self, seed: u64) -> u64 {
        let place = mix(seed ^ self.time.0 ^ u64::from(self.link.0) << 40);
        mix(place ^ u64::from(self.packet.flow.0) << 32 ^ u64::from(self.packet.sequence))
    }

    /// Whether it happens: with a probability that grows from 0 to `limit` between two thresholds,
    /// between which the queue is.
    fn is_within(&self, seed: u64, [low, high]: [u32; 2], queued: u32, limit: f64) -> bool {
        self.happens(seed, f64::from(queued - low) / f64::from(high - low) * limit)
    }

    /// Whether it happens, with this probability.
    pub(super) fn happens(&self, seed: u64, probability: f64) -> bool {
        ((self.draw(seed) >> 11) as f64) < probability * (1_u64 << 53) as f64
    }
}

/// The rules of all queues, and their random choices.
#[derive(Debug, Clone)]
pub(super) struct Queueing {
    /// Packets that meet more than this may be marked on arrival, or on departure.
    mark_on_arrival: u32,
    mark_on_departure: u32,
    ecn: Option<Ecn>,
    /// Maximum number of bytes in a data queue up to which no packet is dropped.
    certain_limit: u32,
    /// Probability of a drop near the maximum.
    early_drop: f64,
    /// Maximum number of bytes in it.
    data_limit: u32,
    /// The same of control packets, and of headers, in a control queue.
    control_limit: u32,
    header_limit: u32,
    header: u16,
    has_control_queue: bool,
    is_trimming: bool,
    /// Seed of the random choices.
    seed: u64,
}

/// No limit.
const UNLIMITED: u32 = u32::MAX;

impl Queueing {
    pub(super) fn new(config: &Config) -> Self {
        let threshold = |marking| match config.ecn {
            Some(ecn) if ecn.marking == marking => ecn.min_bytes,
            _ => UNLIMITED,
        };
        // With PFC, switches pause links rather than drop packets.
        let is_lossless = config.pfc.is_some();
        let limit = |is_limited, bytes| if is_limited { bytes } else { UNLIMITED };
        let control_limit = config.control_queue_bytes;
        let data_limit = limit(!is_lossless, config.queue_bytes);
        Self {
            mark_on_arrival: threshold(Marking::Arrival),
            mark_on_departure: threshold(Marking::Departure),
            ecn: config.ecn,
            certain_limit: config
                .early_drop
                .map_or(data_limit, |it| (it.share * f64::from(data_limit)) as u32),
            early_drop: config.early_drop.map_or(0.0, |it| it.probability),
            data_limit,
            control_limit: limit(!is_lossless && config.control_priority, control_limit),
            header_limit: control_limit,
            header: config.header as u16,
            has_control_queue: config.control_priority,
            is_trimming: config.overflow == Overflow::Trim,
            seed: mix(config.seed ^ 0x7175_6575_6573),
        }
    }

    /// Whether a packet that finds this much queued may be marked.
    #[inline]
    pub(super) fn may_mark_arrival(&self, queued: u32) -> bool {
        queued > self.mark_on_arrival
    }

    /// Whether a packet that leaves a queue of this length, its own included, may be marked.
    #[inline]
    pub(super) fn may_mark_departure(&self, queued: u32) -> bool {
        queued > self.mark_on_departure
    }

    /// Whether data fits for certain, or is queued though it does not.
    #[inline]
    pub(super) fn admits_data(&self, queued: u32, size: u32) -> bool {
        queued + size <= self.certain_limit
    }

    /// Whether data for which that is not certain is admitted; perhaps drawn at random.
    #[cold]
    pub(super) fn admits_late_data(&self, queued: u32, size: u32, chance: &Chance) -> bool {
        let (low, high) = (self.certain_limit, self.data_limit);
        if queued + size > high {
            return false;
        }
        // A draw of its own, whatever is marked.
        let seed = mix(self.seed ^ 0x6561_726c_7900);
        queued <= low || !chance.is_within(seed, [low, high], queued, self.early_drop)
    }

    /// Whether a control packet at a switch fits.
    #[inline]
    pub(super) fn admits_control(&self, queued: u32, size: u32) -> bool {
        queued + size <= self.control_limit
    }

    /// Whether the header of a trimmed packet fits.
    pub(super) fn admits_header(&self, queued: u32) -> bool {
        queued + u32::from(self.header) <= self.header_limit
    }

    /// Size of a trimmed packet, in bytes.
    pub(super) fn header(&self) -> u16 {
        self.header
    }

    /// Whether control packets have their own queue.
    #[inline]
    pub(super) fn has_control_queue(&self) -> bool {
        self.has_control_queue
    }

    /// Whether data that does not fit is trimmed.
    pub(super) fn is_trimming(&self) -> bool {
        self.is_trimming
    }

    /// Whether a data packet that may be marked is; perhaps drawn at random.
    pub(super) fn marks(&self, queued: u32, chance: &Chance) -> bool {
        let Some(ecn) = self.ecn else { return false };
        if queued > ecn.max_bytes {
            return true;
        }
        chance.is_within(self.seed, [ecn.min_bytes, ecn.max_bytes], queued, ecn.probability)
    }

    /// Whether the last packet of a full queue is trimmed, not the one that finds it full.
    pub(super) fn trims_last(&self, chance: &Chance) -> bool {
        chance.draw(self.seed) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EarlyDrop, Pfc};
    use crate::flow::PacketFlowId;
    use crate::network::slab::NO_PACKET;
    use crate::packet::PacketKind;
    use crate::tests::plain;

    const CHANCES: u64 = 20_000;

    /// Successive packets of a few flows, some at the same time.
    fn chances() -> impl Iterator<Item = (Packet, Time)> {
        (0..CHANCES).map(|index| {
            let packet = Packet {
                next_arrival: Time::ZERO,
                flow: PacketFlowId((index % 3) as u32),
                sequence: (index / 3) as u32,
                value: 0,
                next: NO_PACKET,
                size: 4160,
                path: 0,
                ingress: 0,
                kind: PacketKind::Data,
                flags: 0,
            };
            (packet, Time(index / 6 * 332_800))
        })
    }

    fn at(packet: &Packet, time: Time) -> Chance<'_> {
        Chance { link: PacketLinkId(4), packet, time }
    }

    #[test]
    fn a_choice_depends_on_all_that_it_is_about() {
        let (packet, time) = chances().nth(1_000).unwrap();
        let draw = |chance: Chance| chance.draw(1);
        let drawn_once = draw(at(&packet, time));
        let other_flow = Packet { flow: PacketFlowId(9), ..packet };
        let other_sequence = Packet { sequence: 9, ..packet };
        let others = [
            at(&packet, time).draw(2),
            draw(at(&packet, Time(time.0 + 1))),
            draw(Chance { link: PacketLinkId(5), ..at(&packet, time) }),
            draw(at(&other_flow, time)),
            draw(at(&other_sequence, time)),
        ];
        assert!(!others.contains(&drawn_once));
        assert_eq!(drawn_once, draw(at(&packet, time)));
    }

    fn limited() -> Config {
        Config { queue_bytes: 5_000, control_queue_bytes: 128, control_priority: true, ..plain() }
    }

    #[test]
    fn queues_may_be_exactly_full() {
        let queueing = Queueing::new(&limited());
        assert!(queueing.admits_data(840, 4160) && !queueing.admits_data(841, 4160));
        assert!(queueing.admits_control(64, 64) && !queueing.admits_control(65, 64));
        assert!(queueing.admits_header(64) && !queueing.admits_header(65));
        assert_eq!((queueing.header(), queueing.has_control_queue()), (64, true));
    }

    #[test]
    fn lossless_queues_admit_everything() {
        let pfc = Some(Pfc { pause_bytes: 10, resume_bytes: 5 });
        let queueing = Queueing::new(&Config { pfc, ..limited() });
        assert!(queueing.admits_data(1 << 30, 4160) && queueing.admits_control(1 << 30, 64));
    }

    #[test]
    fn control_packets_among_data_have_no_limit_of_their_own() {
        let queueing = Queueing::new(&Config { control_priority: false, ..limited() });
        assert!(queueing.admits_control(1 << 30, 64) && !queueing.has_control_queue());
    }

    #[test]
    fn a_rule_marks_at_its_moment_only() {
        for marking in [Marking::Arrival, Marking::Departure] {
            let ecn = Ecn { marking, min_bytes: 1_000, max_bytes: 2_000, probability: 0.5 };
            let queueing = Queueing::new(&Config { ecn: Some(ecn), ..plain() });
            let moments = [queueing.may_mark_arrival(1_001), queueing.may_mark_departure(1_001)];
            assert_eq!(moments, [marking == Marking::Arrival, marking == Marking::Departure]);
            assert!(!queueing.may_mark_arrival(1_000) && !queueing.may_mark_departure(1_000));
        }
        let queueing = Queueing::new(&plain());
        assert!(!queueing.may_mark_arrival(u32::MAX) && !queueing.may_mark_departure(u32::MAX));
    }

    #[test]
    fn the_probability_of_a_mark_grows_from_kmin_to_kmax() {
        let ecn =
            Ecn { marking: Marking::Arrival, min_bytes: 1_000, max_bytes: 3_000, probability: 0.4 };
        let queueing = Queueing::new(&Config { ecn: Some(ecn), ..plain() });
        let share = |queued| {
            let marks =
                chances().filter(|(packet, time)| queueing.marks(queued, &at(packet, *time)));
            marks.count() as f64 / CHANCES as f64
        };
        for (queued, expected) in [(1_000, 0.0), (1_500, 0.1), (2_000, 0.2), (3_000, 0.4)] {
            // Four deviations of as many draws.
            let marked = share(queued);
            assert!((marked - expected).abs() < 0.014, "{queued} B: {marked}");
        }
        assert!((share(3_001) - 1.0).abs() < f64::EPSILON, "certain beyond Kmax");
    }

    /// Up to a share of the queue nothing is dropped, from there on more and more.
    #[test]
    fn the_probability_of_an_early_drop_grows_until_the_queue_is_full() {
        let early_drop = Some(EarlyDrop { share: 0.25, probability: 0.4 });
        let config = Config { early_drop, queue_bytes: 40_000, ..plain() };
        let queueing = Queueing::new(&config);
        assert!(queueing.admits_data(5_840, 4_160) && !queueing.admits_data(5_841, 4_160));
        let share = |queued, size| {
            let admitted = |(packet, time): &(Packet, Time)| {
                queueing.admits_late_data(queued, size, &at(packet, *time))
            };
            1.0 - chances().filter(admitted).count() as f64 / CHANCES as f64
        };
        for (queued, expected) in [(10_000, 0.0), (17_500, 0.1), (25_000, 0.2), (35_840, 0.344)] {
            let marked = share(queued, 4_160);
            assert!((marked - expected).abs() < 0.014, "{queued} B: {marked}");
        }
        let exactly = |found: f64, expected: f64| (found - expected).abs() < f64::EPSILON;
        assert!(exactly(share(35_841, 4_160), 1.0), "beyond the queue");
        assert!(exactly(share(10_000, 30_000), 0.0) && exactly(share(10_000, 30_001), 1.0));
        let without = Queueing::new(&Config { early_drop: None, ..config });
        assert!(without.admits_data(35_840, 4_160) && !without.admits_data(35_841, 4_160));
        let refuses = |(packet, time): (Packet, Time)| {
            !without.admits_late_data(35_841, 4_160, &at(&packet, time))
        };
        assert!(chances().all(refuses));
    }

    #[test]
    fn half_of_the_trims_take_the_last_packet_and_seeds_differ() {
        let draws = |seed| {
            let queueing = Queueing::new(&Config { seed, ..plain() });
            let trims = |(packet, time)| queueing.trims_last(&at(&packet, time));
            chances().map(trims).collect::<Vec<_>>()
        };
        let trims = draws(1).into_iter().filter(|&last| last).count();
        assert!((9_700..10_300).contains(&trims), "{trims} of 20,000");
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
    }
}
