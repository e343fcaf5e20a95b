"""Whole layers, measured and predicted with a profile: how good it is, in one number each.

A layer is attention and a feed-forward network or experts of a model, forward and backward, as
PyTorch runs it eagerly. Its times are in no profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from lightloom.models import load_model
from lightloom.models.model import Model
from lightloom.study.calibration.measure import WARM_UP, Run
from lightloom.workload.compute import ComputeModel

#: models whose layers are tried where none is given, with the tokens of a sequence and in all
TRIED = (("llama-3-8b", 4096, 8192), ("olmoe-1b-7b", 4096, 8192), ("qwen3-30b-a3b", 4096, 8192))
#: errors beyond which a profile is not to be trusted
GOOD = 0.10


class LayerDevice(Protocol):
    """A GPU that runs layers."""

    def prepare_layer(self, model: Model, tokens: int, seq_len: int) -> Run:
        """A layer, forward and backward."""

    def seconds(self, run: Run, times: int) -> float:
        """Time of some runs, one after another, s."""


@dataclass(frozen=True)
class LayerTimes:
    """One layer, predicted and measured, s."""

    model: str
    tokens: int
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted_s / self.measured_s - 1

    def __str__(self) -> str:
        return (
            f"layer of {self.model}, {self.tokens:,} tokens: predicted "
            f"{1e3 * self.predicted_s:.2f} ms, measured {1e3 * self.measured_s:.2f} ms: "
            f"{100 * self.error:+.0f} %"
        )


def tried_layers(model: str | None) -> Iterator[tuple[str, int, int]]:
    """Names, sequence lengths and tokens of the layers that are tried."""
    if model is None:
        yield from TRIED
    else:
        yield model, 4096, 8192


def predicted_layer_s(compute: ComputeModel, model: Model, tokens: int, seq_len: int) -> float:
    """Both passes of a layer on one GPU that holds all its experts, s."""
    total = 0.0
    for backward in (False, True):
        total += compute.attention_layer(model, tokens, seq_len, 1, 1, backward)
        if not model.num_moe_layers:
            total += compute.dense_ffn(model, tokens, 1, backward)
            continue
        total += compute.gate(model, tokens, backward)
        copies = [float(tokens * model.experts_per_token)]
        total += float(compute.experts(model, copies, model.num_experts, 1, backward)[0])
    return total


def try_layers(
    device: LayerDevice, gpu: str, profile: Path, model: str | None, report: Callable[[str], None]
) -> list[LayerTimes]:
    """Measure and predict the layers, and say how far they are apart."""
    compute = ComputeModel.load(gpu, profile, permutation="unfused")
    trials = []
    for name, seq_len, tokens in tried_layers(model):
        shape = load_model(name)
        run = device.prepare_layer(shape, tokens, seq_len)
        device.seconds(run, WARM_UP)
        times = 10
        measured = device.seconds(run, times) / times
        layer = LayerTimes(
            name, tokens, predicted_layer_s(compute, shape, tokens, seq_len), measured
        )
        report(str(layer))
        trials.append(layer)
    return trials
