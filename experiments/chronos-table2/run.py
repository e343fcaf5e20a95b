"""How long it takes to find the matchings of an all-to-all, by ports: Chronos, Table 2.

    python experiments/chronos-table2/run.py [--write | --check] [--resume]

Times are CPU time of one core, the least of several repetitions; they go to times.csv, and from
there into the table and into lightloom/hardware/data/crossbars.toml. ``--resume`` keeps times.csv
and makes the table again; ``--check`` does, too, and says whether it is up to date.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lightloom.demand import rank_matrix, synthetic
from lightloom.schedule import PERMUTATION_METHODS, decompose

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from results import ROOT, command_line, write_or_check  # noqa: E402

TABLE, TIMES = HERE / "table.md", HERE / "times.csv"
DATA = ROOT / "python/lightloom/hardware/data/crossbars.toml"
SPREAD = ("logit_sd", "logit_sd_start")
#: seconds of CPU time, and length over the busiest port's time, by method, regime and ports
Times = dict[tuple[str, str, int], tuple[float, float]]


def load() -> dict[str, Any]:
    """The settings."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def demand_of(values: dict[str, Any], regime: str, ports: int, seed: int) -> npt.NDArray[np.int64]:
    """Bytes from GPU to GPU, one expert on each."""
    spread = {} if regime == "pair" else dict.fromkeys(SPREAD, values["logit_sd"])
    source = synthetic(
        regime,
        ranks=ports,
        experts=ports,
        tokens_per_rank=values["tokens"],
        top_k=1,
        seed=seed,
        **spread,
    )
    tokens = source.tokens(group=0, layers=range(1), micro_batches=1, step=0)[0, 0]
    return rank_matrix(tokens) * values["token_bytes"]


def measure(values: dict[str, Any], method: str, regime: str, ports: int) -> tuple[float, float]:
    """Mean over demands of the least CPU time, and of the length over the busiest port's time."""
    times, lengths = [], []
    for seed in values["seeds"]:
        demand = demand_of(values, regime, ports, seed)
        busiest = max(int(demand.sum(axis=axis).max()) for axis in (0, 1))
        spent, fastest = 0.0, math.inf
        for _ in range(values["repeats"]):
            begin = time.process_time()
            found = decompose(
                demand,
                method=method,
                rate_gbps=values["rate_gbps"],
                delay_s=values["slot_overhead_s"],
            )
            took = time.process_time() - begin
            fastest, spent = min(fastest, took), spent + took
            if spent > values["limit_s"]:
                break
        times.append(fastest)
        lengths.append(found.length_s / (busiest * 8 / (values["rate_gbps"] * 1e9)))
    # Rounded as in the file, so that the table is the same from there.
    return float(f"{np.mean(times):.3g}"), round(float(np.mean(lengths)), 4)


def measure_all(values: dict[str, Any]) -> Times:
    """All methods and sizes that are not left out."""
    found: Times = {}
    for method in (*PERMUTATION_METHODS, "auto"):
        sizes = [size for size in values["ports"] if size <= values["largest"].get(method, size)]
        for regime, ports in itertools.product(values["regimes"], sizes):
            found[method, regime, ports] = measure(values, method, regime, ports)
            took = found[method, regime, ports][0]
            print(f"{method}, {regime}, {ports} ports: {took:.3g} s", file=sys.stderr)
    return found


