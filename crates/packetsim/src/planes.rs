//! Which plane a flow takes, where hosts have a NIC on each of several copies of a fabric.

use crate::hash::mix;
use lightloom_model::choices;
use rustc_hash::FxHashMap;

choices! {
    /// How flows choose among planes.
    pub enum PlaneChoice: "plane_choice" {
        Hash = "hash": "Each flow takes one plane, by hash",
        RoundRobin = "round-robin": "The flows of a host take its planes in turn",
        Spray = "spray": "Each packet takes the plane to which the NIC's port is free first",
    }
}

/// The planes of flows, in the order in which flows are listed.
#[derive(Debug, Clone)]
pub struct PlaneTurns {
    choice: PlaneChoice,
    planes: u32,
    seed: u64,
    /// Flows until now.
    flows: u64,
    /// Per source how many flows it has until now.
    turns: FxHashMap<u32, u32>,
}

impl PlaneTurns {
    /// Before the first flow; there is at least one plane.
    pub fn new(choice: PlaneChoice, planes: u32, seed: u64) -> Self {
        Self { choice, planes: planes.max(1), seed, flows: 0, turns: FxHashMap::default() }
    }

    /// The plane of the next flow, which leaves this host: the first one of host `h` takes plane
    /// `h` modulo their number where they take turns, so that hosts with one flow each use all.
    /// Plane 0 stands for all where packets are sprayed.
    pub fn next(&mut self, source: u32) -> u32 {
        let flow = self.flows;
        self.flows += 1;
        match self.choice {
            PlaneChoice::Spray => 0,
            PlaneChoice::Hash => {
                let hash = mix(self.seed ^ mix(flow ^ 0x70_6c61_6e65)) >> 32;
                ((hash * u64::from(self.planes)) >> 32) as u32
            }
            PlaneChoice::RoundRobin => {
                let turn = self.turns.entry(source).or_insert(source % self.planes);
                std::mem::replace(turn, (*turn + 1) % self.planes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planes(choice: PlaneChoice, seed: u64, sources: &[u32]) -> Vec<u32> {
        let mut turns = PlaneTurns::new(choice, 4, seed);
        sources.iter().map(|&source| turns.next(source)).collect()
    }

    #[test]
    fn flows_of_a_host_take_turns_from_a_plane_of_its_index() {
        let turns = planes(PlaneChoice::RoundRobin, 1, &[0, 0, 6, 0, 6, 6, 0, 0]);
        assert_eq!(turns, [0, 1, 2, 2, 3, 0, 3, 0]);
    }

    #[test]
    fn a_hash_uses_all_turnsalike_and_depends_on_the_seed() {
        let sources = vec![0; 4_000];
        let turnsof = planes(PlaneChoice::Hash, 1, &sources);
        for plane in 0..4 {
            // 1,000 expected, with a deviation of 27.
            let flows = turnsof.iter().filter(|&&it| it == plane).count();
            assert!((900..1_100).contains(&flows), "plane {plane}: {flows}");
        }
        assert_eq!(turnsof, planes(PlaneChoice::Hash, 1, &sources));
        assert_ne!(turnsof, planes(PlaneChoice::Hash, 2, &sources));
        assert_eq!(planes(PlaneChoice::Spray, 1, &[3, 3, 5]), [0, 0, 0]);
    }
}
