//! From proposals to a decision: follow them, or compare them with what is held; then relays; then
//! what the switch has to do.

use crate::break_even::{compare, exposed_seconds, saved_seconds, switched_pairs};
use crate::decider::Decider;
use crate::decision::{Change, Decision, Held, Upcoming, Why};
use lightloom_model::{Allocator, Duration};
use lightloom_schedule::{Allocation, NicCircuit, Request, makespans, port_bound};
use std::borrow::Cow;
use std::sync::Arc;

/// A decision whose circuits are still to be proposed.
#[derive(Debug)]
pub(crate) struct Draft<'a> {
    /// What is held, on NICs that work.
    pub held: Cow<'a, Held>,
    /// The next all-to-alls.
    pub upcoming: &'a [Upcoming],
    /// The demands that circuits are requested for.
    pub demands: Vec<Cow<'a, [u64]>>,
    /// What equal requests were served with earlier.
    pub proposals: Vec<Option<Arc<Allocation>>>,
    /// Why there is nothing to request.
    pub nothing: Option<Why>,
}

/// Circuits that may be taken.
#[derive(Debug)]
struct Candidate<'a> {
    circuits: Cow<'a, [u16]>,
    /// Their NICs, where not all circuits can be built.
    nics: Option<Vec<NicCircuit>>,
    chosen: Allocator,
}

/// Circuits and, if they are known, their NICs.
#[derive(Debug, Clone, Copy)]
struct Placed<'a> {
    circuits: &'a [u16],
    nics: Option<&'a [NicCircuit]>,
}

impl<'a> Placed<'a> {
    fn of(held: &'a Held) -> Self {
        Self { circuits: &held.circuits, nics: Some(&held.nics) }
    }
}

impl Candidate<'_> {
    fn placed(&self) -> Placed<'_> {
        Placed { circuits: &self.circuits, nics: self.nics.as_deref() }
    }
}

/// What is taken.
#[derive(Debug)]
pub(crate) struct Choice<'a> {
    /// The demand that it is for most of all.
    demand: Cow<'a, [u64]>,
    /// Other circuits than those held.
    candidate: Option<Candidate<'a>>,
    makespan: f64,
    /// Seconds that the upcoming all-to-alls would have taken longer with the circuits held.
    saved: f64,
    why: Why,
}

impl<'a> Draft<'a> {
    /// Nothing is requested yet.
    pub(crate) fn new(held: Cow<'a, Held>, upcoming: &'a [Upcoming]) -> Self {
        Self { held, upcoming, demands: Vec::new(), proposals: Vec::new(), nothing: None }
    }

    /// The circuits that a request starts from: only a switch now starts from what is held, and
    /// the first demand is that of the next all-to-all.
    pub(crate) fn previous(&self, index: usize) -> &[u16] {
        if index == 0 { &self.held.circuits } else { &[] }
    }

    /// A request to the allocator.
    pub(crate) fn request<'b>(&'b self, decider: &'b Decider, index: usize) -> Request<'b> {
        let previous = (index == 0).then_some(self.held.circuits.as_slice());
        decider.request(&self.demands[index], previous)
    }

    /// The requests that no earlier one serves.
    pub(crate) fn requests<'b>(
        &'b self,
        decider: &'b Decider,
    ) -> impl Iterator<Item = Request<'b>> {
        let open = (0..self.demands.len()).filter(|&index| self.proposals[index].is_none());
        open.map(|index| self.request(decider, index))
    }
}

/// The demand of all upcoming all-to-alls together.
pub(crate) fn sum_of(upcoming: &[Upcoming]) -> Cow<'_, [u64]> {
    let mut demand = Cow::Borrowed(upcoming[0].demand.as_slice());
    for next in &upcoming[1..] {
        for (sum, &bytes) in demand.to_mut().iter_mut().zip(&next.demand) {
            *sum = sum.saturating_add(bytes);
        }
    }
    demand
}

