//! Priority flow control: per link into a switch, how much of what came over it is buffered there.
//!
//! A packet counts from its arrival until it has left the switch. Beyond `pause_bytes` the sending
//! end of the link is told to pause, below `resume_bytes` to go on; either takes the link's delay.
//! Links are settled lazily (see `engine`), so a count may be too high; before a pause all links
//! out of the switch are settled. While any link into a switch is paused, the links out of it are
//! *watched*: where it matters they get an event at the end of a transmission, so that the moment
//! to resume is not missed.

use crate::config::Pfc;
use crate::core::{Core, PAUSED, TO_HOST, Timer, WATCHED};
use crate::memory::prefetch;
use crate::packet::Packet;
use crate::topology::{LinkSpec, Topology};
use lightloom_model::Duration;

/// One end of a link as PFC sees it: behind its receiving end what is buffered of it, before its
/// sending end what it is sending.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Port {
    /// Bytes buffered of what came over the link.
    buffered: u32,
    /// The packet that it is sending: over which link it came, and its size; 0 if none.
    serving_over: u32,
    serving_size: u16,
    /// Where in `into` the links begin that lead to the node that it leaves.
    first_into: u32,
    /// Its place among the links into its node.
    place: u16,
    /// Whether the sending end was told to pause.
    is_pausing: bool,
    /// Whether it is watched and its event pending.
    is_pending: bool,
}

/// The state of all links.
#[derive(Debug, Clone)]
pub(crate) struct Ingress {
    thresholds: Pfc,
    ports: Vec<Port>,
    /// Links into each node, one node after the other.
    into: Vec<u32>,
    /// Links out of each node.
    pub(crate) out: Vec<Vec<u32>>,
    /// Links into each node that are paused.
    paused_count: Vec<u32>,
    /// When each link was last paused.
    paused_since: Vec<u64>,
}

impl Ingress {
    pub(crate) fn new(topology: &Topology, thresholds: Pfc) -> Self {
        let nodes = topology.node_count();
        let (mut into, mut out) = (vec![Vec::new(); nodes], vec![Vec::new(); nodes]);
        for (index, spec) in topology.links().iter().enumerate() {
            into[spec.to.0 as usize].push(index as u32);
            out[spec.from.0 as usize].push(index as u32);
        }
        let starts: Vec<u32> = into
            .iter()
            .scan(0, |sum, list: &Vec<u32>| {
                *sum += list.len() as u32;
                Some(*sum - list.len() as u32)
            })
            .collect();
        let port = |(index, spec): (usize, &LinkSpec)| {
            let others = &into[spec.to.0 as usize];
            let place = others.iter().position(|&other| other == index as u32);
            Port {
                buffered: 0,
                serving_over: 0,
                serving_size: 0,
                first_into: starts[spec.from.0 as usize],
                place: place.expect("a link leads to its node") as u16,
                is_pausing: false,
                is_pending: false,
            }
        };
        Self {
            thresholds,
            ports: topology.links().iter().enumerate().map(port).collect(),
            into: into.into_iter().flatten().collect(),
            out,
            paused_count: vec![0; nodes],
            paused_since: vec![0; topology.links().len()],
        }
    }

    /// Counts what came over a link; returns whether that is too much.
    #[inline]
    fn add(&mut self, over: u32, size: u16) -> bool {
        let port = &mut self.ports[over as usize];
        port.buffered += u32::from(size);
        port.buffered > self.thresholds.pause_bytes && !port.is_pausing
    }

    /// Asks for what is known of a link that will be looked at soon.
    #[inline]
    pub(crate) fn prefetch(&self, link: u32) {
        prefetch(&self.ports, link as usize);
    }

    /// The event of a watched link has come.
    pub(crate) fn woken(&mut self, link: u32) {
        self.ports[link as usize].is_pending = false;
    }
}

impl Core {
    /// A packet that came over a link into a switch waits there; returns whether too much is
    /// there.
    #[inline]
    pub(crate) fn buffer(&mut self, over: u32, id: u32) -> bool {
        let Some(ingress) = &mut self.ingress else { return false };
        let packet = &mut self.packets[id];
        packet.ingress = ingress.ports[over as usize].place;
        ingress.add(over, packet.size)
    }

    /// A packet that came over a link into a switch leaves at once over an idle one; returns
    /// whether too much is there.
    #[inline(always)]
    pub(crate) fn buffer_at_once(&mut self, link: u32, over: u32, size: u16) -> bool {
        self.unbuffer(link);
        let Some(ingress) = &mut self.ingress else { return false };
        let port = &mut ingress.ports[link as usize];
        (port.serving_over, port.serving_size) = (over, size);
        ingress.add(over, size)
    }

