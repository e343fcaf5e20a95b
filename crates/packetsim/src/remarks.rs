//! What makes a network slower or better than any that is built, without being wrong: a line each.

use crate::config::{Config, PathChoice};
use crate::flow::PacketFlowId;
use crate::network::core::{Core, sent_bytes};
use crate::scenario::{PacketScenario, TrafficClass};
use crate::transport::{Recovery, TransportKind};
use lightloom_model::{Duration, Rate};

/// All lines about a scenario whose flows `core` has.
pub(crate) fn remarks(scenario: &PacketScenario, core: &Core) -> Vec<String> {
    let of_class = |(class, TrafficClass { transport, .. }): (usize, TrafficClass)| {
        let config = core.config_of_class(class);
        [
            short_window(transport, class, core),
            short_pauses(config, core),
            endless(transport, config),
            overtaken(transport, config, core),
        ]
    };
    let found = scenario.all_classes().enumerate().flat_map(of_class);
    let mut lines: Vec<String> = Vec::new();
    for line in found.flatten() {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// A window that is given and holds less than the round trip of a flow that is longer.
fn short_window(transport: TransportKind, class: usize, core: &Core) -> Option<String> {
    let packets = transport.given_window()?;
    let window = packets * f64::from(core.config_of_class(class).packet_bytes());
    let flows = (0..core.flow_count() as u32).map(PacketFlowId);
    let flows = flows.filter(|&flow| core.class_of(flow) == class);
    let longer = flows.filter(|flow| f64::from(core.flow(*flow).packets) > packets);
    let flow = longer.max_by_key(|flow| core.bytes_in_flight(*flow))?;
    let held = core.bytes_in_flight(flow) as f64;
    (window < held).then(|| {
        format!(
            "A window of {packets} packets is {}, and a round trip at {} holds {}: it does not \
             fill that link.",
            kilobytes(window),
            gigabits(core.nic_rate(core.endpoints(flow).source())),
            kilobytes(held)
        )
    })
}

/// Pauses that end when less is left than arrives before the sender's packets do.
fn short_pauses(config: &Config, core: &Core) -> Option<String> {
    let resume = config.pfc?.resume_bytes;
    let topology = core.topology();
    let links = topology.links().iter().filter(|link| !topology.is_host(link.to));
    let held = |rate, delay: Duration| sent_bytes(rate, Duration(2 * delay.0));
    let link = links.max_by_key(|link| held(link.rate, link.delay))?;
    let missing = held(link.rate, link.delay);
    (u128::from(resume) < missing).then(|| {
        format!(
            "Pauses end below {}, and a link of {} holds {} there and back: it idles after each.",
            kilobytes(f64::from(resume)),
            gigabits(link.rate),
            kilobytes(missing as f64)
        )
    })
}

/// Queues without end, where the transport relies on pauses.
fn endless(transport: TransportKind, config: &Config) -> Option<String> {
    let relies = TransportKind::profile(transport.name(), Rate(1)).0.pfc.is_some();
    (relies && config.pfc.is_none() && config.queue_bytes == u32::MAX).then(|| {
        "Queues have no end and PFC is off, as in no switch: nothing is lost, nothing pauses."
            .to_owned()
    })
}

/// Packets that overtake each other, and a transport that takes these for losses.
fn overtaken(transport: TransportKind, config: &Config, core: &Core) -> Option<String> {
    let takes = match transport.recovery() {
        Some(recovery) => recovery == Recovery::GoBackN,
        None => config.paths == PathChoice::Ecmp,
    };
    (takes && core.reorders()).then(|| {
        let cure = match transport.recovery() {
            Some(_) => "recovery = selective does not",
            None => "choose a transport that sprays packets, or routing by hash",
        };
        format!(
            "Packets overtake each other by this routing, which {} takes for losses: {cure}.",
            transport.name()
        )
    })
}

fn kilobytes(bytes: f64) -> String {
    format!("{:.0} kB", bytes / 1e3)
}

fn gigabits(rate: Rate) -> String {
    format!("{} Gb/s", rate.0 as f64 / 1e9)
}
