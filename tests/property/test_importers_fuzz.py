"""No bytes make an importer of traces fail otherwise than by its own error, in one line."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.chakra_files import content, delimited, field, node, varint

from lightloom.errors import InputError
from lightloom.trace.importers.chakra import read_chakra
from lightloom.trace.importers.execution_trace import read_execution_traces
from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.importers.open import read_any
from lightloom.trace.importers.simai import read_simai

COLLECTIVE = 7
NODES = [
    node(0, 4, micros=10, is_cpu_op=False, stream=3),
    node(1, COLLECTIVE, after=[0], comm_type=0, comm_size=8, pg_name="1", involved_dim=[1]),
    node(2, 5, after=[1], comm_src=0, comm_dst=1, comm_tag=9, comm_size=64),
    node(3, 4, after=[2], callers=[1], num_ops=5, tensor_size=3),
]
CHAKRA = content(*NODES)
COLLECTIVE_ARGUMENTS = {
    "stream": 20, "correlation": 7, "Collective name": "allreduce", "In msg nelems": 8,
    "Out msg nelems": 8, "Group size": 2, "dtype": "Float", "Process Group Name": "0",
    "Process Group Ranks": "[0, 1]",
}  # fmt: skip


def event(category, name, start, duration, **arguments):
    return {
        "ph": "X", "cat": category, "name": name, "ts": start, "dur": duration, "tid": 1,
        "args": arguments,
    }  # fmt: skip


KINETO = json.dumps(
    {
        "distributedInfo": {
            "rank": 0, "world_size": 2, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}],
        },
        "traceEvents": [
            event("user_annotation", "ProfilerStep#3", 0, 99),
            event("cuda_runtime", "cudaLaunchKernel", 1, 1, correlation=7),
            event("kernel", "ncclDevKernel_AllReduce", 2.5, 4, **COLLECTIVE_ARGUMENTS),
            event("kernel", "gemm", 3, 4, stream=7, correlation=7),
            event("cuda_runtime", "cudaEventRecord", 4, 1, correlation=8),
            event("cuda_sync", "Stream Wait Event", 5, 1, stream=7, wait_on_stream=20,
                  wait_on_cuda_event_record_corr_id=8, correlation=9),
            event("kernel", "add", 8, 4, stream=7, correlation=10),
            event("cpu_op", "record_param_comms", 9, 1, **{
                **COLLECTIVE_ARGUMENTS, "Collective name": "send", "Dst Rank": 1, "External id": 4,
                "Input Dims": [[2, 4], []], "Input type": ["float", "Scalar"],
            }),
            event("cuda_runtime", "cudaLaunchKernel", 11, 1, correlation=11),
            event("kernel", "ncclDevKernel_SendRecv", 12, 4, stream=20, correlation=11),
        ],
    }
)  # fmt: skip
TENSOR = [1, 2, 0, 8, 4, "cuda:0"]
EXECUTION = json.dumps({
    "schema": "1.1.0-chakra.0.0.4", "nodes": [
        {"id": 1, "name": "## process_group:init ##", "inputs": {"values": [json.dumps(
            [{"pg_name": "0", "pg_desc": "all", "ranks": [0, 1], "group_size": 2}])]}},
        {"id": 2, "name": "ProfilerStep#1"},
        {"id": 3, "name": "record_param_comms", "ctrl_deps": 2, "attrs": [
            {"name": "in_msg_nelems", "value": 8}, {"name": "dtype", "value": "Float"}],
         "inputs": {"values": [TENSOR, 7, ["0", "all"], 1, "send", [1], [1], 0, 1, 2],
                    "types": ["Tensor(float)", "Int", "Tuple[String,String]", "Int", "String"]},
         "outputs": {"values": [TENSOR], "types": ["Tensor(float)"]}},
        {"id": 4, "name": "record_param_comms", "parent": 2, "inputs": [7, 0, 0, "wait", [], []],
         "input_types": ["Int"]},
    ],
})  # fmt: skip
SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 2 "
    "all_gpus: 16 checkpoints: 0 checkpoint_initiates: 0 pp_comm: 64\n3\n"
    "norm -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 4096 100\n"
    "mlp -1 500 ALLGATHER 64 700 REDUCESCATTER 64 300 NONE 0 100\n"
    "mlp -1 500 ALLGATHER 64 700 REDUCESCATTER 64 300 ALLTOALL_EP 8 100\n"
)
PIECES = [
    "-1", '"', "}", "[", "null", "1e400", "NaN", "9" * 25, "\n", " ", "0", "\x00", "é", ",", "true",
]  # fmt: skip
FEW = settings(max_examples=200, deadline=None)


def read(reader, path):
    """Whatever comes, it is a trace or one line."""
    problem, found = "", None
    try:
        found = reader(path)
    except InputError as error:
        problem = str(error)
    if found is None:
        assert problem
        assert "\n" not in problem
        assert len(problem) < 800
        return
    for rank, recorded in found.trace.ranks.items():
        assert [call.call_id for call in recorded.calls] == list(range(len(recorded.calls)))
        for call in recorded.calls:
            assert rank in call.ranks
            assert 0 <= min(call.ranks) <= max(call.ranks) < found.trace.world_size
            assert min(call.input_bytes, call.output_bytes) >= 0
        assert all(0 <= (one.duration_s or 0) < 1e9 for one in recorded.computes)


def file_of(tmp_path_factory, name, given):
    path = tmp_path_factory.mktemp("fuzz") / name
    path.write_bytes(given)
    return path


@FEW
@given(
    given_bytes=st.binary(max_size=300), name=st.sampled_from(["a.0.et", "a.json", "a.txt", "a"])
)
def test_any_bytes(tmp_path_factory, given_bytes, name):
    read(read_any, file_of(tmp_path_factory, name, given_bytes))


@FEW
@given(
    edits=st.lists(st.tuples(st.integers(0, len(CHAKRA)), st.binary(max_size=6)), max_size=4),
    cut=st.integers(0, len(CHAKRA)),
)
def test_damaged_chakra(tmp_path_factory, edits, cut):
    damaged = CHAKRA if cut % 3 else CHAKRA[:cut]
    for place, piece in edits:
        damaged = damaged[:place] + piece + damaged[place + len(piece) :]
    read(read_chakra, file_of(tmp_path_factory, "job.0.et", damaged))


@FEW
@given(
    fields=st.lists(
        st.tuples(
            st.integers(1, 40),
            st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=20), st.text(max_size=8)),
        ),
        max_size=8,
    )
)
def test_messages_of_any_fields(tmp_path_factory, fields):
    message = b"".join(field(number, value) for number, value in fields)
    inside = field(1, 1) + field(3, COLLECTIVE) + field(10, field(1, "comm_type") + message)
    for one in (message, inside):
        made = content(*NODES, one)
        read(read_chakra, file_of(tmp_path_factory, "job.0.et", made))


@pytest.mark.parametrize("size", [5, 1 << 31, (1 << 63) - 1, (1 << 64) - 1])
def test_lengths_that_are_not_true(tmp_path_factory, size):
    """The length of a message, a node's name, a list, and an attribute is a lie."""
    lies = [
        varint(size) + b"abc",
        delimited(b"\x12" + varint(size) + b"abc"),
        delimited(b"\x2a" + varint(size) + b"\x01"),
        delimited(b"\x52" + varint(size) + b"\x0a\x01"),
    ]
    for lie in lies:
        path = file_of(tmp_path_factory, "job.0.et", content(*NODES) + lie)
        with pytest.raises(InputError, match="no whole Chakra trace: it ends"):
            read_chakra(path)


