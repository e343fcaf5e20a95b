"""What a comparison is about: model, cluster, plan, demand, fabrics, prices.

One strict description serves the command line, ``lightloom run study.toml`` and Python. Every
field has a unit in its name; text may carry its own unit. Unknown keys are refused with a
suggestion.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from lightloom.errors import InputError, did_you_mean
from lightloom.units import parse_quantity


def _quantity(unit: str, name: str) -> BeforeValidator:
    def convert(value: Any) -> Any:
        return None if value is None else parse_quantity(value, unit, name)

    return BeforeValidator(convert)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PlanOptions(_Strict):
    """Parallelism; what is absent comes from the model's published plan or from the rule."""

    tp: Annotated[int | None, Field(ge=1)] = None
    pp: Annotated[int | None, Field(ge=1)] = None
    dp: Annotated[int | None, Field(ge=1)] = None
    ep: Annotated[int | None, Field(ge=1)] = None
    etp: Annotated[int | None, Field(ge=1)] = None
    cp: Annotated[int | None, Field(ge=1)] = None
    vpp: Annotated[int | None, Field(ge=1)] = None
    micro_batches: Annotated[int | None, Field(ge=1)] = None
    micro_batch_size: Annotated[int | None, Field(ge=1)] = None
    seq_len: Annotated[int | None, Field(ge=1)] = None
    zero1: bool | None = None
    expert_mode: Literal["axis", "folded"] | None = None
    pp_layout: tuple[int, ...] | None = None


class DemandOptions(_Strict):
    """Who sends how many tokens to whom: a regime of the generator, or a file."""

    source: str = "mixtral"
    #: draw tokens of a short routing log with replacement
    resample: bool = False
    #: scale a token matrix to the job's tokens per rank
    scale: bool = False
    deduplicate: bool = False
    dispatch_element_bytes: Annotated[float, Field(gt=0, le=8)] = 2.0
    combine_element_bytes: Annotated[float, Field(gt=0, le=8)] = 2.0


class ClusterOptions(_Strict):
    """GPUs, servers and links."""

    gpu: str = "a100"
    gpus_per_server: Annotated[int, Field(ge=1, le=1024)] = 8
    nics_per_server: Annotated[int, Field(ge=1, le=1024)] = 8
    rate_gbps: Annotated[float, _quantity("gigabit / second", "rate"), Field(gt=0, le=1e5)]
    link_delay_s: Annotated[float, _quantity("second", "link delay"), Field(ge=0, le=1)] = 1e-6
    profile: Path | None = None


class Scenario(_Strict):
    """One comparison of fabrics for one training job."""

    model: str
    gpus: Annotated[int, Field(ge=1, le=1_000_000)]
    fabrics: tuple[str, ...] = ("fat-tree", "oversub", "rail", "topoopt", "mixnet")
    cluster: ClusterOptions
    plan: PlanOptions = PlanOptions()
    demand: DemandOptions = DemandOptions()
    #: options of each fabric by name; the key "all" holds what every fabric is offered
    fabric_options: dict[str, dict[str, Any]] = Field(default_factory=dict)
    steps: Annotated[int, Field(ge=1, le=10_000)] = 1
    seeds: Annotated[int, Field(ge=1, le=10_000)] = 3
    seed: Annotated[int, Field(ge=0)] = 0
    compute_spread: Annotated[float, Field(ge=0, lt=1)] = 0.1
    recompute: Literal["none", "full", "attention"] = "none"
    network: Literal["flow", "packet"] = "flow"
    prices: Path | None = None
    power: Path | None = None


def check(kind: type[BaseModel], values: dict[str, Any], where: str) -> Any:
    """Build ``kind`` from ``values``; the first thing wrong becomes one line.

    Raises
    ------
    InputError
        Naming the key, what was given and what was expected.
    """
    try:
        return kind(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            known = _keys_at(kind, first["loc"][:-1])
            hint = did_you_mean(str(first["loc"][-1]), known)
            raise InputError(f"{where}: unknown key '{key}'{hint}") from None
        if first["type"] == "missing":
            raise InputError(f"{where}: '{key}' is missing") from None
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{where}: {key} = {first['input']!r}: {message.lower()}") from None


def _keys_at(kind: type[BaseModel], path: tuple[int | str, ...]) -> list[str]:
    for part in path:
        field = kind.model_fields.get(str(part))
        if field is None or not (isinstance(field.annotation, type)):
            return []
        if not issubclass(field.annotation, BaseModel):
            return []
        kind = field.annotation
    return list(kind.model_fields)


def load_study(path: Path) -> Scenario:
    """Read a study, one strict TOML file; see ``examples/study.toml``.

    Raises
    ------
    InputError
        If the file cannot be read, is no TOML, or has a wrong or unknown key.
    """
    try:
        if path.stat().st_size > 1_000_000:
            raise InputError(f"{path}: a study is at most 1 MB")
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot read the study: {reason}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file: {error}") from None
    scenario: Scenario = check(Scenario, values, str(path))
    return scenario
