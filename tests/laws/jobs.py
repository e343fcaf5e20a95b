"""Random small jobs for ``lightloom.compare``: a model of four layers on 16 or 32 GPUs."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from lightloom import Scenario, compare
from lightloom.fabric import FABRICS as KINDS
from lightloom.study.compare.results import Comparison, FabricResult

#: fabrics that all laws are checked on; the others are trees to a job of few servers, which
#: test_scale_up_laws.py checks
FABRICS = tuple(kind for kind in KINDS if kind not in ("dual-plane", "nvl72", "mixnet-optical-io"))

#: four layers of 64 experts
MODEL = Path(__file__).with_name("model.json")

Changes = Mapping[str, Any]


def merged(base: Changes, changes: Changes) -> dict[str, Any]:
    """Nested options with some of them changed."""
    return dict(base) | {
        key: merged(base.get(key, {}), value) if isinstance(value, Mapping) else value
        for key, value in changes.items()
    }


@dataclass(frozen=True)
class Job:
    """Job ``seed`` on every fabric, with some options changed."""

    seed: int
    options: Changes = field(compare=False, repr=False)

    @property
    def balanced(self) -> bool:
        """Whether all experts have the same load."""
        return self.options["demand"]["source"] == "balanced"

    def but(self, changes: Changes) -> Comparison:
        """Compare the fabrics with other options."""
        return compare(Scenario(model=str(MODEL), **merged(self.options, changes)))

    def alone_s(self, fabric: str) -> float:
        """The step of a fabric that is compared with none."""
        options = self.options["fabric_options"]
        own = {name: value for name, value in options.items() if name in ("all", fabric)}
        changed = {**self.options, "fabrics": [fabric], "fabric_options": own}
        (result,) = compare(Scenario(model=str(MODEL), **changed)).results
        return result.step_time_s

    def results(self, **changes: Any) -> dict[str, FabricResult]:
        """The result of each fabric."""
        key = json.dumps(changes, sort_keys=True)
        return _results(self, key)

    def times_s(self, **changes: Any) -> dict[str, float]:
        """The step of each fabric."""
        return {name: one.step_time_s for name, one in self.results(**changes).items()}


@cache
def _results(job: Job, changes: str) -> dict[str, FabricResult]:
    return {one.fabric: one for one in job.but(json.loads(changes)).results}


@cache
def random_job(seed: int) -> Job:
    """Draw a job; its plan fills its GPUs."""
    rng = random.Random(seed)
    gpus, per_server = rng.choice([16, 32, 32]), rng.choice([4, 4, 8])
    pp, tp, ep = rng.choice([1, 2, 2]), rng.choice([1, 1, 2]), rng.choice([4, 8, 16])
    while pp * tp * ep > gpus:
        ep //= 2
    plan = {
        "tp": tp,
        "pp": pp,
        "ep": ep,
        "micro_batches": pp * rng.choice([2, 3]),
        "micro_batch_size": 1,
        "seq_len": rng.choice([1024, 2048]),
        "zero1": rng.choice([True, False]),
        "overlap_all_to_all": rng.choice(["none", "none", "batch"]),
    }
    layout = {"servers_per_tor": 2} if rng.random() < 0.5 else {}
    imbalance = rng.choice(["balanced", "balanced", 1.02, 1.1, 1.35])
    return Job(
        seed,
        {
            "gpus": gpus,
            "cluster": {
                "gpu": "h100",
                "rate_gbps": rng.choice([100.0, 200.0, 400.0]),
                "gpus_per_server": per_server,
                "nics_per_server": per_server,
            },
            "plan": plan,
            "demand": {"source": imbalance},
            "fabrics": FABRICS,
            "fabric_options": {
                "all": {"interconnect": rng.choice(["measured", "ideal"])},
                **dict.fromkeys(("fat-tree", "oversub", "rail", "rail-only"), layout),
                "mixnet": {
                    **layout,
                    "ports": rng.choice([1, 2, 3]) * per_server // 4,
                    "link_up_s": 0,
                    "fixed_s": rng.choice([1e-4, 1e-3]),
                    "when": rng.choice(["never", "break-even", "oracle"]),
                },
            },
            "seeds": 1,
            "compute_spread": 0.0,
            "policies": False,
            "imbalances": False,
            "memory_check": False,
            "recompute": "none",
        },
    )
