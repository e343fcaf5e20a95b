"""What a recorder notes of computation: FLOPs and bytes in closed form, and who waits for whom."""

import csv
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from tests.unit.trace.test_recorder import command

from lightloom.trace.computes import StreamPlace
from lightloom.trace.record import TracedJob, record
from lightloom.trace.step.times import OperatorTimes
from lightloom.workload.compute import ComputeModel

BATCH, TOKENS, WIDTH, LAYERS = 2, 128, 64, 2
ROWS = BATCH * TOKENS

pytestmark = pytest.mark.usefixtures("pytorch")


@pytest.fixture(scope="module")
def recorded():
    return record(command("computed"), TracedJob(8)).ranks[0]


def operators(recorded, phase, layer=None):
    """Sums by kind: operators, kernels, FLOPs and bytes of the second step."""
    sums = {}
    for compute in recorded.computes:
        if compute.step == 1 and compute.phase == phase and layer in (None, compute.layer):
            for kind, _, *numbers in compute.operators:
                sums.setdefault(kind, Counter()).update(dict(enumerate(numbers)))
    return {kind: tuple(row[place] for place in range(4)) for kind, row in sums.items()}


def test_products_and_attention_of_a_layer_forward(recorded):
    totals = operators(recorded, "forward", "1")
    weights = 3 * WIDTH * WIDTH + WIDTH * WIDTH
    states = ROWS * (WIDTH + 3 * WIDTH + WIDTH + WIDTH)
    assert totals["matmul"] == (2, 2, 2 * ROWS * weights, 2 * (weights + states))
    # scores and values, half of them since causal
    flops = 2 * BATCH * TOKENS**2 * (WIDTH + WIDTH) // 2
    assert totals["attention_forward"] == (1, 1, flops, 2 * 4 * ROWS * WIDTH)
    # the norm reads and writes once, the sum reads twice and writes once
    assert totals["elementwise"] == (2, 2, 0, 2 * 5 * ROWS * WIDTH)
    assert operators(recorded, "forward", "0") == totals


def test_the_backward_pass_has_twice_the_products(recorded):
    forward, backward = operators(recorded, "forward"), operators(recorded, "backward")
    assert backward["matmul"][2] == 2 * forward["matmul"][2]
    assert backward["attention_backward"][2] == 2.5 * forward["attention_forward"][2]
    assert {compute.layer for compute in recorded.computes if compute.phase == "backward"} == {""}


def test_what_an_optimizer_does_is_its_own_kind(recorded):
    (kind,) = operators(recorded, "optimizer")
    assert kind == "optimizer"
    parameters = LAYERS * (4 * WIDTH**2 + WIDTH)
    # at least parameters, gradients and two moments in; parameters and two moments out
    assert operators(recorded, "optimizer")[kind][3] > 7 * 2 * parameters


def test_a_model_that_is_built_is_no_part_of_a_step(recorded):
    assert all(compute.phase != "setup" for compute in recorded.computes)


def test_streams_wait_for_each_other(recorded):
    (side,) = {call.stream for call in recorded.calls}
    assert side
    reduced = len(recorded.calls) // 2
    computes = [compute for compute in recorded.computes if compute.step == 0]
    before, after, *_ = recorded.stream_waits
    issued = len([compute for compute in computes if compute.before == 0])
    assert before.until == StreamPlace(0, 0, issued)
    assert before.at == StreamPlace(side, 0, issued)
    assert after.until == StreamPlace(side, reduced, issued)
    assert after.at == StreamPlace(0, reduced, issued)


def test_a_call_is_waited_for_among_computes(recorded):
    first = recorded.calls[0]
    assert first.waited_at == StreamPlace(first.stream, 1, recorded.stream_waits[0].at.computes)


def test_rows_of_tokens_are_known_by_their_choice_of_experts():
    recorded = record(command("expert_parallel"), TracedJob(8, skew=0.7)).ranks[0]
    choices = [
        (call.phase, call.routed)
        for call in recorded.calls
        if call.op == "all_to_all" and call.input_splits and call.step == 1
    ]
    assert all(routed is not None for _, routed in choices)
    forward = [routed for phase, routed in choices if phase == "forward"]
    backward = [routed for phase, routed in choices if phase == "backward"]
    assert backward == forward[::-1]
    # dispatch and combine
    assert set(Counter(forward).values()) == {2}


def test_a_tensor_that_is_given_other_data_is_differentiated():
    """Megatron makes room for one number, and puts a whole tensor there."""
    recorded = record(command("viewless"), TracedJob(2)).ranks[0]
    assert [call.op for call in recorded.calls] == ["all_reduce"] * 2
    assert operators(recorded, "backward")["matmul"][0] == 1


def one_gpu(*words):
    return record([*command("mixed_precision"), *words], TracedJob(1)).ranks[0]


def products(recorded):
    """FLOPs of products by the format that they multiply in, of the second step."""
    flops = Counter()
    for compute in recorded.computes:
        if compute.step == 1:
            for operator in compute.operators:
                if operator.kind == "matmul":
                    flops[operator.dtype] += operator.flops
    return flops


def moved(recorded):
    """Kernels and bytes of element-wise operators of forward and backward, of the second step."""
    found = Counter()
    for phase in ("forward", "backward"):
        row = operators(recorded, phase).get("elementwise", (0, 0, 0, 0))
        found.update(kernels=row[1], bytes=row[3])
    return found


