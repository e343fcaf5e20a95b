"""What is printed of a trace: by group, the largest calls, skew, and the order of calls."""

import io

from rich.console import Console

from lightloom.report.trace_details import CELLS, print_details, timeline
from lightloom.trace.trace import Call, RankTrace, make_trace


def call(call_id, group, size, phase="forward", **changes):
    values = {
        "op": "all_reduce", "call_id": call_id, "function": "allreduce_", "group": group,
        "ranks": (0, 1), "shape": (size,), "dtype": "uint8", "input_bytes": size,
        "output_bytes": size, "input_splits": None, "output_splits": None, "reduction": "sum",
        "peer": None, "root": None, "tag": None, "phase": phase, "layer": "", "step": 0,
        "stream": 0, "asynchronous": False, "waited_before": None,
        "call_site": "/home/user/train.py:7 in step", "routed": None, "tensors": 1,
    }  # fmt: skip
    return Call(**values | changes)


def printed(*calls):
    console = Console(file=io.StringIO(), width=120)
    trace = make_trace(2, ["python"], [RankTrace(0, calls, 1, {}, ())])
    print_details(trace, console)
    return console.file.getvalue()


def test_each_call_has_its_cell_in_the_line_of_its_group():
    calls = (
        call(0, "tp", 1), call(1, "dp", 10**6), call(2, "tp", 1, "backward"),
        call(3, "dp", 10**3, "optimizer"),
    )  # fmt: skip
    phases, data, tensors = timeline(calls)
    assert phases.split() == ["ffbo"]
    # from 1 byte to a million: the logarithm of a thousand is half of it
    assert data == "dp (2)   █ ▅"
    assert tensors == "tp (2)  ▁ ▁"


def test_long_traces_share_cells():
    calls = tuple(call(number, "dp", 5) for number in range(10 * CELLS + 1))
    phases, data = timeline(calls)
    assert len(data) == len(phases) <= CELLS + len("dp (2)  ")
    assert timeline(()) == []


def test_calls_without_data_are_seen():
    assert timeline((call(0, "world", 0, op="barrier"),))[1] == "world (2)  █"


def test_details_name_groups_calls_and_skew():
    text = printed(
        call(0, "tp", 10**6),
        call(1, "ep", 3 * 10**6, op="all_to_all", input_splits=(1, 3), layer="layers.3.mlp"),
    )
    rows = [line.split() for line in text.splitlines()]
    assert ["ep", "2", "1", "3.000", "75.0"] in rows
    assert ["1", "all_to_all", "ep", "3.000", "forward", "layers.3.mlp", "train.py:7"] in rows
    assert "Skew of all-to-alls" in text
    assert "1.50" in text
    assert "Skew" not in printed(call(0, "tp", 10**6))
