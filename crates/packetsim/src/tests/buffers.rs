//! Buffers that ports share, and packets that links lose at random.

use super::flow;
use super::scenarios::{play, scenario};
use crate::presets::star;
use crate::{Config, FlowSpec, PacketScenario, SharedBuffer, TransportName};
use lightloom_model::{Duration, Rate, Time};

const US: u64 = 1_000_000;
const FAST: Rate = Rate(100_000_000_000);

/// Flows over a star, whose queues are those of a shared buffer.
fn sharing(name: &str, hosts: u32, flows: Vec<FlowSpec>, shared: SharedBuffer) -> PacketScenario {
    let topology = star(hosts, FAST, Duration(US)).unwrap();
    let mut sharing = scenario(name, topology, flows);
    sharing.config = Config { shared_buffer: Some(shared), pfc: None, ..sharing.config };
    sharing
}

/// Peaks of the queues towards hosts.
fn peaks(scenario: &PacketScenario) -> Vec<u64> {
    let (report, _) = play(scenario).unwrap();
    let down = |(index, _): &(usize, _)| index % 2 == 1;
    report.links.iter().enumerate().filter(down).map(|(_, link)| link.peak_queue.0).collect()
}

/// n queues that overflow hold alpha / (1 + n alpha) of the buffer each (Choudhury and Hahne).
#[test]
fn queues_that_overflow_share_by_the_closed_form() {
    let bytes = 4_160 * 400;
    for alpha in [0.5, 1.0, 4.0] {
        for queues in [1, 2, 4] {
            let flows = (0..queues)
                .flat_map(|to| (0..8).map(move |from| flow((8 + 8 * to + from, to), 10_000_000)));
            let mut run =
                sharing("ideal", 8 + 8 * queues, flows.collect(), SharedBuffer { bytes, alpha });
            run.until = Time(100 * US);
            let expected = f64::from(bytes) * alpha / (1.0 + f64::from(queues) * alpha);
            for &peak in &peaks(&run)[..queues as usize] {
                let error = (peak as f64 - expected).abs();
                // packets of 4,160 B, of all queues
                assert!(
                    error <= 4160.0 * (1.0 + alpha) * f64::from(queues + 1),
                    "{peak} for {expected}"
                );
            }
        }
    }
}

/// One queue with any alpha has the whole buffer: as a limit of its own.
#[test]
fn without_a_threshold_a_queue_is_as_long_as_the_buffer() {
    let flows: Vec<_> = (1..8).map(|from| flow((from, 0), 600_000)).collect();
    for name in ["ndp", "dctcp", "uet-nscc", "swift"] {
        let bytes = 4160 * 50;
        let shared = SharedBuffer { bytes, alpha: 1e6 };
        let run = sharing(name, 8, flows.clone(), shared);
        let mut own = run.clone();
        own.config = Config { shared_buffer: None, queue_bytes: bytes, ..run.config };
        let [one, other] = [&run, &own].map(|it| play(it).unwrap().0.hash.digest());
        assert_eq!(one, other, "{name}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let wrong = |bytes, alpha| {
        let run = sharing("ndp", 2, vec![flow((0, 1), 10)], SharedBuffer { bytes, alpha });
        play(&run).map(|_| ()).unwrap_err().to_string()
    };
    assert!(wrong(1 << 20, 0.0).starts_with("a shared buffer of 1048576 B with alpha 0"));
    assert!(wrong(8_000, 1.0).ends_with("expected alpha above 0 and room for a packet, 8320 B"));
    let mut run =
        sharing("roce", 2, vec![flow((0, 1), 10)], SharedBuffer { bytes: 1 << 20, alpha: 1.0 });
    run.config.pfc = scenario("roce", star(2, FAST, Duration(US)).unwrap(), vec![]).config.pfc;
    assert!(
        play(&run).map(|_| ()).unwrap_err().to_string().starts_with("a shared buffer, and PFC")
    );
    run.config = Config { loss: 1.0, shared_buffer: None, ..run.config };
    assert_eq!(play(&run).unwrap_err().to_string(), "a loss of 1; expected at least 0 and below 1");
}

fn lossy(name: &str, loss: f64) -> PacketScenario {
    let flows = (0..8).map(|host| flow((host, (host + 3) % 8), 2_000_000)).collect();
    let mut lossy = scenario(name, star(8, FAST, Duration(US)).unwrap(), flows);
    lossy.config.loss = loss;
    lossy
}

/// Links lose the share that they are to lose, within five deviations, and all flows end.
#[test]
fn every_transport_survives_losses() {
    for name in TransportName::ALL.iter().map(|name| name.name()) {
        let loss = 1e-3;
        let (report, outcomes) = play(&lossy(name, loss)).unwrap();
        assert_eq!(outcomes.len(), 8, "{name}");
        let hops = (report.counters.data_hops + report.counters.control_hops) as f64;
        let lost = (report.totals.drops + report.totals.control_drops) as f64;
        let (expected, deviation) = (hops * loss, (hops * loss).sqrt());
        let is_lossy = ["dctcp", "mptcp", "swift"].contains(&name);
        let enough = lost > expected - 5.0 * deviation;
        assert!(enough && (is_lossy || lost < expected + 5.0 * deviation), "{name}: {lost}");
    }
}

/// The more is lost, the later the last flow ends.
#[test]
fn losses_cost_time() {
    for name in ["uet-nscc", "roce", "dctcp"] {
        let end = |loss| play(&lossy(name, loss)).unwrap().0.end;
        assert!(end(0.0) < end(1e-2), "{name}");
    }
}
