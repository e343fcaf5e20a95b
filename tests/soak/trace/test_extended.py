"""Megatron's pipelines: a step extended to many micro-batches is the one recorded with them.

Item by item: calls, what is computed between them, and what streams and the program wait for.
"""

import os

import pytest
from tests.soak.trace.test_frameworks import command
from tests.torch_python import absent

from lightloom.trace.extend import PLACEHOLDER, check_same, extend, micro_batch_programs
from lightloom.trace.record import TracedJob, record_roles

#: (options, micro-batches that are recorded and extended to)
CASES = {
    "1F1B": ("--tp 2 --pp 4 --overlap", (5, 6, 13)),
    "1F1B, experts": ("--tp 2 --pp 2 --ep 2 --experts 4 --overlap", (3, 4, 9)),
    "interleaved": ("--tp 2 --pp 2 --chunks 2 --overlap", (6, 8, 14)),
    "interleaved, experts": ("--pp 2 --ep 2 --experts 4 --chunks 2 --overlap", (6, 8, 14)),
}

pytestmark = pytest.mark.skipif(
    "LIGHTLOOM_SOAK" not in os.environ, reason="takes minutes: make soak"
)


@pytest.mark.parametrize("name", CASES)
def test_an_extended_step_is_the_one_recorded_in_full(name):
    if missing := absent("megatron"):
        pytest.skip(f"not installed: {', '.join(missing)} (make soak)")
    options, numbers = CASES[name]
    program = command(f"megatron_gpt {options} --micro-batches {PLACEHOLDER}")
    programs = micro_batch_programs(program, numbers)
    traces = record_roles(programs, TracedJob(8, time_limit_s=1800.0, memory_limit_bytes=10**12))
    extended = extend(traces[:2], numbers)
    for rank, recorded in traces[2].ranks.items():
        check_same(extended.ranks[rank], recorded, numbers[-1])
    if "experts" not in name:
        assert extended == traces[2]
