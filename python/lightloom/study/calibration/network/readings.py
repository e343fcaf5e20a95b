"""What a tool measured on a cluster: times of one collective among some GPUs, by size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.errors import InputError

Test = Literal[
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "broadcast",
    "all-to-all",
    "send-receive",
    "dispatch",
    "combine",
]
Tier = Literal["inside servers", "between servers"]
#: collectives whose GPUs gather or reduce over rings
RINGS: tuple[Test, ...] = ("all-reduce", "all-gather", "reduce-scatter", "broadcast")
#: collectives whose GPUs send to each other; of the last two, a token once to a server
COPIES: tuple[Test, ...] = ("all-to-all", "dispatch", "combine")
#: sizes of a collective that say enough, and the largest over the smallest of them
SIZES, SPAN = 3, 8
#: bytes of a buffer from which sizes are fitted
SMALLEST = 256 << 10
#: rows of one file
MAX_ROWS = 10_000


@dataclass(frozen=True)
class MeasuredSize:
    """One measured size.

    Attributes
    ----------
    size_bytes
        Buffer of a GPU, as NCCL's tests count it; of tokens, those of a GPU that go once to each
        server (to each GPU of a single one).
    time_s
        What it took.
    """

    size_bytes: float
    time_s: float


@dataclass(frozen=True)
class Servers:
    """Where GPUs are: how many take part, and how many of them a server has."""

    gpus: int
    gpus_per_server: int

    @property
    def tier(self) -> Tier:
        """What limits a collective among them."""
        return "inside servers" if self.gpus <= self.gpus_per_server else "between servers"

    def __str__(self) -> str:
        count = -(-self.gpus // self.gpus_per_server)
        return f"{self.gpus} GPUs in {count} server{'s' * (count > 1)}"


@dataclass(frozen=True)
class TokenShape:
    """The tokens of a dispatch and combine.

    Attributes
    ----------
    tokens, hidden
        Tokens of a GPU, and elements of each.
    experts, top_k, top_groups
        Experts, those of a token, and how many servers they are on at most.
    element_bytes
        Bytes of an element.
    """

    tokens: int
    hidden: int
    experts: int
    top_k: int
    top_groups: int
    element_bytes: float


@dataclass(frozen=True)
class Reading:
    """Times of one collective by size.

    Attributes
    ----------
    name
        Of the file and what was measured, for tables.
    test
        What was measured.
    servers
        Among which GPUs.
    points
        Sizes in ascending order.
    tokens
        Of a dispatch or combine.
    any_sizes
        Whether sizes are those that were there, as in a step; few of them say nothing of start-ups.
    is_ring
        Whether it says that rings were forced, or switches kept from adding up.
    """

    name: str
    test: Test
    servers: Servers
    points: tuple[MeasuredSize, ...]
    tokens: TokenShape | None = None
    any_sizes: bool = False
    is_ring: bool = False

    @property
    def tells_start_up(self) -> bool:
        """Whether there are sizes enough, and of enough difference, to tell a start-up."""
        points = self.points
        return len(points) >= SIZES and points[-1].size_bytes >= SPAN * points[0].size_bytes


@dataclass(frozen=True)
class Given:
    """What a user says of files that do not say it: GPUs, and GPUs of a server."""

    gpus: int | None = None
    gpus_per_server: int | None = None

    def servers(self, name: str, default_per_server: int) -> Servers:
        """The servers of a file that names none.

        Raises
        ------
        InputError
            If the number of GPUs is not given.
        """
        if self.gpus is None:
            raise InputError(f"{name}: does not say on how many GPUs it ran; add --gpus N")
        return placed(self.gpus, self.gpus_per_server or default_per_server, name)


def placed(gpus: int, gpus_per_server: int, name: str) -> Servers:
    """GPUs on servers of a size, all of them full where there are several.

    Raises
    ------
    InputError
        If fewer than two take part, or the last server would be used in part.
    """
    if gpus < 2:
        raise InputError(f"{name}: is of {gpus} GPU; expected two or more")
    if gpus > gpus_per_server and gpus % gpus_per_server:
        raise InputError(
            f"{name}: {gpus} GPUs do not fill servers of {gpus_per_server}; give the GPUs of a "
            "server that took part with --gpus-per-server"
        )
    return Servers(gpus, gpus_per_server)
