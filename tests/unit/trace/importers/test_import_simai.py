"""Layer tables of SimAI: small ones by hand, whose calls can be counted."""

from collections import Counter

import pytest

from lightloom.errors import InputError
from lightloom.trace.expand import Expansion
from lightloom.trace.importers.simai import read_simai
from lightloom.trace.job import find_job

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
HEAD = "grad 1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 4096 100"
LAYER = "mlp -1 5000 ALLGATHER 640 7000 REDUCESCATTER 640 3000 NONE 0 100"
EXPERTS = "moe -1 1 ALLTOALL_EP 320 1 ALLTOALL_EP 320 1 ALLREDUCE_DP_EP 80 100"
TAIL = "loss -1 0 ALLREDUCE 16 0 NONE 0 0 NONE 0 100"


def table(
    *rows, tp=2, ep=2, pp=2, vpp=1, ga=3, gpus=16, message=64, number=None, checkpoints="0",
    more="",
):  # fmt: skip
    header = (
        f"{POLICY} model_parallel_NPU_group: {tp} ep: {ep} pp: {pp} vpp: {vpp} ga: {ga} "
        f"all_gpus: {gpus} checkpoints: {checkpoints} checkpoint_initiates: 0 pp_comm: {message}"
        f"{more}"
    )
    return "\n".join([header, str(len(rows) if number is None else number), *rows, ""])


def read(tmp_path, text):
    file = tmp_path / "table.txt"
    file.write_text(text)
    return read_simai(file)


def operations(recorded, group):
    return [(call.op, call.phase) for call in recorded.calls if call.group == group]


def test_a_stage_that_is_alone(tmp_path):
    imported = read(tmp_path, table(HEAD, LAYER, EXPERTS, pp=1, ga=1, message=0))
    trace = imported.trace
    assert (imported.form, imported.remarks, trace.world_size) == ("SimAI layer table", (), 16)
    (recorded,) = trace.ranks.values()
    assert [(call.op, call.group, call.phase, call.layer) for call in recorded.calls] == [
        ("all_gather", "tp", "forward", "mlp"),
        ("all_to_all", "ep", "forward", "moe"),
        ("all_to_all", "ep", "backward", "moe"),
        ("all_reduce", "edp", "backward", "moe"),
        ("reduce_scatter", "tp", "backward", "mlp"),
        ("reduce_scatter", "dp", "backward", "grad"),
    ]
    # the size is of the whole buffer
    assert [(call.input_bytes, call.output_bytes) for call in recorded.calls] == [
        (320, 640), (320, 320), (320, 320), (80, 80), (640, 320), (4096, 512),
    ]  # fmt: skip
    members = {call.group: call.ranks for call in recorded.calls}
    assert (members["ep"], members["edp"]) == ((0, 2), (0, 4, 8, 12))
    # what SimAI's generator writes where nothing was measured is no time
    assert [(c.before, c.phase, c.duration_s) for c in recorded.computes] == [
        (0, "forward", pytest.approx(5e-6)),
        (4, "backward", pytest.approx(7e-6)),
        (5, "backward", pytest.approx(3e-6)),
    ]
    # weight gradients are not waited for
    assert [call.waited_before for call in recorded.calls] == [1, 2, 3, None, 5, None]


def test_stages_alternate_forward_and_backward(tmp_path):
    """Of two stages and three micro-batches: the first stage is one forward pass in front."""
    batches = [LAYER, EXPERTS] * 3
    imported = read(tmp_path, table(HEAD, *batches, TAIL))
    assert imported.remarks == ("all 2 stages are taken to be alike",)
    first, last = imported.trace.ranks.values()
    assert (first.rank, last.rank) == (0, 8)
    send, receive = ("send", "forward"), ("receive", "backward")
    assert operations(first, "pp") == [send, send, receive, send, receive, receive]
    taken, passed_on = ("receive", "forward"), ("send", "backward")
    assert operations(last, "pp") == [taken, passed_on, taken, passed_on, taken, passed_on]
    assert {call.peer for call in first.calls if call.group == "pp"} == {8}
    assert {c.input_bytes + c.output_bytes for c in last.calls if c.group == "pp"} == {64}
    # what is communicated otherwise is what the table says, whatever the order
    for recorded in (first, last):
        counted = Counter((call.op, call.group) for call in recorded.calls if call.group != "pp")
        assert counted == {
            ("all_gather", "tp"): 3, ("reduce_scatter", "tp"): 3, ("all_to_all", "ep"): 6,
            ("all_reduce", "edp"): 3, ("all_reduce", "tp"): 1, ("reduce_scatter", "dp"): 1,
        }  # fmt: skip
        computed = sum(compute.duration_s for compute in recorded.computes)
        assert computed == pytest.approx(3 * 15e-6)


