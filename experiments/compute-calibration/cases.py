"""The 43 measured steps on 8 B200, read from ../shared/data/simumax."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from composer import GIB, Case, Collectives, model_from_shape

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SUMMARY = "b200_release_v1.2_summary.json"


def read_experiment() -> dict[str, Any]:
    """The experiment's own file."""
    return tomllib.loads((HERE / "experiment.toml").read_text(encoding="utf-8"))


def _read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _degree(case: str, name: str, default: int = 1) -> int:
    found = re.search(rf"_{name}(\d+)(?=_)", case)
    return int(found[1]) if found else default


def load_cases(shared: Path, experiment: dict[str, Any]) -> list[Case]:
    """All rows of the summary; degrees are in the names of the cases."""
    folder = shared / "data" / "simumax"
    assumptions = experiment["assumptions"]
    cases = []
    for row in _read_json(folder / SUMMARY)["rows"]:
        name, model = row["case"], row["model"]
        shape = experiment["models"].get(model) or _read_json(folder / f"model_{model}.json")
        case = Case(
            name=name,
            model=model_from_shape(model, shape, row["layer_num"], assumptions["dense_layers"]),
            layers=row["layer_num"],
            seq_len=_degree(name, "seq", assumptions["seq_len"]),
            micro_batches=row["mbc"],
            tp=_degree(name, "tp"),
            cp=_degree(name, "cp"),
            pp=_degree(name, "pp"),
            ep=_degree(name, "ep"),
            measured_s=row["real_ms"] / 1e3,
            simumax_s=row["perf_ms"] / 1e3,
        )
        assert case.layers % case.pp == 0, f"{name}: uneven stages are not modeled"
        cases.append(case)
    return cases


def load_collectives(shared: Path, experiment: dict[str, Any]) -> Collectives:
    """NVSwitch collectives as measured on the same server."""
    where = experiment["collectives"]
    file = _read_json(shared / "data" / "simumax" / where["file"])
    network = file["networks"][where["network"]]
    return Collectives(network["op"], network["bandwidth"]["gbps"] * GIB)
