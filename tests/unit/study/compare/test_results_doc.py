"""docs/reference/results.md names every key that files have, and no others."""

import json
import re
from pathlib import Path

import pytest

from lightloom.progress import Monitor
from lightloom.study.compare import compare
from lightloom.study.compare.imbalance import LEARNED, LOADS
from lightloom.study.compare.results import SCHEMA_VERSION

DOC = (Path(__file__).parents[4] / "docs" / "reference" / "results.md").read_text()


def documented(heading: str) -> set[str]:
    """Keys in the first column of the table under a heading."""
    section = re.split(r"^#+ ", DOC.split(f"# {heading}\n", 1)[1], flags=re.MULTILINE)[0]
    columns = re.findall(r"^\| (`[^`|]+`(?:, `[^`|]+`)*) +\|", section, flags=re.MULTILINE)
    return {name for names in columns for name in re.findall(r"`([^`]+)`", names)}


@pytest.fixture(scope="module")
def content(comparison):
    return json.loads(json.dumps(comparison.to_json()))


def test_top_level(content):
    assert documented("JSON") == content.keys()
    assert content["schema_version"] == SCHEMA_VERSION
    assert f"`schema_version` is {SCHEMA_VERSION}." in DOC


def test_results(content):
    for result in content["results"]:
        assert documented("`results`") == result.keys()


def test_inputs(content):
    assert documented("`inputs`") == content["inputs"].keys()


def test_demand_and_memory(content):
    assert documented("`demand` and `memory`") == {*content["demand"], *content["memory"]}
    for name in content["memory"]["stages"][0].keys() - {"stage"}:
        assert f"`{name}`" in DOC


def test_nested_words(content):
    result = content["results"][1]
    names = [*result["carried_bytes"], *content["inputs"]["samples"][0]]
    names += [*result["policies"][0], *result["loads"][0], *result["link_up"]]
    for name in [*names, *result["breakdown_critical_path_s"], *result["reconfiguration"]]:
        assert re.search(rf"\b{name}\b", DOC), name


def test_csv_columns(scenario):
    rows = []

    class Keep(Monitor):
        def finished(self, row):
            rows.append(row)

    compare(scenario(fabrics=("topoopt",), seeds=1, compute_spread=0.0), monitor=Keep())
    assert [row["imbalance"] for row in rows] == ["", *LOADS, *LEARNED]
    columns = list(rows[0])
    spans = {}
    for first, last in re.findall(r"^\| `(\w+)` \.\.\. `(\w+)` \|", DOC, re.MULTILINE):
        spans[first] = columns[columns.index(first) : columns.index(last) + 1]
    within = {name for span in spans.values() for name in span}
    assert documented("CSV and Parquet") - spans.keys() == {*columns} - within
    path = spans["attention_s"]
    assert sum(rows[0][name] for name in path) == pytest.approx(rows[0]["step_time_s"])
