"""A region to try things with: its file and port map, for an emulated or a real switch."""

from __future__ import annotations

from pathlib import Path

_REGION = """\
name = "{name}"
port_map = "ports.csv"
journal = "{name}.sqlite"

[switches.ocs]
url = "{url}"
user = "admin"
password_file = "password"

[job]
ranks_per_server = 8
gpus_per_server = 8

[rates]
circuit_gbps = 400
eps_gbps = 800

[policy]
when = "{when}"

[timing]
link_up_s = 0
"""


def write_example(
    folder: Path,
    url: str,
    *,
    servers: int,
    nics: int,
    size: int,
    name: str = "region",
    when: str = "break-even",
) -> Path:
    """Write a region whose NICs are at the first ports of a switch; return its file.

    Parameters
    ----------
    folder
        Where; it has to exist.
    url, name
        Of the switch and of the region.
    servers, nics
        Servers, and optical NICs of each.
    size
        Ingress ports of the switch; egress ports are counted after them.
    when
        When circuits change.
    """
    rows = ["server,nic,ingress,egress"]
    for server in range(servers):
        for nic in range(nics):
            port = server * nics + nic + 1
            rows.append(f"node{server},{nic},{port},{size + port}")
    (folder / "ports.csv").write_text("\n".join(rows) + "\n")
    password = folder / "password"
    password.touch(mode=0o600)
    password.write_text("root\n")
    path = folder / f"{name}.toml"
    path.write_text(_REGION.format(name=name, url=url, when=when))
    return path