    /// What a link was sending has left: frees its place in the buffer.
    #[inline(always)]
    pub(crate) fn unbuffer(&mut self, link: u32) {
        let Some(ingress) = &mut self.ingress else { return };
        let port = &mut ingress.ports[link as usize];
        let size = u32::from(std::mem::take(&mut port.serving_size));
        if size == 0 {
            return;
        }
        let over = port.serving_over;
        let port = &mut ingress.ports[over as usize];
        port.buffered -= size;
        if port.is_pausing && port.buffered < ingress.thresholds.resume_bytes {
            port.is_pausing = false;
            let left_at = self.links[link as usize].free_at;
            self.resume_soon(over, left_at);
        }
    }

    /// Tells the sending end of a link to go on.
    fn resume_soon(&mut self, over: u32, time: u64) {
        let slot = &self.links[over as usize];
        let arrives = time + self.classes[slot.class as usize].delay;
        self.agenda.set_timer(arrives, Timer::Resume(over));
        let Some(ingress) = &mut self.ingress else { return };
        let count = &mut ingress.paused_count[slot.to as usize];
        *count -= 1;
        if *count == 0 {
            for &out in &ingress.out[slot.to as usize] {
                self.links[out as usize].flags &= !WATCHED;
            }
        }
    }

    /// A link out of a switch begins to send a packet that waited there.
    #[inline]
    pub(crate) fn serve(&mut self, link: u32, packet: &Packet) {
        let Some(ingress) = &mut self.ingress else { return };
        let port = &mut ingress.ports[link as usize];
        port.serving_over = ingress.into[(port.first_into + u32::from(packet.ingress)) as usize];
        port.serving_size = packet.size;
    }

    /// Schedules the event of a watched link, if it matters when it is free: what it sends came
    /// over a link that is paused, or what follows may have.
    #[inline]
    pub(crate) fn watch(&mut self, link: u32) {
        let slot = &self.links[link as usize];
        if slot.flags & WATCHED != 0 && slot.free_at > self.now {
            self.watch_end(link);
        }
    }

    /// Schedules the event of a watched link that is sending, if it matters.
    fn watch_end(&mut self, link: u32) {
        let slot = &self.links[link as usize];
        let Some(ingress) = &mut self.ingress else { return };
        let port = ingress.ports[link as usize];
        let over = &ingress.ports[port.serving_over as usize];
        if !port.is_pending && (!slot.is_empty() || over.is_pausing) {
            ingress.ports[link as usize].is_pending = true;
            self.agenda.schedule(self.links.len() as u32 + link, slot.free_at);
        }
    }

    /// Tells the sending end of a link to pause, if too much is there now that all links out of
    /// the switch are settled.
    pub(crate) fn pause(&mut self, over: u32) {
        let slot = &self.links[over as usize];
        let node = slot.to as usize;
        let Some(ingress) = &mut self.ingress else { return };
        let port = &mut ingress.ports[over as usize];
        if port.buffered <= ingress.thresholds.pause_bytes {
            return;
        }
        port.is_pausing = true;
        ingress.paused_count[node] += 1;
        let arrives = self.now + self.classes[slot.class as usize].delay;
        self.agenda.set_timer(arrives, Timer::Pause(over));
        for index in 0..ingress.out[node].len() {
            let out = self.ingress.as_ref().expect("just seen").out[node][index];
            self.links[out as usize].flags |= WATCHED;
            self.watch(out);
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

    /// The links out of a switch that may not send and before which something waits that came over
    /// a link.
    pub(crate) fn stopped_before(&self, over: u32) -> Vec<u32> {
        let Some(ingress) = &self.ingress else { return Vec::new() };
        let node = self.links[over as usize].to;
        let place = ingress.ports[over as usize].place;
        let holds = |link: &&u32| {
            let slot = &self.links[**link as usize];
            let came_over = |id| self.packets[id].ingress == place;
            slot.is_stopped()
                && [slot.control, slot.data]
                    .into_iter()
                    .any(|chain| self.packets.chain(chain).any(came_over))
        };
        ingress.out[node as usize].iter().filter(holds).copied().collect()
    }

    /// Whether what arrives over a link is buffered by a switch.
    #[inline]
    pub(crate) fn is_buffered(&self, link: u32) -> bool {
        self.ingress.is_some() && self.links[link as usize].flags & TO_HOST == 0
    }
}
