"""Fitted links as tables of a profile, beside the operators that it may have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from lightloom.errors import HardwareError
from lightloom.fabric.interconnect import LinkProfile
from lightloom.hardware.values import parse_table
from lightloom.inputs.files import MAX_TEXT_BYTES, decode, read_file, shown_path
from lightloom.study.calibration.network.fit import FittedLinks
from lightloom.study.calibration.network.readings import Reading

#: the tables that are written
TABLES = ("sources.network", "nvlink", "network")
_HEAD = re.compile(r"^\s*\[\s*([A-Za-z0-9_.\-\"' ]+?)\s*\]")


def with_links(existing: str, fitted: FittedLinks, readings: Sequence[Reading], date: str) -> str:
    """A profile with fitted links in place of those that it had; what else it has stays.

    Parameters
    ----------
    existing
        Text of the profile as it is; empty for a new one.
    fitted, readings
        The links, and what they were fitted to.
    date
        Of today.
    """
    kept, wanted = list[str](), True
    for line in existing.splitlines():
        if head := _HEAD.match(line):
            name = head[1]
            wanted = name not in TABLES and not name.startswith(("nvlink.", "network."))
        if wanted:
            kept.append(line)
    rest = "\n".join(kept).strip()
    # values of a profile without sources say themselves where they are from
    names_sources = not rest or "[sources." in rest
    tables = _tables(fitted, _source(fitted, readings), date, names_sources)
    return "\n\n".join(part for part in (rest, tables) if part) + "\n"


def existing_profile(path: Path) -> str:
    """The text of a profile that is to be written again; empty if there is none.

    Raises
    ------
    HardwareError
        If the file is something else.
    """
    if not path.exists() or not path.stat().st_size:
        return ""
    text = decode(
        read_file(path, "profile", MAX_TEXT_BYTES, HardwareError), shown_path(path), HardwareError
    )
    parse_table(text, LinkProfile, shown_path(path))
    return text


def _source(fitted: FittedLinks, readings: Sequence[Reading]) -> str:
    """What was measured, and how well it is described."""
    where = dict.fromkeys(f"{reading.test} on {reading.servers}" for reading in readings)
    used = [point for point in fitted.points if point.is_fitted]
    error = sum(abs(point.after) for point in used) / len(used)
    return f"lightloom calibrate network: {', '.join(where)}; mean error {error:.1%}"


def _tables(fitted: FittedLinks, source: str, date: str, names_sources: bool) -> str:
    key, lines = f"{source}, {date}", list[str]()
    if names_sources:
        key, lines = "network", ["[sources.network]", f'text = "{source}"', f'date = "{date}"', ""]
    tables: dict[str, list[str]] = {"nvlink": [], "network": []}
    for name in fitted.changed:
        table = "nvlink" if name.startswith("nvlink_") else "network"
        value, before = getattr(fitted.after, name), getattr(fitted.before, name)
        tables[table].append(
            f'{name.removeprefix("nvlink_")} = {{ value = {value:.4g}, source = "{key}", '
            f'note = "{before:.4g} as packaged" }}'
        )
    for table, entries in tables.items():
        if entries:
            lines += [f"[{table}]", *entries, ""]
    return "\n".join(lines).strip()
