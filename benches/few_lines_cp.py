"""Whether a demand of a few lines has a shorter schedule, decided by CP-SAT.

For ``few_lines.py ... cp-sat``; needs ``pip install ortools``. It decides most of what the integer
program leaves open. There is one program per number of slots. The slots of a
schedule may be in any order: here the line with most peers meets them in their order, and of the
slots where it meets the same one the longest comes first. Bytes are whole millionths of the longest
line, rounded up, and all slots may be one longer, so that every schedule remains one; what is found
is checked by ``schedule_of_arrays`` with the true sizes.
The limit is deterministic, in the solver's seconds; how busy the machine is has no part in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from few_lines import RATE_GBPS, SHORTER, Matrix
from ortools.sat.python import cp_model

from lightloom.schedule import schedule_of_arrays

PARTS = 10**6
WORKERS = 4


def program(demand: Matrix, slots: int, holds: int) -> tuple[cp_model.CpModel, Any, Any]:
    """Return the program of so many slots held for so long in all; what is joined, and holds."""
    model = cp_model.CpModel()
    pairs = [tuple(pair) for pair in np.argwhere(demand > 0).tolist()]
    hold = [model.new_int_var(1, int(demand.max()), f"hold {k}") for k in range(slots)]
    joined = {(k, p): model.new_bool_var(f"joined {k} {p}") for k in range(slots) for p in pairs}
    sent = {key: model.new_int_var(0, int(demand[key[1]]), f"sent {key}") for key in joined}
    model.add(sum(hold) <= holds)
    for (k, pair), bytes_ in sent.items():
        model.add(bytes_ <= hold[k])
        model.add(bytes_ <= int(demand[pair]) * joined[k, pair])
    for pair in pairs:
        model.add(sum(sent[k, pair] for k in range(slots)) >= int(demand[pair]))
        model.add_bool_or([joined[k, pair] for k in range(slots)])
    lines = [
        [pair for pair in pairs if pair[axis] == i] for axis in (0, 1) for i in range(len(demand))
    ]
    for own in lines:
        for k in range(slots):
            model.add_at_most_one(joined[k, pair] for pair in own)
            model.add(sum(sent[k, pair] for pair in own) <= hold[k])
    busiest = sorted(max(lines, key=len), key=lambda pair: -demand[pair])
    for k in range(slots - 1):
        met = [
            sum((i - len(busiest)) * joined[k + j, p] for i, p in enumerate(busiest))
            for j in (0, 1)
        ]
        model.add(met[0] <= met[1])
        for pair in busiest:
            both = [joined[k, pair], joined[k + 1, pair]]
            model.add(hold[k] >= hold[k + 1]).only_enforce_if(both)
        idle = [joined[k, pair].negated() for pair in busiest]
        idle += [joined[k + 1, pair].negated() for pair in busiest]
        model.add(hold[k] >= hold[k + 1]).only_enforce_if(idle)
    return model, joined, hold


def shorter_than(demand: Matrix, delay: float, length: float, limit_s: float) -> float | None:
    """Length of a schedule that is shorter, infinity if there is none, nothing if undecided.

    Lengths and the delay are in bytes.
    """
    longest = int(max(demand.sum(axis=0).max(), demand.sum(axis=1).max()))
    parts = -(-demand * PARTS // longest)
    max_peers = max(np.count_nonzero(demand, axis=axis).max() for axis in (0, 1))
    goal = length - SHORTER * longest
    left, undecided = limit_s, False
    for slots in range(int(max_peers), 1 + int((goal - longest) // delay)):
        holds = int((goal - slots * delay) * PARTS / longest) + slots
        model, joined, hold = program(parts, slots, holds)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = WORKERS
        solver.parameters.interleave_search = True
        solver.parameters.max_deterministic_time = max(left, 0.1)
        status = solver.solve(model)
        left -= solver.response_proto.deterministic_time
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            matchings = np.full((slots, len(demand)), -1)
            for (k, (row, column)), is_joined in joined.items():
                if solver.value(is_joined):
                    matchings[k, row] = column
            times = [-(-solver.value(one) * longest // PARTS) for one in hold]
            delay_s = delay * 8 / (RATE_GBPS * 1e9)
            found = schedule_of_arrays(
                demand, matchings, times, delay_s=delay_s, rate_gbps=RATE_GBPS
            )
            return float(found.length_bytes)
        undecided |= status != cp_model.INFEASIBLE
    return None if undecided else float("inf")