impl Decider {
    /// Keeps what is held.
    pub(crate) fn stay<'a>(&self, draft: &Draft<'a>, why: Why) -> Choice<'a> {
        let cells = draft.held.circuits.len();
        let demand = match draft.upcoming.first() {
            Some(first) => Cow::Borrowed(first.demand.as_slice()),
            None => Cow::Owned(vec![0; cells]),
        };
        let makespan = makespans(&self.request(&demand, None), &[&draft.held.circuits])[0];
        Choice { demand, candidate: None, makespan, saved: 0.0, why }
    }

    /// Takes the allocator's circuits for everything upcoming together.
    pub(crate) fn follow<'a>(&self, draft: &'a Draft, proposal: &'a Allocation) -> Choice<'a> {
        let demand = Cow::Borrowed(&*draft.demands[0]);
        let held = draft.held.circuits.as_slice();
        let candidate = self.candidate(draft, &demand, proposal);
        let mut makespan = proposal.makespan;
        if candidate.nics.is_some() && *candidate.circuits != *proposal.circuits {
            makespan = makespans(&self.request(&demand, None), &[&candidate.circuits])[0];
        }
        let mut choice =
            Choice { demand, candidate: None, makespan, saved: 0.0, why: Why::SameProposed };
        if *candidate.circuits == *held {
            choice.candidate = Some(candidate);
            return choice;
        }
        let (mut hold, mut switch) = (0.0, 0.0);
        for next in draft.upcoming {
            let sets = [held, &*candidate.circuits];
            let times = makespans(&self.request(&next.demand, None), &sets);
            choice.saved += saved_seconds(times[0], times[1]);
            hold += times[0];
            switch += times[1];
        }
        let delay = self.switch_time(draft, &candidate);
        let exposed = exposed_seconds(delay, draft.upcoming[0].hidden);
        choice.why = Why::Follows { hold, switch, exposed };
        choice.candidate = Some(candidate);
        choice
    }

    /// Takes the circuits that pay: those held, or proposals.
    pub(crate) fn compare<'a>(
        &self,
        draft: &'a Draft,
        proposals: &'a [Arc<Allocation>],
    ) -> Choice<'a> {
        let first = &draft.upcoming[0].demand;
        let mut candidates: Vec<Candidate> = Vec::with_capacity(proposals.len());
        for (index, proposal) in proposals.iter().enumerate() {
            let demand: &[u64] = draft.demands.get(index).map_or(first, |demand| demand);
            candidates.push(self.candidate(draft, demand, proposal));
        }
        let held = draft.held.circuits.as_slice();
        let sets: Vec<&[u16]> = candidates.iter().map(|other| &*other.circuits).collect();
        let request = self.request(first, None);
        let switch = |from: Option<usize>, to: Option<usize>| {
            let [from, to] = [from, to].map(|state| match state {
                Some(index) => candidates[index].placed(),
                None => Placed::of(&draft.held),
            });
            self.timing.for_pairs(self.pairs(from, to))
        };
        let verdict = compare(&request, held, draft.upcoming, &sets, &switch);
        let (hold, switched, exposed) = (verdict.hold, verdict.switch, verdict.exposed);
        let why = match verdict.best {
            None => Why::NoProposal { hold },
            Some(best) => {
                let pairs = self.pairs(Placed::of(&draft.held), candidates[best].placed());
                if verdict.pays() {
                    Why::Pays { hold, switch: switched, exposed, pairs }
                } else {
                    Why::DoesNotPay { hold, switch: switched, exposed, pairs }
                }
            }
        };
        let taken = verdict.best.filter(|_| verdict.pays());
        let makespan = makespans(&request, &[taken.map_or(held, |best| sets[best])])[0];
        Choice {
            demand: Cow::Borrowed(first),
            candidate: taken.map(|best| candidates.swap_remove(best)),
            makespan,
            saved: saved_seconds(hold, switched),
            why,
        }
    }

    /// What of a proposal can be built.
    fn candidate<'a>(
        &self,
        draft: &Draft,
        demand: &[u64],
        proposal: &'a Allocation,
    ) -> Candidate<'a> {
        let chosen = proposal.chosen;
        if !self.layout.is_limited() {
            return Candidate { circuits: Cow::Borrowed(&proposal.circuits), nics: None, chosen };
        }
        let request = self.request(demand, None);
        let (circuits, nics) = self.layout.build(&request, &proposal.circuits, &draft.held.nics);
        Candidate { circuits: Cow::Owned(circuits), nics: Some(nics), chosen }
    }

    /// Port pairs that a switch touches, by NIC where not all circuits can be built.
    fn pairs(&self, from: Placed, to: Placed) -> u32 {
        if !self.layout.is_limited() {
            return switched_pairs(&self.timing, from.circuits, to.circuits);
        }
        let [from, to] = [from, to].map(|set| set.nics.expect("circuits on planes have NICs"));
        Change::between(from, to).pairs(self.timing.keep_unchanged)
    }

    fn switch_time(&self, draft: &Draft, candidate: &Candidate) -> Duration {
        self.timing.for_pairs(self.pairs(Placed::of(&draft.held), candidate.placed()))
    }

    /// A choice that one-hop times led to, or to hold what is there if that is no slower once both
    /// relay.
    pub(crate) fn choose_relayed<'a>(
        &mut self,
        draft: &'a Draft,
        mut choice: Choice<'a>,
    ) -> Choice<'a> {
        let held = draft.held.circuits.as_slice();
        let taken = choice.candidate.as_ref().map_or(held, |candidate| &candidate.circuits);
        let Some(first) = self.relay(taken, &choice.demand) else { return choice };
        choice.makespan = first.makespan + first.latency;
        let Some(candidate) = choice.candidate.as_ref().filter(|_| taken != held) else {
            return choice;
        };
        let mut sum = |circuits: &[u16]| -> f64 {
            let time = |next: &Upcoming| {
                let found = self.relay(circuits, &next.demand).expect("servers relay");
                found.makespan + found.latency
            };
            draft.upcoming.iter().map(time).sum()
        };
        let (hold, switch) = (sum(held), sum(&candidate.circuits));
        let compares = matches!(choice.why, Why::Pays { .. });
        let delay = self.switch_time(draft, candidate);
        let hidden = draft.upcoming[0].hidden;
        let exposed = if compares { delay.0.saturating_sub(hidden.0) } else { 0 };
        let exposed = exposed as f64 * 1e-12;
        if switch + exposed < hold {
            return Choice { saved: hold - switch, ..choice };
        }
        let found = self.relay(held, &choice.demand).expect("servers relay");
        Choice {
            candidate: None,
            makespan: found.makespan + found.latency,
            saved: 0.0,
            why: Why::RelayingSuffices { hold, switch, exposed },
            ..choice
        }
    }

    /// What a choice means for circuits on NICs and for the switch.
    pub(crate) fn settle(&self, held: &Held, draft: &Draft, choice: Choice) -> Decision {
        let bound = port_bound(&self.request(&choice.demand, None));
        let before = &*draft.held;
        let next = match choice.candidate {
            None => before.clone(),
            Some(Candidate { circuits, chosen, .. }) if *circuits == *before.circuits => {
                Held { chosen, ..before.clone() }
            }
            Some(Candidate { circuits, nics, chosen }) => {
                let nics = nics.unwrap_or_else(|| self.layout.place(&circuits, &before.nics));
                Held { circuits: circuits.into_owned(), nics, chosen }
            }
        };
        let mut change = Change::between(&before.nics, &next.nics);
        let fails = |circuit: &&NicCircuit| !self.layout.works(circuit);
        change.lost = held.nics.iter().filter(fails).copied().collect();
        let pairs = change.pairs(self.timing.keep_unchanged);
        Decision {
            held: next,
            change,
            pairs,
            ready_after: self.timing.for_pairs(pairs),
            why: choice.why,
            demand: choice.demand.into_owned(),
            makespan: choice.makespan,
            bound,
            saved: if pairs > 0 { choice.saved } else { 0.0 },
        }
    }
}
