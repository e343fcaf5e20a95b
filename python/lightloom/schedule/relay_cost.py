"""What relaying over a third server costs, from ``data/relay.toml`` where the user does not say."""

from __future__ import annotations

import functools
from importlib import resources

from lightloom.hardware.values import Provenance, Source, Table, Value, parse_table, resolve


class RelayTable(Table):
    """The values of the file."""

    nvswitch_gbps: Value
    chunk_bytes: Value
    relay_delay_s: Value


class RelayFile(Table):
    """The file."""

    sources: dict[str, Source]
    relay: RelayTable


@functools.cache
def relay_defaults() -> dict[str, Provenance]:
    """Return each assumption by its name, with its source."""
    text = resources.files(__package__).joinpath("data/relay.toml").read_text(encoding="utf-8")
    file = parse_table(text, RelayFile, "relay.toml")
    values = {name: getattr(file.relay, name) for name in RelayTable.model_fields}
    return resolve(values, file.sources)


def relay_default(name: str) -> float | int | None:
    """Return the value that is assumed; ``None`` if nothing is."""
    value = relay_defaults().get(name)
    if value is None:
        return None
    return int(value.value) if name.endswith("_bytes") else value.value
