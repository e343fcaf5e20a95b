"""Which circuits are wanted: options that ``plan`` and ``apply`` share."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field

from lightloom.cli.options import CommandCall, Panel, option
from lightloom.cli.outputs import Outputs
from lightloom.cli.terminal import terminal
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Switch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from lightloom.control.controller import RegionController
    from lightloom.control.port_map import NicPair
    from lightloom.control.running import OpenRegion

_MAX_BYTES = 1_000_000


class RegionArgument(Strict):
    """The file of a region."""

    region: File = Field(description="File of the region (TOML).")


Kind = TypeVar("Kind", bound=RegionArgument)


class TargetOptions(RegionArgument):
    """A region and the circuits that it should have."""

    demand: Name | None = Field(
        None, description="Demand from rank to rank in bytes (.npy, .npz, .csv or .parquet)."
    )
    circuits: File | None = Field(
        None, description="Circuits as text: 0/1-3/0 joins NIC 1 of server 0 and NIC 0 of server 3."
    )
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

    def check_one(self) -> None:
        """Check that exactly one target is given.

        Raises
        ------
        InputError
            If there is none, or several.
        """
        is_set = {
            "--demand-file": self.demand is not None,
            "--circuits": self.circuits is not None,
            "--clear": self.clear,
            "--reapply": self.reapply,
            "--adopt": self.adopt,
        }
        chosen = [name for name, is_given in is_set.items() if is_given]
        if len(chosen) != 1:
            names = " and ".join(chosen) or "none"
            raise InputError(f"expected one of {', '.join(is_set)}; got {names}")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What the files of a target hold: circuits, or demand in bytes from server to server."""

    circuits: frozenset[NicPair] | None = None
    demand: NDArray[Any] | None = None


class _Nowhere(io.StringIO):
    """A log that nobody reads."""

    def write(self, text: str) -> int:
        return len(text)


def outputs_and_options(call: CommandCall, kind: type[Kind]) -> tuple[Outputs, Kind]:
    """Outputs and options of a command on a region; no file of the region is replaced."""
    from lightloom.control.region_file import read_region

    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    options = call.build(kind)
    if outputs.files():
        outputs.check(read_region(options.region).files(options.region.parent))
    return outputs, options


def open_for_command(path: Path) -> OpenRegion:
    """Open a region for a command that ends; with --quiet there is no log."""
    from lightloom.control.running import open_region

    return open_region(path, _Nowhere() if terminal().quiet else None)


def run_until_complete(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a command; SIGTERM ends it as Ctrl-C does."""
    try:
        asyncio.run(coroutine)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def region_argument() -> Panel:
    """The argument of every command."""
    return Panel("Region", (option(RegionArgument, "region", "REGION", common=True),))


def target_panel() -> Panel:
    """The region and the circuits that are wanted."""
    return Panel(
        "Circuits",
        (
            option(TargetOptions, "region", "REGION", common=True),
            option(TargetOptions, "demand", "--demand-file", common=True, metavar="FILE"),
            option(TargetOptions, "circuits", common=True, metavar="FILE"),
            option(TargetOptions, "clear", common=True),
            option(TargetOptions, "reapply", common=True),
            option(TargetOptions, "adopt", common=True),
            option(TargetOptions, "conflicts", common=True),
        ),
    )


def read_target(region: OpenRegion, options: TargetOptions) -> Target:
    """Read the circuits, or the demand from server to server, before any switch is reached.

    Raises
    ------
    InputError
        If a file cannot be used.
    """
    from lightloom.demand.byte_matrix import read_byte_matrix

    try:
        if options.circuits is not None:
            return Target(circuits=_read_circuits(region.controller, options))
        if options.demand is not None:
            return Target(demand=region.controller.decider.fold(read_byte_matrix(options.demand)))
    except InputError:
        region.journal.close()
        raise
    return Target()


def wanted_circuits(
    controller: RegionController, options: TargetOptions, target: Target
) -> tuple[frozenset[NicPair], str]:
    """Return the circuits that are wanted, and why in words."""
    from lightloom.control.decisions import circuits_of

    if options.clear:
        return frozenset(), "clear"
    if options.reapply:
        return controller.held, "reapply"
    if options.circuits is not None:
        assert target.circuits is not None
        return target.circuits, f"circuits of {options.circuits.name}"
    assert target.demand is not None
    decider = controller.decider
    circuits = controller.held & controller.observed.circuits
    decision = decider.decide(decider.hold(circuits), target.demand)
    return circuits_of(decision), str(decision)


def _read_circuits(controller: RegionController, options: TargetOptions) -> frozenset[NicPair]:
    from lightloom.control.circuit_file import parse_circuits
    from lightloom.inputs.files import decode, read_file, shown_path

    assert options.circuits is not None
    name = shown_path(options.circuits)
    text = decode(read_file(options.circuits, "circuits", _MAX_BYTES), name)
    return parse_circuits(text, name, controller.port_map)
