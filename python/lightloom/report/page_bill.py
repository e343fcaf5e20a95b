"""What a page shows of each fabric's parts: a drawing, the bill of materials, dollars per year."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lightloom.cost import unit_power_w, unit_price_usd
from lightloom.hardware import Ownership, load_ownership, yearly_kwh
from lightloom.report.plots_fabric import fabric_drawing
from lightloom.report.plots_svg import FabricStyle
from lightloom.study.compare.results import Comparison, FabricResult

#: days of a year
_DAYS = 365.25


@dataclass(frozen=True)
class BillLine:
    """So many of one part at one rate, its price and its power."""

    component: str
    rate_gbps: float
    count: int
    price_usd: float
    power_w: float
    technology: str | None = None

    @property
    def total_usd(self) -> float:
        """Price of all of them."""
        return self.count * self.price_usd

    @property
    def total_w(self) -> float:
        """Power of all of them."""
        return self.count * self.power_w


@dataclass(frozen=True)
class FabricView:
    """One fabric: its drawing and its bill."""

    style: FabricStyle
    drawing: Markup | None
    lines: tuple[BillLine, ...]


def fabric_views(comparison: Comparison, styles: Mapping[str, FabricStyle]) -> list[FabricView]:
    """Views of all fabrics, in their order; without a run or a job there is less to show."""
    runs = comparison.details.get("runs", {})
    jobs = comparison.details.get("jobs", {})
    views = []
    for result in comparison.results:
        done = runs.get(result.fabric)
        drawing = None
        if done is not None:
            ports = result.parameters.get("switch_ports")
            drawing = fabric_drawing(done.network, done.run.links, ports)
        job = jobs.get(result.fabric)
        lines = () if job is None else bill_lines(job, result.fabric)
        if drawing is not None or lines:
            views.append(FabricView(styles[result.fabric], drawing, lines))
    return views


def bill_lines(job: Any, name: str) -> tuple[BillLine, ...]:
    """Parts of one fabric of a job, priced by its lists; their sum is what the fabric costs."""
    fabric = next(fabric for fabric in job.fabrics if fabric.name == name)
    bill = fabric.bill_of_materials(job.installed, job.rates.counting)
    return tuple(
        BillLine(
            line.component,
            line.rate_gbps,
            line.count,
            unit_price_usd(line, bill, job.rates.prices),
            unit_power_w(line, job.rates.powers),
            line.technology,
        )
        for line in bill.lines
    )


@dataclass(frozen=True)
class OwnershipRow:
    """What one fabric costs per year, and its cluster per 10^12 tokens."""

    result: FabricResult
    network_mwh: float
    network_electricity_usd: float
    network_yearly_usd: float
    cluster_yearly_usd: float
    usd_per_trillion_tokens: float | None


def ownership_rows(comparison: Comparison) -> tuple[Ownership, list[OwnershipRow]]:
    """Dollars per year under the packaged values, which the page's reader may change."""
    ownership = load_ownership()
    rows = []
    for r in comparison.results:
        cluster = ownership.yearly_usd(r.cluster_cost_usd, r.cluster_power_w)
        rows.append(
            OwnershipRow(
                result=r,
                network_mwh=yearly_kwh(r.network_power_w) / 1000,
                network_electricity_usd=ownership.electricity_usd(r.network_power_w),
                network_yearly_usd=ownership.yearly_usd(r.network_cost_usd, r.network_power_w),
                cluster_yearly_usd=cluster,
                usd_per_trillion_tokens=None
                if r.days_per_trillion_tokens is None
                else cluster * r.days_per_trillion_tokens / _DAYS,
            )
        )
    return ownership, rows
