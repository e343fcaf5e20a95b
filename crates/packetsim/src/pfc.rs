//! Priority flow control: per link into a switch, how much of what came over it is buffered there.
//!
//! A packet counts from its arrival until it has left the switch. Beyond `pause_bytes` the sending
//! end of the link is told to pause, below `resume_bytes` to go on; either takes the link's delay
//! and the time of one control packet. Links are settled lazily (see `engine`), so a count may be
//! too high; before a pause all links out of the switch are settled. While any link into a switch
//! is paused, the links out of it are *watched*: they get an event at the end of each
//! transmission, so that the moment to resume is not missed.

use crate::config::Pfc;
use crate::core::{Class, Core, FROM_HOST, Link, PAUSED, TO_HOST, Timer, WATCHED};
use crate::topology::Topology;
use lightloom_model::Duration;

/// Per link: what is buffered of it, and what it is sending.
#[derive(Debug, Clone)]
pub(crate) struct Ingress {
    pub(crate) thresholds: Pfc,
    /// Bytes buffered behind each link.
    pub(crate) buffered: Vec<u32>,
    /// Whether the far end was told to pause.
    pub(crate) pausing: Vec<bool>,
    /// The packet that each link is sending: where it came from, and its size.
    serving: Vec<(u32, u32)>,
    /// Whether a watched link has its event pending.
    pub(crate) pending: Vec<bool>,
    /// Links into each node, one node after the other.
    into: Vec<u32>,
    /// Place of each link among those into its node.
    place: Vec<u16>,
    /// Where in `into` those begin that lead to the node that each link leaves.
    first_into: Vec<u32>,
    /// Links out of each node.
    pub(crate) out: Vec<Vec<u32>>,
    /// Links into each node that are paused.
    paused_count: Vec<u32>,
    /// When each link was last paused.
    paused_since: Vec<u64>,
    /// Time for a pause to arrive at the sending end of each link.
    reaction: Vec<u64>,
}

const NOTHING: (u32, u32) = (u32::MAX, 0);

impl Ingress {
    pub(crate) fn new(
        topology: &Topology,
        thresholds: Pfc,
        classes: &[Class],
        links: &[Link],
    ) -> Self {
        let nodes = topology.node_count();
        let (mut into, mut out) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        let mut place = vec![0; links.len()];
        for (index, spec) in topology.links().iter().enumerate() {
            let list = &mut into[spec.to.0 as usize];
            place[index] = list.len() as u16;
            list.push(index as u32);
            out[spec.from.0 as usize].push(index as u32);
        }
        let starts: Vec<u32> = into
            .iter()
            .scan(0, |sum, list: &Vec<u32>| {
                *sum += list.len() as u32;
                Some(*sum - list.len() as u32)
            })
            .collect();
        let class = |link: &Link| classes[link.class as usize];
        Self {
            thresholds,
            buffered: vec![0; links.len()],
            pausing: vec![false; links.len()],
            serving: vec![NOTHING; links.len()],
            pending: vec![false; links.len()],
            first_into: topology.links().iter().map(|spec| starts[spec.from.0 as usize]).collect(),
            into: into.into_iter().flatten().collect(),
            place,
            out,
            paused_count: vec![0; nodes],
            paused_since: vec![0; links.len()],
            reaction: links.iter().map(|link| class(link).pause_time()).collect(),
        }
    }
}

impl Class {
    fn pause_time(&self) -> u64 {
        self.delay
    }
}

impl Core {
    /// A packet came over a link into a switch; returns whether too much is there.
    #[inline]
    pub(crate) fn buffer(&mut self, over: u32, id: u32) -> bool {
        let Some(ingress) = &mut self.ingress else { return false };
        let packet = &mut self.packets[id];
        packet.ingress = ingress.place[over as usize];
        let buffered = &mut ingress.buffered[over as usize];
        *buffered += u32::from(packet.size);
        *buffered > ingress.thresholds.pause_bytes && !ingress.pausing[over as usize]
    }

