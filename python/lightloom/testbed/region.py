"""What a controller of the testbed needs: the file of the region, its port map and its password.

And what a job needs that runs in it: the NICs of its servers, for ``lightloom.torch.MixNet``.
"""

from __future__ import annotations

from pathlib import Path

from lightloom.control.emulator.timing import parse_settle_time, parts_of_settling
from lightloom.testbed.layout import ServerLayout

REGION, PORTS, PASSWORD, NICS = "region.toml", "ports.csv", "password", "nics.toml"
#: what a service of the region makes
SOCKET, TOKENS = "testbed.sock", "testbed.token"
_REGION = """\
name = "testbed"
port_map = "{ports}"
journal = "testbed.sqlite"

[switches.ocs]
url = "{url}"
user = "admin"
password_file = "{password}"

[job]
ranks_per_server = {ranks}
gpus_per_server = {ranks}

[rates]
circuit_gbps = {circuit_gbps!r}
eps_gbps = {eps_gbps!r}
eps_nics = {eps_nics}

[timing]
fixed_s = {fixed_s!r}
per_pair_s = {per_pair_s!r}
link_up_s = {link_up_s!r}
"""


def write_region(
    folder: Path,
    layout: ServerLayout,
    url: str,
    *,
    settle_time: str = "measured",
    link_up_s: float = 0.0,
) -> Path:
    """Write the files; return that of the region.

    Parameters
    ----------
    folder
        Where; files of an earlier testbed are replaced.
    layout
        Its servers and NICs.
    url
        Where the circuit switch listens.
    settle_time
        Of the mirrors, whose mean the controller counts on.
    link_up_s
        Time from settled circuits until NICs carry traffic.
    """
    rows = ["server,nic,ingress,egress"]
    for nic in layout.all_nics():
        if nic.is_optical:
            port = layout.ingress_of(nic)
            rows.append(f"server{nic.server},{nic.number},{port},{layout.ports + port}")
    (folder / PORTS).write_text("\n".join(rows) + "\n")
    password = folder / PASSWORD
    password.touch(mode=0o600)
    password.write_text("root\n")
    region = folder / REGION
    fixed_s, per_pair_s = parts_of_settling(parse_settle_time(settle_time))
    region.write_text(
        _REGION.format(
            ports=PORTS,
            url=url,
            password=PASSWORD,
            ranks=layout.ranks_per_server,
            circuit_gbps=layout.rate_gbps,
            eps_gbps=layout.eps_gbps * layout.eps_nics,
            eps_nics=layout.eps_nics,
            fixed_s=fixed_s,
            per_pair_s=per_pair_s,
            link_up_s=link_up_s,
        )
    )
    return region


def write_nics(folder: Path, layout: ServerLayout) -> None:
    """Write the NICs of each server, those on circuits in the order of the port map."""
    lines = []
    for server in range(layout.servers):
        lines.append("[[server]]")
        for key, is_optical in (("optical", True), ("packet", False)):
            entries = [
                f'{{ address = "{nic.address}", device = "{nic.device}" }}'
                for nic in layout.nics_of(server)
                if nic.is_optical == is_optical
            ]
            lines.append(f"{key} = [{', '.join(entries)}]")
    (folder / NICS).write_text("\n".join(lines) + "\n")
