"""Random arguments that mostly fit each other, drawn fast: one side for all arrays of an input.

Half of the inputs have nothing wrong with them by chance. In the others a share of what is drawn is
odd: an array of another side, dtype or layout, a value out of any range, something of another kind.
"""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

EXTREME = [2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1]
KINDS = [np.bool_, np.uint8, np.uint16, np.uint32, np.int32, np.uint64, np.int64, np.float64]
#: sides of matrices: enough for every case of an algorithm, few enough for a million inputs
SIDES = [0, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 8]
#: shares of what is odd
ODDNESS = [0.0] * 10 + [1 / 20] * 6 + [1 / 4]
#: of another kind than any number or array that is asked for
STRANGE = [None, "x", -1, 0.5, [], (), 2**70, np.zeros((2, 2)), np.zeros(3, np.uint64), b"x", True]

#: 256 values of each sort: an array is a look-up by random bytes
VALUES = {
    "few": [0, 1, 2, 3] * 40 + [0] * 96,
    "flags": [0] * 64 + [1] * 192,
    "indices": list(range(4)) * 56 + list(range(4, 36)),
    "peers": [-1] * 32 + list(range(4)) * 48 + list(range(4, 12)) * 4,
    "bytes": [0] * 96
    + [1, 2, 3, 100] * 8
    + [1_000 * k for k in range(112)]
    + [10**9] * 15
    + [2**40],
    "equal": [0] * 64 + [4_096] * 192,
    "signed": [0] * 56 + list(range(-100, 100)),
    "rates": [4 * 10**11] * 192 + [10**9] * 48 + [0, 1] * 8,
    "wild": [0, 1, 255, 65_535, *EXTREME, *[2**k for k in range(63)], 7] * 3 + [2, 3, 5, 9] * 7,
    "shares": [k / 100 for k in range(156)] + [0.0] * 90 + [1e-300, 1e300] * 5,
    "positive": [k / 100 + 0.01 for k in range(256)],
    "due": [2**64 - 1, 10**6, 10**7, 10**12] * 63 + [0, 1, 100, 1_000],
    "floats": [0.0, 0.5, 1.0, 1e6] * 60
    + [-1.0, math.nan, math.inf, -math.inf] * 2
    + [1e308, -0.0] * 4,
}


def cast(values: Sequence[float], kind: Any) -> np.ndarray:
    """Values as a kind; whole ones modulo its range, as C casts them."""
    if np.dtype(kind).kind == "f" or any(isinstance(value, float) for value in values):
        with np.errstate(invalid="ignore"):
            return np.array(values, np.float64).astype(kind)
    return np.array([int(value) % 2**64 for value in values], np.uint64).astype(kind)


TABLES = {
    (sort, np.dtype(kind)): cast(values, kind)
    for (sort, values), kind in itertools.product(VALUES.items(), KINDS)
}

#: which cells are below the diagonal
BELOW = np.tri(max(SIDES), k=-1, dtype=np.bool_)


