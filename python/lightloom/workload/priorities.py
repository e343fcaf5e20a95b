"""Which traffic goes first where several kinds share a link.

Links serve the highest priority alone, and lower ones take what it leaves; flows and packets honor
it. MoNTA (arXiv 2411.00662) puts the all-to-alls of experts before pipeline messages, these before
context parallelism and that before gradients. Where all-to-alls are hidden behind computation, that
delays pipeline messages, which are small and which a whole stage waits for: they go first in the
other order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from lightloom.practice import Priorities
from lightloom.workload.task_graph import Kind, Program, TaskGraph

#: priority by purpose for each order, higher first; what is left out has 0
ORDERS: Mapping[Priorities, Mapping[str, int]] = MappingProxyType(
    {
        "none": {},
        "monta": {"ep": 3, "pp": 2, "cp": 1},
        "pipeline": {"pp": 3, "ep": 2, "cp": 1},
    }
)


def with_priorities(graph: TaskGraph, priorities: Priorities) -> TaskGraph:
    """The same step, whose messages and collectives have the priority of their purpose."""
    order = ORDERS[priorities]
    purposes = [category.purpose for category in graph.categories]
    by_category = np.array([order.get(purpose or "", 0) for purpose in purposes], np.uint8)

    def ordered(program: Program) -> Program:
        sends = (program.kind == Kind.SEND) | (program.kind == Kind.COLLECTIVE)
        priority = np.where(sends, by_category[program.category], program.priority)
        return dataclasses.replace(program, priority=priority)

    roles = (dataclasses.replace(role, program=ordered(role.program)) for role in graph.roles)
    return dataclasses.replace(graph, roles=tuple(roles))
