"""The calibration of a GPU: with a device of known speeds, a replay of one, and a CPU."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent

from lightloom.errors import HardwareError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.study.calibration import torch_device
from lightloom.study.calibration.layers import predicted_layer_s, tried_layers
from lightloom.study.calibration.measure import (
    LARGE,
    condense,
    line_of,
    measure,
    median_seconds,
    profile_text,
    sustained_ratio,
)
from lightloom.study.calibration.operations import Operation, TriedShapes, operations
from lightloom.study.calibration.rows import keep_row, read_rows
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_operators import FP8_OPERATORS, OPERATORS

GPU = load_gpu("h100")
ROOT = Path(__file__).parents[4]
MEASURED = ROOT / "experiments" / "compute-calibration" / "h200_operators.csv"
EVERY = list(operations(TriedShapes(), fp8=True))


class FakeDevice:
    """Products at half of the peak, bytes at three quarters of the memory rate; every 5th run of
    a measurement is disturbed."""

    title = "fake"

    def __init__(self):
        self.measurements = 0
        self.runs = 0

    def prepare(self, operation):
        peak = GPU.peak_flops("fp8" if operation.in_fp8 else "bf16")
        seconds = operation.flops * operation.parts / (peak / 2)
        if not operation.flops:
            seconds = operation.size_bytes / (GPU.hbm_bytes_per_s * 0.75)
        return lambda: seconds

    def seconds(self, run, times):
        self.measurements += 1
        self.runs += times
        return times * run() * (100 if self.measurements % 5 == 0 else 1)


def test_every_operator_of_a_profile_is_measured():
    names = {operation.operator for operation in EVERY}
    plain = {"norm", "add", "permute", "unpermute", "strided"}
    assert set(OPERATORS) <= names
    assert names - plain <= {*OPERATORS, *FP8_OPERATORS, "matmul_dgrad"}
    assert plain <= names
    for operation in EVERY:
        assert bool(operation.flops) == (operation.operator not in plain)


@pytest.mark.parametrize("name", ["llama-3-8b", "qwen3-30b-a3b", "deepseek-v3"])
def test_a_model_is_measured_by_its_own_shapes(name):
    model = load_model(name)
    shapes = TriedShapes.of(model)
    if model.ffn_size:
        assert (model.ffn_size, model.hidden_size) in shapes.linear
    if model.num_moe_layers:
        assert (model.expert_ffn_size, model.expert_hidden) in shapes.experts
        assert max(count for count, _ in shapes.groups) <= model.num_experts
    assert all(shape[1] == model.attention.num_heads for shape in shapes.attention)


def test_the_median_ignores_a_disturbed_measurement():
    operation = Operation("matmul", (2, 2, 2), flops=1e12)
    assert median_seconds(FakeDevice(), operation, 5) == pytest.approx(
        1e12 / GPU.peak_bf16_flops * 2
    )


def test_short_runs_are_measured_together():
    device = FakeDevice()
    median_seconds(device, Operation("matmul", (2, 2, 2), flops=1e9), 1)
    assert device.runs > 1000


def test_a_profile_of_a_device_gives_its_speeds_to_the_compute_model(tmp_path):
    lines = []
    rows = measure(FakeDevice(), EVERY, 3, {}, lambda *row: lines.append(line_of(*row)))
    assert len(lines) == len(EVERY)
    assert "495 TFLOPS" in lines[0]
    found = condense(EVERY, rows, GPU)
    profile = replace(found, launches={"host_s": 9e-6}, sustained=0.8)
    path = tmp_path / "mine.toml"
    path.write_text(profile_text(profile, "fake", GPU, "2026-01-01"))
    compute = ComputeModel.load("h100", path)
    assert not compute.efficiencies.assumed & set(OPERATORS)
    assert compute.provenance["matmul"] == "lightloom calibrate gpu on fake, 2026-01-01"
    assert compute.efficiencies.sustained == 0.8
    assert compute.kernels.launches.host_s == 9e-6
    half = 2e12 / (GPU.peak_bf16_flops / 2) / 0.8
    assert compute.kernels.matmul(1e4, 1e4, 1e4).kernel_s == pytest.approx(half, rel=0.02)
    assert compute.efficiencies.memory["permute"].bandwidth_efficiency == pytest.approx(
        0.75, rel=1e-3
    )
    # five numbers of two bytes for each element of two kernels
    strided = 5 * 2 / (GPU.hbm_bytes_per_s * 0.75) / 2
    assert compute.efficiencies.memory["strided"].element_s == pytest.approx(strided, rel=1e-3)
    assert compute.provenance["strided"] == compute.provenance["matmul"]


def test_heads_of_64_give_the_curve_of_128():
    """Times with a further score for narrow heads condense to the efficiency of wide ones."""
    narrow, wide = ((1, 32, 8, 4096, 64, 64), (1, 32, 8, 4096, 128, 128))
    shapes = TriedShapes(attention=(narrow, wide))
    every = list(operations(shapes, fp8=False))
    compute = ComputeModel.load("h100")
    rows = {}
    for operation in every:
        name, flops = operation.operator, operation.flops
        seconds = flops * operation.parts / (GPU.peak_bf16_flops / 2)
        if not flops:
            seconds = operation.size_bytes / (GPU.hbm_bytes_per_s * 0.75)
        if operation.shape == narrow:
            forward = flops / (2.5 if "backward" in name else 1)
            seconds += forward / 512 * compute.efficiencies.curves[name].score_s
        rows[name, operation.shape] = seconds
    profile = condense(every, rows, GPU)
    for name in ("attention_forward", "attention_backward"):
        assert [efficiency for _, efficiency in profile.curves[name]] == [
            pytest.approx(0.5, rel=1e-9)
        ] * len(profile.curves[name])


def test_a_gpu_that_slows_down_has_a_sustained_factor():
    class Warm(FakeDevice):
        def seconds(self, run, times):
            return times * run() * (1.25 if times * run() > 1 else 1)

    assert sustained_ratio(Warm()) == pytest.approx(0.8)
    assert LARGE.flops == 2.0 * 8192**3


def test_an_interrupted_calibration_goes_on(tmp_path):
    path = tmp_path / "p.rows.csv"
    assert read_rows(path, "one") == {}
    first, *_ = EVERY
    keep_row(path, "one", first, 0.25)
    known = read_rows(path, "one")
    assert known == {(first.operator, first.shape): 0.25}
    told = []
    measure(FakeDevice(), EVERY[:3], 1, known, lambda operation, _: told.append(operation))
    assert told == EVERY[1:3]
    with pytest.raises(HardwareError, match="rows of one, and this is two; remove"):
        read_rows(path, "two")
    path.write_text("# one\noperator,shape,time_s\nmatmul,1x2\n")
    with pytest.raises(HardwareError, match=r"p.rows.csv:3: expected operator,shape,seconds"):
        read_rows(path, "one")


class Replay:
    """The H200 that was measured: what it took for every shape that it ran."""

    NAMES = {  # noqa: RUF012
        "matmul_accumulate": "matmul_wgrad",
        "matmul_fp8": "fp8_matmul_tensorwise",
        "grouped_matmul": "grouped_mm",
        "grouped_matmul_dgrad": "grouped_mm_dgrad",
        "grouped_matmul_wgrad": "grouped_mm_wgrad",
        "grouped_matmul_fp8": "fp8_grouped_mm_rowwise",
        "permute": "permute_gather",
        "unpermute": "unpermute_index_add",
        "norm": "rmsnorm_eager",
        "strided": "swiglu_eager",
    }

    def __init__(self):
        with MEASURED.open() as file:
            rows = csv.DictReader(line for line in file if not line.startswith("#"))
            self.us = {(row["operator"], row["shape"]): float(row["time_us"]) for row in rows}

    def prepare(self, operation):
        name = self.NAMES.get(operation.operator, operation.operator)
        if name.startswith("attention"):
            name = name.replace("latent_", "") + "_cudnn"
        us = self.us[name, "x".join(map(str, operation.shape))]
        return lambda: us * 1e-6

    def seconds(self, run, times):
        return times * run()


def test_a_replay_of_the_h200_predicts_layers_as_its_table_does(tmp_path):
    """The packaged table is fitted to 700 rows, which whole layers confirmed; these are 130."""
    gpu = load_gpu("h200")
    rows = measure(Replay(), EVERY, 1, {}, lambda *_: None)
    path = tmp_path / "h200.toml"
    path.write_text(profile_text(condense(EVERY, rows, gpu), "H200", gpu, "2026-11-27"))
    mine, packaged = (ComputeModel.load("h200", profile) for profile in (path, None))
    names = [*tried_layers(None), *(tried for name in LAYERS for tried in tried_layers(name))]
    for name, seq_len, tokens in names:
        model = load_model(name)
        one, other = (
            predicted_layer_s(compute, model, tokens, seq_len) for compute in (mine, packaged)
        )
        assert one == pytest.approx(other, rel=0.10), name


def test_a_replay_of_the_h200_has_strided_kernels_as_its_table_does():
    """Of two shapes, of which the table is the mean, the replay has the larger."""
    gpu = load_gpu("h200")
    profile = condense(EVERY, measure(Replay(), EVERY, 1, {}, lambda *_: None), gpu)
    packaged = ComputeModel.load("h200").efficiencies.memory["strided"]
    assert profile.element_s == pytest.approx(packaged.element_s, rel=0.10)
    assert profile.memory["strided"] == pytest.approx(packaged.bandwidth_efficiency, rel=0.10)


LAYERS = ("llama-3-70b", "mixtral-8x7b", "deepseek-v3", "gpt-oss-20b")


@pytest.mark.skipif(bool(absent("torch")), reason="no PyTorch: make torch")
def test_everything_runs_on_a_cpu_as_on_a_gpu(tmp_path):
    small = {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64, "head_dim": 8}
    small |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2}
    paths = []
    for name, more in (("llama", {}), ("mixtral", experts)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({"model_type": name, **small, **more}))
        paths.append(str(path))
    code = """
