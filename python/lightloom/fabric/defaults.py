"""Assumptions about links and servers, from ``data/cluster.toml``."""

from __future__ import annotations

import functools
from importlib import resources

from lightloom.hardware.values import Provenance, Source, Table, Value, parse_table, resolve


class ClusterTable(Table):
    """The values of the file."""

    link_delay_s: Value
    nvlink_latency_s: Value
    relay_delay_s: Value


class ClusterFile(Table):
    """The file."""

    sources: dict[str, Source]
    cluster: ClusterTable


@functools.cache
def cluster_defaults() -> dict[str, Provenance]:
    """Return each assumption by its name, with its source."""
    text = resources.files(__package__).joinpath("data/cluster.toml").read_text(encoding="utf-8")
    file = parse_table(text, ClusterFile, "cluster.toml")
    values = {name: getattr(file.cluster, name) for name in ClusterTable.model_fields}
    return resolve(values, file.sources)
