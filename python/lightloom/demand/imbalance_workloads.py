"""Eight public workloads of uneven routing, each of which isolates one kind of imbalance.

W0 to W7 of the token-imbalance benchmark that NVIDIA/Megatron-LM was offered as pull request 7488
(2026-09-18, commits f5c50249 and 241aa13a): with them it times an MoE layer on GPUs. They are drawn
here with the same random numbers, so that every token goes to the same experts as there: MT19937,
seeded by the SHA-256 of workload, seed and step; top-k of a pool are the first places of its
shuffle (Fisher and Yates, as ``torch.randperm``). As there, every source rank routes the same
tokens. That the pull request gives the ranks of W4 unequal numbers of tokens is said in its text
and is not in its code, in which W1 and W2 differ in their random numbers alone.

The benchmark has one layer and one micro-batch; here all of a step are alike.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lightloom.demand.regime import WORKLOADS
from lightloom.demand.source import Counts, Shape, check_index
from lightloom.errors import DemandError


def random_of(workload: str, seed: int, step: int) -> np.random.RandomState:
    """The random numbers of a step of a workload."""
    digest = hashlib.sha256(f"{workload}|{seed}|{step}".encode()).hexdigest()
    return np.random.RandomState(int(digest[:8], 16))


def routed(
    workload: str,
    random: np.random.RandomState,
    *,
    experts: int,
    top_k: int,
    tokens: int,
    step: int,
) -> npt.NDArray[np.int64]:
    """Experts of each token in rising order (of W0 in turn), ``(tokens, top_k)``.

    Parameters
    ----------
    workload
        Of :data:`~lightloom.demand.regime.WORKLOADS`.
    random
        Of :func:`random_of`; it is then where the benchmark goes on to draw gates.
    experts, top_k, tokens, step
        Sizes of the layer, and the step.

    Raises
    ------
    DemandError
        If a token has fewer experts to choose from than it chooses.
    """
    places = np.arange(tokens)
    if workload == "W0_balanced":
        return (places[:, np.newaxis] * top_k + np.arange(top_k)) % experts
    everyone, width = np.arange(experts), max(top_k, experts // 4)
    pool, of_pool = everyone, places % 4 != 0
    if workload in ("W1_hot_expert_set", "W2_hot_rank"):
        pool = everyone[:width]
    elif workload == "W3_spread_hot_experts":
        even = everyone[::2]
        pool = even if len(even) >= top_k else everyone
    elif workload == "W5_zero_expert_rank":
        pool, of_pool = everyone[experts // 2 :], places >= 0
    elif workload == "W6_rotating_hotspot":
        pool = (step // 3 * width + np.arange(width)) % experts
    elif workload == "W7_burst":
        pool, of_pool = everyone[:width], (places % 2 == 0) & (step % 4 == 3)
    if len(pool) < top_k:
        raise DemandError(
            f"{workload}: top-{top_k} of the {len(pool)} experts that get tokens; choose another "
            "workload or fewer experts per token"
        )
    # a shuffle takes a number less than it has places
    sizes = np.where(of_pool, len(pool), experts)
    begins = np.concatenate([[0], np.cumsum(sizes - 1)])
    draws = random.randint(0, 1 << 32, size=int(begins[-1]), dtype=np.uint32).astype(np.int64)
    chosen = np.empty((tokens, top_k), dtype=np.int64)
    for mask, among in ((of_pool, pool), (~of_pool, everyone)):
        first = _first_places(draws, begins[:-1][mask], len(among), top_k)
        chosen[mask] = np.sort(among[first], axis=1)
    return chosen


def _first_places(
    draws: npt.NDArray[np.int64], begins: npt.NDArray[np.int64], size: int, count: int
) -> npt.NDArray[np.int64]:
    """The first places of shuffles of ``size``, whose draws begin there, ``(shuffles, count)``."""
    rows = np.arange(len(begins))
    order = np.tile(np.arange(size), (len(begins), 1))
    for place in range(min(count, size - 1)):
        other = place + draws[begins + place] % (size - place)
        order[rows, place], order[rows, other] = order[rows, other], order[rows, place].copy()
    return order[:, :count]


class ImbalanceWorkload:
    """A workload as a source of demand: the same rows on every rank, layer and micro-batch.

    Raises
    ------
    DemandError
        If a token has fewer experts to choose from than it chooses.
    """

    exact = False

    def __init__(self, name: str, shape: Shape, seed: int) -> None:
        self.name = name
        self.shape = shape
        self._seed = seed
        self.provenance = {
            "workload": f"{name} of Megatron-LM pull request 7488: {WORKLOADS[name]}",
            "seed": str(seed),
        }
        self._row = functools.lru_cache(maxsize=16)(self._counts)
        self._row(0)

    def _counts(self, step: int) -> Counts:
        """Copies for each expert of one rank."""
        shape = self.shape
        chosen = routed(
            self.name, random_of(self.name, self._seed, step), experts=shape.experts,
            top_k=shape.top_k, tokens=shape.tokens_per_rank, step=step,
        )  # fmt: skip
        return np.bincount(chosen.ravel(), minlength=shape.experts)

    def tokens(self, *, group: int, layers: Sequence[int], micro_batches: int, step: int) -> Counts:
        """See :class:`~lightloom.demand.source.DemandSource`."""
        check_index(group, layers, micro_batches, step)
        shape = (len(layers), micro_batches, self.shape.ranks, self.shape.experts)
        return np.broadcast_to(self._row(step), shape).copy()
