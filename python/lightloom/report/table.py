"""The comparison as tables in the terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.report.designs_table import designs_table
from lightloom.report.failures_table import failures_table
from lightloom.report.grid import print_rows
from lightloom.report.money_table import money_table
from lightloom.report.plans_table import print_plans
from lightloom.report.remarks import remarks
from lightloom.report.result_columns import column
from lightloom.report.story import story, unswitched
from lightloom.report.switches_table import switches_table
from lightloom.report.terminal import plain_table, print_sentence, print_table, table_width
from lightloom.report.worth_of_strategies import worth_grids
from lightloom.study.compare.imbalance import LEARNED
from lightloom.study.compare.results import SAME, Comparison, FabricResult
from lightloom.units import show_column, show_number

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
    "transfers": ("transfers",),
}

#: by how much packets take longer than flows
_LONGER = "packets\n[%]"
#: the first column on cost
_NETWORK = "network\n[M$]"
#: columns beyond those that decide, by how their headers begin
_EXTRA = ("interval", "learned", "days per", "cluster", "power", "\n", "vs best per")

#: names of columns in two lines, so that the widest table fits a terminal
_NARROW = {"all-to-all": "all-to-\nall", "stragglers": "strag-\nglers", "reconfig.": "recon-\nfig."}


def grouped(parts: dict[str, float]) -> dict[str, float]:
    """Sum the categories of a breakdown into the columns of :data:`BREAKDOWN`, in seconds."""
    categories = {name for names in BREAKDOWN.values() for name in names}
    assert parts.keys() <= categories, f"categories without a column: {parts.keys() - categories}"
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
    print_plans(comparison, console)
    designs = comparison.inputs.get("designs", ())
    if details and designs:
        print_table(designs_table(designs), console)
    if details:
        _print_details(comparison, console)
    else:
        print_table(_short_table(comparison, console), console)
    if comparison.results[0].failures:
        print_table(failures_table(comparison.results), console)
    for grid in worth_grids(comparison.results):
        print_rows(grid, console, left=("best",))
    for text in remarks(comparison):
        console.print()
        print_sentence(text, console)
    console.print()
    print_sentence(story(comparison), console, "bold")


def _print_details(comparison: Comparison, console: Console) -> None:
    shares = comparison.traffic_shares.items()
    moved = ", ".join(
        f"{name.upper()} {show_number(100 * share, 3)} %" for name, share in shares if share
    )
    if moved:
        console.print(Text(f"bytes moved, NVSwitch included: {moved}"), soft_wrap=True)
    _print_speed_and_cost(comparison, console)
    if comparison.results[0].tokens_per_s is not None:
        print_table(money_table(comparison.results), console)
    print_table(switches_table(comparison.results), console)
    print_table(_breakdown_table(comparison), console)
    print_table(_mean_table(comparison), console)
    switched = [r for r in comparison.results if r.policies and unswitched(r) is None]
    if switched:
        print_table(_policy_table(switched), console)
    for sentence in filter(None, map(unswitched, comparison.results)):
        console.print()
        print_sentence(sentence, console)
    notes = notes_by_fabrics(comparison)
    if notes:
        console.print()
    for names, note in notes.items():
        console.print(Text(f"{names}: {note}", style="dim"), soft_wrap=True)


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


def _columns(results: Sequence[FabricResult]) -> dict[str, list[Text]]:
    """All columns of speed and cost by their headers, in their order; best values are marked."""
    short = results[0].pace_unit.replace("tokens", "tok")
    best = max(r.perf_per_cluster_usd for r in results)
    columns = {
        "step\n[s]": _marked(results, "step_time_s"),
        "interval\n[s]": [Text("-".join(ends), style="dim") for ends in intervals(results)],
        "vs\nbest": [Text(_ratio(r, results)) for r in results],
    }
    if as_flows := _as_flows(results):
        columns |= as_flows
    for number, load in enumerate(results[0].loads):
        times = [r.loads[number].step_time_s for r in results]
        texts = show_column(times)
        columns[_load_header(load.imbalance)] = _first_marked(texts, times.index(min(times)))
    columns |= {name: list(map(Text, texts)) for name, texts in _rates(results).items()}
    return columns | {
        _NETWORK: _marked(results, "network_cost_usd"),
        "cluster\n[M$]": list(map(Text, column(results, "cluster_cost_usd"))),
        "power\n[kW]": list(map(Text, column(results, "network_power_w"))),
        f"\n{results[0].pace_unit}": list(map(Text, column(results, "pace"))),
        f"{short}/k$\nnetwork": _marked(results, "perf_per_usd"),
        f"{short}/k$\ncluster": _marked(results, "perf_per_cluster_usd"),
        "vs best per\ncluster $": [Text(f"{r.perf_per_cluster_usd / best:.3f}") for r in results],
    }


def _as_flows(results: Sequence[FabricResult]) -> dict[str, list[Text]]:
    """The step as flows, and by how much it is longer as packets, where it was simulated so."""
    if not any(r.packets for r in results):
        return {}
    times = [r.packets.get("step_time_as_flows_s") for r in results]
    shares = [r.packets.get("longer_share") for r in results]
    longer = ["-" if share is None else f"{100 * share:+.1f}" for share in shares]
    return {"as flows\n[s]": list(map(Text, show_column(times))), _LONGER: list(map(Text, longer))}


def _print_speed_and_cost(comparison: Comparison, console: Console) -> None:
    """All columns, in one table where it fits and else in two or three."""
    results = comparison.results
    columns = _columns(results)
    names = list(columns)
    whole = _table(results, "Speed and cost", columns, names)
    if table_width(whole, console) <= console.width:
        print_table(whole, console)
        return
    place = names.index(_NETWORK)
    speed, learned = names[:place], [_load_header(load) for load in LEARNED]
    training = _table(results, "Training speed", columns, speed)
    apart = [name for name in speed if name in learned]
    if apart and table_width(training, console) > console.width:
        kept = [name for name in speed if name not in learned]
        print_table(_table(results, "Training speed", columns, kept), console)
        training = _table(results, "Step while a gate learns to balance", columns, apart)
    print_table(training, console)
    print_table(_table(results, "Cost and power", columns, names[place:]), console)


def _short_table(comparison: Comparison, console: Console) -> Table:
    """What decides: the step under each load, and what the network costs; more where it fits."""
    results = comparison.results
    columns = _columns(results)
    extra = [name for name in columns if name.startswith(_EXTRA) or name.endswith("k$\nnetwork")]
    shown = [name for name in columns if name not in extra]
    for name in extra:
        more = [column for column in columns if column in {*shown, name}]
        wider = _table(results, "Speed and cost", columns, more)
        if table_width(wider, console) <= console.width:
            shown = more
    return _table(results, "Speed and cost", columns, shown)


def _table(
    results: Sequence[FabricResult],
    title: str,
    columns: Mapping[str, list[Text]],
    names: Sequence[str],
) -> Table:
    """Some of the columns, and what their headers mean."""
    meanings = _meanings(results)
    said = [meanings[name] for name in names if name in meanings]
    table = plain_table(title, ["fabric", *names], caption="; ".join(said))
    for number, result in enumerate(results):
        cells = (columns[name][number] for name in names)
        table.add_row(Text(result.fabric, style="bold"), *cells)
    return table


def _meanings(results: Sequence[FabricResult]) -> dict[str, str]:
    """What headers mean that do not say it, each with the first column that needs it."""
    loads = [load.imbalance for load in results[0].loads]
    ends = [load for load in loads if load not in LEARNED]
    under = f"{', '.join(ends)}: under that load of the experts"
    learned = "learned: under the load of a gate balanced by biases, early and late in its training"
    return {
        "interval\n[s]": "interval: all samples, with GPUs faster and slower as well",
        "vs\nbest": "vs best: on the same samples; =: as fast, within "
        f"{100 * (SAME - 1):.1g} % or in one sample",
        _LONGER: "packets: by how much the step is longer than as flows",
        **({_load_header(loads[0]): under} if loads else {}),
        _load_header(next(iter(LEARNED))): learned,
        "MFU\n[%]": mfu_words(results[0]),
        "days per\n10^12": "10^12: tokens",
        "power\n[kW]": "power: of the network",
        f"{results[0].pace_unit.replace('tokens', 'tok')}/k$\ncluster": "k$: thousand dollars; "
        "cluster: network, servers and GPUs",
    }


def _load_header(load: str) -> str:
    return f"{load.replace(' ', chr(10))} [s]" if load in LEARNED else f"{load}\n[s]"


def _ratio(result: FabricResult, results: Sequence[FabricResult]) -> str:
    """The ratio to the fastest, with a sign if the fastest is not alone."""
    is_tied = result.tied_with_fastest and sum(r.tied_with_fastest for r in results) > 1
    return f"{result.ratio_to_fastest[1]:.3f}{'=' if is_tied else ''}"


def _rates(results: Sequence[FabricResult]) -> dict[str, list[str]]:
    """Columns of throughput; one is left out where it is not known."""
    columns = {
        "MFU\n[%]": "mfu",
        "tokens/s\nper GPU": "tokens_per_s_per_gpu",
        "days per\n10^12": "days_per_trillion_tokens",
    }
    return {
        header: column(results, name)
        for header, name in columns.items()
        if all(getattr(r, name) is not None for r in results)
    }


def intervals(results: Sequence[FabricResult]) -> list[tuple[str, str]]:
    """The least and the largest step time of each fabric, in seconds with three digits."""
    ends = show_column((s for r in results for s in (r.step_time_low_s, r.step_time_high_s)), 3)
    return list(zip(ends[::2], ends[1::2], strict=True))


def mfu_words(result: FabricResult) -> str:
    """How MFU is counted, and what it is in TFLOP/s; nothing where it is not known."""
    if not result.mfu or not result.tflops_per_gpu:
        return ""
    each = result.tflops_per_gpu / result.mfu / 100
    return (
        f"MFU: of the BF16 peak (1 %: {show_number(each)} TFLOP/s per GPU), attention by half "
        "for the causal mask, as Megatron since 2025"
    )


def _marked(results: Sequence[FabricResult], name: str) -> list[Text]:
    """A column whose values are marked if they read as the best one does."""
    values = [getattr(r, name) for r in results]
    best = max(values) if name.startswith("perf") else min(values)
    return _first_marked(column(results, name), values.index(best))


def _first_marked(texts: Sequence[str], best: int) -> list[Text]:
    return [Text(text, style="bold green" if text == texts[best] else "") for text in texts]


def _breakdown_table(comparison: Comparison) -> Table:
    part, unit = parts_of(comparison.results)
    title = f"Where the time goes: critical path [{unit}]; what carried the bytes [TB]"
    rows = [grouped(result.critical_path_s) for result in comparison.results]
    columns = _used_columns(rows, tuple(BREAKDOWN))
    names = [_NARROW.get(name, name) for name in columns]
    table = plain_table(title, ["fabric", *names, "EPS", "OCS", "relay"])
    carried = [_carried(result) for result in comparison.results]
    largest = max((sum(sizes) for sizes in carried), default=0.0)
    for result, row, sizes in zip(comparison.results, rows, carried, strict=True):
        table.add_row(
            Text(result.fabric, style="bold"),
            *(part(row[column]) for column in columns),
            *show_column((size or None for size in sizes), 3, total=largest or None),
        )
    return table


def _used_columns(rows: Sequence[dict[str, float]], names: tuple[str, ...]) -> list[str]:
    """Those of a model's step; of transfers between ranks at large, those that have a value."""
    if any(row["transfers"] for row in rows):
        return [name for name in names if any(row[name] for row in rows)]
    return [name for name in names if name != "transfers"]


