"""Frameworks make the calls of real runs, as PyTorch's process groups tell them."""

import os
from pathlib import Path

import pytest
from tests.real_calls import compared
from tests.torch_python import absent

PROGRAMS = Path(__file__).parent / "programs"

#: ranks, packages, and the program
CASES = {
    "Hugging Face's Trainer": (2, ["transformers", "accelerate"], "hugging_face trainer"),
    "accelerate": (2, ["transformers", "accelerate"], "hugging_face accelerate"),
    "Lightning": (2, ["lightning"], "lightning_loop"),
    "DeepSpeed, ZeRO-1": (2, ["deepspeed"], "zero 1"),
    "DeepSpeed, ZeRO-2": (2, ["deepspeed"], "zero 2"),
    "DeepSpeed, ZeRO-3": (2, ["deepspeed"], "zero 3"),
    "Megatron, pipelined": (4, ["megatron"], "megatron_pipeline 2 2"),
}

pytestmark = pytest.mark.skipif(
    "LIGHTLOOM_SOAK" not in os.environ, reason="takes minutes: make soak"
)


@pytest.mark.parametrize("name", CASES)
def test_a_trace_has_the_calls_of_a_real_run(tmp_path, monkeypatch, name):
    ranks, packages, program = CASES[name]
    if missing := absent(*packages):
        pytest.skip(f"not installed: {', '.join(missing)} (make soak)")
    monkeypatch.chdir(tmp_path)  # where frameworks would leave files
    script, *arguments = program.split()
    command = [str(PROGRAMS / f"{script}.py"), *arguments]
    for of_rank in compared(tmp_path, command, ranks, limit_s=600.0)[1]:
        assert [mine for mine, _ in of_rank] == [real for _, real in of_rank]
