"""Values of options that a user has set for all calls: in the environment or in a file.

``LIGHTLOOM_GPU=h100`` stands for ``--gpu h100`` of every command that has the option. The file
``lightloom/defaults.toml`` in ``$XDG_CONFIG_HOME`` (``~/.config``) does the same, for all commands
or, in a table of its name, for one::

    gpu = "h100"

    [compare]
    rate = "400 Gb/s"
    seeds = 5

What is on the command line goes before the environment, and that before the file; what is taken
from either is said on standard error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lightloom.cli.commands import COMMANDS, described
from lightloom.cli.options import Option
from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.formats import read_toml


def defaults_file() -> Path:
    """Where the file is, if there is one."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "lightloom" / "defaults.toml"


def read_defaults(name: str, options: Iterable[Option]) -> dict[str, Any]:
    """What the file says of a command, by the names of its parameters.

    Parameters
    ----------
    name
        The command.
    options
        Its options.

    Raises
    ------
    InputError
        If the file cannot be read, or has a key that is no option.
    """
    path = defaults_file()
    if not path.is_file():
        return {}
    values = read_toml(path, "defaults")
    by_name = {
        option.flag.removeprefix("--"): option
        for option in options
        if not option.is_argument and not option.is_typed
    }
    table = values.get(name, {})
    if not isinstance(table, Mapping):
        raise InputError(f"{path}: {name} = {echo(table)}: expected a table, [{name}]")
    for key in table:
        if key not in by_name:
            hint = did_you_mean(key, by_name)
            raise InputError(f"{path}: {name} has no option --{echo(key, quoted=False)}{hint}")
    common = {key: value for key, value in values.items() if not isinstance(value, Mapping)}
    _refuse_unknown(path, [key for key in common if key not in by_name])
    texts = {**{key: value for key, value in common.items() if key in by_name}, **table}
    return {
        by_name[key].parameter_name: _as_typed(by_name[key], value) for key, value in texts.items()
    }


def _refuse_unknown(path: Path, keys: list[str]) -> None:
    """Refuse keys that no command has; only then all commands are imported."""
    if not keys:
        return
    options = {
        option.flag.removeprefix("--")
        for name in COMMANDS
        for panel in described(name).panels
        for option in panel.options
        if not option.is_argument
    }
    for key in keys:
        if key not in options:
            hint = did_you_mean(key, options)
            raise InputError(f"{path}: no command has an option --{echo(key, quoted=False)}{hint}")


def _as_typed(option: Option, value: Any) -> Any:
    """A value of TOML as it is typed on the command line."""
    if option.described.kind is bool or isinstance(value, str):
        return value
    if option.repeats:
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def taken_defaults(context: Any, options: Iterable[Option]) -> dict[str, list[str]]:
    """Options that were not typed, as they would be, by where they are from."""
    by_file: dict[str, list[str]] = {}
    for option in options:
        source = getattr(context.get_parameter_source(option.parameter_name), "name", "")
        if source not in {"ENVIRONMENT", "DEFAULT_MAP"}:
            continue
        value = context.params[option.parameter_name]
        where = "the environment" if source == "ENVIRONMENT" else str(defaults_file())
        by_file.setdefault(where, []).append(_typed(option, value))
    return by_file


def _typed(option: Option, value: Any) -> str:
    if isinstance(value, bool):
        return option.flags[0 if value else -1]
    values = value if isinstance(value, list | tuple) else [value]
    return " ".join(f"{option.flag} {item}" for item in values)