def _carried(result: FabricResult) -> tuple[float, float, float]:
    """What packets, circuits and relaying servers carried, in TB."""
    carried = result.carried_bytes
    others = ("nvswitch", "eps", "relayed")
    circuits = sum(size for name, size in carried.items() if name not in others)
    return carried.get("eps", 0) / 1e12, circuits / 1e12, carried.get("relayed", 0) / 1e12


def parts_of(results: Sequence[FabricResult]) -> tuple[Callable[[float], str], str]:
    """What shows a part of a step, with the decimals of the longest step, and its unit."""
    longest = max(result.step_time_s for result in results)
    factor, unit = (1.0, "s") if longest >= 10 else (1e3, "ms")

    def show(seconds: float) -> str:
        value = factor * seconds if seconds else None
        return show_column([value], total=factor * longest)[0]

    return show, unit


def _mean_table(comparison: Comparison) -> Table:
    """What the mean GPU does, waits included: the critical path has neither bubble nor stragglers.

    The chain of causes that ends the step never waits; the other GPUs do, for the pipeline and
    for the slowest member of their EP group.
    """
    part, unit = parts_of(comparison.results)
    rows = []
    for result in comparison.results:
        parts, bubble = grouped(result.mean_s), result.mean_s.get("bubble", 0.0)
        rows.append(parts | {"PP": parts["PP"] - bubble, "bubble": bubble})
    order = ("compute", "TP", "all-to-all", "transfers", "stragglers", "reconfig.", "PP", "bubble",
             "DP")  # fmt: skip
    columns = _used_columns(rows, order)
    table = plain_table(f"Mean GPU [{unit}]", ["fabric", *columns])
    for result, row in zip(comparison.results, rows, strict=True):
        name = Text(result.fabric, style="bold")
        table.add_row(name, *(part(row[column]) for column in columns))
    return table


