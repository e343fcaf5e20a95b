"""The goodput of small jobs on fabrics: what fails, what follows, what was published."""

import functools
import math
from types import SimpleNamespace

import pytest

from lightloom.errors import InputError
from lightloom.hardware import load_failure_rates
from lightloom.study.compare.scenario import Scenario
from lightloom.study.goodput import goodput
from lightloom.study.goodput.options import RecoveryOptions
from lightloom.study.goodput.results import SparesResult
from lightloom.study.goodput.run import FabricCase, cheapest_spares
from lightloom.study.goodput.walk import SPENT

JOB = {
    "model": "mixtral-8x7b",
    "gpus": 64,
    "cluster": {"rate_gbps": 400},
    "plan": {"tp": 4, "pp": 2, "ep": 8, "micro_batches": 2},
    "fabrics": ("fat-tree", "mixnet"),
    "fabric_options": {"mixnet": {"link_up_s": 0.0}},
}


@functools.cache
def found(**recovery):
    return goodput(Scenario(**JOB), RecoveryOptions(**{"runs": 20, **recovery}))


def test_shares_sum_to_the_time_and_kinds_to_what_is_lost():
    for one in found().results:
        assert sum(one.shares.values()) == pytest.approx(1.0)
        assert set(one.shares) == set(SPENT)
        lost = sum(kind.lost_share for kind in one.kinds)
        assert lost == pytest.approx(1 - one.shares["useful"] - one.shares["checkpoints"])
        assert one.useful_low <= one.useful_share <= one.useful_high
        assert one.useful_steps_per_day == pytest.approx(
            one.useful_share * 86_400 / one.step_time_s
        )


def test_what_fails_is_what_a_fabric_has():
    trees, mixnet = ({kind.kind: kind for kind in one.kinds} for one in found().results)
    assert "ocs" not in trees
    assert "ocs" in mixnet
    # a spare server of MixNet is on packet switches alone
    assert mixnet["server"].longer_share > 0.01
    assert trees["server"].longer_share == pytest.approx(0.0, abs=1e-3)
    assert {"rack", "row", "software", "maintenance", "link"} <= set(trees)


def test_parts_fail_as_often_as_their_rates_say():
    rates = load_failure_rates()
    counted = goodput(Scenario(**JOB), RecoveryOptions(runs=400, days=360)).results[0]
    by_kind = {kind.kind: kind.per_day for kind in counted.kinds}
    for kind, number in {"gpu": 64, "server": 8, "nic": 64, "link": 64}.items():
        expected = number * rates.per_year[kind].value / 365.25
        assert by_kind[kind] == pytest.approx(expected, rel=0.1), kind
    assert by_kind["rack"] == pytest.approx(
        4 * rates.power_per_year["rack"].value / 365.25, rel=0.4
    )


def test_a_spare_on_the_circuit_switch_makes_failed_servers_cheap():
    with_spare = {**JOB, "fabric_options": {"mixnet": {"link_up_s": 0.0, "spare_servers": 1}}}
    long = {"days": 720, "spares": 4}
    better = goodput(Scenario(**with_spare), RecoveryOptions(runs=20, **long)).result("mixnet")
    assert better.shares["slower"] < 0.5 * found(**long).result("mixnet").shares["slower"]


def test_a_job_that_survives_lost_nics_restarts_less_often():
    for one, other in zip(found().results, found(survives=("nic", "link")).results, strict=True):
        assert other.between_s > one.between_s
        assert {kind.kind: kind.shares["detection"] for kind in other.kinds}["link"] == 0.0


def test_the_more_one_waits_the_less_is_useful():
    shares = [
        found(spares=1, detection_s=seconds).results[0].useful_share for seconds in (0.0, 600, 6000)
    ]
    assert shares == sorted(shares, reverse=True)
    given = found(interval_s=777.0, checkpoint_s=5.0, restart_s=1.0, repair_s=3600.0)
    assert given.results[0].interval_s == 777.0
    assert given.inputs["checkpoint_s"] == 5.0
    assert given.inputs["repair_s"] == 3600.0


def test_the_same_seed_gives_the_same_and_another_does_not():
    again = goodput(Scenario(**JOB), RecoveryOptions(runs=20))
    assert again.to_json()["results"] == found().to_json()["results"]
    other = goodput(Scenario(**JOB, seed=3), RecoveryOptions(runs=20))
    assert other.results[0].useful_share != found().results[0].useful_share


