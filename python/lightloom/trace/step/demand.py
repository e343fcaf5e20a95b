"""What the members of groups send each other: rows of all-to-alls, as recorded or drawn anew.

All-to-alls whose rows stem from one choice of experts share a *block* of demand: dispatch sends it,
combine sends it back, and so do their gradients. The rows of ranks that were not recorded are
unknown: they send to each member what the recorded one does, and receive from it what it says.
Where a source of demand is given, it draws the blocks of all ranks instead.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom.demand.source import DemandSource
from lightloom.errors import InputError
from lightloom.trace.computes import Compute, RouterChoice
from lightloom.trace.job import Ints
from lightloom.trace.step.placement import WorkerFamily, WorkerPlacement
from lightloom.trace.trace import Call, Trace
from lightloom.workload.programs.phases import MAX_RANK_COUNTS
from lightloom.workload.task_graph import NONE


@dataclass(frozen=True)
class BlockUse:
    """How one call uses a block: which, in which direction, and bytes of a row."""

    family: int
    block: int
    transposed: bool
    unit_bytes: int
    first: bool
    routed: int | None


@dataclass
class _Block:
    """A block of a role: the first call that uses it, and the choice that its rows stem from."""

    call: Call
    position: int
    routed: int | None


@dataclass
class RoleBlocks:
    """The blocks of one role by family, and how its calls use them.

    Attributes
    ----------
    blocks
        By family, in the order of their indices.
    uses
        By index of a call among those of the recorded rank.
    layers
        Layer and micro-batch of each choice of experts.
    """

    blocks: dict[int, list[_Block]] = field(default_factory=dict)
    uses: dict[int, BlockUse] = field(default_factory=dict)
    layers: dict[int, tuple[int, int]] = field(default_factory=dict)


def find_blocks(
    placement: WorkerPlacement, calls: tuple[Call, ...], computes: tuple[Compute, ...]
) -> RoleBlocks:
    """Find which all-to-alls of a role carry the same rows, and in which direction."""
    role_blocks = RoleBlocks()
    products = sorted(
        {item.before for item in computes if any("matmul" in op.kind for op in item.operators)}
    )
    index: dict[tuple[int, Hashable], int] = {}
    forward: dict[tuple[int, int], list[tuple[Call, bool]]] = {}
    backward: dict[tuple[int, int], int] = {}
    for position, call in enumerate(calls):
        if call.op not in ("all_to_all", "gather", "scatter") or len(call.ranks) < 2:
            continue
        family = placement.family_of(call)
        routed = call.routed if call.input_splits and call.output_splits else None
        key: Hashable = ("routed", routed) if routed is not None else _shape_key(call, position)
        blocks = role_blocks.blocks.setdefault(family, [])
        is_new = (family, key) not in index
        if is_new:
            index[family, key] = len(blocks)
            blocks.append(_Block(call, position, routed))
        block = blocks[index[family, key]]
        transposed = False
        if routed is not None:
            choice = (family, routed)
            if call.phase == "backward" and choice in forward:
                place = backward[choice] = backward.get(choice, 0) + 1
                before = forward[choice]
                mirrored = not before[-min(place, len(before))][1]
                transposed = _direction(call, block.call, mirrored)
            else:
                later = bool(
                    np.searchsorted(products, call.call_id + 1)
                    > np.searchsorted(products, block.call.call_id + 1)
                )
                transposed = _direction(call, block.call, later)
                forward.setdefault(choice, []).append((call, transposed))
        if is_new and routed is not None:
            layer = layer_of(call.layer)
            turn = sum(other == layer for other, _ in role_blocks.layers.values())
            role_blocks.layers[routed] = (layer, turn)
        role_blocks.uses[position] = BlockUse(
            family, index[family, key], transposed, _unit_bytes(call),
            is_new and routed is not None, routed,
        )  # fmt: skip
    return role_blocks


def layer_of(name: str) -> int:
    """The number of a layer in the name of a module; 0 where there is none."""
    numbers = (part for part in name.split(".") if part.isdigit())
    return min(int(next(numbers, "0")), NONE - 1)


def _shape_key(call: Call, position: int) -> Hashable:
    """Calls that send equal parts are alike; of others each is its own."""
    if call.op == "all_to_all" and not call.input_splits:
        return "equal"
    return position


def _direction(call: Call, first: Call, otherwise: bool) -> bool:
    """Whether a call sends back what another sent; as told where both directions are alike."""
    direct = call.input_splits == first.input_splits
    back = call.input_splits == first.output_splits
    if direct != back:
        return back
    return otherwise


def _unit_bytes(call: Call) -> int:
    """Bytes of one count of a call's block."""
    if call.op == "gather":
        return call.input_bytes
    if call.op == "scatter":
        return call.output_bytes
    if not call.input_splits:
        return round(call.input_bytes / len(call.ranks))
    rows = sum(call.input_splits)
    if rows:
        return round(call.input_bytes / rows)
    received = sum(call.output_splits or ())
    return round(call.output_bytes / received) if received else 0


