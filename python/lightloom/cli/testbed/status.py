"""``lightloom testbed status``: servers, NICs, circuits, what was carried and what has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightloom.cli.options import Command, CommandCall, Panel
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import (
    TestbedFolder,
    failed_as_text,
    folder_option,
    outputs_and_options,
)

if TYPE_CHECKING:
    from rich.console import Console

    from lightloom.testbed import LitCircuit, NicBytes, Testbed

EXAMPLES = (
    "lightloom testbed status",
    "lightloom testbed status --dir lab",
    "lightloom testbed status --json -",
)
NOTES = (
    "Circuits are those that carry frames in the kernel now. Bytes are counted at the switches, "
    "since the testbed is up; a frame that enters a dark port counts as sent."
)


def command() -> Command:
    """Describe the command."""
    panels = (Panel("Testbed", (folder_option(),)), json_panel())
    return Command(panels=panels, run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, TestbedFolder)
    testbed = Testbed.open(options.folder)
    circuits, counters, failed = testbed.circuits(), testbed.counters(), testbed.failed()

    def show(console: Console) -> None:
        _print(testbed, circuits, counters, failed, console)

    def content() -> dict[str, object]:
        return {
            "folder": str(testbed.folder),
            "circuits": [list(circuit) for circuit in circuits],
            "failed": failed,
            "nics": [
                {
                    "part": nic.part,
                    "device": nic.device,
                    "address": nic.address,
                    "rate_gbps": nic.rate_gbps,
                    **counters[nic.part]._asdict(),
                }
                for nic in testbed.layout.all_nics()
            ],
        }

    outputs.print_and_write(show, content)


def _print(
    testbed: Testbed,
    circuits: list[LitCircuit],
    counters: dict[str, NicBytes],
    failed: list[str],
    console: Console,
) -> None:
    from lightloom.report.terminal import plain_table, print_table

    peers: dict[str, str] = {}
    for circuit in circuits:
        ends = f"nic:{circuit.server}/{circuit.nic}", f"nic:{circuit.peer}/{circuit.peer_nic}"
        peers |= {ends[0]: ends[1], ends[1]: ends[0]}
    table = plain_table(
        f"Testbed in {testbed.folder}",
        ["NIC", "device", "address", "[Mb/s]", "joined to", "sent [MB]", "received [MB]"],
        left=("device", "address", "joined to"),
    )
    for nic in testbed.layout.all_nics():
        counted = counters[nic.part]
        dark = "dark" if nic.is_optical else "packet switch"
        table.add_row(
            nic.part, nic.device, nic.address,
            f"{nic.rate_gbps * 1e3:g}",
            "failed" if nic.part in failed else peers.get(nic.part, dark),
            f"{counted.sent_bytes / 1e6:,.1f}", f"{counted.received_bytes / 1e6:,.1f}",
        )  # fmt: skip
    print_table(table, console)
    console.print(failed_as_text(failed), highlight=False, markup=False, soft_wrap=True)
