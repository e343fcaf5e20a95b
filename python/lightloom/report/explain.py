"""Where the milliseconds between two fabrics went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.errors import InputError, did_you_mean
from lightloom.inputs.files import read_file
from lightloom.inputs.formats import parse_json
from lightloom.report.terminal import plain_table, print_table
from lightloom.study.compare.results import SCHEMA_VERSION

#: what each category of a critical path is, in words
WORDS = {
    "attention": "compute: attention",
    "gate": "compute: gate and permutation",
    "expert": "compute: experts",
    "dense_ffn": "compute: dense feed-forward",
    "head": "compute: embedding, output and loss",
    "optimizer": "compute: optimizer",
    "tp": "TP collectives",
    "ep": "exposed all-to-all",
    "pp": "exposed pipeline sends",
    "dp": "exposed DP reduction",
    "cp": "exposed CP communication",
    "reconfiguration": "waiting for circuits",
    "bubble": "pipeline bubble",
    "straggler": "waiting for the busiest EP rank",
}
BREAKDOWNS = ("breakdown_critical_path_s", "breakdown_mean_s")
MAX_FILE_BYTES = 200_000_000


def load_results(path: Path) -> dict[str, dict[str, Any]]:
    """Results of a ``--json`` file by fabric.

    Raises
    ------
    InputError
        If it cannot be read or is no result file of this schema.
    """
    content = parse_json(read_file(path, "results", MAX_FILE_BYTES), str(path))
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise InputError(f"{path}: no results in it; expected a file of compare --json")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path}: schema {content.get('schema_version')!r}, this version reads "
            f"{SCHEMA_VERSION}; run compare again"
        )
    found = {}
    for result in content["results"]:
        if not (isinstance(result, dict) and isinstance(result.get("fabric"), str)):
            raise InputError(f"{path}: a result without a fabric; run compare again")
        _check_result(path, result)
        found[result["fabric"]] = result
    return found


def _check_result(path: Path, result: dict[str, Any]) -> None:
    breakdowns = [result.get(name) for name in BREAKDOWNS]
    numbers = all(
        isinstance(parts, dict) and all(isinstance(v, int | float) for v in parts.values())
        for parts in breakdowns
    )
    if not numbers or not isinstance(result.get("step_time_s"), int | float):
        raise InputError(f"{path}: {result['fabric']} has no times; run compare again")


def differences(
    a: dict[str, Any], b: dict[str, Any], breakdown: str = "breakdown_critical_path_s"
) -> list[tuple[str, float, float]]:
    """Category, seconds in ``a``, seconds in ``b``; largest difference first."""
    left, right = a[breakdown], b[breakdown]
    names = list(dict.fromkeys([*left, *right]))
    rows = [(name, float(left.get(name, 0)), float(right.get(name, 0))) for name in names]
    return sorted((r for r in rows if r[1] or r[2]), key=lambda r: -abs(r[2] - r[1]))


def print_explanation(path: Path, first: str, second: str, console: Console) -> None:
    """Print how the time of one fabric becomes that of the other.

    Raises
    ------
    InputError
        If a fabric is not in the file.
    """
    results = load_results(path)
    for name in (first, second):
        if name not in results:
            raise InputError(
                f"{path}: no fabric '{name}'{did_you_mean(name, results)}; "
                f"it has {', '.join(results)}"
            )
    a, b = results[first], results[second]
    rows = differences(a, b)
    print_table(_difference_table("Critical path [ms]", (first, second), rows), console)
    means = differences(a, b, "breakdown_mean_s")
    title = "Mean GPU, waits included [ms]"
    print_table(_difference_table(title, (first, second), means), console)
    console.print(_sentence(first, second, rows, sum(r[2] for r in rows) - sum(r[1] for r in rows)))


def _difference_table(
    title: str, fabrics: tuple[str, str], rows: list[tuple[str, float, float]]
) -> Table:
    total_a, total_b = sum(r[1] for r in rows), sum(r[2] for r in rows)
    table = plain_table(title, ["", *fabrics, "difference", "share of step"])
    for name, left, right in rows:
        delta = right - left
        style = "red" if delta > 0 else "green" if delta < 0 else ""
        table.add_row(
            WORDS.get(name, name),
            f"{1000 * left:,.2f}",
            f"{1000 * right:,.2f}",
            Text(f"{1000 * delta:+,.2f}", style=style),
            _share(delta, total_a),
        )
    table.add_section()
    table.add_row(
        "step", f"{1000 * total_a:,.2f}", f"{1000 * total_b:,.2f}",
        f"{1000 * (total_b - total_a):+,.2f}", _share(total_b - total_a, total_a),
    )  # fmt: skip
    return table


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:+.2f} %" if whole else "-"


def _sentence(first: str, second: str, rows: list[tuple[str, float, float]], total: float) -> str:
    if not rows or abs(total) < 1e-9:
        return f"{second} and {first} take the same time."
    name, left, right = rows[0]
    word = "slower" if total > 0 else "faster"
    return (
        f"{second} is {1000 * abs(total):,.2f} ms {word} than {first}; the largest part is "
        f"{WORDS.get(name, name)} ({1000 * (right - left):+,.2f} ms)."
    )
