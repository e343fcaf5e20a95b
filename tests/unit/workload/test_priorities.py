"""Priorities of traffic, and gradients of experts that are reduced early."""

import numpy as np
import pytest
from tests.simulate_graphs import packet
from tests.workload_fakes import FakeCompute, build_toy, programs, tasks, toy_model

from lightloom.errors import InputError, PlanError
from lightloom.parallel import Plan
from lightloom.simulate import simulate
from lightloom.workload import WorkloadOptions
from lightloom.workload.priorities import ORDERS, with_priorities
from lightloom.workload.task_graph import COLUMNS, Collective, Kind

PLAN = Plan(gpus=64, tp=2, pp=2, cp=2, dp=2, ep=4, micro_batches=3, seq_len=128)
MODEL = toy_model(moe_layers=(True, False, True, True))


def toy(plan=PLAN, **options):
    compute = FakeCompute(attention_s=2e-6, per_copy_s=1e-9, per_parameter_s=1e-12)
    return build_toy(plan, MODEL, compute, options=WorkloadOptions(**options))


def rows(graph, *, without=()):
    """All tasks of each program, without some columns, in any order."""
    kept = [name for name in COLUMNS if name not in without]
    return [
        sorted(tuple(task[name] for name in kept) for task in tasks(it)) for it in programs(graph)
    ]


@pytest.mark.parametrize("order", ["monta", "pipeline"])
def test_what_is_sent_has_the_priority_of_its_purpose(order):
    graph = toy(priorities=order).graph
    seen = set()
    for program in programs(graph):
        for kind, category, priority in zip(
            program.kind, program.category, program.priority, strict=True
        ):
            purpose = graph.categories[category].purpose
            sends = kind in {Kind.SEND, Kind.COLLECTIVE}
            assert priority == (ORDERS[order].get(purpose, 0) if sends else 0)
            seen.add((purpose, priority) if sends else None)
    assert {purpose for purpose, _ in seen - {None}} == {"tp", "ep", "pp", "dp", "cp"}
    assert rows(with_priorities(graph, "none")) == rows(toy().graph)


def test_an_unknown_order_is_refused():
    with pytest.raises(
        InputError, match=r"^priorities = 'mont': expected .*; did you mean 'monta'"
    ):
        WorkloadOptions(priorities="mont")


@pytest.mark.parametrize("overlap", ["none", "chunks", "batch"])
def test_gradients_of_experts_start_before_their_all_to_all_ends(overlap):
    plan = Plan(
        gpus=32, tp=2, pp=2, dp=2, ep=4, vpp=2, micro_batches=4, seq_len=128,
        overlap_all_to_all=overlap,
    )  # fmt: skip
    late, early = toy(plan).graph, toy(plan, early_gradients=True).graph
    assert rows(late, without=["handle"]) == rows(early, without=["handle"])
    for of_late, of_early in zip(_between(late), _between(early), strict=True):
        assert of_late
        assert all("attention" in names for names in of_late)
        assert not any("attention" in names for names in of_early)


def _between(graph):
    """What is computed of a layer between its experts and the reduction of their gradients."""
    experts = [family.name for family in graph.families].index("dp-expert")
    names = [category.name for category in graph.categories]
    for program in programs(graph):
        found = []
        is_ring = program.of(Collective.REDUCE_SCATTER) | program.of(Collective.ALL_REDUCE)
        for place in np.flatnonzero(is_ring & (program.family == experts)):
            same = np.flatnonzero(program.layer[:place] == program.layer[place])
            computed = [names[program.category[task]] for task in same]
            last = max(task for task, name in enumerate(computed) if name == "expert")
            found.append(set(computed[last:]))
        yield found


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"overlap_gradients": False}, "early-gradients without overlap-gradients"),
        ({"schedule": "zero-bubble", "pp": 2, "dp": 2}, "with schedule zero-bubble"),
    ],
)
def test_early_gradients_that_would_have_no_effect_are_refused(changes, message):
    known = {"gpus": 32, "tp": 2, "dp": 4, "ep": 4, "micro_batches": 2, "seq_len": 128}
    with pytest.raises(PlanError, match=message):
        toy(Plan(**known | changes), early_gradients=True)


@pytest.mark.parametrize("order", ["monta", "pipeline"])
def test_priorities_move_no_bytes_and_all_links_carry_what_they_did(order):
    runs = [simulate(toy(priorities=it).graph, packet(8, "hierarchical")) for it in ("none", order)]
    assert runs[0].purpose_bytes == runs[1].purpose_bytes
    assert runs[0].carried_bytes == runs[1].carried_bytes
    assert runs[0].run_hash != runs[1].run_hash