def test_fewer_replicas_have_nearly_the_same_failures():
    job = {key: value for key, value in JOB.items() if key != "plan"}
    job |= {"fabrics": ("mixnet",), "plan": {"source": "published", "micro_batches": 2}}
    large = {**job, "gpus": 512}
    estimated = goodput(Scenario(**large), RecoveryOptions(runs=2, spares=4))
    assert estimated.inputs["failed_parts_gpus"] == 256
    parts = tuple(part for part in estimated.inputs["failed_parts"])
    whole = goodput(Scenario(**large, fail=parts), RecoveryOptions(runs=2, spares=4))
    assert whole.inputs["failed_parts_gpus"] == 512
    wanted = {kind.kind: kind for kind in whole.results[0].kinds}
    for kind in estimated.results[0].kinds:
        assert kind.longer_share == pytest.approx(wanted[kind.kind].longer_share, abs=0.03), kind
    rates = [one.results[0].between_s for one in (estimated, whole)]
    assert rates[0] == pytest.approx(rates[1], rel=0.02)


def test_all_fabrics_have_the_number_of_spares_with_which_steps_cost_least():
    results = found(days=720).results
    assert len({one.spares for one in results}) == 1
    numbers = [row.spares for row in results[0].by_spares]
    assert all([row.spares for row in one.by_spares] == numbers for one in results)

    gained = results[0].by_spares[1]
    assert gained.usd_per_gained_step == pytest.approx(
        gained.cost_usd
        / (gained.useful_steps_per_day - results[0].by_spares[0].useful_steps_per_day)
    )


def test_the_cheapest_spares_are_those_with_which_steps_cost_least_over_all_fabrics():
    def case(cluster_usd, *steps):
        rows = tuple(
            SparesResult(number, 10.0 * number, 0.0, each, None, True)
            for number, each in zip((0, 1, 2), steps, strict=False)
        )
        return FabricCase(SimpleNamespace(cluster_cost_usd=cluster_usd), None, 1.0, 8, 10.0, rows)

    assert cheapest_spares([case(1000.0, 50.0, 100.0, 100.5)]) == 1
    assert cheapest_spares([case(1000.0, 50.0, 100.0, 120.0)]) == 2
    # what both together lose and gain counts
    assert cheapest_spares([case(1000.0, 100.0, 100.5), case(10.0, 100.0, 250.0)]) == 1
    assert cheapest_spares([case(1000.0, 100.0, 100.5), case(10.0, 100.0, 190.0)]) == 0
    assert cheapest_spares([case(1000.0, 0.0, 0.0)]) == 0


def test_llama_3_was_interrupted_about_as_often_as_the_rates_say():
    runs = {run["title"]: run for run in found().published}
    llama = runs["Llama 3 405B"]
    # links of HPN fail half as often as network parts of Llama 3
    assert llama["model_interruptions"] == pytest.approx(llama["interruptions"], rel=0.06)
    assert 0.85 < llama["model_share"] < 0.95
    assert runs["MegaScale"]["model_share"] > llama["model_share"]


def test_results_have_a_row_per_fabric_and_print_themselves():
    rows = found().rows()
    assert [row["fabric"] for row in rows] == ["fat-tree", "mixnet"]
    assert all(isinstance(value, str | int | float) for row in rows for value in row.values())
    assert repr(found()).startswith("Goodput(fat-tree ")
    assert found().to_polars().height == 2
    assert "rect" in found().plot().svg
    with pytest.raises(InputError, match="fabric 'rail': not simulated; expected one of"):
        found().result("rail")


@pytest.mark.parametrize(
    ("recovery", "message"),
    [
        ({"survives": ("gpu",)}, "survives gpu: expected one of nic, link, tor, ocs"),
        ({"runs": 100_000, "days": 3660}, "are more than can be drawn; expected fewer runs"),
    ],
)
def test_what_cannot_be_is_refused(recovery, message):
    job = Scenario(**{**JOB, "gpus": 1024})
    with pytest.raises(InputError, match=message):
        goodput(job, RecoveryOptions(**recovery))


def test_a_trace_has_no_state_to_write():
    job = Scenario(workload="trace.json", cluster={"rate_gbps": 400})
    with pytest.raises(InputError, match="goodput is of a model"):
        goodput(job)


def test_no_failures_no_interval():
    one = found(detection_s=0.0).results[0]
    assert math.isfinite(one.between_s)
    assert [row.interval_s / one.interval_s for row in one.by_interval] == [0.5, 1.0, 2.0]


def test_a_job_that_never_trains_costs_without_end():
    # a server is out for a year, and none stands by
    one = found(days=3600, spares=0, repair_s=365 * 86_400.0, detection_s=1e7).results[0]
    assert one.useful_share < 0.2
    never = found(days=3000, runs=1, spares=0, restart_s=1e9, detection_s=1e9).results[0]
    assert never.useful_share < 0.1
    assert never.usd_per_trillion_tokens > one.usd_per_trillion_tokens