class Draws:
    """Draws arguments; `begin` begins the next input."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.begin()

    def begin(self) -> None:
        """Choose the side of the next input and how odd it is."""
        self.side = self.rng.choice(SIDES)
        self.oddness = self.rng.choice(ODDNESS)

    def odd(self) -> bool:
        """Whether what is drawn next is odd."""
        return self.oddness > 0 and self.rng.random() < self.oddness

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    def pick(self, values: Sequence[Any]) -> Any:
        """One of values, or something strange."""
        return self.rng.choice(STRANGE if self.odd() else values)

    def optional(self, draw: Callable[[], Any]) -> Any:
        return None if self.rng.random() < 0.4 else draw()

    def number(self, *values: int) -> Any:
        """One of values, or any number, or something strange."""
        if not self.odd():
            return self.rng.choice(values)
        return self.rng.choice(STRANGE if self.chance(0.2) else EXTREME)

    def size(self) -> Any:
        """Bytes."""
        return self.number(0, 1, 100, 1_000, 5_000, 10**6, 10**9)

    def flag(self) -> Any:
        return self.pick([False, True])

    def plain(self, kind: Any, shape: tuple[int, ...], sort: str) -> np.ndarray:
        """An array with nothing wrong with it but perhaps its values."""
        cells = math.prod(shape)
        places = np.frombuffer(self.rng.randbytes(cells) or b"", np.uint8)
        return TABLES[sort, np.dtype(kind)].take(places.reshape(shape))

    def array(self, kind: Any, shape: tuple[int, ...], sort: str) -> Any:
        """An array, now and then an odd one."""
        if self.odd():
            return self.odd_array(kind, shape, sort)
        values = self.plain(kind, shape, sort)
        return self.laid_out(values) if self.oddness and self.chance(0.1) else values

    def laid_out(self, values: np.ndarray) -> np.ndarray:
        """The same values in another layout."""
        match self.rng.randrange(4 if values.ndim else 1):
            case 1:
                return np.repeat(values, 2, axis=-1)[..., ::2]
            case 2:
                return values[::-1].copy()[::-1]
            case 3:
                data = b"\0" + values.tobytes()
                view = np.frombuffer(data, np.uint8)[1:].view(values.dtype)
                return view.reshape(values.shape)
        return np.asfortranarray(values)

    def odd_array(self, kind: Any, shape: tuple[int, ...], sort: str) -> Any:
        match self.rng.randrange(8):
            case 0:
                return self.plain(self.rng.choice(KINDS), shape, sort)
            case 1:
                return self.plain(kind, (*shape, 1), sort)
            case 2:
                return self.rng.choice(STRANGE)
            case 3 | 4:
                other = tuple(max(0, side + self.rng.randrange(-1, 2)) for side in shape)
                return self.plain(kind, other, sort)
        return self.laid_out(self.plain(kind, shape, "wild"))

    def matrix(self, kind: Any, sort: str) -> Any:
        return self.array(kind, (self.side, self.side), sort)

    def column(self, kind: Any, sort: str) -> Any:
        return self.array(kind, (self.side,), sort)

    def rows(self, kind: Any, width: int, sort: str, maximum: int = 6) -> Any:
        """A few rows of a width."""
        return self.array(kind, (self.rng.randrange(maximum + 1), width), sort)

    def lines(self, kind: Any, width: int, indices: slice, below: int, maximum: int = 6) -> Any:
        """Rows whose values at some places are indices, mostly below a number, the others bytes."""
        rows = self.rows(kind, width, "bytes", maximum)
        if not isinstance(rows, np.ndarray) or rows.shape[1:] != (width,) or rows.dtype != kind:
            return rows
        if not self.odd():
            rows = rows.copy()
            rows[:, indices] %= below
        return rows

    def demand(self) -> Any:
        """Bytes of each pair."""
        return self.matrix(np.uint64, self.rng.choice(["bytes", "bytes", "equal", "few"]))

    def symmetric(self, kind: Any = np.uint16, sort: str = "few") -> Any:
        """As much each way, and nothing on the diagonal, but for what is odd."""
        values, side = self.matrix(kind, sort), self.side
        if not isinstance(values, np.ndarray) or values.shape != (side, side) or self.odd():
            return values
        lower = values * BELOW[:side, :side].astype(values.dtype)
        return lower + lower.T

    def permutation(self, length: int, kind: Any = np.int32) -> Any:
        """A permutation of indices, some of them -1."""
        values = list(range(length))
        self.rng.shuffle(values)
        places = [value if self.rng.random() < 0.8 else -1 for value in values]
        found = np.array(places, kind)
        if length and self.odd():
            found[self.rng.randrange(length)] = self.rng.choice([-2, length, 2**31 - 1, 0])
        return found

    def namespace(self, **values: Any) -> SimpleNamespace:
        """A request; now and then without one of its attributes."""
        if self.oddness and self.rng.random() < 0.01:
            del values[self.rng.choice(list(values))]
        return SimpleNamespace(**values)
