//! Regional circuit switches: what allocates them, how long a switch takes, what relaying costs,
//! and what of them has failed.

use crate::invalid::Invalid;
use crate::record::{Record, Takes, Value};
use crate::units::{Duration, Rate};
use serde::{Deserialize, Serialize};

choices! {
    /// Which function turns a region's demand into circuits.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Allocator: "allocator" {
        Paper = "paper": "Algorithm 1 of MixNet, as printed",
        Reference = "reference": "Algorithm 1 as the simulator of the MixNet authors has it",
        Static = "static": "A demand-oblivious circulant",
        Greedy = "greedy": "The pair that needs it most gets the next circuit",
        Parametric = "parametric": "Bisection on the time, with a local search at each",
        Best = "best": "Never slower than the others: `parametric` with more patience and starts",
    }
}

choices! {
    /// What the first all-to-all of the forward pass does, whose demand is known only at the gate.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum FirstAllToAll: "first" {
        Reuse = "reuse": "Uses the circuits that are up",
        Block = "block": "Waits for new circuits",
        Predict = "predict": "Is decided beforehand, on what the same layer's last one was",
    }
}

records! {
    /// How long a switch takes: `fixed + per_pair * pairs + control + link_up` from a decision to
    /// usable circuits, and nothing if no circuit changes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SwitchTiming {
        fixed = fixed_s: Duration,
            "From the command until circuits have settled, whatever their number.";
        per_pair = per_pair_s: Duration = Duration::ZERO,
            "In addition for each pair that changes.";
        control = control_s: Duration = Duration::ZERO,
            "Collecting the demand, deciding, and sending commands.";
        link_up = link_up_s: Duration = Duration::ZERO,
            "From settled circuits until NICs carry traffic.";
        keep_unchanged = keep_unchanged: bool = true,
            "Whether circuits that do not change stay up; if not, all pairs count as changed.";
    }
}

impl Default for SwitchTiming {
    fn default() -> Self {
        let none = Duration::ZERO;
        Self { fixed: none, per_pair: none, control: none, link_up: none, keep_unchanged: true }
    }
}

impl SwitchTiming {
    /// The time for this many changed pairs; zero if none changes.
    pub fn for_pairs(&self, pairs: u32) -> Duration {
        if pairs == 0 {
            return Duration::ZERO;
        }
        let switching = Duration(self.per_pair.0.saturating_mul(u64::from(pairs)));
        self.fixed + switching + self.control + self.link_up
    }
}

records! {
    /// What a server pays for passing bytes of others on.
    ///
    /// A relayed byte lands in the memory of the GPU whose NIC took it in and crosses the NVSwitch
    /// once, to the GPU whose NIC sends it on. Bytes are passed on in chunks: a chunk must have
    /// arrived and have been staged before it goes on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct RelayCost {
        staging_rate = nvswitch_gbps: Option<Rate> = None,
            "Rate at which one server can stage, per direction; no limit if infinite.";
        chunk_bytes = chunk_bytes: u64,
            "Size of a chunk.";
        relay_delay = relay_delay_s: Duration,
            "Time to notice a chunk and to start its copy and its sending.";
        memory_limit = memory_limit_bytes: Option<u64> = None,
            "Limit of what one server may relay: without pacing, all may arrive before any leaves.";
    }
}

impl RelayCost {
    /// Seconds by which a relayed byte is later than one hop would be: chunks follow each other
    /// without gaps, so only the first one shows, once on the wire and once across the NVSwitch.
    pub fn latency(&self, circuit_rate: Rate) -> f64 {
        let bits = self.chunk_bytes as f64 * 8.0;
        let staging = self.staging_rate.map_or(0.0, |rate| bits / rate.0 as f64);
        bits / circuit_rate.0 as f64 + staging + self.relay_delay.0 as f64 * 1e-12
    }
}

choices! {
    /// How the fibers of NICs are laid to circuit switches, where NIC i is on switch ("plane") i.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Fibers: "planes" {
        Duplex = "duplex": "Both directions of NIC i on plane i",
        Crossed = "crossed":
            "NICs 2 j and 2 j + 1 crossed over planes 2 j and 2 j + 1, a last odd one duplex",
    }
}

