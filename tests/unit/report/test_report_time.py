"""Timelines of the page: the columns that are drawn say what the run recorded."""

import base64
import dataclasses
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.report import page_time
from lightloom.report.explain import WORDS
from lightloom.report.page_template import data, packed
from lightloom.report.page_time import time_data, time_views
from lightloom.report.plots_svg import fabric_styles
from lightloom.report.spans import worker_spans
from lightloom.report.time_window import MAX_SPANS, choose_window

from .hand_made_results import LAYERS, MICRO_BATCHES, STAGES, circuit_timeline, make_run

STAGE_OF = {0: 0, 4: 1, 8: 2, 12: 3}


def unpacked(text):
    """As ``charts.js`` reads numbers."""
    raw = np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype=np.uint8)
    return raw.reshape(4, -1).T.copy().view("<i4").ravel()


def views_of(comparison):
    return time_views(comparison, fabric_styles([(r.fabric, r.kind) for r in comparison.results]))


def columns(numbers):
    found = {name: unpacked(text) for name, text in numbers.items() if isinstance(text, str)}
    ends = np.cumsum(found["pause"].astype(np.int64) + found["length"])
    return found | {"start": ends - found["length"]}


@given(st.lists(st.integers(-(2**31) + 1, 2**31 - 1)))
def test_numbers_come_back(values):
    assert unpacked(packed(np.array(values, dtype=np.int64))).tolist() == values


@given(st.text())
def test_no_text_ends_the_element_that_data_stands_in(text):
    made = str(data({"a": f"</script>{text}<!--"}))
    assert not set("<>&\u2028\u2029") & set(made)


def test_every_fabric_has_a_timeline(make_comparison):
    comparison = make_comparison()
    views = views_of(comparison)
    assert [view.style.name for view in views] == [r.fabric for r in comparison.results]
    # circuits that move are the more telling
    assert time_data(views, "mixnet")["timelines_first"] == "mixnet"
    assert time_data(views, "not recorded")["timelines_first"] == views[0].style.name
    assert time_data([], "mixnet") == {}


def test_spans_are_those_of_the_run(make_comparison):
    comparison = make_comparison()
    view = views_of(comparison)[0].numbers
    spans = worker_spans(comparison.details["runs"]["fat-tree"].run)
    found = columns(view["spans"])
    assert view["lanes"] == [f"stage {n}" for n in range(STAGES)]
    assert len(found["start"]) == len(spans)
    unit = view["unit_s"]
    for category in set(spans.category_names()):
        mine = found["category"] == list(WORDS).index(category)
        there = spans.category == category
        assert found["length"][mine].sum() * unit == pytest.approx(
            (spans.end_s - spans.start_s)[there].sum()
        )
        assert found["waited"][mine].sum() * unit == pytest.approx(spans.waited_s[there].sum())
    assert set(found["stream"].tolist()) == {0, 1}
    assert found["layer"].max() == STAGES * LAYERS - 1


def test_passes_are_those_of_1f1b(make_comparison):
    found = columns(views_of(make_comparison())[0].numbers["passes"])
    assert len(found["start"]) == 2 * MICRO_BATCHES * STAGES
    assert found["backward"].sum() == MICRO_BATCHES * STAGES
    for stage in range(STAGES):
        mine = found["lane"] == stage
        assert sorted(found["micro_batch"][mine].tolist()) == sorted([*range(MICRO_BATCHES)] * 2)


def test_long_steps_have_times_that_fit_four_bytes(make_comparison):
    comparison = make_comparison()
    done = comparison.details["runs"]["topoopt"]
    line = done.run.timeline
    slow = dataclasses.replace(line, start_s=line.start_s * 1e5, end_s=line.end_s * 1e5)
    done.run = dataclasses.replace(done.run, step_time_s=26e5, timeline=slow)
    view = views_of(comparison)[1].numbers
    found = columns(view["spans"])
    assert (found["start"] + found["length"]).max() * view["unit_s"] == pytest.approx(
        line.end_s.max() * 1e5
    )


def test_too_many_spans_are_kept_around_the_first_window(make_comparison, monkeypatch):
    monkeypatch.setattr(page_time, "MAX_SPANS", 3 * 50)
    view = views_of(make_comparison())[0]
    found = columns(view.numbers["spans"])
    assert len(found["start"]) == 50
    middle = sum(view.numbers["window_s"]) / 2
    starts = found["start"] * view.numbers["unit_s"]
    assert starts.min() <= middle <= starts.max()
    assert "spans are kept from" in view.caption
    # the view of the whole step is whole
    assert len(columns(view.numbers["passes"])["start"]) == 2 * MICRO_BATCHES * STAGES


def test_circuits_are_shown_only_if_they_change(make_comparison):
    comparison = make_comparison()
    done = comparison.details["runs"]["mixnet"]
    still = [(2, 3, 1, 0.0, 20.0), (0, 1, 1, 0.0, 20.0)]
    done.run = dataclasses.replace(done.run, circuit_timeline=circuit_timeline(still))
    assert views_of(comparison)[2].numbers["circuits"] is None
    moving = [(0, 1, 2, float(n), n + 0.75) for n in range(20)]
    done.run = dataclasses.replace(done.run, circuit_timeline=circuit_timeline(still[:1] + moving))
    view = views_of(comparison)[2]
    assert view.numbers["circuits"]["pairs"] == ["0 - 1"]
    found = columns(view.numbers["circuits"])
    assert found["count"].tolist() == [2] * 20
    assert (found["length"] * view.numbers["unit_s"]).tolist() == pytest.approx([0.75] * 20)
    assert "circuits between servers 0 to 1" in view.caption


def test_window_is_a_forward_and_a_backward_pass():
    spans = worker_spans(make_run(20.0))
    window = choose_window(spans, STAGE_OF)
    mine = spans.take(spans.worker == 8).within(window.start_s, window.end_s)
    assert {"attention", "ep", "expert"} <= set(mine.category_names())
    assert 2.9 < window.end_s - window.start_s < 3.6


def test_window_shrinks_to_what_can_be_drawn(monkeypatch):
    monkeypatch.setattr("lightloom.report.time_window.MAX_SPANS", 10)
    spans = worker_spans(make_run(20.0))
    window = choose_window(spans, STAGE_OF)
    assert 0 < len(spans.within(window.start_s, window.end_s)) <= 10 < MAX_SPANS


def test_no_spans_no_window():
    spans = worker_spans(make_run(20.0, timeline=False))
    assert choose_window(spans, {}) is None
