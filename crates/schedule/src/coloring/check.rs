//! Checks results from the definitions alone.

use super::fabric::{FabricRoute, FabricShape, NONE};
use super::graph::Bipartite;
use lightloom_model::Invalid;

/// Checks that every edge has one of `colors` colors and that no two edges of a color meet.
///
/// # Errors
/// If not: the first edge that is wrong.
pub fn check_coloring(graph: &Bipartite, colors: u32, of_edge: &[u32]) -> Result<(), Invalid> {
    if of_edge.len() != graph.edges.len() {
        let (edges, given) = (graph.edges.len(), of_edge.len());
        return Err(Invalid(format!("{edges} edges but {given} colors of edges")));
    }
    let mut ends = Vec::with_capacity(2 * of_edge.len());
    for (edge, (&(a, b), &color)) in graph.edges.iter().zip(of_edge).enumerate() {
        if color >= colors {
            return Err(Invalid(format!("edge {edge} has color {color} of {colors}")));
        }
        ends.extend([(false, a, color, edge), (true, b, color, edge)]);
    }
    ends.sort_unstable();
    match ends.windows(2).find(|w| (w[0].0, w[0].1, w[0].2) == (w[1].0, w[1].1, w[1].2)) {
        Some(w) => {
            let (side, vertex) = (if w[0].0 { "right" } else { "left" }, w[0].1);
            let text = format!(
                "edges {} and {} of color {} meet at {side} vertex {vertex}",
                w[0].3, w[1].3, w[0].2
            );
            Err(Invalid(text))
        }
        None => Ok(()),
    }
}

/// Follows the light of every host through the switches.
///
/// Checks that no two inputs of a switch have one output, so that no link is used twice; that
/// every circuit ends at its destination by the spine and core stated; that circuits inside a
/// leaf or pod stay there; and that nothing else is lit.
///
/// # Errors
/// If not: the first thing that is wrong.
pub fn check_route(
    permutation: &[u32],
    shape: &FabricShape,
    route: &FabricRoute,
) -> Result<(), Invalid> {
    shape.validate(permutation.len())?;
    let fabric = Fabric::new(permutation.len() as u32, shape, route)?;
    let mut lit = 0;
    for (host, &to) in (0..).zip(permutation) {
        let (end, spine, core, crossed) = fabric.follow(host)?;
        let index = host as usize;
        if end != to {
            return Err(Invalid(format!("the circuit of host {host} ends at {end}, not {to}")));
        }
        if (spine, core) != (route.spine[index], route.core[index]) {
            return Err(Invalid(format!("host {host} does not take the path that is stated")));
        }
        let same = |size: u32| to != NONE && host / size == to / size;
        if same(shape.leaf) && spine != NONE {
            return Err(Invalid(format!("host {host} leaves its leaf without need")));
        }
        if shape.pods.is_some_and(|pods| same(shape.leaf * pods.leaves)) && core != NONE {
            return Err(Invalid(format!("host {host} leaves its pod without need")));
        }
        lit += crossed;
    }
    let settings = [&route.leaf_switches, &route.spine_switches, &route.core_switches];
    let set = settings.into_iter().flatten().filter(|&&output| output != NONE).count();
    if set == lit {
        Ok(())
    } else {
        Err(Invalid(format!("{set} connections are made in switches, but {lit} are used")))
    }
}

struct Fabric<'a> {
    shape: &'a FabricShape,
    route: &'a FabricRoute,
    leaves: u32,
}

impl<'a> Fabric<'a> {
    fn new(hosts: u32, shape: &'a FabricShape, route: &'a FabricRoute) -> Result<Self, Invalid> {
        let leaves = hosts / shape.leaf;
        let spine_ports = match shape.pods {
            None => leaves,
            Some(pods) => pods.leaves + pods.cores,
        };
        let pods = shape.pods.map_or(1, |pods| leaves / pods.leaves);
        let cores = shape.pods.map_or(0, |pods| pods.cores * shape.spines);
        let expected = [
            ("leaf", &route.leaf_switches, leaves, shape.leaf + shape.spines),
            ("spine", &route.spine_switches, shape.spines * pods, spine_ports),
            ("core", &route.core_switches, cores, pods),
        ];
        for (name, settings, switches, ports) in expected {
            let (inputs, expected) = (settings.len(), (switches * ports) as usize);
            if inputs != expected {
                return Err(Invalid(format!("{inputs} inputs of {name} switches, not {expected}")));
            }
            for setting in settings.chunks_exact((ports as usize).max(1)) {
                let mut taken = vec![false; ports as usize];
                for &output in setting.iter().filter(|&&output| output != NONE) {
                    if output >= ports || std::mem::replace(&mut taken[output as usize], true) {
                        let text = format!("output {output} of a {name} switch is not free");
                        return Err(Invalid(text));
                    }
                }
            }
        }
        if [&route.spine, &route.core].iter().any(|part| part.len() != hosts as usize) {
            return Err(Invalid(format!("spines and cores are not stated for {hosts} hosts")));
        }
        Ok(Self { shape, route, leaves })
    }

    /// Where the circuit ends, its spine and core, and how many switches it crossed.
    fn follow(&self, host: u32) -> Result<(u32, u32, u32, usize), Invalid> {
        let dark = || Invalid(format!("the circuit of host {host} ends in the dark"));
        let (leaf, port) = (host / self.shape.leaf, host % self.shape.leaf);
        let up = self.leaf_output(leaf, port);
        if up == NONE {
            return Ok((NONE, NONE, NONE, 0));
        }
        if up < self.shape.leaf {
            return Ok((leaf * self.shape.leaf + up, NONE, NONE, 1));
        }
        let spine = up - self.shape.leaf;
        let (below, core, crossed) = self.over_spine(spine, leaf).ok_or_else(dark)?;
        let down = self.leaf_output(below, up);
        if down >= self.shape.leaf {
            return Err(dark());
        }
        Ok((below * self.shape.leaf + down, spine, core, crossed + 2))
    }

    fn leaf_output(&self, leaf: u32, input: u32) -> u32 {
        let ports = self.shape.leaf + self.shape.spines;
        self.route.leaf_switches[(leaf * ports + input) as usize]
    }

    /// The leaf at which a circuit comes down again, its core, and the switches between.
    fn over_spine(&self, spine: u32, leaf: u32) -> Option<(u32, u32, usize)> {
        let Some(shape) = self.shape.pods else {
            let below = self.route.spine_switches[(spine * self.leaves + leaf) as usize];
            return (below != NONE).then_some((below, NONE, 1));
        };
        let pods = self.leaves / shape.leaves;
        let output = |pod: u32, input: u32| {
            let switch = (spine * pods + pod) * (shape.leaves + shape.cores);
            self.route.spine_switches[(switch + input) as usize]
        };
        let pod = leaf / shape.leaves;
        let up = output(pod, leaf % shape.leaves);
        if up == NONE {
            return None;
        }
        if up < shape.leaves {
            return Some((pod * shape.leaves + up, NONE, 1));
        }
        let core = up - shape.leaves;
        let there = self.route.core_switches[((spine * shape.cores + core) * pods + pod) as usize];
        if there == NONE {
            return None;
        }
        let down = output(there, up);
        (down < shape.leaves).then(|| (there * shape.leaves + down, core, 3))
    }
}
