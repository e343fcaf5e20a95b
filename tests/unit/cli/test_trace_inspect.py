"""``lightloom trace inspect`` of traces of other tools: what it prints, writes and refuses."""

import json
import re

import pytest
from tests.chakra_files import node, write
from tests.kineto_files import Profile
from tests.trace_jobs import GridJob

TABLE = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 ga: 1 all_gpus: 4\n"
    "1\nmlp -1 5000 ALLGATHER 640 7000 REDUCESCATTER 640 3000 ALLREDUCE 64 100\n"
)


def profile(rank=0, reduce_us=40):
    """Two steps; in the first 30 of 40 us are exposed, in the second all of 60 us."""
    made = Profile(rank=rank)
    made.step(3, -10, 200)
    made.step(4, 190, 300)
    made.kernel("gemm<x>", 0, 100, launched=-5)
    made.nccl("allreduce", 90, reduce_us, 1_000_000, launched=-4)
    made.kernel("Memcpy DtoH", 50, 5, stream=9, launched=-3, category="gpu_memcpy")
    made.kernel("gemm<x>", 250, 10, launched=240)
    made.nccl("_allgather_base", 300, 60, (500_000, 1_000_000), launched=250)
    return made


@pytest.fixture
def profiles(tmp_path):
    folder = tmp_path / "profiles"
    folder.mkdir()
    profile(0).write(folder / "rank0.json")
    profile(1, reduce_us=20).write(folder / "rank1.json")
    return folder


def row(text, *words):
    """Cells of the first line that begins with these words."""
    begin = r"\s+".join(words)
    found = re.search(rf"^\s*{begin}\s.*$", text, re.MULTILINE)
    assert found, text
    return found[0].split()


def test_times_of_a_profile(lightloom, profiles):
    done = lightloom(f"trace inspect {profiles}")
    assert not done.status, done.err
    assert done.out.startswith("PyTorch profiler (Kineto)\n")
    # length, computation, communication, exposed, hidden share, copies, idle
    assert row(done.out, "0", "3") == ["0", "3", "0.13", "0.10", "0.04", "0.03", "25.0",
                                      "0.005", "0.00"]  # fmt: skip
    assert row(done.out, "1", "4") == ["1", "4", "0.11", "0.01", "0.06", "0.06", "0.0",
                                      "0.000", "0.04"]  # fmt: skip
    # 2 MB in 60 us are 266.7 Gb/s, and half of it goes over a link of two ranks
    assert row(done.out, "all_gather", "default_pg", "2", "1")[4:] == [
        "0.06", "0.06", "2", "266.7", "133.3",
    ]  # fmt: skip
    # rank 0 is in the all-reduce for 40 us, rank 1 for 20: it came last
    across = done.out[done.out.index("Time in collectives across ranks") :]
    assert row(across, "all_reduce", "default_pg", "2")[3:] == [
        "0.03", "0.04", "0", "1.33", "0.02", "1",
    ]  # fmt: skip


def test_one_step_alone(lightloom, profiles, tmp_path):
    out = tmp_path / "out.json"
    done = lightloom(f"trace inspect {profiles} --step 4 --json {out}")
    assert not done.status, done.err
    found = json.loads(out.read_text())
    assert found["form"] == "PyTorch profiler (Kineto)"
    assert [(one["rank"], one["step"]) for one in found["steps"]] == [(0, 4), (1, 4)]
    assert found["steps"][0]["exposed_s"] == pytest.approx(60e-6)
    assert [one["op"] for one in found["collectives"]] == ["all_gather"] * 2
    assert [one["calls"] for one in found["volumes"]["0"]] == [1]
    done = lightloom(f"trace inspect {profiles} --step 9")
    assert (done.status, "--step 9: the trace has steps 3 to 4" in done.err) == (2, True)


def test_a_page_of_a_profile(lightloom, profiles, tmp_path):
    page = tmp_path / "page.html"
    done = lightloom(f"trace inspect {profiles} --html {page}")
    assert not done.status, done.err
    text = page.read_text()
    for shown in (
        "rank 0, stream 7", "rank 1, stream 20", "computation", "copies", "all_gather",
        "all_reduce of default_pg, 2 MB: 40 us from 90 us",
        "Communication takes 39.1 % of the time", "is exposed in 34.8 %",
    ):  # fmt: skip
        assert shown in text, shown
    # names of kernels are escaped, and nothing is fetched
    assert "gemm&lt;x&gt;" in text
    assert "gemm<x>" not in text
    assert not re.search(r"""(?:src|href)=["']?https?:""", text)


