"""The verdict of any results is one correct sentence that says what the numbers say."""

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.report.story import doubts, story
from lightloom.study.compare.results import Comparison, FabricResult, LinkUp, LoadResult

TOKENS = 1e6
NAMES = ("fat-tree", "oversub", "mixnet", "a custom one")
#: what may follow the name of a fabric: as fast, or faster or slower by a share
SPEED = (
    r"(as fast(?: as (?P<to>[\w -]+))? \((?P<times>[\d.]+)x\)|[\d.,e+]+ % (?P<word>faster|slower)"
)
SPEED += r"(?: than (?P<than>[\w -]+))?)"
COST = r"at (the same network cost|(?P<cost>[\d.,e+-]+) %( of its network cost)?)"
CLAUSE = re.compile(rf"(?P<name>{{}}) is {SPEED} {COST}")
WORSE = re.compile(r"(?P<names>.+) costs? more than (?P<better>.+) and (is|are) no faster")


def result(name, step_s, network_usd, *, loads=(), link_up=None, samples=None):
    per_s = TOKENS / step_s
    return FabricResult(
        fabric=name, kind=name, step_time_s=step_s, step_time_low_s=step_s, step_time_high_s=step_s,
        sample_step_times_s=samples or (step_s,), tokens_per_s=per_s,
        tokens_per_s_per_gpu=per_s, tflops_per_gpu=125.0, mfu=0.4, days_per_trillion_tokens=1.0,
        network_cost_usd=network_usd,
        cluster_cost_usd=network_usd + 1e7, network_power_w=1.0, cluster_power_w=1.0,
        critical_path_s={}, mean_s={}, carried_bytes={}, cost_by_component_usd={},
        reconfiguration={}, variants_s={}, parameters={}, notes=(), run_hash="", events=0,
        simulation_wall_s=0.0, loads=loads, link_up=link_up,
    )  # fmt: skip


def load(imbalance, step_s):
    return LoadResult(imbalance, step_s, 1.0, 1.0, 125.0, 0.4, 1.0, 0.0, "flat")


def verdict(*results):
    return story(Comparison({}, tuple(results), {}, {}, {}))


def doubt(*results):
    return doubts(Comparison({}, tuple(results), {}, {}, {}))


def clauses_of(results):
    """Clauses of a verdict by fabric, the costlier ones, those of the most per dollar."""
    *clauses, last = verdict(*results)[:-1].split("; ")
    pattern = re.compile(CLAUSE.pattern.format("|".join(r.fabric for r in results)))
    found = [pattern.fullmatch(clause) for clause in clauses]
    worse = [WORSE.fullmatch(c) for c, match in zip(clauses, found, strict=True) if not match]
    assert all(worse), clauses
    return [match for match in found if match], worse, last


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
def test_any_verdict_is_one_well_formed_sentence_about_every_fabric(results):
    text = verdict(*results)
    assert text.count(". ") == 0
    assert text.endswith(".")
    assert "  " not in text
    assert "nan" not in text
    clauses, worse, last = clauses_of(results)
    assert "per dollar of the cluster" in last
    named = [match["name"] for match in clauses]
    named += [name for match in worse for name in re.split(", | and ", match["names"])]
    # all but the one that they are compared with, each once
    assert len(named) == len(set(named)) == len(results) - 1
    assert all((match["to"] or match["than"]) is None for match in clauses[1:])


@given(comparisons())
@settings(deadline=None)
def test_a_verdict_says_what_the_numbers_say(results):
    by_name = {r.fabric: r for r in results}
    clauses, worse, last = clauses_of(results)
    fastest = min(results, key=lambda r: r.step_time_s)
    if clauses:
        reference = by_name[clauses[0]["to"] or clauses[0]["than"]]
        assert reference.is_as_fast_as(fastest)
        for match in clauses:
            own = by_name[match["name"]]
            ratio = own.step_time_s / reference.step_time_s
            if match["times"]:
                assert float(match["times"]) == pytest.approx(ratio, abs=6e-4)
                assert 1 / 1.0051 < ratio < 1.0051
            else:
                assert (match["word"] == "slower") == (ratio > 1)
            if match["cost"]:
                share = own.network_cost_usd / reference.network_cost_usd
                assert float(match["cost"].replace(",", "")) == pytest.approx(100 * share, rel=0.06)
    for match in worse:
        better = by_name[match["better"]]
        for name in re.split(", | and ", match["names"]):
            own = by_name[name]
            assert better.network_cost_usd < own.network_cost_usd
            assert better.is_as_fast_as(own) or better.step_time_s < own.step_time_s
    best = max(results, key=lambda r: r.perf_per_cluster_usd)
    assert best.fabric in last or last.startswith("all train")


