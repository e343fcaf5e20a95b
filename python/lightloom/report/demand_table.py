"""Tables and shaded matrices of a demand, in text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.demand import DemandSource, Imbalance, ImbalanceStatistics
from lightloom.demand.shading import HeatMap, heat_map, shades_of
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.units import show_number

#: columns of row names
MARGIN = 7
#: of each level of a heat map
COLORS = ("default", "#35608d", "#2a788e", "#22a884", "#7ad151", "#fde725")


@dataclass(frozen=True)
class MatrixPicture:
    """One matrix with what its axes mean."""

    matrix: npt.NDArray[np.int64]
    rows: str
    columns: str
    note: str


def print_figures(
    console: Console,
    source: DemandSource,
    index: dict[str, int],
    figures: ImbalanceStatistics,
    *,
    with_sources: bool,
) -> None:
    """Print where the demand is from and how skewed it is; parameters with their sources or not."""
    shape = source.shape
    console.print(
        Text(
            f"{source.name}: {shape.ranks} EP ranks x {shape.experts} experts, "
            f"{shape.copies_per_rank:,} token copies per rank and micro-batch"
        )
    )
    places = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in index.items())
    console.print(Text(f"{places}; {'exact' if source.exact else 'drawn or scaled'}"))
    print_provenance(source.provenance, console, with_sources=with_sources)
    print_table(_imbalance_table(figures), console)
    console.print()
    print_wrapped(
        f"{figures.total:,} token copies, {figures.local_share:.1%} stay on their rank; rows "
        f"differ from the common mix by {figures.rank_one_error:.1%} of their copies",
        console,
    )
    console.print()


def print_provenance(
    provenance: Mapping[str, str], console: Console, *, with_sources: bool
) -> None:
    """Print the parameters of drawn loads; where published values are from only if wanted."""
    for name, text in provenance.items():
        value, _, origin = text.partition(" (")
        shown = text if with_sources or origin == "given)" else value
        console.print(Text(f"  {name}: {shown}", style="dim"), soft_wrap=True)
    if not with_sources and any(text.endswith(")") for text in provenance.values()):
        console.print(Text("  sources of these: -v", style="dim"))


def _imbalance_table(figures: ImbalanceStatistics) -> Table:
    headers = ["of", "number", "mean\n[tokens]", "max/mean", "CV", "Gini", "entropy", "top share"]
    table = plain_table("Imbalance", headers)
    rows: list[tuple[str, Imbalance | None]] = [
        ("expert loads", figures.experts),
        ("rank loads", figures.ranks),
        ("rank to rank", figures.pairs),
        ("both ways", figures.symmetric_pairs),
    ]
    for name, imbalance in rows:
        if imbalance is None:
            continue
        table.add_row(
            name,
            f"{imbalance.count:,}",
            f"{imbalance.mean:,.0f}",
            f"{imbalance.max_over_mean:.3f}",
            f"{imbalance.cv:.3f}",
            f"{imbalance.gini:.3f}",
            f"{imbalance.entropy:.3f}",
            f"{imbalance.top_share:.1%} in {imbalance.top}",
        )
    return table


def print_picture(
    console: Console, picture: MatrixPicture, token_bytes: int, hidden: int, element_bytes: float
) -> None:
    """Print a matrix shaded by size, with numbers if the console is wide enough."""
    widest = max(len(f"{picture.matrix.max():,}") + 1, len(f"{picture.matrix.sum(axis=0).max():,}"))
    numbers = picture.matrix.shape[1] * (widest + 1) + MARGIN <= console.width
    cell = widest + 1 if numbers else 2
    heat = heat_map(picture.matrix, 64, (console.width - MARGIN) // cell)
    console.print(Text(f"columns: {picture.columns}; rows: {picture.rows}; {picture.note}"))
    if heat.columns_per_cell > 1 or heat.rows_per_cell > 1:
        console.print(f"a cell sums {heat.rows_per_cell} rows x {heat.columns_per_cell} columns")
    print_cells(console, heat, cell, numbers)
    if numbers:
        totals = picture.matrix.sum(axis=0)
        line = "".join(f"{total:>{cell},}" for total in totals)
        console.print(Text(f"{'tokens':{MARGIN}}{line}"), no_wrap=True, crop=False)
        line = "".join(f"{_megabytes(total * token_bytes):>{cell}}" for total in totals)
        console.print(Text(f"{'MB':{MARGIN}}{line}"), no_wrap=True, crop=False)
    _print_legend(console, heat, token_bytes)
    console.print(
        f"MB = 10^6 bytes: {token_bytes:,} bytes per token "
        f"({hidden:,} elements of {element_bytes:g} bytes)"
    )


def print_cells(console: Console, heat: HeatMap, cell: int, numbers: bool) -> None:
    """Print the cells of a matrix, so many characters wide, with numbers or shades alone."""
    columns = heat.values.shape[1]
    step = max(1, -(-5 // cell))
    heads = "".join(
        f"{column * heat.columns_per_cell:<{cell * step}}" if not numbers else f"{column:>{cell}}"
        for column in range(0, columns, 1 if numbers else step)
    )
    console.print(Text(f"{'':{MARGIN}}{heads}".rstrip()), no_wrap=True, crop=False)
    shades = shades_of(console.encoding)
    for row, (values, levels) in enumerate(zip(heat.values, heat.levels, strict=True)):
        line = Text(f"{row * heat.rows_per_cell:<{MARGIN}}")
        for value, level in zip(values, levels, strict=True):
            shade = shades[level]
            text = f" {shade}{value:>{cell - 2},}" if numbers else shade * cell
            line.append(text, style=COLORS[level])
        console.print(line, no_wrap=True, crop=False)


def _print_legend(console: Console, drawn: HeatMap, token_bytes: int) -> None:
    for level, shade in enumerate(shades_of(console.encoding)[1:], 1):
        bound = drawn.bounds[level]
        legend = Text(shade * 2, style=COLORS[level])
        size = f"{bound:,.0f} tokens, {_megabytes(bound * token_bytes)} MB"
        legend.append(f" to {size}{', per cell; blank is none' if level == 1 else ''}", "default")
        console.print(legend)


def _megabytes(size_bytes: float) -> str:
    size = size_bytes / 1e6
    return show_number(size, 3)
