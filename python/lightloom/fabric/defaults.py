"""Assumptions about links and servers, from ``data/cluster.toml``."""

from __future__ import annotations

import functools
from importlib import resources

from lightloom.hardware.values import Provenance, Source, Strict, Value, parse_toml, resolve


class ClusterTable(Strict):
    """The values of the file."""

    link_delay_s: Value
    nvlink_latency_s: Value
    relay_delay_s: Value


class ClusterFile(Strict):
    """The file."""

    sources: dict[str, Source]
    cluster: ClusterTable


@functools.cache
def cluster_defaults() -> dict[str, Provenance]:
    """Return each assumption by its name, with its source."""
    text = resources.files(__package__).joinpath("data/cluster.toml").read_text(encoding="utf-8")
    file = parse_toml(text, ClusterFile, "cluster.toml")
    values = {name: getattr(file.cluster, name) for name in ClusterTable.model_fields}
    return resolve(values, file.sources)
