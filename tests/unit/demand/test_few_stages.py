"""A few stages that stand for all: the busiest, and others as busy as the rest."""

import numpy as np
import pytest

from lightloom.demand import open_demand, synthetic
from lightloom.demand.few_stages import SelectedLayers, few_stages
from lightloom.demand.folding import FoldingSource
from lightloom.demand.source import Shape

SHAPE = Shape(ranks=4, experts=16, tokens_per_rank=200, top_k=2)
STAGES = [[0], [1, 2], [3, 4], [5, 6], [7, 8], [9]]
INDEX = {"group": 3, "micro_batches": 2, "step": 5}


def make(name="skewed", **options):
    return open_demand(name, SHAPE, seed=4, **options)


def busy(source, stage, step):
    """Copies of the busiest rank of each layer in the first micro-batch of the first group."""
    counts = source.tokens(group=0, layers=stage, micro_batches=1, step=step)[:, 0]
    return counts.sum(axis=1).reshape(len(stage), 4, 4).sum(axis=-1).max(axis=-1).sum()


@pytest.mark.parametrize("options", [{}, {"capacity_factor": 1.5}])
@pytest.mark.parametrize(
    ("count", "places"), [(1, {0}), (2, {0, 2}), (3, {0, 1, 2}), (4, {0, 1, 2, 3})]
)
@pytest.mark.parametrize("step", [0, 5])
def test_of_each_part_of_the_stages_it_is_the_busiest(step, count, places, options):
    source = make(**options)
    layers = few_stages(source, STAGES, count, step=step).layers
    by_work = sorted(STAGES[1:5], key=lambda stage: -busy(source, stage, step))
    taken = sorted(by_work[int(place)] for place in places)
    assert layers == tuple(layer for stage in taken for layer in stage)


def test_layers_are_those_of_the_source():
    source = make()
    selected = SelectedLayers(source, [7, 2, 9])
    assert isinstance(selected, FoldingSource)
    assert (selected.name, selected.shape, selected.exact) == (source.name, SHAPE, False)
    assert selected.provenance == source.provenance
    layers, there = [2, 0], [9, 7]
    assert np.array_equal(
        selected.tokens(layers=layers, **INDEX), source.tokens(layers=there, **INDEX)
    )
    for call, more in [("folded", {"members": 2, "rank_level": True}), ("summed", {})]:
        result = getattr(selected, call)(layers=layers, **INDEX, **more)
        other = getattr(source, call)(layers=there, **INDEX, **more)
        for name, value in vars(other).items():
            assert np.array_equal(getattr(result, name), value), name


def test_a_source_stays_as_it_is_where_stages_are_alike_or_too_few():
    uniform = synthetic("uniform", **vars(SHAPE), seed=0)
    assert few_stages(uniform, STAGES, 2, step=0) is uniform
    source = make()
    assert few_stages(source, STAGES, 5, step=0) is source
    every = few_stages(source, STAGES, 4, step=0)
    assert every.layers == tuple(range(1, 9))
