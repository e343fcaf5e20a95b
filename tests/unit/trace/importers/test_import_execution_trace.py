"""Execution traces of PyTorch: records of communication as its schemas have them."""

import gzip
import json

import pytest

from lightloom.errors import InputError
from lightloom.trace.importers.execution_trace import read_execution_traces
from lightloom.trace.importers.open import Form, form_of, read_any


def tensor(count, size=4):
    return [1, 2, 0, count, size, "cuda:0"]


def record(number, sequence, name, put=None, got=None, *, rank=0, splits=((), ()), parent=1,
           group=("0", "default_pg"), **attributes):  # fmt: skip
    """A record as of schema 1.1.0; tensors are lists of counts of floats."""
    values, kinds = [], []
    if put is not None:
        values.append([tensor(count) for count in put])
        kinds.append(f"GenericList[{','.join(['Tensor(float)'] * len(put))}]")
    values += [sequence, list(group), rank, name, *map(list, splits), 0, 1, 2]
    kinds += ["Int", "Tuple[String,String]", "Int", "String", "GenericList[]", "GenericList[]",
              *["Int"] * 3]  # fmt: skip
    outputs = {"values": [], "types": []}
    if got is not None:
        outputs = {
            "values": [[tensor(count) for count in got]],
            "types": [f"GenericList[{','.join(['Tensor(float)'] * len(got))}]"],
        }
    attrs = [{"name": key, "type": "", "value": value} for key, value in attributes.items()]
    return {"id": number, "name": "record_param_comms", "ctrl_deps": parent, "attrs": attrs,
            "inputs": {"values": values, "types": kinds}, "outputs": outputs}  # fmt: skip


def node(number, name, parent=1, *values):
    inputs = {"values": list(values), "types": ["String"] * len(values)}
    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": inputs, "attrs": []}


def trace_of(*nodes, schema="1.1.0-chakra.0.0.4"):
    return {"schema": schema, "pid": 1, "nodes": [node(1, "process"), *nodes]}


def read(tmp_path, *nodes, name="et.json", **others):
    path = tmp_path / name
    path.write_text(json.dumps(trace_of(*nodes, **others)))
    assert form_of(path) is Form.EXECUTION
    return read_any(path)


def test_records_become_calls(tmp_path):
    listed = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": [], "group_size": 4},
        {"pg_name": "3", "pg_desc": "tp", "ranks": [0, 2], "group_size": 2},
    ]
    nodes = [
        node(2, "## process_group:init ##", 1, json.dumps(listed)),
        node(10, "ProfilerStep#4"), node(11, "autograd::engine::evaluate_function: X", 10),
        record(12, 7, "allreduce", [100, 20], [100, 20], parent=11),
        record(13, 8, "_allgather_base", [10], [20], group=("3", "tp"), collective_name="allgather",
               dtype="BFloat16", in_msg_nelems=10, out_msg_nelems=20, pg_name="3", pg_desc="tp"),
        record(14, 7, "wait"),
        record(15, 9, "broadcast", [8], [8], rank=1, group=("3", "tp")),
    ]  # fmt: skip
    imported = read(tmp_path, *nodes)
    calls = imported.trace.ranks[0].calls
    assert [(c.op, c.group, c.ranks, c.input_bytes, c.output_bytes) for c in calls] == [
        ("all_reduce", "default_pg", (0, 1, 2, 3), 480, 480), ("all_gather", "tp", (0, 2), 20, 40),
        ("broadcast", "tp", (0, 2), 32, 32),
    ]  # fmt: skip
    # the all-reduce is waited for after the second call has been issued
    assert [(call.waited_before, call.asynchronous) for call in calls] == [
        (2, True), (2, False), (3, False),
    ]  # fmt: skip
    assert [(call.phase, call.step, call.root) for call in calls] == [
        ("backward", 4, None), ("forward", 4, None), ("forward", 4, 2),
    ]  # fmt: skip
    assert imported.trace.world_size == 4
    assert imported.remarks == (
        "the trace has no times: a step is its calls alone", "1 of 4 ranks have files",
    )  # fmt: skip