/// By name; one switch joins any two ports if absent.
impl Value for Option<Fibers> {
    const TAKES: Takes = Fibers::TAKES;
    type Written = Option<String>;

    fn read(written: Option<String>, name: &str) -> Result<Self, Invalid> {
        written.map(|written| Fibers::read(written, name)).transpose()
    }

    fn write(&self) -> Option<String> {
        self.map(|fibers| fibers.name().into())
    }
}

impl Fibers {
    /// The NIC of another server that this NIC of one can be joined to, of `planes` NICs each.
    pub fn partner(self, nic: usize, planes: usize) -> usize {
        match self {
            Self::Crossed if nic ^ 1 < planes => nic ^ 1,
            Self::Duplex | Self::Crossed => nic,
        }
    }
}

records! {
    /// Parts that have failed and are never used. A part may be named twice.
    #[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
    pub struct Failures {
        nics = nics: Vec<(u32, u32)> = Vec::new(),
            "Optical NICs (or the switch ports behind them) as (server, NIC).";
        eps_nics = eps_nics: Vec<(u32, u32)> = Vec::new(),
            "Failed EPS NICs as (server, NIC).";
        servers = servers: Vec<u32> = Vec::new(),
            "Whole servers.";
        planes = planes: Vec<u32> = Vec::new(),
            "Circuit switches, where NIC i of every server is on switch i.";
    }
}

/// Nothing has failed if it is absent.
impl Value for Failures {
    const TAKES: Takes = Takes::Record(<Self as Record>::NAME);
    type Written = Option<Self>;

    fn read(written: Option<Self>, _: &str) -> Result<Self, Invalid> {
        Ok(written.unwrap_or_default())
    }

    fn write(&self) -> Option<Self> {
        Some(self.clone())
    }
}

impl Failures {
    /// Whether nothing has failed.
    pub fn is_empty(&self) -> bool {
        self.nics.is_empty()
            && self.eps_nics.is_empty()
            && self.servers.is_empty()
            && self.planes.is_empty()
    }

    /// Checks that every part named exists; `ports` are the optical NICs of each server.
    ///
    /// # Errors
    /// Names the first part that does not exist.
    pub fn validate(&self, ports: &[u32], eps_nics: u32) -> Result<(), Invalid> {
        let servers = ports.len() as u32;
        let below = |what: String, index: u32, count: u32| {
            if index < count {
                return Ok(());
            }
            let expected = match count {
                0 => "but there are none".into(),
                _ => format!("expected 0 to {}", count - 1),
            };
            Err(Invalid(format!("failed {what}: {index}, {expected}")))
        };
        let named = self.servers.iter().chain(self.nics.iter().map(|(server, _)| server));
        for &server in named.chain(self.eps_nics.iter().map(|(server, _)| server)) {
            below("server".into(), server, servers)?;
        }
        for &(server, nic) in &self.nics {
            below(format!("NIC of server {server}"), nic, ports[server as usize])?;
        }
        for &(server, nic) in &self.eps_nics {
            below(format!("EPS NIC of server {server}"), nic, eps_nics)?;
        }
        let planes = ports.iter().copied().max().unwrap_or(0);
        self.planes.iter().try_for_each(|&plane| below("plane".into(), plane, planes))
    }

    /// Which optical NICs work, one row per server and `width` columns: at least as many as the
    /// largest number of ports. A server has none beyond its ports.
    ///
    /// # Panics
    /// If a part does not exist, see [`Self::validate`].
    pub fn working_nics(&self, ports: &[u32], width: usize) -> Vec<bool> {
        let mut working = vec![false; ports.len() * width];
        for (row, &count) in working.chunks_exact_mut(width.max(1)).zip(ports) {
            row[..count as usize].fill(true);
        }
        for &server in &self.servers {
            working[server as usize * width..][..width].fill(false);
        }
        for &(server, nic) in &self.nics {
            working[server as usize * width + nic as usize] = false;
        }
        for &plane in &self.planes {
            working[plane as usize..].iter_mut().step_by(width).for_each(|nic| *nic = false);
        }
        working
    }

