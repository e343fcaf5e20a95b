"""A fabric without a job as one SVG drawing: servers, switches, circuits, and no loads."""

from __future__ import annotations

from pathlib import Path

from markupsafe import Markup

from lightloom.errors import FabricError
from lightloom.fabric import Cluster, Fabric, load_fabric
from lightloom.fabric.alone import network_alone
from lightloom.output.files import write_text
from lightloom.report.plots_fabric import WIDTH, Picture
from lightloom.report.plots_schedule import STYLE
from lightloom.report.plots_svg import document, tag

HEAD = 64.0
#: colors of boxes and bundles, for the reader's light or dark setting
BOXES = """
.box { stroke: #e3e1dc; stroke-width: 1.5; } .box.switch { fill: #dfe8f3; }
.box.servers { fill: #f6f5f2; } .box.circuits { fill: #fbe6d6; } .server { fill: #1b1f27; }
.bundle { stroke: #1f5fa8; } .bundle.unknown { stroke: #676e79; } .name { font-weight: 600; }
@media (prefers-color-scheme: dark) {
  .box { stroke: #2c323c; } .box.switch { fill: #24344a; } .box.servers { fill: #232831; }
  .box.circuits { fill: #4a3322; } .server { fill: #e7e9ec; } .bundle { stroke: #88ccee; }
}
"""


def write_fabric_drawing(name: str, cluster: Cluster, path: Path) -> None:
    """Write the drawing of a fabric by name or file; ``path`` appears only when it is whole.

    Raises
    ------
    FabricError
        If the fabric cannot be built for these servers.
    OutputError
        If it cannot be written.
    """
    write_text(fabric_file(load_fabric(name), cluster) + "\n", path)


def fabric_file(fabric: Fabric, cluster: Cluster) -> str:
    """Text of the drawing."""
    try:
        network = network_alone(fabric, cluster)
    except FabricError as error:
        raise FabricError(f"--svg: {error}") from None
    ports = fabric.effective(cluster, network).get("switch_ports")
    picture = Picture(network, {}, ports)
    picture.draw()
    gpus = f"{cluster.gpus:,} GPUs, {fabric.adapt(cluster).rate_gbps:g} Gb/s"
    note = "; ".join(network.notes) or "every link of a bundle is one line"
    parts = [
        tag("style", Markup(STYLE + BOXES)),
        tag("text", f"{fabric.name}: {gpus}", x=16.0, y=28.0, class_="title"),
        tag("text", note, x=16.0, y=48.0, class_="note"),
        tag("g", *picture.parts, transform=f"translate(0 {HEAD:g})"),
    ]
    return document(parts, WIDTH, picture.height + HEAD + 8, f"{fabric.name} for {gpus}")
