"""The verdict of a comparison: what to build and what to give up for less, and how far it holds.

``study/compare/advice.py`` has the rule: the cheapest network of those as fast as the fastest. What
is less important for the decision is a doubt: loads of the experts under which fabrics compare
otherwise, samples, the bring-up of links, who trains the most per dollar of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lightloom.fabric.interconnect import uplink_efficiency
from lightloom.report.components import COMPONENTS
from lightloom.report.supply_text import listed, scarcity
from lightloom.study.compare.advice import Advice, advise, eligible, undecided
from lightloom.study.compare.certainty import DRAWS, Certainty, certainty
from lightloom.study.compare.imbalance import LEARNED
from lightloom.study.compare.results import SAME, Comparison, FabricResult
from lightloom.units import show_time, show_usd

#: ratios closer to one than this are said to be equal
RESOLUTION = SAME - 1
#: ratios from here on are said as multiples, not as shares
MULTIPLE = 2.0
#: a load changes how two fabrics compare if it changes their ratio by more than this
CLOSE = 0.01


def story(comparison: Comparison) -> str:
    """The verdict: what to build, the trade-off, and what cannot be bought, by rule."""
    results = comparison.results
    reason = undecided(comparison)
    if reason is not None:
        return f"Nothing is decided: {reason}."
    if len(results) == 1:
        sentences = [_alone(results[0]), scarcity(results)]
    else:
        advice = advise(results)
        build = _build(advice, results)
        sentences = [build, _trade_off(advice, results), scarcity(results)]
    return " ".join(filter(None, sentences))


def _build(advice: Advice, results: Sequence[FabricResult]) -> str:
    build, rival = advice.build, advice.rival
    if rival is None:
        others = [r for r in eligible(results) if r is not build]
        others = others or [r for r in results if r is not build]
        next_one = min(others, key=lambda r: r.step_time_s)
        ratio = next_one.ratio_to(build)[1]
        which = "" if len(results) == 2 else ", the next,"
        return f"Build {build.fabric}: {next_one.fabric}{which} is {_difference(ratio)}."
    ratio = build.ratio_to(rival)[1]
    cost = _cost(build, rival)
    return f"Build {build.fabric}: as fast as {rival.fabric} ({ratio:.3f}x) {cost}."


def _trade_off(advice: Advice, results: Sequence[FabricResult]) -> str:
    build, cheaper = advice.build, advice.cheaper
    if cheaper is None:
        cheapest = min(r.network_cost_usd for r in results)
        which = " that may be advised" if cheapest * SAME < build.network_cost_usd else ""
        return f"No other network{which} costs less."
    speed = _difference(cheaper.ratio_to(build)[1])
    share = _percent(cheaper.network_cost_usd / build.network_cost_usd)
    cost = f"at {share} of {build.fabric}'s network cost"
    return f"For less money: {cheaper.fabric} is {speed} {cost}."


def doubts(comparison: Comparison) -> str:
    """How far the verdict holds: samples, load of the experts, bring-up of links, memory."""
    results = comparison.results
    clauses = [_samples(results)]
    if len(results) > 1:
        build = advise(results).build
        clauses += _value(eligible(results), build)
        clauses += _loads([result for result in results if result is not build], build)
        clauses += _learned(results, build)
        clauses += _hashing(results)
    clauses += [_circuits(result) for result in results if result.link_up is not None]
    if not comparison.memory.get("fits", True):
        clauses.append("the plan does not fit the memory of the GPUs")
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}."


def _samples(results: Sequence[FabricResult]) -> str:
    """How many samples decide."""
    count = len(results[0].sample_step_times_s)
    return f"{count} samples per fabric" if count > 1 else "one sample, so that no spread is known"


def _alone(result: FabricResult) -> str:
    text = f"{result.fabric} takes {show_time(result.step_time_s, 3)} per step"
    loads = [
        f"{show_time(load.step_time_s, 3)} under {load.imbalance} load" for load in result.loads
    ]
    text += f", {listed(loads)}" if loads else ""
    return f"{text}."


def _cost(result: FabricResult, other: FabricResult) -> str:
    share = result.network_cost_usd / other.network_cost_usd
    if abs(share - 1) <= RESOLUTION:
        return "at the same network cost"
    return f"at {_percent(share)} of its network cost"


def _value(results: Sequence[FabricResult], build: FabricResult) -> list[str]:
    """Which fabrics train more than the recommended one per dollar of the cluster."""
    highest = max(r.perf_per_cluster_usd for r in results)
    if build.perf_per_cluster_usd * SAME >= highest:
        return []
    best = [r for r in results if r.perf_per_cluster_usd * SAME >= highest]
    verb = "trains" if len(best) == 1 else "train"
    more = _percent(highest / build.perf_per_cluster_usd - 1)
    names = listed([r.fabric for r in best])
    return [f"{names} {verb} {more} more than {build.fabric} per dollar of the whole cluster"]


def _hashing(results: Sequence[FabricResult]) -> list[str]:
    """Which trees tie with a rail, as no flow is hashed in them by default."""
    fastest = [result for result in results if result.tied_with_fastest]
    rails = [result.fabric for result in fastest if result.kind == "rail"]
    trees = [result for result in fastest if _chooses_uplinks(result)]
    if not rails or not trees:
        return []
    ties = "ties" if len(trees) == 1 else "tie"
    names = listed([result.fabric for result in trees])
    return [
        f"{names} {ties} with {listed(rails)} because switches choose uplinks by load; where they "
        f"hash flows, trees are slower (--set {trees[0].kind}.ecmp=0.6)"
    ]


def _chooses_uplinks(result: FabricResult) -> bool:
    """Whether flows cross uplinks of the fabric, at the share that adaptive routing reaches."""
    main = result.switching.main
    if result.kind not in ("fat-tree", "oversub") or main is None or main.tiers == 1:
        return False
    return result.parameters["ecmp"] == uplink_efficiency() and not result.packets


def confidence(comparison: Comparison) -> str:
    """How certain it is who trains the most per dollar, and how far public runs were predicted."""
    clauses = []
    if len(comparison.results) > 1:
        loads = ", under all loads" if comparison.results[0].loads else ""
        clauses.append(_certain(certainty(comparison.results), loads))
    if (error := comparison.inputs.get("known_error")) is not None:
        clauses.append(
            f"the speed of {error['runs']} public {error['name']} runs was predicted within "
            f"{100 * error['median']:.2g} % in the median{_interval(error)}"
        )
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if clauses else ""


def _interval(error: Mapping[str, float]) -> str:
    """The factor that should hold 80 % of new runs, which older results do not have."""
    factor = error.get("interval")
    return "" if factor is None else f", with an 80 % interval of a factor of {factor:.2f}"


def _certain(certain: Certainty, loads: str) -> str:
    """How often the fabric that is usually best per dollar is best, and what would change it."""
    text = (
        f"with prices from half to twice{loads}, errors included, {certain.best} trains "
        f"the most per dollar in {100 * certain.shares[certain.best]:.0f} % of {DRAWS:,} draws"
    )
    flip = certain.flip
    if flip is None:
        return text
    part = {**COMPONENTS, "machines": "GPUs and servers"}.get(flip.component, flip.component)
    return f"{text}; {flip.fabric} would, if {part} cost {flip.factor:.2g} times as much"


def _change(ratio: float) -> str:
    """A ratio of step times in words; a shorter step is a higher speed."""
    if abs(ratio - 1) <= RESOLUTION:
        return "as fast"
    return _difference(ratio)


def _difference(ratio: float) -> str:
    """A ratio of step times that is not one: as a share, or from twice on as a multiple."""
    if max(ratio, 1 / ratio) >= MULTIPLE:
        return f"{ratio:.2g}x slower" if ratio > 1 else f"{1 / ratio:.2g}x faster"
    return f"{_percent(ratio - 1)} slower" if ratio > 1 else f"{_percent(1 / ratio - 1)} faster"


def _percent(share: float) -> str:
    value = 100 * share
    return f"{value:.2g} %" if value < 10 else f"{value:,.0f} %"


def _loads(others: Sequence[FabricResult], reference: FabricResult) -> list[str]:
    """Loads under which fabrics compare otherwise than in the verdict."""
    clauses = []
    ends = [load for load in reference.loads if load.imbalance not in LEARNED]
    for load in ends:
        changed = []
        for result in others:
            run = result.load(load.imbalance)
            if run is None:
                continue
            ratio = run.step_time_s / load.step_time_s
            if abs(ratio - result.ratio_to(reference)[1]) > CLOSE:
                changed.append(f"{result.fabric} is {_change(ratio)}")
        if changed:
            clauses.append(f"under {load.imbalance} load {listed(changed)}")
    if clauses:
        clauses[0] += f" as compared with {reference.fabric}"
    elif ends:
        names = listed([load.imbalance for load in ends])
        verb = "changes" if len(ends) == 1 else "change"
        clauses.append(f"{names} load {verb} no ratio by more than {_percent(CLOSE)}")
    return clauses


def _learned(results: Sequence[FabricResult], build: FabricResult) -> list[str]:
    """The step while a gate learns to balance, and which other fabric is best then."""
    loads = [load for load in build.loads if load.imbalance in LEARNED]
    if not loads:
        return []
    times, changes = [], list[str]()
    for load in loads:
        when = load.imbalance.split()[-1]
        times.append(f"{show_time(load.step_time_s, 3)} {when}")
        for what, per_dollar in (("the fastest", False), ("the best per dollar", True)):
            best = _other_best(results, load.imbalance, per_dollar=per_dollar)
            changes += [f"{best} is {what} {when}"] if best else []
    same = "the same fabrics are the fastest and the best per dollar"
    return [
        f"with a gate that learns to balance, a step of {build.fabric} takes {listed(times)} in "
        f"training, and {listed(changes) if changes else same}"
    ]


def _other_best(results: Sequence[FabricResult], imbalance: str, *, per_dollar: bool) -> str | None:
    """The best fabric under a load, if the best of the job's own is clearly worse there."""
    own, there = dict[str, float](), dict[str, float]()
    for result in results:
        weight = result.cluster_cost_usd if per_dollar else 1.0
        own[result.fabric] = weight * result.step_time_s
        if (load := result.load(imbalance)) is not None:
            there[result.fabric] = weight * load.step_time_s
    before, best = (min(cost, key=lambda name: cost[name]) for cost in (own, there))
    return best if there.get(before, 0.0) > there[best] * (1 + CLOSE) else None


