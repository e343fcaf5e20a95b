//! X-NEST+ (Gu et al.): a few fixed configurations, and how many switches hold each.
//!
//! The traffic matrix is split "in a diagonally symmetric manner" into sub-matrices, each with its
//! configuration of a switch. The paper's figure (k = 6) can be read in two ways, see [`Reading`].
//! The number of switches per configuration follows the sub-matrices' shares W of the traffic.
//! As printed, `N = round(W * switches / 2)`, the numbers need not add up ([`SwitchRule::Paper`]);
//! by default each switch goes to the configuration with the largest W / N, which makes the
//! largest W / N as small as can be.
//!
//! Half of the switches turn at a time, and none whose configuration stays. Leaves out the packet
//! switches and the paths of several hops that the paper uses in addition to the circuits.

use crate::demand::{check_square, check_switches};
use crate::epochs::{EpochRun, Epochs, NONE, SwitchStep, check_sizes, play};
use crate::hops::{CircuitLoads, fewest_on_the_busiest};
use lightloom_model::{Invalid, choices};

choices! {
    /// How the traffic matrix of k nodes is split.
    ///
    /// There are k - 1 pairings of all nodes if k is even (the circle method), k with one node
    /// alone in each if it is odd; their circuits are duplex. There are k / 2 pairs of diagonals,
    /// `i -> i + d` and `i -> i - d`, and a switch holds one of the two, so its transmitters and
    /// receivers have different peers.
    pub enum Reading: "reading" {
        Pairings = "pairings": "Each sub-matrix is a symmetric pairing of all nodes",
        Diagonals = "diagonals": "Each sub-matrix is the two diagonals at one distance",
    }
}

/// The configurations of each sub-matrix: peer of each node, [`NONE`] if alone. One for a pairing
/// or the diagonal k / 2, else two.
pub fn sub_matrices(nodes: usize, reading: Reading) -> Vec<Vec<Vec<u32>>> {
    let shift = |d: usize| (0..nodes).map(|node| ((node + d) % nodes) as u32).collect::<Vec<u32>>();
    match reading {
        _ if nodes < 2 => vec![],
        Reading::Pairings => pairings(nodes).into_iter().map(|pairing| vec![pairing]).collect(),
        Reading::Diagonals => (1..=nodes / 2)
            .map(|d| if 2 * d == nodes { vec![shift(d)] } else { vec![shift(d), shift(nodes - d)] })
            .collect(),
    }
}

/// The circle method: one node stands still (or, if their number is odd, nobody does), the others
/// sit on a circle; round t pairs those at equal distance from place t.
fn pairings(nodes: usize) -> Vec<Vec<u32>> {
    let places = nodes - (nodes + 1) % 2;
    let mut rounds = Vec::with_capacity(places);
    for round in 0..places {
        let mut peers = vec![NONE; nodes];
        for node in 0..places {
            let peer = (2 * round + places - node) % places;
            if peer != node {
                peers[node] = peer as u32;
            } else if places < nodes {
                peers[node] = places as u32;
                peers[places] = node as u32;
            }
        }
        rounds.push(peers);
    }
    rounds
}

/// How many of `switches` each configuration gets: one after another goes to the largest weight per
/// switch, where a weight without a switch comes first. None for weight 0, unless all weights are.
pub fn switches_for(weights: &[u64], switches: usize) -> Vec<u32> {
    let mut counts = vec![0_u32; weights.len()];
    for _ in 0..switches {
        // Those with traffic and no switch first; then x / m > y / n as x n > y m.
        let more = |&a: &usize, &b: &usize| {
            let (m, n) = (u128::from(counts[a]), u128::from(counts[b]));
            let (x, y) = (u128::from(weights[a]), u128::from(weights[b]));
            let ratio = if m == n { x.cmp(&y) } else { (x * n).cmp(&(y * m)) };
            let first = (m == 0 && x > 0).cmp(&(n == 0 && y > 0));
            first.then((x > 0).cmp(&(y > 0))).then(ratio).then(n.cmp(&m)).then(b.cmp(&a))
        };
        if let Some(next) = (0..weights.len()).max_by(more) {
            counts[next] += 1;
        }
    }
    counts
}

choices! {
    /// How many switches the parts of a traffic matrix get.
    pub enum SwitchRule: "rule" {
        Greedy = "greedy": "One after another to the largest traffic per switch",
        Paper = "paper": "Shares of the traffic, rounded, as printed",
        Hops = "hops": "Least on the busiest circuit, relayed bytes included (ours)",
    }
}

