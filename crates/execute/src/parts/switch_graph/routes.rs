//! Shortest paths between classes of switches, and how bytes are divided among them.
//!
//! At each class bytes are divided among the links that lead on by a shortest path, in proportion
//! to their rates, as a switch does that sprays packets or hashes many flows. Of very many paths
//! some are taken, evenly among all, with equal shares.

use lightloom_flowsim::LinkId;
use lightloom_model::Duration;
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;

/// Paths of a pair of classes; of more as many are taken.
const MAX_ROUTES: u128 = 16;
/// What shares are counted in.
const WHOLE: f64 = (1_u64 << 40) as f64;

/// Links from one class to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hop {
    pub(super) to: u32,
    pub(super) link: LinkId,
    /// Rate of all of them.
    pub(super) rate: u64,
    pub(super) delay: Duration,
}

/// One path.
#[derive(Debug, Clone)]
pub(super) struct Route {
    pub(super) links: Vec<LinkId>,
    pub(super) delay: Duration,
    /// Its share, against those of the pair's other paths.
    pub(super) weight: u64,
}

/// The paths of each pair of classes that was asked for.
type RoutesOfPairs = FxHashMap<(u32, u32), Rc<[Route]>>;

/// Finds paths, each pair's once.
#[derive(Debug)]
pub(super) struct Router {
    out: Vec<Vec<Hop>>,
    into: Vec<Vec<u32>>,
    distances: RefCell<FxHashMap<u32, Rc<[u32]>>>,
    routes: RefCell<RoutesOfPairs>,
}

impl Router {
    /// Over the links that leave each class.
    pub(super) fn new(out: Vec<Vec<Hop>>) -> Self {
        let mut into = vec![Vec::new(); out.len()];
        for (from, hops) in (0..).zip(&out) {
            for hop in hops {
                into[hop.to as usize].push(from);
            }
        }
        Self { out, into, distances: RefCell::default(), routes: RefCell::default() }
    }

    /// The paths from one class to another; none if nothing leads there.
    pub(super) fn routes(&self, from: u32, to: u32) -> Rc<[Route]> {
        if let Some(routes) = self.routes.borrow().get(&(from, to)) {
            return Rc::clone(routes);
        }
        let distance = self.distances(to);
        let routes: Rc<[Route]> = if distance[from as usize] == u32::MAX {
            Rc::new([])
        } else {
            let mut counts = FxHashMap::default();
            let total = self.count(from, &distance, &mut counts);
            let all = total <= MAX_ROUTES;
            let taken = total.min(MAX_ROUTES);
            let route =
                |index: u128| self.route(from, index * total / taken, all, &distance, &counts);
            (0..taken).map(route).collect()
        };
        self.routes.borrow_mut().insert((from, to), Rc::clone(&routes));
        routes
    }

    fn distances(&self, to: u32) -> Rc<[u32]> {
        let known = self.distances.borrow().get(&to).cloned();
        known.unwrap_or_else(|| {
            let mut distance = vec![u32::MAX; self.out.len()];
            distance[to as usize] = 0;
            let mut reached = vec![to];
            let mut next = 0;
            while let Some(&class) = reached.get(next) {
                next += 1;
                for &other in &self.into[class as usize] {
                    if distance[other as usize] == u32::MAX {
                        distance[other as usize] = distance[class as usize] + 1;
                        reached.push(other);
                    }
                }
            }
            let distance: Rc<[u32]> = distance.into();
            self.distances.borrow_mut().insert(to, Rc::clone(&distance));
            distance
        })
    }

    /// The links that lead on from a class.
    fn onward<'a>(&'a self, from: u32, distance: &'a [u32]) -> impl Iterator<Item = &'a Hop> {
        let left = distance[from as usize];
        self.out[from as usize].iter().filter(move |hop| distance[hop.to as usize] + 1 == left)
    }

    /// How many paths there are from a class.
    fn count(&self, from: u32, distance: &[u32], counts: &mut FxHashMap<u32, u128>) -> u128 {
        if distance[from as usize] == 0 {
            return 1;
        }
        if let Some(&count) = counts.get(&from) {
            return count;
        }
        let next: Vec<u32> = self.onward(from, distance).map(|hop| hop.to).collect();
        let count = next.into_iter().fold(0_u128, |sum, class| {
            sum.saturating_add(self.count(class, distance, counts)).min(1 << 80)
        });
        counts.insert(from, count);
        count
    }

    /// The path of this index among all; its share is that of its rates, or equal to the others'.
    fn route(
        &self,
        mut from: u32,
        mut index: u128,
        by_rate: bool,
        distance: &[u32],
        counts: &FxHashMap<u32, u128>,
    ) -> Route {
        let mut route = Route { links: Vec::new(), delay: Duration::ZERO, weight: 1 };
        let mut share = 1.0;
        while distance[from as usize] > 0 {
            let rates: u128 = self.onward(from, distance).map(|hop| u128::from(hop.rate)).sum();
            let mut chosen = None;
            for hop in self.onward(from, distance) {
                chosen = Some(hop);
                let count = counts.get(&hop.to).copied().unwrap_or(1);
                if index < count {
                    break;
                }
                index -= count;
            }
            let hop = chosen.expect("a shorter way leads on");
            route.links.push(hop.link);
            route.delay += hop.delay;
            share *= hop.rate as f64 / rates as f64;
            from = hop.to;
        }
        if by_rate {
            route.weight = (share * WHOLE).round().max(1.0) as u64;
        }
        route
    }
}
