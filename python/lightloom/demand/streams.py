"""Named random streams: a draw depends on the seed, the stream's name and its index, on no order.

Philox is a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
SC 2011): the seed and the name make the key, the index the upper three words of the counter, so
that streams never overlap and each can be entered directly.
"""

from __future__ import annotations

import numpy as np

from lightloom.errors import DemandError, echo


class Stream:
    """The random numbers of one purpose under one seed.

    Parameters
    ----------
    seed
        Whole number of at least 0.
    name
        What is drawn; two names under one seed give independent numbers.
    """

    def __init__(self, seed: int, name: str) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
            raise DemandError(f"seed: expected a whole number of at least 0, got {echo(seed)}")
        entropy = [int(seed), *name.encode()]
        self._key = np.random.SeedSequence(entropy).generate_state(2, np.uint64)

    @property
    def key(self) -> tuple[int, int]:
        """The key of the counter-based generator, for streams that the core enters."""
        return int(self._key[0]), int(self._key[1])

    def at(self, first: int, second: int = 0, third: int = 0) -> np.random.Generator:
        """Enter the stream at an index of up to three words below 2**64."""
        counter = np.array([0, first, second, third], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(counter=counter, key=self._key))
