"""What relaying over a third server costs, from ``data/relay.toml`` where the user does not say."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from importlib import resources

from lightloom.errors import InputError, echo
from lightloom.hardware.values import Provenance, Source, Table, Value, parse_table, resolve
from lightloom.schedule.requests import RelayCharges
from lightloom.units import parse_quantity, to_bps, to_ps

#: sizes and times are whole numbers of 64 bits in the core
_MAX_BYTES = 2**62
_MAX_GBPS = 1e9
_MAX_SECONDS = 1e6


class RelayTable(Table):
    """The values of the file."""

    nvswitch_gbps: Value
    chunk_bytes: Value
    chunk_latency_s: Value


class RelayFile(Table):
    """The file."""

    sources: dict[str, Source]
    relay: RelayTable


@functools.cache
def relay_defaults() -> dict[str, Provenance]:
    """Return each assumption by its name, with its source."""
    text = resources.files(__package__).joinpath("data/relay.toml").read_text(encoding="utf-8")
    file = parse_table(text, RelayFile, "relay.toml")
    values = {name: getattr(file.relay, name) for name in RelayTable.model_fields}
    return resolve(values, file.sources)


def _default(name: str) -> float:
    return relay_defaults()[name].value


@dataclass(frozen=True)
class RelayCost:
    """What a server pays for passing bytes on.

    A relayed byte lands in the memory of the GPU whose NIC took it in and crosses the NVSwitch
    once, to the GPU whose NIC sends it on. Bytes are passed on in chunks: a chunk must have
    arrived and have been staged before it goes on. Chunks follow each other without gaps, so of
    their latency only that of the first one shows.

    Attributes
    ----------
    nvswitch_gbps
        Rate at which one server can stage, per direction, a number or text such as
        ``"28.8 Tb/s"``; infinite for no limit.
    chunk_bytes
        Size of a chunk.
    chunk_latency_s
        Time to notice a chunk and to start its copy and its sending; a number or text such as
        ``"10 us"``.
    memory_limit_bytes
        Most bytes that one server may relay (without pacing, all may arrive before any leaves);
        no limit if None.

    Raises
    ------
    InputError
        If a value is out of range.
    """

    nvswitch_gbps: float | str = field(default_factory=lambda: _default("nvswitch_gbps"))
    chunk_bytes: int = field(default_factory=lambda: int(_default("chunk_bytes")))
    chunk_latency_s: float | str = field(default_factory=lambda: _default("chunk_latency_s"))
    memory_limit_bytes: int | None = None

    def __post_init__(self) -> None:
        gbps = self._staging_gbps()
        if not 0 < gbps <= _MAX_GBPS and gbps != math.inf:
            raise InputError(
                f"nvswitch_gbps: expected above 0 to {_MAX_GBPS:g} Gb/s, or infinity, "
                f"got {echo(self.nvswitch_gbps)}"
            )
        if not 0 <= self._latency_s() <= _MAX_SECONDS:
            raise InputError(
                f"chunk_latency_s: expected 0 to {_MAX_SECONDS:g} s, "
                f"got {echo(self.chunk_latency_s)}"
            )
        for name in ("chunk_bytes", "memory_limit_bytes"):
            size = getattr(self, name)
            whole = isinstance(size, int) and not isinstance(size, bool)
            absent = size is None and name == "memory_limit_bytes"
            if not absent and not (whole and 0 <= size <= _MAX_BYTES):
                raise InputError(
                    f"{name}: expected a whole number from 0 to 2^62, got {echo(size)}"
                )

    @staticmethod
    def free() -> RelayCost:
        """Return the cost of relaying that costs nothing: what linear programs assume."""
        return RelayCost(math.inf, 0, 0.0)

    def _staging_gbps(self) -> float:
        if isinstance(self.nvswitch_gbps, float) and self.nvswitch_gbps == math.inf:
            return math.inf
        return parse_quantity(self.nvswitch_gbps, "gigabit / second", "nvswitch_gbps")

    def _latency_s(self) -> float:
        return parse_quantity(self.chunk_latency_s, "second", "chunk_latency_s")

    def charges(self) -> RelayCharges:
        """Return the values for the core."""
        gbps = self._staging_gbps()
        staging = None if math.isinf(gbps) else max(1, to_bps(gbps))
        return RelayCharges(
            staging, self.chunk_bytes, to_ps(self._latency_s()), self.memory_limit_bytes
        )
