"""What a trace is, is told by what it holds."""

import gzip
import json

import pytest
from tests.chakra_files import node, write
from tests.kineto_files import Profile
from tests.trace_jobs import GridJob

from lightloom.errors import InputError
from lightloom.trace.importers.open import Form, form_of, read_any

TABLE = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 all_gpus: 2\n1\n"
    "mlp -1 5000 ALLGATHER 640 7000 REDUCESCATTER 640 3000 NONE 0 100\n"
)
MEGATRON = {
    "step": 0, "stage": "train", "block": "decoder", "layer": 0, "rank": 0, "num_tokens": 1,
    "topk": 1, "top_indices": [[3]],
}  # fmt: skip


def profile():
    written = Profile()
    written.kernel("gemm", 0, 5)
    return json.dumps(written.to_json())


def grid():
    return json.dumps(GridJob(tp=2, pp=1, dp=1, ep=1).trace().to_json())


GRAPH = '{"workload_graph": [{"Id": 0, "NodeType": 7, "comm_type": 0, "data_deps": []}]}'


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (TABLE, Form.SIMAI),
        (grid(), Form.RECORDED),
        (json.dumps(json.loads(grid()), indent=1), Form.RECORDED),
        (profile(), Form.KINETO),
        (json.dumps(json.loads(profile())["traceEvents"], indent=1), Form.KINETO),
        (GRAPH, Form.CHAKRA),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_by_their_content(tmp_path, content, form, packed):
    file = tmp_path / "file"
    file.write_bytes(gzip.compress(content.encode()) if packed else content.encode())
    assert form_of(file) is form
    assert read_any(file).trace.ranks


def test_chakra_without_its_name(tmp_path):
    folder = write(tmp_path / "job", [node(0, 7, comm_type=0, comm_size=8)])
    assert form_of(folder) is Form.CHAKRA
    file = tmp_path / "file"
    file.write_bytes((folder / "job.0.et").read_bytes())
    assert form_of(file) is Form.CHAKRA
    assert read_any(file).trace.ranks[0].calls[0].op == "all_reduce"


def test_folders(tmp_path):
    (tmp_path / "rank0.json").write_text(profile())
    assert form_of(tmp_path) is Form.KINETO
    (tmp_path / "router.jsonl").write_text(json.dumps(MEGATRON) + "\n")
    assert form_of(tmp_path) is Form.ROUTING


def test_a_routing_log_has_no_calls(tmp_path):
    file = tmp_path / "log"
    file.write_text(json.dumps(MEGATRON) + "\n")
    assert form_of(file) is Form.ROUTING
    with pytest.raises(InputError, match="is a routing log: it has no calls"):
        read_any(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; expected a trace of lightloom"),
        (b"  \n", "is empty"),
        (b"hello", "expected a trace of lightloom"),
        (b"\xff\xfe", "expected a trace of lightloom"),
        (b'{"some": "json"}', "expected a trace of lightloom"),
        (b"\x1f\x8bnothing", "not a valid gzip file"),
        (gzip.compress(b"{" * 99, mtime=0)[:-9], "the gzip file ends too early"),
    ],
)
def test_what_is_nothing_known(tmp_path, content, message):
    file = tmp_path / "file"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        form_of(file)


def test_what_is_no_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        form_of(tmp_path / "absent")
    with pytest.raises(InputError, match="expected a folder of Chakra's NAME"):
        form_of(tmp_path)


def test_reading_stops_where_it_is_interrupted(tmp_path):
    table, folder = tmp_path / "table.txt", tmp_path / "profiles"
    table.write_text(TABLE)
    folder.mkdir()
    (folder / "rank0.json").write_text(profile())
    chakra = write(tmp_path / "job", [node(0, 7, comm_type=0, comm_size=8)])
    for path in (table, folder, chakra):
        with pytest.raises(KeyboardInterrupt):
            read_any(path, lambda *_: False)
