"""The journal of a region as one HTML page: its circuits, and what changed them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from lightloom import __version__
from lightloom.control.journal import JournalEntry, entry_as_json
from lightloom.control.port_map import NicPair
from lightloom.output.files import write_text
from lightloom.report.grid import Grid
from lightloom.report.page_template import files_of, render_page
from lightloom.report.plots_circuits import chord_drawing, circuits_text, matrix_drawing
from lightloom.units import show_things


def write_control_page(
    region: str,
    servers: Sequence[str],
    pairs: Collection[NicPair],
    entries: Sequence[JournalEntry],
    path: Path,
    command: str = "",
) -> None:
    """Write the page; ``path`` appears only when it is whole.

    Parameters
    ----------
    region
        Name of the region.
    servers
        Names of its servers, in the order of their indices.
    pairs
        The circuits that it has.
    entries
        Changes, the newest first.
    path
        The file.
    command
        What made it, for the reader to copy.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_control(region, servers, pairs, entries, command), path)


def render_control(
    region: str,
    servers: Sequence[str],
    pairs: Collection[NicPair],
    entries: Sequence[JournalEntry],
    command: str = "",
) -> str:
    """Text of the page."""
    matrix = np.zeros((len(servers), len(servers)), dtype=np.int64)
    for circuit in pairs:
        one, other = circuit.servers
        matrix[one, other] += 1
        matrix[other, one] += 1
    failed = [entry for entry in entries if _result(entry) not in {"done", "unchanged"}]
    last = "No change so far" if not entries else f"Last change: {_time(entries[0].at)}"
    wrong = show_things(len(failed), "change")
    verdict = [f"{last}; {wrong} of {len(entries):,} not done as wanted."]
    content = {"region": region, "changes": [entry_as_json(entry) for entry in entries]}
    labels = list(servers)
    context: dict[str, Any] = {
        "version": __version__,
        "title": f"{region}: {show_things(len(pairs), 'circuit')} between "
        f"{show_things(len(servers), 'server')}",
        "heading": "Circuits by the journal; the switches are not read: "
        "lightloom control watch does that",
        "verdict": verdict,
        "command": command,
        "files": files_of("changes", content, [], ""),
        "tables": [_changes(entries)] if entries else [],
        "circuits": matrix_drawing(matrix, labels, circuits_text, "circuits", "fabric-4 cells"),
        "chords": chord_drawing(
            matrix, [str(number) for number in range(len(servers))], "Circuits", "fabric-4"
        ),
    }
    return render_page("control.html", context)


def _changes(entries: Sequence[JournalEntry]) -> Grid:
    rows: list[list[str | float]] = []
    for entry in entries:
        intent, outcome = entry.intent, entry.outcome
        reason = intent.reason
        seconds = "-" if outcome is None else sum(outcome.timings.values())
        why = [
            f"{name} {value}"
            for name, value in (("job", reason.job), ("step", reason.step), ("layer", reason.layer))
            if value is not None
        ]
        wrong = {} if outcome is None else outcome.failed
        rows.append(
            [
                f"{entry.id}",
                _time(entry.at),
                intent.kind,
                _result(entry),
                f"{len(intent.wanted - intent.before):,}",
                f"{len(intent.before - intent.wanted):,}",
                seconds,
                reason.who,
                "; ".join([*why, *([reason.text] if reason.text else [])]),
                "; ".join(f"{circuit}: {problem}" for circuit, problem in wrong.items()) or "-",
            ]
        )
    names = ("change", "at (UTC)", "kind", "result", "created", "deleted")
    headers = [*((name, "") for name in names), ("took", "s")]
    headers += [(name, "") for name in ("by", "why", "what went wrong")]
    return Grid("Changes", headers, rows, -1, "Newest first")


def _result(entry: JournalEntry) -> str:
    return "open" if entry.outcome is None else entry.outcome.result


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")
