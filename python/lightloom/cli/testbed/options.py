"""Options that commands of a testbed share."""

from __future__ import annotations

from typing import TypeVar

from pydantic import Field

from lightloom.cli.options import CommandCall, Option, option
from lightloom.cli.outputs import Outputs
from lightloom.inputs.strict import File, Name, Strict


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


def folder_option(table: type[TestbedFolder] = TestbedFolder) -> Option:
    """The option ``--dir``."""
    return option(table, "folder", "--dir", common=True)


def outputs_and_options(call: CommandCall, kind: type[Kind]) -> tuple[Outputs, Kind]:
    """Return where results go and what was given, checked."""
    outputs = call.take(Outputs, "output")
    outputs.check(call.tables)
    return outputs, call.build(kind)


def failed_as_text(failed: list[str]) -> str:
    """Say which parts have failed."""
    return f"failed: {', '.join(failed)}" if failed else "every part works"
