"""The calibration of a GPU with a device of known speeds in place of one."""

import subprocess
import sys

import pytest

from lightloom.errors import HardwareError
from lightloom.hardware import load_gpu
from lightloom.study.calibration import torch_device
from lightloom.study.calibration.measure import (
    Operation,
    measure,
    median_seconds,
    operations,
    profile_text,
)
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_operators import MEMORY_KINDS, OPERATORS

GPU = load_gpu("h100")


class FakeDevice:
    """Products at half of the peak, copies at three quarters of the memory rate; every 5th run of
    a measurement is disturbed."""

    title = "fake"

    def __init__(self):
        self.measurements = 0
        self.runs = 0

    def prepare(self, operation):
        seconds = operation.flops * operation.parts / (GPU.peak_bf16_flops / 2)
        seconds += operation.size_bytes / (GPU.hbm_bytes_per_s * 0.75)
        return lambda: seconds

    def seconds(self, run, times):
        self.measurements += 1
        self.runs += times
        return times * run() * (100 if self.measurements % 5 == 0 else 1)


def test_every_operator_of_a_profile_is_known_and_sizes_ascend():
    sizes = {}
    for operation in operations():
        assert operation.operator in (*OPERATORS, *MEMORY_KINDS)
        assert bool(operation.flops) != bool(operation.size_bytes)
        sizes.setdefault(operation.operator, []).append(operation.flops)
    assert set(OPERATORS) <= set(sizes)
    assert all(found == sorted(set(found)) for found in sizes.values())


def test_the_median_ignores_a_disturbed_measurement():
    operation = Operation("matmul", (1, 2, 2, 2), flops=1e12)
    assert median_seconds(FakeDevice(), operation, 5) == pytest.approx(
        1e12 / GPU.peak_bf16_flops * 2
    )


def test_short_runs_are_measured_together():
    device = FakeDevice()
    median_seconds(device, Operation("matmul", (1, 2, 2, 2), flops=1e9), 1)
    assert device.runs > 1000


def test_a_profile_of_a_device_gives_its_speeds_to_the_compute_model(tmp_path):
    lines = []
    points = measure(FakeDevice(), GPU, 3, lines.append)
    assert len(lines) == len(list(operations()))
    assert "495 TFLOPS" in lines[0]
    path = tmp_path / "mine.toml"
    path.write_text(profile_text(points, "fake", GPU, "2026-01-01"))
    compute = ComputeModel.load("h100", path)
    assert not compute.efficiencies.assumed & set(OPERATORS)
    assert compute.provenance["matmul"] == "lightloom calibrate gpu on fake, 2026-01-01"
    half = 2e12 / (GPU.peak_bf16_flops / 2) / compute.efficiencies.sustained
    assert compute.kernels.matmul(1e4, 1e4, 1e4).kernel_s == pytest.approx(half, rel=1e-3)
    assert compute.efficiencies.memory["permute"].bandwidth_efficiency == pytest.approx(0.75)


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
