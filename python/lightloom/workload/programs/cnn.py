"""Training of convolutional networks with data parallelism: AlexNet, VGG, ResNet-50, on ImageNet.

Every GPU has a whole network and its own images of 224 x 224. A layer takes, by the roofline of
matrix products, two FLOPs for each multiplication and its input, weights and output in BF16 once;
its backward pass twice that. Gradients of layers are collected in buckets, as PyTorch's
DistributedDataParallel does (1 MB, then 25 MB; the last layers first), and each bucket is added up
while earlier layers go backward: by a ring, or by parameter servers, which send parameters back
once all gradients are there. The optimizer reads and writes 16 bytes a parameter.

Shapes of the layers: Krizhevsky et al. 2014 (arXiv 1404.5997) as in torchvision, Simonyan and
Zisserman 2015 (1409.1556), He et al. 2015 (1512.03385) with strides in the 3 x 3 convolutions.
Left out: pooling and activation functions, which move few bytes beside convolutions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from lightloom.errors import InputError, echo
from lightloom.practice import Synchronization
from lightloom.workload.builder import ProgramBuilder, TaskGraphBuilder
from lightloom.workload.compute_kernels import BF16, NOTHING, Kernels, Work
from lightloom.workload.programs.phases import Phase, PhaseSequence, PhaseWriter
from lightloom.workload.programs.program import ProgramStep
from lightloom.workload.rings import share_inside

_FIRST_BUCKET_BYTES, _BUCKET_BYTES = 1 << 20, 25 << 20
#: of the optimizer, per parameter, in FP32: gradient, weight and momentum in, the last two out
_OPTIMIZER_BYTES = 20
#: what synchronizes runs beside what computes
_NETWORK_STREAM = 1
_PURPOSE = "dp"


@dataclass(frozen=True)
class Layer:
    """A convolution or a linear layer, with the normalization behind it.

    Attributes
    ----------
    parameters, products
        Numbers that are trained; multiplications for one image, forward.
    values
        Elements that go in and come out, for one image.
    """

    parameters: int
    products: int
    values: int


@dataclass(frozen=True)
class ImageNetwork:
    """A network by its layers."""

    name: str
    layers: tuple[Layer, ...]

    @property
    def parameters(self) -> int:
        """Of all layers."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def products(self) -> int:
        """Multiplications for one image, forward."""
        return sum(layer.products for layer in self.layers)


@dataclass
class _Shapes:
    """Writes layers; keeps the channels and the side of the image between them."""

    channels: int = 3
    side: int = 224
    layers: list[Layer] = field(default_factory=list)

    def convolve(
        self, channels: int, kernel: int, *, stride: int = 1, padding: int | None = None,
        bias: bool = True, normalized: bool = False,
    ) -> None:  # fmt: skip
        padding = kernel // 2 if padding is None else padding
        side = (self.side + 2 * padding - kernel) // stride + 1
        weights = self.channels * kernel**2 * channels
        extra = channels * bias + 2 * channels * normalized
        values = self.channels * self.side**2 + channels * side**2
        self.layers.append(Layer(weights + extra, weights * side**2, values))
        self.channels, self.side = channels, side

    def pool(self, kernel: int, stride: int, padding: int = 0) -> None:
        self.side = (self.side + 2 * padding - kernel) // stride + 1

    def linear(self, size: int) -> None:
        entering = self.channels * self.side**2
        self.layers.append(Layer((entering + 1) * size, entering * size, entering + size))
        self.channels, self.side = size, 1

    def network(self, name: str) -> ImageNetwork:
        return ImageNetwork(name, tuple(self.layers))


def _alexnet() -> ImageNetwork:
    shapes = _Shapes()
    shapes.convolve(64, 11, stride=4, padding=2)
    shapes.pool(3, 2)
    shapes.convolve(192, 5)
    shapes.pool(3, 2)
    for channels in (384, 256, 256):
        shapes.convolve(channels, 3)
    shapes.pool(3, 2)
    for size in (4096, 4096, 1000):
        shapes.linear(size)
    return shapes.network("alexnet")


def _vgg(name: str, convolutions: tuple[int, ...]) -> ImageNetwork:
    shapes = _Shapes()
    for channels, number in zip((64, 128, 256, 512, 512), convolutions, strict=True):
        for _ in range(number):
            shapes.convolve(channels, 3)
        shapes.pool(2, 2)
    for size in (4096, 4096, 1000):
        shapes.linear(size)
    return shapes.network(name)


