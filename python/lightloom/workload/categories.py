"""Where the time of Megatron's step is charged."""

from __future__ import annotations

from enum import IntEnum

from lightloom.workload.task_graph import Category


class StepCategory(IntEnum):
    """Categories of the step that :func:`~lightloom.workload.build` writes, by index.

    The names in results are these in lower case. ``STRAGGLER`` is the time that the busiest EP rank
    of a server computes longer than the mean rank of its group.
    """

    ATTENTION = 0
    GATE = 1
    EXPERT = 2
    DENSE_FFN = 3
    HEAD = 4
    OPTIMIZER = 5
    TP = 6
    EP = 7
    PP = 8
    DP = 9
    CP = 10
    RECONFIGURATION = 11
    STRAGGLER = 12
    BUBBLE = 13


#: purposes that move bytes, by their names in results
PURPOSES = ("tp", "ep", "pp", "dp", "cp")


def step_categories() -> tuple[Category, ...]:
    """Return the categories in the order of :class:`StepCategory`."""
    used_for = {"reconfiguration": "reconfiguration", "bubble": "idle"}
    used_for |= dict.fromkeys(PURPOSES, "communication")
    names = [category.name.lower() for category in StepCategory]
    return tuple(
        Category(name, used_for.get(name, "compute"), name if name in PURPOSES else None)
        for name in names
    )
