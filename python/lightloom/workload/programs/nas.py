"""What the parallel benchmarks of NASA (NPB 3, MPI) send: CG, MG and FT.

A step is one iteration of the benchmark; what ranks compute is left out, so that a step is
communication alone. Sizes and partners follow the descriptions of the benchmarks (NAS-95-020) and
the decompositions of their MPI versions:

* FT transposes the whole array of complex numbers, in slabs while there are planes for all ranks,
  else in pencils, with an all-to-all among the ranks of a row and one of a column.
* CG multiplies a matrix that rows and columns of ranks share out, 25 times for the solution and
  once for its residual: partial sums are swapped along the row in halves, and the result with
  the rank across the diagonal; dot products are sums of 8 bytes.
* MG swaps the faces of boxes in three directions on every level of a V-cycle, three times on
  each but the coarsest, twice there. Where a level has fewer points than ranks, some of
  them sit out; handing points to them is left out.

Left out, too: checksums and norms that are printed at the end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lightloom.errors import InputError, did_you_mean, echo
from lightloom.units import show_things
from lightloom.workload.compute_kernels import Kernels
from lightloom.workload.programs.phases import PURPOSE, Ints, Phase, PhaseSequence, phase_graph
from lightloom.workload.programs.program import ProgramStep

BENCHMARKS = ("cg", "ft", "mg")
#: bytes of a double and of a complex number
_DOUBLE, _COMPLEX = 8, 16
#: products of a conjugate-gradient solution, and that of its residual
_PRODUCTS = 25

#: by class: points of FT and its iterations
FT_SIZES: dict[str, tuple[tuple[int, int, int], int]] = {
    "s": ((64, 64, 64), 6), "w": ((128, 128, 32), 6), "a": ((256, 256, 128), 6),
    "b": ((512, 256, 256), 20), "c": ((512, 512, 512), 20), "d": ((2048, 1024, 1024), 25),
    "e": ((4096, 2048, 2048), 25),
}  # fmt: skip
#: rows of CG's matrix, and its iterations
CG_SIZES = {
    "s": (1_400, 15), "w": (7_000, 15), "a": (14_000, 15), "b": (75_000, 75), "c": (150_000, 75),
    "d": (1_500_000, 100), "e": (9_000_000, 100),
}  # fmt: skip
#: points of MG along each axis, and its iterations
MG_SIZES = {
    "s": (32, 4), "w": (128, 4), "a": (256, 4), "b": (256, 20), "c": (512, 20), "d": (1024, 50),
    "e": (2048, 50),
}  # fmt: skip
CLASSES = tuple(CG_SIZES)
_NAME = re.compile(r"nas-([a-z]+)-([a-z])")


@dataclass(frozen=True)
class Nas:
    """One benchmark of one class."""

    benchmark: str
    size: str

    @property
    def name(self) -> str:
        """As it is called on the command line."""
        return f"nas-{self.benchmark}-{self.size}"

    @property
    def gpus(self) -> None:
        """Any power of two."""
        return

    @property
    def computes(self) -> bool:
        """It only communicates."""
        return False

    @property
    def iterations(self) -> int:
        """Of the whole benchmark."""
        iterations = {
            "cg": CG_SIZES[self.size][1],
            "ft": FT_SIZES[self.size][1],
            "mg": MG_SIZES[self.size][1],
        }
        return iterations[self.benchmark]

    def check(self, gpus: int) -> None:
        """Refuse what is no power of two, or more ranks than there are pieces of work.

        Raises
        ------
        InputError
            If it is.
        """
        if gpus & (gpus - 1):
            below = 1 << (gpus.bit_length() - 1)
            raise InputError(
                f"gpus = {gpus}: {self.name} runs on a power of two ranks; use {below} or "
                f"{2 * below}"
            )
        if gpus > (most := self._most()):
            raise InputError(f"gpus = {gpus}: {self.name} has work for {most} ranks at most")

    def _most(self) -> int:
        if self.benchmark == "ft":
            (_, ny, nz), _ = FT_SIZES[self.size]
            return ny * nz
        if self.benchmark == "cg":
            return 1 << (CG_SIZES[self.size][0].bit_length() - 1)
        return int(MG_SIZES[self.size][0]) ** 3

    def opening(self, gpus: int) -> list[str]:
        """What it is, and how much it sends."""
        order = [phase for phase in self.phases(gpus).order if len(phase.source)]
        total = sum(int(phase.size_bytes.sum()) for phase in order)
        return [
            f"{self.name}: {self.benchmark.upper()} of the NAS parallel benchmarks, class "
            f"{self.size.upper()}, on {gpus:,} ranks; a step is one of its {self.iterations} "
            f"iterations: {show_things(len(order), 'phase')}, {total / 1e6:,.4g} MB in "
            "all, no computation"
        ]

    def step(
        self,
        gpus: int,
        gpus_per_server: int,
        kernels: Kernels,  # noqa: ARG002 - nothing is computed
        compute_scale: float,  # noqa: ARG002
    ) -> ProgramStep:
        """One iteration."""
        graph = phase_graph(self.phases(gpus), gpus_per_server)
        source = "sizes and partners of NPB 3 (MPI), without computation"
        return ProgramStep(graph, gpus_per_server, {"demand": source})

    def phases(self, ranks: int) -> PhaseSequence:
        """The phases of one iteration."""
        order = {"cg": _cg, "ft": _ft, "mg": _mg}[self.benchmark]
        return PhaseSequence(ranks, tuple(order(self.size, ranks)), PURPOSE)


def nas_named(name: str) -> Nas | None:
    """The benchmark of a name such as ``nas-ft-d``; ``None`` of other names.

    Raises
    ------
    InputError
        If there is no such benchmark or class.
    """
    if not name.startswith("nas-"):
        return None
    parts = _NAME.fullmatch(name)
    if parts is None or parts[1] not in BENCHMARKS or parts[2] not in CLASSES:
        names = [f"nas-{benchmark}-{size}" for benchmark in BENCHMARKS for size in CLASSES]
        raise InputError(
            f"{echo(name)}: expected nas-{'|'.join(BENCHMARKS)}-{'|'.join(CLASSES)}"
            f"{did_you_mean(name, names)}"
        )
    return Nas(parts[1], parts[2])


def _all_to_all(ranks: int, groups: Ints, size_bytes: int) -> Phase:
    """Each rank sends so many bytes to each other one of its group, ``groups`` by rank."""
    members = [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]
    source = np.concatenate([np.repeat(ranks_, len(ranks_)) for ranks_ in members])
    destination = np.concatenate([np.tile(ranks_, len(ranks_)) for ranks_ in members])
    other = source != destination
    source, destination = source[other], destination[other]
    assert not len(source) or source.max() < ranks
    return Phase(source, destination, np.full(len(source), size_bytes))


def _ft(size: str, ranks: int) -> Iterator[Phase]:
    (nx, ny, nz), _ = FT_SIZES[size]
    whole, all_ranks = _COMPLEX * nx * ny * nz, np.arange(ranks)
    if ranks <= nz:
        yield _all_to_all(ranks, np.zeros(ranks, np.int64), whole // ranks**2)
        return
    columns = ranks // nz
    yield _all_to_all(ranks, all_ranks // columns, whole // (ranks * columns))
    yield _all_to_all(ranks, all_ranks % columns, whole // (ranks * nz))


def _swap(partner: Ints, size_bytes: int) -> Phase:
    """Each rank sends its partner so many bytes; nothing to itself."""
    ranks = np.arange(len(partner))
    others = partner != ranks
    return Phase(ranks[others], partner[others], np.full(int(others.sum()), size_bytes))


def _cg(size: str, ranks: int) -> Iterator[Phase]:
    rows = CG_SIZES[size][0]
    log = ranks.bit_length() - 1
    nprows = 1 << (log // 2)
    npcols = ranks // nprows
    me = np.arange(ranks)
    row, column = me // npcols, me % npcols
    square = npcols == nprows
    vector = round(rows / nprows) * _DOUBLE // (1 if square else 2)
    partners, block = [], npcols
    while block > 1:
        partners.append(row * npcols + (column + block // 2) % block + column // block * block)
        block //= 2
    sums = [_swap(partner, vector) for partner in partners]
    if square:
        across = me % nprows * nprows + me // nprows
    else:
        across = 2 * (me // 2 % nprows * nprows + me // 2 // nprows) + me % 2
    transpose = _swap(across, vector)
    dots = [_swap(partner, _DOUBLE) for partner in partners]
    norms = [_swap(partner, 2 * _DOUBLE) for partner in partners]
    product = [*sums, transpose]
    yield from dots
    for _ in range(_PRODUCTS):
        yield from product
        yield from dots
        yield from dots
    yield from product
    yield from dots
    yield from norms


def _mg(size: str, ranks: int) -> Iterator[Phase]:
    points = MG_SIZES[size][0]
    log = ranks.bit_length() - 1
    grid = [1 << (log // 3), 1 << ((log - log // 3) // 2)]
    grid.append(ranks // (grid[0] * grid[1]))
    levels = [2**level for level in range(1, points.bit_length())]
    halos = {number: _halo(number, grid) for number in levels}
    for number in levels[-2::-1]:  # restricted
        yield from halos[number]
    yield from halos[levels[0]]  # smoothed
    for number in levels[1:]:  # residual, smoothed
        yield from halos[number]
        yield from halos[number]
    yield from halos[levels[-1]]  # residual of the solution


def _halo(points: int, grid: list[int]) -> list[Phase]:
    """Faces in each direction in turn, on a level of so many points along each axis."""
    ranks = np.arange(grid[0] * grid[1] * grid[2])
    place = [ranks % grid[0], ranks // grid[0] % grid[1], ranks // (grid[0] * grid[1])]
    strides = [max(1, parts // points) for parts in grid]
    local = [max(1, points // parts) for parts in grid]
    active = np.all([at % stride == 0 for at, stride in zip(place, strides, strict=True)], axis=0)
    weights = (1, grid[0], grid[0] * grid[1])
    faces = (local[1] * local[2], (local[0] + 2) * local[2], (local[0] + 2) * (local[1] + 2))
    phases = []
    for axis in range(3):
        source, destination = [], []
        for step in (strides[axis], -strides[axis]):
            moved = (place[axis] + step) % grid[axis]
            other = ranks + (moved - place[axis]) * weights[axis]
            sends = active & (other != ranks)
            source.append(ranks[sends])
            destination.append(other[sends])
        ends = np.concatenate(source), np.concatenate(destination)
        if len(ends[0]):
            phases.append(Phase(*ends, np.full(len(ends[0]), faces[axis] * _DOUBLE)))
    return phases