def _resnet_50() -> ImageNetwork:
    shapes = _Shapes()
    plain = functools.partial(shapes.convolve, bias=False, normalized=True)
    plain(64, 7, stride=2)
    shapes.pool(3, 2, 1)
    for width, blocks in zip((64, 128, 256, 512), (3, 4, 6, 3), strict=True):
        for block in range(blocks):
            stride = 2 if block == 0 and width > 64 else 1
            entering, side = shapes.channels, shapes.side
            plain(width, 1)
            plain(width, 3, stride=stride)
            plain(4 * width, 1)
            if block == 0:  # the input, projected to as many channels
                leaving = shapes.channels, shapes.side
                shapes.channels, shapes.side = entering, side
                plain(4 * width, 1, stride=stride)
                assert (shapes.channels, shapes.side) == leaving
    shapes.side = 1  # the mean of each channel
    shapes.linear(1000)
    return shapes.network("resnet-50")


NETWORKS: dict[str, Callable[[], ImageNetwork]] = {
    "alexnet": _alexnet,
    "resnet-50": _resnet_50,
    "vgg-16": lambda: _vgg("vgg-16", (2, 2, 3, 3, 3)),
    "vgg-19": lambda: _vgg("vgg-19", (2, 2, 4, 4, 4)),
}


@dataclass(frozen=True)
class Cnn:
    """A step of one network, or of several one after the other.

    Attributes
    ----------
    networks
        In their order.
    images_per_gpu
        That a step trains.
    synchronization
        What adds gradients up.
    gradient_bytes
        Of an element of a gradient.
    """

    networks: tuple[ImageNetwork, ...]
    images_per_gpu: int = 32
    synchronization: Synchronization = "ring"
    gradient_bytes: float = 4.0

    @property
    def name(self) -> str:
        """As it is called on the command line."""
        return "+".join(network.name for network in self.networks)

    @property
    def gpus(self) -> None:
        """Any number."""
        return

    @property
    def computes(self) -> bool:
        """Layers take as long as the GPU says."""
        return True

    def check(self, gpus: int) -> None:
        """Any number of GPUs will do."""

    def opening(self, gpus: int) -> list[str]:
        """The networks, and how their gradients are added up."""
        how = {
            "ring": "added up by rings",
            "server": "sent to rank 0, which sends parameters back",
            "sharded-servers": "shared out among all ranks as parameter servers",
        }[self.synchronization]
        images = self.images_per_gpu
        lines = [
            f"{network.name}: {network.parameters / 1e6:.1f} M parameters, "
            f"{network.products / 1e9:.3g} G products an image"
            for network in self.networks
        ]
        return [
            *lines,
            f"data parallel: {images} images per GPU and step ({images * gpus:,} in all); "
            f"gradients of {self.gradient_bytes:g} bytes, {how}",
        ]

    def step(
        self, gpus: int, gpus_per_server: int, kernels: Kernels, compute_scale: float
    ) -> ProgramStep:
        """One step of each network, in their order."""
        servers = gpus // gpus_per_server
        graph = TaskGraphBuilder(range(servers), gpus_per_server)
        program = graph.role("ranks", range(servers))
        writer = _Writer(self, (gpus, gpus_per_server), (kernels, compute_scale), graph, program)
        for turn, network in enumerate(self.networks):
            writer.write(turn, network)
        return ProgramStep(
            graph.build(),
            gpus_per_server,
            {"demand": "gradients of the layers", "compute": "roofline of matrix products"},
        )


def networks_named(name: str) -> tuple[ImageNetwork, ...]:
    """The networks of a name such as ``resnet-50+vgg-16``; none of other names.

    Raises
    ------
    InputError
        If some of its parts are networks, and others are not.
    """
    parts = name.split("+")
    unknown = [part for part in parts if part not in NETWORKS]
    if len(unknown) == len(parts):
        return ()
    if unknown:
        raise InputError(
            f"{echo(unknown[0])} of {echo(name)} is no network: known are {', '.join(NETWORKS)}"
        )
    return tuple(NETWORKS[part]() for part in parts)