def _circuits(result: FabricResult) -> str:
    """Whether circuits are worth their money; how their bring-up counts where they switch."""
    if result.has_idle_circuits:
        return f"the circuits of {result.fabric} carry no byte of this job: do not buy them"
    saving_usd = result.switching.panel_saving_usd
    if result.never_switches and saving_usd > 0:
        return (
            f"{result.fabric} never switches a circuit: a patch panel gives the same step for "
            f"{show_usd(saving_usd)} less"
        )
    return _bring_up(result)


def _bring_up(result: FabricResult) -> str:
    """What the bring-up of links does to a fabric that switches circuits."""
    assert result.link_up is not None
    link_up = result.link_up
    delay = show_time(link_up.delay_s or link_up.other_delay_s, 3)
    change = link_up.other_step_time_s / link_up.step_time_s
    same = abs(change - 1) <= RESOLUTION
    then = f"{result.fabric} would {'take the same time' if same else f'be {_change(change)}'}"
    if link_up.delay_s:
        return f"each reconfiguration waits {delay} for links to come up, without which {then}"
    return f"{then} if each reconfiguration waited {delay} for links to come up"


def unswitched(result: FabricResult) -> str | None:
    """A sentence for a fabric whose circuits no policy of switching changes; None if one does."""
    policies = result.policies
    if not policies or any(policy.reconfigurations for policy in policies):
        return None
    times = {show_time(policy.step_time_s) for policy in policies}
    names = listed([policy.when for policy in policies])
    text = f"{result.fabric}: no policy ({names}) changes a circuit"
    return f"{text}; the first sample's step takes {' or '.join(sorted(times))}."


def difference(ratios: tuple[float, float, float]) -> str:
    """Ratios of step times as "+6.3 % (5.3 to 6.7)": of the means, the least and the largest."""
    if ratios[1] >= MULTIPLE:
        minimum, ratio, maximum = ratios
        return f"{ratio:.2f}x ({minimum:.2f} to {maximum:.2f})"
    low, middle, high = (100 * (ratio - 1) for ratio in ratios)
    return f"{_signed(middle)} % ({_plain(low)} to {_plain(high)})"


def _signed(percent: float) -> str:
    text = f"{percent:+.1f}"
    return "0.0" if text in {"+0.0", "-0.0"} else text


def _plain(percent: float) -> str:
    text = f"{percent:.1f}"
    return "0.0" if text == "-0.0" else text
