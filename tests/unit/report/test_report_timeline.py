"""The trace: the keys that the format asks for, lanes, states of circuits, bounds."""

import dataclasses
import gzip
import itertools
import json
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report.hand_made_results import circuit_timeline

from lightloom.errors import OutputError
from lightloom.report.spans import Spans
from lightloom.report.timeline import first_free_lanes, write_timeline
from lightloom.report.timeline_arrows import Handover, handovers
from lightloom.simulate import BytesInFlight, CriticalSpans

#: keys of the trace event format by phase: complete, metadata, instant, counter, both ends of
#: arrows
REQUIRED = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "M": {"name", "ph", "ts", "pid", "tid", "args"},
    "i": {"name", "cat", "ph", "s", "ts", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "tid", "args"},
    "s": {"name", "cat", "ph", "id", "ts", "pid", "tid", "args"},
    "f": {"name", "cat", "ph", "id", "bp", "ts", "pid", "tid", "args"},
}


@pytest.fixture
def write(make_comparison, tmp_path):
    def run(comparison=None, **options):
        path = tmp_path / "trace.json"
        write_timeline(comparison or make_comparison(), path, **options)
        return json.loads(path.read_text(encoding="utf-8"))

    return run


def lanes_of(trace):
    """Names of lanes by (process, lane)."""
    return {
        (e["pid"], e["tid"]): e["args"]["name"]
        for e in trace["traceEvents"]
        if e["name"] == "thread_name"
    }


def spans_of(trace, lane):
    names = lanes_of(trace)
    return [
        e for e in trace["traceEvents"]
        if e["ph"] == "X" and names[e["pid"], e["tid"]] == lane
    ]  # fmt: skip


def test_events_have_the_keys_of_the_format(write):
    trace = write()
    assert set(trace) == {"displayTimeUnit", "otherData", "traceEvents"}
    for event in trace["traceEvents"]:
        assert set(event) == REQUIRED[event["ph"]]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        assert event.get("dur", 0) >= 0


def test_one_process_per_fabric(write):
    names = [
        (e["pid"], e["args"]["name"]) for e in write()["traceEvents"] if e["name"] == "process_name"
    ]
    assert names == [(1, "fat-tree"), (2, "topoopt"), (3, "mixnet")]


def test_lanes_are_named_by_role(write):
    lanes = lanes_of(write())
    assert lanes[1, 1] == "stage 0 · 8 GPUs of server 0 (replica 0, EP member 0)"
    assert "stage 1 · concurrent (1)" in lanes.values()
    assert "region 0 · circuit server 0 - server 1" in lanes.values()
    assert "region 0 · decisions for EP group 0" in lanes.values()
    assert not any("circuit" in name for (pid, _), name in lanes.items() if pid == 1)


def test_every_span_is_there_with_layer_and_micro_batch(write, make_comparison):
    run = make_comparison().details["runs"]["fat-tree"].run
    events = [e for e in write()["traceEvents"] if e["ph"] == "X" and e["pid"] == 1]
    assert len(events) == len(run.timeline.start_s)
    total = sum(e["dur"] for e in events)
    expected = (run.timeline.end_s - run.timeline.start_s).sum() * 1e6
    assert total == pytest.approx(expected, rel=1e-9)
    first = min(events, key=lambda e: e["ts"])
    assert first["name"] == "compute: attention"
    assert first["cat"] == "attention"
    assert first["args"] == {"layer": 0, "micro_batch": 0}
    assert first["ts"] == 0
    assert first["dur"] == 250_000
    optimizer = next(e for e in events if e["cat"] == "optimizer")
    assert optimizer["args"] == {}


