"""A packet simulation as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightloom import __version__
from lightloom.output.files import write_text
from lightloom.packets import PacketRun, PacketScenario
from lightloom.packets.several import PacketCase
from lightloom.report.packets_cases import (
    case_heading,
    case_remarks,
    case_verdicts,
    cases_grid,
    slowest_in_runs,
)
from lightloom.report.packets_detail import (
    MAX_ROWS,
    busiest_links,
    distributions,
    link_map,
    worst_flows,
)
from lightloom.report.packets_table import (
    grids,
    heading,
    parameter_rows,
    programs_text,
    verdict,
    work_text,
)
from lightloom.report.page_template import render_page
from lightloom.report.plots_packets import (
    busiest_series,
    distribution,
    legend,
    link_queues,
    link_rates,
    queues,
    slowdown_distribution,
    slowdowns,
    utilization,
)


def write_packets_page(
    run: PacketRun, scenario: PacketScenario, path: Path, command: str = ""
) -> None:
    """Write the page; ``path`` appears only when it is whole.

    ``command`` is what made it, for the reader to copy.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_packets(run, scenario, command), path)


def render_packets(run: PacketRun, scenario: PacketScenario, command: str = "") -> str:
    """Text of the page."""
    return render_page("packets.html", _context(run, scenario) | _made_by(command))


def _made_by(command: str) -> dict[str, Any]:
    return {"command": command, "files": []}


def write_cases_page(cases: Sequence[PacketCase], path: Path, command: str = "") -> None:
    """Write the page of several runs; ``path`` appears only when it is whole.

    Raises
    ------
    OutputError
        If it cannot be written.
    """
    write_text(render_cases(cases, command), path)


def render_cases(cases: Sequence[PacketCase], command: str = "") -> str:
    """Text of the page of several runs, which are drawn over one another."""
    return render_page("packets_cases.html", _cases_context(cases) | _made_by(command))


def _cases_context(cases: Sequence[PacketCase]) -> dict[str, Any]:
    ran = [(case, case.run) for case in cases if case.run is not None]
    finished = [(case, run) for case, run in ran if not np.isnan(run.fct_s).all()]
    shares = [{**(distributions(run) or {}), "name": case.title} for case, run in finished]
    times = [run.fct_s[~np.isnan(run.fct_s)] for _, run in finished]
    slowed = [run.slowdown[~np.isnan(run.slowdown)] for _, run in finished]
    verdicts = case_verdicts(cases)
    return {
        "version": __version__,
        "title": verdicts[-1] if verdicts else f"{len(cases)} packet simulations",
        "heading": case_heading(cases),
        "verdict": [*verdicts[:-1], *case_remarks(cases)],
        "charts": {"distributions": shares[0], "runs": shares[1:]} if shares else None,
        "times": distribution(times, "completion time") if times else None,
        "slowdown_shares": slowdown_distribution(slowed) if slowed else None,
        "runs": legend([case.title for case, _ in finished]),
        "tables": [cases_grid(cases), *filter(None, (slowest_in_runs(cases, MAX_ROWS),))],
        "parameters": [(case.title, parameter_rows(run)) for case, run in ran],
        "work": [f"{case.title}: {work_text(run)}" for case, run in ran],
    }


def _context(run: PacketRun, scenario: PacketScenario) -> dict[str, Any]:
    flows, samples = run.flows, run.samples
    lines = [*verdict(run), *programs_text(run), *run.remarks]
    shares = distributions(run)
    done = ~np.isnan(run.fct_s)
    links = busiest_series(run)
    return {
        "version": __version__,
        "title": lines[0],
        "heading": heading(run, scenario),
        "verdict": lines[1:],
        "tables": [*grids(run), *filter(None, (worst_flows(run), busiest_links(run)))],
        "link_map": link_map(run),
        "charts": None if shares is None else {"distributions": shares},
        "work": work_text(run),
        "times": distribution([run.fct_s[done]], "completion time") if done.any() else None,
        "slowdown_shares": slowdown_distribution([run.slowdown[done]]) if done.any() else None,
        "slowdowns": slowdowns(run.slowdown[done], flows.size_bytes[done]) if done.any() else None,
        "queues": None if samples is None else queues(samples, run.layers),
        "utilization": None if samples is None else utilization(samples, run.layers),
        "legend": legend(run.layers),
        "link_rates": link_rates(links) if links else None,
        "link_queues": link_queues(links) if links else None,
        "link_legend": legend([link.name for link in links]),
        "transport": run.transports,
        "parameters": parameter_rows(run),
        "seed": scenario.seed,
        "run_hash": run.run_hash,
    }
