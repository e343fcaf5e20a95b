"""Permutations of the job as settings of the switches of a two- or three-tier circuit fabric.

Rank ``r`` is host ``r``. Circuits between hosts of a leaf stay in it, and those of a pod stay
there; the others are divided among spines by Euler splits. Where a leaf or a pod has more circuits
to others than up-links, a permutation is divided into several that fit, which take turns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lightloom.errors import InputError
from lightloom.schedule.coloring import FabricRoute, color_edges, route_permutation
from lightloom.trace.algorithms import IDLE
from lightloom.trace.stack import PermutationStack

Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]


@dataclass(frozen=True)
class ClosSizes:
    """A Clos fabric of circuit switches.

    Attributes
    ----------
    leaf
        Hosts of a leaf.
    spines
        Up-links of a leaf; as many as hosts by default.
    pod
        Leaves of a pod; ``None`` for two tiers.
    cores
        Up-links of a spine; as many as leaves of a pod by default.
    """

    leaf: int
    spines: int | None = None
    pod: int | None = None
    cores: int | None = None

    @property
    def tiers(self) -> int:
        """Tiers of switches."""
        return 2 if self.pod is None else 3

    def tier_of(self, permutation: Ints32) -> Ints:
        """The tier at which each circuit turns round, from 1; 0 of idle hosts."""
        host = np.arange(len(permutation))
        tier = np.where(host // self.leaf == permutation // self.leaf, 1, self.tiers)
        if self.pod is not None:
            hosts = self.leaf * self.pod
            inside = (host // hosts == permutation // hosts) & (tier > 1)
            tier = np.where(inside, 2, tier)
        return np.where(permutation == IDLE, 0, tier)

    def route(self, permutation: Ints32) -> FabricRoute:
        """Route a permutation that fits the up-links."""
        return route_permutation(
            permutation, leaf=self.leaf, tiers=self.tiers, spines=self.spines,
            pod=self.pod, cores=self.cores,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class LocalStack:
    """Settings of switches for each permutation of a stack.

    Attributes
    ----------
    sizes
        Of the fabric.
    parent
        The permutation that each part is of, ``(parts,)``; one part each unless up-links lack.
    parts
        ``(parts, hosts)``.
    tier
        The highest tier that each part crosses, from 1, ``(parts,)``.
    circuits
        Circuits that turn round at each tier, ``(parts, tiers)``.
    routes
        Of each part.
    """

    sizes: ClosSizes
    parent: Ints
    parts: Ints32 = field(repr=False)
    tier: Ints
    circuits: Ints
    routes: tuple[FabricRoute, ...] = field(repr=False)

    def check(self, stack: PermutationStack) -> None:
        """Follow the light of every circuit, and check that parts make up the permutations.

        Raises
        ------
        InputError
            The first thing that is wrong.
        """
        for part, route in zip(self.parts, self.routes, strict=True):
            route.check(part)
        for index, permutation in enumerate(stack.permutations):
            parts = self.parts[self.parent == index]
            lit = (parts != IDLE).sum(axis=0)
            if (lit != (permutation != IDLE)).any() or (parts.max(axis=0) != permutation).any():
                raise InputError(f"permutation {index}: its parts carry something else")

    def parts_of(self, index: int) -> int:
        """Parts of a permutation."""
        return int((self.parent == index).sum())


def route_stack(stack: PermutationStack, sizes: ClosSizes) -> LocalStack:
    """Route every permutation of a stack over a fabric.

    Raises
    ------
    InputError
        If ranks do not fill leaves and pods.
    """
    parents, parts, routes = [], [], []
    for index, permutation in enumerate(stack.permutations):
        for part in _fitting(permutation, sizes):
            parents.append(index)
            parts.append(part)
            routes.append(sizes.route(part))
    tiers = [sizes.tier_of(part) for part in parts]
    circuits = np.array([np.bincount(tier, minlength=sizes.tiers + 1)[1:] for tier in tiers])
    return LocalStack(
        sizes, np.array(parents), np.stack(parts), np.array([tier.max() for tier in tiers]),
        circuits, tuple(routes),
    )  # fmt: skip


def _fitting(permutation: Ints32, sizes: ClosSizes) -> list[Ints32]:
    """Divide a permutation until no leaf and no pod has more circuits to others than up-links."""
    spines = sizes.leaf if sizes.spines is None else sizes.spines
    parts = _divided(permutation, sizes.leaf, spines, "leaf")
    if sizes.pod is None:
        return parts
    cores = sizes.pod if sizes.cores is None else sizes.cores
    if cores >= sizes.pod:
        return parts
    # as many as the cores of a single plane: however spines are chosen, these fit
    hosts = sizes.leaf * sizes.pod
    return [fits for part in parts for fits in _divided(part, hosts, cores, "pod")]


def _divided(permutation: Ints32, size: int, links: int, name: str) -> list[Ints32]:
    host = np.arange(len(permutation))
    leaves = (permutation != IDLE) & (host // size != permutation // size)
    senders = host[leaves]
    edges = np.stack([senders // size, permutation[senders] // size], axis=1)
    degree = max((int(np.bincount(end).max()) for end in edges.T if len(end)), default=0)
    if degree <= links:
        return [permutation]
    if not links:
        raise InputError(f"a {name} has {degree} circuits to others but no up-links")
    turn = color_edges(edges) // links
    parts = []
    for number in range(int(turn.max()) + 1):
        kept = ~leaves if number == 0 else np.zeros(len(permutation), dtype=bool)
        kept[senders[turn == number]] = True
        parts.append(np.where(kept, permutation, IDLE).astype(np.int32))
    return parts


def local_arrays(local: LocalStack) -> dict[str, npt.NDArray[np.generic]]:
    """Settings of all switches as arrays; see :class:`FabricRoute`."""
    names = ("spine", "core", "leaf_switches", "spine_switches", "core_switches")
    return {
        "part_of_permutation": local.parent,
        "part_tier": local.tier,
        **{name: np.stack([getattr(route, name) for route in local.routes]) for name in names},
    }
