"""Frameworks as installed from their packages: a trace has the calls of a real run, one by one.

Minutes each: `make soak` installs the packages that `requirements.txt` pins, and runs them.
"""

import dataclasses
import os
import socket
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent

from lightloom.trace.check import disagreements
from lightloom.trace.record import TracedJob, record

PROGRAMS = Path(__file__).parent / "programs"
SMALL = Path(__file__).parents[2] / "unit/trace/programs"

#: (ranks, device, packages, program and its arguments)
CASES = {
    "fsdp2 with tensor parallelism": (16, "cpu", ["torch"], "fully_sharded"),
    "Mixtral, DDP": (8, "cpu", ["transformers"], "mixture mixtral ddp"),
    "Mixtral, FSDP2": (8, "cpu", ["transformers"], "mixture mixtral fsdp2"),
    "Qwen2-MoE, DDP": (8, "cpu", ["transformers"], "mixture qwen2 ddp"),
    "Qwen2-MoE, FSDP2": (16, "cpu", ["transformers"], "mixture qwen2 fsdp2"),
    "Megatron, dense, interleaved": (
        8, "cuda", ["megatron"], "megatron_gpt --tp 2 --pp 2 --chunks 2 --overlap",
    ),
    "Megatron, experts, all-to-all": (
        8, "cuda", ["megatron"], "megatron_gpt --tp 2 --pp 2 --ep 2 --experts 4 --overlap",
    ),
    "Megatron, experts, all-gather": (
        8, "cuda", ["megatron"],
        "megatron_gpt --tp 2 --ep 4 --experts 8 --dispatcher allgather",
    ),
    "Megatron, experts, interleaved": (
        16, "cuda", ["megatron"],
        "megatron_gpt --tp 2 --pp 2 --ep 2 --experts 4 --chunks 2 --overlap",
    ),
    "Megatron, context parallelism, ring": (
        8, "cuda", ["megatron"], "megatron_gpt --cp 4 --tp 2 --overlap",
    ),
    "Megatron, context parallelism, all-gather": (
        8, "cuda", ["megatron"], "megatron_gpt --cp 2 --tp 2 --pp 2 --cp-type all_gather",
    ),
    "Megatron, context parallelism, all-to-all": (
        8, "cuda", ["megatron"], "megatron_gpt --cp 4 --pp 2 --cp-type a2a",
    ),
    "Megatron, context parallelism, experts": (
        16, "cuda", ["megatron"], "megatron_gpt --cp 2 --pp 2 --ep 4 --experts 8 --overlap",
    ),
    "DeepSpeed, ZeRO-1": (8, "cuda", ["deepspeed"], "deepspeed_moe 1 native"),
    "DeepSpeed, ZeRO-2": (16, "cuda", ["deepspeed"], "deepspeed_moe 2 native"),
    "DeepSpeed, ZeRO-3": (8, "cuda", ["deepspeed", "transformers"], "deepspeed_moe 3 automatic"),
    "torchtitan, DeepSeek-V3": (
        8, "cuda", ["torchtitan"], "torchtitan_deepseek --parallelism.expert_parallel_degree 4 "
        "--parallelism.tensor_parallel_degree 2",
    ),
    "torchtitan, DeepSeek-V3, pipelined": (
        4, "cuda", ["torchtitan"], "torchtitan_deepseek --parallelism.pipeline_parallel_degree 2 "
        "--parallelism.expert_parallel_degree 2",
    ),
}  # fmt: skip

pytestmark = pytest.mark.skipif(
    "LIGHTLOOM_SOAK" not in os.environ, reason="takes minutes: make soak"
)


def command(program):
    name, *arguments = program.split()
    script = (PROGRAMS if (PROGRAMS / f"{name}.py").exists() else SMALL) / f"{name}.py"
    return [PYTHON, str(script), *arguments]


@pytest.mark.parametrize("name", CASES)
def test_a_trace_has_the_calls_of_a_real_run(monkeypatch, name):
    world_size, device, packages, program = CASES[name]
    if missing := absent(*packages):
        pytest.skip(f"not installed: {', '.join(missing)} (make soak)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    job = TracedJob(
        world_size, device=device, skew=0.5, time_limit_s=1800.0, memory_limit_bytes=10**12
    )
    traced = record(command(program), job, range(world_size))
    real = record(command(program), dataclasses.replace(job, real=True), range(world_size))
    assert not disagreements(traced)
    # torchtitan draws weights again until none is too large: chance decides how often it asks
    redrawn = ("setup", "bool") if "torchtitan" in packages else None
    for rank in range(world_size):
        assert shown(traced.ranks[rank], redrawn) == shown(real.ranks[rank], redrawn)


def shown(recorded, redrawn):
    """Calls without what only a trace knows: when they are waited for, whence counts stem."""
    kept = [call for call in recorded.calls if (call.phase, call.dtype) != redrawn]
    return [
        dataclasses.replace(call, call_id=number, routed=None, waited_before=None, waited_at=None)
        for number, call in enumerate(kept)
    ]
