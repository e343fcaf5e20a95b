"""Which ranks form which groups, and which GPUs of a server form a worker.

A rank is a number in mixed radix whose digits are its places on the axes of ``plan.order``, the
first axis least significant. Dense and expert layers may use different radices over the same
ranks (``folded`` mode). Ranks fill servers in ascending order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from lightloom.errors import PlanError
from lightloom.parallel.plan import Plan

Ranks = npt.NDArray[np.int64]

#: kinds of groups: generator (dense or expert layers) and axes along which its members differ,
#: in ``axis`` and in ``folded`` mode. ``dense-gradient`` ranks hold the same dense parameters
#: (CP ranks too), ``dense-dp`` ranks read different sequences, ``ep-group`` is EP x expert-TP.
GROUP_AXES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "tp": ("dense", ("tp",), ("tp",)),
    "cp": ("dense", ("cp",), ("cp",)),
    "pp": ("dense", ("pp",), ("pp",)),
    "dense-dp": ("dense", ("ep", "dp"), ("dp",)),
    "dense-gradient": ("dense", ("cp", "ep", "dp"), ("cp", "dp")),
    "ep": ("expert", ("ep",), ("ep",)),
    "etp": ("expert", ("tp",), ("tp",)),
    "ep-group": ("expert", ("tp", "ep"), ("tp", "ep")),
    "expert-dp": ("expert", ("cp", "dp"), ("dp",)),
}


@dataclass(frozen=True)
class RankGrid:
    """The groups of ranks of a plan.

    Raises
    ------
    PlanError
        If dense and expert layers would disagree about pipeline stages (``folded`` mode with an
        order in which ``pp`` is not last).
    """

    plan: Plan

    def __post_init__(self) -> None:
        """Refuse orders in which the two generators give different pipelines."""
        if self.plan.expert_mode == "axis":
            return
        dense, expert = self._groups("dense", ("pp",)), self._groups("expert", ("pp",))
        if (dense[np.argsort(dense[:, 0])] != expert[np.argsort(expert[:, 0])]).any():
            raise PlanError(
                f"rank order '{self.plan.order}' puts dense and expert layers of a rank into "
                "different pipelines; end the order with '-pp'"
            )

    def sizes(self, generator: Literal["dense", "expert"]) -> dict[str, int]:
        """Length of each axis, fastest first."""
        plan = self.plan
        if plan.expert_mode == "axis":
            size = {"tp": plan.tp, "cp": plan.cp, "ep": plan.ep, "dp": plan.dp, "pp": plan.pp}
        elif generator == "dense":
            size = {"tp": plan.tp, "cp": plan.cp, "ep": 1, "dp": plan.dense_dp, "pp": plan.pp}
        else:
            size = {"tp": plan.etp, "cp": 1, "ep": plan.ep, "dp": plan.dp, "pp": plan.pp}
        return {name: size[name] for name in plan.order.split("-")}

    def groups(self, kind: str) -> Ranks:
        """Ranks of every group of one kind, ``(groups, ranks per group)``.

        Groups, and ranks within a group, are in ascending order of their places on the axes, the
        first axis of the order fastest, as Megatron-Core lists them.
        """
        generator, axis_mode, folded = GROUP_AXES[kind]
        axes = axis_mode if self.plan.expert_mode == "axis" else folded
        return self._groups(generator, axes)

    def _groups(self, generator: str, axes: tuple[str, ...]) -> Ranks:
        sizes = self.sizes("dense" if generator == "dense" else "expert")
        names = list(sizes)[::-1]
        cube = np.arange(self.plan.gpus).reshape([sizes[name] for name in names])
        outer = [i for i, name in enumerate(names) if name not in axes]
        inner = [i for i, name in enumerate(names) if name in axes]
        length = math.prod(sizes[name] for name in names if name in axes)
        return cube.transpose(outer + inner).reshape(-1, length)

    def place(self, generator: Literal["dense", "expert"], axis: str) -> Ranks:
        """Each rank's place on an axis, ``(gpus,)``."""
        sizes = self.sizes(generator)
        stride = 1
        for name, size in sizes.items():
            if name == axis:
                return np.arange(self.plan.gpus) // stride % size
            stride *= size
        raise AssertionError(f"no axis {axis}")

    @cached_property
    def stage(self) -> Ranks:
        """Pipeline stage of each rank, ``(gpus,)``."""
        return self.place("dense", "pp")

    def ep_groups(self) -> Ranks:
        """GPUs of the EP groups, ``(stages, groups per stage, ep * etp)``, members ascending."""
        groups = self.groups("ep-group")
        by_stage = np.argsort(self.stage[groups[:, 0]], kind="stable")
        return groups[by_stage].reshape(self.plan.pp, self.plan.groups_per_stage, -1)


