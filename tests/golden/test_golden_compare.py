"""What a user reads: the tables of a small comparison, and its file without what may change."""

import io
import json

import pytest
from rich.console import Console

from lightloom.report.table import print_comparison
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare


@pytest.fixture(scope="module")
def comparison():
    return compare(
        Scenario(
            model="mixtral-8x7b",
            gpus=128,
            fabrics=("fat-tree", "oversub", "rail", "topoopt", "mixnet"),
            cluster=ClusterOptions(rate_gbps=400),
            plan=PlanOptions(micro_batches=4),
            seeds=1,
        )
    )


def test_tables(comparison, golden):
    stream = io.StringIO()
    print_comparison(comparison, Console(file=stream, width=100, no_color=True), details=True)
    lines = [line.rstrip() for line in stream.getvalue().splitlines()]
    golden("compare.txt", "\n".join(lines) + "\n")


def stable(value):
    """Numbers to 6 digits, which another processor's last bit does not reach."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [stable(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def test_file(comparison, golden):
    content = json.loads(json.dumps(comparison.to_json()))
    for result in content["results"]:
        # of the machine and of the simulator's bookkeeping, not of the result
        for name in ("simulation_wall_s", "run_hash", "events"):
            del result[name]
    inputs = content["inputs"]
    # sources are checked where the data files are
    content["inputs"] = {name: inputs[name] for name in ("summary", "scenario", "plan", "samples")}
    golden("compare.json", json.dumps(stable(content), indent=1) + "\n")
