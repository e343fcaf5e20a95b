"""What is recorded is what really runs: the same calls as over gloo, rank by rank, call by call."""

import dataclasses
import socket
from pathlib import Path

import pytest
from tests.torch_python import PYTHON

from lightloom.errors import InputError
from lightloom.trace.check import disagreements
from lightloom.trace.record import TracedJob, record

PROGRAMS = Path(__file__).parent / "programs"
pytestmark = pytest.mark.usefixtures("pytorch")


def command(name):
    return [PYTHON, str(PROGRAMS / f"{name}.py")]


def really(monkeypatch, name, world_size, device="cpu", **job):
    """All ranks at once, over gloo, recorded but not replaced."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    made = TracedJob(world_size, device=device, real=True, memory_limit_bytes=10**12, **job)
    return record(command(name), made, range(world_size)).ranks


def shown(recorded):
    """Calls without what only a trace knows: when they are waited for, whence counts stem."""
    unknown = {"routed": None, "waited_before": None, "waited_at": None}
    return [dataclasses.replace(call, **unknown) for call in recorded.calls]


@pytest.mark.parametrize("name", ["expert_parallel", "fully_sharded", "pipeline"])
def test_a_trace_has_the_calls_of_a_real_run(monkeypatch, name):
    traced = record(command(name), TracedJob(8, device="cpu", skew=0.7), range(8))
    real = really(monkeypatch, name, 8, skew=0.7)
    assert not disagreements(traced)
    for rank in range(8):
        assert shown(traced.ranks[rank]) == shown(real[rank])
        assert traced.ranks[rank].steps == real[rank].steps == 2


def test_layers_of_transformer_engine_compute_and_communicate(monkeypatch):
    traced = record(command("transformer_engine_layers"), TracedJob(4), range(4))
    # in a real run the program compares its values with those of layers that are not split
    real = really(monkeypatch, "transformer_engine_layers", 4, device="cuda")
    assert not disagreements(traced)
    for rank in range(4):
        assert shown(traced.ranks[rank]) == shown(real[rank])
    assert "transformer_engine" in traced.ranks[0].stubs
    messages = [call for call in traced.ranks[1].calls if call.op == "send"]
    # keys and values go around; then back, with their gradients behind them
    assert [(call.peer, call.shape) for call in messages[:7]] == [
        (2, (512,)), (2, (512,)), (2, (512,)),
        (0, (512,)), (0, (2, 512)), (0, (2, 512)), (0, (512,)),
    ]  # fmt: skip


def test_a_gpu_that_is_not_there_changes_no_call():
    on_cpu, on_gpu = (
        record(command("fully_sharded"), TracedJob(8, device=device), [5]).ranks[5]
        for device in ("cpu", "cuda")
    )
    kinds = [(call.op, call.ranks, call.shape, call.dtype, call.phase) for call in on_cpu.calls]
    assert kinds == [
        (call.op, call.ranks, call.shape, call.dtype, call.phase) for call in on_gpu.calls
    ]


def test_the_same_program_has_the_same_trace():
    first, again = (
        record(command("expert_parallel"), TracedJob(8, device="cpu", skew=1.0)) for _ in "ab"
    )
    assert first.calls_hash == again.calls_hash
    other = record(command("expert_parallel"), TracedJob(8, device="cpu", skew=1.0, seed=1))
    assert other.calls_hash != first.calls_hash


def test_a_waited_call_is_known():
    calls = record(command("pipeline"), TracedJob(8, device="cpu")).ranks[0].calls
    late = [call for call in calls if call.op == "all_reduce"]
    assert all(call.asynchronous for call in late)
    # two reductions and a gather are pending before the first is waited for
    assert [call.waited_before - call.call_id for call in late[:2]] == [3, 2]


def test_ranks_beyond_the_job_are_refused():
    with pytest.raises(InputError, match="expected 0 to 7"):
        record(command("pipeline"), TracedJob(8), [8])
