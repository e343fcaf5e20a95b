"""Where the milliseconds between two fabrics went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.inputs.files import read_compressed
from lightloom.inputs.formats import parse_json
from lightloom.report.parameters import flatten
from lightloom.report.terminal import plain_table, print_table, print_wrapped
from lightloom.study.compare.results import SCHEMA_VERSION, Comparison

#: what each category of a critical path is, in words
WORDS = {
    "attention": "compute: attention",
    "gate": "compute: gate and permutation",
    "expert": "compute: experts",
    "dense_ffn": "compute: dense feed-forward",
    "head": "compute: embedding, output and loss",
    "optimizer": "compute: optimizer",
    "forward": "compute: forward",
    "backward": "compute: backward",
    "other": "compute: other",
    "tp": "TP collectives",
    "ep": "exposed all-to-all",
    "pp": "exposed pipeline sends",
    "dp": "exposed DP reduction",
    "cp": "exposed CP communication",
    "transfers": "exposed transfers",
    "reconfiguration": "waiting for circuits",
    "bubble": "pipeline bubble",
    "straggler": "waiting for the busiest EP rank",
}
BREAKDOWNS = ("breakdown_critical_path_s", "breakdown_mean_s")
MAX_FILE_BYTES = 200_000_000


def read_results(path: Path) -> dict[str, Any]:
    """The content of a ``--json`` file, compressed or not.

    Raises
    ------
    InputError
        If it cannot be read or is no result file of this schema.
    """
    content = parse_json(read_compressed(path, "results", MAX_FILE_BYTES), str(path))
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        raise InputError(f"{path}: no results in it; expected a file of compare --json")
    if content.get("schema_version") != SCHEMA_VERSION:
        version = content.get("schema_version")
        shown = echo(version) if isinstance(version, str) else repr(version)[:20]
        raise InputError(
            f"{path}: schema {shown}, this version reads {SCHEMA_VERSION}; run compare again"
        )
    return content


def read_comparison(path: Path) -> Comparison:
    """The comparison in a ``--json`` file, without its timelines and circuits.

    Raises
    ------
    InputError
        If it cannot be read or is no result file of this version.
    """
    try:
        comparison = Comparison.from_json(read_results(path))
    except InputError as error:
        text = str(error)
        raise InputError(text if text.startswith(f"{path}") else f"{path}: {text}") from None
    if not comparison.results:
        raise InputError(f"{path}: no results in it; expected a file of compare --json")
    return comparison


def load_results(path: Path) -> dict[str, dict[str, Any]]:
    """Results of a ``--json`` file by fabric.

    Raises
    ------
    InputError
        If it cannot be read or is no result file of this schema.
    """
    return _by_fabric(path, read_results(path))


def _by_fabric(path: Path, content: dict[str, Any]) -> dict[str, dict[str, Any]]:
    by_name = {}
    for result in content["results"]:
        name = result.get("fabric") if isinstance(result, dict) else None
        if not isinstance(name, str) or not name.isprintable():
            raise InputError(f"{path}: a result without a fabric; run compare again")
        _check_result(path, result)
        by_name[name] = result
    return by_name


def _check_result(path: Path, result: dict[str, Any]) -> None:
    breakdowns = [result.get(name) for name in BREAKDOWNS]
    numbers = all(
        isinstance(parts, dict)
        and all(isinstance(v, int | float) and k.isprintable() for k, v in parts.items())
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
    sides = {name: result_of(path, results, name) for name in dict.fromkeys((first, second))}
    print_difference((first, sides[first]), (second, sides[second]), console)


def result_of(path: Path, results: dict[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The result of a fabric in a file.

    Raises
    ------
    InputError
        If it is not there.
    """
    if name not in results:
        raise InputError(
            f"{path}: no fabric '{name}'{did_you_mean(name, results)}; it has {', '.join(results)}"
        )
    return results[name]


def explanation_as_json(path: Path, first: str, second: str) -> dict[str, Any]:
    """How the time of one fabric becomes that of the other, as plain values.

    Raises
    ------
    InputError
        If a fabric is not in the file.
    """
    results = load_results(path)
    a, b = (result_of(path, results, name) for name in (first, second))
    return {"schema_version": 1, "first": first, "second": second, **_as_json(a, b)}