impl SwitchRule {
    /// How many of `switches` each part gets, or is tried with first by hops. As printed, rounded
    /// shares may be too many (the smallest then get fewer) or too few (other switches stay as they
    /// are).
    fn counts(self, weights: &[u64], switches: usize) -> Vec<u32> {
        let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
        if self != Self::Paper || total == 0 {
            return switches_for(weights, switches);
        }
        let rounded = |&weight: &u64| {
            let twice = 2 * u128::from(weight) * switches as u128;
            ((twice + total) / (2 * total)) as u32
        };
        let mut counts: Vec<u32> = weights.iter().map(rounded).collect();
        while counts.iter().sum::<u32>() > switches as u32 {
            let used = (0..counts.len()).rev().filter(|&part| counts[part] > 0);
            let least = used.min_by_key(|&part| weights[part]).expect("the sum is above 0");
            counts[least] -= 1;
        }
        counts
    }
}

/// What the switches hold next, and which turn in which half.
#[derive(Debug, Clone, PartialEq)]
pub struct XnestPlan {
    /// Bytes of each sub-matrix.
    pub weights: Vec<u64>,
    /// Switches of each sub-matrix; their sum is the number of switches.
    pub counts: Vec<u32>,
    /// The sub-matrix, and which of its configurations, that each switch holds.
    pub settings: Vec<(u32, u32)>,
    /// The switches that turn first, then those that turn while the first carry again. Empty if
    /// nothing changes.
    pub phases: [Vec<u32>; 2],
    /// What circuits carry if the demand takes the shortest ways.
    pub loads: CircuitLoads,
}

/// Plans the switches for a demand; `previous` is what they hold now.
///
/// # Errors
/// If sizes do not fit.
pub fn xnest_plan(
    demand: &[u64],
    nodes: usize,
    reading: Reading,
    rule: SwitchRule,
    switches: usize,
    previous: Option<&[(u32, u32)]>,
) -> Result<XnestPlan, Invalid> {
    check_square(demand, nodes)?;
    if nodes < 2 || switches == 0 {
        return Err(Invalid::new("there must be two nodes and a switch"));
    }
    check_switches(switches)?;
    if let Some(given) = previous.map(<[_]>::len).filter(|&given| given != switches) {
        return Err(Invalid(format!("{given} previous settings for {switches} switches")));
    }
    let matrices = sub_matrices(nodes, reading);
    let Planned { weights, counts, settings, turned } =
        plan(demand, &matrices, switches, previous, rule, &[]);
    let held = settings.iter();
    let held = held.map(|&(part, which)| matrices[part as usize][which as usize].as_slice());
    let loads = CircuitLoads::of(demand, nodes, held);
    let half = switches.div_ceil(2) as u32;
    let (first, second) = turned.into_iter().partition(|&switch| switch < half);
    Ok(XnestPlan { weights, counts, settings, phases: [first, second], loads })
}

choices! {
    /// Which switches may turn in a step.
    pub enum Turning: "turning" {
        First = "first": "The first half, rounded up",
        Second = "second": "The second half",
        All = "all": "All at once: those that change carry nothing for a delay",
    }
}

/// What the switches hold next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XnestStep {
    /// The sub-matrix, and which of its configurations, that each switch holds.
    pub settings: Vec<(u32, u32)>,
    /// The same as matchings, and which switches turn.
    pub switches: SwitchStep,
    /// Which half may turn in the next step; `All` stays all.
    pub next: Turning,
}

/// Plans the switches that may turn for the measured traffic, by the shares of all sub-matrices, as
/// the paper does for half of its switches; the others stay.
///
/// `held` is empty before the first step, which sets all switches. With `hysteresis`, nothing turns
/// unless circuits would carry that many thousandths more. O(n^2 + switches^2).
///
/// # Errors
/// If sizes do not fit or a setting that is held does not exist.
pub fn xnest_step(
    measured: &[u64],
    held: &[(u32, u32)],
    sizes: &Epochs,
    reading: Reading,
    turning: Turning,
    hysteresis: Option<u32>,
) -> Result<XnestStep, Invalid> {
    xnest_step_by(measured, held, sizes, reading, (turning, SwitchRule::Greedy), hysteresis)
}

