"""``lightloom testbed self-test``: does a testbed of these sizes do what it should here?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.cli.options import Command, CommandCall, Panel
from lightloom.cli.outputs import checked_outputs, json_panel
from lightloom.cli.testbed.options import SizeOptions, size_options

if TYPE_CHECKING:
    from lightloom.testbed.self_test import SelfTestCheck

EXAMPLES = (
    "lightloom testbed self-test",
    "lightloom testbed self-test --servers 8 --nics 3 --rate 200M",
    "lightloom testbed self-test --rootless --json -",
)
NOTES = (
    "Makes a testbed of its own, measures and removes it; one that is up is left alone. Says in "
    "one line what the kernel lacks, if it does. The status is 1 if something is not as expected."
)


def command() -> Command:
    """Describe the command."""
    panels = (Panel("Testbed", size_options()), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    import tempfile
    from pathlib import Path

    import typer

    from lightloom.testbed import Testbed
    from lightloom.testbed.self_test import self_test

    outputs = checked_outputs(call)
    options = call.build(SizeOptions)
    checks = []
    with (
        tempfile.TemporaryDirectory(prefix="lightloom-") as folder,
        Testbed.up(Path(folder) / "testbed", **options.sizes()) as testbed,
    ):
        for check in self_test(testbed):
            outputs.say(_line(check))
            checks.append(check)
    outputs.write_json({"checks": [check._asdict() for check in checks]})
    if not all(check.is_met for check in checks):
        raise typer.Exit(1)


def _line(check: SelfTestCheck) -> str:
    verdict = "ok" if check.is_met else "not met"
    return f"{verdict}: {check.name}: {check.measured:.6g} {check.unit} (expected {check.expected})"