def files_as_json(paths: tuple[Path, Path]) -> dict[str, Any]:
    """How results of two files differ, as plain values.

    Raises
    ------
    InputError
        If a file is none of results.
    """
    contents = [read_results(path) for path in paths]
    left, right = (_by_fabric(path, content) for path, content in zip(paths, contents, strict=True))
    return {
        "schema_version": 1,
        "files": [str(path) for path in paths],
        "changed_inputs": changed_inputs(*contents),
        "fabrics": {name: _as_json(left[name], right[name]) for name in left if name in right},
    }


def _as_json(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    return {
        "step_time_s": [a["step_time_s"], b["step_time_s"]],
        **{
            name: {part: [left, right] for part, left, right in differences(a, b, name)}
            for name in BREAKDOWNS
        },
    }


#: a result and what it is called
Side = tuple[str, dict[str, Any]]


def print_difference(one: Side, other: Side, console: Console) -> None:
    """Print how the time of one result becomes that of another."""
    (first, a), (second, b) = one, other
    rows = differences(a, b)
    print_table(_difference_table("Critical path [ms]", (first, second), rows), console)
    means = differences(a, b, "breakdown_mean_s")
    title = "Mean GPU, waits included [ms]"
    print_table(_difference_table(title, (first, second), means), console)
    total = sum(r[2] for r in rows) - sum(r[1] for r in rows)
    console.print()
    print_wrapped(_sentence(first, second, rows, total), console)


def print_files(paths: tuple[Path, Path], fabric: str | None, console: Console) -> None:
    """Print how results of two files differ: their inputs, every fabric, and one of them in full.

    Raises
    ------
    InputError
        If a file is none of results, or they have no fabric in common.
    """
    contents = [read_results(path) for path in paths]
    results = [_by_fabric(path, content) for path, content in zip(paths, contents, strict=True)]
    common = [name for name in results[0] if name in results[1]]
    if fabric is not None:
        for path, by_name in zip(paths, results, strict=True):
            result_of(path, by_name, fabric)
    elif not common:
        raise InputError(f"{paths[0]} and {paths[1]} have no fabric in common; name one of each")
    names = [str(path) for path in paths]
    changed = changed_inputs(*contents)
    for key, (left, right) in changed.items():
        console.print(Text(f"{key}: {left} -> {right}"), soft_wrap=True)
    if not changed:
        console.print("the same inputs")
    headers = ["fabric", "first\n[ms]", "second\n[ms]", "difference\n[ms]", "of first\n[%]"]
    table = plain_table("Step time", headers, caption=f"first: {names[0]}; second: {names[1]}")
    for name in common:
        left, right = (1000 * by_name[name]["step_time_s"] for by_name in results)
        share = _share(right - left, left).removesuffix(" %")
        table.add_row(Text(name), f"{left:,.2f}", f"{right:,.2f}", f"{right - left:+,.2f}", share)
    print_table(table, console)
    if fabric is None and len(common) == 1:
        fabric = common[0]
    if fabric is not None:
        sides = [f"{fabric} of {name}" for name in names]
        pairs = [(side, by_name[fabric]) for side, by_name in zip(sides, results, strict=True)]
        print_difference(pairs[0], pairs[1], console)


def changed_inputs(first: dict[str, Any], other: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Keys of the scenarios that differ, and what they have: the first, the second."""
    sides = [
        {row.name: row.value for row in flatten(content.get("inputs", {}).get("scenario", {}))}
        for content in (first, other)
    ]
    keys = dict.fromkeys([*sides[0], *sides[1]])
    return {
        echo(key, quoted=False): (texts[0], texts[1])
        for key in keys
        if (texts := [echo(side.get(key, "not given"), quoted=False) for side in sides])
        and texts[0] != texts[1]
    }


def _difference_table(
    title: str, fabrics: tuple[str, str], rows: list[tuple[str, float, float]]
) -> Table:
    total_a, total_b = sum(r[1] for r in rows), sum(r[2] for r in rows)
    # of two files, a fabric is named with its file
    named = [fabric.replace(" of ", "\nof ", 1) for fabric in fabrics]
    table = plain_table(title, ["", *named, "difference", "share\nof step"], texts=[""])
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