@given(comparisons())
@settings(deadline=None)
def test_doubts_name_what_was_simulated(results):
    text = doubt(*results)
    assert "sample" in text
    assert ("of link bring-up per reconfiguration" in text) == any(r.link_up for r in results)
    assert (" load" in text) == bool(results[0].loads)


def test_a_verdict_by_hand():
    tree, rail = result("fat-tree", 10.0, 1e7), result("rail", 9.99, 1e7)
    oversub, topoopt = result("oversub", 10.01, 5.7e6), result("topoopt", 10.63, 2.1e6)
    assert verdict(tree, oversub, rail, topoopt) == (
        "oversub is as fast as fat-tree (1.001x) at 57 % of its network cost; topoopt is 6.3 % "
        "slower at 21 %; rail costs more than oversub and is no faster; topoopt trains the most "
        "per dollar of the cluster."
    )
    assert verdict(rail, tree) == (
        "rail is as fast as fat-tree (0.999x) at the same network cost; all train equally much "
        "per dollar of the cluster."
    )


def test_samples_in_pairs_decide_whether_fabrics_are_alike():
    tree = result("fat-tree", 10.0, 1e7, samples=(9.0, 11.0))
    # its interval overlaps that of the fat-tree, but it is slower on every sample
    slower = result("oversub", 10.3, 5e6, samples=(9.3, 11.3))
    assert verdict(tree, slower).startswith("oversub is 3 % slower than fat-tree at 50 %")
    either = result("oversub", 10.2, 5e6, samples=(8.9, 11.5))
    assert verdict(tree, either).startswith("oversub is as fast as fat-tree (1.020x) at 50 %")


def test_doubts_by_hand():
    tree = result("fat-tree", 10.0, 1e7, loads=(load("balanced", 8.0), load("skewed", 20.0)))
    loads = (load("balanced", 8.0), load("skewed", 22.0))
    mixnet = result("mixnet", 10.0, 5e6, loads=loads, link_up=LinkUp(0.0, 5.67, 10.0, 5.67, 12.5))
    assert doubt(tree, mixnet) == (
        "One sample, so that no spread is known; under skewed load mixnet is 10 % slower as "
        "compared with fat-tree; with 5.67 s of link "
        "bring-up per reconfiguration, which is left out, mixnet would be 25 % slower."
    )
    included = dataclasses.replace(mixnet, link_up=LinkUp(5.67, 5.67, 10.0, 0.0, 10.0), loads=())
    assert doubt(tree, included).endswith(
        "; 5.67 s of link bring-up per reconfiguration are included, without which mixnet would "
        "take the same time."
    )
    alike = dataclasses.replace(tree, fabric="oversub", kind="oversub")
    assert doubt(tree, alike).endswith(
        "; balanced and skewed load change no ratio by more than 1 %."
    )
    traced = dataclasses.replace(tree, loads=tree.loads[:1])
    also = dataclasses.replace(alike, loads=traced.loads)
    assert doubt(traced, also).endswith("; balanced load changes no ratio by more than 1 %.")


def test_a_fabric_alone_is_told_its_time():
    assert verdict(result("rail", 2.0, 1e6)) == "rail takes 2 s per step."
    loads = (load("balanced", 1.0), load("skewed", 4.0))
    alone = result("rail", 2.0, 1e6, loads=loads)
    assert verdict(alone) == (
        "rail takes 2 s per step, 1 s under balanced load and 4 s under skewed load."
    )
    assert doubt(alone) == "One sample, so that no spread is known."