@dataclass(frozen=True)
class Workers:
    """GPUs by worker: ``gpus[stage, replica, member]`` are the ranks of one server in one EP group.

    ``server`` is ``(stages, replicas, members)``; ``worker_of`` maps each rank to its worker.
    """

    gpus: Ranks
    server: Ranks
    worker_of: Ranks
    gpus_per_server: int

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of one worker."""
        return int(self.gpus.shape[3])


def check_servers(grid: RankGrid, gpus_per_server: int) -> None:
    """Refuse plans whose groups do not align with servers.

    Raises
    ------
    PlanError
        See :func:`place_workers` and :func:`servers_of_groups`.
    """
    place_workers(grid, gpus_per_server)
    for kind in ("dense-gradient", "expert-dp"):
        servers_of_groups(kind, gradient_groups(grid, kind), gpus_per_server)
    servers_of_groups("cp", grid.groups("cp"), gpus_per_server)


def gradient_groups(grid: RankGrid, kind: str) -> Ranks:
    """Ranks that add up gradients, ``(groups, ranks)``: those of a kind of groups.

    With DualPipe opposite places of the pipeline hold the same layers, so that their groups are
    one, and every rank is in one for each of the two stages that it holds.
    """
    groups = grid.groups(kind)
    pp = grid.plan.pp
    if grid.plan.copies == 1:
        return groups
    order = np.argsort(grid.stage[groups[:, 0]], kind="stable")
    by_stage = groups[order].reshape(pp, -1, groups.shape[1])
    return np.concatenate([by_stage, by_stage[::-1]], axis=2)[: pp // 2].reshape(
        -1, 2 * groups.shape[1]
    )


def place_workers(grid: RankGrid, gpus_per_server: int) -> Workers:
    """Cut every EP group into workers, the GPUs that it has on one server.

    Raises
    ------
    PlanError
        If servers are not filled, a TP group spans servers, or EP groups cover servers unevenly.
    """
    plan = grid.plan
    if plan.gpus % gpus_per_server and plan.gpus > gpus_per_server:
        raise PlanError(unfilled_servers(plan.gpus, gpus_per_server))
    for kind, flag in (("tp", "tp"), ("etp", "etp")):
        servers = grid.groups(kind) // gpus_per_server
        if (servers != servers[:, :1]).any():
            raise PlanError(
                f"{flag} = {getattr(plan, flag)}: a tensor-parallel group must stay within a "
                f"server of {gpus_per_server} GPUs; use a divisor of {gpus_per_server}"
            )
    groups = grid.ep_groups()
    servers = groups // gpus_per_server
    # a worker ends where the server changes; every group must be cut in equal pieces
    change = np.diff(servers, axis=2) != 0
    pieces = change.sum(axis=2) + 1
    members = int(pieces.flat[0])
    size = groups.shape[2] // members
    cut = servers.reshape(*servers.shape[:2], members, size) if _even(pieces, groups) else None
    if cut is None or (cut != cut[..., :1]).any():
        raise PlanError(
            f"etp x ep = {plan.etp} x {plan.ep} = {plan.etp * plan.ep} GPUs of an EP group do not "
            f"align with servers of {gpus_per_server}; make it a divisor or a multiple of "
            f"{gpus_per_server}{_or_with_spares(gpus_per_server)}"
        )
    gpus = groups.reshape(*cut.shape)
    # demand counts on members of consecutive EP ranks
    places = grid.place("expert", "ep")[gpus] * members // plan.ep
    if plan.ep % members or (places != np.arange(members)[:, np.newaxis]).any():
        raise PlanError(
            f"rank order '{plan.order}' does not give each server consecutive EP ranks; keep "
            f"'tp-cp-ep-dp-pp'"
        )
    worker_of = np.empty(plan.gpus, dtype=np.int64)
    worker_of[gpus.reshape(-1)] = np.repeat(np.arange(gpus.size // size), size)
    return Workers(gpus, cut[..., 0], worker_of, gpus_per_server)


def servers_of_groups(name: str, groups: Ranks, gpus_per_server: int) -> tuple[int, int]:
    """GPUs of each group that share a server, and servers of each group.

    Parameters
    ----------
    name
        What the groups are for, for the error message.
    groups
        ``(groups, GPUs)``, ascending within a group.
    gpus_per_server
        Ranks fill servers in ascending order.

    Raises
    ------
    PlanError
        If a group covers its servers unevenly, so that reductions have no two levels.
    """
    servers = groups // gpus_per_server
    spans = (servers[:, 1:] != servers[:, :-1]).sum(axis=1) + 1
    count = int(spans.flat[0])
    on_server = groups.shape[1] // count
    if (spans == count).all() and groups.shape[1] == on_server * count:
        cut = servers.reshape(len(groups), count, on_server)
        if (cut == cut[..., :1]).all():
            return on_server, count
    raise PlanError(
        f"{name} groups of {groups.shape[1]} GPUs cover servers of {gpus_per_server} unevenly; "
        "make the number of GPUs per pipeline stage a multiple of a server's GPUs"
    )


def unfilled_servers(gpus: int, gpus_per_server: int) -> str:
    """What is wrong with GPUs that do not fill servers."""
    more = -(-gpus // gpus_per_server) * gpus_per_server
    return (
        f"{gpus} GPUs do not fill servers of {gpus_per_server}; use {more} GPUs"
        f"{_or_with_spares(gpus_per_server)}"
    )


def _or_with_spares(gpus_per_server: int) -> str:
    """Another way out where a server's GPUs are no power of two, and some may stay idle."""
    power = 1 << (gpus_per_server.bit_length() - 1)
    if power == gpus_per_server:
        return ""
    return f", or a multiple of {power}, to use {power} of each server"


def _even(pieces: Ranks, groups: Ranks) -> bool:
    return bool((pieces == pieces.flat[0]).all()) and groups.shape[2] % int(pieces.flat[0]) == 0