def test_traces_of_others(lightloom, tmp_path):
    """Each says what it is, and has a page of calls in their order."""
    nodes = [node(0, 4, micros=30), node(1, 7, after=[0], comm_type=6, comm_size=1 << 20)]
    write(tmp_path / "chakra", nodes, nodes)
    (tmp_path / "table.txt").write_text(TABLE)
    (tmp_path / "own.json").write_text(json.dumps(GridJob(2, 1, 2, 2).trace().to_json()))
    for name, form, line in (
        ("chakra", "Chakra execution trace, schema 0.0.4", "rank 0 computes 30 us in 1 pieces"),
        ("table.txt", "SimAI layer table", "rank 0 computes 15 us in 3 pieces"),
        ("own.json", "lightloom trace record", "the higher, the more bytes"),
    ):
        page = tmp_path / f"{name}.html"
        done = lightloom(f"trace inspect {tmp_path / name} --html {page}")
        assert not done.status, done.err
        assert done.out.startswith(form)
        assert line in done.out
        assert "in their order; height: bytes" in page.read_text()


def test_other_commands_read_them_as_well(lightloom, tmp_path):
    """A layer table becomes Chakra traces, and these the same permutations."""
    table, chakra = tmp_path / "table.txt", tmp_path / "chakra"
    table.write_text(TABLE)
    done = lightloom(f"trace expand {table} --chakra {chakra}")
    assert not done.status, done.err
    assert sorted(one.name for one in chakra.iterdir()) == [
        "groups.json", *(f"trace.{rank}.et" for rank in range(4)),
    ]  # fmt: skip
    found = []
    for path in (table, chakra):
        out = tmp_path / f"{path.name}.json"
        done = lightloom(f"trace permutations {path} --json {out}")
        assert not done.status, done.err
        content = json.loads(out.read_text())
        found.append([(one["op"], one["group"], one["size_bytes"]) for one in content["calls"]])
    assert found[0] == found[1]
    assert ("all_reduce", "dp", 64) in found[0]


def test_a_routing_log(lightloom, tmp_path):
    log = tmp_path / "log.jsonl"
    call = {"stage": "train", "block": "decoder", "rank": 0, "num_tokens": 4, "topk": 1}
    chosen = {0: [[0], [0], [0], [3]], 1: [[0], [1], [2], [3]]}
    log.write_text(
        "".join(
            json.dumps({**call, "step": 0, "layer": layer, "top_indices": indices}) + "\n"
            for layer, indices in chosen.items()
        )
    )
    out = tmp_path / "out.json"
    done = lightloom(f"trace inspect {log} --json {out}")
    assert not done.status, done.err
    assert "routing log (megatron): top-1, 2 layers, 1 ranks, 1 steps" in done.out
    first, second = json.loads(out.read_text())["layers"]
    # 3 of 4 tokens choose one of four experts, and one another
    assert (first["copies"], first["experts"], first["used"]) == (4, 4, 2)
    assert (first["largest"], second["largest"]) == (3.0, 1.0)
    assert row(done.out, "0", "4", "4", "2") == ["0", "4", "4", "2", "3.00", "75.0"]
    done = lightloom(f"trace inspect {log} --html {tmp_path / 'x.html'}")
    assert (done.status, "is a routing log, which has neither --html" in done.err) == (2, True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty; expected a trace of lightloom trace record, Chakra"),
        ("hello", "expected a trace of lightloom trace record, Chakra"),
        (TABLE[:-40], "line 3: 6 columns: expected 12"),
        ('{"traceEvents": [', "not valid JSON"),
        ('{"traceEvents": []}', "neither kernels nor collectives"),
    ],
)
def test_what_cannot_be_used(lightloom, tmp_path, content, message):
    file = tmp_path / "file"
    file.write_text(content)
    done = lightloom(f"trace inspect {file}")
    assert done.status == 2
    assert message in done.err
    assert len(done.err.strip().splitlines()) == 1


def test_long_tables_are_cut(lightloom, tmp_path):
    made = Profile()
    for step in range(40):
        made.step(step, step * 100, 100)
        made.kernel("gemm", step * 100 + 10, 50)
    done = lightloom(f"trace inspect {made.write(tmp_path / 'p.json')}")
    assert "16 more rows: --json has all" in done.out