class _Writer:
    """Writes steps of networks into the program of all workers."""

    def __init__(
        self,
        cnn: Cnn,
        sizes: tuple[int, int],
        times: tuple[Kernels, float],
        graph: TaskGraphBuilder,
        program: ProgramBuilder,
    ) -> None:
        self.cnn, self.program = cnn, program
        self.gpus, self.size = sizes
        self.kernels, self.scale = times
        self.ring = graph.family(_PURPOSE, [range(self.gpus // self.size)])
        self.servers = _Servers(cnn, sizes, graph) if not self._has_rings else None

    @property
    def _has_rings(self) -> bool:
        return self.cnn.synchronization == "ring"

    def write(self, turn: int, network: ImageNetwork) -> None:
        """Forward, backward with its buckets, and the optimizer; ``turn`` tells steps apart."""
        for number, layer in enumerate(network.layers):
            self._compute("forward", self._layer(layer), number)
        for bucket, layers in enumerate(buckets(network, self.cnn.gradient_bytes)):
            for number in layers:
                self._compute("backward", self._layer(network.layers[number], 2), number)
            self._add_up(network, (turn, bucket), sum_of(network, layers))
        for bucket, _ in enumerate(buckets(network, self.cnn.gradient_bytes)):
            self.program.wait((turn, bucket, "added"), _PURPOSE)
        moved = self.kernels.moved(network.parameters * _OPTIMIZER_BYTES, "optimizer")
        self._compute("optimizer", moved, None)
        if self.servers is not None:
            self.servers.send_back(self.program, network)

    def _add_up(self, network: ImageNetwork, key: tuple[int, int], parameters: int) -> None:
        """Start to add a bucket up as soon as it is there, after those before it."""
        program, ready, added = self.program, (*key, "ready"), (*key, "added")
        placed = {"stream": _NETWORK_STREAM}
        program.compute("backward", duration_ps=0, handle=ready)
        program.wait(ready, _PURPOSE, **placed)
        if self.servers is not None:
            self.servers.collect(program, network, key[1], handle=added, **placed)
            return
        size = round(parameters * self.cnn.gradient_bytes)
        program.all_reduce(
            self.ring, size if self.gpus > self.size else 0, _PURPOSE,
            inside=round(2 * size * share_inside(self.size, self.gpus // self.size)),
            peers=self.size - 1,
            handle=added, **placed,
        )  # fmt: skip

    def _layer(self, layer: Layer, times: int = 1) -> Work:
        """A layer forward; two of its kind are the gradients of its input and of its weights."""
        images = self.cnn.images_per_gpu
        size = BF16 * (layer.values * images + layer.parameters)
        seconds = self.kernels.operator_seconds("matmul", 2.0 * layer.products * images, size)
        return Work.of(times * float(seconds), times)

    def _compute(self, category: str, work: Work, layer: int | None) -> None:
        seconds = float(self.kernels.seconds(NOTHING + work)) * self.scale
        placed = {} if layer is None else {"layer": layer}
        self.program.compute(category, seconds, **placed)


class _Servers:
    """What goes to parameter servers and comes back, as phases of one table."""

    def __init__(self, cnn: Cnn, sizes: tuple[int, int], graph: TaskGraphBuilder) -> None:
        self.cnn, (ranks, gpus_per_server) = cnn, sizes
        self._place: dict[tuple[str, int | None], int] = {}
        phases: list[Phase] = []
        for network in dict.fromkeys(cnn.networks):
            for bucket, layers in enumerate(buckets(network, cnn.gradient_bytes)):
                self._place[network.name, bucket] = len(phases)
                size = sum_of(network, layers) * cnn.gradient_bytes
                phases.append(self._phase(ranks, size, back=False))
            self._place[network.name, None] = len(phases)
            phases.append(self._phase(ranks, network.parameters * cnn.gradient_bytes, back=True))
        self._writer = PhaseWriter(
            graph, PhaseSequence(ranks, tuple(phases), _PURPOSE), gpus_per_server
        )

    def collect(
        self, program: ProgramBuilder, network: ImageNetwork, bucket: int, **placed: object
    ) -> None:
        """Send the gradients of a bucket to their servers."""
        self._writer.write_phase(program, self._place[network.name, bucket], **placed)

    def send_back(self, program: ProgramBuilder, network: ImageNetwork) -> None:
        """Send the parameters from their servers."""
        self._writer.write_phase(program, self._place[network.name, None])

    def _phase(self, ranks: int, size_bytes: float, *, back: bool) -> Phase:
        others = np.arange(1, ranks)
        if self.cnn.synchronization == "server":
            ends, size = (others, np.zeros_like(others)), round(size_bytes)
        else:
            place = np.arange(ranks)
            pairs = np.repeat(place, ranks), np.tile(place, ranks)
            apart = pairs[0] != pairs[1]
            ends, size = (pairs[0][apart], pairs[1][apart]), round(size_bytes / ranks)
        source, destination = ends[::-1] if back else ends
        return Phase(source, destination, np.full(len(source), size))


def sum_of(network: ImageNetwork, layers: list[int]) -> int:
    """Parameters of some layers."""
    return sum(network.layers[number].parameters for number in layers)


def buckets(network: ImageNetwork, gradient_bytes: float) -> Iterator[list[int]]:
    """Layers whose gradients are added up together, in the order of the backward pass.

    A bucket is closed by the layer that fills it.
    """
    layers: list[int] = []
    size, limit = 0.0, _FIRST_BUCKET_BYTES
    for number in reversed(range(len(network.layers))):
        layers.append(number)
        size += network.layers[number].parameters * gradient_bytes
        if size >= limit:
            yield layers
            layers, size, limit = [], 0.0, _BUCKET_BYTES
    if layers:
        yield layers
