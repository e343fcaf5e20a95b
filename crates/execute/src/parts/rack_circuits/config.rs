//! The description of racks whose circuits change during a run.

use lightloom_decide::{CircuitPolicy, EpochDecider, EpochRules};
use lightloom_model::{Duration, Invalid, Rate};
use lightloom_schedule::epochs::Epochs;
use lightloom_schedule::rotornet::Cycling;
use serde::Deserialize;

/// Racks that switches may join: all pairs have a place in memory.
const MAX_RACKS: u32 = 1 << 10;

/// Circuit switches that join the same racks, each with a port for every one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchBank {
    /// Racks, in the order of the ports.
    pub racks: Vec<u32>,
    /// How many such switches there are.
    pub switches: u32,
}

/// When circuits change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochTiming {
    /// From one decision to the next; of staggered switches, from one turn of each to its next.
    pub epoch: Duration,
    /// How long the circuits of a switch that turns are dark.
    pub dark: Duration,
    /// From a decision to the moment at which switches begin to turn.
    pub control: Duration,
}

/// How bytes find their way from rack to rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RackRouting {
    /// They wait for a circuit from their rack to that of their destination.
    Direct {
        /// Whether what is left of an epoch takes bytes to racks that can deliver them in the next
        /// one (`RotorLB`).
        relay: bool,
    },
    /// Over what the tables of racks know to be lit.
    Tables {
        /// Circuits of a path at most.
        circuits: u32,
        /// Tables are renewed at multiples of this time, if anything has changed; 0 for at once.
        hello: Duration,
        /// After so long on a dark path bytes go over electrical links; `None` if they wait until
        /// the path is lit or the tables know another one.
        patience: Option<Duration>,
    },
}

/// Racks of servers, circuit switches among the racks that follow a policy epoch by epoch, and
/// electrical links that are always lit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RackRecord")]
pub struct RackCircuits {
    /// NICs of each server, all to the switch of its rack.
    pub nics: u32,
    /// Rate of each.
    pub nic_rate: Rate,
    /// Propagation delay of one link, electrical or a circuit.
    pub link_delay: Duration,
    /// Consecutive servers of a rack.
    pub servers_per_rack: u32,
    /// Racks, the last ones perhaps without servers.
    pub racks: u32,
    /// Rate of a port of a rack at a circuit switch, all fibers of it together.
    pub circuit_rate: Rate,
    /// Circuit switches.
    pub banks: Vec<SwitchBank>,
    /// Electrical links between two racks, and their rate per direction.
    pub cables: Vec<(u32, u32, Rate)>,
    /// Rate of all links of a rack to a non-blocking electrical core, if there is one.
    pub core: Option<Rate>,
    /// When circuits change.
    pub timing: EpochTiming,
    /// What they follow.
    pub rules: EpochRules,
    /// How bytes find their way.
    pub routing: RackRouting,
    /// Whether circuits of rotors are lit at all times, each as fast as it is on average, instead
    /// of in turn: no change by the clock is simulated, and nothing waits for its slot.
    pub averaged: bool,
    /// Where bytes wait for a circuit of their pair: transfers of fewer bytes do not, but take as
    /// many circuits as it needs of those that are lit, and others when one of these goes dark.
    pub min_bytes: u64,
}

/// The description as a record.
#[derive(Debug, Deserialize)]
struct RackRecord {
    nics: u32,
    nic_rate_bps: Rate,
    link_delay_ps: Duration,
    servers_per_rack: u32,
    racks: u32,
    circuit_rate_bps: Rate,
    banks: Vec<(Vec<u32>, u32)>,
    cables: Vec<(u32, u32)>,
    cable_rate_bps: Rate,
    core_rate_bps: Option<Rate>,
    epoch_ps: Duration,
    dark_ps: Duration,
    control_ps: Duration,
    relay: bool,
    averaged: bool,
    min_bytes: u64,
    circuits_per_path: Option<u32>,
    hello_ps: Duration,
    patience_ps: Option<Duration>,
    rules: EpochRules,
}