    /// The rate of a server's `nics` EPS NICs, less the part of those that have failed.
    pub fn eps_rate(&self, server: u32, rate: Rate, nics: u32) -> Rate {
        if self.servers.contains(&server) {
            return Rate(0);
        }
        let mut failed: Vec<u32> = self
            .eps_nics
            .iter()
            .filter(|(other, _)| *other == server)
            .map(|(_, nic)| *nic)
            .collect();
        failed.sort_unstable();
        failed.dedup();
        if failed.is_empty() {
            return rate;
        }
        let left = f64::from(nics - failed.len() as u32) / f64::from(nics);
        Rate((rate.0 as f64 * left) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_change_takes_no_time() {
        let timing =
            SwitchTiming { fixed: Duration(25), per_pair: Duration(2), ..SwitchTiming::default() };
        assert_eq!(timing.for_pairs(0), Duration::ZERO);
        assert_eq!(timing.for_pairs(3), Duration(31));
    }

    #[test]
    fn failed_parts_do_not_work() {
        let failures = Failures {
            nics: vec![(0, 1), (0, 1)],
            eps_nics: vec![(2, 0), (2, 0)],
            servers: vec![1],
            planes: vec![2],
        };
        let working = failures.working_nics(&[3, 3, 1], 3);
        assert_eq!(working, [true, false, false, false, false, false, true, false, false]);
        assert_eq!(failures.eps_rate(0, Rate(30), 3), Rate(30));
        assert_eq!(failures.eps_rate(1, Rate(30), 3), Rate(0));
        assert_eq!(failures.eps_rate(2, Rate(30), 3), Rate(20));
    }

    #[test]
    fn any_part_is_a_failure() {
        let none = Failures::default;
        assert!(none().is_empty());
        for failures in [
            Failures { nics: vec![(0, 0)], ..none() },
            Failures { eps_nics: vec![(0, 0)], ..none() },
            Failures { servers: vec![0], ..none() },
            Failures { planes: vec![0], ..none() },
        ] {
            assert!(!failures.is_empty(), "{failures:?}");
        }
    }

    #[test]
    fn crossed_fibers_lead_there_and_back_and_an_odd_last_one_to_itself() {
        for planes in 0..6 {
            for nic in 0..planes {
                let partner = Fibers::Crossed.partner(nic, planes);
                assert_eq!(Fibers::Crossed.partner(partner, planes), nic);
                let alone = planes % 2 == 1 && nic == planes - 1;
                assert_eq!(partner == nic, alone, "NIC {nic} of {planes}");
                assert_eq!(partner / 2, nic / 2, "NIC {nic} of {planes}");
                assert_eq!(Fibers::Duplex.partner(nic, planes), nic);
            }
        }
    }

    #[test]
    fn parts_that_do_not_exist_are_refused() {
        let refusal = |failures: Failures| {
            failures.validate(&[2, 1], 3).map_err(|error| error.to_string()).unwrap_err()
        };
        let none = Failures::default;
        assert_eq!(none().validate(&[2, 1], 3), Ok(()));
        let text = refusal(Failures { nics: vec![(1, 1)], ..none() });
        assert_eq!(text, "failed NIC of server 1: 1, expected 0 to 0");
        for failures in [
            Failures { nics: vec![(2, 0)], ..none() },
            Failures { eps_nics: vec![(2, 0)], ..none() },
        ] {
            assert_eq!(refusal(failures), "failed server: 2, expected 0 to 1");
        }
        let text = refusal(Failures { servers: vec![2], ..none() });
        assert_eq!(text, "failed server: 2, expected 0 to 1");
        let text = refusal(Failures { planes: vec![2], ..none() });
        assert_eq!(text, "failed plane: 2, expected 0 to 1");
        let text = refusal(Failures { eps_nics: vec![(0, 3)], ..none() });
        assert_eq!(text, "failed EPS NIC of server 0: 3, expected 0 to 2");
    }

    proptest! {
        /// A NIC works if its server has it and neither it nor its server nor its plane has failed;
        /// that a part is named twice, or in another order, changes nothing.
        #[test]
        fn a_nic_works_unless_something_of_it_has_failed(
            ports in prop::collection::vec(0_u32..5, 1..6),
            nics in prop::collection::vec((0_u32..6, 0_u32..5), 0..6),
            servers in prop::collection::vec(0_u32..6, 0..3),
            planes in prop::collection::vec(0_u32..5, 0..3),
            wider in 0_usize..3,
        ) {
            let max_ports = ports.iter().copied().max().unwrap_or(0);
            let count = ports.len() as u32;
            let has = |&(server, nic): &(u32, u32)| {
                server < count && nic < ports[server as usize]
            };
            let failures = Failures {
                nics: nics.into_iter().filter(has).collect(),
                servers: servers.into_iter().filter(|&server| server < count).collect(),
                planes: planes.into_iter().filter(|&plane| plane < max_ports).collect(),
                ..Failures::default()
            };
            prop_assert_eq!(failures.validate(&ports, 0), Ok(()));
            let width = max_ports as usize + wider;
            let working = failures.working_nics(&ports, width);
            for (server, nic) in (0..count).flat_map(|a| (0..width as u32).map(move |b| (a, b))) {
                let fails = failures.nics.contains(&(server, nic))
                    || failures.servers.contains(&server)
                    || failures.planes.contains(&nic);
                let expected = nic < ports[server as usize] && !fails;
                prop_assert_eq!(working[server as usize * width + nic as usize], expected);
            }
            let twice = |list: &[u32]| list.iter().rev().chain(list).copied().collect();
            let again = Failures {
                servers: twice(&failures.servers),
                planes: twice(&failures.planes),
                ..failures
            };
            prop_assert_eq!(again.working_nics(&ports, width), working);
        }

        /// The rate of a server falls by the share of its NICs that have failed.
        #[test]
        fn each_failed_nic_takes_its_share(failed in prop::collection::vec(0_u32..8, 0..12)) {
            let eps_nics: Vec<(u32, u32)> = failed.iter().map(|&nic| (1, nic)).collect();
            let failures = Failures { eps_nics, ..Failures::default() };
            let left = (0..8).filter(|nic| !failed.contains(nic)).count() as u64;
            prop_assert_eq!(failures.eps_rate(1, Rate(800), 8), Rate(100 * left));
            prop_assert_eq!(failures.eps_rate(0, Rate(800), 8), Rate(800));
        }
    }

    #[test]
    fn every_part_of_a_switch_adds_up() {
        let timing = SwitchTiming {
            fixed: Duration(1000),
            per_pair: Duration(1),
            control: Duration(100),
            link_up: Duration(10),
            keep_unchanged: false,
        };
        assert_eq!(timing.for_pairs(5), Duration(1115));
        let slow = SwitchTiming { per_pair: Duration(u64::MAX / 2), ..timing };
        assert_eq!(slow.for_pairs(3), Duration(u64::MAX));
        assert_eq!(slow.for_pairs(0), Duration::ZERO);
    }

    #[test]
    fn where_there_are_no_parts_none_can_fail() {
        let refusal = |failures: Failures, ports: &[u32]| {
            failures.validate(ports, 0).expect_err("nothing is there").to_string()
        };
        let none = Failures::default;
        let servers = Failures { servers: vec![0], ..none() };
        assert_eq!(refusal(servers, &[]), "failed server: 0, but there are none");
        let nics = Failures { nics: vec![(1, 0)], ..none() };
        assert_eq!(refusal(nics, &[3, 0]), "failed NIC of server 1: 0, but there are none");
        let eps_nics = Failures { eps_nics: vec![(0, 0)], ..none() };
        assert_eq!(refusal(eps_nics, &[1]), "failed EPS NIC of server 0: 0, but there are none");
        let planes = Failures { planes: vec![0], ..none() };
        assert_eq!(refusal(planes, &[0, 0]), "failed plane: 0, but there are none");
    }
}
