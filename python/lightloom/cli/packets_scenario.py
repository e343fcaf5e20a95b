"""The scenario that options of ``lightloom packets`` describe: a file, and what replaces keys."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from lightloom.cli.options import CommandCall
from lightloom.cli.settings import split_setting
from lightloom.errors import InputError, echo
from lightloom.inputs.formats import read_toml
from lightloom.inputs.strict import File, Name, Strict, Whole, check
from lightloom.packets.htsim_topology import htsim_numbers
from lightloom.packets.scenario import TRANSPORTS, ScenarioFile, below

#: a command with no more options than it needs
EXAMPLE = (
    "lightloom packets --hosts 128 --rate 100 --transport ndp --pattern permutation --bytes 2MB"
)

#: options that choose a kind, and what of a file is about the former kind then
_CHOICES = {
    "transport.name": (),
    "traffic.flows": (),
    "traffic.programs": (),
    "traffic.pattern": ("size_bytes",),
    "network.topology": ("hosts", "rate_gbps", "link_delay_s"),
    "network.links": ("hosts", "rate_gbps", "link_delay_s"),
}


class Shortcuts(Strict):
    """Options that are several keys of a scenario, or one that depends on the transport."""

    scenario: File | None = Field(
        None,
        description="Scenario file (TOML) to start from; options given as well replace it.",
    )
    ecn: Name | None = Field(
        None,
        description="Mark packets from a queue of MIN, with probability P at MAX, and always above "
        "it; one SIZE for both; on or off.",
    )
    pfc: Name | None = Field(
        None,
        description="Pause the sender of a link above PAUSE buffered bytes until below RESUME; on "
        "or off.",
    )
    initial_window: Annotated[Whole, Field(le=2**32 - 1)] | None = Field(
        None, description="Packets of a flow that are sent before the first acknowledgment."
    )
    paths: Annotated[Whole, Field(le=2**16 - 1)] | None = Field(
        None, description="Number of paths that the packets of a flow are sprayed over."
    )
    set: tuple[str, ...] = Field(
        (), description="Any key of a scenario file, such as transport.gain=0.05; repeatable."
    )


def scenario_of(call: CommandCall) -> tuple[ScenarioFile, Callable[[str], str]]:
    """The scenario of the file, if there is one, with what other options say in its place.

    Returns
    -------
    tuple
        The scenario, and what messages call a key of it.

    Raises
    ------
    InputError
        If a value is missing, of the wrong kind or out of range, or a key unknown.
    """
    from lightloom.packets import load_scenario

    shortcuts = call.take(Shortcuts, "shortcuts")
    path, values = shortcuts.scenario, dict[str, Any]()
    if path is not None:
        load_scenario(path)  # a file is complete by itself, so that its mistakes are called its own
        values = below(read_toml(path, "scenario"), path.parent)
    table = values.get("transport")
    name = call.tables.get("transport") or (table.get("name") if isinstance(table, dict) else table)
    settings = dict(_setting(text) for text in shortcuts.set)
    settings_by_option = _scenario_keys(call.tables) | _shortcut_keys(shortcuts, name)
    twice = next((key for key in settings if key in settings_by_option), None)
    called = _names_of_keys(call, shortcuts, settings_by_option, settings)
    if twice is not None:
        raise InputError(f"--set {twice} and {called(twice)} are both given; leave one of them out")
    for key, stays in _CHOICES.items():
        table_name = key.partition(".")[0]
        if key in settings_by_option and isinstance(values.get(table_name), dict):
            kept = {name: x for name, x in values[table_name].items() if name in stays}
            values[table_name] = kept
    for key, value in (settings_by_option | settings).items():
        _put(values, key, value)
    if path is None:
        _check_present(settings_by_option | settings)
        values.setdefault("traffic", {})
    return check(ScenarioFile, values, "", call=called), called


def _scenario_keys(tables: dict[str, Any]) -> dict[str, Any]:
    """The keys of a scenario that options give, and their values."""
    keys = {}
    for name, value in tables.items():
        if name == "transport":
            keys["transport.name"] = value
        elif isinstance(value, dict):
            keys |= {f"{name}.{key}": inner for key, inner in value.items()}
        else:
            keys[name] = value
    return keys


def _shortcut_keys(shortcuts: Shortcuts, transport: Any) -> dict[str, Any]:
    """The keys that options of several or changing names give, and their values."""
    keys: dict[str, Any] = {}
    if shortcuts.initial_window is not None:
        keys[_window_key(transport)] = shortcuts.initial_window
    if shortcuts.paths is not None:
        keys["transport.paths"] = shortcuts.paths
    keys |= _thresholds("ecn", shortcuts.ecn, ("min_bytes", "max_bytes", "probability"))
    return keys | _thresholds("pfc", shortcuts.pfc, ("pause_bytes", "resume_bytes"))


def _window_key(transport: Any) -> str:
    """The key of a first window, which transports call differently."""
    from lightloom.packets.settings import profile_of

    parameters = profile_of(transport, 100.0)["transport"] if transport in TRANSPORTS else {}
    return "transport.initial_window" if "initial_window" in parameters else "transport.window"


def _thresholds(name: str, text: str | None, keys: tuple[str, ...]) -> dict[str, Any]:
    """Thresholds that are written as one option."""
    if text is None:
        return {}
    if text in {"on", "off"}:
        return {f"queue.{name}.on": text == "on"}
    parts: list[Any] = [part.strip() for part in text.split(",")]
    if name == "ecn" and len(parts) == 1:
        parts *= 2
    if not 2 <= len(parts) <= len(keys) or "" in parts:
        example = "'100kB,400kB,0.2'" if name == "ecn" else "'60kB,48kB'"
        raise InputError(
            f"--{name} {echo(text, quoted=False)}: expected on, off or sizes such as {example}"
        )
    if len(parts) == 3:
        parts[2] = _plain(parts[2])
    return {f"queue.{name}.{key}": part for key, part in zip(keys, parts, strict=False)}


def _setting(text: str) -> tuple[str, Any]:
    """A key and its value, read as TOML does, else as text."""
    key, value = split_setting(text, "queue.size_bytes=1MB")
    return key, _plain(value)


def _plain(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"] if "\n" not in text else text
    except (tomllib.TOMLDecodeError, KeyError, ValueError, RecursionError):
        return text


def _put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set ``a.b.c`` in nested tables."""
    *tables, last = key.split(".")
    for name in tables:
        inner = values.get(name)
        if name == "transport" and isinstance(inner, str):
            inner = {"name": inner}
        values[name] = dict(inner) if isinstance(inner, dict) else {}
        values = values[name]
    values[last] = value


