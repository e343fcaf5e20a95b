"""The verdict of any results is one correct sentence that says what the numbers say."""

import dataclasses
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.report.story import story
from lightloom.study.compare.results import Comparison, FabricResult, LinkUp, LoadResult

TOKENS = 1e6
NAMES = ("fat-tree", "oversub", "mixnet", "a custom one")
#: what may follow the verb: as fast, or faster or slower by a share
SPEED = r"(as fast as [\w -]+( \(within 1 %\))?|[\d.,]+ % (faster|slower) than [\w -]+)"
COST = r"at (the same cost of the network|[\d.]+x of the network's cost)"
VALUE = r"(: [\d.]+x per dollar of the cluster|, and equally much per dollar of the cluster)"


def result(name, step_s, network_usd, *, loads=(), link_up=None):
    per_s = TOKENS / step_s
    return FabricResult(
        fabric=name, kind=name, step_time_s=step_s, step_time_low_s=step_s, step_time_high_s=step_s,
        sample_step_times_s=(step_s,), tokens_per_s=per_s, tokens_per_s_per_gpu=per_s, mfu=0.4,
        days_per_trillion_tokens=1.0, network_cost_usd=network_usd,
        cluster_cost_usd=network_usd + 1e7, network_power_w=1.0, cluster_power_w=1.0,
        critical_path_s={}, mean_s={}, carried_bytes={}, cost_by_component_usd={},
        reconfiguration={}, variants_s={}, parameters={}, notes=(), run_hash="", events=0,
        simulation_wall_s=0.0, loads=loads, link_up=link_up,
    )  # fmt: skip


def load(imbalance, step_s):
    return LoadResult(imbalance, step_s, 1.0, 1.0, 0.4, 1.0, 0.0, "flat")


def verdict(*results):
    return story(Comparison({}, tuple(results), {}, {}, {}))


times = st.floats(0.01, 100)


@st.composite
def comparisons(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=4, unique=True))
    loads = draw(st.sampled_from([(), ("balanced",), ("balanced", "skewed")]))
    close = st.floats(0.98, 1.02)
    base = draw(times)
    results = []
    for name in names:
        step_s = draw(st.one_of(times, close.map(lambda x: x * base)))
        link_up = None
        if name == "mixnet":
            delay, other = draw(st.sampled_from([(0.0, 5.67), (5.67, 0.0)]))
            changed = draw(st.one_of(times, close.map(lambda x, own=step_s: x * own)))
            link_up = LinkUp(delay, 5.67, step_s, other, changed)
        results.append(
            result(
                name, step_s, draw(st.floats(1e5, 1e8)),
                loads=tuple(load(one, draw(times)) for one in loads), link_up=link_up,
            )
        )  # fmt: skip
    return results


@given(comparisons())
@settings(deadline=None)
def test_any_verdict_is_one_well_formed_sentence(results):
    text = verdict(*results)
    assert text.count(". ") == 0
    assert text.endswith(".")
    assert "  " not in text
    assert "nan" not in text
    first, *rest = text[:-1].split("; ")
    assert re.fullmatch(rf"[\w -]+? trains {SPEED} {COST}{VALUE}", first), first
    loads = results[0].loads
    has_bring_up = any(r.link_up for r in results)
    compared = {r.fabric for r in results if re.search(rf"\b{r.fabric}\b", first)}
    has_clause = has_bring_up and "mixnet" not in compared
    assert len(rest) == bool(loads) + has_clause + has_bring_up
    if has_clause:
        assert re.fullmatch(rf"mixnet is {SPEED} {COST}{VALUE}", rest[-2]), rest[-2]
    if loads:
        assert re.match("(so it does )?under balanced", rest[0])
    if has_bring_up:
        assert "of link bring-up per reconfiguration" in rest[-1]
        assert rest[-1].count("mixnet would ") == 1


@given(comparisons())
@settings(deadline=None)
def test_it_names_the_best_per_dollar_against_another(results):
    first = verdict(*results).split("; ")[0]
    best = max(r.perf_per_cluster_usd for r in results)
    named = next(r for r in results if first.startswith(f"{r.fabric} trains"))
    assert named.perf_per_cluster_usd >= 0.995 * best
    other = next(r for r in results if r is not named and f" {r.fabric} at " in first.replace(
        " (within 1 %)", "")
    )  # fmt: skip
    has_tree = any(r.kind == "fat-tree" for r in results)
    assert other.kind == "fat-tree" or named.kind == "fat-tree" or not has_tree
    ratio = named.step_time_s / other.step_time_s
    assert ("faster" in first) == (ratio < 0.99)
    assert ("slower" in first) == (ratio > 1.01)


def test_a_verdict_by_hand():
    tree = result("fat-tree", 10.0, 1e7, loads=(load("balanced", 8.0), load("skewed", 20.0)))
    loads = (load("balanced", 8.0), load("skewed", 22.0))
    mixnet = result("mixnet", 10.08, 5e6, loads=loads, link_up=LinkUp(0.0, 5.67, 10.08, 5.67, 12.6))
    assert verdict(tree, mixnet) == (
        "mixnet trains as fast as fat-tree (within 1 %) at 0.50x of the network's cost: 1.32x per "
        "dollar of the cluster; under balanced load it is equally fast, under skewed load 10 % "
        "slower; with 5.67 s of link bring-up per reconfiguration, which is left out, mixnet would "
        "be 25 % slower, 26 % slower than fat-tree."
    )
    included = dataclasses.replace(mixnet, link_up=LinkUp(5.67, 5.67, 10.08, 0.0, 10.08), loads=())
    assert verdict(tree, included).endswith(
        "; 5.67 s of link bring-up per reconfiguration are included, without which mixnet would "
        "take the same time."
    )


def test_fabrics_that_are_alike_make_no_verdict_where_others_differ():
    tree, rail = result("fat-tree", 10.0, 1e7), result("rail", 9.99, 1e7)
    assert verdict(tree, rail, result("oversub", 15.0, 6e6)) == (
        "fat-tree trains 50 % faster than oversub at 1.67x of the network's cost: 1.20x per dollar "
        "of the cluster."
    )
    assert verdict(rail, tree).startswith("fat-tree trains as fast as rail at the same cost")


def test_a_fabric_that_switches_has_a_clause():
    mixnet = result("mixnet", 20.0, 5e6, link_up=LinkUp(5.67, 5.67, 20.0, 0.0, 20.0))
    text = verdict(result("fat-tree", 10.0, 1e7), result("oversub", 10.0, 6e6), mixnet)
    assert text.split("; ")[1] == (
        "mixnet is 100 % slower than fat-tree at 0.50x of the network's cost: 0.67x per dollar of "
        "the cluster"
    )


def test_a_fabric_alone_is_told_its_time():
    assert verdict(result("rail", 2.0, 1e6)) == "rail takes 2 s per step."
    loads = (load("balanced", 1.0), load("skewed", 4.0))
    assert verdict(result("rail", 2.0, 1e6, loads=loads)) == (
        "rail takes 2 s per step, 1 s under balanced load and 4 s under skewed load."
    )
