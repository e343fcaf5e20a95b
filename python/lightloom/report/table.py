"""The comparison as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.failures_table import failures_sentence, failures_table
from lightloom.report.money_table import money_table
from lightloom.report.plans_table import print_plans
from lightloom.report.story import doubts, story, unswitched
from lightloom.report.switches_table import built_of, switches_table
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.compare.results import SAME, Comparison, FabricResult

#: columns of the "where the time goes" table and the categories that each sums
BREAKDOWN = {
    "compute": (
        *("attention", "gate", "expert", "dense_ffn", "head", "optimizer"),
        *("forward", "backward", "other"),
    ),
    "TP": ("tp", "cp"),
    "all-to-all": ("ep",),
    "stragglers": ("straggler",),
    "reconfig.": ("reconfiguration",),
    "PP": ("pp", "bubble"),
    "DP": ("dp",),
}

#: names of columns in two lines, so that the widest table fits a terminal
_NARROW = {"all-to-all": "all-to-\nall", "stragglers": "strag-\nglers", "reconfig.": "recon-\nfig."}


def grouped(parts: dict[str, float]) -> dict[str, float]:
    """Sum the categories of a breakdown into the columns of :data:`BREAKDOWN`, in seconds."""
    known = {name for names in BREAKDOWN.values() for name in names}
    assert parts.keys() <= known, f"categories without a column: {parts.keys() - known}"
    return {column: sum(parts.get(n, 0.0) for n in names) for column, names in BREAKDOWN.items()}


def print_comparison(comparison: Comparison, console: Console, *, details: bool = False) -> None:
    """Print what was compared, the results, and the verdict last."""
    print_opening(comparison.inputs["summary"], comparison.warnings, console)
    print_results(comparison, console, details=details)


def print_opening(summary: Sequence[str], warnings: Sequence[str], console: Console) -> None:
    """Print what is compared, and what to know before any result is read."""
    for line in summary:
        console.print(Text(line), soft_wrap=True)
    for warning in warnings:
        console.print(Text(f"warning: {warning}", style="yellow"), soft_wrap=True)


def print_results(comparison: Comparison, console: Console, *, details: bool = False) -> None:
    """Print the plans of a search, speed and cost, what is in doubt, and the verdict.

    Details are what was moved, all columns, where the time goes, and remarks on fabrics.
    """
    print_plans(comparison.inputs.get("plan_candidates", ()), console)
    if details:
        _print_details(comparison, console)
    else:
        print_table(_short_table(comparison), console)
    if comparison.results[0].failures:
        print_table(failures_table(comparison.results), console)
        if lost := failures_sentence(comparison.results):
            print_sentence(lost, console)
    if switches := built_of(comparison.results):
        print_sentence(switches, console)
    print_sentence(doubts(comparison), console)
    print_sentence(story(comparison), console, style="bold")


def _print_details(comparison: Comparison, console: Console) -> None:
    shares = comparison.traffic_shares.items()
    moved = ", ".join(f"{name.upper()} {100 * share:.3g} %" for name, share in shares if share)
    if moved:
        console.print(Text(f"bytes moved, NVSwitch included: {moved}"), soft_wrap=True)
    print_table(_speed_table(comparison), console)
    print_table(_cost_table(comparison), console)
    if comparison.results[0].tokens_per_s is not None:
        print_table(money_table(comparison.results), console)
    print_table(switches_table(comparison.results), console)
    print_table(_breakdown_table(comparison), console)
    print_table(_mean_table(comparison), console)
    switched = [r for r in comparison.results if r.policies and unswitched(r) is None]
    if switched:
        print_table(_policy_table(switched), console)
    for sentence in filter(None, map(unswitched, comparison.results)):
        print_sentence(sentence, console)
    notes = notes_by_fabrics(comparison)
    if notes:
        console.print()
    for names, note in notes.items():
        console.print(Text(f"{names}: {note}", style="dim"), soft_wrap=True)


def print_sentence(text: str, console: Console, style: str = "") -> None:
    """Print a blank line and a sentence: wrapped between words on a terminal, else on one line."""
    console.print(Text(f"\n{text}", style=style), soft_wrap=not console.is_terminal)


def notes_by_fabrics(comparison: Comparison) -> dict[str, str]:
    """Notes by the fabrics that they are about; equal ones together."""
    fabrics: dict[str, list[str]] = {}
    for result in comparison.results:
        for note in result.notes:
            fabrics.setdefault(note, []).append(result.fabric)
    grouped_notes: dict[str, str] = {}
    for note, names in fabrics.items():
        key = ", ".join(names)
        grouped_notes[key] = f"{grouped_notes[key]}; {note}" if key in grouped_notes else note
    return grouped_notes


def _short_table(comparison: Comparison) -> Table:
    """What decides: the step under each load, and what the network costs."""
    results = comparison.results
    loads = [load.imbalance for load in results[0].loads]
    rates = {name: show for name, show in _RATES.items() if "days" not in name}
    columns: dict[str, list[str]] = {
        "step\n[s]": [f"{r.step_time_s:.4g}" for r in results],
        "vs\nbest": [_ratio(r, results) for r in results],
    }
    for number, name in enumerate(loads):
        columns[f"{name}\n[s]"] = [f"{r.loads[number].step_time_s:.4g}" for r in results]
    for name, show in rates.items():
        if shown := [text for r in results if (text := show(r)) is not None]:
            columns[name] = shown
    columns["network\n[M$]"] = [f"{r.network_cost_usd / 1e6:,.2f}" for r in results]
    unit = results[0].pace_unit.replace("tokens", "tok")
    columns[f"{unit}/k$\ncluster"] = [f"{1000 * r.perf_per_cluster_usd:,.2f}" for r in results]
    caption = "vs best: =: tied"
    caption += mfu_words(results[0])
    caption += f"; {', '.join(loads)}: under that load of the experts" if loads else ""
    caption += "; cluster: network, servers and GPUs"
    table = plain_table("Speed and cost", ["fabric", *columns], caption=caption)
    for result, row in zip(results, zip(*columns.values(), strict=True), strict=True):
        table.add_row(Text(result.fabric, style="bold"), *row)
    return table


def _ratio(result: FabricResult, results: Sequence[FabricResult]) -> str:
    """The ratio to the fastest, with a sign if the fastest is not alone."""
    is_tied = result.tied_with_fastest and sum(r.tied_with_fastest for r in results) > 1
    return f"{result.ratio_to_fastest[1]:.3f}{'=' if is_tied else ''}"


def _speed_table(comparison: Comparison) -> Table:
    """How fast each fabric trains, under its own load and under others."""
    results = comparison.results
    loads = [load.imbalance for load in results[0].loads]
    headers = ["fabric", "step\n[s]", "interval\n[s]", "vs\nbest"]
    headers += [f"{name}\n[s]" for name in loads]
    headers += [name for name, show in _RATES.items() if show(results[0]) is not None]
    table = plain_table("Training speed", headers, caption=_speed_caption(results[0], loads))
    fastest = min(r.step_time_s for r in results)
    minimum = {
        name: min(load.step_time_s for r in results if (load := r.load(name))) for name in loads
    }
    for result in results:
        low, high = result.step_time_low_s, result.step_time_high_s
        table.add_row(
            Text(result.fabric, style="bold"),
            _mark("{:.4g}", result.step_time_s, fastest),
            Text(f"{low:.3g}-{high:.3g}", style="dim"),
            Text(_ratio(result, results)),
            *(_mark("{:.4g}", load.step_time_s, minimum[load.imbalance]) for load in result.loads),
            *(Text(text) for show in _RATES.values() if (text := show(result)) is not None),
        )
    return table


def _shown(value: float | None) -> str | None:
    return None if value is None else _whole(value)


def three_digits(value: float | None) -> str | None:
    """A number with three digits that count, or all of its whole ones."""
    if value is None:
        return None
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


#: columns of throughput; one is left out where it is not known
_RATES: dict[str, Callable[[FabricResult], str | None]] = {
    "MFU\n[%]": lambda one: None if one.mfu is None else f"{100 * one.mfu:.1f}",
    "tokens/s\nper GPU": lambda one: _shown(one.tokens_per_s_per_gpu),
    "days per\n10^12": lambda one: three_digits(one.days_per_trillion_tokens),
}


def _speed_caption(result: FabricResult, loads: Sequence[str]) -> str:
    caption = (
        "interval: all samples, compute speed varied; vs best: on the same samples, so that "
        f"compute speed cancels; =: tied, no slower in one of them or by {100 * (SAME - 1):.1g} % "
        "at most"
    )
    caption += mfu_words(result)
    caption += "" if result.days_per_trillion_tokens is None else "; 10^12: tokens"
    if loads:
        caption += f"; {', '.join(loads)}: under that load of the experts"
    return caption


def mfu_words(result: FabricResult) -> str:
    """How MFU is counted, and what it is in TFLOP/s; nothing where it is not known."""
    if not result.mfu or not result.tflops_per_gpu:
        return ""
    each = result.tflops_per_gpu / result.mfu / 100
    return (
        f"; MFU: of the BF16 peak (1 %: {each:.4g} TFLOP/s per GPU), attention by half for the "
        "causal mask, as Megatron since 2025"
    )


def _cost_table(comparison: Comparison) -> Table:
    """What each fabric costs and draws, and what one gets for it."""
    results = comparison.results
    unit = results[0].pace_unit
    short = unit.replace("tokens", "tok")
    headers = ["fabric", "network\n[M$]", "cluster\n[M$]", "power\n[kW]", f"\n{unit}"]
    headers += [f"{short}/k$\nnetwork", f"{short}/k$\ncluster", "vs best per\ncluster $"]
    caption = "power is the network's; cluster: network, servers and GPUs; k$: thousand dollars"
    table = plain_table("Cost and power", headers, caption=caption)
    best = _best(comparison)
    cheapest = min(r.network_cost_usd for r in results)
    for result in results:
        value = result.perf_per_cluster_usd
        table.add_row(
            Text(result.fabric, style="bold"),
            _mark("{:,.2f}", result.network_cost_usd / 1e6, cheapest / 1e6),
            Text(f"{result.cluster_cost_usd / 1e6:,.2f}"),
            Text(_whole(result.network_power_w / 1000)),
            Text(_whole(result.pace)),
            _mark("{:,.1f}", 1000 * result.perf_per_usd, 1000 * best["network"]),
            _mark("{:,.2f}", 1000 * value, 1000 * best["cluster"]),
            Text(f"{value / best['cluster']:.3f}"),
        )
    return table


def _mark(form: str, value: float, best: float) -> Text:
    """A value, marked if it reads as the best one does."""
    text = form.format(value)
    return Text(text, style="bold green" if text == form.format(best) else "")


def _best(comparison: Comparison) -> dict[str, float]:
    results = comparison.results
    return {
        "network": max(r.perf_per_usd for r in results),
        "cluster": max(r.perf_per_cluster_usd for r in results),
    }


def _whole(value: float) -> str:
    """At most seven characters: tenths of small numbers, millions of large ones."""
    if value >= 1e7:
        return f"{value / 1e6:,.4g}M"
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.1f}"


def _breakdown_table(comparison: Comparison) -> Table:
    longest = max(result.step_time_s for result in comparison.results)
    factor, unit = (1.0, "s") if longest >= 10 else (1e3, "ms")
    title = f"Where the time goes: critical path [{unit}]; what carried the bytes [TB]"
    names = [_NARROW.get(name, name) for name in BREAKDOWN]
    table = plain_table(title, ["fabric", *names, "EPS", "OCS", "relay"])
    for result in comparison.results:
        carried = result.carried_bytes
        sizes = (
            carried.get("eps", 0),
            sum(carried.get(name, 0) for name in ("ocs", "direct", "crossbar")),
            carried.get("relayed", 0),
        )
        table.add_row(
            Text(result.fabric, style="bold"),
            *(
                f"{factor * seconds:.2f}" if seconds else "-"
                for seconds in grouped(result.critical_path_s).values()
            ),
            *(_whole(size / 1e12) if size else "-" for size in sizes),
        )
    return table


def _mean_table(comparison: Comparison) -> Table:
    """What the mean GPU does, waits included: the critical path has neither bubble nor stragglers.

    The chain of causes that ends the step never waits; the other GPUs do, for the pipeline and
    for the slowest member of their EP group.
    """
    longest = max(result.step_time_s for result in comparison.results)
    factor, unit = (1.0, "s") if longest >= 10 else (1e3, "ms")
    names = ["compute", "TP", "all-to-all", "stragglers", "reconfig.", "PP", "bubble", "DP"]
    table = plain_table(f"Mean GPU [{unit}]", ["fabric", *names])
    for result in comparison.results:
        parts = grouped(result.mean_s)
        bubble = result.mean_s.get("bubble", 0.0)
        seconds = [
            parts["compute"],
            parts["TP"],
            parts["all-to-all"],
            parts["stragglers"],
            parts["reconfig."],
            parts["PP"] - bubble,
            bubble,
            parts["DP"],
        ]
        table.add_row(
            Text(result.fabric, style="bold"),
            *(f"{factor * value:.2f}" if value else "-" for value in seconds),
        )
    return table


def _policy_table(results: Sequence[FabricResult]) -> Table:
    """The first sample under each policy of switching circuits."""
    headers = ["fabric", "policy", "step\n[s]", "gain\n[%]", "exposed\n[ms]"]
    headers += ["reconfi-\ngurations", "saved by\neach [ms]"]
    table = plain_table(
        "When circuits are switched: the first sample under each policy",
        headers,
        left=["policy"],
        caption="gain over never; exposed: the mean GPU's wait; saved: by each reconfiguration, in "
        "upcoming all-to-alls at line rate; *: the policy of the tables above",
    )
    for result in results:
        own = result.parameters.get("reconfigure")
        for policy in result.policies:
            never = policy.step_time_s + policy.gain_s
            table.add_row(
                Text(result.fabric, style="bold"),
                Text(f"{policy.policy}{' *' if policy.policy == own else ''}"),
                Text(f"{policy.step_time_s:.4g}"),
                Text(f"{100 * policy.gain_s / never:.2f}" if policy.gain_s else "-"),
                Text(f"{1e3 * policy.exposed_s:,.1f}" if policy.exposed_s else "-"),
                Text(f"{policy.reconfigurations:,}" if policy.reconfigurations else "-"),
                Text(f"{1e3 * policy.saved_s:.3f}" if policy.reconfigurations else "-"),
            )
    return table