import sys
from lightloom.models import load_model
from lightloom.study.calibration.operations import Operation, product, attention
from lightloom.study.calibration.torch_device import open_device
device = open_device("cpu")
small = [
    *(product(name, (8, 16, 32)) for name in ("matmul", "matmul_dgrad", "matmul_accumulate")),
    *(product(f"grouped_matmul{s}", (2, 8, 16, 32)) for s in ("", "_dgrad", "_wgrad")),
    *(attention(f"attention_{d}", (1, 4, 2, 16, 8, 8)) for d in ("forward", "backward")),
    *(Operation(name, (8, 2, 16), size_bytes=1.0) for name in ("permute", "unpermute")),
    *(Operation(name, (8, 16), size_bytes=1.0) for name in ("norm", "add", "strided")),
]
for operation in small:
    assert device.seconds(device.prepare(operation), 2) > 0, operation
for path in sys.argv[1:]:
    assert device.seconds(device.prepare_layer(load_model(path), 32, 16), 1) > 0
found = device.launches()
assert 0 < found["host_s"] < 1e-2 and found["synchronize_s"] >= 0
print("ran", len(small))
"""
    site = Path(pytest.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'python'}:{site}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [PYTHON, "-c", code, *paths], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.split() == ["ran", "13"], done.stderr


class NoGpu:
    """PyTorch where there is no GPU."""

    class cuda:  # noqa: N801 - the name in PyTorch
        is_available = staticmethod(lambda: False)


def test_no_gpu_is_one_line(monkeypatch):
    monkeypatch.setattr(torch_device.importlib, "import_module", lambda _name: NoGpu)
    with pytest.raises(HardwareError, match="PyTorch finds no CUDA GPU here") as caught:
        torch_device.open_device()
    assert "\n" not in str(caught.value)


def test_no_torch_is_one_line_of_the_command(tmp_path):
    code = (
        "import sys; sys.modules['torch'] = None; from lightloom.cli import run_command; "
        f"sys.exit(run_command('calibrate gpu --gpu h100 --write-profile {tmp_path}/p'.split()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "PyTorch is not installed here" in done.stderr
    assert not (tmp_path / "p").exists()
