"""The traffic of a job as one SVG drawing: a matrix for each kind of parallelism."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from markupsafe import Markup

from lightloom.output.files import write_text
from lightloom.report.plots_circuits import EDGE, MARGIN, matrix_parts
from lightloom.report.plots_schedule import STYLE
from lightloom.report.plots_svg import document, tag
from lightloom.report.traffic_table import shown_matrix
from lightloom.study.compare.traffic import JobTraffic
from lightloom.units import show_bytes

#: matrices in a row, and the space of one
COLUMNS, WIDTH, HEIGHT, HEAD = 3, EDGE + MARGIN + 34, EDGE + MARGIN + 60, 84.0
#: colors of cells and frames, for the reader's light or dark setting
CELLS = """
.heat { fill: #332288; } .frame { fill: none; stroke: #8b929c; } .cell { fill: #5c6470; }
.cell.middle, .cell.strong { fill: #fff; }
@media (prefers-color-scheme: dark) {
  .heat { fill: #88ccee; } .cell { fill: #a9b0ba; } .cell.middle, .cell.strong { fill: #10131a; }
}
"""


def write_traffic_drawing(traffic: JobTraffic, path: Path) -> None:
    """Write the drawing; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(traffic_drawing(traffic) + "\n", path)


def traffic_drawing(traffic: JobTraffic) -> str:
    """Text of the drawing: all kinds that send anything, and what crosses servers."""
    matrix = traffic.matrix
    title, across = shown_matrix(traffic, None)
    panels = [(f"all, {title}", across)]
    panels += [(kind.upper(), matrix.of(kind)) for kind in matrix.kinds if matrix.of(kind).any()]
    labels = [str(index) for index in range(len(across))]
    unit = {"gpu": "GPUs", "server": "servers"}[matrix.unit]
    parts = [tag("style", Markup(STYLE + CELLS))]
    heading = f"{traffic.job.name}: who sends how many bytes to whom in a step"
    parts.append(tag("text", heading, x=16.0, y=30.0, class_="title"))
    note = f"{traffic.job.plan.describe()}; rows send to columns, {unit}; each has its own scale"
    parts.append(tag("text", note, x=16.0, y=54.0, class_="note"))
    for index, (name, sent) in enumerate(panels):
        x, y = 16 + index % COLUMNS * WIDTH, HEAD + index // COLUMNS * HEIGHT
        caption = f"{name}: {show_bytes(float(sent.sum()))}"
        cells = matrix_parts(np.rint(sent), labels, show_bytes, "heat", empty=False)
        parts.append(
            tag("g", tag("text", caption, x=MARGIN, y=0.0), tag("g", *cells,
                transform="translate(0 14)"), transform=f"translate({x:g} {y:g})")
        )  # fmt: skip
    rows = -(-len(panels) // COLUMNS)
    width = 16 + min(COLUMNS, len(panels)) * WIDTH
    return str(document(parts, max(width, 900.0), HEAD + rows * HEIGHT, heading))
