"""Spans as arrays, and the passes of micro-batches found in them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.report.spans import circuit_spans, passes, worker_spans

from .hand_made_results import MICRO_BATCHES, STAGES, make_run, make_timeline, one_f_one_b


@pytest.mark.parametrize("stage", range(STAGES))
def test_passes_are_those_of_1f1b(stage):
    spans = worker_spans(make_run(20.0))
    found = passes(spans.take(spans.worker == 4 * stage))
    pairs = list(zip(found.micro_batch.tolist(), found.backward.tolist(), strict=True))
    assert pairs == one_f_one_b(stage)
    assert len(pairs) == 2 * MICRO_BATCHES
    lengths = found.end_s - found.start_s
    # the last stage's forward ends with the output layer
    head = 0.1 if stage == STAGES - 1 else 0.0
    assert lengths == pytest.approx(np.where(found.backward, 2.0, 1.0 + head))


@given(st.integers(0, 2**32 - 1))
def test_the_order_of_recording_does_not_matter(seed):
    timeline = make_timeline()
    order = np.random.default_rng(seed).permutation(len(timeline.start_s))
    shuffled = dataclasses.replace(
        timeline,
        **{
            f.name: getattr(timeline, f.name)[order]
            for f in dataclasses.fields(timeline)
            if f.name != "categories"
        },
    )
    run = make_run(20.0)
    once = worker_spans(run)
    again = worker_spans(dataclasses.replace(run, timeline=shuffled))
    for field in dataclasses.fields(once):
        assert (getattr(once, field.name) == getattr(again, field.name)).all()


def test_what_does_not_apply_is_minus_one():
    spans = worker_spans(make_run(20.0))
    optimizer = spans.take(np.array(spans.category_names()) == "optimizer")
    assert len(optimizer) == STAGES
    assert (optimizer.layer == -1).all()
    assert (optimizer.micro_batch == -1).all()


def test_no_timeline_gives_no_spans():
    run = make_run(20.0, timeline=False)
    assert len(worker_spans(run)) == 0
    assert len(circuit_spans(run)) == 0
    assert len(passes(worker_spans(run)).start_s) == 0


def test_circuits_are_named_by_their_lower_server_first():
    run = make_run(20.0, circuits=[(5, 2, 1, 3.0, 4.0), (2, 5, 2, 0.0, 1.0)])
    circuits = circuit_spans(run)
    assert circuits.pairs() == [(2, 5)]
    assert circuits.up_s.tolist() == [0.0, 3.0]
    assert circuits.count.tolist() == [2, 1]


def test_within_keeps_what_overlaps():
    circuits = circuit_spans(make_run(20.0, circuits=[(0, 1, 1, 0.0, 1.0), (0, 1, 1, 2.0, 3.0)]))
    assert len(circuits.within(0.5, 2.5)) == 2
    assert len(circuits.within(1.0, 2.0)) == 0
    assert circuits.within(2.9, 9.0).up_s.tolist() == [2.0]
