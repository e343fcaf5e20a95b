"""What is recorded is what really runs: the same calls as over gloo, rank by rank, call by call."""

import dataclasses
import json
import socket
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, in_soak

from lightloom.errors import InputError
from lightloom.trace.check import disagreements
from lightloom.trace.extend import extend, micro_batch_programs
from lightloom.trace.record import TracedJob, TraceError, record, record_roles

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM_NAMES = [
    "expert_parallel",
    *(pytest.param(name, marks=in_soak) for name in ("fully_sharded", "pipeline", "recomputed")),
]
pytestmark = pytest.mark.usefixtures("pytorch")


def command(name):
    return [PYTHON, str(PROGRAMS / f"{name}.py")]


def really(monkeypatch, name, world_size, device="cpu", **job):
    """All ranks at once, over gloo, recorded but not replaced."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    traced = TracedJob(world_size, device=device, real=True, memory_limit_bytes=10**12, **job)
    return record(command(name), traced, range(world_size)).ranks


def shown(recorded):
    """Calls without what only a trace knows: when they are waited for, whence counts stem."""
    unknown = {"routed": None, "waited_before": None, "waited_at": None}
    return [dataclasses.replace(call, **unknown) for call in recorded.calls]


@pytest.mark.parametrize("name", PROGRAM_NAMES)
def test_a_trace_has_the_calls_of_a_real_run(monkeypatch, name):
    traced = record(command(name), TracedJob(8, device="cpu", skew=0.7), range(8))
    real = really(monkeypatch, name, 8, skew=0.7)
    assert not disagreements(traced)
    for rank in range(8):
        assert shown(traced.ranks[rank]) == shown(real[rank])
        assert traced.ranks[rank].steps == real[rank].steps > 0


@in_soak
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


@in_soak
def test_a_gpu_that_is_not_there_changes_no_call():
    on_cpu, on_gpu = (
        record(command("fully_sharded"), TracedJob(8, device=device), [5]).ranks[5]
        for device in ("cpu", "cuda")
    )
    kinds = [(call.op, call.ranks, call.shape, call.dtype, call.phase) for call in on_cpu.calls]
    assert kinds == [
        (call.op, call.ranks, call.shape, call.dtype, call.phase) for call in on_gpu.calls
    ]


def test_what_is_computed_once_more_routes_as_before():
    job = TracedJob(8, device="cpu", skew=1.0)
    calls = record(command("recomputed"), job, [1]).ranks[1].calls
    routed = [call for call in calls if call.routed is not None and call.step == 0]
    by_phase = {
        phase: [
            (call.micro_batch, call.layer, call.routed, call.input_splits)
            for call in routed
            if call.phase == phase
        ]
        for phase in ("forward", "backward")
    }
    # two layers of two micro-batches: counts, then tokens; backward the last one is first
    assert [row[:3] for row in by_phase["forward"]] == [
        (0, "first", 0), (0, "first", 0), (0, "second", 1), (0, "second", 1),
        (1, "first", 2), (1, "first", 2), (1, "second", 3), (1, "second", 3),
    ]  # fmt: skip
    assert by_phase["backward"][:2] == by_phase["forward"][6:]
    assert sorted(by_phase["backward"], key=str) == sorted(by_phase["forward"], key=str)
    assert {call.micro_batch for call in calls if call.op == "all_reduce"} == {None}


def test_a_group_without_a_name_is_known_by_what_made_it():
    trace = record(command("recomputed"), TracedJob(8, device="cpu"))
    names = {group.name for group in trace.groups}
    assert names == {"default_pg", "recomputed.<listcomp>:11"}


def log_of(tmp_path, choices):
    """A log as Megatron writes it: (rank, layer) -> the experts of its tokens."""
    for (rank, layer), indices in choices.items():
        line = {
            "step": 0, "stage": "forward", "block": "decoder", "layer": layer, "rank": rank,
            "num_tokens": len(indices), "topk": len(indices[0]), "top_indices": indices,
        }  # fmt: skip
        with (tmp_path / f"{rank}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")
    return tmp_path


def test_experts_are_loaded_as_in_a_log(tmp_path):
    choices = {(0, 0): [[0, 1]], (0, 1): [[6, 7]], (1, 0): [[0, 1]], (1, 1): [[2, 3], [2, 7]]}
    job = TracedJob(8, device="cpu", routing=log_of(tmp_path, choices))
    trace = record(command("recomputed"), job, range(8))
    assert not disagreements(trace)
    for rank in (0, 5):
        splits = {
            call.layer: call.input_splits
            for call in trace.ranks[rank].calls
            if call.op == "all_to_all" and call.input_splits
        }
        # of 64 token copies half go to expert 2, a quarter to 3 and to 7
        assert splits["first"] == (64, 0, 0, 0)
        assert splits["second"] == ((0, 48, 0, 16) if rank % 2 else (0, 0, 0, 64))


def test_a_log_that_no_gate_can_follow_is_refused(tmp_path):
    job = TracedJob(8, device="cpu", routing=log_of(tmp_path, {(0, 0): [[0, 2]]}))
    with pytest.raises(TraceError, match="no gate of the program chooses among as many experts"):
        record(command("recomputed"), job)


@in_soak
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


HEARS = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank = dist.get_rank()
for root in (0, 2, 1):
    said = torch.tensor([rank + 10])
    if rank == root:
        time.sleep(0.5)
    dist.broadcast(said, root)
    dist.all_reduce(torch.ones(said.item()))
weight = torch.nn.Parameter(torch.ones(3))
torch.nn.Linear(3, 3)(weight).sum().backward()
torch.optim.SGD([weight], lr=0.1).step()
assert not os.read(0, 1), "asks for what is to be recorded are not the program's"
"""