def times_csv(times: Times) -> str:
    """Text of times.csv."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("method", "regime", "ports", "cpu_s", "length_over_busiest"))
    for key, (cpu_s, length) in times.items():
        lines.writerow((*key, f"{cpu_s:.3g}", f"{length:.4f}"))
    return text.getvalue()


def read_times() -> Times:
    """The times of times.csv."""
    with TIMES.open(encoding="utf-8") as lines:
        return {
            (row["method"], row["regime"], int(row["ports"])): (
                float(row["cpu_s"]),
                float(row["length_over_busiest"]),
            )
            for row in csv.DictReader(lines)
        }


def slowest(times: Times) -> dict[tuple[str, int], float]:
    """Seconds by method and ports, of the demand for which a method takes longest."""
    found: dict[tuple[str, int], float] = {}
    for (method, _, ports), (cpu_s, _) in times.items():
        found[method, ports] = max(cpu_s, found.get((method, ports), 0.0))
    return found


def grid(title: str, heads: list[str], rows: dict[str, list[str]]) -> list[str]:
    """A table of Markdown."""
    head = [f"| {title} | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
    return ["", *head, *(f"| {name} | {' | '.join(cells)} |" for name, cells in rows.items())]


def exponent(first: float, last: float) -> float:
    """Growth of a time from a size to twice that: it is the size to this power."""
    return math.log2(last / first)


def table(values: dict[str, Any], times: Times) -> str:
    """The text of table.md."""
    sizes, paper = values["ports"], values["paper"]
    worst, heads = slowest(times), [str(ports) for ports in sizes]
    methods = list(dict.fromkeys(method for method, _ in worst))
    with_paper = sizes[-len(paper["maximum"]) :]
    known = {
        f"*the paper, {name} matchings*": dict(zip(with_paper, found, strict=True))
        for name, found in paper.items()
    }
    ours = {m: {p: worst[m, p] for p in sizes if (m, p) in worst} for m in methods}
    rows = {
        name: [f"{found[p] * 1e3:.3g}" if p in found else "" for p in sizes]
        for name, found in (known | ours).items()
    }
    lines = [
        "# Time to find the matchings of an all-to-all",
        "",
        f"Milliseconds by ports: CPU time of one core, least of repetitions, mean of "
        f"{len(values['seeds'])} draws of the demand for which a method is slower; a slot loses "
        f"{values['slot_overhead_s'] * 1e6:g} us. Demand is synthetic.",
        *grid("method", heads, rows),
        "",
        "## Growth",
        "",
        "The power of the ports with which time grows from a size to twice that.",
    ]
    pairs = list(itertools.pairwise(with_paper))
    rows = {
        name: [
            f"{exponent(found[low], found[high]):.1f}" if high in found else ""
            for low, high in pairs
        ]
        for name, found in (known | ours).items()
    }
    lines += grid("method", [f"{low} to {high}" for low, high in pairs], rows)
    for regime in values["regimes"]:
        lines += ["", f"## Length, {regime}", "", "Of the schedule over the busiest port's time."]
        found = {(m, p): length for (m, r, p), (_, length) in times.items() if r == regime}
        rows = {
            m: [f"{found[m, p]:.3f}" if (m, p) in found else "" for p in sizes] for m in methods
        }
        lines += grid("method", heads, rows)
    return "\n".join([*lines, ""])


def data(times: Times) -> str:
    """The measured times as the data file has them."""
    lines, worst = [], slowest(times)
    for method in dict.fromkeys(method for method, _ in worst):
        own = {ports: cpu_s for (other, ports), cpu_s in worst.items() if other == method}
        lines += [f"[decisions.{method}]"]
        lines += [
            f'{p} = {{ value = {cpu_s:.3g}, source = "measured" }}' for p, cpu_s in own.items()
        ]
        lines += [""]
    return "\n".join(lines).rstrip()


def main() -> int:
    """Measure, print, write or check."""
    options = command_line(__doc__, resume=True).parse_args()
    values = load()
    times = read_times() if options.resume or options.check else measure_all(values)
    text = table(values, times)
    print(text, end="")
    known = DATA.read_text(encoding="utf-8")
    begin, end = "# begin measured\n", "\n# end measured"
    before, _, rest = known.partition(begin)
    found = f"{before}{begin}{data(times)}{end}{rest.partition(end)[2]}"
    wanted = {TABLE: text, TIMES: times_csv(times), DATA: found}
    return write_or_check(wanted, options.write, options.check)


if __name__ == "__main__":
    sys.exit(main())
