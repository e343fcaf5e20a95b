"""The switches that networks are built of: a sentence by default, a table in detail."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from lightloom.fabric import Switches
from lightloom.report.terminal import plain_table
from lightloom.study.compare.results import FabricResult
from lightloom.study.compare.switching import ELECTRONIC
from lightloom.units import show_usd

#: what boxes are called, by the component that counts their ports
BOXES = {
    "eps_port": ("packet switch", "packet switches"),
    "crossbar_port": ("crossbar", "crossbars"),
    "ocs_port": ("OCS", "OCSes"),
    "patch_port": ("patch panel", "patch panels"),
}
#: a change of a network's cost from which another switch is worth a remark
_WORTH = 0.03


def built_of(results: Sequence[FabricResult]) -> str:
    """A sentence on the switches of each fabric, and on others that change its cost."""
    words = [f"{r.fabric} {text}" for r in results if (text := _boxes(r))]
    if not words:
        return ""
    return " ".join([f"Switches: {'; '.join(words)}.", *_grain(results)])


def _grain(results: Sequence[FabricResult]) -> list[str]:
    """Why a tree with less rate upwards is no cheaper than one with all of it, if it is not."""
    whole = next((r for r in results if r.kind == "fat-tree"), None)
    if whole is None:
        return []
    sentences = []
    for thin in results:
        if thin.kind != "oversub" or thin.network_cost_usd < whole.network_cost_usd:
            continue
        own, other = thin.switching.main, whole.switching.main
        if own is None or other is None:
            continue
        if own.tiers == 1:
            reason = "all NICs share one switch, and no link upwards is left to save"
        else:
            reason = (
                f"whole switches decide at this size: {own.used:,} ports in {_tiers(own.tiers)}"
                f" against {other.used:,} in {_tiers(other.tiers)}, as its ToRs divide their ports"
                " between servers and uplinks"
            )
        is_dearer = thin.network_cost_usd > whole.network_cost_usd
        cost = f"costs {'more than' if is_dearer else 'as much as'} {whole.fabric}"
        sentences.append(f"{thin.fabric} {cost}: {reason}.")
    return sentences


def _boxes(result: FabricResult) -> str:
    text = boxes_of(result.switching.switches)
    for other in result.switching.others:
        extra = other.network_cost_usd - result.network_cost_usd
        if abs(extra) > _WORTH * result.network_cost_usd:
            more = "more" if extra > 0 else "less"
            text += (
                f" (with {other.ports} ports: {_tiers(other.tiers)}, {show_usd(abs(extra))} {more})"
            )
    return text


def boxes_of(kinds: Sequence[Switches]) -> str:
    """Number, ports and tiers of the switches of each kind."""
    return " and ".join(_box(switches) for switches in kinds if switches.count)


def _box(switches: Switches) -> str:
    box, count = BOXES[switches.component], f"{switches.count:,}"
    where = f", {_tiers(switches.tiers)}" if switches.component in ELECTRONIC else ""
    planes = f", {switches.planes} planes" if switches.planes > 1 else ""
    return f"{count} {box[switches.count > 1]} of {switches.ports:,} ports{where}{planes}"


def _tiers(count: int) -> str:
    return f"{count} tier{'s' * (count > 1)}"


def switches_table(results: Sequence[FabricResult]) -> Table:
    """Switches of every fabric: bought and used ports, the next cliff, other switches."""
    headers = [
        "fabric", "switches", "ports", "tiers", "used\nports", "unused\n[k$]", "up to\n[GPUs]",
        "with other switches",
    ]  # fmt: skip
    table = plain_table(
        "Switches",
        headers,
        texts=["with other switches"],
        caption="unused: ports that come with whole switches, left out of the network's cost; "
        "up to: as many GPUs as that many tiers take",
    )
    for result in results:
        switching = result.switching
        for number, switches in enumerate(switching.switches):
            is_first = number == 0
            others = [
                f"{other.ports} ports ({other.title}, {other.availability}): {other.count:,} in "
                f"{_tiers(other.tiers)}, {show_usd(other.network_cost_usd)}"
                for other in switching.others
            ]
            widest = switching.widest_gpus
            table.add_row(
                Text(result.fabric if is_first else "", style="bold"),
                f"{switches.count:,} {BOXES[switches.component][switches.count != 1]}",
                f"{switches.ports}",
                f"{switches.tiers}",
                f"{switches.used / max(1, switches.used + switches.spare):.0%}",
                f"{switching.unused_ports_usd / 1e3:,.0f}" if is_first else "",
                f"{widest:,}" if is_first and widest is not None else "",
                "; ".join(others) if is_first else "",
            )
    return table