impl From<RackRecord> for RackCircuits {
    fn from(record: RackRecord) -> Self {
        let bank = |(racks, switches)| SwitchBank { racks, switches };
        let cable = |(a, b)| (a, b, record.cable_rate_bps);
        let (hello, patience) = (record.hello_ps, record.patience_ps);
        let tables = |circuits| RackRouting::Tables { circuits, hello, patience };
        let direct = RackRouting::Direct { relay: record.relay };
        Self {
            nics: record.nics,
            nic_rate: record.nic_rate_bps,
            link_delay: record.link_delay_ps,
            servers_per_rack: record.servers_per_rack,
            racks: record.racks,
            circuit_rate: record.circuit_rate_bps,
            banks: record.banks.into_iter().map(bank).collect(),
            cables: record.cables.into_iter().map(cable).collect(),
            core: record.core_rate_bps,
            timing: EpochTiming {
                epoch: record.epoch_ps,
                dark: record.dark_ps,
                control: record.control_ps,
            },
            rules: record.rules,
            routing: record.circuits_per_path.map_or(direct, tables),
            averaged: record.averaged,
            min_bytes: record.min_bytes,
        }
    }
}

impl RackCircuits {
    /// What a circuit carries in an epoch after a turn, and during one, for the decider of a bank.
    pub(super) fn sizes(&self, bank: &SwitchBank) -> Epochs {
        let EpochTiming { epoch, dark, .. } = self.timing;
        let bytes = |time: u64| {
            let bits = u128::from(self.circuit_rate.0) * u128::from(time);
            (bits / (8 * u128::from(lightloom_model::units::PS_PER_S))) as u64
        };
        Epochs {
            nodes: bank.racks.len(),
            switches: bank.switches as usize,
            epoch: bytes(epoch.0 - dark.0).max(1),
            delay: bytes(dark.0),
        }
    }

    /// Who decides for a bank.
    ///
    /// # Errors
    /// If its sizes cannot be.
    pub(super) fn decider(&self, bank: &SwitchBank) -> Result<EpochDecider, Invalid> {
        self.rules.decider(self.sizes(bank))
    }

    /// Rate of the circuits of each pair of a bank on average, by how many ports apart they are: a
    /// rotor holds each of its matchings for as long, and is dark when it turns.
    pub(super) fn mean_rates(&self, bank: &SwitchBank) -> Vec<Rate> {
        let rotor = self.rules.rotor(self.sizes(bank));
        let shifts = bank.racks.len() as u64 - 1;
        let EpochTiming { epoch, dark, .. } = self.timing;
        let mut shares = vec![0.0; bank.racks.len()];
        for switch in 0..u64::from(bank.switches) {
            let subset = (shifts - switch % shifts).div_ceil(u64::from(bank.switches));
            let period = match rotor.cycling {
                Cycling::Shared => shifts,
                Cycling::Fixed => subset,
                Cycling::Staggered => subset * u64::from(bank.switches),
            };
            let held = |turn| rotor.shifts(turn).nth(switch as usize).expect("its shift");
            // One that has one matching does not turn.
            let turns = (1..period).any(|turn| held(turn) != held(0));
            let duty = if turns { 1.0 - dark.0 as f64 / epoch.0 as f64 } else { 1.0 };
            for turn in 0..period {
                shares[held(turn)] += duty / period as f64;
            }
        }
        shares.iter().map(|share| Rate((self.circuit_rate.0 as f64 * share) as u64)).collect()
    }

    /// Refuses averages of what is not the same whatever the traffic.
    pub(super) fn check_average(&self) -> Result<(), Invalid> {
        let is_direct = self.routing == RackRouting::Direct { relay: false } && self.min_bytes == 0;
        let is_rotor = self.rules.policy == CircuitPolicy::RotorNet && self.rules.seed.is_none();
        if self.averaged && !(is_direct && is_rotor) {
            return Err(Invalid::new(
                "racks: only rotors of shifts, without relaying, have average circuits",
            ));
        }
        Ok(())
    }