/// As [`xnest_step`], by this rule of how many switches parts get.
///
/// # Errors
/// As [`xnest_step`].
pub fn xnest_step_by(
    measured: &[u64],
    held: &[(u32, u32)],
    sizes: &Epochs,
    reading: Reading,
    (turning, rule): (Turning, SwitchRule),
    hysteresis: Option<u32>,
) -> Result<XnestStep, Invalid> {
    check_square(measured, sizes.nodes)?;
    check_sizes(sizes)?;
    if sizes.nodes < 2 || (!held.is_empty() && held.len() != sizes.switches) {
        let (given, switches, nodes) = (held.len(), sizes.switches, sizes.nodes);
        return Err(Invalid(format!("{given} settings for {switches} switches, {nodes} nodes")));
    }
    let matrices = sub_matrices(sizes.nodes, reading);
    let configuration = |&(matrix, which): &(u32, u32)| {
        let found = matrices.get(matrix as usize).and_then(|one| one.get(which as usize));
        found.cloned().ok_or_else(|| Invalid(format!("there is no setting ({matrix}, {which})")))
    };
    let before = held.iter().map(configuration).collect::<Result<Vec<_>, _>>()?;
    let half = sizes.switches.div_ceil(2);
    let group = match turning {
        _ if held.is_empty() => 0..sizes.switches,
        Turning::First => 0..half,
        Turning::Second => half..sizes.switches,
        Turning::All => 0..sizes.switches,
    };
    let kept = (!held.is_empty()).then(|| &held[group.clone()]);
    let outside = |switch: &usize| !group.contains(switch);
    let others = (0..before.len()).filter(outside).map(|switch| before[switch].as_slice());
    let others: Vec<&[u32]> = others.collect();
    let planned = plan(measured, &matrices, group.len(), kept, rule, &others);
    let mut settings = held.to_vec();
    settings.resize(sizes.switches, (0, 0));
    settings[group.clone()].copy_from_slice(&planned.settings);
    let changed = |switch: usize| held.get(switch) != Some(&settings[switch]);
    let turned = (0..sizes.switches).map(changed).collect();
    let matchings = settings.iter().map(configuration).collect::<Result<Vec<_>, _>>()?;
    let switches =
        SwitchStep { matchings, turned }.if_it_gains(&before, measured, sizes, hysteresis);
    if !switches.turned.contains(&true) {
        settings = held.to_vec();
    }
    let next = match turning {
        Turning::First => Turning::Second,
        Turning::Second => Turning::First,
        Turning::All => Turning::All,
    };
    Ok(XnestStep { settings, switches, next })
}

/// Serves a demand epoch by epoch: [`xnest_step`] for all switches at once with what is left, which
/// only a clairvoyant knows.
///
/// # Errors
/// If sizes do not fit, or epochs are so short that 16,384 do not serve the demand.
pub fn xnest_plus(demand: &[u64], sizes: &Epochs, reading: Reading) -> Result<EpochRun, Invalid> {
    let mut settings: Vec<(u32, u32)> = Vec::new();
    play(demand, sizes, |left, _| {
        let step = xnest_step(left, &settings, sizes, reading, Turning::All, None)?;
        settings = step.settings;
        Ok(step.switches)
    })
}

/// Settings of some switches.
struct Planned {
    weights: Vec<u64>,
    counts: Vec<u32>,
    settings: Vec<(u32, u32)>,
    turned: Vec<u32>,
}

/// Plans switches beside `others`, which stay.
fn plan(
    demand: &[u64],
    matrices: &[Vec<Vec<u32>>],
    switches: usize,
    previous: Option<&[(u32, u32)]>,
    rule: SwitchRule,
    others: &[&[u32]],
) -> Planned {
    let bytes = |configuration: &[u32]| {
        let n = configuration.len();
        let peers = configuration.iter().enumerate().filter(|pair| *pair.1 != NONE);
        peers.map(|(node, &peer)| demand[node * n + peer as usize]).sum::<u64>()
    };
    let parts: Vec<Vec<u64>> =
        matrices.iter().map(|matrix| matrix.iter().map(|one| bytes(one)).collect()).collect();
    let weights: Vec<u64> = parts.iter().map(|own| own.iter().sum()).collect();
    let mut counts = rule.counts(&weights, switches);
    let mut wanted = Vec::with_capacity(switches);
    for (matrix, (own, &count)) in (0..).zip(parts.iter().zip(&counts)) {
        let split = switches_for(own, count as usize);
        for (which, &number) in (0..).zip(&split) {
            wanted.extend(std::iter::repeat_n((matrix, which), number as usize));
        }
    }
    if rule == SwitchRule::Hops && weights.iter().any(|&weight| weight > 0) {
        wanted = by_hops(demand, matrices, &wanted, others);
        for (matrix, count) in (0..).zip(&mut counts) {
            *count = wanted.iter().filter(|setting| setting.0 == matrix).count() as u32;
        }
    }
    let (settings, turned) = place(wanted, switches, previous);
    Planned { weights, counts, settings, turned }
}

