"""Whatever is handed over, the answer is a run or one clear line, never a panic of the core."""

import dataclasses

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.simulate_graphs import direct, graph, mixnet, packet

from lightloom.errors import InputError
from lightloom.simulate import simulate
from lightloom.workload.task_graph import Category, Kind, Program, Scope

HUGE = [0, 1, 10**6, 2**32 - 1, 2**62, 2**64 - 1]
sizes = st.one_of(st.integers(0, 10**7), st.sampled_from(HUGE))
small = st.integers(0, 3)

tasks = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(Kind),
        "category": st.sampled_from([Category.EP, Category.DP, Category.PP, Category.EXPERT]),
        "flags": st.integers(0, 7),
        "duration_ps": sizes,
        "bytes": sizes,
        "local_bytes": sizes,
        "block": small,
        "peer": small,
        "tag": small,
    }
)
anything = st.lists(st.lists(tasks, max_size=8), min_size=2, max_size=2)


@st.composite
def sensible(draw):
    """Two programs in which every send and ring has its counterpart, in an order that works."""
    first, second = [], []
    kinds = [kind for kind in Kind if kind not in (Kind.RECEIVE, Kind.WAIT)]
    for tag in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(kinds))
        task = {**draw(tasks), "kind": kind, "category": Category.EP, "tag": tag}
        task["block"] %= 2
        if kind == Kind.SEND:
            first.append({**task, "peer": 1})
            second.append({**task, "kind": Kind.RECEIVE, "peer": 0})
        elif kind == Kind.RING:
            ring = {**task, "flags": task["flags"] % 3, "peer": 0}
            for program in (first, second):
                program += [ring, {**ring, "kind": Kind.WAIT}]
        else:
            draw(st.sampled_from([first, second])).append(task)
    return [first, second]


def built(rows, tokens, ranks):
    program_list = []
    for row in rows:
        program = Program()
        for task in row:
            program.add(**task)
        program_list.append(program)
    workers = 2 * len(rows)
    scope = Scope("dp", np.array([0, 2, workers], np.uint32), np.arange(workers, dtype=np.uint32))
    made = graph(program_list, members=2, tokens=tokens, scopes=[scope])
    if ranks > 1:
        finer = np.repeat(np.repeat(made.blocks.tokens, ranks, axis=2), ranks, axis=3)
        blocks = dataclasses.replace(
            made.blocks, ranks_per_member=ranks, rank_tokens=np.ascontiguousarray(finer)
        )
        made = dataclasses.replace(made, blocks=blocks)
    return made


rates = st.sampled_from([1, 400_000_000_000, 2**63])
networks = st.one_of(
    st.builds(
        packet,
        st.just(4),
        st.sampled_from(["flat", "rail", "hierarchical"]),
        nics=st.sampled_from([1, 3, 8]),
        rate_bps=rates,
        rail=st.booleans(),
        tor_uplink_bps=st.sampled_from([None, 1, 10**12]),
        servers_per_tor=st.sampled_from([1, 2, 2**32 - 1]),
    ),
    st.builds(
        mixnet,
        st.just(4),
        rate_bps=rates,
        degree=st.sampled_from([0, 1, 6, 2**31]),
        first=st.sampled_from(["reuse", "block"]),
        reconfigure=st.sampled_from(["never", "always", "per-layer", "break-even", "oracle"]),
        fixed_ps=st.sampled_from([0, 10**9, 2**64 - 1]),
        keep_unchanged=st.booleans(),
        allocator=st.sampled_from(["paper", "reference", "static", "greedy", "parametric", "best"]),
    ),
    st.builds(
        direct,
        st.just(4),
        st.just([(0, 1, 1), (1, 2, 2**32 - 1), (2, 3, 1)]),
        st.sampled_from([[(0, 1), (1, 0)], [(0, 1, 2), (2, 1, 0), (0, 1), (1, 0)], [(0, 2)]]),
    ),
)
tokens = st.lists(st.sampled_from([0, 5, 10**6, 2**32 - 1]), min_size=8, max_size=8).map(
    lambda values: np.array(values).reshape(2, 2, 2)
)


def check(rows, tokens, ranks, network):
    """Return whether its refusal is unclear, and whether it ran."""
    try:
        run = simulate(built(rows, tokens, ranks), network)
    except InputError as error:
        return "\n" in str(error) or not str(error), False
    assert sum(run.critical_path_s.values()) == pytest.approx(run.step_time_s)
    assert sum(run.mean_s.values()) == pytest.approx(run.step_time_s)
    return False, True


@settings(max_examples=200, deadline=None)
@given(rows=anything, tokens=tokens, ranks=st.sampled_from([0, 2, 3]), network=networks)
def test_anything_runs_or_is_refused(rows, tokens, ranks, network):
    unclear, _ = check(rows, tokens, ranks, network)
    assert not unclear


@settings(max_examples=400, deadline=None)
@given(rows=sensible(), tokens=tokens, ranks=st.sampled_from([0, 2, 4]), network=networks)
def test_sensible_graphs_with_absurd_numbers(rows, tokens, ranks, network):
    unclear, ran = check(rows, tokens, ranks, network)
    assert not unclear
    event("ran" if ran else "refused")