    /// From one decision to the next.
    pub(super) fn tick(&self) -> Duration {
        let switches = self.banks.iter().map(|bank| bank.switches).max().unwrap_or(1).max(1);
        let parts = if self.rules.is_staggered() { u64::from(switches) } else { 1 };
        Duration(self.timing.epoch.0 / parts)
    }

    pub(super) fn check_sizes(&self, servers: u32) -> Result<(), Invalid> {
        if self.nics == 0 || self.servers_per_rack == 0 || self.racks == 0 {
            return Err(Invalid::new("racks: NICs, servers of a rack and racks must be above 0"));
        }
        if self.racks > MAX_RACKS {
            let text = format!("racks: {} racks: expected at most {MAX_RACKS}", self.racks);
            return Err(Invalid(text));
        }
        let places = u64::from(self.racks) * u64::from(self.servers_per_rack);
        if places < u64::from(servers) {
            let text = format!("racks: {servers} servers do not fit into {places} places");
            return Err(Invalid(text));
        }
        for bank in &self.banks {
            let mut seen = vec![false; self.racks as usize];
            let fits = |&rack: &u32| {
                rack < self.racks && !std::mem::replace(&mut seen[rack as usize], true)
            };
            if bank.switches == 0 || bank.racks.len() < 2 || !bank.racks.iter().all(fits) {
                let text = "racks: circuit switches must join two racks or more, each once";
                return Err(Invalid::new(text));
            }
        }
        let is_cable =
            |&(a, b, rate): &(u32, u32, Rate)| a != b && a.max(b) < self.racks && rate.0 > 0;
        if !self.cables.iter().all(is_cable) {
            return Err(Invalid::new("racks: an electrical link joins no two racks at a rate"));
        }
        Ok(())
    }

    pub(super) fn check_timing(&self) -> Result<(), Invalid> {
        let EpochTiming { epoch, dark, .. } = self.timing;
        let tick = self.tick();
        if tick <= dark || epoch == Duration::ZERO {
            return Err(Invalid(format!(
                "racks: switches that turn every {} ps are never lit: they are dark for {} ps",
                tick.0, dark.0
            )));
        }
        if epoch.0.max(self.timing.control.0) > 1 << 60 {
            return Err(Invalid::new("racks: an epoch or a control delay of over 13 days"));
        }
        Ok(())
    }

    /// Refuses relaying where it is not rotors that all racks share.
    pub(super) fn check_relay(&self, servers: u32) -> Result<(), Invalid> {
        let used = servers.div_ceil(self.servers_per_rack);
        let is_whole = |bank: &SwitchBank| bank.racks.iter().copied().eq(0..self.racks);
        let is_rotor = self.rules.policy == CircuitPolicy::RotorNet;
        if is_rotor && self.banks.len() == 1 && is_whole(&self.banks[0]) && used == self.racks {
            return Ok(());
        }
        Err(Invalid::new("racks: only rotors that join all racks relay what waits"))
    }

    /// Refuses pairs of racks with servers whose bytes would wait for ever.
    pub(super) fn check_reach(&self, servers: u32) -> Result<(), Invalid> {
        let used = servers.div_ceil(self.servers_per_rack);
        if self.core.is_some() {
            return Ok(());
        }
        let direct = matches!(self.routing, RackRouting::Direct { .. });
        let mut reached = vec![Vec::new(); self.racks as usize];
        for bank in &self.banks {
            for &rack in &bank.racks {
                reached[rack as usize].extend(bank.racks.iter().copied());
            }
        }
        for &(a, b, _) in self.cables.iter().filter(|_| !direct) {
            reached[a as usize].push(b);
            reached[b as usize].push(a);
        }
        for from in 0..used {
            let mut known = vec![false; self.racks as usize];
            let mut open = vec![from];
            known[from as usize] = true;
            while let Some(rack) = open.pop() {
                for &next in &reached[rack as usize] {
                    if !std::mem::replace(&mut known[next as usize], true) && !direct {
                        open.push(next);
                    }
                }
            }
            if let Some(to) = (0..used).find(|&to| !known[to as usize]) {
                return Err(Invalid(format!("racks: nothing joins rack {from} and rack {to}")));
            }
        }
        Ok(())
    }
}
