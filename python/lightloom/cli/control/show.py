"""How changes and regions are printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from lightloom.units import show_things, show_time

if TYPE_CHECKING:
    from lightloom.control.change import RegionChange
    from lightloom.control.controller import RegionController
    from lightloom.control.journal import JournalEntry
    from lightloom.control.optics import LossBudget
    from lightloom.control.report import ChangeReport

#: circuits that are listed in one line
_MAX_LISTED = 12


def region_line(controller: RegionController) -> str:
    """What a region is, and its state."""
    ports = controller.port_map
    nics = sum(ports.nics_per_server)
    text = (
        f"{controller.region.name}: {controller.state}; {len(ports.servers)} servers, {nics} NICs "
        f"on {', '.join(ports.switches)}; {show_things(len(controller.held), 'circuit')} held"
    )
    return f"{text}; drift: {controller.drift}" if controller.drift else text


def change_lines(change: RegionChange, light: Iterable[LossBudget] | None = None) -> Iterator[str]:
    """A change in a few lines, with the light of its circuits where that was asked for."""
    if change.is_empty:
        stay = "stays" if len(change.unchanged) == 1 else "stay"
        yield f"nothing changes: {show_things(len(change.unchanged), 'circuit')} {stay}"
        return
    yield _listed("create", change.creates)
    yield _listed("move", [f"{before} to {after}" for before, after in change.moved])
    yield _listed("delete", change.deletes)
    yield f"  unchanged {len(change.unchanged):4}"
    if change.replaced:
        yield _listed("replace", change.replaced)
    yield f"  expected time {show_time(change.expected_s)}"
    if light is not None:
        yield from _light_lines(light)


def _listed(verb: str, things: Iterable[object]) -> str:
    texts = [str(thing) for thing in things]
    shown = texts[:_MAX_LISTED] + ["..."] * (len(texts) > _MAX_LISTED)
    return f"  {verb:9} {len(texts):4}  {'  '.join(shown)}".rstrip()


def _light_lines(light: Iterable[LossBudget]) -> Iterator[str]:
    measured = [reading for reading in light if reading.output_dbm is not None]
    if not measured:
        yield "  light     not measured"
        return
    weakest = min(measured, key=lambda one: one.output_dbm or 0.0)
    yield (
        f"  light     {weakest.output_dbm:+.1f} dBm at the weakest receiver "
        f"({weakest.placed}, {weakest.verdict})"
    )


def report_lines(report: ChangeReport) -> Iterator[str]:
    """What came of a change."""
    seconds = sum(report.timings.values())
    number = "" if report.number is None else f" (change {report.number})"
    circuits = show_things(len(report.after), "circuit")
    yield f"{report.result}{number} in {show_time(seconds)}: {circuits}"
    for circuit, problem in sorted(report.failed.items()):
        yield f"  {circuit}: {problem}"


def entry_line(entry: JournalEntry) -> str:
    """A line of the journal."""
    from datetime import UTC, datetime

    intent, reason = entry.intent, entry.intent.reason
    at = datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S")
    result = "open" if entry.outcome is None else entry.outcome.result
    created = len(intent.wanted - intent.before)
    deleted = len(intent.before - intent.wanted)
    place = [
        f"{name} {value}"
        for name, value in (("job", reason.job), ("step", reason.step), ("layer", reason.layer))
        if value is not None
    ]
    seconds = "" if entry.outcome is None else show_time(sum(entry.outcome.timings.values()))
    why = "; ".join([*place, reason.text])
    return (
        f"{entry.id:6}  {at}  {intent.kind:9} {result:22} +{created} -{deleted}  {seconds:>8}  "
        f"{reason.who}: {why}"
    ).rstrip(" :")