def _policy_table(results: Sequence[FabricResult]) -> Table:
    """The first sample under each policy of switching circuits."""
    headers = ["fabric", "policy", "step\n[s]", "gain\n[%]", "exposed\n[ms]"]
    headers += ["reconfi-\ngurations", "saved by\neach [ms]"]
    table = plain_table(
        "When circuits are switched: the first sample under each policy",
        headers,
        left=["policy"],
        caption="gain: over never switching; exposed: how long the mean GPU waits for circuits; "
        "saved: what a reconfiguration takes off the all-to-alls after it, at line rate; *: the "
        "policy of the tables above",
    )
    for result in results:
        policy_name = result.parameters.get("when")
        steps = show_column(policy.step_time_s for policy in result.policies)
        for policy, step in zip(result.policies, steps, strict=True):
            never = policy.step_time_s + policy.gain_s
            table.add_row(
                Text(result.fabric, style="bold"),
                Text(f"{policy.when}{' *' if policy.when == policy_name else ''}"),
                Text(step),
                Text(f"{100 * policy.gain_s / never:.2f}" if policy.gain_s else "-"),
                Text(f"{1e3 * policy.exposed_s:,.1f}" if policy.exposed_s else "-"),
                Text(f"{policy.reconfigurations:,}" if policy.reconfigurations else "-"),
                Text(f"{1e3 * policy.saved_s:.3f}" if policy.reconfigurations else "-"),
            )
    return table
