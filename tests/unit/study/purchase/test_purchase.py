"""Advice on a small purchase: brute force, budgets, flips that flip, what if nothing fits."""

import dataclasses
import functools
import itertools
import tomllib
from importlib.resources import files
from types import SimpleNamespace

import numpy as np
import pytest

from lightloom.cost import pareto_front
from lightloom.errors import InputError
from lightloom.report.page_purchase import render_purchase
from lightloom.report.purchase_table import STEADY, flip_sentences, sentences
from lightloom.study.compare.scenario import Scenario
from lightloom.study.purchase import PurchaseOptions, advise_purchase, search
from lightloom.study.purchase.search import LISTED, Trial, front_of
from lightloom.study.purchase.uncertainty import (
    MACHINE_PRICES,
    Uncertainty,
    bisected,
    sobol_indices,
)

JOB = {
    "model": "mixtral-8x7b",
    "gpus": 32,
    "cluster": {"rate_gbps": 100, "gpu": "a100"},
    "plan": {"tp": 2, "pp": 2, "ep": 8, "micro_batches": 2},
}
SPACE = {
    "gpus": (32, 64),
    "rates_gbps": (100.0,),
    "fabrics": ("rail-only", "mixnet"),
    "uncertainty": False,
}


def advised(exhaustive=False, job=None, **options):
    scenario = Scenario(**{**JOB, **(job or {})})
    return advise_purchase(scenario, PurchaseOptions(**{**SPACE, **options}), exhaustive=exhaustive)


@functools.cache
def small(goal, exhaustive, budget):
    return advised(exhaustive, goal=goal, budget_usd=budget)


@functools.cache
def uncertain():
    return advised(uncertainty=True, gpus=(32,))


@pytest.mark.parametrize("goal", ["tokens-per-dollar", "time", "power"])
def test_the_answer_is_that_of_brute_force(goal):
    found, every = small(goal, False, None), small(goal, True, None)
    assert all(one.whole_s is not None for one in every.candidates)
    best = max(every.candidates, key=lambda one: one.score(goal))
    assert every.recommended.score(goal) == pytest.approx(best.score(goal), rel=1e-12)
    assert found.recommended.score(goal) == pytest.approx(best.score(goal), rel=1e-12)
    assert found.recommended.cluster_cost_usd == every.recommended.cluster_cost_usd
    # the bounds hold for whole steps, which the exhaustive search has of all
    assert all(one.bound_s <= one.whole_s * (1 + 1e-9) for one in every.candidates)


def test_predicted_steps_are_close_to_whole_ones():
    every = small("tokens-per-dollar", True, None)
    off = [abs(one.predicted_s / one.whole_s - 1) for one in every.candidates]
    assert max(off) < 0.08


@pytest.mark.parametrize("goal", ["tokens-per-dollar", "time"])
def test_a_larger_budget_is_never_worse(goal):
    every = small(goal, True, None)
    costs = np.quantile([one.cluster_cost_usd for one in every.candidates], [0.1, 0.4, 0.9])
    scores = [small(goal, False, float(budget)).recommended.score(goal) for budget in [*costs, 1e9]]
    assert scores == sorted(scores)
    cheap = small(goal, False, float(costs[0]))
    assert cheap.recommended.cluster_cost_usd <= costs[0]
    assert cheap.outcomes["budget"] > 0


def test_every_candidate_is_accounted_for_and_nothing_beats_the_front():
    advice = small("tokens-per-dollar", False, None)
    assert sum(advice.outcomes.values()) == len(advice.candidates)
    assert advice.outcomes["recommended"] == 1
    assert [one.number for one in advice.candidates] == list(range(len(advice.candidates)))
    assert all(one.why for one in advice.candidates if one.outcome != "recommended")
    known = [one for one in advice.candidates if one.predicted_s is not None]
    front = pareto_front([(one.cluster_cost_usd, one.tokens_per_s) for one in known])
    points = {(known[n].cluster_cost_usd, known[n].tokens_per_s) for n in front}
    on_front = {
        (advice.candidates[n].cluster_cost_usd, advice.candidates[n].tokens_per_s)
        for n in advice.front
    }
    assert on_front == points
    assert len(advice.best) <= LISTED
    assert advice.best[0] == advice.recommended.number


