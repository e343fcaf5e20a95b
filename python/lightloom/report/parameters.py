"""Every parameter that a comparison used, with its source, as tables for a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lightloom.study.compare.results import Comparison
from lightloom.units import show_option

#: parts of ``inputs`` with a separate table, and its title
TITLES = {
    "scenario": "Requested",
    "model": "Model",
    "plan": "Parallelism plan",
    "gpu_sources": "GPU",
    "compute": "Compute times",
    "demand": "Demand and workload",
    "prices": "Prices",
    "power": "Power",
    "samples": "Samples",
}
MAX_TEXT = 4000


@dataclass(frozen=True)
class Parameter:
    """A value by its path, and where it comes from."""

    name: str
    value: str
    source: str = ""
    date: str = ""
    assumed: bool = False
    url: str = ""


@dataclass(frozen=True)
class ParameterTable:
    """Parameters that belong together."""

    title: str
    rows: tuple[Parameter, ...]


def parameter_tables(comparison: Comparison) -> list[ParameterTable]:
    """Tables of all inputs, and of each fabric's own parameters; no value is left out."""
    inputs = comparison.inputs
    shown = {*TITLES, "summary", "command"}
    general = {key: value for key, value in inputs.items() if key not in shown}
    tables = [ParameterTable("Run", tuple(flatten(general)))]
    for key, title in TITLES.items():
        if key in inputs:
            rows = list(flatten(inputs[key]))
            if key == "model":
                rows += _shape(comparison)
            tables.append(ParameterTable(title, tuple(rows)))
    if "job" in comparison.details:
        rows = list(flatten(dataclasses.asdict(comparison.details["job"].cluster)))
        tables.append(ParameterTable("Cluster", tuple(rows)))
    for result in comparison.results:
        rows = list(flatten(result.parameters))
        tables.append(ParameterTable(f"Fabric: {result.fabric}", tuple(rows)))
    return [table for table in tables if table.rows]


def _shape(comparison: Comparison) -> list[Parameter]:
    """Widths and counts of the model, from its configuration."""
    job = comparison.details["job"].of_model if "job" in comparison.details else None
    if job is None:
        return []
    values = dataclasses.asdict(job.model)
    layers = values.pop("moe_layers")
    values |= {"layers": len(layers), "moe_layers": sum(layers)}
    for key in ("sources", "notes", "name", "plan"):
        values.pop(key, None)
    source = job.model.sources.get("config", "")
    return [dataclasses.replace(row, source=source) for row in flatten(values)]


def flatten(value: Any, name: str = "") -> Iterator[Parameter]:
    """Rows of nested plain data; a mapping with ``value`` and ``source`` is one row."""
    if isinstance(value, Mapping):
        if "value" in value and "source" in value:
            yield Parameter(
                name,
                text_of(value["value"]),
                str(value["source"]),
                str(value.get("date", "")),
                bool(value.get("assumed", False)),
                str(value.get("url", "")),
            )
            return
        for key, inner in value.items():
            yield from flatten(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(v, Mapping) for v in value):
        for index, inner in enumerate(value):
            yield from flatten(inner, f"{name}[{index}]" if name else f"[{index}]")
    else:
        yield Parameter(name, text_of(value))


def text_of(value: Any) -> str:
    """Text of a plain value: numbers with thousands separators, lists with commas."""
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return show_option(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) < 1e15 and value == int(value) else f"{value:.6g}"
    if isinstance(value, list | tuple):
        return ", ".join(text_of(item) for item in value) or "none"
    text = str(value)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} ..."