class GroupRows:
    """Rows from member to member of every group and block of one family.

    Parameters
    ----------
    placement, family
        Whose groups.
    roles
        Blocks of each role.
    calls
        Of the step, by recorded rank.
    """

    def __init__(
        self,
        placement: WorkerPlacement,
        family: int,
        roles: dict[int, RoleBlocks],
        calls: dict[int, tuple[Call, ...]],
    ) -> None:
        self.placement, self.number = placement, family
        self.family: WorkerFamily = placement.families[family]
        self.roles, self.calls = roles, calls
        self.blocks = max((len(role.blocks.get(family, ())) for role in roles.values()), default=0)
        role_of_rank = placement.role_of_rank
        self.role_of_group = role_of_rank[self.family.rank_groups[:, 0]]

    def of_group(self, group: int, source: DemandSource | None, step: int) -> Ints:
        """Rows of a group of ranks, ``(blocks, size, size)``, in the order of the group."""
        role = int(self.role_of_group[group])
        blocks = self.roles[role].blocks.get(self.number, [])
        rows = (
            np.stack([self._recorded(group, role, block) for block in blocks])
            if blocks
            else _none(self.family.rank_groups.shape[1])
        )
        if source is not None:
            self._draw(rows, group, role, (source, step))
        return rows

    def received(self, rows: Ints) -> Ints:
        """Rows that each member has to compute, ``(blocks, size)``."""
        return np.asarray(rows.sum(axis=1))

    def _recorded(self, group: int, role: int, block: _Block) -> Ints:
        """Rows of one block as they were recorded, as far as they were."""
        ranks = self.family.rank_groups[group]
        size = len(ranks)
        if block.call.op != "all_to_all" or not block.call.input_splits:
            return _regular(block.call, size)
        calls: dict[int, Call] = {}
        for place, rank in enumerate(ranks.tolist()):
            if rank in self.calls and self.placement.role_of_rank[rank] == role:
                calls[place] = self.calls[rank][block.position]
        if not calls:
            calls[block.call.ranks.index(self.placement.roles[role].recorded)] = block.call
        sent = {place: np.array(call.input_splits) for place, call in calls.items()}
        rows = np.tile(np.round(np.mean(list(sent.values()), axis=0)).astype(np.int64), (size, 1))
        for place, call in calls.items():
            if call.output_splits:
                rows[:, place] = call.output_splits
        for place, splits in sent.items():
            rows[place] = splits
        return rows

    def _draw(self, rows: Ints, group: int, role: int, drawn: tuple[DemandSource, int]) -> None:
        """Replace the rows of blocks that stem from routers by drawn ones."""
        source, step = drawn
        blocks = self.roles[role]
        of_role = blocks.blocks.get(self.number, [])
        routed = [(place, block) for place, block in enumerate(of_role) if block.routed is not None]
        if not routed:
            return
        places = [blocks.layers[block.routed] for _, block in routed if block.routed is not None]
        layers = sorted({layer for layer, _ in places})
        micro_batches = 1 + max(number for _, number in places)
        tokens = source.tokens(
            group=group % (1 << 20), layers=layers, micro_batches=micro_batches, step=step
        )
        size = rows.shape[1]
        by_rank = tokens.reshape(*tokens.shape[:3], size, -1).sum(axis=4)
        for (place, _), (layer, number) in zip(routed, places, strict=True):
            rows[place] = by_rank[layers.index(layer), number]


def _none(size: int) -> Ints:
    return np.zeros((0, size, size), dtype=np.int64)


def _regular(call: Call, size: int) -> Ints:
    """One count from each member to each other, or to or from the root alone."""
    rows = np.ones((size, size), dtype=np.int64)
    if call.op == "gather":
        rows[:] = 0
        rows[:, call.ranks.index(call.root) if call.root in call.ranks else 0] = 1
    if call.op == "scatter":
        rows[:] = 0
        rows[call.ranks.index(call.root) if call.root in call.ranks else 0] = 1
    return rows


@dataclass(frozen=True, eq=False)
class WorkerRows:
    """Rows of a family by workers: the columns of a demand table, and what each rank computes.

    Attributes
    ----------
    counts, rank_counts
        As of :class:`~lightloom.workload.task_graph.DemandTable`.
    received
        Rows that each member computes, ``(rank groups, blocks, size)``.
    """

    counts: npt.NDArray[np.uint32]
    rank_counts: npt.NDArray[np.uint32] | None
    received: Ints