@FEW
@given(
    edits=st.lists(st.tuples(st.integers(0, 1600), st.sampled_from(PIECES)), max_size=3),
    form=st.sampled_from(
        [
            (KINETO, "a.json", read_kineto),
            (SIMAI, "a.txt", read_simai),
            (EXECUTION, "a.json", read_execution_traces),
        ]
    ),
    inserts=st.booleans(),
)
def test_damaged_text(tmp_path_factory, edits, form, inserts):
    text, name, reader = form
    for chosen, piece in edits:
        place = chosen % len(text)
        text = text[:place] + piece + text[place + (0 if inserts else len(piece)) :]
    read(reader, file_of(tmp_path_factory, name, text.encode()))


LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 70), 1 << 70), st.floats(), st.text(max_size=4),
    st.lists(st.integers(-2, 3), max_size=3),
)  # fmt: skip


OF_EVENTS = ["ph", "cat", "name", "ts", "dur", "tid", "args"]
OF_ARGUMENTS = [
    *COLLECTIVE_ARGUMENTS, "External id", "Global rank start", "Global rank stride", "Src Rank",
    "In split size", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "Dst Rank",
    "Input Dims", "Input type",
]  # fmt: skip


@FEW
@given(place=st.integers(0, 9), key=st.sampled_from([*OF_EVENTS, *OF_ARGUMENTS]), value=LEAF)
def test_events_with_any_value(tmp_path_factory, place, key, value):
    found = json.loads(KINETO)
    changed = found["traceEvents"][place]
    if key in OF_ARGUMENTS:
        changed = changed["args"]
    changed[key] = value
    read(read_kineto, file_of(tmp_path_factory, "a.json", json.dumps(found).encode()))


@FEW
@given(key=st.sampled_from(["rank", "world_size", "pg_config"]), value=LEAF)
def test_jobs_with_any_value(tmp_path_factory, key, value):
    found = json.loads(KINETO)
    found["distributedInfo"][key] = value
    read(read_kineto, file_of(tmp_path_factory, "a.json", json.dumps(found).encode()))


OF_RECORDS = ["ctrl_deps", "attrs", "inputs", "outputs", "id", "name", "input_types"]


@FEW
@given(
    place=st.integers(0, 3), key=st.sampled_from(OF_RECORDS), value=LEAF,
    inner=st.one_of(st.none(), st.tuples(st.sampled_from(["values", "types"]), st.integers(0, 9))),
)  # fmt: skip
def test_records_with_any_value(tmp_path_factory, place, key, value, inner):
    found = json.loads(EXECUTION)
    changed = found["nodes"][place]
    if inner is None or not isinstance(changed.get("inputs"), dict):
        changed[key] = value
    else:
        listed = changed["inputs"].get(inner[0], [])
        listed[inner[1] : inner[1] + 1] = [value]
    read(read_execution_traces, file_of(tmp_path_factory, "a.json", json.dumps(found).encode()))