def test_autocast_and_compilation_are_seen_without_data():
    plain, wide, compiled = one_gpu(), one_gpu("wide"), one_gpu("compiled")
    # two layers, two products each, forward and twice backward but for the first input's
    flops = 2 * 256 * 64 * 256 * 2
    assert products(wide) == {"float32": 2 * 3 * flops}
    assert products(plain) == {"bfloat16": 2 * 3 * flops}
    # casts are kernels, of weights once a step
    assert moved(plain)["kernels"] > moved(wide)["kernels"]
    # compilation joins what is element-wise, and leaves products as they are
    assert products(compiled) == products(plain)
    assert moved(compiled)["bytes"] < moved(plain)["bytes"]
    assert moved(compiled)["kernels"] < moved(plain)["kernels"] / 1.5


def moved_by_outputs(*words):
    recorded = record([*command("compiled_outputs"), *words], TracedJob(2)).ranks[0]
    return operators(recorded, "forward")["elementwise"]


def test_what_a_compiled_kernel_makes_is_written_once_anything_else_reads_it():
    size = 4 * 4096
    operator = 2 * size
    # reads once, writes what follows
    assert moved_by_outputs() == (1, 1, 0, 2 * size)
    assert moved_by_outputs("call") == (1, 1, 0, 3 * size)
    assert moved_by_outputs("product") == (1, 1, 0, 3 * size)
    assert moved_by_outputs("eager") == (2, 2, 0, 3 * size + operator)
    assert moved_by_outputs("later")[3] == 3 * size + 2 * operator


def test_formats_under_autocast_of_the_cpu_are_those_of_pytorch(tmp_path):
    run = command("autocast_formats")
    subprocess.run([*run, str(tmp_path / "real")], check=True, capture_output=True)
    job = TracedJob(1, device="cpu", writable=(tmp_path,))
    record([*run, str(tmp_path / "traced")], job)
    formats = (tmp_path / "traced").read_text().splitlines()
    assert formats == (tmp_path / "real").read_text().splitlines()
    assert {"layer_norm torch.bfloat16", "mse_loss torch.float32"} <= set(formats)


def test_formats_under_autocast_of_the_gpu_do_not_depend_on_the_form_of_a_call(tmp_path):
    """As PyTorch's rules dispatch over tensors without data (FakeTensorMode, AutocastCUDA)."""
    job = TracedJob(1, writable=(tmp_path,))
    record([*command("autocast_forms"), str(tmp_path / "traced")], job)
    formats = dict(line.split(": ") for line in (tmp_path / "traced").read_text().splitlines())
    asked = {"format by place", "method, format by place", "format by keyword"}
    assert {name for name, found in formats.items() if found == "torch.float16"} == asked
    assert formats.pop("covariance") == "torch.bfloat16"
    rest = {found for name, found in formats.items() if name not in asked}
    assert rest == {"torch.float32"}


def test_steps_of_a_program_without_calls_are_apart():
    recorded = one_gpu()
    assert not recorded.calls
    steps = {compute.step for compute in recorded.computes}
    assert steps == {0, 1}
    totals = [
        sum(o.flops for c in recorded.computes if c.step == step for o in c.operators)
        for step in (0, 1)
    ]
    assert totals[0] == totals[1] > 0


#: measured one by one on an H200, with the rows of their operators
MEASURED = Path(__file__).parents[3] / "experiments/compute-calibration/h200_operators.csv"
PRODUCTS = ("4096x4096x6144", "4096x4096x14336", "4096x14336x4096")
HEADS = "1x32x8x4096x128x128"
PLAIN = [("rmsnorm_eager", 1), ("add", 2), ("swiglu_eager", 1)]


def measured_us():
    with MEASURED.open(encoding="utf-8") as text:
        rows = csv.DictReader(line for line in text if not line.startswith("#"))
        return {(row["operator"], row["shape"]): float(row["time_us"]) for row in rows}


def test_a_traced_layer_takes_what_its_operators_were_measured_to_take():
    """Measured in short runs: what long ones lose is taken out of the prediction."""
    layer, us = record(command("eager_layer"), TracedJob(1)).ranks[0], measured_us()
    kernels = ComputeModel.load("h200").kernels
    times, predicted_us = OperatorTimes(kernels, kernels.efficiencies.sustained), Counter()
    for compute in layer.computes:
        for op in compute.operators if compute.step == 1 else ():
            predicted_us[compute.phase, op.kind] += 1e6 * times.kernel_seconds(op)
    forward = sum(us["matmul", shape] for shape in PRODUCTS)
    both = sum(us[f"matmul_{way}", shape] for way in ("dgrad", "wgrad") for shape in PRODUCTS)
    assert predicted_us["forward", "matmul"] == pytest.approx(forward, rel=0.05)
    assert predicted_us["backward", "matmul"] == pytest.approx(both, rel=0.05)
    for way in ("forward", "backward"):
        attention = us[f"attention_{way}_cudnn", HEADS]
        assert predicted_us[way, f"attention_{way}"] == pytest.approx(attention, rel=0.1)
    plain = sum(number * us[operator, "4096x4096"] for operator, number in PLAIN)
    whole = forward + us["attention_forward_cudnn", HEADS] + plain
    found = sum(value for (phase, _), value in predicted_us.items() if phase == "forward")
    assert found == pytest.approx(whole, rel=0.05)
