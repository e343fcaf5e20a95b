"""Comparisons of fabrics whose communication phases are simulated as packets.

A whole step of packets takes too long. Every fabric has a cache of the communication phases that
its runs meet; each distinct phase is simulated once, and flows are stretched to what it takes, see
:class:`lightloom.simulate.Phases`. How long that takes is known once all runs were simulated as
flows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from lightloom.errors import InputError
from lightloom.fabric.network import Crossbars
from lightloom.simulate import Packets, Phases
from lightloom.study.compare.builds import Networks
from lightloom.study.compare.job import Job
from lightloom.study.compare.scenario import Scenario, packet_options
from lightloom.units import show_time

#: data-packet-hops per second and core, on the safe side; a fabric is on one core
RATE_PER_S = 2_000_000
#: seconds beyond which a comparison has to be asked for
LONG_S = 600.0


def phases_by_fabric(job: Job, networks: Networks) -> dict[str, Phases]:
    """The phases of each fabric; none for flows, and none of circuits that take turns.

    Variants of a fabric differ in when circuits are chosen, not in what carries packets, and share
    its phases. A circuit of its own has no queue: packets take the time over it that flows take.
    """
    options = packet_options(job.scenario)
    if options is None:
        return {}
    packets = Packets(
        options.transport, options.mtu_bytes, options.queue_bytes, seed=job.scenario.seed
    )
    built = {fabric.name: networks.get(fabric) for fabric in job.fabrics}
    return {
        name: Phases(network, packets, options.phases)
        for name, network in built.items()
        if network.part(Crossbars) is None
    }


def predicted_s(phases: Mapping[str, Phases]) -> float:
    """About how long the phases to simulate take, in seconds."""
    hops = [each.pending[1] for each in phases.values()]
    cores = max(1, min(os.cpu_count() or 1, len(hops)))
    return max([sum(hops) / cores, *hops]) / RATE_PER_S


def roughly(seconds: float) -> str:
    """Text for a time that is but a guess."""
    for span, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * span:
            return f"{seconds / span:,.0f} {name}"
    return show_time(seconds, 2)


def prediction(phases: Mapping[str, Phases]) -> str:
    """What is going to be simulated, and about how long that takes."""
    pending = sum(each.pending[0] for each in phases.values())
    distinct = sum(c.distinct for each in phases.values() for c in each.counts().values())
    hops = sum(each.pending[1] for each in phases.values())
    sampled = f"{pending:,} of " if pending < distinct else ""
    return (
        f"packets: {sampled}{distinct:,} distinct phases, {hops / 1e6:,.1f} million packet-hops,"
        f" about {roughly(predicted_s(phases))}"
    )


def check_size(scenario: Scenario, phases: Mapping[str, Phases]) -> None:
    """Refuse what takes too long, unless it was asked for.

    Raises
    ------
    InputError
        If it takes over ten minutes.
    """
    options = packet_options(scenario)
    if options is None or options.full or predicted_s(phases) <= LONG_S:
        return
    raise InputError(
        f"{prediction(phases)}: give --phases 5 to simulate 5 of each purpose and fabric,"
        " fewer fabrics or seeds, or --full to go on"
    )


def packets_of(scenario: Scenario, phases: Phases | None, step_flow_s: float) -> dict[str, Any]:
    """What was simulated as packets for a fabric, as plain values; empty for flows."""
    options = packet_options(scenario)
    if options is None or phases is None:
        return {}
    return {
        "transport": options.transport,
        "mtu_bytes": phases.mtu_bytes,
        "step_time_as_flows_s": step_flow_s,
        "phases": {
            name: {
                "distinct": count.distinct,
                "simulated": count.simulated,
                "stretch": count.mean,
                "stretch_interval": [count.minimum, count.maximum],
                "packet_hops": count.packet_hops,
            }
            for name, count in phases.counts().items()
        },
    }


def packets_note(packets: Mapping[str, Any]) -> str:
    """The same in one line."""
    parts = []
    for name, phases in packets["phases"].items():
        low, high = phases["stretch_interval"]
        parts.append(
            f"{name.upper()} {phases['simulated']} of {phases['distinct']} distinct phases, which"
            f" take x{phases['stretch']:.3f} ({low:.3f}-{high:.3f}) of their time as flows"
        )
    return (
        f"packets of {packets['mtu_bytes']:,} B by {packets['transport']}: {', '.join(parts)};"
        f" {show_time(packets['step_time_as_flows_s'])} as flows"
    )