def test_spans_of_a_lane_never_overlap(write):
    by_lane = defaultdict(list)
    for event in write()["traceEvents"]:
        if event["ph"] == "X":
            by_lane[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    for spans in by_lane.values():
        for (start, length), (later, _) in itertools.pairwise(sorted(spans)):
            assert start + length <= later + 1e-3


def test_events_are_in_order_of_time(write):
    times = defaultdict(list)
    for event in write()["traceEvents"]:
        if event["ph"] == "X":
            times[event["pid"]].append(event["ts"])
    assert all(stamps == sorted(stamps) for stamps in times.values())


def test_circuits_are_up_or_down_for_the_whole_step(write):
    trace = write()
    spans = spans_of(trace, "region 0 · circuit server 0 - server 1")
    states = [(e["name"], e["ts"] / 1e6, e["dur"] / 1e6) for e in spans]
    assert states == [
        ("up x 2", 0, 5),
        ("down or reconfiguring", 5, 1),
        ("up x 1", 6, 14),
        ("down or reconfiguring", 20, 0.5),
    ]


def test_decisions_say_what_for(write):
    spans = spans_of(write(), "region 0 · decisions for EP group 0")
    assert len(spans) == 6
    assert spans[1]["name"] == "switching"
    assert spans[1]["dur"] == 25_000
    instants = [e for e in write()["traceEvents"] if e["ph"] == "i"]
    assert [e["name"] for e in instants] == ["decision: switch"] * 6
    for event in (spans[1], instants[1]):
        assert event["ts"] == 1_000_000
        assert event["args"] == {
            "layer": 1, "micro_batch": 0, "allocator": "best", "makespan_us": 4000,
            "demand_bytes": 120_000_000,
        }  # fmt: skip


def test_circuits_that_stay_are_a_decision_without_a_span(write, make_comparison):
    comparison = make_comparison()
    mixnet = comparison.details["runs"]["mixnet"]
    kept = tuple(dataclasses.replace(s, ready_s=s.time_s) for s in mixnet.run.snapshots)
    run = dataclasses.replace(mixnet.run, snapshots=kept)
    trace = write(with_run(comparison, "mixnet", run))
    assert not spans_of(trace, "region 0 · decisions for EP group 0")
    names = {e["name"] for e in trace["traceEvents"] if e["ph"] == "i"}
    assert names == {"decision: keep the circuits"}


def with_run(comparison, name, run):
    runs = comparison.details["runs"]
    one = SimpleNamespace(**{**vars(runs[name]), "run": run})
    details = {**comparison.details, "runs": {**runs, name: one}}
    return dataclasses.replace(comparison, details=details)


def arrows_of(trace, pid):
    """Both ends of each arrow of a process, by number."""
    ends = defaultdict(dict)
    for event in trace["traceEvents"]:
        if event["ph"] in "sf" and event["pid"] == pid:
            ends[event["id"]][event["ph"]] = event
    return list(ends.values())


def test_micro_batches_go_down_the_stages_and_back(write):
    trace = write()
    lanes = {key: name.split(" ")[1] for key, name in lanes_of(trace).items() if "GPUs" in name}
    found = defaultdict(list)
    for arrow in arrows_of(trace, 1):
        start, end = arrow["s"], arrow["f"]
        assert start["ts"] <= end["ts"]
        assert start["name"] == end["name"]
        found[start["name"]].append((lanes[1, start["tid"]], lanes[1, end["tid"]]))
    assert found["micro-batch 0 forward"] == [("0", "1"), ("1", "2"), ("2", "3")]


def test_a_micro_batch_is_handed_over_forward_and_then_backward():
    # (worker, layer) in turn, a second each; the loss has no layer, the first stage waits for it
    turns = [(0, 0), (0, 1), (1, 2), (1, 3), (1, -1), (1, 3), (1, 2), (0, 1), (0, 0), (0, -1)]
    worker, layer = (np.array(column) for column in zip(*turns, strict=True))
    start, zeros = np.array([*range(9), 2.0]), np.zeros(10, dtype=np.int64)
    end, names = np.array([*range(1, 10), 7.0]), np.array(["expert"] * 9 + ["bubble"])
    spans = Spans(worker, zeros, start, end, np.zeros(10), names, layer, zeros)
    spans = spans.take(np.lexsort((worker, start)))
    assert list(handovers(spans)) == [
        Handover(0, False, 0, 2.0, 1, 2.0),
        Handover(0, True, 1, 7.0, 0, 7.0),
    ]


def test_arrows_begin_and_end_in_spans(write):
    trace = write()
    spans = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            spans[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    arrows = [event for event in trace["traceEvents"] if event["ph"] in "sf"]
    assert len({event["id"] for event in arrows}) == len(arrows) / 2
    for event in arrows:
        mine = spans[event["pid"], event["tid"]]
        assert any(start <= event["ts"] <= end for start, end in mine)


def test_an_arrow_leads_from_a_decision_to_its_circuits(write, make_comparison):
    comparison = make_comparison()
    run = comparison.details["runs"]["mixnet"].run
    up = circuit_timeline([(0, 1, 2, 0.0, 1.0), (0, 2, 1, 1.025, 9.0), (1, 3, 1, 1.5, 9.0)])
    trace = write(with_run(comparison, "mixnet", dataclasses.replace(run, circuit_timeline=up)))
    arrows = [a for a in arrows_of(trace, 3) if a["s"]["name"] == "new circuits"]
    assert len(arrows) == 1
    lanes = lanes_of(trace)
    assert lanes[3, arrows[0]["s"]["tid"]] == "region 0 · decisions for EP group 0"
    assert lanes[3, arrows[0]["f"]["tid"]] == "region 0 · circuit server 0 - server 2"
    assert arrows[0]["f"]["ts"] == 1_025_000


def test_counters_of_circuits_and_bytes(write, make_comparison):
    comparison = make_comparison()
    run = comparison.details["runs"]["mixnet"].run
    mean = {"ep": np.array([5, 5, 0], dtype=np.uint64), "tp": np.zeros(3, dtype=np.uint64)}
    run = dataclasses.replace(
        run,
        circuit_timeline=circuit_timeline([(0, 1, 2, 0.0, 3.0), (0, 2, 1, 1.0, 3.0)]),
        in_flight=BytesInFlight(0.5, mean),
    )
    events = write(with_run(comparison, "mixnet", run))["traceEvents"]
    counters = [e for e in events if e["ph"] == "C" and e["pid"] == 3]
    found = [(e["name"], e["ts"], e["args"]) for e in counters]
    assert sorted(found, key=lambda row: row[:2]) == [
        ("bytes in flight", 0, {"ep": 5}),
        ("bytes in flight", 1_000_000, {"ep": 0}),
        ("circuits up", 0, {"circuits": 2}),
        ("circuits up", 1_000_000, {"circuits": 3}),
        ("circuits up", 3_000_000, {"circuits": 0}),
    ]


def test_the_critical_path_is_a_lane_without_gaps(write, make_comparison):
    comparison = make_comparison()
    run = comparison.details["runs"]["fat-tree"].run
    path = CriticalSpans(
        np.array([1, 0, 1], dtype=np.uint8), np.array([1.0, 3.5, 4.0]), ("ep", "expert")
    )
    run = dataclasses.replace(run, critical_spans=path)
    spans = spans_of(write(with_run(comparison, "fat-tree", run)), "critical path")
    assert [(e["name"], e["ts"], e["dur"]) for e in spans] == [
        ("compute: experts", 0, 1_000_000),
        ("exposed all-to-all", 1_000_000, 2_500_000),
        ("compute: experts", 3_500_000, 500_000),
    ]


def test_a_packed_file_holds_the_same(make_comparison, tmp_path):
    for name in ("t.json", "t.json.gz"):
        write_timeline(make_comparison(), tmp_path / name)
    packed = (tmp_path / "t.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "t.json").read_bytes()
    assert len(packed) < (tmp_path / "t.json").stat().st_size / 5


def test_a_cut_is_bounded_and_said(write):
    trace = write(max_events=60)
    whole = write()
    said = [e for e in trace["traceEvents"] if e.get("cat") == "cut"]
    kept = [e for e in trace["traceEvents"] if e["ph"] != "M" and e not in said]
    assert len(kept) == 60
    assert [e["pid"] for e in said] == [1, 2, 3]
    total = sum(e["ph"] != "M" and e["pid"] == 1 for e in whole["traceEvents"])
    assert said[0]["name"] == f"cut here: {total - 20} of {total} events left out"
    assert trace["otherData"]["cut"]["fat-tree"].startswith(f"{total - 20} of {total} events")
    assert whole["otherData"]["cut"] == "nothing was cut"
    # the earliest are kept
    latest = max(e["ts"] for e in kept if e["pid"] == 1)
    assert latest <= said[0]["ts"]


def test_names_are_escaped(write, make_comparison):
    name = '"},\n{"ph":"X"}</script>'
    trace = write(make_comparison(name=name))
    assert trace["traceEvents"][0]["args"]["name"] == name


def test_without_runs_the_trace_is_empty(write, make_comparison):
    trace = write(dataclasses.replace(make_comparison(), details={}))
    assert trace["traceEvents"] == []


def test_a_missing_folder_is_one_line(make_comparison, tmp_path):
    with pytest.raises(OutputError, match="cannot write") as caught:
        write_timeline(make_comparison(), tmp_path / "nowhere" / "t.json")
    assert "\n" not in str(caught.value)


spans = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda s: (s[0], s[0] + s[1])),
    max_size=30,
).map(sorted)


@given(spans)
def test_lanes_hold_no_two_spans_at_once_and_are_as_few_as_can_be(spans):
    chosen = first_free_lanes(spans)
    by_lane = defaultdict(list)
    for lane, span in zip(chosen, spans, strict=True):
        by_lane[lane].append(span)
    for mine in by_lane.values():
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(mine))
    deepest = max((sum(s <= at < e for s, e in spans) for at, _ in spans), default=0)
    # a span without length needs a lane, too
    assert max(chosen, default=-1) + 1 <= max(deepest, 1) + sum(s == e for s, e in spans)
