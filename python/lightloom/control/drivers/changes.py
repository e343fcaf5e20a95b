"""A change as a list of commands, and what the switch acknowledged for each circuit of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lightloom.control.drivers.options import DriverSettings
from lightloom.control.switch import (
    ChangeOperation,
    CircuitResult,
    CircuitState,
    CrossConnect,
    Port,
    PortSide,
    SwitchChange,
    SwitchDeniedError,
)
from lightloom.errors import InputError, echo

#: on which the ports of a cross-connect are not, the first one and the second
_WRONG_SIDES = (PortSide.EGRESS, PortSide.INGRESS)
NOT_SENT = "not sent: an earlier command of the change was refused"
#: from circuits to what sends a command for them
Sender: TypeAlias = Callable[[tuple[CrossConnect, ...]], Callable[[], Awaitable[object]]]


@dataclass(frozen=True, slots=True)
class ChangeCommand:
    """One command of a change.

    Attributes
    ----------
    send
        Sends it and returns when the switch has acknowledged it.
    deletes, creates
        The circuits of the change that it deletes, also by moving their ports, and creates.
    """

    send: Callable[[], Awaitable[object]]
    deletes: tuple[CrossConnect, ...] = ()
    creates: tuple[CrossConnect, ...] = ()


def split_deletes(
    change: SwitchChange, *, moves: bool
) -> tuple[tuple[CrossConnect, ...], tuple[CrossConnect, ...]]:
    """Divide the deletes of a change into those to command and those that a create implies.

    A create implies the delete of every circuit whose ingress or egress port it takes, if the
    switch moves circuits.
    """
    sources = {connect.ingress for connect in change.creates}
    targets = {connect.egress for connect in change.creates}
    commanded: list[CrossConnect] = []
    implied: list[CrossConnect] = []
    for connect in change.deletes:
        is_implied = moves and (connect.ingress in sources or connect.egress in targets)
        (implied if is_implied else commanded).append(connect)
    return tuple(commanded), tuple(implied)


def in_batches(
    cross_connects: Sequence[CrossConnect], max_pairs: int
) -> Iterator[tuple[CrossConnect, ...]]:
    """Yield at most ``max_pairs`` cross-connects at a time, all of them if it is 0."""
    size = max_pairs or max(len(cross_connects), 1)
    for start in range(0, len(cross_connects), size):
        yield tuple(cross_connects[start : start + size])


def creates_in_batches(
    change: SwitchChange, implied: Sequence[CrossConnect], max_pairs: int
) -> Iterator[tuple[tuple[CrossConnect, ...], tuple[CrossConnect, ...]]]:
    """Yield the creates of a change in batches, each with the implied deletes that it causes."""
    remaining = tuple(implied)
    for batch in in_batches(change.creates, max_pairs):
        if len(batch) == len(change.creates):
            yield batch, remaining
            return
        sources = {connect.ingress for connect in batch}
        targets = {connect.egress for connect in batch}
        moved: list[CrossConnect] = []
        later: list[CrossConnect] = []
        for connect in remaining:
            is_moved = connect.ingress in sources or connect.egress in targets
            (moved if is_moved else later).append(connect)
        remaining = tuple(later)
        yield batch, tuple(moved)


def commands_of(
    change: SwitchChange, settings: DriverSettings, delete: Sender, create: Sender
) -> list[ChangeCommand]:
    """Return commands with lists of circuits: those that delete, then those that create or move.

    Parameters
    ----------
    change
        What to do.
    settings
        Whether the switch moves circuits, and the maximum length of a list.
    delete, create
        What to send for a list of circuits.
    """
    commanded, implied = split_deletes(change, moves=settings.moves)
    commands = [
        ChangeCommand(delete(batch), deletes=batch)
        for batch in in_batches(commanded, settings.max_pairs)
    ]
    for batch, moved in creates_in_batches(change, implied, settings.max_pairs):
        commands.append(ChangeCommand(create(batch), moved, batch))
    return commands


def check_change(change: SwitchChange, ports: Mapping[Port, PortSide]) -> None:
    """Check that a change names ports of the switch, on their sides, and creates on each once.

    What a switch does otherwise is not documented, and a port's name becomes part of a command.

    Raises
    ------
    InputError
        If it does not.
    """
    every = (*change.deletes, *change.creates)
    for used, wrong in zip(zip(*every, strict=True), _WRONG_SIDES, strict=False):
        sides = set(map(ports.get, used))
        if None in sides or wrong in sides:
            pair, port = next(
                (pair, port)
                for pair, port in zip(every, used, strict=True)
                if ports.get(port) in (None, wrong)
            )
            raise _misplaced(pair, port, wrong, is_known=port in ports)
    for used in zip(*change.creates, strict=True):
        if len(set(used)) < len(used):
            repeated = min(port for port in used if used.count(port) > 1)
            raise InputError(f"change: port {repeated} has several circuits; expected one")


def _misplaced(pair: CrossConnect, port: Port, wrong: PortSide, *, is_known: bool) -> InputError:
    if not is_known:
        return InputError(f"cross-connect {echo(str(pair))}: the switch has no port {echo(port)}")
    return InputError(
        f"cross-connect {pair}: port {port} is on the {wrong} side; "
        "expected an ingress and then an egress port"
    )


async def run_commands(
    change: SwitchChange, commands: Sequence[ChangeCommand]
) -> tuple[CircuitResult, ...]:
    """Send commands until one is refused; return a result per circuit, deletes first.

    Raises
    ------
    SwitchError
        If the state of the switch is unknown after a command.
    """
    refusal: dict[CrossConnect, tuple[str, str]] = {}
    done: set[tuple[ChangeOperation, CrossConnect]] = set()
    for command in commands:
        try:
            await command.send()
        except SwitchDeniedError as error:
            circuits = (*command.deletes, *command.creates)
            refusal = dict.fromkeys(circuits, (error.code, error.text))
            break
        done |= {(ChangeOperation.DELETE, cross) for cross in command.deletes}
        done |= {(ChangeOperation.CREATE, cross) for cross in command.creates}

    def result(operation: ChangeOperation, cross: CrossConnect) -> CircuitResult:
        if (operation, cross) not in done:
            code, reason = refusal.get(cross, ("", NOT_SENT))
            return CircuitResult(cross, operation, CircuitState.INVALID, code, reason)
        created = operation is ChangeOperation.CREATE
        return CircuitResult(cross, operation, CircuitState.CONNECTED if created else None)

    return (
        *(result(ChangeOperation.DELETE, cross) for cross in change.deletes),
        *(result(ChangeOperation.CREATE, cross) for cross in change.creates),
    )
