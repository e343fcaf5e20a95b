"""``lightloom testbed up``: make servers, NICs and switches in the kernel."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import (
    SizeOptions,
    TestbedFolder,
    folder_option,
    outputs_and_options,
    size_options,
)
from lightloom.inputs.strict import quantity

EXAMPLES = (
    "lightloom testbed up",
    "lightloom testbed up --servers 4 --nics 4 --rate 400M",
    "lightloom testbed up --servers 8 --nics 3 --rate 100M --settle-time 20ms --dir lab",
    "lightloom testbed up --nics 4 --eps-nics 4 --rate 400M --json -",
)
NOTES = (
    "Network namespaces are servers, veth pairs are NICs; eps0 of a server is at a packet switch, "
    "nic0 and on are at a circuit switch that lightloom control serve drives. Needs iproute2 and "
    "util-linux, and root or user namespaces."
)


class UpOptions(SizeOptions, TestbedFolder):
    """A testbed that stays."""

    link_up_s: Annotated[float, quantity("second"), Field(ge=0, le=60)] = Field(
        0.0,
        description="Time from settled circuits until NICs carry traffic; real ones need seconds.",
    )
    ranks_per_server: Annotated[int, Field(strict=True, ge=1, le=16)] = Field(
        1, description="Processes of a job on a server, which lightloom testbed run starts."
    )


def command() -> Command:
    """Describe the command."""
    names = ("link_up_s", "ranks_per_server")
    further = (option(UpOptions, name, common=True) for name in names)
    panel = Panel("Testbed", (*size_options(), *further, folder_option()))
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, UpOptions)
    testbed = Testbed.up(
        options.folder,
        ranks_per_server=options.ranks_per_server,
        link_up_s=options.link_up_s,
        **options.sizes(),
    )
    layout = testbed.layout
    where = "" if options.folder is None else f" --dir {testbed.folder}"
    lines = [
        f"{layout.servers} servers are up in {testbed.folder}"
        f"{', without root' if testbed.is_rootless else ''}. Each has",
        f"  {layout.eps_nics} x {layout.eps_gbps * 1e3:g} Mb/s at the packet switch: "
        f"{_devices('eps', layout.eps_nics)}",
    ]
    if layout.optical_nics:
        lines += [
            f"  {layout.optical_nics} x {layout.rate_gbps * 1e3:g} Mb/s at the circuit switch: "
            f"{_devices('nic', layout.optical_nics)}; no circuit is lit yet",
            "Next:",
            f"  lightloom control serve {testbed.region}",
        ]
    else:
        lines.append("Next:")
    lines += [
        f"  lightloom testbed run{where} -- python train.py",
        f"  lightloom testbed status{where}",
        f"  lightloom testbed down{where}",
    ]
    outputs.say(*lines)
    outputs.write_json(
        {
            "folder": str(testbed.folder),
            "region": str(testbed.region) if layout.optical_nics else None,
            "rootless": testbed.is_rootless,
            "nics": [
                {
                    "part": nic.part,
                    "server": nic.server,
                    "device": nic.device,
                    "address": nic.address,
                    "rate_gbps": nic.rate_gbps,
                }
                for nic in layout.all_nics()
            ],
        }
    )


def _devices(name: str, number: int) -> str:
    return f"{name}0" if number == 1 else f"{name}0 to {name}{number - 1}"
