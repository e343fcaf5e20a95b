"""Task graphs of several jobs as one, in which they share the network and nothing else.

A job trains step after step, so that its graph is first repeated: every worker begins a step when
all its streams have ended the one before. Marks say when that was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.units import to_ps
from lightloom.workload.task_graph import (
    DEFAULTS,
    NO_INDEX,
    NONE,
    Category,
    DemandTable,
    GroupFamily,
    Ints32,
    Kind,
    Program,
    Role,
    TaskGraph,
    WorkerTable,
)

#: categories of the marks, and of the wait before the first step
END_OF_STEP, BEFORE = "end of step", "before the first step"
#: time that a mark takes, ps
MARK_PS = 1
#: programs of so many tasks are too long to be repeated
MAX_TASKS = 20_000_000


def repeated(graph: TaskGraph, steps: int, start_s: float = 0.0) -> TaskGraph:
    """Return a graph of several steps, each with a mark at its end.

    Parameters
    ----------
    graph
        One step.
    steps
        How many times it is done. They are equal, but for their micro-batches, which go on being
        counted.
    start_s
        Time for which all workers wait before the first.

    Raises
    ------
    InputError
        If the programs would be too long.
    """
    tasks = steps * sum(len(role.program) for role in graph.roles)
    if tasks > MAX_TASKS:
        raise InputError(
            f"{steps} steps have {tasks:,} tasks: expected at most {MAX_TASKS:,}; use fewer"
            " micro-batches"
        )
    categories = (*graph.categories, Category(END_OF_STEP), Category(BEFORE))
    programs = [role.program for role in graph.roles]
    batches = [p.micro_batch[p.micro_batch != NONE] for p in programs]
    strides = _Strides(
        tag=1 + max((int(p.tag.max()) for p in programs if len(p)), default=0),
        micro_batch=1 + max((int(b.max()) for b in batches if b.size), default=0),
        mark=len(graph.categories),
    )
    start_ps = to_ps(start_s)
    roles = [
        dataclasses.replace(role, program=_repeated(role.program, steps, strides, start_ps))
        for role in graph.roles
    ]
    return dataclasses.replace(graph, categories=categories, roles=tuple(roles))


@dataclasses.dataclass(frozen=True)
class _Strides:
    """What numbers of a step grow by in the next one, and the category of marks."""

    tag: int
    micro_batch: int
    mark: int


def _repeated(program: Program, steps: int, strides: _Strides, start_ps: int) -> Program:
    """The tasks of several steps after a wait; handles are numbered anew."""
    named = program.handle != NO_INDEX
    names, places = np.unique(program.handle[named], return_inverse=True)
    own = program.handle.copy()
    own[named] = places
    streams = [int(stream) for stream in np.unique(program.stream) if stream]
    # a handle for each join at the end and each fork after it
    handles = len(names) + 2 * len(streams)
    parts: list[Program] = []
    if start_ps:
        fork = _fork(streams, steps * handles, strides.mark)
        wait = _row(kind=Kind.COMPUTE, category=strides.mark + 1, size=start_ps)
        parts.append(Program.from_rows([wait, *fork]))
    for step in range(steps):
        handle, batch = own.copy(), program.micro_batch.copy()
        handle[named] += np.uint32(step * handles)
        is_numbered = batch != NONE
        # after so many they begin again
        later = batch[is_numbered].astype(np.int64) + step * strides.micro_batch
        batch[is_numbered] = (later % NONE).astype(np.uint16)
        tag = program.tag + np.uint32(step * strides.tag)
        parts.append(dataclasses.replace(program, handle=handle, micro_batch=batch, tag=tag))
        first = step * handles + len(names)
        is_last = step == steps - 1
        parts.append(Program.from_rows(list(_end(streams, first, strides.mark, is_last=is_last))))
    return Program.joined(parts)


def _end(streams: Sequence[int], first: int, mark: int, *, is_last: bool) -> Iterator[list[int]]:
    """The tasks that end a step: the main stream waits for the others, marks, lets them go on."""
    for number, stream in enumerate(streams):
        yield _row(kind=Kind.COMPUTE, category=mark, stream=stream, handle=first + number)
        yield _row(kind=Kind.WAIT, category=mark, handle=first + number)
    yield _row(kind=Kind.COMPUTE, category=mark, size=MARK_PS)
    if not is_last:
        yield from _fork(streams, first + len(streams), mark)


def _fork(streams: Sequence[int], first: int, mark: int) -> Iterator[list[int]]:
    """The tasks by which other streams wait for the main one."""
    for handle, stream in enumerate(streams, first):
        yield _row(kind=Kind.COMPUTE, category=mark, handle=handle)
        yield _row(kind=Kind.WAIT, category=mark, stream=stream, handle=handle)


def _row(**values: int) -> list[int]:
    """A task that says nothing but these."""
    return [int(values.get(name, default)) for name, default in DEFAULTS.items()]


def side_by_side(
    graphs: Sequence[TaskGraph], servers: Sequence[npt.NDArray[np.int64]]
) -> TaskGraph:
    """Put jobs on a cluster, each on servers of its own.

    Parameters
    ----------
    graphs
        A job each; their workers have equally many GPUs.
    servers
        For each job the servers of the cluster that stand for its own, ``(servers of the job,)``.

    Returns
    -------
    TaskGraph
        One graph; its roles are those of the jobs, one job after another.

    Raises
    ------
    InputError
        If the workers of jobs have different numbers of GPUs.
    """
    sizes = {graph.gpus_per_worker for graph in graphs}
    if len(sizes) > 1:
        counts = " and ".join(str(size) for size in sorted(sizes))
        raise InputError(
            f"jobs divide servers into groups of {counts} GPUs: expected the same of all; choose"
            " TP and EP that fill servers"
        )
    merge = _Merge(graphs)
    roles: list[Role] = []
    tables: list[WorkerTable] = []
    for number in range(len(graphs)):
        roles += merge.roles(number, len(roles))
        tables += merge.tables(number)
    worker_server = [place[g.worker_server] for g, place in zip(graphs, servers, strict=True)]
    return TaskGraph(
        gpus_per_worker=graphs[0].gpus_per_worker,
        worker_server=np.concatenate(worker_server).astype(np.uint32),
        categories=tuple(merge.categories),
        roles=tuple(roles),
        regional_family=merge.regional,
        families=tuple(merge.families),
        demands=tuple(merge.demands()),
        tables=tuple(tables),
    )


class _Merge:
    """Numbers of the parts of each graph in the merged one."""

    def __init__(self, graphs: Sequence[TaskGraph]) -> None:
        self._graphs = graphs
        counts = [len(graph.worker_server) for graph in graphs]
        self._first_worker = np.cumsum([0, *counts])
        self._first_demand = np.cumsum([0, *(len(graph.demands) for graph in graphs)])
        self._first_table = np.cumsum([0, *(len(graph.tables) for graph in graphs)])
        self.categories: list[Category] = []
        self._category = [self._categories_of(graph) for graph in graphs]
        self.families: list[GroupFamily] = []
        self._family: list[npt.NDArray[np.uint32]] = []
        #: the first regional group of each graph among all
        self._first_group: list[int] = []
        self.regional = self._merge_families()

    def _categories_of(self, graph: TaskGraph) -> npt.NDArray[np.uint8]:
        """Where each category of a graph is: two of a name are one if they are equal."""
        places = []
        for category in graph.categories:
            named = category
            while named not in self.categories and any(
                named.name == other.name for other in self.categories
            ):
                named = dataclasses.replace(named, name=f"{named.name}'")
            if named not in self.categories:
                self.categories.append(named)
            places.append(self.categories.index(named))
        if len(self.categories) > np.iinfo(np.uint8).max:
            raise InputError("jobs have too many categories of time together: expected 255")
        return np.array(places, np.uint8)

    def _merge_families(self) -> int | None:
        """Join the families that circuits follow to one; all others stay apart."""
        regional: list[Ints32] = []
        has_regional = any(graph.regional_family is not None for graph in self._graphs)
        if has_regional:
            self.families.append(GroupFamily.of("experts", []))
        for graph, first in zip(self._graphs, self._first_worker, strict=False):
            places = []
            self._first_group.append(len(regional))
            for number, family in enumerate(graph.families):
                workers = (family.workers + np.uint32(first)).astype(np.uint32)
                moved = dataclasses.replace(family, workers=workers)
                if number == graph.regional_family:
                    regional += moved.groups()
                    places.append(0)
                else:
                    places.append(len(self.families))
                    self.families.append(moved)
            self._family.append(np.array(places, np.uint32))
        if not has_regional:
            return None
        self.families[0] = GroupFamily.of("experts", regional)
        return 0

    def roles(self, number: int, first_role: int) -> Iterator[Role]:
        """The roles of a graph."""
        graph = self._graphs[number]
        for role in graph.roles:
            p = role.program
            to_role = ((p.kind == Kind.SEND) | (p.kind == Kind.RECEIVE)) & (p.family == NO_INDEX)
            program = dataclasses.replace(
                p,
                category=self._category[number][p.category],
                family=_moved(p.family, lambda used: self._family[number][used]),
                peer=np.where(to_role, p.peer + np.uint32(first_role), p.peer),
                demand=_shifted(p.demand, self._first_demand[number]),
                table=_shifted(p.table, self._first_table[number]),
                total=_shifted(p.total, self._first_table[number]),
            )
            workers = (role.workers + np.uint32(self._first_worker[number])).astype(np.uint32)
            yield Role(f"job {number} {role.name}", workers, program)

    def demands(self) -> Iterator[DemandTable]:
        """The tables of demand of all graphs."""
        for number, graph in enumerate(self._graphs):
            for demand in graph.demands:
                is_regional = demand.family == graph.regional_family
                shift = self._first_group[number] if is_regional else 0
                yield dataclasses.replace(
                    demand,
                    name=f"job {number} {demand.name}",
                    family=int(self._family[number][demand.family]),
                    first_group=demand.first_group + shift,
                )

    def tables(self, number: int) -> Iterator[WorkerTable]:
        """The tables of a graph, with nothing for workers of other jobs."""
        first, end = self._first_worker[number : number + 2]
        for table in self._graphs[number].tables:
            values = np.zeros((int(self._first_worker[-1]), table.entries), np.uint64)
            values[first:end] = table.values
            yield WorkerTable(f"job {number} {table.name}", table.entries, values)


def _moved(indices: Ints32, move: Callable[[Ints32], Ints32]) -> Ints32:
    """Indices that are given, moved; the others stay none."""
    moved = indices.copy()
    is_given = indices != NO_INDEX
    moved[is_given] = move(indices[is_given])
    return moved


def _shifted(indices: Ints32, by: int) -> Ints32:
    return _moved(indices, lambda given: (given + np.uint32(by)).astype(np.uint32))
