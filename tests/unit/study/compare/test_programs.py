"""Programs in place of a model: what is compared, what is refused, and that it repeats."""

import json

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.report.page import render
from lightloom.study.compare import compare
from lightloom.study.compare.program_job import program_of
from lightloom.study.compare.scenario import Scenario


def scenario(model=None, **changes):
    values = {
        "model": model,
        "gpus": 32,
        "fabrics": ("fat-tree", "mixnet"),
        "cluster": {"rate_gbps": 100, "gpu": "a100"},
        "policies": False,
    }
    chosen = {**values, **changes}
    return Scenario(**{name: value for name, value in chosen.items() if value is not None})


@pytest.fixture
def phases(tmp_path):
    array = np.zeros((2, 16, 16), np.int64)
    array[0] = 10**6
    array[1, 0, 8:] = 3 * 10**6
    np.save(tmp_path / "phases.npy", array)
    return tmp_path / "phases.npy"


@pytest.mark.parametrize("name", ["nas-ft-a", "nas-cg-s", "nas-mg-s"])
def test_benchmarks_are_communication_alone(name):
    comparison = compare(scenario(name))
    for result in comparison.results:
        times = result.critical_path_s
        assert times["transfers"] == pytest.approx(result.step_time_s)
        assert result.tokens_per_s is result.mfu is None
    assert comparison.traffic_shares == {"transfers": 1.0}
    assert len(comparison.rows()) == 2  # a sample each: nothing depends on the compute speed
    assert "<svg" in render(comparison)


def test_a_table_of_phases_says_how_many_ranks_there_are(phases):
    comparison = compare(scenario(workload=phases, gpus=None))
    assert comparison.inputs["scenario"]["gpus"] == 16
    more = compare(scenario(workload=phases, gpus=32))
    for few, many in zip(comparison.results, more.results, strict=True):
        assert many.carried_bytes["nvswitch"] == few.carried_bytes["nvswitch"]


def test_what_a_comparison_says_of_itself_repeats_it(phases):
    for made in (scenario("resnet-50+alexnet"), scenario(workload=phases, gpus=None)):
        comparison = compare(made)
        again = compare(Scenario(**json.loads(json.dumps(comparison.inputs["scenario"]))))
        assert [r.step_time_s for r in again.results] == [r.step_time_s for r in comparison.results]


def test_networks_in_turn_take_as_long_as_alone():
    alone = [compare(scenario(name)).results[0].step_time_s for name in ("alexnet", "vgg-16")]
    together = compare(scenario("alexnet+vgg-16")).results[0].step_time_s
    assert together == pytest.approx(sum(alone), rel=1e-6)


def test_one_parameter_server_is_the_slowest_and_rings_are_the_fastest():
    """A server's NICs carry n times a gradient, twice; a ring's two of them."""

    def step_s(synchronization):
        options = {"synchronization": synchronization}
        return compare(scenario("vgg-16", program=options)).results[0].step_time_s

    assert step_s("ring") < step_s("sharded-servers") < step_s("server")


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        ("nas-ft-a", {"gpus": 24}, "use 16 or 32"),
        ("nas-ft-a", {"plan": {"tp": 2}}, "plan.tp .* nas-ft-a has no use for it"),
        ("vgg-16", {"demand": {"source": "skewed"}}, r"demand.source \(--demand\)"),
        ("resnet-50", {"plan": {"ep": 8}}, "plan.ep .* resnet-50 has no use for it"),
        ("vgg-16", {"compute": {"precision": "fp8"}}, "compute.precision"),
        ("nas-ft-a", {"program": {"images_per_gpu": 8}}, "program.images_per_gpu"),
        ("vgg-16", {"gpus": 12}, "fills servers of 8 GPUs"),
        ("vgg-17", {}, "unknown model 'vgg-17'"),
    ],
)
def test_what_a_program_has_no_use_for(model, changes, said):
    with pytest.raises(InputError, match=said):
        compare(scenario(model, **changes))


def test_too_few_ranks_for_a_table(phases):
    with pytest.raises(InputError, match="ranks up to 15"):
        compare(scenario(workload=phases, gpus=8))


def test_models_are_no_programs():
    assert program_of(scenario("mixtral-8x7b")) is None
