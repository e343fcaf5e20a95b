"""Bytes and times of a stage's operations, from plan and options."""

import dataclasses

import pytest
from tests.workload_fakes import FakeCompute, toy_model

from lightloom.parallel import Plan
from lightloom.workload.sizes import times

PLAN = Plan(gpus=8, tp=4, dp=2, cp=1, micro_batches=1, seq_len=128)


class ByTokens(FakeCompute):
    """A gate that takes a microsecond per token of a rank."""

    def gate(self, model, tokens, backward, tp=1):  # noqa: ARG002
        return 1e-6 * tokens / tp


@pytest.mark.parametrize(("sequence_parallel", "tokens"), [(True, 128 / 4), (False, 128)])
def test_a_tp_rank_routes_its_share_of_the_sequence_or_all_of_it(sequence_parallel, tokens):
    plan = dataclasses.replace(PLAN, sequence_parallel=sequence_parallel)
    assert times(toy_model(), plan, ByTokens(), 1.0, backward=False).gate == tokens * 1_000_000
