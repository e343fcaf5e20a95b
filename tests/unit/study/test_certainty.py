"""How often a fabric is best per dollar, and the price that would change it."""

import dataclasses

import pytest
from tests.property.test_story import result

from lightloom.study.compare.certainty import certainty


def priced(name, step_s, parts, machines=1e7):
    network = sum(parts.values())
    made = result(name, step_s, network)
    return dataclasses.replace(
        made, cost_by_component_usd=parts, cluster_cost_usd=network + machines
    )


def test_equal_fabrics_are_best_equally_often():
    # errors are each fabric's own, and so are draws
    alike = [
        dataclasses.replace(priced(name, 10.0, {"nic": 1e6}), critical_path_s={"ep": 5.0})
        for name in ("a", "b")
    ]
    shares = certainty(alike).shares
    assert shares["a"] == pytest.approx(0.5, abs=0.02)
    assert sum(shares.values()) == pytest.approx(1)


def test_what_is_better_in_everything_is_always_best():
    found = certainty([priced("a", 9.0, {"nic": 1e6}), priced("b", 10.0, {"nic": 2e6})])
    assert (found.best, found.shares["a"], found.flip) == ("a", 1.0, None)


def test_the_price_that_flips_the_verdict_makes_both_equal():
    parts = {"nic": 1e6}
    a, b = priced("a", 10.0, parts | {"ocs_port": 2e5}), priced("b", 10.2, parts)
    flip = certainty([a, b]).flip
    assert (flip.fabric, flip.component) == ("b", "ocs_port")
    moved = a.cluster_cost_usd + (flip.factor - 1) * 2e5
    assert a.step_time_s * moved == pytest.approx(b.step_time_s * b.cluster_cost_usd)


def test_draws_are_the_same_in_every_call():
    results = [priced("a", 10.0, {"nic": 1e6}), priced("b", 9.9, {"nic": 1.5e6})]
    assert certainty(results) == certainty(results)
