"""Where the servers of a torus are, which links join them, and which way bytes take.

Cubes have 4 x 4 x 4 GPUs, a server is a box of them. Servers are numbered cube by cube, x first.
Bytes go along x, then y, then z (dimension order), by the fewest links; where several ways are as
short, each takes as many of the bytes.

The links that go around a line may be *twisted*: in a torus of k x k x 2k or k x 2k x 2k they join
the last of a short line to the first of the one half a long line further, along each long edge
(Camara et al., IEEE TPDS 2010; TPU v4 has it). Then k steps along a short edge lead k along the
long ones, and no direction is longer than another one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

#: GPUs along an edge of a cube, and in a cube
EDGE, CUBE = 4, 64
#: links of a face of a cube
FACE = EDGE * EDGE

Triple = tuple[int, int, int]


def box_of(gpus: int, box: Triple = (1, 1, 1)) -> Triple:
    """Return the smallest box in a cube, or a cube, that holds GPUs: its least edge is doubled.

    Examples
    --------
    >>> box_of(8), box_of(33)
    ((2, 2, 2), (4, 4, 4))
    """
    while math.prod(box) < min(gpus, CUBE):
        least = box.index(min(box))
        box = _with(box, least, 2 * box[least])
    return box


def most_even(count: int) -> Triple:
    """Return three factors with the least sum, in ascending order.

    Examples
    --------
    >>> most_even(16), most_even(7)
    ((2, 2, 4), (1, 1, 7))
    """
    divisors = [n for n in range(1, math.isqrt(count) + 1) if count % n == 0]
    divisors += [count // n for n in divisors]
    triples = ((a, b, count // (a * b)) for a in divisors for b in divisors if count % (a * b) == 0)
    a, b, c = sorted(min(triples, key=lambda triple: (sum(triple), triple)))
    return a, b, c


@dataclass(frozen=True)
class TorusGrid:
    """Servers of boxes of GPUs, in whole cubes that go around, or in a part of one that does not.

    Attributes
    ----------
    shape
        GPUs along x, y and z.
    box
        GPUs of a server along each.
    twisted
        Whether the links that go around short lines are twisted.
    """

    shape: Triple
    box: Triple
    twisted: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of all servers."""
        return math.prod(self.shape)

    @property
    def cubes(self) -> int:
        """Whole cubes; 0 where it is a part of one."""
        return self.gpus // CUBE

    @property
    def goes_around(self) -> bool:
        """Whether the last GPU of a line is joined to its first: from one cube on."""
        return self.cubes > 0

    @property
    def size(self) -> Triple:
        """Servers along each dimension."""
        x, y, z = (edge // side for edge, side in zip(self.shape, self.box, strict=True))
        return x, y, z

    @property
    def can_twist(self) -> bool:
        """Whether it goes around and has edges of two lengths, one twice the other."""
        short, long = min(self.shape), max(self.shape)
        return self.goes_around and long == 2 * short and set(self.shape) == {short, long}

    def _shift(self, axis: int) -> Triple:
        """By how many servers the link that goes around a line is twisted."""
        longest = max(self.shape)
        if not self.twisted or self.shape[axis] == longest:
            return 0, 0, 0
        x, y, z = (
            count // 2 if edge == longest else 0
            for edge, count in zip(self.shape, self.size, strict=True)
        )
        return x, y, z

    @property
    def servers(self) -> int:
        """How many there are."""
        return math.prod(self.size)

    @property
    def links(self) -> Triple:
        """Parallel links from a server to the next one, along each dimension: a face of its box."""
        x, y, z = self.box
        return y * z, x * z, x * y

    @property
    def ends_per_server(self) -> int:
        """Links that leave a server inside the torus: two faces in each dimension."""
        return 2 * sum(self.links)

    @property
    def optical(self) -> int:
        """Links through circuit switches: 16 in each of three directions for each cube."""
        return 3 * FACE * self.cubes

    @property
    def electrical(self) -> int:
        """Links between servers of one cube."""
        counts = self._inside
        across = (
            math.prod(counts) // count * (count - 1) * links
            for count, links in zip(counts, self.links, strict=True)
        )
        return sum(across) * max(1, self.cubes)

    @property
    def _inside(self) -> Triple:
        """Servers of a cube, or of the part of one, along each dimension."""
        if not self.goes_around:
            return self.size
        x, y, z = (EDGE // side for side in self.box)
        return x, y, z

    @cached_property
    def places(self) -> list[Triple]:
        """Where each server is, by its number."""
        x_size, y_size, z_size = inside = self._inside
        cubes = (count // side for count, side in zip(self.size, inside, strict=True))
        return [
            (a * x_size + x, b * y_size + y, c * z_size + z)
            for a, b, c in _in_order(*cubes)
            for x, y, z in _in_order(*inside)
        ]

    @cached_property
    def numbers(self) -> dict[Triple, int]:
        """The number of the server at each place."""
        return {place: number for number, place in enumerate(self.places)}

    def circuits(self) -> dict[tuple[int, int], int]:
        """Return the links of each pair of servers, lower number first.

        Around a line of two servers the link that goes around joins them a second time; a line of
        one server joins nothing, unless it is twisted.
        """
        counts: dict[tuple[int, int], int] = {}
        for number, place in enumerate(self.places):
            for axis, length in enumerate(self.size):
                if place[axis] + 1 == length and not self.goes_around:
                    continue
                other = self.numbers[self._next(place, axis, 1)]
                if other == number:
                    continue
                pair = (min(number, other), max(number, other))
                counts[pair] = counts.get(pair, 0) + self.links[axis]
        return counts

    def routes(self, source: int, target: int) -> list[list[int]]:
        """Return the ways from one server to another, equal parts of the bytes each."""
        start, end = self.places[source], self.places[target]
        x, y, z = (to - at for at, to in zip(start, end, strict=True))
        ways = []
        for steps in self._shortest((x, y, z)):
            way = [start]
            for axis, count in enumerate(steps):
                for _ in range(abs(count)):
                    way.append(self._next(way[-1], axis, 1 if count > 0 else -1))
            ways.append(tuple(self.numbers[place] for place in way))
        # around two servers both ways are the same links
        return [list(way) for way in dict.fromkeys(ways)]

    def _next(self, place: Triple, axis: int, step: int) -> Triple:
        """The place a step up or down a line, which goes around."""
        moved = place[axis] + step
        if 0 <= moved < self.size[axis]:
            return _with(place, axis, moved)
        moves = zip(_with(place, axis, moved), self._shift(axis), self.size, strict=True)
        x, y, z = ((at + step * shift) % length for at, shift, length in moves)
        return x, y, z

    def _shortest(self, apart: Triple) -> list[Triple]:
        """Steps along x, y and z that lead so far, as few as there are; upward ones first."""
        if not self.goes_around:
            return [apart]
        if apart not in self._found:
            # what leads nowhere: around a line, and back by what that is twisted
            around = np.diag(self.size) - np.array([self._shift(axis) for axis in range(3)])
            turns = np.array(list(itertools.product(range(-2, 3), repeat=3)))
            all_steps = [(x, y, z) for x, y, z in (apart + turns @ around).tolist()]
            fewest = min(sum(map(abs, steps)) for steps in all_steps)
            few = {steps for steps in all_steps if sum(map(abs, steps)) == fewest}
            self._found[apart] = sorted(few, reverse=True)
        return self._found[apart]

    @cached_property
    def _found(self) -> dict[Triple, list[Triple]]:
        return {}

    def in_snake(self, servers: Iterable[int]) -> list[int]:
        """Return servers in the order of a way that passes all places and turns at the edges."""
        x_size, y_size, _ = self.size

        def rank(server: int) -> Triple:
            x, y, z = self.places[server]
            y = y if z % 2 == 0 else y_size - 1 - y
            x = x if (z * y_size + y) % 2 == 0 else x_size - 1 - x
            return z, y, x

        return sorted(servers, key=rank)


def _in_order(x_size: int, y_size: int, z_size: int) -> Iterator[Triple]:
    """All places of a box, x first."""
    places = itertools.product(range(z_size), range(y_size), range(x_size))
    return ((x, y, z) for z, y, x in places)


def _with(triple: Triple, axis: int, value: int) -> Triple:
    changed = [*triple]
    changed[axis] = value
    x, y, z = changed
    return x, y, z
