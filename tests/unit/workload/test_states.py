"""What data-parallel ranks share out: bytes by stage of ZeRO, the order of gathers, the step."""

import dataclasses
import random

import pytest

from lightloom.demand import open_demand
from lightloom.errors import InputError, PlanError
from lightloom.fabric import Cluster, load_fabric
from lightloom.fabric.context import job_context
from lightloom.models import load_model
from lightloom.parallel import MemoryOptions, Plan, memory_per_stage
from lightloom.simulate import simulate
from lightloom.workload.build import build
from lightloom.workload.compute import ComputeModel
from lightloom.workload.options import WorkloadOptions
from lightloom.workload.task_graph import Collective
from lightloom.workload.tokens import demand_shape

MODEL = dataclasses.replace(load_model("olmoe-1b-7b"), moe_layers=(True,) * 4, vocab_size=8000)
COMPUTE = ComputeModel.load("h100")
LEVELS = ("states", "gradients", "parameters")


def step(plan, sharded, model=MODEL):
    options = WorkloadOptions(sharded=sharded)
    demand = open_demand("balanced", demand_shape(model, plan), seed=1)
    return build(model, plan, demand=demand, compute=COMPUTE, options=options)


def seconds(workload, rate_gbps=400):
    cluster = Cluster.of(gpus=workload.plan.gpus, rate_gbps=rate_gbps, gpu="h100")
    network = load_fabric("fat-tree").network(cluster, job_context([workload.graph]))
    return simulate(workload.graph, network).step_time_s


def plans(count):
    """Random plans of a few layers; ``build`` itself asserts that their bytes are as implied."""
    draw = random.Random(2)
    while count:
        tp, pp, ep = draw.choice([1, 2, 4]), draw.choice([1, 2, 4]), draw.choice([1, 2, 4, 8])
        vpp = draw.choice([1, 2]) if pp == 2 else 1
        values = {
            "tp": tp, "pp": pp, "ep": ep, "vpp": vpp, "zero1": True, "seq_len": 512,
            "micro_batches": pp * draw.choice([1, 2, 3]),
            "overlap_parameters": draw.random() < 0.7, "overlap_gradients": draw.random() < 0.7,
            "overlap_all_to_all": draw.choice(["none", "none", "batch"]),
        }  # fmt: skip
        try:
            yield Plan(gpus=16 * tp * pp, dp=max(1, 16 // ep), **values)
        except PlanError:
            continue
        count -= 1


def test_bytes_are_those_of_each_level():
    tried = 0
    for plan in plans(12):
        sent = []
        for level in LEVELS:
            try:
                made = step(plan, level)
            except PlanError:  # nothing to alternate with, or no groups on servers
                break
            assert made.traffic["dp"].total_bytes == pytest.approx(
                made.expected_bytes["dp"], rel=1e-5
            )
            sent.append(made.traffic["dp"].total_bytes)
        if len(sent) == len(LEVELS):
            tried += 1
            one, two, three = sent
            count = plan.micro_batches
            gradients, parameters = 4.0, 2.0
            # reductions of each micro-batch, where ZeRO-1 has one
            assert two / one == pytest.approx(
                (count * gradients + parameters) / (gradients + parameters), rel=1e-4
            )
            assert two < three + one
            assert three / one < count * (gradients + 2 * parameters) / (gradients + parameters)
    assert tried > 6


def test_one_micro_batch_reduces_as_much_with_any_level():
    plan = Plan(gpus=16, dp=16, zero1=True, micro_batches=1, seq_len=512)
    one, two, _ = (step(plan, level) for level in LEVELS)
    assert one.traffic["dp"] == two.traffic["dp"]
    assert seconds(one) == pytest.approx(seconds(two), rel=1e-6)


def test_without_zero_nothing_is_shared_out():
    plan = Plan(gpus=16, dp=16, micro_batches=2, seq_len=512)
    assert len({seconds(step(plan, level)) for level in LEVELS}) == 1


def gathers(plan):
    """Layers that one stage gathers, and those that it awaits, in order."""
    program = step(plan, "parameters").graph.roles[0].program
    is_gather = program.of(Collective.ALL_GATHER)
    return program.layer[is_gather].tolist()


def test_each_pass_gathers_the_next_layer():
    """Forward in order, backward in reverse; dense layers and experts both."""
    plan = Plan(gpus=16, ep=2, dp=8, zero1=True, micro_batches=2, seq_len=512)
    absent = 65535
    forward = [absent, *(layer for layer in range(4) for _ in range(2)), absent]
    backward = [absent, *(layer for layer in range(3, -1, -1) for _ in range(2))]
    assert gathers(plan) == 2 * [*forward, *backward]


def test_gathering_ahead_is_no_slower():
    plan = Plan(gpus=32, dp=32, zero1=True, micro_batches=2, seq_len=2048)
    ahead = dataclasses.replace(plan, overlap_parameters=True)
    times = [seconds(step(each, "parameters"), 100) for each in (ahead, plan)]
    assert times[0] < times[1]


def test_more_levels_take_no_less_time_and_no_more_memory():
    plan = Plan(
        gpus=32, ep=8, dp=4, zero1=True, micro_batches=4, seq_len=2048, overlap_parameters=True
    )
    times = [seconds(step(plan, level), 100) for level in LEVELS]
    assert times == sorted(times)
    assert times[2] > times[0]


def test_memory_never_rises_with_the_level():
    """States; what a layer needs while it is gathered is small where there are many layers."""
    model = load_model("qwen3-30b-a3b")
    draw = random.Random(3)
    for _ in range(60):
        ep, dp = draw.choice([1, 2, 4, 8]), draw.choice([2, 4, 8])
        plan = Plan(gpus=ep * dp, ep=ep, dp=dp, zero1=draw.random() < 0.8, micro_batches=2)
        of = [
            sum(
                part
                for stage in memory_per_stage(model, plan, MemoryOptions(sharded=level))
                for part in (stage.parameters_bytes, stage.gradients_bytes, stage.optimizer_bytes)
            )
            for level in LEVELS
        ]
        assert of == sorted(of, reverse=True)
        totals = [
            memory_per_stage(model, plan, MemoryOptions(sharded=level))[0].total_bytes
            for level in LEVELS
        ]
        assert totals == sorted(totals, reverse=True)


def test_two_ends_of_a_pipeline_cannot_share_gradients():
    plan = Plan(gpus=8, pp=4, dp=2, zero1=True, micro_batches=8, schedule="dualpipe", seq_len=512)
    with pytest.raises(PlanError, match="sharded gradients with schedule dualpipe: the two places"):
        step(plan, "gradients")
    with pytest.raises(InputError, match="sharded = 'all': expected"):
        WorkloadOptions(sharded="all")
