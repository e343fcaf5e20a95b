"""Spans as arrays, and the passes of micro-batches found in them."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.report.passes import Passes, passes
from lightloom.report.spans import Spans, circuit_spans, worker_spans

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
    assert not found.overlap


def spans_of(rows):
    """Spans of one worker: category, start, end, layer, micro-batch."""
    category, start, end, layer, micro_batch = zip(*rows, strict=True)
    nothing = np.zeros(len(rows), dtype=np.int64)
    return Spans(
        nothing, nothing, np.array(start, float), np.array(end, float), np.zeros(len(rows)),
        np.array(category), np.array(layer), np.array(micro_batch),
    )  # fmt: skip


def listed(found: Passes):
    columns = (found.micro_batch, found.backward, found.start_s, found.end_s)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_layers_of_two_micro_batches_that_take_turns_are_two_passes():
    # forward of 1 and backward of 0, half a layer at a time; 0 went forward before, 1 goes back
    rows = [("attention", 0, 1, 0, 0), ("attention", 1, 2, 1, 0)]
    rows += [
        ("expert", 4 + n, 5 + n, layer, m) for n, (layer, m) in enumerate(
            [(0, 1), (1, 0), (0, 1), (1, 0), (1, 1), (0, 0), (1, 1), (0, 0)]
        )
    ]  # fmt: skip
    rows += [("attention", 20, 21, 1, 1), ("attention", 21, 22, 0, 1)]
    found = passes(spans_of(rows))
    assert listed(found) == [
        (0, False, 0, 2), (1, False, 4, 11), (0, True, 5, 12), (1, True, 20, 22)
    ]  # fmt: skip
    assert found.overlap


def test_the_embedding_goes_the_way_of_its_micro_batch():
    rows = []
    for m in (0, 1):
        rows += [("head", m, m + 0.5, -1, m), ("attention", m + 0.5, m + 1, 0, m)]
        rows += [("attention", 5 + m, 5.5 + m, 0, m), ("head", 5.5 + m, 6 + m, -1, m)]
    assert listed(passes(spans_of(rows))) == [
        (0, False, 0, 1), (1, False, 1, 2), (0, True, 5, 6), (1, True, 6, 7)
    ]  # fmt: skip


def test_chunks_of_a_virtual_pipeline_are_passes_of_their_own():
    rows = [("attention", n, n + 1, layer, 0) for n, layer in enumerate((0, 1, 8, 9))]
    rows += [("attention", 10 + n, 11 + n, layer, 0) for n, layer in enumerate((9, 8, 1, 0))]
    assert listed(passes(spans_of(rows))) == [
        (0, False, 0, 2), (0, False, 2, 4), (0, True, 10, 12), (0, True, 12, 14)
    ]  # fmt: skip


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
