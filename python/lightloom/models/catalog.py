"""The models that Lightloom knows by name, and ``load_model`` for these and for files.

Each ``data/<name>.toml`` holds the keys of the model's published ``config.json`` that shape its
weights, the published parameter counts and plan, and for each of these where it comes from and
when it was read. Entries go through the same mapping as a user's file.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from lightloom.errors import InputError, ModelError, did_you_mean, echo
from lightloom.inputs.files import shown_path
from lightloom.inputs.formats import parse_toml
from lightloom.inputs.strict import Strict, check
from lightloom.models.config_file import read_config
from lightloom.models.mapping import model_from_config
from lightloom.models.model import Model, PublishedPlan
from lightloom.models.shape_file import read_shapes
from lightloom.practice import (
    ActivationCache,
    AllToAllOverlap,
    Dispatcher,
    Gate,
    PipelineSchedule,
    Precision,
    Recompute,
    StatePrecision,
)

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?[MBT]$")]
Degree = Annotated[int, Field(ge=1)]

#: no name or address of a model there is longer
_MAX_HUB = 250
_HUB_ADDRESS = "https://huggingface.co/"
#: a model at Hugging Face by its name, or by an address of it or of a file of it
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w-]*/[\w.-]+", re.ASCII)
_HUB_PAGE = re.compile(r"(?:https?://(?:www\.)?(?:huggingface|hf)\.co/|hf://)([\w.-]+/[\w.-]+)")
ElementBytes = Annotated[float, Field(gt=0, le=8)]


class _Table(Strict):
    """A table of a catalog entry."""

    model_config = ConfigDict(strict=True)

    error_class: ClassVar[type[InputError]] = ModelError


class _Sourced(_Table):
    source: Text
    date: datetime.date

    @property
    def text(self) -> str:
        return f"{self.source} ({self.date.isoformat()})"


class _Counts(_Sourced):
    """Published counts, as printed: ``"46.7B"``; a dense model has none of active parameters."""

    total: Count
    active: Count | None = None


class _Plan(_Sourced):
    tp: Degree
    pp: Degree
    ep: Degree
    etp: Degree | None = None
    seq_len: Degree
    micro_batch_size: Degree
    vpp: Degree | None = None
    micro_batches: Degree | None = None
    zero1: bool | None = None
    schedule: PipelineSchedule | None = None
    overlap_all_to_all: AllToAllOverlap | None = None
    overlap_chunks: Degree | None = None
    overlap_shared_experts: bool | None = None
    overlap_tp: bool | None = None
    communication_sms: Annotated[int, Field(ge=0)] | None = None
    dispatch_element_bytes: ElementBytes | None = None
    combine_element_bytes: ElementBytes | None = None
    dispatch_gradient_element_bytes: ElementBytes | None = None
    combine_gradient_element_bytes: ElementBytes | None = None
    gradient_bytes: ElementBytes | None = None
    parameter_bytes: ElementBytes | None = None
    recompute: Recompute | None = None
    precision: Precision | None = None
    state_precision: StatePrecision | None = None
    activation_cache: ActivationCache | None = None


class _Training(_Sourced):
    """What of its training does not depend on the plan; a key may be left out."""

    gate: Gate | None = None
    dispatcher: Dispatcher | None = None


class _Entry(_Table):
    origin: _Sourced
    config: dict[str, Any]
    counts: _Counts | None = None
    plan: _Plan | None = None
    training: _Training | None = None


def parse_count(text: str) -> tuple[float, float]:
    """Value of a printed count such as ``"46.7B"``, and the step of its last digit."""
    scale = {"M": 1e6, "B": 1e9, "T": 1e12}[text[-1]]
    digits = text[:-1]
    decimals = len(digits.partition(".")[2])
    return round(float(digits) * scale), scale / 10**decimals


def catalog() -> dict[str, Model]:
    """All models known by name, in the order of their names."""
    return dict(_catalog())


@functools.cache
def _catalog() -> tuple[tuple[str, Model], ...]:
    folder = resources.files("lightloom.models") / "data"
    texts = {
        file.name.removesuffix(".toml"): file.read_text(encoding="utf-8")
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    }
    return tuple((name, entry_model(name, texts[name])) for name in sorted(texts))


def entry_model(name: str, text: str) -> Model:
    """Model of one catalog entry, from the text of its TOML file.

    Raises
    ------
    ModelError
        If the entry is not TOML, lacks a source or date, has an unknown key, or its configuration
        cannot be mapped.
    """
    where = f"catalog entry {name}"
    entry = check(_Entry, parse_toml(text.encode(), where, ModelError), where)
    model = model_from_config(entry.config, name, where)
    sources = {"config": entry.origin.text}
    if entry.counts is not None:
        sources["parameters"] = entry.counts.text
        model = replace(
            model,
            published_parameters=parse_count(entry.counts.total)[0],
            published_active=parse_count(entry.counts.active)[0] if entry.counts.active else None,
        )
    if entry.plan is not None:
        sources["plan"] = entry.plan.text
        values = entry.plan.model_dump(exclude={"date", "source"})
        model = replace(model, plan=PublishedPlan(**values, source=entry.plan.text))
    if (training := entry.training) is not None:
        sources["training"] = training.text
        model = replace(model, gate=training.gate, dispatcher=training.dispatcher)
    return replace(model, sources=sources)


def load_model(name_or_path: str) -> Model:
    """Model of a catalog name, of a ``config.json``, or of a TOML file of shapes.

    Parameters
    ----------
    name_or_path
        A name of :func:`catalog`; else a path, if it contains a separator, ends in ``.json`` or
        ``.toml`` (:mod:`.shape_file`), or exists. A folder stands for the ``config.json`` in it.
        A name wins over a file of that name (write ``./name`` for the file). A configuration that
        equals that of a catalog entry has its published plan and training.

    Raises
    ------
    ModelError
        If it is neither, or the configuration cannot be read or mapped.

    Examples
    --------
    >>> import lightloom
    >>> lightloom.load_model("mixtral-8x7b").num_experts
    8
    """
    if not isinstance(name_or_path, str):
        raise ModelError(f"model = {echo(name_or_path)}: expected a name or a path, as text")
    models = catalog()
    if name_or_path in models:
        return models[name_or_path]
    if not _is_path(name_or_path):
        raise ModelError(
            f"unknown model {echo(name_or_path)}{did_you_mean(name_or_path.lower()[:60], models)}; "
            "expected a name from 'lightloom models' or the path of a config.json"
        )
    path = Path(name_or_path)
    with contextlib.suppress(OSError, ValueError):  # reading says what is wrong with the path
        path = path / "config.json" if path.is_dir() else path
    if path.suffix == ".toml":
        return _published(read_shapes(path))
    _refuse_name_of_hub(name_or_path, path)
    config = read_config(path)
    generic = path.name == "config.json" and path.absolute().parent.name
    name = str(path.absolute().parent.name if generic else path.stem)
    model = model_from_config(config, name, shown_path(path))
    model = _published(model)
    return replace(model, sources={**model.sources, "config": str(path)})


def hub_repository(text: str) -> str:
    """The name that a model has at Hugging Face, if ``text`` is one or an address; else nothing."""
    page = _HUB_PAGE.match(text)
    if page is not None:
        return page[1]
    is_name = _HUB_NAME.fullmatch(text) and not text.endswith((".json", ".toml"))
    return text if is_name else ""


def _refuse_name_of_hub(text: str, path: Path) -> None:
    """Refuse ``mistralai/Mixtral-8x7B-v0.1`` or its address, and say which file has its shape.

    There may be a file or folder of this name, at ``path``.

    Raises
    ------
    ModelError
        If it may be the name of a model at Hugging Face.
    """
    repository = hub_repository(text)
    if not repository or len(text) > _MAX_HUB or path.exists():
        return
    names = {model.sources["config"].partition(" (")[0].lower(): name for name, model in _catalog()}
    name = names.get(f"{_HUB_ADDRESS}{repository}/blob/main/config.json".lower())
    if name is not None:
        raise ModelError(f"{text}: no such file, but the catalog has this model: '{name}'")
    plain = repository.rpartition("/")[2].lower()
    similar = [name for name, _ in _catalog() if f"{plain}-".startswith(f"{name}-")]
    hint = f"; the catalog has '{max(similar, key=len)}'" if similar else ""
    raise ModelError(
        f"{text}: no such file{hint}; if it is a model at Hugging Face, download "
        f"{_HUB_ADDRESS}{repository}/resolve/main/config.json and give its path"
    )


def _published(model: Model) -> Model:
    """The model of a file, with plan and training of the catalog entry that it equals, if any.

    Of entries of one shape (DeepSeek-V3 and R1) it is the one that the file is named after, or the
    last by name.
    """
    equal = [entry for entry in catalog().values() if _shape(entry) == _shape(model)]
    if not equal:
        return model
    plain = model.name.lower().replace("_", "-")
    entry = next((model for model in equal if model.name in plain), equal[-1])
    positions = model.max_positions or entry.max_positions
    return replace(entry, name=model.name, notes=model.notes, max_positions=positions)


def _shape(model: Model) -> Model:
    """A model without its name and without what is published in addition to its configuration."""
    return replace(
        model,
        name="",
        published_parameters=None,
        published_active=None,
        plan=None,
        gate=None,
        dispatcher=None,
    )


def _is_path(text: str) -> bool:
    if "/" in text or "\\" in text or text.endswith((".json", ".toml")):
        return True
    try:
        return bool(text) and Path(text).exists()
    except (OSError, ValueError):
        return False
