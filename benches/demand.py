"""Time drawing synthetic demand: the core, and the same rows drawn with numpy.

Both run in turns in this process, and CPU seconds of all threads are counted, so that a busy
machine slows both alike. Prints the table of benches/RESULTS.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lightloom.demand import rank_matrix, synthetic
from lightloom.demand.placement import fold_ranks, received

#: ranks, experts, tokens per rank, top-k, EP groups, layers, micro-batches
SHAPES = {
    "DeepSeek-R1": (64, 256, 4096, 8, 2, 4, 32),
    "Mixtral": (8, 8, 8192, 2, 64, 8, 16),
}
ROUNDS = 3


def draw_with_numpy(source: Any, layers: range, micro_batches: int, seed: int) -> np.ndarray:
    """Rows from gamma variates and conditional binomials, without the cap."""
    shape = source.shape
    size = (micro_batches, shape.ranks, shape.experts)
    counts = np.empty((len(layers), *size), dtype=np.int64)
    rng = np.random.Generator(np.random.Philox(seed))
    for layer in layers:
        shares = source.popularity.shares(layer, 0)[0]
        rows = rng.standard_gamma(source.regime.concentration * shape.experts * shares, size)
        rows /= rows.sum(axis=-1, keepdims=True)
        counts[layer] = rng.multinomial(shape.copies_per_rank, rows)
    return counts


def fold_with_numpy(counts: np.ndarray, members: int) -> None:
    """What a task graph needs of the counts."""
    ranks = rank_matrix(counts)
    fold_ranks(ranks, members=members, ranks_per_member=counts.shape[2] // members)
    received(counts).sum(axis=-1)
    counts.sum()


def timed(call: Callable[[], None]) -> tuple[float, float]:
    """CPU and wall-clock seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    call()
    return time.process_time() - cpu, time.perf_counter() - wall


def measure(model: str, regime: str) -> None:
    """Print the row of one shape and regime: the fastest of some rounds."""
    ranks, experts, tokens, top_k, groups, layers, micro_batches = SHAPES[model]
    source: Any = synthetic(
        regime, ranks=ranks, experts=experts, tokens_per_rank=tokens, top_k=top_k, seed=1
    )
    index: dict[str, Any] = {"layers": range(layers), "micro_batches": micro_batches, "step": 0}
    members = max(1, ranks // 8)

    def numpy_draws(fold: bool) -> None:
        for group in range(groups):
            counts = draw_with_numpy(source, range(layers), micro_batches, group)
            if fold:
                fold_with_numpy(counts, members)

    def core_draws() -> None:
        for group in range(groups):
            source.tokens(group=group, **index)

    def core_folds() -> None:
        for group in range(groups):
            source.folded(group=group, **index, members=members)

    core_draws()  # popularity is computed once and kept
    runs = [lambda: numpy_draws(False), lambda: numpy_draws(True), core_draws, core_folds]
    rounds = np.array([[timed(run) for run in runs] for _ in range(ROUNDS)])
    cpu, wall = rounds.min(axis=0).T
    number = groups * layers * micro_batches * ranks * experts / 1e6
    old, old_fold, new, new_fold = number / cpu
    print(
        f"| {model} {ranks} x {experts} | {regime} | {old:.1f} | {new:.1f} | {new / old:.1f} "
        f"| {old_fold:.1f} | {new_fold:.1f} | {new_fold / old_fold:.1f} "
        f"| {wall[1] / wall[3]:.1f} |",
        flush=True,
    )


def main() -> None:
    print("| shape | regime | numpy | core | ratio | numpy, folded | core, folded | ratio | wall |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|")
    for model in SHAPES:
        for regime in ("mixtral", "pair", "sparse"):
            measure(model, regime)


if __name__ == "__main__":
    main()
