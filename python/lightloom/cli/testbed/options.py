"""Options that commands of a testbed share."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import Field

from lightloom.cli.options import CommandCall, Option, option
from lightloom.cli.outputs import Outputs, checked_outputs
from lightloom.errors import InputError
from lightloom.inputs.strict import File, Name, Strict, Switch, quantity

Steps = Annotated[int, Field(strict=True, ge=1, le=100_000)]
#: of a training program
STEPS = "Number of training steps; the demand drifts from step to step."
PYTHON = "A Python with PyTorch; by default the one that runs lightloom."
Rate = Annotated[float, quantity("gigabit / second"), Field(ge=1e-3, le=100)]


class SizeOptions(Strict):
    """Sizes and rates of a testbed, and its circuit switch."""

    servers: Annotated[int, Field(strict=True, ge=2, le=64)] = Field(
        4, description="Number of servers."
    )
    nics: Annotated[int, Field(strict=True, ge=1, le=16)] = Field(
        4,
        description="Number of NICs of a server; those without optical links are on the EPS.",
    )
    eps_nics: Annotated[int, Field(strict=True, ge=1, le=16)] = Field(
        1, description="Number of NICs of a server at the packet switch; the others are optical."
    )
    rate_gbps: Rate = Field(0.4, description="Rate of one NIC and link, per direction.")
    packet_gbps: Rate | None = Field(
        None, description="Rate of a NIC at the packet switch; by default that of the others."
    )
    settle_time: Name = Field(
        "measured",
        description="Time until mirrors settle: measured (MixNet, Appendix C), a time, or a file "
        "with one time per line.",
    )
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**63)] = Field(
        1, description="Seed of the random numbers; the first one where several are used."
    )
    rootless: Switch = Field(False, description="Use a user namespace even as root.")

    def sizes(self) -> dict[str, Any]:
        """Return what a testbed is made with.

        Raises
        ------
        InputError
            If it has more NICs at the packet switch than NICs.
        """
        if self.eps_nics > self.nics:
            raise InputError(
                f"--eps-nics {self.eps_nics}: expected at most {self.nics}, the NICs of a server"
            )
        return {
            "servers": self.servers,
            "nics": self.nics,
            "eps_nics": self.eps_nics,
            "rate_gbps": self.rate_gbps,
            "eps_gbps": self.packet_gbps,
            "settle_time": self.settle_time,
            "seed": self.seed,
            "rootless": self.rootless or None,
        }


class TestbedFolder(Strict):
    """Which testbed."""

    folder: File | None = Field(
        None,
        description="Folder where the testbed is recorded; by default one per user, or "
        "$LIGHTLOOM_TESTBED.",
    )


class PartArgument(TestbedFolder):
    """A part of a testbed."""

    part: Name = Field(
        description="Part such as nic:2/1 (server/NIC), eps:2/0, server:2 or switch:ocs."
    )


Kind = TypeVar("Kind", bound=TestbedFolder)


def size_options(table: type[SizeOptions] = SizeOptions) -> tuple[Option, ...]:
    """The options of :class:`SizeOptions`, with the defaults of a table that has them."""
    flags = {"packet_gbps": "--packet-rate"}
    names = SizeOptions.model_fields
    return tuple(option(table, name, flags.get(name, ""), common=True) for name in names)


def folder_option(table: type[TestbedFolder] = TestbedFolder) -> Option:
    """The option ``--dir``."""
    return option(table, "folder", "--dir", common=True)


def outputs_and_options(call: CommandCall, kind: type[Kind]) -> tuple[Outputs, Kind]:
    """Return where results go and what was given, checked."""
    outputs = checked_outputs(call)
    return outputs, call.build(kind)


def failed_as_text(failed: list[str]) -> str:
    """Say which parts have failed."""
    return f"failed: {', '.join(failed)}" if failed else "every part works"
