"""A map of a small job: delays add up, prices have closed forms, the drawing shows the borders."""

import dataclasses
import functools
import math

import pytest

from lightloom.errors import InputError
from lightloom.study.compare.plan_search import planned_jobs
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario
from lightloom.study.switch_map import switch_map
from lightloom.study.switch_map.curve import LONGEST_S, SHORTEST_S
from lightloom.study.switch_map.options import MapOptions

JOB = {
    "model": "mixtral-8x7b",
    "gpus": 64,
    "cluster": {"rate_gbps": 400},
    "plan": {"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
    # circuits alone carry the all-to-alls, so that they are worth changing
    "fabric_options": {"mixnet": {"split": False}},
}
ALONE = {"policies": False, "imbalances": False, "seeds": 1, "compute_spread": 0.0}


@functools.cache
def found():
    return switch_map(
        Scenario(**JOB, demand={"source": "pair"}), MapOptions(rates=(400.0,), degrees=(4, 6))
    )


def steps(options):
    compared = compare(
        Scenario(
            **{**JOB, "fabric_options": {"mixnet": {"split": False, **options}}},
            **ALONE,
            demand={"source": "pair"},
            fabrics=("mixnet",),
        )
    )
    return compared.results[0].step_time_s


def test_switching_and_bring_up_count_alike():
    apart = steps({"ports": 6, "fixed_s": 0.01, "link_up_s": 0.1, "per_pair_s": 0.0})
    together = steps({"ports": 6, "fixed_s": 0.11, "link_up_s": 0.0, "per_pair_s": 0.0})
    assert apart == together
    # and the map says the same as a comparison, within what it says of itself
    curve = found().main.curve
    assert curve.step_s(0.11) == pytest.approx(together, rel=max(curve.error, 0.002) * 2)


def test_ends_are_simulated_and_fixed_circuits_are_no_worse_than_slow_ones():
    for one in found().curves:
        assert {SHORTEST_S, LONGEST_S} <= set(one.curve.steps_s)
        assert one.curve.step_s(LONGEST_S) == pytest.approx(one.curve.never_s, rel=0.01)
    assert found().main.gain > 0.005
    assert SHORTEST_S < found().main.switching_border_s < 5.67


def test_the_highest_price_is_that_at_which_both_do_as_much_per_dollar():
    main = found().main
    step_s = main.curve.step_s(1e-3)
    for metric, base in (("network", main.network_usd), ("cluster", main.cluster_usd)):
        price = main.highest_port_usd(metric, step_s)
        mixnet = step_s * (base + price * main.ports)
        assert mixnet == pytest.approx(main.rival(metric).per_work(metric))
        assert main.pays(metric, step_s, price - 1)
        assert not main.pays(metric, step_s, price + 1)
        # a shorter step may cost more
        assert main.highest_port_usd(metric, step_s / 2) > price


def test_costs_are_those_of_a_comparison():
    main = found().main
    job = Scenario(**JOB | {"fabric_options": {"mixnet": {"ports": 6}}}, fabrics=("mixnet",))
    costs = planned_jobs(job)[0].costs["mixnet"]
    assert main.network_usd + main.ports * main.port_usd == pytest.approx(costs.network.total_usd)
    assert main.cluster_usd + main.ports * main.port_usd == pytest.approx(costs.cluster.total_usd)
    assert main.ports == 6 * 8


def test_borders_get_no_nearer_with_cheaper_ports():
    main = found().main
    borders = [main.border_s("cluster", price) for price in (0.0, 100.0, 520.0, 5000.0)]
    assert borders == sorted(borders, reverse=True)
    assert main.border_s("time", 0.0) == main.border_s("time", 5000.0)


def test_variants_differ_from_the_job():
    names = [one.variant for one in found().variants]
    assert {"balanced load", "skewed load", "all-to-alls in chunks"} <= set(names)
    # the job's own demand is no variant, nor what it does with copies anyway
    assert "pairs that stand out" not in names
    assert len({"one copy per server", "a copy for each expert"} & set(names)) == 1
    steps = {round(one.curve.never_s, 6) for one in (found().main, *found().variants)}
    assert len(steps) == 1 + len(names)


def test_rows_and_drawing_have_every_curve():
    rows = found().rows()
    curves = {(row["variant"], row["rate_gbps"], row["degree"]) for row in rows}
    assert len(curves) == len(found().curves) + len(found().variants)
    assert all(isinstance(value, str | int | float) for row in rows for value in row.values())
    assert found().to_polars().height == len(rows)
    content = found().to_json()
    assert content["curves"][0]["delays_s"][0] == SHORTEST_S
    assert all(not math.isinf(value) for curve in content["curves"]
               for value in curve.values() if isinstance(value, float))  # fmt: skip
    svg = found().plot().svg
    for product in found().products:
        assert product.title in svg
    assert "NIC of today" in svg
    assert "Figure" in repr(found().plot())


def test_a_port_may_be_free():
    free = dataclasses.replace(
        found(),
        products=tuple(dataclasses.replace(one, port_usd=0.0) for one in found().products),
        curves=tuple(dataclasses.replace(one, port_usd=0.0) for one in found().curves),
    )
    svg = free.plot().svg
    assert "nan" not in svg
    assert "inf" not in svg
    assert len(free.to_html()) > len(svg)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"degrees": (8,)}, "degree 8: a server has 8 NICs, of which one at least is on packet"),
        ({"rates": ()}, "a map needs a rate and a degree"),
        ({"fabrics": ("mixnet",)}, "fabrics: name one that mixnet is held against"),
        ({"rates": (123.0,)}, "nothing for 123 Gb/s links"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        switch_map(Scenario(**JOB), MapOptions(**options))
