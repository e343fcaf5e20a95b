"""A table of one collective on several fabrics."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lightloom.report.terminal import plain_table, print_table
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
    "relayed": "relayed",
}


def print_collectives(
    scenario: CollectiveScenario, found: Sequence[CollectiveResult], console: Console
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
    repeats = any(abs(one.repeated_s / one.time_s - 1) > SHOWN for one in found)
    headers = ["collective", "fabric", "buffer\nper GPU", "time"]
    headers += ["repeated"] if repeats else []
    headers += ["algorithm\n[GB/s]", "bus\n[GB/s]", "of NIC\nrate"]
    carriers = [name for name in CARRIERS if any(one.carried_bytes[name] for one in found)]
    headers += [f"{CARRIERS[name]}\n[MB]" for name in carriers]
    title = "Time, bandwidth, and what carries how much, per GPU"
    table = plain_table(title, headers, left=["fabric"])
    columns = [
        show_column((one.algorithm_bandwidth / 1e9 for one in found), 3),
        show_column((one.bus_bandwidth / 1e9 for one in found), 3),
        [f"{one.nic_share:.0%}" for one in found],
        *(
            show_column((one.carried_bytes[name] / one.gpus / 1e6 for one in found), 3)
            for name in carriers
        ),
    ]
    for one, cells in zip(found, zip(*columns, strict=True), strict=True):
        table.add_row(
            one.collective,
            _fabric(one),
            show_bytes(one.buffer_bytes),
            show_time(one.time_s),
            *([show_time(one.repeated_s)] if repeats else []),
            *cells,
        )
    print_table(table, console)
    for note in _notes(scenario, found, repeats):
        console.print(Text(note, style="dim"), soft_wrap=True)


def _fabric(one: CollectiveResult) -> str:
    """The fabric and what it chose, in a few characters."""
    chosen = one.setting.partition("=")[2] if one.setting.startswith("all_to_all") else one.setting
    if not chosen or one.collective in RINGS:
        return one.fabric
    return f"{one.fabric} ({chosen})"


def _notes(
    scenario: CollectiveScenario, found: Sequence[CollectiveResult], repeats: bool
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
    if any(one.left_out for one in found):
        notes.append("flat all-to-alls of that many uneven flows are tried with --all-to-all flat")
    return notes
