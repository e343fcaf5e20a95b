//! Why flows do not finish.

use crate::error::PacketError;
use crate::flow::PacketFlowId;
use crate::network::any::AnySimulation;
use crate::network::core::Core;
use crate::topology::PacketLinkId;

/// Maximum number of flows, and of dark links, in a message.
const NAMED: usize = 3;

/// The error that says what flows wait for that will never finish.
pub(crate) fn stall_error(simulation: &dyn AnySimulation) -> PacketError {
    let core = simulation.core();
    let (unfinished, waiting): (Vec<_>, Vec<_>) =
        core.unfinished().into_iter().partition(|&flow| core.flow(flow).start <= core.now());
    let dark = dark_links(simulation, &unfinished);
    let cause = if let Some(cycle) = cycle(simulation) {
        format!("links paused by PFC wait for one another, {}", route(core, &cycle))
    } else if dark.is_empty() {
        "nothing new is received any more".to_owned()
    } else {
        format!("dark for ever: {}", list(&dark, |&link| route(core, &[link])))
    };
    let flows = list(&unfinished, |&flow| {
        let (state, endpoints) = (core.flow(flow), core.endpoints(flow));
        let [source, destination] =
            [endpoints.source(), endpoints.destination()].map(|nic| core.topology().nic_title(nic));
        format!(
            "flow {} from {source} to {destination} with {} of {} packets received",
            flow.0, state.received, state.packets
        )
    });
    let others = match waiting.len() {
        0 => String::new(),
        count => format!("; {count} that have not started wait for others"),
    };
    PacketError::Stuck(format!("{cause}; {} unfinished: {flows}{others}", unfinished.len()))
}

/// The first few of a list, and how many more there are.
fn list<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    let mut texts: Vec<String> = items.iter().take(NAMED).map(text).collect();
    if items.len() > NAMED {
        texts.push(format!("and {} more", items.len() - NAMED));
    }
    texts.join(", ")
}

/// The nodes along links that follow one another.
fn route(core: &Core, links: &[PacketLinkId]) -> String {
    let specs = core.topology().links();
    let first = specs[links[0].index()].from;
    let nodes = links.iter().map(|&link| specs[link.index()].to);
    let names = std::iter::once(first).chain(nodes).map(|node| core.topology().title(node));
    names.collect::<Vec<_>>().join(" -> ")
}

/// Dark links before which packets wait or flows begin.
fn dark_links(simulation: &dyn AnySimulation, unfinished: &[PacketFlowId]) -> Vec<PacketLinkId> {
    let core = simulation.core();
    let mut begins = vec![false; core.topology().links().len()];
    for &flow in unfinished {
        begins[core.first_link(flow).index()] = true;
    }
    let waits = |link: PacketLinkId| {
        begins[link.index()] || simulation.core_of(link).waiting_bytes(link) > 0
    };
    let is_dark = |link: PacketLinkId| simulation.core_of(link).is_dark(link);
    core.topology().link_ids().filter(|&link| is_dark(link) && waits(link)).collect()
}

/// Paused links, each of which waits until the next one may send, and the last for the first.
fn cycle(simulation: &dyn AnySimulation) -> Option<Vec<PacketLinkId>> {
    let core = simulation.core();
    let is_paused = |link: &PacketLinkId| simulation.core_of(*link).is_paused(*link);
    let paused: Vec<PacketLinkId> = core.topology().link_ids().filter(is_paused).collect();
    let mut waits_for: Vec<Vec<PacketLinkId>> = vec![Vec::new(); core.topology().links().len()];
    for &link in &paused {
        // The switch at its far end is where the reverse link begins.
        let stopped = simulation.core_of(link.reverse()).stopped_behind(link);
        waits_for[link.index()] = stopped.into_iter().filter(is_paused).collect();
    }
    // A link that waits for none of those left is in no cycle; each of the others has a next one.
    let mut left = paused;
    loop {
        let before = left.len();
        left.retain(|&link| !waits_for[link.index()].is_empty());
        if left.len() == before {
            break;
        }
        for &link in &left {
            let others = std::mem::take(&mut waits_for[link.index()]);
            let stays = |other: &PacketLinkId| left.binary_search(other).is_ok();
            waits_for[link.index()] = others.into_iter().filter(stays).collect();
        }
    }
    let mut path = vec![*left.first()?];
    loop {
        let next = waits_for[path.last()?.index()][0];
        if let Some(start) = path.iter().position(|&link| link == next) {
            return Some(path.split_off(start));
        }
        path.push(next);
    }
}
