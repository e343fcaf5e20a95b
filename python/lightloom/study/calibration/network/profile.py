"""Fitted links as tables of a profile, beside the operators that it may have."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from lightloom.errors import HardwareError
from lightloom.fabric.interconnect import LinkProfile, links_of
from lightloom.hardware.values import Source, parse_table
from lightloom.inputs.files import MAX_TEXT_BYTES, decode, read_file, shown_path
from lightloom.inputs.formats import parse_toml
from lightloom.study.calibration.network.fit import FittedLinks
from lightloom.study.calibration.network.readings import Reading
from lightloom.workload.compute_operators import EfficiencyFile, check_profile

#: the tables that are written
TABLES = ("sources.network", "nvlink", "network")
#: a source that ends with its date, as values of a profile without sources have it
_DATED = re.compile(r"(.{1,9999}), (\d{4}-\d\d-\d\d)", re.DOTALL)


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

    Raises
    ------
    HardwareError
        If no command could read the new profile, as links of the old one cannot be taken out.
    """
    before, rest = _tables_of(existing), _without_links(existing)
    # values of a profile without sources say themselves where they are from
    names_sources = bool(before.get("sources")) or not before.keys() - {"nvlink", "network"}
    tables = _tables(fitted, _source(fitted, readings), date, names_sources)
    text = "\n\n".join(part for part in (rest, tables) if part) + "\n"
    if not _is_usable(text) or _others(_tables_of(text)) != _others(before):
        raise HardwareError(
            "--write-profile: links of the profile cannot be told from what else it has; delete "
            "its [nvlink], [network] and [sources.network], or name a new file"
        )
    return text


def _tables_of(text: str) -> dict[str, object]:
    return parse_toml(text.encode(), "profile", HardwareError)


def _is_usable(text: str) -> bool:
    """Whether commands can use a profile, its operators and its links."""
    try:
        check_profile(parse_table(text, EfficiencyFile, "profile"), "profile")
        links_of(parse_table(text, LinkProfile, "profile"), "profile")
    except HardwareError:
        return False
    return True


def kept_links(existing: str, name: str) -> str:
    """Return the links that a profile has, as tables that may stand behind other operators.

    Parameters
    ----------
    existing, name
        Text of the profile, which may be empty, and what begins messages.

    Raises
    ------
    HardwareError
        If its links cannot be read.
    """
    file = parse_table(existing, LinkProfile, name)
    links_of(file, name)
    keys, lines = dict[tuple[str, str, str], str](), list[str]()
    for table, entries in (("nvlink", file.nvlink), ("network", file.network)):
        lines += ["", f"[{table}]"] if entries else []
        for key, value in entries.items():
            source = file.sources.get(value.source) or _said(value.source)
            found = (source.text, source.date, source.url)
            named = keys.setdefault(found, f"network-{len(keys) + 1}" if keys else "network")
            entry = f'value = {value.value!r}, source = "{named}"'
            entry += f", note = {_quoted(value.note)}" if value.note else ""
            entry += ", assumed = true" if value.assumed else ""
            lines.append(f"{_quoted(key)} = {{ {entry} }}")
    heads = list[str]()
    for (text, date, url), named in keys.items():
        heads += ["", f"[sources.{named}]", f"text = {_quoted(text)}", f"date = {_quoted(date)}"]
        heads += [f"url = {_quoted(url)}"] if url else []
    return "".join(f"{line}\n" for line in (*heads, *lines))


def _said(source: str) -> Source:
    """The source of a value that says it itself."""
    dated = _DATED.fullmatch(source)
    return Source(text=dated[1], date=dated[2]) if dated else Source(text=source, date="no date")


def _quoted(text: str) -> str:
    """A string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _without_links(text: str) -> str:
    """A profile without the lines that say something of links."""
    kept, table, wanted = list[str](), "", True
    for line in text.split("\n"):
        head, _, rest = line.strip().partition("]")
        key, is_entry, _ = line.partition("=")
        if head.startswith("[") and not rest.strip().partition("#")[0]:
            table = head[1:]
            wanted = not _is_of_links(table)
        path = f"{table}.{key}" if table else key
        if wanted and not (is_entry and _is_of_links(path)):
            kept.append(line)
    return "\n".join(kept).strip()


def _is_of_links(path: str) -> bool:
    """Whether a dotted key is of a table that is written here."""
    parts = [part.strip().strip("\"'") for part in path.split(".")]
    return ".".join(parts[:1]) in TABLES or ".".join(parts[:2]) in TABLES


def _others(profile: dict[str, object]) -> dict[str, object]:
    """What a profile has beside the tables that are written here."""
    others = {key: value for key, value in profile.items() if key not in TABLES}
    sources = others.pop("sources", None)
    if isinstance(sources, dict):
        others |= {f"sources.{key}": value for key, value in sources.items() if key != "network"}
    return others


def existing_profile(path: Path) -> str:
    """The text of a profile that is to be written again; empty if there is none.

    Raises
    ------
    HardwareError
        If the file is something else, or no command could use its operators.
    """
    name = shown_path(path)
    if path.suffix.lower() == ".csv":
        raise HardwareError(f"{name}: expected a name that ends in .toml")
    if not path.exists() or not path.stat().st_size:
        return ""
    text = decode(read_file(path, "profile", MAX_TEXT_BYTES, HardwareError), name, HardwareError)
    check_profile(parse_table(text, EfficiencyFile, name), name)
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