@pytest.fixture
def few_whole(monkeypatch):
    """Predictions that are 5 % short, and whole steps of only the best."""
    short = search._short

    def optimistic(trial):
        return short(trial) * (0.95 if trial.candidate.options else 1.0)

    for name, value in {"_short": optimistic, "LISTED": 1, "MOST_WHOLE": 1}.items():
        monkeypatch.setattr(search, name, value)


@pytest.mark.usefixtures("few_whole")
@pytest.mark.parametrize("late", [1.01, 1.04])
def test_nothing_that_is_offered_misses_the_deadline(late):
    slowest = min(one.tokens_per_s for one in small("tokens-per-dollar", True, None).candidates)
    free = advised(tokens=1e12, deadline_s=2e12 / slowest)
    limit_s = free.candidates[free.front[0]].days / late * 86_400
    advice = advised(tokens=1e12, deadline_s=limit_s)
    offered = [advice.candidates[n] for n in {*advice.front, *advice.best}]
    assert all(one.days * 86_400 <= limit_s for one in offered)


@pytest.mark.usefixtures("few_whole")
@pytest.mark.parametrize("goal", ["tokens-per-dollar", "time"])
def test_the_cheaper_one_that_is_named_was_simulated_whole(goal):
    advice = advised(goal=goal)
    best = advice.recommended.cluster_cost_usd
    front = [advice.candidates[n] for n in advice.front]
    cheaper = [one for one in front if one.cluster_cost_usd < best - 0.005]
    said = [text for text in sentences(advice) if text.startswith("For $")]
    assert len(said) == bool(cheaper)
    assert all(one.whole_s is not None for one in cheaper[-1:])


def test_rounding_puts_nothing_dearer_on_the_front():
    trial = Trial(small_candidate(1e6), 1.0, 1.0)
    dearer = Trial(small_candidate(1.1e6), 1.0, 1.0 - 2e-16)
    cheaper = Trial(small_candidate(1e6 - 1e-9), 1.0, 1.1)
    for trials in ([trial, dearer, cheaper], [cheaper, dearer, trial]):
        assert front_of(trials) == [trial]


def small_candidate(usd):
    """What of a candidate makes a front."""
    return SimpleNamespace(usd=usd, site=SimpleNamespace(tokens=1000))


def test_all_stands_for_every_fabric():
    options = PurchaseOptions(gpus=(32,), fabrics=("all", "mixnet"))
    assert {"fat-tree", "mixnet", "rotornet"} <= set(options.fabrics)
    assert "all" not in options.fabrics
    assert len(set(options.fabrics)) == len(options.fabrics)


def test_prices_are_those_of_a_comparison():
    from lightloom.study.compare.run import compare

    alone = {"policies": False, "imbalances": False, "seeds": 1, "compute_spread": 0.0}
    one = next(
        c for c in small("tokens-per-dollar", True, None).candidates
        if c.fabric == "rail-only" and not c.bought and (c.gpus, c.rate_gbps) == (32, 100)
    )  # fmt: skip
    (result,) = compare(Scenario(**JOB, **alone, fabrics=("rail-only",))).results
    assert result.network_cost_usd == one.network_cost_usd
    assert result.cluster_cost_usd == one.cluster_cost_usd
    assert result.cluster_power_w == one.cluster_power_w


# What would change the answer


def scaled_prices(component, factor):
    """The built-in prices with those of a component times a factor."""
    name = {"eps_port": "switch_port"}.get(component, component) + "_usd"
    text = files("lightloom.hardware").joinpath("data/prices.toml").read_text()
    prices = tomllib.loads(text)
    tables = [*prices["links"].values(), *prices["circuit_switches"].values()]
    for table in tables:
        if name in table:
            table[name]["value"] *= factor
    if component == "fiber":
        prices["fiber"]["price_usd_per_m"]["value"] *= factor
    if component == "server":
        prices["server"]["price_usd"]["value"] *= factor
    return prices


def test_a_flip_flips_just_beyond_and_not_before():
    advice = uncertain()
    flips = [f for f in advice.flips if f.unit == "usd" and f.name != "gpu" and f.other is not None]
    assert flips
    for flip in flips[:2]:
        for step, is_kept in ((-0.002, flip.holds_below), (0.002, not flip.holds_below)):
            factor = flip.value / flip.now * (1 + step)
            prices = scaled_prices(flip.name, factor)
            again = advised(
                job={"prices": "other.toml", "price_list": prices}, gpus=(32,), exhaustive=True
            ).recommended
            same = (again.design, again.rate_gbps, again.gpus) == (
                advice.recommended.design, advice.recommended.rate_gbps, advice.recommended.gpus
            )  # fmt: skip
            assert same == is_kept, flip


