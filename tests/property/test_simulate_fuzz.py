"""Whatever is handed over, the answer is a run or one clear line, never a panic of the core."""

import dataclasses

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.simulate_graphs import Steps, direct, graph, mixnet, packet

from lightloom.errors import InputError
from lightloom.simulate import simulate
from lightloom.workload.categories import StepCategory
from lightloom.workload.task_graph import (
    COLUMNS,
    NO_INDEX,
    Collective,
    GroupFamily,
    Kind,
    Program,
)

HUGE = [0, 1, 10**6, 2**32 - 1, 2**62, 2**64 - 1]
sizes = st.one_of(st.integers(0, 10**7), st.sampled_from(HUGE))
small = st.integers(0, 3)
maybe = st.sampled_from([0, 1, NO_INDEX])

tasks = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(Kind),
        "collective": st.sampled_from(Collective),
        "category": st.sampled_from(
            [StepCategory.EP, StepCategory.DP, StepCategory.PP, StepCategory.EXPERT]
        ),
        "stream": st.sampled_from([0, 0, 1]),
        "priority": st.sampled_from([0, 0, 7]),
        "flags": st.integers(0, 7),
        "family": maybe,
        "peer": small,
        "tag": small,
        "handle": maybe,
        "size": sizes,
        "inside": sizes,
        "demand": st.sampled_from([0, NO_INDEX]),
        "table": maybe,
        "total": maybe,
        "entry": small,
    }
)
anything = st.lists(st.lists(tasks, max_size=8), min_size=2, max_size=2)


@st.composite
def sensible(draw):
    """Two programs in which every send and ring has its counterpart, in an order that works."""
    first, second = [], []
    kinds = [Kind.COMPUTE, Kind.SEND, *Collective]
    plain = {"stream": 0, "family": NO_INDEX, "table": NO_INDEX, "total": NO_INDEX}
    for tag in range(draw(st.integers(0, 6))):
        kind = draw(st.sampled_from(kinds))
        task = {**draw(tasks), **plain, "kind": Kind.COMPUTE, "tag": tag}
        task |= {"category": StepCategory.EP, "handle": NO_INDEX, "demand": NO_INDEX}
        one = draw(st.sampled_from([first, second]))
        if isinstance(kind, Collective):
            task |= {"kind": Kind.COLLECTIVE, "collective": kind, "flags": task["flags"] & 3}
            task["entry"] %= 2
            if kind == Collective.ALL_TO_ALL:
                one.append({**task, "family": 0, "demand": 0, "inside": 0})
                continue
            joined = {**task, "family": 1, "flags": 4, "handle": tag}
            wait = {**joined, "kind": Kind.WAIT}
            for program in (first, second):
                program += [joined, wait]
        elif kind == Kind.SEND:
            first.append({**task, "kind": Kind.SEND, "peer": 1})
            second.append({**task, "kind": Kind.RECEIVE, "peer": 0})
        else:
            one.append(task)
    return [first, second]


def built(rows, tokens, ranks):
    workers = 2 * len(rows)
    ring = GroupFamily.of("dp", [range(2), range(2, workers)])
    made = graph([Steps() for _ in rows], members=2, tokens=tokens, rings=[ring])
    roles = [
        dataclasses.replace(role, program=Program.from_rows([_row(task) for task in tasks]))
        for role, tasks in zip(made.roles, rows, strict=True)
    ]
    made = dataclasses.replace(made, roles=tuple(roles))
    if ranks > 1:
        (demand,) = made.demands
        finer = np.repeat(np.repeat(demand.counts, ranks, axis=2), ranks, axis=3)
        fine = {"ranks_per_member": ranks, "rank_counts": np.ascontiguousarray(finer)}
        made = dataclasses.replace(made, demands=(dataclasses.replace(demand, **fine),))
    return made


def _row(task):
    return tuple(int(task.get(name, 0)) for name in COLUMNS)


rates = st.sampled_from([1, 400_000_000_000, 2**63])
networks = st.one_of(
    st.builds(
        packet,
        st.just(4),
        st.sampled_from(["flat", "rail", "hierarchical"]),
        nics=st.sampled_from([1, 3, 8]),
        rate_bps=rates,
        rails=st.sampled_from([0, 1, 3, 8]),
        tor_uplink_bps=st.sampled_from([None, 1, 10**12]),
        servers_per_tor=st.sampled_from([1, 2, 2**32 - 1]),
    ),
    st.builds(
        mixnet,
        st.just(4),
        rate_bps=rates,
        ports=st.sampled_from([0, 1, 6, 2**31]),
        first=st.sampled_from(["reuse", "block"]),
        when=st.sampled_from(["never", "always", "per-layer", "break-even", "oracle"]),
        fixed_s=st.sampled_from([0, 1e-3, 1e6]),
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


def test_what_follows_after_the_last_instant_is_refused_at_once():
    """Events of the last instant that 64 bits hold once caused others of it for ever."""
    task = {"category": StepCategory.EP, "demand": NO_INDEX, "table": NO_INDEX, "size": 1}
    task |= {"kind": Kind.COLLECTIVE, "collective": Collective.ALL_REDUCE, "family": 1}
    task |= {"flags": 4, "inside": 5759, "tag": 3, "handle": 3, "total": NO_INDEX, "entry": 1}
    joined = [task, {**task, "kind": Kind.WAIT}]
    for_ever = {**task, "kind": Kind.COMPUTE, "size": 2**64 - 1, "handle": NO_INDEX}
    rows = [[for_ever, *joined], joined]
    with pytest.raises(InputError, match="over 53 days of simulated time"):
        simulate(built(rows, np.ones((2, 2, 2), np.int64), 0), mixnet(4))
