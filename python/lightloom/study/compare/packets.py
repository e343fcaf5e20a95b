"""Comparisons of fabrics as packets: whole steps where these are small, else their phases.

All runs are simulated as flows first, which tells how many packet-hops they are. Small ones are
then simulated whole, with all that runs at the same time. Of others each distinct communication
phase is simulated alone, and flows are stretched to what it takes, see
:class:`lightloom.simulate.Phases`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from lightloom.errors import InputError, echo
from lightloom.fabric.network import (
    Crossbars,
    Eps,
    Network,
    RackCircuits,
    Scheduled,
    SwitchGraph,
)
from lightloom.packets.failures import DETECTION_S, parse_failure
from lightloom.simulate import Packets, Phases, Run
from lightloom.study.compare.builds import Networks
from lightloom.study.compare.job import Job
from lightloom.study.compare.scenario import PacketOptions, Scenario, packet_options
from lightloom.units import show_time, to_ps

#: packet-hops per second and core, on the safe side (small networks take 15 million); the phases of
#: a fabric are on one core, samples of whole steps may be on several
RATE_PER_S = 5_000_000
#: packet-hops in whose time a flow begins and ends
FLOW_HOPS = 10
#: seconds beyond which a comparison has to be asked for
LONG_S = 600.0
#: packet-hops to simulate up to which steps are simulated whole, unless asked otherwise: 2 minutes
WHOLE_HOPS = 120 * RATE_PER_S


def packets_like(scenario: Scenario) -> Packets:
    """How packets are sent; whole steps are as large as they are."""
    options = packet_options(scenario) or PacketOptions()
    sizes = options.mtu_bytes, options.queue_bytes
    return Packets(
        options.transport,
        *sizes,
        seed=scenario.seed,
        repeats=_repeats(options),
        record=options.record is not None,
        plane_failure=_plane_failure(options),
        full=True,
    )


def _plane_failure(options: PacketOptions) -> tuple[int, int, int | None, int] | None:
    """Which plane fails, when, when it works again and how long until switches know.

    Raises
    ------
    InputError
        If it is not written as it should be, or phases are simulated, which have no time.
    """
    if options.plane_failure is None:
        return None
    plane, start_s, span_s = parse_failure(options.plane_failure)
    if not plane.isdecimal() or len(plane) > 3:
        raise InputError(f"plane_failure {echo(options.plane_failure)}: expected such as 1@2ms")
    if options.phases != "whole":
        raise InputError("plane_failure is for whole steps as packets; add --phases whole")
    repaired_ps = None if span_s is None else to_ps(start_s + span_s)
    return int(plane), to_ps(start_s), repaired_ps, to_ps(DETECTION_S)


def _repeats(options: PacketOptions) -> Literal["once", "each", "together"]:
    """What is simulated of what repeats: what is recorded is played again in one network."""
    is_open = options.record is not None and "repeats" not in options.model_fields_set
    return "together" if is_open else options.repeats


def check_recording(scenario: Scenario, *, is_written: bool) -> None:
    """Refuse to record what nobody writes, or what is no whole step.

    Raises
    ------
    InputError
        If so.
    """
    options = packet_options(scenario)
    if options is None or options.record is None:
        return
    if not is_written:
        raise InputError(
            "packets.record is for a comparison at one point, by the command compare or run: leave "
            "it out, or use simulate(..., network_model=Packets(record=True, "
            'repeats="together"))'
        )
    if options.phases not in {None, "whole"} or options.plane_failure is not None:
        raise InputError(
            "packets.record is for whole steps in which nothing fails: leave phases and "
            "plane_failure out"
        )


def _check_recorded(fabric: str, network: Network) -> None:
    if any(not isinstance(part, Eps | SwitchGraph) for part in network.parts):
        raise InputError(
            f"packets.record: {fabric} has circuits, whose changes are no part of a recording; "
            "leave it out of --fabrics"
        )


def phases_by_fabric(job: Job, networks: Networks) -> dict[str, Phases]:
    """The phases of each fabric; none for flows, and none of circuits that take turns.

    Variants of a fabric differ in when circuits are chosen, not in what carries packets, and share
    its phases. A circuit of its own has no queue: packets take the time over it that flows take.

    Raises
    ------
    InputError
        If phases are asked for where circuits change by the clock.
    """
    options = packet_options(job.scenario)
    if options is None:
        return {}
    packets, by_fabric = packets_like(job.scenario), {}
    for fabric in job.fabrics:
        network = networks.get(fabric)
        if options.record is not None:
            _check_recorded(fabric.name, network)
        if network.part(Crossbars) is not None:
            continue
        sample = options.phases if isinstance(options.phases, int) else None
        if options.phases == "whole" or options.record or _follows_clock(network):
            if options.phases not in {None, "whole"}:
                raise InputError(
                    f"{fabric.name}: its circuits change by the clock, whatever a phase finds of"
                    " them; give --phases whole, or leave it out"
                )
            by_fabric[fabric.name] = Phases.counting(network, packets)
        else:
            by_fabric[fabric.name] = Phases(network, packets, sample)
    return by_fabric


def _follows_clock(network: Network) -> bool:
    return network.part(RackCircuits) is not None or network.part(Scheduled) is not None


def whole_steps(scenario: Scenario, phases: Mapping[str, Phases]) -> bool:
    """Whether steps are simulated whole, by what was asked for or by their size."""
    options = packet_options(scenario)
    if options is None or options.phases is not None:
        return options is not None and options.phases == "whole"
    counted = any(each.only_counts for each in phases.values())
    hops = sum(_whole_hops(each, options) for each in phases.values())
    return counted or options.record is not None or hops <= WHOLE_HOPS


def _whole_hops(phases: Phases, options: PacketOptions) -> int:
    """About how many packet-hops of whole steps are simulated."""
    return phases.placed_hops if _repeats(options) == "once" else phases.all_hops


def predicted_s(
    phases: Mapping[str, Phases], options: PacketOptions, *, whole: bool = False
) -> float:
    """About how long the phases to simulate take, or the whole steps, in seconds."""
    hops = [_whole_hops(each, options) if whole else each.pending[1] for each in phases.values()]
    work = [_work(each, count) for each, count in zip(phases.values(), hops, strict=True)]
    cores = max(1, min(os.cpu_count() or 1, len(work)))
    return max([sum(work) / cores, *work]) / RATE_PER_S


def _work(phases: Phases, hops: int) -> float:
    """So many of the packet-hops and their share of the flows, in packet-hops."""
    return hops * (1 + FLOW_HOPS * phases.all_flows / max(1, phases.all_hops))


def roughly(seconds: float) -> str:
    """Text for a time that is but a guess."""
    for span, name in ((3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2 * span:
            return f"{seconds / span:,.0f} {name}"
    return show_time(seconds, 2)


def prediction(phases: Mapping[str, Phases], options: PacketOptions, *, whole: bool = False) -> str:
    """What is going to be simulated, and about how long that takes."""
    expected = f"about {roughly(predicted_s(phases, options, whole=whole))}"
    if whole:
        hops = sum(each.all_hops for each in phases.values())
        simulated = sum(_whole_hops(each, options) for each in phases.values())
        repeats = (
            "" if simulated == hops else f", about {simulated / 1e6:,.1f} of which are simulated"
        )
        return f"packets: whole steps, {hops / 1e6:,.1f} million packet-hops{repeats}, {expected}"
    pending = sum(each.pending[0] for each in phases.values())
    distinct = sum(c.distinct for each in phases.values() for c in each.counts().values())
    hops = sum(each.pending[1] for each in phases.values())
    sampled = f"{pending:,} of " if pending < distinct else ""
    return (
        f"packets: {sampled}{distinct:,} distinct phases, each alone, {hops / 1e6:,.1f} million"
        f" packet-hops, {expected}"
    )


def instead(phases: Mapping[str, Phases], options: PacketOptions, *, whole: bool = False) -> str:
    """What phases leave out, where nobody asked for them."""
    if whole or options.phases is not None:
        return ""
    longer = roughly(predicted_s(phases, options, whole=True))
    return f"; --phases whole, about {longer}, has the queues in which phases meet as well"


def check_size(scenario: Scenario, phases: Mapping[str, Phases], *, whole: bool = False) -> None:
    """Refuse what takes too long, unless it was asked for.

    Raises
    ------
    InputError
        If it takes over ten minutes.
    """
    options = packet_options(scenario)
    if options is None or options.full:
        return
    if predicted_s(phases, options, whole=whole) <= LONG_S:
        return
    less = "--phases 5 to simulate 5 of each purpose and fabric, fewer fabrics or seeds"
    if whole:
        by_clock = options.phases is None
        less = "fewer layers, fabrics or seeds" if by_clock else "--phases all for phases alone"
    raise InputError(f"{prediction(phases, options, whole=whole)}: give {less}, or --full to go on")


def packets_of(
    scenario: Scenario, phases: Phases | None, run: Run, step_s: float, step_flow_s: float
) -> dict[str, Any]:
    """What was simulated as packets for a fabric, as plain values; empty for flows.

    ``run`` is that of the first sample, the times are of the mean step, with packets and as flows.
    """
    options = packet_options(scenario)
    if options is None or phases is None:
        return {}
    counts = phases.counts()
    alone = {
        name: {
            "distinct": count.distinct,
            "simulated": count.simulated,
            "stretch": count.mean,
            "stretch_interval": [count.minimum, count.maximum],
            "packet_hops": count.packet_hops,
        }
        for name, count in counts.items()
        if count.simulated
    }
    is_whole = run.packet_hops > 0
    hops = sum(count.packet_hops for count in counts.values())
    return {
        "transport": options.transport,
        "mtu_bytes": phases.mtu_bytes,
        "simulated": "whole" if is_whole else "phases",
        "step_time_as_flows_s": step_flow_s,
        "longer_share": step_s / step_flow_s - 1,
        "packet_hops": run.packet_hops or hops,
        "simulated_packet_hops": run.simulated_packet_hops or hops,
        "phases": {} if is_whole else alone,
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
    if packets["simulated"] == "whole":
        hops, simulated = packets["packet_hops"], packets["simulated_packet_hops"]
        part = "" if simulated == hops else f", {simulated / hops:.1%} of which do not repeat"
        parts.append(f"a whole step of {hops / 1e6:,.1f} million packet-hops{part}")
    return (
        f"packets of {packets['mtu_bytes']:,} B by {packets['transport']}:"
        f" {', '.join(parts) or 'nothing to send between servers'};"
        f" {show_time(packets['step_time_as_flows_s'])} as flows"
    )
