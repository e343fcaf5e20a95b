"""The family whose groups circuits follow: that of the experts' all-to-alls.

Attention may have all-to-alls, too, as Ulysses' context parallelism does for its heads. They come
first in a step, and in a recorded one both have tables of demand.
"""

from __future__ import annotations

from lightloom.workload.task_graph import FIRST, NO_INDEX, Collective, TaskGraph
from lightloom.workload.traffic import all_to_all_bytes


def regional_family(graph: TaskGraph) -> int | None:
    """Find the family of the experts' all-to-alls.

    It is the one whose demand nobody knows before it is reached, or at least one that has a table
    of demand; of several, and of all where there is none, the one whose all-to-alls send most bytes
    between workers.

    Returns
    -------
    int or None
        Index of the family; ``None`` where workers meet in no all-to-all.
    """
    unforeseen, tabled, every = set[int](), set[int](), set[int]()
    for role in graph.roles:
        program = role.program
        between = program.of(Collective.ALL_TO_ALL) & (program.family < len(graph.families))
        of_block = between & (program.demand != NO_INDEX)
        is_first = of_block & ((program.flags & FIRST) != 0)
        for families, tasks in ((unforeseen, is_first), (tabled, of_block), (every, between)):
            families.update(program.family[tasks].tolist())
    ranked = sorted(unforeseen or tabled or every)
    if len(ranked) < 2:
        return ranked[0] if ranked else None
    return max(ranked, key=lambda family: all_to_all_bytes(graph, family))
