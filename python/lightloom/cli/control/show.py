"""How changes and regions are printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from lightloom.control.report import Drift
from lightloom.units import show_things, show_time

if TYPE_CHECKING:
    from lightloom.control.documents import Document
    from lightloom.control.journal import JournalEntry

#: circuits that are listed in one line
_MAX_LISTED = 12
#: remarks on a region among several
_MAX_REMARKS = 3


def region_line(region: Document) -> str:
    """What a region is, and its state."""
    servers, nics = show_things(region["servers"], "server"), show_things(region["nics"], "NIC")
    text = (
        f"{region['name']}: {region['state']}; {servers}, {nics} on "
        f"{', '.join(region['switches'])}; {show_things(len(region['held']), 'circuit')} held"
    )
    if any(region["drift"].values()):
        text += f"; drift: {Drift(**region['drift'])}"
    for name, problem in region["unreachable"].items():
        text += f"; {name} does not answer ({problem})"
    return text


def alarm_lines(alarms: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with light, ports and switches."""
    yield from (f"  alarm: {place} {text}" for place, text in alarms.items())


def rules_lines(changed: str) -> Iterator[str]:
    """What says that files and a service decide otherwise, if they do."""
    if changed:
        yield f"  other rules: {changed}"


def regions_lines(glances: Sequence[Document]) -> Iterator[str]:
    """Several regions as a table, with a row for each; those that cannot be read say why."""
    rows = [("region", "state", "circuits", "missing", "others'", "alarms", "remarks")]
    for glance in glances:
        region = glance["region"]
        if "error" in glance:
            rows.append((region["name"], "not read", "", "", "", "", glance["error"]))
            continue
        drift = region["drift"]
        counts = (
            region["held"],
            drift["missing"],
            [*drift["extra"], *drift["strangers"]],
            glance["alarms"],
        )
        remarks = [f"{name} does not answer" for name in region["unreachable"]]
        remarks += [f"port map has changed: {glance['map_change']}"] if glance["map_change"] else []
        remarks += [f"{place} {text}" for place, text in glance["alarms"].items()]
        numbers = [f"{len(things):,}" for things in counts]
        listed = "; ".join([*remarks[:_MAX_REMARKS], *["..."] * (len(remarks) > _MAX_REMARKS)])
        rows.append((region["name"], region["state"], *numbers, listed))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(width) if 2 <= place < len(row) - 1 else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def change_lines(change: Document) -> Iterator[str]:
    """A change in a few lines, with the light of its circuits."""
    pairs = [*change["creates"], *change["moves"], *change["deletes"], *change["replaced"]]
    if not pairs:
        stay = "stays" if len(change["unchanged"]) == 1 else "stay"
        yield f"nothing changes: {show_things(len(change['unchanged']), 'circuit')} {stay}"
        return
    yield _listed("create", change["creates"])
    yield _listed("move", [f"{move['before']} to {move['after']}" for move in change["moves"]])
    yield _listed("delete", change["deletes"])
    yield f"  unchanged {len(change['unchanged']):4}"
    if change["replaced"]:
        yield _listed("replace", change["replaced"])
    yield f"  expected time {show_time(change['expected_s'])}"
    yield from _light_lines(change["light"])


def _listed(verb: str, things: Sequence[str]) -> str:
    shown = [*things[:_MAX_LISTED], *["..."] * (len(things) > _MAX_LISTED)]
    return f"  {verb:9} {len(things):4}  {'  '.join(shown)}".rstrip()


def _light_lines(light: Sequence[Document]) -> Iterator[str]:
    measured = [budget for budget in light if budget["output_dbm"] is not None]
    if not measured:
        yield "  light     not measured"
        return
    weakest = min(measured, key=lambda budget: float(budget["output_dbm"]))
    yield (
        f"  light     {weakest['output_dbm']:+.1f} dBm at the weakest receiver "
        f"({weakest['cross_connect']}, {weakest['verdict']})"
    )


def plan_lines(document: Document) -> Iterator[str]:
    """A plan: the region, why, and what changes."""
    if "map" in document:
        yield from _map_lines(document)
        return
    yield region_line(document["region"])
    adopts = document.get("adopts")
    if adopts is not None:
        yield f"  adopt     {len(adopts):4}  {'  '.join(adopts)}".rstrip()
        return
    yield document["why"]
    yield from change_lines(document["change"])


def _map_lines(document: Document) -> Iterator[str]:
    """What taking up a port map changes, by names and ports: numbers may change with it."""
    yield document["why"]
    if not document["map"]:
        return
    yield from (f"  {line}" for line in document["map"])
    yield from (f"  delete {line}" for line in document["dark"])
    if unchanged := document["change"]["unchanged"]:
        yield f"  {show_things(len(unchanged), 'circuit')} not touched"


def report_lines(report: Document) -> Iterator[str]:
    """What came of a change."""
    circuits = show_things(len(report["after"]), "circuit")
    if report["result"] == "adopted":
        yield f"adopted: {circuits}"
        return
    seconds = sum(report["timings"].values())
    number = "" if report["number"] is None else f" (change {report['number']})"
    yield f"{report['result']}{number} in {show_time(seconds)}: {circuits}"
    yield from problem_lines(report["failed"])


def problem_lines(failed: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with each circuit."""
    yield from (f"  {circuit}: {problem}" for circuit, problem in failed.items())


def check_done(failed: Mapping[str, str], problem: str, result: str = "") -> None:
    """Let a command fail whose change was not made in full; the circuits are printed before.

    Raises
    ------
    ControlError
        If there are some.
    """
    from lightloom.control.refusals import ControlError

    if failed:
        raise ControlError(f"{problem}: {show_things(len(failed), 'circuit')}{result}; see above")


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