@pytest.fixture
def ratios(monkeypatch):
    """Steps in proportion to computation, and with delays by a slope of each contender."""
    slopes = {}

    def ratio(_, number, change):
        return change.compute_scale * (1 + slopes.get(number, 0.0) * (change.delay_scale - 1))

    monkeypatch.setattr(Uncertainty, "_ratio", ratio)
    return slopes


@pytest.mark.parametrize("slow", [0, 1])
def test_a_delay_flips_where_the_lead_is_used_up(slow, ratios):
    ratios[slow] = 0.9
    advice = advised(uncertainty=True, gpus=(32,), fabrics=("mixnet",), goal="time")
    first, second = (advice.candidates[n].tokens_per_s for n in advice.best[:2])
    (flip,) = (flip for flip in advice.flips if flip.name == "delay")
    exact = 1 + (first / second - 1) / 0.9 if slow == 0 else 1 - (1 - second / first) / 0.9
    assert flip.value / flip.now == pytest.approx(exact, rel=2e-3)
    assert flip.holds_below == (slow == 0)
    assert flip.other == advice.best[1]
    text = flip_sentences(advice)[0]
    assert text.startswith(f"{advice.recommended.design} stays ahead while a reconfiguration takes")
    assert f"beyond that {advice.candidates[flip.other].design} of" in text


@pytest.mark.usefixtures("ratios")
def test_the_answer_changes_where_the_deadline_is_missed():
    free = small("time", False, None).recommended
    limit_s = 1.05e12 / free.tokens_per_s
    advice = advised(uncertainty=True, goal="time", tokens=1e12, deadline_s=limit_s)
    (flip,) = (flip for flip in advice.flips if flip.name == "efficiency")
    assert flip.value == pytest.approx(1.05, rel=2e-3)
    assert (flip.limit, flip.other, flip.holds_below) == ("deadline", None, True)
    assert "is in time while GPUs are less than 1.05 times slower" in flip_sentences(advice)[0]


@pytest.mark.usefixtures("ratios")
def test_the_answer_changes_where_a_late_candidate_comes_in_time():
    free = small("tokens-per-dollar", False, None).recommended
    limit_s = 1e12 / free.tokens_per_s / 1.1
    advice = advised(uncertainty=True, tokens=1e12, deadline_s=limit_s)
    assert advice.recommended.tokens_per_s > free.tokens_per_s
    faster = [f for f in advice.flips if f.name == "efficiency" and not f.holds_below]
    assert faster[0].value >= 1 / 1.1 - 2e-3
    assert advice.candidates[faster[0].other].outcome == "deadline"
    assert any(text.endswith("which is in time then.") for text in flip_sentences(advice))


def test_the_answer_changes_where_the_budget_buys_a_better_one():
    every = small("time", True, None).candidates
    budget = 0.99 * min(one.cluster_cost_usd for one in every if one.gpus == 64)
    advice = advised(uncertainty=True, goal="time", budget_usd=budget)
    assert advice.recommended.gpus == 32
    (flip,) = (f for f in advice.flips if f.name == "server" and not f.holds_below)
    other = advice.candidates[flip.other]
    assert (other.gpus, other.outcome) == (64, "budget")
    for step, gpus in ((-0.002, 64), (0.002, 32)):
        prices = scaled_prices("server", flip.value / flip.now * (1 + step))
        job = {"prices": "other.toml", "price_list": prices}
        assert advised(job=job, goal="time", budget_usd=budget).recommended.gpus == gpus


def test_only_what_was_examined_is_said_to_change_nothing():
    advice = dataclasses.replace(uncertain(), flips=())
    for count in range(4):
        for names in itertools.combinations(STEADY, count):
            texts = flip_sentences(dataclasses.replace(advice, examined=names))
            assert len(texts) == bool(names)
            assert all((STEADY[name] in "".join(texts)) == (name in names) for name in STEADY)


def test_alone_nothing_was_examined():
    job = {"fabric_options": {"rail-only": {"nics_per_server": 8, "switch_ports": 64}}}
    advice = advised(uncertainty=True, gpus=(32,), fabrics=("rail-only",), job=job)
    assert len(advice.best) == 1
    assert (advice.examined, advice.lead_share, flip_sentences(advice)) == ((), None, [])


