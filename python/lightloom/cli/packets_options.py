"""Options of ``lightloom packets`` that are no keys of a scenario."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.inputs.strict import File, Name, Strict, Whole

EXAMPLES = (
    "lightloom packets --hosts 128 --rate 100 --transport ndp --pattern permutation --bytes 2MB",
    "lightloom packets --hosts 1024 --rate 100 --transport ndp --flows flows.csv --csv out.csv",
    "lightloom packets --hosts 64 --rate 100,400 --transport roce,ndp --pattern permutation "
    "--bytes 1MB",
    "lightloom packets --hosts 16 --rate 100 --transport roce --programs ring.goal",
    "lightloom packets --scenario examples/packets.toml --set queue.size_bytes=1MB --html a.html",
)


class Shortcuts(Strict):
    """Options that are several keys of a scenario, or one that depends on the transport."""

    scenario: File | None = Field(
        None,
        description="Scenario file (TOML) to start from; options given as well replace it.",
    )
    ecn: Name | None = Field(
        None,
        description="Mark packets from a queue of MIN, with probability P at MAX, and always above "
        "it; one SIZE for both; on or off.",
    )
    pfc: Name | None = Field(
        None,
        description="Pause the sender of a link above PAUSE buffered bytes until below RESUME; on "
        "or off.",
    )
    initial_window: Annotated[Whole, Field(le=2**32 - 1)] | None = Field(
        None, description="Packets of a flow that are sent before the first acknowledgment."
    )
    paths: Annotated[Whole, Field(le=2**16 - 1)] | None = Field(
        None, description="Number of paths that the packets of a flow are sprayed over."
    )
    set: tuple[str, ...] = Field(
        (), description="Any key of a scenario file, such as transport.gain=0.05; repeatable."
    )


class EventOptions(Strict):
    """Which events of packets are recorded."""

    max_events: Whole | None = Field(
        None, description="Number of events recorded, from the first; 100000 by default."
    )
    events_flow: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        None, description="Index of the only flow whose events are recorded; the first is 0."
    )