def test_messages_say_their_rank_by_its_place(tmp_path):
    """Sequences of messages are pairs: a number, and that it is of messages."""
    nodes = [
        record(5, [3, True], "send", [16], [16], rank=1, group=("9", "pp")),
        record(6, [4, True], "recv", [16], [16], rank=1, group=("9", "pp")),
        record(7, [4, True], "wait"),
        node(2, "## process_group:init ##", 1, json.dumps(
            [{"pg_name": "9", "pg_desc": "pp", "ranks": [0, 6], "group_size": 2}])),
    ]  # fmt: skip
    trace = read(tmp_path, *nodes).trace
    assert [(c.op, c.peer, c.input_bytes, c.output_bytes) for c in trace.ranks[0].calls
            ] == [("send", 6, 64, 0), ("receive", 6, 0, 64)]  # fmt: skip
    assert trace.world_size == 7


def old_record(number, sequence, name, put, got, splits):
    """A record of schema 1.0.1: lists instead of tables, and groups are addresses."""
    return {
        "name": "record_param_comms", "id": number, "parent": 1, "outputs": [tensor(got, 8)],
        "output_types": ["Tensor(long int)"],
        "inputs": [tensor(put, 8), sequence, 94594108284448, 0, name, *splits],
        "input_types": ["Tensor(long int)", "Int", "Int", "Int", "String", "GenericList[Int,Int]",
                        "GenericList[Int,Int]"],
    }  # fmt: skip


def test_the_first_schema(tmp_path):
    folder = tmp_path / "traces"
    folder.mkdir()
    for rank in (0, 1):
        splits = ([3, 5], [3, 4]) if rank == 0 else ([4, 6], [5, 6])
        sizes = (sum(splits[0]), sum(splits[1]))
        content = trace_of(old_record(4, 7, "all_to_allv", *sizes, splits), schema="1.0.1")
        packed = gzip.compress(json.dumps(content).encode())
        (folder / f"dlrm_eg_{rank}.json.gz").write_bytes(packed)
    assert form_of(folder) is Form.EXECUTION
    imported = read_any(folder)
    first, second = (imported.trace.ranks[rank].calls[0] for rank in (0, 1))
    assert (first.op, first.input_bytes, first.output_bytes, first.input_splits) == (
        "all_to_all", 64, 56, (3, 5),
    )  # fmt: skip
    assert second.output_splits == (5, 6)
    assert first.ranks == (0, 1)
    assert imported.remarks[0] == "2 calls do not say their ranks: they are taken to be adjacent"


def test_lists_of_groups_that_pytorch_cut(tmp_path):
    cut = node(2, "## process_group:init ##", 1, '[{"pg_name": "0", "ra')
    (call,) = read(tmp_path, cut, record(5, 1, "allreduce", [2], [2])).trace.ranks[0].calls
    assert call.ranks == (0, 1)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "no record_param_comms that communicates"),
        ([record(5, 1, "wait")], "no record_param_comms that communicates"),
        ([{"id": "x", "name": "y"}], "a node has id 'x': expected a number and a name"),
        (
            [{"id": 5, "name": "record_param_comms", "inputs": {"values": [], "types": []}}],
            "node 5: not a record_param_comms of schema 1.0.1 or later",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, nodes, message):
    with pytest.raises(InputError) as refused:
        read(tmp_path, *nodes)
    assert message in str(refused.value)
    assert "et.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_of_a_folder_say_their_ranks(tmp_path):
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(json.dumps(trace_of()))
    with pytest.raises(InputError, match="does not say of which rank it is"):
        read_execution_traces(tmp_path)
    (tmp_path / "one.json").rename(tmp_path / "a_rank1.json")
    (tmp_path / "two.json").rename(tmp_path / "b_rank1.json")
    with pytest.raises(InputError, match="is of rank 1, as is"):
        read_execution_traces(tmp_path)