@pytest.mark.parametrize("fabrics", [("rail-only", "mixnet"), ("mixnet",), ("dual-plane",)])
def test_the_lead_is_that_over_the_best_other_candidate(fabrics):
    advice = advised(uncertainty=True, gpus=(32,), fabrics=fabrics)
    first, second = (advice.candidates[n].score(advice.goal) for n in advice.best[:2])
    assert advice.effects
    for effect in advice.effects:
        assert effect.lead_now == pytest.approx(first / second - 1, abs=1e-9)
        assert (effect.lead_low < 0) == (effect.best_low != advice.recommended.number)
        assert (effect.lead_high < 0) == (effect.best_high != advice.recommended.number)
    assert set(MACHINE_PRICES) <= {effect.name for effect in advice.effects}


@pytest.mark.parametrize("mean", [0.0, 30.0])
def test_indices_of_a_sum_are_the_shares_of_its_variance(mean):
    weights = np.array([3.0, 2.0, 1.0, 0.0])
    exact = weights**2 / (weights**2).sum()
    first, total, values = sobol_indices(
        lambda points: mean + points @ weights, 4, np.random.default_rng(1)
    )
    assert first == pytest.approx(exact, abs=0.04)
    assert total == pytest.approx(exact, abs=0.04)
    assert values.mean() == pytest.approx(mean, abs=0.1)


def test_indices_of_a_product_are_all_with_the_other():
    first, total, _ = sobol_indices(lambda p: 5 + p[:, 0] * p[:, 1], 2, np.random.default_rng(2))
    assert first == pytest.approx([0, 0], abs=0.04)
    assert total == pytest.approx([1, 1], abs=0.06)


def test_a_bisection_finds_a_root_on_either_side():
    assert bisected(lambda x: x - 3.0, 0.5, 20.0) == pytest.approx(3.0, rel=2e-3)
    assert bisected(lambda x: 3.0 - x, 20.0, 0.5) == pytest.approx(3.0, rel=2e-3)
    assert bisected(lambda x: x + 1.0, 0.5, 20.0) is None


# What is said


def test_the_recommendation_comes_first_and_says_what_was_left_out():
    advice = uncertain()
    first, *_, last = sentences(advice)
    assert first.startswith(f"Buy {advice.recommended.gpus} A100 on {advice.recommended.design}")
    assert last.startswith("Not considered: fabrics fat-tree")
    assert "goodput" in last
    assert flip_sentences(advice)
    page = render_purchase(advice, "lightloom advise")
    assert "What would change the answer" in page
    assert page.count("data-tip=") >= len(advice.best)
    assert advice.to_html() != ""
    assert len(advice.to_polars()) == len(advice.candidates)
    assert "PurchaseAdvice(" in repr(advice)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"budget_usd": 1e5}, "no candidate costs $100k at most: the cheapest,"),
        ({"budget_usd": 5e5}, "the budget buys"),
        ({"tokens": 1e15, "deadline_s": 86400.0}, "at its pace that needs"),
        ({"tokens": 1e12, "deadline_s": 40 * 86400.0, "budget_usd": 6e5}, "costs"),
        ({"tokens": 1e12}, "tokens and deadline_s belong together"),
        ({"gpus": ()}, "there is no candidate"),
        ({"gpus": (8,)}, "8 GPUs: "),
        ({"goal": "money"}, "expected one of tokens-per-dollar, time, power"),
        ({"fabrics": ("fat-tre",)}, "fat-tre"),
    ],
)
def test_what_cannot_be_is_one_line_that_says_what_can(options, expected):
    with pytest.raises(InputError) as refusal:
        advised(**options)
    assert expected in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_trace_has_no_plan_to_choose():
    with pytest.raises(InputError, match="a model's job"):
        advise_purchase(
            Scenario(workload="trace.json", cluster={"rate_gbps": 100}), PurchaseOptions(**SPACE)
        )


def test_an_interrupt_stops():
    from lightloom.progress import ProgressMonitor

    with pytest.raises(KeyboardInterrupt):
        advise_purchase(
            Scenario(**JOB),
            PurchaseOptions(**SPACE),
            monitor=ProgressMonitor(lambda share, _: share < 0.3),
        )
