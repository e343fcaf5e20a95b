//! How many bytes a step implies, found from its columns alone, so that it checks what the run
//! counts; and whether direct routes exist where they are needed.

use crate::demand::{member_demand, remote_bytes};
use crate::error::{ExecuteError, invalid, network as unfit};
use crate::fabric::Fabric;
use crate::index::{GroupKey, Index};
use crate::network::{Pair, Placement};
use crate::ways::Setting;
use lightloom_model::{
    AllToAll, Collective, CollectiveKind, Payload, Peer, Role, RoleId, TaskGraph, TaskKind,
    WorkerId,
};
use rustc_hash::FxHashSet;

/// Maximum bytes between workers: sums of them fit 64 bits with room to spare.
const MAX_BYTES: u128 = 1 << 62;

/// What bytes are counted from.
#[derive(Clone, Copy)]
pub(crate) struct Step<'a> {
    /// The step.
    pub graph: &'a TaskGraph,
    /// Where its workers are in groups.
    pub index: &'a Index,
    /// Where they are.
    pub placement: &'a Placement,
    /// What carries their bytes.
    pub fabric: &'a Fabric,
    /// How all-to-alls are spread.
    pub spread: AllToAll,
}

impl Step<'_> {
    /// Bytes between workers that the graph implies, by purpose.
    ///
    /// # Errors
    /// If two servers that communicate have no route, or there are too many bytes.
    pub(crate) fn implied_bytes(&self) -> Result<Vec<u64>, ExecuteError> {
        let mut totals = vec![0_u128; self.index.purposes.len()];
        let mut peers: FxHashSet<(RoleId, Peer)> = FxHashSet::default();
        for (number, role) in self.graph.roles.iter().enumerate() {
            let id = RoleId(number as u32);
            for task in &role.tasks {
                let Some(purpose) = self.index.purpose_of[task.category.index()] else { continue };
                let total = &mut totals[purpose.index()];
                match task.kind {
                    TaskKind::Send { peer, bytes, .. } => {
                        let size = |&worker| u128::from(self.graph.amount(bytes, worker));
                        *total += role.workers.iter().map(size).sum::<u128>();
                        if peers.insert((id, peer)) {
                            self.need_send_routes(role, peer)?;
                        }
                    }
                    TaskKind::Collective(collective) => {
                        *total += self.collective_bytes(id, &collective)?;
                    }
                    _ => {}
                }
            }
        }
        if totals.iter().any(|&total| total > MAX_BYTES) {
            return Err(invalid(format!(
                "the step moves over {MAX_BYTES} bytes between workers: check sizes"
            )));
        }
        Ok(totals.into_iter().map(|total| total as u64).collect())
    }

    /// Bytes of a role's collective. A collective is joined by all of its group; the role of the
    /// first member counts them.
    fn collective_bytes(
        &self,
        role: RoleId,
        collective: &Collective,
    ) -> Result<u128, ExecuteError> {
        let Some(family) = collective.family else { return Ok(0) };
        let mut total = 0;
        let groups = &self.graph.families[family.index()];
        for (group, members) in groups.iter() {
            let leads = |first: &WorkerId| self.index.role_of[first.index()] == role;
            if !members.first().is_some_and(leads) || members.len() < 2 {
                continue;
            }
            if collective.kind == CollectiveKind::AllToAll {
                let payload = collective.payload;
                total += remote_bytes(self.graph, payload, group, members.len(), self.spread);
                self.need_all_to_all_routes(payload, GroupKey { family, group })?;
                continue;
            }
            let Self { graph, placement, fabric, .. } = *self;
            let way = Setting { graph, placement, fabric }.way(collective, groups, group);
            let circulation = way.circulation(collective, groups, group);
            total += u128::from(circulation.edge_bytes) * u128::from(circulation.edges);
            for (place, &worker) in members.iter().enumerate() {
                let next = members[(place + 1) % members.len()];
                self.need_route(worker, next, "a ring")?;
                self.need_route(next, worker, "a ring, which goes both ways,")?;
            }
        }
        Ok(total)
    }

    fn need_send_routes(&self, role: &Role, peer: Peer) -> Result<(), ExecuteError> {
        for &worker in &role.workers {
            let other = self.index.peer(self.graph, worker, peer).expect("checked");
            self.need_route(worker, other, "a pipeline send")?;
        }
        Ok(())
    }

    fn need_all_to_all_routes(
        &self,
        payload: Payload,
        GroupKey { family, group }: GroupKey,
    ) -> Result<(), ExecuteError> {
        if self.fabric.joins_all() {
            return Ok(());
        }
        let members = self.graph.families[family.index()].members(group);
        let mut demand = Vec::new();
        member_demand(self.graph, payload, group, members.len(), &mut demand);
        for (cell, &bytes) in demand.iter().enumerate() {
            let (from, to) = (cell / members.len(), cell % members.len());
            if bytes > 0 && from != to {
                self.need_route(members[from], members[to], "an all-to-all")?;
            }
        }
        Ok(())
    }

    fn need_route(&self, from: WorkerId, to: WorkerId, what: &str) -> Result<(), ExecuteError> {
        let (source, target) = self.placement.servers(Pair::new(from, to));
        if !self.fabric.joins(source, target) {
            return Err(unfit(format!(
                "no route from server {source} to server {target}, which {what} needs: add it to \
                 the fabric's routes"
            )));
        }
        Ok(())
    }
}