def distinct_ranks(placement: WorkerPlacement, demands: Sequence[GroupRows]) -> int:
    """Ranks of a worker in the demand tables of a graph, which is one number for all; 0 for none.

    Members of groups that share a worker, or its GPUs where families differ; none where all tables
    together would be too large.
    """
    crossing = [rows for rows in demands if rows.blocks and rows.family.workers > 1]
    sizes = {rows.family.on_worker for rows in crossing}
    ranks = next(iter(sizes), 0) if len(sizes) < 2 else placement.gpus_per_worker
    counts = sum(
        len(rows.family.groups) * rows.blocks * (rows.family.workers * ranks) ** 2
        for rows in crossing
    )
    return ranks if ranks > 1 and counts <= MAX_RANK_COUNTS else 0


def fold_rows(rows: GroupRows, source: DemandSource | None, step: int, ranks: int) -> WorkerRows:
    """Add up what the ranks of workers send each other; ``ranks`` of a worker are told apart.

    Raises
    ------
    InputError
        If a count does not fit 32 bits.
    """
    family = rows.family
    members, groups = family.workers, len(family.groups)
    here = ranks if members > 1 and ranks > 1 else family.on_worker
    size = members * here
    keeps = members > 1 and ranks > 1
    ranked = np.zeros((groups, rows.blocks, size, size), dtype=np.int64) if keeps else None
    counts = np.zeros((groups, rows.blocks, members, members), dtype=np.int64)
    ranks_each = family.rank_groups.shape[1]
    received = np.zeros((len(family.rank_groups), rows.blocks, ranks_each), dtype=np.int64)
    for group, of_workers in enumerate(family.of_rank_group.tolist()):
        moved = rows.of_group(group, source, step)
        received[group, : len(moved)] = rows.received(moved)
        moved[:, np.arange(ranks_each), np.arange(ranks_each)] = 0  # what stays on a GPU
        at = _positions(rows, group, here)
        spread = np.zeros((len(moved), size, size), dtype=np.int64)
        spread[:, at[:, None], at] = moved
        moved = spread
        if ranked is not None:
            ranked[of_workers, : len(moved)] += moved
        folded = moved.reshape(len(moved), members, here, members, here).sum(axis=(2, 4))
        counts[of_workers, : len(moved)] += folded
    if counts.max(initial=0) >= 1 << 32:
        raise InputError(f"group {family.name}: more rows than 2^32 between two servers")
    fine = None if ranked is None else ranked.astype(np.uint32)
    return WorkerRows(counts.astype(np.uint32), fine, received)


def _positions(rows: GroupRows, group: int, here: int) -> Ints:
    """Index of each place of a group of ranks among so many ranks of each of its workers."""
    family, gpus = rows.family, rows.placement.gpus_per_worker
    if here == family.on_worker:
        at = np.zeros(family.rank_groups.shape[1], dtype=np.int64)
        at[family.order[group]] = np.arange(len(at))
        return at
    ranks = family.rank_groups[group]
    workers = family.groups[family.of_rank_group[group]]
    return np.asarray(np.searchsorted(workers, ranks // gpus) * gpus + ranks % gpus)


def choice_sizes(
    placement: WorkerPlacement, trace: Trace, roles: dict[int, RoleBlocks]
) -> tuple[int, RouterChoice]:
    """Ranks of the groups that rows of routers go through, and the sizes of a choice of experts.

    Where the trace says nothing of experts there is one on each rank, of which a token visits one.

    Raises
    ------
    InputError
        If nothing was routed, or routers differ, so that no one source can draw for all.
    """
    sizes: set[tuple[int, RouterChoice]] = set()
    for number, blocks in roles.items():
        choices = {row.number: row for row in trace.ranks[placement.roles[number].recorded].choices}
        for family, of_family in blocks.blocks.items():
            size = placement.families[family].rank_groups.shape[1]
            for block in of_family:
                sent = sum(block.call.input_splits or ())
                if block.routed is None or not sent:
                    continue
                choice = choices.get(block.routed, RouterChoice(0, sent, size, 1))
                sizes.add((size, choice._replace(number=0)))
    if not sizes:
        raise InputError(
            "the trace has no all-to-alls of tokens that a router chose: no demand can be drawn "
            "for it; leave --demand out"
        )
    if len(sizes) > 1:
        raise InputError(
            f"the trace has routers of {len(sizes)} sizes: a demand is drawn for one; leave "
            "--demand out"
        )
    return sizes.pop()
