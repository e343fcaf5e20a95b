"""A table of one collective on several fabrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.terminal import plain_table, print_table, table_width
from lightloom.study.collective import CollectiveResult, CollectiveScenario
from lightloom.study.collective.run import RINGS
from lightloom.study.compare.racks import servers_of
from lightloom.units import show_bytes, show_column, show_time

#: relative difference of a repeated collective that is shown
SHOWN = 0.005
#: what carriers are called
CARRIERS = {
    "nvswitch": "NV-\nSwitch",
    "eps": "packets",
    "ocs": "circuits",
    "direct": "fixed\ncircuits",
    "crossbar": "turns",
    "racks": "racks'\ncircuits",
    "relayed": "relayed",
}


def print_collectives(
    scenario: CollectiveScenario, results: Sequence[CollectiveResult], console: Console
) -> None:
    """Print times, bandwidths and carriers of each collective and fabric."""
    group = scenario.group_gpus or scenario.gpus
    groups = f", groups of {group}" if group != scenario.gpus else ""
    cluster = scenario.cluster
    size, nics = servers_of(cluster)
    console.print(
        Text(
            f"{scenario.model or scenario.collective} on {scenario.gpus:,} {cluster.gpu} GPUs"
            f"{groups}, {nics} NICs of {cluster.rate_gbps:g} Gb/s per "
            f"{size}-GPU server"
        ),
        soft_wrap=True,
    )
    repeats = any(abs(result.repeated_s / result.time_s - 1) > SHOWN for result in results)
    labels, times, carried = _labels(results), _times(results, repeats), _carried(results)
    title = "Time, bandwidth, and what carries how much, per GPU"
    whole = _table(title, labels | times | carried)
    if table_width(whole, console) <= console.width:
        print_table(whole, console)
    else:
        print_table(_table("Time and bandwidth", labels | times), console)
        print_table(_table("What carries how much, per GPU", labels | carried), console)
    console.print()
    for note in _notes(scenario, results, repeats):
        console.print(Text(note, style="dim"), soft_wrap=True)


def _table(title: str, columns: Mapping[str, Sequence[str]]) -> Table:
    table = plain_table(title, list(columns), left=["collective", "fabric"])
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    return table


def _labels(results: Sequence[CollectiveResult]) -> dict[str, list[str]]:
    """What a row is about; no column for what all have in common."""
    columns = {
        "collective": [r.collective for r in results],
        "fabric": [_fabric(r) for r in results],
        "buffer\nper GPU": [show_bytes(r.buffer_bytes) for r in results],
    }
    if len(set(columns["collective"])) == 1:
        del columns["collective"]
    return columns


def _times(results: Sequence[CollectiveResult], repeats: bool) -> dict[str, list[str]]:
    return {
        "time": [show_time(r.time_s) for r in results],
        **({"repeated": [show_time(r.repeated_s) for r in results]} if repeats else {}),
        "algorithm\n[GB/s]": show_column((r.algorithm_bandwidth / 1e9 for r in results), 3),
        "bus\n[GB/s]": show_column((r.bus_bandwidth / 1e9 for r in results), 3),
        "of NIC\nrate": [f"{r.nic_share:.0%}" for r in results],
    }


def _carried(results: Sequence[CollectiveResult]) -> dict[str, list[str]]:
    return {
        f"{words}\n[MB]": show_column(
            (r.carried_bytes.get(name, 0) / r.gpus / 1e6 or None for r in results), 3
        )
        for name, words in CARRIERS.items()
        if any(r.carried_bytes.get(name) for r in results)
    }


def _fabric(result: CollectiveResult) -> str:
    """The fabric and what it chose, in a few characters."""
    setting = result.setting
    if setting is None or result.collective in RINGS:
        return result.fabric
    chosen = setting.value if setting.option == "all_to_all" else str(setting)
    return f"{result.fabric} ({chosen})"


def _notes(
    scenario: CollectiveScenario, results: Sequence[CollectiveResult], repeats: bool
) -> list[str]:
    counted = "algorithm: buffer over time; bus: what a GPU sends over time, as NCCL's tests count"
    notes = [counted]
    if scenario.model is not None:
        notes = [
            "algorithm: copies over time, those that stay included, as DeepEP counts; bus: those"
            " that leave"
        ]
    if repeats:
        notes.append(
            "repeated: an equal one that follows at once, with its circuits set and members that"
            " are done early ahead of others"
        )
    if any(result.left_out for result in results):
        notes.append("flat all-to-alls of that many uneven flows are tried with --all-to-all flat")
    return notes
