"""How packets are sent where they are the network model of a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lightloom.errors import InputError


@dataclass(frozen=True)
class Packets:
    """How packets are sent.

    Attributes
    ----------
    transport
        ``ideal`` (line rate, endless queues), ``roce``, ``dctcp``, ... with the sizes, queues and
        thresholds that its reference has.
    mtu_bytes
        Payload of a full packet, if another than the transport's.
    queue_bytes
        Data that a port queues, if another than the transport's.
    seed
        Of the hashes that spread flows over paths, and of random choices in queues.
    repeats
        ``once``: what happens several times alike in a whole step is simulated once. ``each``:
        every time, with the same result; flows that may meet are in a network of their own.
        ``together``: all flows in one network.
    plane_failure
        The plane that fails, of a fabric whose NICs spray packets over several, when, when it works
        again if ever, and how long until all switches know of either, in picoseconds. All flows
        are then in one network.
    record
        Whether the flows of a whole step are kept, and what they waited for: with ``repeats`` of
        ``together``, as they are played again in one network.
    full
        Whether a whole step may run as packets whatever its size.
    """

    transport: str = "dctcp"
    mtu_bytes: int | None = None
    queue_bytes: int | None = None
    seed: int = 1
    repeats: Literal["once", "each", "together"] = "once"
    plane_failure: tuple[int, int, int | None, int] | None = None
    full: bool = False
    record: bool = False

    def __post_init__(self) -> None:
        if self.record and self.repeats != "together":
            raise InputError(
                f"packets.record keeps a step of which all flows are in one network: set "
                f"packets.repeats=together instead of {self.repeats}"
            )
