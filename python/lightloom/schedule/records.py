"""The records that users write; their fields are those of the core.

``records.pyi``, for type checkers, is written by ``tests/unit/schedule/test_records.py``.
"""

from __future__ import annotations

from lightloom import _core
from lightloom.schedule.comparable import Comparable
from lightloom.schedule.record_fields import record, unit_of
from lightloom.schedule.relay_cost import relay_default
from lightloom.units import parse_quantity


@record()
class SwitchTiming:
    """How long a switch takes: the sum of its parts, and nothing if no circuit changes."""

    @classmethod
    def of(cls, timing: SwitchTiming | float | str) -> SwitchTiming:
        """Return a timing as it is; a plain time is that of any switch."""
        if isinstance(timing, SwitchTiming):
            return timing
        return cls(parse_quantity(timing, unit_of("fixed_s"), "timing"))

    def expected_s(self, pairs: int) -> float:
        """Time until circuits carry traffic if this many pairs change; none if none does."""
        return _core.switching_time_s(self, pairs)


@record()
class Failures:
    """Failed parts of a region; a part may be named twice."""

    @property
    def parts(self) -> str:
        """Every part in words, such as ``"server 3, NIC 2/1"`` (server/NIC)."""
        return ", ".join(
            [f"server {server}" for server in self.servers]
            + [f"NIC {server}/{nic}" for server, nic in self.nics]
            + [f"EPS NIC {server}/{nic}" for server, nic in self.eps_nics]
            + [f"plane {plane}" for plane in self.planes]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Every part as :func:`parse_failures` reads it, such as ``"nic:2/1"``."""
        return (
            *(f"server:{server}" for server in self.servers),
            *(f"nic:{server}/{nic}" for server, nic in self.nics),
            *(f"eps:{server}/{nic}" for server, nic in self.eps_nics),
            *(f"plane:{plane}" for plane in self.planes),
        )


# planes and NUMA nodes are arguments of what picks NICs
@record(without=("planes", "numa_nodes"))
class Region(Comparable):
    """The ports of one region and how they may be used.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.Region(ports=6, circuit_gbps="400 Gb/s", eps_gbps=800).circuit_gbps
    400.0
    """


@record()
class Policy:
    """How circuits follow the demand.

    ``allocator`` is a name of ``ALLOCATORS``, ``when`` one of ``WHEN_POLICIES``: ``always``
    and ``per-layer`` follow the allocator, ``break-even`` and ``oracle`` switch where it pays,
    ``never`` keeps what is held.
    """


@record(relay_default)
class RelayCost:
    """What a server pays for passing bytes of others on; by default as the data file says.

    A relayed byte lands in the memory of the GPU whose NIC took it in and crosses the NVSwitch
    once, to the GPU whose NIC sends it on. Bytes are passed on in chunks: a chunk must have
    arrived and have been staged before it goes on. Chunks follow each other without gaps, so of
    their latency only that of the first one shows.
    """

    @classmethod
    def free(cls) -> RelayCost:
        """Return the cost of relaying that costs nothing: what linear programs assume."""
        return cls(float("inf"), 0, 0.0)