/// Settings of as many switches for which the busiest circuit carries least.
fn by_hops(
    demand: &[u64],
    matrices: &[Vec<Vec<u32>>],
    start: &[(u32, u32)],
    others: &[&[u32]],
) -> Vec<(u32, u32)> {
    let own = |(matrix, parts): (u32, &Vec<Vec<u32>>)| {
        (0..parts.len() as u32).map(move |which| (matrix, which)).collect::<Vec<_>>()
    };
    let settings: Vec<(u32, u32)> = (0..).zip(matrices).flat_map(own).collect();
    let matchings: Vec<&[u32]> = matrices.iter().flatten().map(Vec::as_slice).collect();
    let place = |setting| settings.iter().position(|own| own == setting).expect("it is one");
    let start = start.iter().map(place).collect();
    let chosen = fewest_on_the_busiest(demand, matchings[0].len(), &matchings, others, start);
    let mut wanted: Vec<_> = chosen.into_iter().map(|index| settings[index]).collect();
    wanted.sort_unstable();
    wanted
}

/// Gives settings to switches: those that are held stay, the others go to the two halves in turn,
/// so that copies of one configuration do not all turn together. Also returns who turns.
fn place(
    wanted: Vec<(u32, u32)>,
    switches: usize,
    previous: Option<&[(u32, u32)]>,
) -> (Vec<(u32, u32)>, Vec<u32>) {
    let mut open: Vec<Option<(u32, u32)>> = wanted.into_iter().map(Some).collect();
    let mut settings: Vec<Option<(u32, u32)>> = vec![None; switches];
    for (setting, old) in settings.iter_mut().zip(previous.unwrap_or_default()) {
        *setting = open.iter_mut().find(|new| **new == Some(*old)).and_then(Option::take);
    }
    let half = switches.div_ceil(2);
    let in_turn = (0..half).flat_map(|i| [i, half + i]).filter(|&switch| switch < switches);
    let free = in_turn.filter(|&switch| settings[switch].is_none());
    let new: Vec<_> = free.zip(open.into_iter().flatten()).collect();
    let mut turned: Vec<u32> = new.iter().map(|&(switch, _)| switch as u32).collect();
    turned.sort_unstable();
    for (switch, setting) in new {
        settings[switch] = Some(setting);
    }
    // Where shares were rounded down, what is left stays as it is.
    let kept = |switch: usize| previous.map_or((0, 0), |previous| previous[switch]);
    let settings = settings.into_iter().enumerate();
    (settings.map(|(switch, setting)| setting.unwrap_or_else(|| kept(switch))).collect(), turned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cases where rounded shares are too few or too many: 7 or 4 equal parts of 2 switches; shares
    /// of (.5, .2, .15, .1, .05) of 5 switches, which is 10 of which one half turns.
    #[test]
    fn rounded_shares_need_not_add_up() {
        let counts = |weights: &[u64], switches| SwitchRule::Paper.counts(weights, switches);
        assert_eq!(counts(&[1; 7], 2), [0; 7]);
        assert_eq!(counts(&[1; 5], 2), [0; 5]);
        assert_eq!(counts(&[50, 20, 15, 10, 5], 5), [3, 1, 1, 0, 0]);
        assert_eq!(counts(&[3, 3, 3, 1], 5), [2, 2, 1, 0], "2, 2, 2 are one too many");
        assert_eq!(counts(&[0, 0], 3), switches_for(&[0, 0], 3));
        assert_eq!(SwitchRule::Greedy.counts(&[1; 7], 2).iter().sum::<u32>(), 2);
    }

    #[test]
    fn switches_that_no_rounded_share_reaches_stay() {
        let sizes = Epochs { nodes: 8, switches: 4, epoch: 10, delay: 1 };
        let held = [(0, 0), (1, 0), (2, 0), (3, 0)];
        let uniform = [5; 64];
        let turning = (Turning::All, SwitchRule::Paper);
        let step = xnest_step_by(&uniform, &held, &sizes, Reading::Pairings, turning, None);
        // 4 / 7 is rounded up: seven parts ask for four switches.
        assert_eq!(step.unwrap().settings.len(), 4);
        let sizes = Epochs { switches: 3, ..sizes };
        let step = xnest_step_by(&uniform, &held[..3], &sizes, Reading::Pairings, turning, None);
        let step = step.unwrap();
        assert_eq!((step.settings.as_slice(), step.switches.turned), (&held[..3], vec![false; 3]));
    }
}
