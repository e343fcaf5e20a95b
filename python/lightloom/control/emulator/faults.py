"""Faults on demand: which ones an emulated switch has, and at which command."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lightloom.errors import InputError, echo, expected_one_of


class FaultKind(StrEnum):
    """What goes wrong."""

    #: the command is refused
    DENY = "deny"
    #: the connection is cut and the command is not executed
    CUT_BEFORE = "cut-before"
    #: the command is executed and the connection is cut without a reply
    CUT_AFTER = "cut-after"
    #: the command is executed and no reply comes
    NO_REPLY = "no-reply"
    #: no reply comes, and the command is executed later, perhaps after others
    LATE = "late"
    #: the reply comes later
    SLOW = "slow"
    #: the reply comes in pieces of one byte
    FRAGMENT = "fragment"
    #: a report comes between the command and its reply
    REPORT = "report"
    #: another controller connects two ports just before the command
    SECOND_CONTROLLER = "second-controller"
    #: a mirror does not move from now on: commands succeed without effect on its port
    STUCK = "stuck"
    #: a mirror fails: its port carries no light, and connecting it is refused
    FAILED_PORT = "failed-port"
    #: the switch loses power and restarts: all connections are cut, the command is not executed
    POWER_LOSS = "power-loss"


#: faults that leave nothing behind, from which a script draws by default
TRANSIENT = (
    FaultKind.DENY,
    FaultKind.CUT_BEFORE,
    FaultKind.CUT_AFTER,
    FaultKind.SLOW,
    FaultKind.FRAGMENT,
    FaultKind.REPORT,
)
_WITH_SECONDS = {FaultKind.SLOW: 0.1, FaultKind.LATE: 0.5}
_WITH_PORTS = {FaultKind.STUCK: 1, FaultKind.FAILED_PORT: 1, FaultKind.SECOND_CONTROLLER: 2}
_TEXT = re.compile(
    r"(?P<kind>[a-z-]+)(?::(?P<value>[^@]+))?@(?P<counted>command:)?(?P<at>[0-9]{1,9})"
)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that goes wrong at one command.

    Attributes
    ----------
    kind
        What goes wrong.
    at
        Index of the command, from 1.
    counts_all
        Whether ``at`` counts all commands; else only those that create or delete circuits.
    seconds
        Duration of a slow or late one.
    ports
        The port of a failed or stuck mirror, ingress and egress port of a second controller's
        circuit; drawn by seed if empty.
    """

    kind: FaultKind
    at: int = 1
    counts_all: bool = False
    seconds: float = 0.1
    ports: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Return the fault that a text such as ``deny@3`` or ``slow:0.2@command:5`` describes.

        The text is ``KIND[:VALUE]@[command:]N``. The value is in seconds for ``slow`` and
        ``late``, a port for ``stuck`` and ``failed-port``, two ports such as ``3-12`` for
        ``second-controller``.

        Raises
        ------
        InputError
            If it describes none.
        """
        match = _TEXT.fullmatch(text.strip())
        if match is None:
            raise InputError(f"fault {echo(text)}: expected KIND[:VALUE]@N, such as deny@3")
        if match["kind"] not in set(FaultKind):
            raise InputError(f"fault {echo(text)}: {expected_one_of(match['kind'], FaultKind)}")
        kind, value = FaultKind(match["kind"]), match["value"]
        at = int(match["at"])
        if at < 1:
            raise InputError(f"fault {echo(text)}: commands are counted from 1")
        seconds = _WITH_SECONDS.get(kind, 0.0)
        ports: tuple[int, ...] = ()
        if value is not None:
            seconds, ports = _values(kind, value, text, seconds)
        return cls(kind, at, match["counted"] is not None, seconds, ports)


def _values(
    kind: FaultKind, value: str, text: str, seconds: float
) -> tuple[float, tuple[int, ...]]:
    """Return seconds and ports that the value of a fault's text gives."""
    if kind in _WITH_SECONDS and re.fullmatch(r"\d{1,4}(\.\d{1,6})?", value):
        return float(value), ()
    count = _WITH_PORTS.get(kind, 0)
    if count and re.fullmatch("-".join([r"\d{1,5}"] * count), value):
        return seconds, tuple(map(int, value.split("-")))
    expected = "a time in seconds" if kind in _WITH_SECONDS else f"{count} ports" if count else ""
    raise InputError(f"fault {echo(text)}: {kind} takes {expected or 'no value'}")


class FaultScript:
    """The faults of a switch: listed ones, and random ones from a seed.

    Parameters
    ----------
    faults
        Listed faults, each of which comes once.
    rate
        Probability of a random fault at a command that changes circuits.
    kinds
        What random faults are.
    seed
        Of the random faults.
    """

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        *,
        rate: float = 0.0,
        kinds: Sequence[FaultKind] = TRANSIENT,
        seed: int = 0,
    ) -> None:
        if not 0 <= rate <= 1 or (rate and not kinds):
            raise InputError(f"rate of faults {rate:g}: expected 0 to 1, and at least one kind")
        self._faults = list(faults)
        self._rate = rate
        self._kinds = tuple(kinds)
        self._rng = random.Random(f"faults {seed}")
        self._num_commands = 0
        self._num_changes = 0

    @property
    def num_changes(self) -> int:
        """How many commands that change circuits were counted."""
        return self._num_changes

    def add(self, fault: Fault) -> None:
        """Add a fault; its index counts from the first command of the switch."""
        self._faults.append(fault)

    def next_change(self, kind: FaultKind, **values: float | tuple[int, ...]) -> None:
        """Add a fault at the next command that changes circuits."""
        seconds = values.get("seconds", _WITH_SECONDS.get(kind, 0.0))
        ports = values.get("ports", ())
        assert isinstance(seconds, int | float)
        assert isinstance(ports, tuple)
        self.add(Fault(kind, self._num_changes + 1, seconds=float(seconds), ports=ports))

    def set_rate(self, rate: float) -> None:
        """Set the probability of random faults; 0 for none."""
        self._rate = rate

    def due(self, *, is_change: bool) -> list[Fault]:
        """Count a command and return its faults."""
        self._num_commands += 1
        self._num_changes += is_change
        due = [
            fault
            for fault in self._faults
            if (fault.counts_all and fault.at == self._num_commands)
            or (not fault.counts_all and is_change and fault.at == self._num_changes)
        ]
        self._faults = [fault for fault in self._faults if fault not in due]
        if is_change and self._rng.random() < self._rate:
            kind = self._rng.choice(self._kinds)
            seconds = self._rng.uniform(0, 0.02) if kind in _WITH_SECONDS else 0.0
            due.append(Fault(kind, self._num_changes, seconds=seconds))
        return due

    def draw(self, choices: Sequence[int]) -> int:
        """Draw one of several ports."""
        return self._rng.choice(choices)