def _check_present(keys: dict[str, Any]) -> None:
    needed = {"hosts": "network.hosts", "rate": "network.rate_gbps", "transport": "transport.name"}
    links = keys.get("network.links")
    of_file = {} if links is None else htsim_numbers(Path(links))
    present = {*keys, *(f"network.{key}" for key in of_file)}
    missing = next((flag for flag, key in needed.items() if key not in present), None)
    if missing is None:
        return
    if links is not None and missing != "transport":
        name = echo(str(links), quoted=False)
        raise InputError(
            f"--{missing} is missing: {name} does not say it, as a .topo file of htsim does"
        )
    raise InputError(f"--{missing} is missing; for example: {EXAMPLE}")


def _names_of_keys(
    command: CommandCall, shortcuts: Shortcuts, of_call: dict[str, Any], settings: dict[str, Any]
) -> Callable[[str], str]:
    """Say what a key is called where its value comes from: an option, or a scenario file."""
    several = {f"queue.{name}": f"--{name}" for name in ("ecn", "pfc")}
    several |= {"transport.window": "--initial-window"}
    several |= {"transport.initial_window": "--initial-window", "transport.paths": "--paths"}

    def call(key: str) -> str:
        flag = command.flag("transport" if key == "transport.name" else key)
        flag = next((name for start, name in several.items() if key.startswith(start)), flag)
        is_given = key in of_call or any(name.startswith(key) for name in of_call)
        in_file = shortcuts.scenario is not None or key in settings
        return key if in_file and not is_given else flag

    return call
