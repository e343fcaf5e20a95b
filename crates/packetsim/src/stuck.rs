//! Why flows do not finish.

use crate::core::{Core, PAUSED};
use crate::error::PacketError;
use crate::topology::{LinkId, NicId};

/// Stuck flows, dark links that are named.
const NAMED: usize = 3;

/// Says what flows that will never finish wait for.
pub(crate) fn stuck(core: &Core) -> PacketError {
    let is_unfinished = |&flow: &u32| core.flow(flow).done_at == u64::MAX;
    let unfinished: Vec<u32> = (0..core.flow_count() as u32).filter(is_unfinished).collect();
    let dark = dark_links(core, &unfinished);
    let cause = if let Some(cycle) = cycle(core) {
        format!("links paused by PFC wait for one another, {}", route(core, &cycle))
    } else if dark.is_empty() {
        "nothing new is received any more".to_owned()
    } else {
        format!("dark for ever: {}", list(&dark, |&link| route(core, &[link])))
    };
    let flows = list(&unfinished, |&flow| {
        let state = core.flow(flow);
        let [source, destination] =
            core.ends(flow).map(|nic| core.topology().nic_title(NicId(nic)));
        format!(
            "flow {flow} from {source} to {destination} with {} of {} packets received",
            state.received, state.packets
        )
    });
    PacketError::Stuck(format!("{cause}; {} unfinished: {flows}", unfinished.len()))
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
fn route(core: &Core, links: &[u32]) -> String {
    let specs = core.topology().links();
    let first = specs[links[0] as usize].from;
    let nodes = links.iter().map(|&link| specs[link as usize].to);
    let names = std::iter::once(first).chain(nodes).map(|node| core.topology().title(node));
    names.collect::<Vec<_>>().join(" -> ")
}

/// Dark links before which something waits or flows begin.
fn dark_links(core: &Core, unfinished: &[u32]) -> Vec<u32> {
    let mut begins = vec![false; core.links.len()];
    for &flow in unfinished {
        begins[core.first_link(flow).0 as usize] = true;
    }
    let waits = |link: u32| begins[link as usize] || core.waiting_bytes(LinkId(link)) > 0;
    (0..core.links.len() as u32).filter(|&link| core.is_dark(LinkId(link)) && waits(link)).collect()
}

/// Paused links, each of which waits until the next one may send, and the last for the first.
fn cycle(core: &Core) -> Option<Vec<u32>> {
    let is_paused = |link: &u32| core.links[*link as usize].flags & PAUSED != 0;
    let paused: Vec<u32> = (0..core.links.len() as u32).filter(is_paused).collect();
    let mut waits_for: Vec<Vec<u32>> = vec![Vec::new(); core.links.len()];
    for &link in &paused {
        waits_for[link as usize] =
            core.stopped_before(link).into_iter().filter(is_paused).collect();
    }
    // Whoever waits for none that is left is in no cycle; of the others, each has a next one.
    let mut left = paused;
    loop {
        let before = left.len();
        left.retain(|&link| !waits_for[link as usize].is_empty());
        if left.len() == before {
            break;
        }
        for &link in &left {
            let others = std::mem::take(&mut waits_for[link as usize]);
            let stays = |other: &u32| left.binary_search(other).is_ok();
            waits_for[link as usize] = others.into_iter().filter(stays).collect();
        }
    }
    let mut way = vec![*left.first()?];
    loop {
        let next = waits_for[*way.last()? as usize][0];
        if let Some(start) = way.iter().position(|&link| link == next) {
            return Some(way.split_off(start));
        }
        way.push(next);
    }
}
