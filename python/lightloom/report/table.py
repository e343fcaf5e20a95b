"""The comparison as tables in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.study.results import Comparison, FabricResult
from lightloom.units import show_bytes, show_time, show_usd

#: columns of the "where the time goes" table and the categories that each sums
BREAKDOWN = {
    "compute": ("attention", "gate", "expert", "dense_ffn", "head", "optimizer"),
    "TP": ("tp", "cp"),
    "all-to-all": ("ep",),
    "reconfig.": ("reconfiguration",),
    "PP": ("pp", "bubble"),
    "DP": ("dp",),
}


def grouped(parts: dict[str, float]) -> dict[str, float]:
    """Sum the categories of a breakdown into the columns of :data:`BREAKDOWN`, in seconds."""
    known = {name for names in BREAKDOWN.values() for name in names}
    assert parts.keys() <= known, f"categories without a column: {parts.keys() - known}"
    return {column: sum(parts.get(n, 0.0) for n in names) for column, names in BREAKDOWN.items()}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print what was compared, the results, and where the time goes."""
    _print_inputs(comparison, console)
    console.print(_result_table(comparison))
    console.print(_breakdown_table(comparison))
    for result in comparison.results:
        for note in result.notes:
            console.print(Text(f"{result.fabric}: {note}", style="dim"))
    for warning in comparison.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))


def _print_inputs(comparison: Comparison, console: Console) -> None:
    for line in comparison.inputs["summary"]:
        console.print(Text(line))


def _result_table(comparison: Comparison) -> Table:
    table = Table(title="Fabrics", title_justify="left", header_style="bold")
    table.add_column("fabric")
    for header in (
        "step time [s]",
        "interval [s]",
        "vs fastest",
        "tokens/s",
        "network cost",
        "tokens/s per k$\nof network",
        "tokens/s per k$\nof cluster",
        "network\npower [kW]",
    ):
        table.add_column(header, justify="right")
    best = _best(comparison)
    for result in comparison.results:
        table.add_row(*_result_row(result, best))
    return table


def _best(comparison: Comparison) -> dict[str, float]:
    results = comparison.results
    return {
        "tokens": max(r.tokens_per_s for r in results),
        "network": max(r.perf_per_usd for r in results),
        "cluster": max(r.perf_per_cluster_usd for r in results),
    }


def _result_row(result: FabricResult, best: dict[str, float]) -> list[Text]:
    def mark(text: str, is_best: bool) -> Text:
        return Text(text, style="bold green" if is_best else "")

    ratio = "tied" if result.tied_with_fastest else f"{result.ratio_to_fastest[1]:.3f} x"
    if result.tokens_per_s == best["tokens"]:
        ratio = "fastest"
    return [
        Text(result.fabric, style="bold"),
        mark(f"{result.step_time_s:.4g}", result.tokens_per_s == best["tokens"]),
        Text(f"{result.step_time_low_s:.4g} - {result.step_time_high_s:.4g}", style="dim"),
        Text(ratio),
        Text(f"{result.tokens_per_s:,.0f}"),
        Text(show_usd(result.network_cost_usd)),
        mark(f"{result.perf_per_usd:,.1f}", result.perf_per_usd == best["network"]),
        mark(f"{result.perf_per_cluster_usd:,.2f}", result.perf_per_cluster_usd == best["cluster"]),
        Text(f"{result.network_power_w / 1000:,.1f}"),
    ]


def _breakdown_table(comparison: Comparison) -> Table:
    table = Table(
        title="Where the time goes: critical path [ms]", title_justify="left", header_style="bold"
    )
    table.add_column("fabric")
    for column in BREAKDOWN:
        table.add_column(column, justify="right")
    table.add_column("all-to-all by", justify="left")
    table.add_column("carried by EPS / circuits / relays", justify="right")
    for result in comparison.results:
        parts = grouped(result.critical_path_s)
        carried = result.carried_bytes
        table.add_row(
            Text(result.fabric, style="bold"),
            *(f"{1000 * seconds:,.1f}" if seconds else "-" for seconds in parts.values()),
            str(result.parameters.get("all_to_all", "")),
            " / ".join(
                show_bytes(size, 3) if size else "-"
                for size in (
                    carried.get("eps", 0),
                    carried.get("ocs", 0) + carried.get("direct", 0),
                    carried.get("relayed", 0),
                )
            ),
        )
    return table


def progress_line(done: int, total: int, elapsed_s: float) -> str:
    """Text such as ``4/25 runs, about 12 s left``."""
    if not done:
        return f"0/{total} runs"
    left = elapsed_s / done * (total - done)
    return f"{done}/{total} runs, about {show_time(left, 2)} left"
