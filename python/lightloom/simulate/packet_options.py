"""How packets are sent where they are the network model of a step."""

from __future__ import annotations

from dataclasses import dataclass


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
    exact
        Whether all of a whole step is simulated, in one network, however often flows that may meet
        begin alike.
    full
        Whether a whole step may run as packets whatever its size.
    """

    transport: str = "dctcp"
    mtu_bytes: int | None = None
    queue_bytes: int | None = None
    seed: int = 1
    exact: bool = False
    full: bool = False
