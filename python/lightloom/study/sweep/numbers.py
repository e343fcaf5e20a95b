"""Sets of point numbers as ranges: small, since points finish nearly in order."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator


class NumberSet:
    """Numbers from 0 on; as text ``0-41,43``.

    Examples
    --------
    >>> str(NumberSet([0, 1, 2, 5]))
    '0-2,5'
    """

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> None:
        """Add a number."""
        self.add_range(range(number, number + 1))

    def add_range(self, numbers: range) -> None:
        """Add all numbers of a range with step 1."""
        start, end = numbers.start, numbers.stop
        if start >= end:
            return
        low = bisect.bisect_left(self._ends, start)
        high = bisect.bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def ranges(self) -> Iterator[range]:
        """The numbers in ascending ranges."""
        return (range(a, b) for a, b in zip(self._starts, self._ends, strict=True))

    def without(self, *others: NumberSet) -> NumberSet:
        """The numbers that are in none of the others."""
        taken = NumberSet()
        for other in others:
            for numbers in other.ranges():
                taken.add_range(numbers)
        left = NumberSet()
        for numbers in self.ranges():
            start = numbers.start
            first = bisect.bisect_right(taken._ends, start)
            for gap in zip(taken._starts[first:], taken._ends[first:], strict=True):
                if gap[0] >= numbers.stop:
                    break
                left.add_range(range(start, gap[0]))
                start = gap[1]
            left.add_range(range(start, numbers.stop))
        return left

    def __contains__(self, number: int) -> bool:
        place = bisect.bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._ends[place]

    def __len__(self) -> int:
        return sum(self._ends) - sum(self._starts)

    def __str__(self) -> str:
        parts = zip(self._starts, self._ends, strict=True)
        return ",".join(str(a) if b == a + 1 else f"{a}-{b - 1}" for a, b in parts)