@in_soak
def test_ranks_side_by_side_hear_those_before_them(tmp_path):
    """As they would one after the other, whichever is done first."""
    script = tmp_path / "hears.py"
    script.write_text(HEARS)
    single, three = (
        record([PYTHON, str(script)], TracedJob(4, device="cpu", processes=number), range(3))
        for number in (1, 3)
    )
    assert single == three
    heard = [[call.shape[0] for call in single.ranks[rank].calls[1::2]] for rank in range(3)]
    # rank 1 says what only rank 2 is after to hear; what rank 2 says nobody is
    assert heard == [[10, 10, 10], [10, 11, 11], [10, 12, 11]]


def test_a_rank_that_fails_ends_those_beside_it(tmp_path):
    script = tmp_path / "fails.py"
    text = "import os, time\nif os.environ['RANK'] == '1': raise ValueError('early')\n"
    script.write_text(text + "time.sleep(600)")
    job = TracedJob(4, device="cpu", processes=3, time_limit_s=300)
    with pytest.raises(TraceError, match=r"^rank 1 failed: ValueError: early"):
        record([PYTHON, str(script)], job, range(3))


MICRO_BATCHES = """
import sys, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
layer = nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(2):
    handles = []
    for number in range(int(sys.argv[1])):
        layer(torch.randn(4, 16)).sum().backward()
        handles.append(dist.all_reduce(layer.weight.grad, async_op=True))
        if number > 1:
            handles.pop(0).wait()
    for handle in handles:
        handle.wait()
    dist.all_reduce(layer.bias.grad)
    optimizer.step()
"""


def test_a_step_is_extended_to_what_it_would_be_in_full(tmp_path):
    script = tmp_path / "accumulates.py"
    script.write_text(MICRO_BATCHES)
    numbers = (4, 5, 6, 12)
    programs = micro_batch_programs([PYTHON, str(script), "{micro_batches}"], numbers)
    traces = record_roles(programs, TracedJob(4, device="cpu"))
    assert extend(traces[:-1], numbers) == traces[-1]
