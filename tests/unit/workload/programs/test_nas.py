"""What CG, FT and MG send, by their definitions: sums that reach everybody, faces by owners."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.workload.programs.nas import CG_SIZES, FT_SIZES, MG_SIZES, nas_named

POWERS = (1, 2, 4, 8, 16, 32, 64)


def sent(phase):
    return list(
        zip(
            phase.source.tolist(), phase.destination.tolist(), phase.size_bytes.tolist(),
            strict=True,
        )
    )  # fmt: skip


@pytest.mark.parametrize("size", ["s", "c", "d", "e"])
@pytest.mark.parametrize("ranks", [2, 16, 64])
def test_ft_moves_the_whole_array_but_what_stays(size, ranks):
    points = int(np.prod(FT_SIZES[size][0]))
    (phase,) = nas_named(f"nas-ft-{size}").phases(ranks).order
    assert phase.size_bytes.sum() == 16 * points * (ranks - 1) // ranks
    assert set(phase.size_bytes.tolist()) == {16 * points // ranks**2}


def test_ft_in_pencils_moves_the_array_once_along_each_side():
    """Class S has 64 planes: 256 ranks are 64 columns of 4."""
    points, ranks = 64**3, 256
    rows, columns = nas_named("nas-ft-s").phases(ranks).order
    assert rows.size_bytes.sum() == 16 * points * 3 // 4
    assert columns.size_bytes.sum() == 16 * points * 63 // 64
    assert len(rows.source) == ranks * 3
    assert len(columns.source) == ranks * 63


@pytest.mark.parametrize("ranks", POWERS)
def test_sums_of_cg_reach_everybody_of_a_row(ranks):
    """A replay: each rank holds what it has heard of, and after a product all of its row."""
    phases = nas_named("nas-cg-s").phases(ranks)
    rows = 1 << ((ranks.bit_length() - 1) // 2)
    columns = ranks // rows
    steps = columns.bit_length() - 1
    product = phases.order[steps : 2 * steps]
    known = [{rank} for rank in range(ranks)]
    for phase in product:
        before = [set(heard) for heard in known]
        for source, destination, _ in sent(phase):
            known[destination] |= before[source]
    for rank in range(ranks):
        first = rank // columns * columns
        assert known[rank] == set(range(first, first + columns))


@pytest.mark.parametrize("ranks", POWERS)
def test_cg_transposes_to_the_rank_whose_row_is_the_column(ranks):
    phases = nas_named("nas-cg-s").phases(ranks)
    rows = 1 << ((ranks.bit_length() - 1) // 2)
    columns = ranks // rows
    steps = columns.bit_length() - 1
    partner = dict(zip(range(ranks), range(ranks), strict=True))
    partner |= {source: destination for source, destination, _ in sent(phases.order[2 * steps])}
    for rank, other in partner.items():
        assert partner[other] == rank
        assert other // columns == rank % columns * rows // columns


def test_cg_sends_as_many_bytes_as_its_vectors_have():
    """26 products: each a sum along rows in log2 steps, and a transposition off the diagonal."""
    ranks, side = 16, 4
    vector = CG_SIZES["c"][0] // side * 8
    order = nas_named("nas-cg-c").phases(ranks).order
    sums = 26 * 2 * ranks * vector
    across = 26 * (ranks - side) * vector
    dots = (2 * 25 + 2) * 2 * ranks * 8
    norms = 2 * ranks * 16
    assert sum(int(phase.size_bytes.sum()) for phase in order) == sums + across + dots + norms


@pytest.mark.parametrize("ranks", [2, 8, 16, 64])
def test_faces_of_mg_are_what_a_neighbour_lacks(ranks):
    """Counted point by point, on a level that every rank has several points of."""
    points = 16
    log = ranks.bit_length() - 1
    grid = [1 << (log // 3), 1 << ((log - log // 3) // 2)]
    grid.append(ranks // grid[0] // grid[1])
    local = [points // parts for parts in grid]
    order = nas_named("nas-mg-s").phases(ranks).order
    weights = (1, grid[0], grid[0] * grid[1])
    places = [
        tuple(rank // weight % parts for weight, parts in zip(weights, grid, strict=True))
        for rank in range(ranks)
    ]
    at = {place: rank for rank, place in enumerate(places)}
    expected = []
    for axis in range(3):
        # the layers behind both faces, with the edges that earlier directions have brought
        sides = [local[other] + 2 * (other < axis) for other in range(3) if other != axis]
        demand = {}
        for rank, place in enumerate(places):
            for step in (1, -1):
                moved = list(place)
                moved[axis] = (moved[axis] + step) % grid[axis]
                other = at[tuple(moved)]
                if other != rank:
                    pair = rank, other
                    demand[pair] = demand.get(pair, 0) + 8 * sides[0] * sides[1]
        if demand:
            expected.append(demand)
    found = []
    for phase in order:
        demand = {}
        for source, destination, size in sent(phase):
            demand[source, destination] = demand.get((source, destination), 0) + size
        found.append(demand)
    level = [demand for demand in found if demand in expected]
    assert len(level) == 3 * len(expected)


def test_every_level_of_mg_is_swapped_three_times_but_the_coarsest():
    distinct = nas_named("nas-mg-s").phases(8)
    counts = [
        sum(phase is other for other in distinct.order) for phase in distinct.distinct
    ]  # fmt: skip
    levels = MG_SIZES["s"][0].bit_length() - 1
    assert sorted(counts) == [2] * 3 + [3] * 3 * (levels - 1)


@pytest.mark.parametrize("benchmark", ["cg", "ft", "mg"])
@pytest.mark.parametrize("ranks", POWERS)
def test_nobody_sends_itself_anything(benchmark, ranks):
    for phase in nas_named(f"nas-{benchmark}-s").phases(ranks).order:
        assert (phase.source != phase.destination).all()
        assert (phase.size_bytes > 0).all()
        ends = {*phase.source.tolist(), *phase.destination.tolist()}
        assert ends <= set(range(ranks))


@pytest.mark.parametrize(
    ("name", "gpus", "said"),
    [
        ("nas-ft-c", 48, "use 32 or 64"),
        ("nas-cg-s", 4096, "at most"),
        ("nas-ft-s", 8192, "4096 ranks at most"),
    ],
)
def test_numbers_of_ranks_that_cannot_be(name, gpus, said):
    with pytest.raises(InputError, match=said):
        nas_named(name).check(gpus)


@pytest.mark.parametrize("name", ["nas-ft-x", "nas-lu-c", "nas-ft", "nas-", "nas-ft-c-d"])
def test_names_that_are_none(name):
    with pytest.raises(InputError, match="expected nas-cg"):
        nas_named(name)


def test_other_names_are_left_to_others():
    assert nas_named("mixtral-8x7b") is None
