"""Settings of a driver: what the URL of a switch says, and packages that only some drivers need."""

from __future__ import annotations

import importlib
from dataclasses import MISSING, dataclass, field, fields
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lightloom.control.connections import tcp_address
from lightloom.control.switch import Credentials
from lightloom.errors import InputError, echo, expected_one_of


@dataclass(frozen=True, slots=True)
class SwitchAddress:
    """Where a switch is and how to log in."""

    host: str
    port: int
    credentials: Credentials = field(default_factory=Credentials)

    def __str__(self) -> str:
        return tcp_address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class DriverSettings:
    """What all drivers have in common; the query of a switch's URL sets it.

    Attributes
    ----------
    connect_timeout_s
        Maximum time to connect and to log in.
    reply_timeout_s
        Maximum time from a command to its reply; then the state is unknown.
    keepalive_s
        Time without a command after which a harmless one is sent; 0 for never.
    max_pairs
        Maximum number of pairs in one command; 0 for no limit.
    moves
        Whether the switch moves a circuit when a busy port is connected; else the driver deletes
        the old one first.
    replace
        Whether a change is written as one command that sets all circuits, where there is one.
    ca_file
        Certificates that sign the switch's; by default the system's.
    known_hosts
        File of accepted SSH host keys; by default the user's.
    poll_s
        Time between readings for events, where the switch sends no reports; 0 for no events.
    """

    connect_timeout_s: float = 5.0
    reply_timeout_s: float = 5.0
    keepalive_s: float = 30.0
    max_pairs: int = 0
    moves: bool = True
    replace: bool = False
    ca_file: str = ""
    known_hosts: str = ""
    poll_s: float = 10.0


def optional_import(name: str, purpose: str) -> Any:
    """Import a package of the extra ``control``.

    Raises
    ------
    InputError
        If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InputError(
            f"{purpose} needs the package '{package}': pip install 'lightloom[control]'"
        ) from None


def parse_switch_url(url: str) -> tuple[str, str, int | None, dict[str, str]]:
    """Return scheme, host, port and query of a switch's URL.

    Raises
    ------
    InputError
        If it is not ``scheme://host[:port][?key=value&...]``, or contains a password.
    """
    expected = "expected scheme://host:port, such as polatis+tl1://10.0.0.5:3082"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InputError(f"switch {echo(url)}: {expected}") from None
    if "@" in parts.netloc:
        raise InputError("switch URL: give user and password as credentials, not in the URL")
    if not parts.scheme or not parts.hostname or parts.path not in {"", "/"} or parts.fragment:
        raise InputError(f"switch {echo(url)}: {expected}")
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    return parts.scheme.lower(), parts.hostname, port, dict(pairs)


def settings_from(query: dict[str, str]) -> DriverSettings:
    """Return the settings that the query of a switch's URL gives.

    Raises
    ------
    InputError
        If a key is unknown or a value has the wrong type or range.
    """
    types = {field.name: field for field in fields(DriverSettings)}
    values: dict[str, Any] = {}
    for key, text in query.items():
        if key not in types:
            raise InputError(f"switch URL: unknown setting '{key}': {expected_one_of(key, types)}")
        default = types[key].default
        assert default is not MISSING
        values[key] = _value(key, text, type(default))
    return DriverSettings(**values)


def _value(key: str, text: str, kind: type) -> Any:
    """Return a setting's value, parsed as the type of its default."""
    if kind is str:
        return text
    if kind is bool:
        if text not in {"yes", "no"}:
            raise InputError(f"switch URL: {key} = {echo(text)}: expected yes or no")
        return text == "yes"
    try:
        value = kind(text)
    except ValueError:
        value = -1
    lowest = 0 if key in {"keepalive_s", "max_pairs", "poll_s"} else 1e-3
    if not lowest <= value <= 1e6:
        raise InputError(f"switch URL: {key} = {echo(text)}: expected a number, {lowest:g} or more")
    return value
