"""``lightloom testbed up``: make servers, NICs and switches in the kernel."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lightloom.cli.options import Command, CommandCall, Panel, option
from lightloom.cli.outputs import json_panel
from lightloom.cli.testbed.options import TestbedFolder, folder_option, outputs_and_options
from lightloom.inputs.strict import Name, Switch, quantity

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

Rate = Annotated[float, quantity("gigabit / second"), Field(gt=0, le=1e3)]


class UpOptions(TestbedFolder):
    """Sizes and rates."""

    servers: Annotated[int, Field(strict=True)] = Field(4, description="Number of servers.")
    nics: Annotated[int, Field(strict=True)] = Field(
        4,
        description="Number of NICs of a server; those without optical links are on the EPS.",
    )
    eps_nics: Annotated[int, Field(strict=True)] = Field(
        1, description="Number of NICs of a server at the packet switch; the others are optical."
    )
    rate_gbps: Rate = Field(0.4, description="Rate of one NIC and link, per direction.")
    packet_gbps: Rate | None = Field(
        None, description="Rate of a NIC at the packet switch; by default that of the others."
    )
    ranks_per_server: Annotated[int, Field(strict=True)] = Field(
        1, description="Processes of a job on a server, which lightloom testbed run starts."
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


def command() -> Command:
    """Describe the command."""
    names = (
        "servers", "nics", "eps_nics", "rate_gbps", "packet_gbps", "ranks_per_server",
        "settle_time", "seed", "rootless",
    )  # fmt: skip
    panel = Panel(
        "Testbed", (*(option(UpOptions, name, common=True) for name in names), folder_option())
    )
    return Command(panels=(panel, json_panel()), run=_run, examples=EXAMPLES, notes=NOTES)


def _run(call: CommandCall) -> None:
    from lightloom.testbed import Testbed

    outputs, options = outputs_and_options(call, UpOptions)
    testbed = Testbed.up(
        options.folder,
        servers=options.servers,
        nics=options.nics,
        eps_nics=options.eps_nics,
        rate_gbps=options.rate_gbps,
        eps_gbps=options.packet_gbps,
        ranks_per_server=options.ranks_per_server,
        settle_time=options.settle_time,
        seed=options.seed,
        rootless=options.rootless or None,
    )
    layout = testbed.layout
    where = "" if options.folder is None else f" --dir {testbed.folder}"
    lines = [
        f"{layout.servers} servers are up in {testbed.folder}"
        f"{', without root' if testbed.is_rootless else ''}. Each has",
        f"  {layout.eps_nics} x {layout.eps_gbps * 1e3:g} Mb/s at the packet switch: eps0, ...",
    ]
    if layout.optical_nics:
        lines += [
            f"  {layout.optical_nics} x {layout.rate_gbps * 1e3:g} Mb/s at the circuit switch: "
            "nic0, ...; no circuit is lit yet",
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
