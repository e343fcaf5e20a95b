"""Tuned designs: no worse than the defaults, and what is given stays."""

import dataclasses

import pytest

from lightloom.progress import Monitor
from lightloom.study.compare import compare
from lightloom.study.compare.designs import tuned
from lightloom.study.compare.fills import Steps
from lightloom.study.compare.job import load_fabrics, prepare
from lightloom.study.compare.scenario import Scenario

JOB = {
    "model": "qwen3-30b-a3b",
    "gpus": 64,
    "cluster": {"gpu": "h100", "rate_gbps": 400},
    "plan": {"tp": 1, "pp": 2, "ep": 16, "micro_batches": 2, "micro_batch_size": 1},
    "fabrics": ("oversub", "mixnet"),
    "designs": "tuned",
    "seeds": 1,
    "compute_spread": 0,
    "policies": False,
    "imbalances": False,
}


@pytest.fixture(scope="module")
def found():
    return compare(Scenario(**JOB))


def worth(design):
    return 1 / (design["step_time_s"] * design["cluster_cost_usd"])


def test_one_design_of_each_fabric_is_chosen_and_is_its_best(found):
    designs = found.inputs["designs"]
    for name in JOB["fabrics"]:
        own = [design for design in designs if design["fabric"] == name]
        (chosen,) = [design for design in own if design["is_chosen"]]
        assert worth(chosen) >= max(map(worth, own)) * (1 - 1e-3)
        applied = found.result(name).parameters
        assert {key: applied[key] for key in chosen["options"]} == chosen["options"]
        assert found.result(name).network_cost_usd == pytest.approx(chosen["network_cost_usd"])


def test_the_front_has_nothing_that_is_cheaper_and_faster(found):
    designs = found.inputs["designs"]
    for one in (design for design in designs if design["is_on_front"]):
        assert not any(
            other["step_time_s"] < one["step_time_s"]
            and other["cluster_cost_usd"] < one["cluster_cost_usd"]
            for other in designs
        )


def test_results_record_the_designs_so_that_they_run_again(found):
    again = Scenario.model_validate(found.inputs["scenario"])
    assert again.designs == "default"
    costs = prepare(again).costs
    for result in found.results:
        assert costs[result.fabric].network.total_usd == pytest.approx(result.network_cost_usd)


def test_what_is_given_is_not_moved():
    options = {"mixnet": {"ports": 5}, "oversub": {"ratio": 2.0}}
    designs = compare(Scenario(**JOB, fabric_options=options)).inputs["designs"]
    assert not any({"ports", "ratio"} & design["options"].keys() for design in designs)


def test_each_plan_keeps_its_fabrics():
    """A search may find another plan for each fabric, which is another job."""
    whole = prepare(Scenario(**JOB))
    jobs = [dataclasses.replace(whole, fabrics=(fabric,)) for fabric in whole.fabrics]
    found, designs = tuned(jobs, Monitor())
    assert [[fabric.name for fabric in job.fabrics] for job in found] == [["oversub"], ["mixnet"]]
    # results record the scenario of one job, from which all run again
    for job in found:
        again = {fabric.name: fabric for fabric in load_fabrics(job.scenario)}
        assert again == {one.name: one for other in found for one in other.fabrics}
    together = tuned([whole], Monitor())[1]
    assert [design.options for design in designs] == [design.options for design in together]
    assert [d.is_on_front for d in designs] == [d.is_on_front for d in together]


def test_a_design_that_saves_more_than_it_is_slower_is_chosen(monkeypatch):
    def predict(_, fabric):
        return 1.0 if fabric.nics_per_server is None else 1.01

    monkeypatch.setattr(Steps, "step_time_s", predict)
    _, designs = tuned([prepare(Scenario(**{**JOB, "fabrics": ("fat-tree",)}))], Monitor())
    (chosen,) = [design for design in designs if design.is_chosen]
    default = next(design for design in designs if not design.options)
    assert chosen.options["nics_per_server"] < 8
    assert chosen.cluster_cost_usd < default.cluster_cost_usd / 1.01
    assert chosen.step_usd <= min(design.step_usd for design in designs) * (1 + 1e-4)
