"""The public runs of runs.toml: read, converted to tokens/s per GPU, made into scenarios."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lightloom import Scenario
from lightloom.hardware import gpu_names, load_gpu
from lightloom.models import Model, catalog, load_model
from lightloom.models.parameters import active_parameters

HERE = Path(__file__).parent
#: how a run's gate is described to the demand; a balancing bias is the catalog's own of the model
GATE: dict[str, dict[str, Any]] = {
    "forced balance": {"source": "balanced"},
    "capacity 1": {"source": "balanced", "capacity_factor": 1.0},
    "auxiliary": {"source": "auxiliary"},
    "bias": {},
    "learned": {"source": "learned"},
}
#: what all runs share: one simulated step, at the nominal speed, on a non-blocking fabric
COMMON: dict[str, Any] = {
    "fabrics": ("fat-tree",),
    "seeds": 1,
    "compute_spread": 0.0,
    "policies": False,
    "imbalances": False,
}


def flops_per_token(model: Model, seq_len: int) -> float:
    """6 N + 12 L h s, with N as Megatron-LM counts it: the output projection, no input table.

    L h s counts attention in full, as if no token were masked; where queries and values have
    different widths, h is their mean.
    """
    attention = model.attention
    width = attention.num_heads * (attention.qk_dim + attention.v_dim) / 2
    count = active_parameters(model, "output")
    if model.tied_embeddings:
        count -= model.learned_positions * model.hidden_size
    return 6 * count + 12 * model.num_layers * width * seq_len


@dataclass(frozen=True)
class Run:
    """One public run, as in runs.toml: ``part`` is its set, ``given`` what was published."""

    name: str
    part: str
    model: str
    gpus: int
    gpu: str
    rate_gbps: float
    precision: str
    gate: str
    plan: dict[str, Any]
    given: dict[str, Any]
    source: str
    where: str
    recompute: str = "none"
    demand: dict[str, Any] = field(default_factory=dict)
    compute: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
    not_modeled: tuple[str, ...] = ()
    #: why the memory model refuses it, if it does
    misfit: str = ""
    #: why its options are others than those that it was registered with, if they are
    corrected: str = ""
    gpus_per_server: int = 8
    collection: int = 1
    #: of the reduction of gradients, if the source says so
    gradient_bytes: float | None = None
    #: of gathered parameters, where not as in the class of the run
    parameter_bytes: float | None = None

    @property
    def is_moe(self) -> bool:
        """Whether the model has experts."""
        return self.gate != "dense"

    @property
    def group(self) -> str:
        """Class of the run: dense or MoE, and the format of its products."""
        precision = {"bf16": "BF16", "nvfp4": "NVFP4"}.get(self.precision, "FP8")
        return f"{'MoE' if self.is_moe else 'dense'} {precision}"

    @cached_property
    def model_name(self) -> str:
        """Name in the catalog, or path of the configuration here."""
        known = self.model in catalog()
        return self.model if known else str(HERE / "models" / f"{self.model}.json")

    @cached_property
    def gpu_name(self) -> str:
        """Name of its GPU, or path of its description here."""
        return self.gpu if self.gpu in gpu_names() else str(HERE / "gpus" / f"{self.gpu}.toml")

    @cached_property
    def shape(self) -> Model:
        """The model."""
        return load_model(self.model_name)

    @cached_property
    def published(self) -> float:
        """Published speed, tokens/s per GPU."""
        given = self.given
        if "tokens_per_s_per_gpu" in given:
            return float(given["tokens_per_s_per_gpu"])
        if "tokens_per_s" in given:
            return float(given["tokens_per_s"]) / self.gpus
        if "tokens_per_step" in given:
            return float(given["tokens_per_step"] / given["step_time_s"]) / self.gpus
        if "gpu_hours" in given:
            return float(given["tokens"] / given["gpu_hours"]) / 3600
        flops = flops_per_token(self.shape, self.plan["seq_len"])
        if "mfu_percent" in given:
            peak = load_gpu(self.gpu_name).peak_bf16_flops
            return float(given["mfu_percent"] / 100 * peak) / flops
        # recomputation of everything is one more of what was three forward passes' worth
        factor = 4 / 3 if given.get("counts_recomputation") else 1.0
        return float(given["tflops_per_gpu"]) * 1e12 / (flops * factor)

    def scenario(self) -> Scenario:
        """What ``lightloom compare`` is given."""
        demand = dict(self.demand)
        if self.is_moe:
            demand.update(GATE[self.gate])
        compute = {"precision": self.precision, **self.compute}
        sizes: dict[str, float] = {}
        if self.gradient_bytes is not None:
            sizes["gradient_bytes"] = self.gradient_bytes
            if self.precision != "bf16":
                sizes["parameter_bytes"] = 1.0
        if self.parameter_bytes is not None:
            sizes["parameter_bytes"] = self.parameter_bytes
        return Scenario(
            model=self.model_name,
            gpus=self.gpus,
            cluster={
                "gpu": self.gpu_name,
                "rate_gbps": self.rate_gbps,
                "gpus_per_server": self.gpus_per_server,
                "nics_per_server": self.gpus_per_server,
            },
            plan={"zero1": True, **self.plan},
            demand=demand,
            compute=compute,
            memory=self.memory,
            recompute=self.recompute,
            memory_check=not self.misfit,
            # ports enough for a rack, as on its separate rails
            fabric_options={"fat-tree": {"switch_ports": max(64, 2 * self.gpus_per_server)}},
            **sizes,
            **COMMON,
        )


def read_runs(path: Path = HERE / "runs.toml") -> tuple[list[Run], dict[str, dict[str, Any]]]:
    """Every run in the order of the file, and the sources by name."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    sources = content["sources"]
    runs = []
    for values in content["run"]:
        part, given = values.pop("set"), values.pop("published", {})
        source = sources[values["source"]]
        values["memory"] = source.get("memory", {}) | values.get("memory", {})
        gradients = source.get("gradient_bytes")
        runs.append(Run(part=part, given=given, gradient_bytes=gradients, **values))
    return runs, sources
