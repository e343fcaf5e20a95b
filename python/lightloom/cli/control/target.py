"""Which circuits are wanted: options that ``plan`` and ``apply`` share."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TextIO, TypeVar

from pydantic import Field

from lightloom.cli.options import CommandCall, Option, Panel, option
from lightloom.cli.outputs import Outputs, checked_outputs
from lightloom.cli.terminal import terminal
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Switch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lightloom.control.operations import Target

_MAX_BYTES = 1_000_000


class RegionArgument(Strict):
    """The file of a region."""

    region: File = Field(description="File of the region (TOML).")


class RegionsArgument(Strict):
    """The files of one or more regions."""

    regions: tuple[File, ...] = Field(
        description="Files of one or more regions (TOML).", min_length=1, max_length=256
    )


Kind = TypeVar("Kind", bound=RegionArgument | RegionsArgument)


class TargetOptions(RegionArgument):
    """A region and the circuits that it should have."""

    demand: Name | None = Field(
        None, description="Demand from rank to rank in bytes (.npy, .npz, .csv or .parquet)."
    )
    circuits: File | None = Field(
        None,
        description="All circuits of the region as text, others are deleted: 0/1-3/0 joins NIC 1 "
        "of server 0 and NIC 0 of server 3.",
    )
    add: tuple[Name, ...] = Field((), description="Circuits to add, such as 0/1-3/0.")
    remove: tuple[Name, ...] = Field((), description="Circuits to remove, such as 0/1-3/0.")
    clear: Switch = Field(False, description="Delete all circuits of the region.")
    reapply: Switch = Field(
        False, description="Make the circuits again that the journal has: what drifted is repaired."
    )
    adopt: Switch = Field(
        False, description="Take the circuits that the switches hold as those of the region."
    )
    conflicts: Literal["safe", "update", "overwrite"] | None = Field(
        None,
        description="What becomes of cross-connects on ports of the region that others made; as in "
        "the region's file by default.",
    )

    def named(self) -> dict[str, bool]:
        """Which targets are given."""
        return {
            "--demand-file": self.demand is not None,
            "--circuits": self.circuits is not None,
            "--add or --remove": bool(self.add or self.remove),
            "--clear": self.clear,
            "--reapply": self.reapply,
            "--adopt": self.adopt,
        }

    def check_one(self) -> None:
        """Check that exactly one target is given.

        Raises
        ------
        InputError
            If there is none, or several.
        """
        named = self.named()
        chosen = [name for name, is_given in named.items() if is_given]
        if len(chosen) != 1:
            options = " and ".join(chosen) or "none"
            raise InputError(f"expected one of {', '.join(named)}; got {options}")


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """What the options of a target ask for; the demand is from rank to rank."""

    target: Target
    demand: NDArray[Any] | None = None


class _Nowhere(io.StringIO):
    """A log that nobody reads."""

    def write(self, text: str) -> int:
        return len(text)


def outputs_and_options(call: CommandCall, kind: type[Kind]) -> tuple[Outputs, Kind]:
    """Outputs and options of a command on a region; no file of the region is replaced."""
    from lightloom.control.region_file import read_tables

    outputs = checked_outputs(call)
    options = call.build(kind)
    if outputs.files():
        paths = options.regions if isinstance(options, RegionsArgument) else (options.region,)
        for path in paths:
            outputs.check(read_tables(path).files(path.parent))
    return outputs, options


def log_of_command() -> TextIO | None:
    """Where a command that ends logs to: standard error, or nowhere with --quiet."""
    return _Nowhere() if terminal().quiet else None


def run_until_complete(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a command; SIGTERM ends it as Ctrl-C does."""
    try:
        asyncio.run(coroutine)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


#: the field of commands that change circuits
AT_ONCE: Any = Field(
    False, description="Do it outside the change window, too; the journal says so."
)


def at_once(table: type[Strict]) -> Option:
    """The option of commands that change circuits: not to wait for the change window."""
    return option(table, "at_once", "--now", common=True)


class ShownFirstOptions(RegionArgument):
    """A region, and whether what is shown is done."""

    apply: Switch = Field(False, description="Touch the switches.")
    yes: Switch = Field(False, description="Do not ask.")
    at_once: Switch = AT_ONCE


def shown_first_panel(title: str, table: type[ShownFirstOptions], *own: Option) -> Panel:
    """The region, options of a command's own, and whether what is shown is done."""
    return Panel(
        title,
        (
            option(table, "region", "REGION", common=True),
            *own,
            option(table, "apply", common=True),
            option(table, "yes", common=True),
            at_once(table),
        ),
    )


def region_argument() -> Panel:
    """The argument of every command."""
    return Panel("Region", (option(RegionArgument, "region", "REGION", common=True),))


def target_panel(*further: Option) -> Panel:
    """The region, what a command takes beside it, and the circuits that are wanted."""
    return Panel(
        "Circuits",
        (
            option(TargetOptions, "region", "REGION", common=True),
            *further,
            option(TargetOptions, "demand", "--demand-file", common=True, metavar="FILE"),
            option(TargetOptions, "circuits", common=True, metavar="FILE"),
            option(TargetOptions, "add", common=True, metavar="CIRCUIT,..."),
            option(TargetOptions, "remove", common=True, metavar="CIRCUIT,..."),
            option(TargetOptions, "clear", common=True),
            option(TargetOptions, "reapply", common=True),
            option(TargetOptions, "adopt", common=True),
            option(TargetOptions, "conflicts", common=True),
        ),
    )


def read_wanted(options: TargetOptions) -> Wanted:
    """Read what is wanted, before any switch is reached.

    Raises
    ------
    InputError
        If a file cannot be used.
    """
    from lightloom.control.operations import (
        Adopted,
        Cleared,
        Demanded,
        Edited,
        Exactly,
        Reapplied,
    )
    from lightloom.demand.byte_matrix import read_byte_matrix

    if options.circuits is not None:
        return Wanted(target=Exactly(circuits=_circuits(options), name=options.circuits.name))
    if options.demand is not None:
        return Wanted(target=Demanded(), demand=read_byte_matrix(options.demand))
    if options.clear:
        return Wanted(target=Cleared())
    if options.reapply:
        return Wanted(target=Reapplied())
    if options.adopt:
        return Wanted(target=Adopted())
    return Wanted(target=Edited(add=options.add, remove=options.remove))


def _circuits(options: TargetOptions) -> tuple[str, ...]:
    from lightloom.control.circuit_file import parse_circuits
    from lightloom.control.region_file import read_tables
    from lightloom.inputs.files import decode, read_file, shown_path

    assert options.circuits is not None
    name = shown_path(options.circuits)
    text = decode(read_file(options.circuits, "circuits", _MAX_BYTES), name)
    port_map = read_tables(options.region).read_port_map(options.region.parent)
    return tuple(map(str, sorted(parse_circuits(text, name, port_map))))
