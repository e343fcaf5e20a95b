"""Programs that are known by name."""

from __future__ import annotations

from lightloom.errors import ModelError
from lightloom.models import Model, load_model
from lightloom.practice import Synchronization
from lightloom.workload.programs.cnn import NETWORKS, Cnn, networks_named
from lightloom.workload.programs.nas import BENCHMARKS, CLASSES, nas_named
from lightloom.workload.programs.program import WorkloadProgram


def known_programs() -> dict[str, str]:
    """Names, or patterns of them, and what they are."""
    return {
        ", ".join(NETWORKS): "convolutional networks, data parallel; several in turn with +, such"
        " as resnet-50+vgg-16",
        f"nas-{'|'.join(BENCHMARKS)}-{'|'.join(CLASSES)}": "the communication of a parallel"
        " benchmark of NASA by class, such as nas-ft-d",
    }


def load_layers(name: str) -> Model:
    """As :func:`.load_model`, for what needs the layers of a model, which a program has not.

    Raises
    ------
    ModelError
        If it is a program, or no model.
    """
    if program_named(name) is not None:
        raise ModelError(
            f"{name} is a program, without the layers and the plan of a model; simulate it: "
            f"lightloom compare {name}"
        )
    return load_model(name)


def program_named(
    name: str,
    *,
    images_per_gpu: int = 32,
    synchronization: Synchronization = "ring",
    gradient_bytes: float = 4.0,
) -> WorkloadProgram | None:
    """The program of a name; ``None`` where it is no program's.

    Parameters
    ----------
    name
        Such as ``nas-ft-d`` or ``resnet-50+vgg-16``.
    images_per_gpu, synchronization, gradient_bytes
        Of networks; see :class:`.Cnn`.

    Raises
    ------
    InputError
        If it begins as a program's name does, but there is none.
    """
    if (benchmark := nas_named(name)) is not None:
        return benchmark
    networks = networks_named(name)
    return Cnn(networks, images_per_gpu, synchronization, gradient_bytes) if networks else None