def test_interleaved_stages_hand_on_chunk_by_chunk(tmp_path):
    """As SimAI counts: forward and backward ``vpp * ga`` messages each between stages. The last
    stage hands on to the first one too, but not after its last chunk."""
    rows = [LAYER] * 4 * 2
    imported = read(tmp_path, table(HEAD, *rows, TAIL, vpp=4, ga=2))
    assert imported.remarks[1].startswith("stages are interleaved: the rows of a micro-batch are")
    first, last = imported.trace.ranks.values()
    for recorded, forward, backward in (
        (first, ("send", "receive"), ("receive", "send")),
        (last, ("receive", "send"), ("send", "receive")),
    ):
        counted = Counter(operations(recorded, "pp"))
        assert counted == {
            (forward[0], "forward"): 8, (forward[1], "forward"): 6,
            (backward[0], "backward"): 8, (backward[1], "backward"): 6,
        }  # fmt: skip
        assert sum(compute.duration_s for compute in recorded.computes) == pytest.approx(8 * 15e-6)
        assert len([call for call in recorded.calls if call.op == "all_gather"]) == 8
    # what is sent is received, in the same order
    for stage, other in ((first, last), (last, first)):
        sent = [call.phase for call in stage.calls if call.op == "send"]
        assert sent == [call.phase for call in other.calls if call.op == "receive"]


def test_what_the_header_says_and_is_not_played(tmp_path):
    imported = read(tmp_path, table(LAYER, LAYER, LAYER, vpp=2, checkpoints="2 4 6", more=" cp: 2"))
    assert imported.remarks[1:] == (
        "vpp 2 is not played: interleaved stages need a multiple of 2 micro-batches, and there "
        "are 3",
        "recomputation is not played: checkpoints of 2 layers, and 0 that begin it",
        "the header's cp: is not read",
    )


def test_every_rank_is_known(tmp_path):
    imported = read(tmp_path, table(HEAD, *[LAYER, EXPERTS] * 3, TAIL))
    job = find_job(imported.trace)
    assert [len(role.ranks) for role in job.roles] == [8, 8]
    for rank in range(16):
        for call in Expansion(job).calls(rank):
            assert rank in call.ranks


def test_micro_batches_may_differ_in_time(tmp_path):
    slower = LAYER.replace("5000", "6000")
    imported = read(tmp_path, table(HEAD, LAYER, slower, LAYER, TAIL))
    assert imported.remarks == ("all 2 stages are taken to be alike",)


def test_rows_that_do_not_repeat(tmp_path):
    imported = read(tmp_path, table(HEAD, LAYER, EXPERTS, pp=1, ga=5))
    assert imported.remarks == (
        "rows do not repeat 5 times, as ga says: a step is one pass through the table",
    )
    assert len(imported.trace.ranks[0].calls) == 6


def test_a_table_without_times(tmp_path):
    imported = read(tmp_path, table(EXPERTS, pp=1, ga=1))
    assert imported.remarks == ("no layer has a time: the table was written without measurements",)
    assert imported.trace.ranks[0].computes == ()


def test_groups_of_one_rank_do_not_communicate(tmp_path):
    imported = read(tmp_path, table(LAYER, EXPERTS, tp=1, ep=1, pp=1, ga=1, gpus=4))
    assert {call.group for call in imported.trace.ranks[0].calls} == {"edp"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "begins with nothing: expected a layer table of HYBRID_TRANSFORMER_FWD_IN_BCKWD or"),
        ("MICRO\n1\n" + LAYER, "begins with 'MICRO'"),
        (f"{POLICY} ep: 2\n1\n{LAYER}", "does not say model_parallel_NPU_group and all_gpus"),
        (table(LAYER, tp=0), "model_parallel_NPU_group:: '0': expected a positive whole number"),
        (table(LAYER, gpus=15), "15 GPUs are no multiple of tp 2 x pp 2 x ep 2"),
        (table(LAYER, ep=3), "16 GPUs are no multiple of tp 2 x pp 2 x ep 3"),
        (table(LAYER, gpus=1 << 20), "1,048,576 GPUs; the limit is 131,072"),
        (table(LAYER, number="x"), "line 2: rows: 'x': expected a positive whole number"),
        (table(LAYER, number=2), "has 1 rows; line 2 says 2"),
        (table(LAYER, number=10**9), "line 2: 1,000,000,000 rows; the limit is 1,000,000"),
        (table("mlp -1 5"), "line 3: 3 columns: expected 12"),
        (table(LAYER.replace("640", "6.5")), "line 3: '6.5': expected a whole number"),
        (table(LAYER.replace("5000", "-1")), "line 3: '-1': expected a whole number"),
        (table(LAYER.replace("ALLGATHER", "ALLSORTS")), "line 3: 'ALLSORTS': expected NONE, or"),
        (table(LAYER.replace("ALLGATHER", "ALLGATHER_X")), "line 3: 'ALLGATHER_X': expected"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(InputError) as refused:
        read(tmp_path, text)
    assert message.replace("::", ":") in str(refused.value).replace("::", ":")
    assert "table.txt" in str(refused.value)
    assert "\n" not in str(refused.value)