    /// A packet came over a link into a switch and leaves over an idle one; returns whether too
    /// much is there.
    #[inline]
    pub(crate) fn buffer_at_once(&mut self, link: u32, over: u32, id: u32) -> bool {
        self.unbuffer(link);
        self.buffer(over, id)
    }

    /// What a link was sending has left: frees its place in the buffer.
    #[inline]
    pub(crate) fn unbuffer(&mut self, link: u32) {
        let Some(ingress) = &mut self.ingress else { return };
        let (over, size) = std::mem::replace(&mut ingress.serving[link as usize], NOTHING);
        if size == 0 {
            return;
        }
        let left = &mut ingress.buffered[over as usize];
        *left -= size;
        if ingress.pausing[over as usize] && *left < ingress.thresholds.resume_bytes {
            ingress.pausing[over as usize] = false;
            let arrives = self.links[link as usize].free_at + ingress.reaction[over as usize];
            self.agenda.set_timer(arrives, Timer::Resume(over));
            let node = self.links[over as usize].to as usize;
            ingress.paused_count[node] -= 1;
            if ingress.paused_count[node] == 0 {
                for &out in &ingress.out[node] {
                    self.links[out as usize].flags &= !WATCHED;
                }
            }
        }
    }

    /// A link begins to send a packet.
    #[inline]
    pub(crate) fn serve(&mut self, link: u32, id: u32) {
        let Some(ingress) = &mut self.ingress else { return };
        let flags = self.links[link as usize].flags;
        if flags & FROM_HOST == 0 {
            let packet = &self.packets[id];
            let first = ingress.first_into[link as usize];
            let over = ingress.into[(first + u32::from(packet.ingress)) as usize];
            ingress.serving[link as usize] = (over, u32::from(packet.size));
        }
        if flags & WATCHED != 0 {
            self.watch(link);
        }
    }

    /// Schedules the event of a watched link that is sending.
    pub(crate) fn watch(&mut self, link: u32) {
        let Some(ingress) = &mut self.ingress else { return };
        let slot = &self.links[link as usize];
        let pending = &mut ingress.pending[link as usize];
        if slot.flags & WATCHED != 0 && !*pending && slot.free_at > self.now {
            *pending = true;
            self.agenda.schedule(self.links.len() as u32 + link, slot.free_at);
        }
    }

    /// Tells the sending end of a link to pause. All links out of the switch are settled.
    pub(crate) fn pause(&mut self, over: u32) {
        let node = self.links[over as usize].to as usize;
        let Some(ingress) = &mut self.ingress else { return };
        if ingress.buffered[over as usize] <= ingress.thresholds.pause_bytes {
            return;
        }
        ingress.pausing[over as usize] = true;
        ingress.paused_count[node] += 1;
        let arrives = self.now + ingress.reaction[over as usize];
        self.agenda.set_timer(arrives, Timer::Pause(over));
        if ingress.paused_count[node] == 1 {
            for index in 0..ingress.out[node].len() {
                let out = self.ingress.as_ref().expect("just seen").out[node][index];
                self.links[out as usize].flags |= WATCHED;
                self.watch(out);
            }
        }
    }

    /// The sending end of a link hears that it is to pause.
    pub(crate) fn note_pause(&mut self, link: u32) {
        let Some(ingress) = &mut self.ingress else { return };
        ingress.paused_since[link as usize] = self.now;
        self.link_counters[link as usize].pauses += 1;
    }

    /// It hears that it may go on.
    pub(crate) fn note_resume(&mut self, link: u32) {
        let span = self.current_pause(link);
        self.link_counters[link as usize].paused += span;
    }

    /// For how long a link has been paused.
    pub(crate) fn current_pause(&self, link: u32) -> Duration {
        match &self.ingress {
            Some(ingress) if self.links[link as usize].flags & PAUSED != 0 => {
                Duration(self.now - ingress.paused_since[link as usize])
            }
            _ => Duration::ZERO,
        }
    }

    /// Whether what arrives over a link is buffered by a switch.
    #[inline]
    pub(crate) fn is_buffered(&self, link: u32) -> bool {
        self.ingress.is_some() && self.links[link as usize].flags & TO_HOST == 0
    }
}
