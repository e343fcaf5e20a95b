"""The verdict of any results is one correct sentence that says what the numbers say."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.report.story import confidence, doubts, story
from lightloom.study.compare.advice import advise
from lightloom.study.compare.imbalance import LEARNED, LOADS
from lightloom.study.compare.results import Comparison, FabricResult, LinkUpResult, LoadResult

TOKENS = 1e6
NAMES = ("fat-tree", "oversub", "mixnet", "a custom one")
COST = r"at (?:the same network cost|(?P<cost>[\d.,e+-]+) % of its network cost)"
SLOWER = r"(?:(?P<share>[\d.,e+]+) %|(?P<times>[\d.,e+]+)x) slower"
ALIKE = re.compile(
    rf"Build (?P<build>.+): as fast as (?P<other>.+) \((?P<ratio>[\d.]+)x\) {COST}\."
)
ALONE = re.compile(rf"Build (?P<build>.+): (?P<other>.+?)(?:, the next,)? is {SLOWER}\.")
LESS = re.compile(
    rf"For less money: (?P<other>.+) is {SLOWER} at (?P<cost>[\d.,e+-]+) % of (?P<of>.+)'s network "
    r"cost\."
)


def result(name, step_s, network_usd, *, loads=(), link_up=None, samples=None):
    per_s = TOKENS / step_s
    return FabricResult(
        fabric=name, kind=name, step_time_s=step_s, step_time_low_s=step_s, step_time_high_s=step_s,
        sample_step_times_s=samples or (step_s,), tokens_per_s=per_s,
        tokens_per_s_per_gpu=per_s, tflops_per_gpu=125.0, mfu=0.4, days_per_trillion_tokens=1.0,
        network_cost_usd=network_usd,
        cluster_cost_usd=network_usd + 1e7, network_power_w=1.0, cluster_power_w=1.0,
        critical_path_s={}, mean_s={}, carried_bytes={"eps": 1}, cost_by_component_usd={},
        reconfiguration={}, variants_s={}, parameters={}, notes=(), run_hash="", events=0,
        simulation_wall_s=0.0, loads=loads, link_up=link_up,
    )  # fmt: skip


def load(imbalance, step_s):
    return LoadResult(imbalance, step_s, 1.0, 1.0, 125.0, 0.4, 1.0, 0.0, "flat")


def verdict(*results):
    return story(Comparison({}, tuple(results), {}, {}, {}))


def doubt(*results):
    return doubts(Comparison({}, tuple(results), {}, {}, {}))


def sentences_of(results):
    """What to build, and the trade-off, if there is one."""
    first, _, second = verdict(*results).partition(". ")
    build = ALIKE.fullmatch(f"{first}.") or ALONE.fullmatch(f"{first}.")
    assert build, first
    if second == "No other network costs less.":
        return build, None
    less = LESS.fullmatch(second)
    assert less, second
    return build, less


times = st.floats(0.01, 100)


@st.composite
def comparisons(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    loads = draw(st.sampled_from([(), ("balanced",), LOADS, (*LOADS, *LEARNED)]))
    close = st.floats(0.98, 1.02)
    base = draw(times)
    results = []
    for name in names:
        step_s = draw(st.one_of(times, close.map(lambda x: x * base)))
        link_up = None
        if name == "mixnet":
            delay, other = draw(st.sampled_from([(0.0, 5.67), (5.67, 0.0)]))
            changed = draw(st.one_of(times, close.map(lambda x, own=step_s: x * own)))
            link_up = LinkUpResult(delay, 5.67, step_s, other, changed)
        results.append(
            result(
                name, step_s, draw(st.floats(1e5, 1e8)),
                loads=tuple(load(one, draw(times)) for one in loads), link_up=link_up,
            )
        )  # fmt: skip
    return results


def slowdown(match):
    """The ratio of step times that is said."""
    if match["times"]:
        return float(match["times"].replace(",", ""))
    return 1 + float(match["share"].replace(",", "")) / 100


@given(comparisons())
@settings(deadline=None)
def test_any_verdict_is_two_well_formed_sentences(results):
    text = verdict(*results)
    sentences_of(results)
    assert text.endswith(".")
    assert "  " not in text
    assert "nan" not in text


@given(comparisons())
@settings(deadline=None)
def test_a_verdict_says_what_the_numbers_say(results):
    by_name = {r.fabric: r for r in results}
    said, less = sentences_of(results)
    build, other = by_name[said["build"]], by_name[said["other"]]
    fastest = min(results, key=lambda r: r.step_time_s)
    ratio = build.step_time_s / other.step_time_s
    if said.re is ALIKE:
        assert float(said["ratio"]) == pytest.approx(ratio, abs=6e-4)
        assert other.network_cost_usd >= build.network_cost_usd / 1.005
        cost = float(said["cost"].replace(",", "")) / 100 if said["cost"] else 1
        assert cost == pytest.approx(build.network_cost_usd / other.network_cost_usd, rel=0.06)
    else:
        assert build is fastest
        assert slowdown(said) == pytest.approx(1 / ratio, rel=0.06)
    if less is not None:
        cheaper = by_name[less["other"]]
        assert less["of"] == build.fabric
        assert slowdown(less) == pytest.approx(cheaper.step_time_s / build.step_time_s, rel=0.06)
        cost = float(less["cost"].replace(",", "")) / 100
        assert cost == pytest.approx(cheaper.network_cost_usd / build.network_cost_usd, rel=0.06)


@given(comparisons())
@settings(deadline=None)
def test_nothing_beats_what_is_built(results):
    advice = advise(results)
    fastest = min(results, key=lambda r: r.step_time_s)
    assert advice.build.is_as_fast_as(fastest) or advice.build is fastest
    for one in results:
        if one.network_cost_usd * 1.005 < advice.build.network_cost_usd:
            assert one.step_time_s > advice.build.step_time_s
            assert advice.cheaper.step_time_s <= one.step_time_s
    assert (advice.cheaper is None) == all(
        one.network_cost_usd * 1.005 >= advice.build.network_cost_usd for one in results
    )


@given(comparisons(), st.randoms())
@settings(deadline=None)
def test_the_order_of_fabrics_decides_nothing_unless_costs_are_alike(results, random):
    mixed = list(results)
    random.shuffle(mixed)
    build, other = advise(results).build, advise(mixed).build
    assert build is other or build.network_cost_usd == pytest.approx(
        other.network_cost_usd, rel=0.01
    )


@given(comparisons())
@settings(deadline=None)
def test_doubts_name_what_was_simulated(results):
    text = doubt(*results)
    assert "sample" in text
    assert ("for links to come up" in text) == any(r.link_up for r in results)
    assert (" load" in text) == bool(results[0].loads)


def test_a_verdict_by_hand():
    tree, rail = result("fat-tree", 10.0, 1e7), result("rail", 9.99, 1e7)
    oversub, topoopt = result("oversub", 10.01, 5.7e6), result("topoopt", 10.63, 2.1e6)
    assert verdict(tree, oversub, rail, topoopt) == (
        "Build oversub: as fast as fat-tree (1.001x) at 57 % of its network cost. For less money: "
        "topoopt is 6.2 % slower at 37 % of oversub's network cost."
    )
    assert verdict(rail, tree) == (
        "Build fat-tree: as fast as rail (1.001x) at the same network cost. No other network "
        "costs less."
    )
    slow, slower = result("mixnet", 26.0, 5e6), result("topoopt", 30.0, 4e6)
    assert verdict(tree, slow) == (
        "Build fat-tree: mixnet is 2.6x slower. For less money: mixnet is 2.6x slower at 50 % of "
        "fat-tree's network cost."
    )
    assert verdict(slower, slow, tree).startswith(
        "Build fat-tree: mixnet, the next, is 2.6x slower. "
    )


def test_samples_in_pairs_decide_whether_fabrics_are_alike():
    tree = result("fat-tree", 10.0, 1e7, samples=(9.0, 11.0))
    # its interval overlaps that of the fat-tree, but it is slower on every sample
    slower = result("oversub", 10.3, 5e6, samples=(9.3, 11.3))
    assert verdict(tree, slower).startswith("Build fat-tree: oversub is 3 % slower. For less")
    either = result("oversub", 10.2, 5e6, samples=(8.9, 11.5))
    assert verdict(tree, either).startswith("Build oversub: as fast as fat-tree (1.020x) at 50 %")
    # what is between the two in time, and cheaper, is no worse than what is as fast
    between = result("rail", 10.1, 4e6, samples=(9.1, 11.1))
    assert verdict(tree, either, between).startswith("Build rail: as fast as oversub (0.990x)")


def test_nothing_is_decided_where_nothing_is_sent():
    inside = dataclasses.replace(result("fat-tree", 1.0, 1e6), carried_bytes={"nvswitch": 5})
    other = dataclasses.replace(inside, fabric="mixnet", carried_bytes={"nvswitch": 5, "ocs": 0})
    assert verdict(inside, other) == (
        "Nothing is decided: no byte leaves a server, so that every network is as good."
    )
    sent = dataclasses.replace(other, carried_bytes={"nvswitch": 5, "ocs": 1})
    assert verdict(inside, sent).startswith("Build ")


def test_nothing_is_decided_where_gpus_idle():
    slow = dataclasses.replace(result("fat-tree", 1.0, 1e6), mfu=0.031)
    other = dataclasses.replace(slow, fabric="mixnet", mfu=0.02)
    assert verdict(slow, other).startswith(
        "Nothing is decided: the GPUs reach 3.1 % of their peak on the fastest fabric"
    )
    assert verdict(dataclasses.replace(slow, mfu=0.11), other).startswith("Build ")


def test_nothing_is_decided_by_a_short_log():
    pair = (result("fat-tree", 1.0, 1e6), result("mixnet", 1.1, 5e5))
    text = story(Comparison({}, pair, {"copies_per_expert": 8.0}, {}, {}))
    assert text == (
        "Nothing is decided: the log has 8 token copies per expert, from which loads are known to "
        "35 % at best; log 100 or more."
    )
    assert story(Comparison({}, pair, {"copies_per_expert": 100.0}, {}, {})).startswith("Build ")


def test_doubts_by_hand():
    tree = result("fat-tree", 10.0, 1e7, loads=(load("balanced", 8.0), load("skewed", 20.0)))
    loads = (load("balanced", 8.0), load("skewed", 22.0))
    mixnet = result(
        "mixnet", 10.0, 5e6, loads=loads, link_up=LinkUpResult(0.0, 5.67, 10.0, 5.67, 12.5)
    )
    assert doubt(tree, mixnet) == (
        "One sample, so that no spread is known; under skewed load fat-tree is 10 % faster as "
        "compared with mixnet; mixnet would be 25 % slower if each reconfiguration waited 5.67 s "
        "for links to come up."
    )
    included = dataclasses.replace(
        mixnet, link_up=LinkUpResult(5.67, 5.67, 10.0, 0.0, 10.0), loads=()
    )
    assert doubt(tree, included).endswith(
        "; each reconfiguration waits 5.67 s for links to come up, without which mixnet would take "
        "the same time."
    )
    alike = dataclasses.replace(tree, fabric="oversub", kind="oversub")
    assert doubt(tree, alike).endswith(
        "; balanced and skewed load change no ratio by more than 1 %."
    )
    traced = dataclasses.replace(tree, loads=tree.loads[:1])
    also = dataclasses.replace(alike, loads=traced.loads)
    assert doubt(traced, also).endswith("; balanced load changes no ratio by more than 1 %.")


def test_a_gate_that_learns_is_told_in_one_line():
    """The step of the advised fabric early and late, and who is best then if another one is."""
    early, late = LEARNED
    tree = result("fat-tree", 10.0, 1e7, loads=(load(early, 12.0), load(late, 9.0)))
    panel = result("topoopt", 10.5, 1e6, loads=(load(early, 12.6), load(late, 9.4)))
    told = "; with a gate that learns to balance, a step of fat-tree takes 12 s early and 9 s late"
    assert doubt(tree, panel).endswith(
        f"{told} in training, and the same fabrics are the fastest and the best per dollar."
    )
    # 12 s at 20 M$ are as good per dollar as 21.8 s at 11 M$
    hit = dataclasses.replace(panel, loads=(load(early, 24.0), load(late, 8.0)))
    assert doubt(tree, hit).endswith(
        f"{told} in training, and fat-tree is the best per dollar early and topoopt is the fastest "
        "late."
    )


def test_only_what_ran_under_other_loads_is_certain_under_them():
    loads = (load("balanced", 1.0), load("skewed", 4.0))
    for ran, words in ((loads, "twice, under all loads, errors"), ((), "twice, errors")):
        pair = (result("rail", 2.0, 1e6, loads=ran), result("mixnet", 2.5, 2e6, loads=ran))
        told = confidence(Comparison({}, pair, {}, {}, {}))
        assert f"With prices from half to {words} included, rail trains the most" in told


def test_a_fabric_alone_is_told_its_time():
    assert verdict(result("rail", 2.0, 1e6)) == "rail takes 2 s per step."
    loads = (load("balanced", 1.0), load("skewed", 4.0))
    alone = result("rail", 2.0, 1e6, loads=loads)
    assert verdict(alone) == (
        "rail takes 2 s per step, 1 s under balanced load and 4 s under skewed load."
    )
    assert doubt(alone) == "One sample, so that no spread is known."
