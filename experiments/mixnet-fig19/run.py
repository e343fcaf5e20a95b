"""How well expert loads can be predicted, and what it is worth, on SYNTHETIC traces.

    python experiments/mixnet-fig19/run.py [--write | --check] [--experts 8,16]

Prints the tables; ``--write`` puts them into table.md, ``--check`` says whether they are what is
there. ``--experts`` recomputes some sizes only and checks these.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lightloom.demand import synthetic
from lightloom.demand.load_history import LoadHistory, history_of_source
from lightloom.demand.predictors import PREDICTORS, make_predictor
from lightloom.schedule import Region
from lightloom.study.prediction import RegionOptions, Score, score

HERE = Path(__file__).parent
TABLE = HERE / "table.md"

HEAD = """# Prediction of expert loads: SYNTHETIC traces

Drawn by the generator, not measured: **the paper's Figure 19 is not reproduced by this table**; it
would be on a real multi-step log only (`lightloom predict LOG`). See [README.md](README.md).
"""


def load() -> dict[str, Any]:
    """The settings."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def trace_of(values: dict[str, Any], regime: str, experts: int, servers: int) -> LoadHistory:
    """Draw a trace."""
    source = synthetic(
        regime,
        ranks=servers,
        experts=experts,
        tokens_per_rank=values["tokens_per_server"],
        top_k=values["experts_per_token"],
        seed=values["seed"],
    )
    return history_of_source(source, steps=values["steps"], layers=values["layers"], synthetic=True)


def scores(values: dict[str, Any], trace: LoadHistory, *, split: bool) -> dict[str, Score]:
    """Score every predictor that is fast enough; the slow ones at 8 servers with split only."""
    experts, servers, limits = trace.experts, trace.sources, values["most_experts"]
    names = [name for name in PREDICTORS if experts <= limits.get(name, experts)]
    if servers != values["sizes"][str(experts)][0] or not split:
        names = [name for name in names if name not in limits]
    region = values["region"]
    ports = Region(region["ports"], region["rate_gbps"], region["eps_gbps"], split)
    options = RegionOptions(experts // servers, ports, region["token_bytes"])
    window = values["window"]
    made = {name: make_predictor(name, experts, window=window) for name in names}
    found = score(trace, made, window=window, options=options)
    return {item.predictor: item for item in found}


def section(values: dict[str, Any], regime: str, experts: int, servers: int) -> str:
    """One table with its title."""
    trace = trace_of(values, regime, experts, servers)
    found, unsplit = (scores(values, trace, split=split) for split in (True, False))
    title = f"## {experts} experts on {servers} servers, {regime} (synthetic)"
    rows = [
        f"| predictor | top-{max(1, experts // 4)} overlap | L1 | regret [us] | regret [%] "
        "| worst [%] | held [%] | no split [%] | no split, held [%] |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, item in found.items():
        other = unsplit.get(name)
        cells = [
            _rounded(item.top_k_overlap, 1, 3),
            _rounded(item.l1, 1, 3),
            _rounded(item.regret_s, 1e6, 1),
            _rounded(item.regret_ratio, 100, 2),
            _rounded(item.worst_regret_ratio, 100, 1),
            _rounded(item.held_regret_ratio, 100, 2),
            _rounded(other and other.regret_ratio, 100, 2),
            _rounded(other and other.held_regret_ratio, 100, 2),
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    noise = f"L1 of sampling alone: {trace.sampling_noise():.3f}."
    return "\n".join([title, "", *rows, "", noise, ""])


def _rounded(value: float | None, factor: float, digits: int) -> str:
    """Text without a minus in front of zero; a dash for what is not known."""
    return "-" if value is None else f"{round(value * factor, digits) + 0.0:.{digits}f}"


def sections(values: dict[str, Any], wanted: Sequence[int]) -> Iterator[str]:
    """Every table of the sizes asked for."""
    for experts, regions in values["sizes"].items():
        if int(experts) not in wanted:
            continue
        for servers in regions:
            for regime in values["regimes"]:
                print(f"{experts} experts, {servers} servers, {regime}", file=sys.stderr)
                yield section(values, regime, int(experts), servers)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print, write or check the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--experts", help="sizes, such as 8,16; by default all")
    options = parser.parse_args(arguments)
    values = load()
    sizes = [int(size) for size in values["sizes"]]
    wanted = [int(size) for size in options.experts.split(",")] if options.experts else sizes
    if options.write and wanted != sizes:
        parser.error("--write needs all sizes")
    found = list(sections(values, wanted))
    text = "\n".join([HEAD, *found])
    print(text, end="")
    if options.write:
        TABLE.write_text(text, encoding="utf-8")
    if options.check:
        known = TABLE.read_text(encoding="utf-8")
        missing = [part.splitlines()[0] for part in [HEAD, *found] if part not in known]
        for title in missing:
            print(f"differs from table.md: {title}", file=sys.stderr)
        return bool(missing)
    return 0


if __name__ == "__main__":
    sys.exit(main())
