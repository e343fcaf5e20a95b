"""Recordings of ranks: written, read back, held against each other; commands that start Python."""

import dataclasses
import json
import sys

import pytest

from lightloom.errors import InputError
from lightloom.trace.check import disagreements
from lightloom.trace.computes import Compute, Operator, StreamPlace, StreamWait
from lightloom.trace.record import parse_ranks, parse_roles, split_command
from lightloom.trace.summary import (
    group_volumes,
    largest_calls,
    skews,
    summary_as_json,
    volumes,
)
from lightloom.trace.trace import Call, RankTrace, make_trace, rank_trace, read_trace

PLAIN = Call(
    op="all_to_all", call_id=0, function="alltoall_base_", group="ep", ranks=(0, 1), shape=(3, 4),
    dtype="bfloat16", input_bytes=24, output_bytes=40, input_splits=(1, 2), output_splits=(1, 4),
    reduction=None, peer=None, root=None, tag=None, phase="forward", layer="moe", step=0, stream=0,
    asynchronous=False, waited_before=1, call_site="train.py:3 in forward", routed=None, tensors=1,
)  # fmt: skip


def call(**changes):
    return dataclasses.replace(PLAIN, **changes)


def recording(rank, *calls):
    return RankTrace(rank, calls, 1, {"topk.default": 2}, ())


def two_ranks(first=PLAIN, second=None):
    """Two ranks of one all-to-all: rank 1 sends 4 rows to rank 0 and keeps 5."""
    second = second or call(
        input_splits=(4, 5), output_splits=(2, 5), shape=(9, 4), input_bytes=72, output_bytes=56
    )
    return make_trace(2, ["python", "train.py"], [recording(0, first), recording(1, second)])


def test_a_trace_is_what_is_read_back(tmp_path):
    trace = two_ranks()
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace.to_json()))
    again = read_trace(file)
    assert again == trace
    assert again.calls_hash == trace.calls_hash


def test_the_hash_tells_calls_apart_but_not_lines_of_code():
    first = two_ranks()
    assert two_ranks(call(call_site="elsewhere.py:9 in run")).calls_hash == first.calls_hash
    assert two_ranks(call(shape=(3, 5))).calls_hash != first.calls_hash


def with_computes(recorded):
    """A recording with what it computed: before its call, and on another stream after it."""
    product = Operator("matmul", "bfloat16", 2, 2, 2 * 4 * 8 * 16, 2 * (4 * 8 + 8 * 16 + 4 * 16))
    computes = (
        Compute(0, 0, "forward", "layers.0", 0, (product, Operator("elementwise", "", 3, 3, 0, 9))),
        Compute(1, 7, "optimizer", "", 0, (), 1.5e-3),
    )
    waits = (StreamWait(StreamPlace(7, 1, 1), StreamPlace(0, 0, 1)),)
    return dataclasses.replace(recorded, computes=computes, stream_waits=waits)


def test_a_trace_with_computes_is_what_is_read_back(tmp_path):
    waited = call(waited_at=StreamPlace(0, 1, 1), duration_s=2.5e-4)
    trace = make_trace(2, ["python"], [with_computes(recording(0, waited))])
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace.to_json()))
    again = read_trace(file)
    assert again.ranks == trace.ranks
    assert isinstance(again.ranks[0].computes[0].operators[0], Operator)
    assert again.calls_hash == make_trace(2, ["python"], [recording(0, PLAIN)]).calls_hash


def test_a_trace_without_computes_is_read(tmp_path):
    content = two_ranks().to_json()
    for recorded in content["ranks"].values():
        del recorded["computes"], recorded["stream_waits"]
        for entry in recorded["calls"]:
            del entry["waited_at"], entry["duration_s"]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(content))
    assert read_trace(file) == two_ranks()
    assert read_trace(file).calls_hash == content["calls_hash"]


def test_an_operator_that_lacks_a_number(tmp_path):
    content = make_trace(2, ["python"], [with_computes(recording(0, PLAIN))]).to_json()
    content["ranks"]["0"]["computes"][0]["operators"] = [["matmul", "bfloat16", 1, 1, 8]]
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"^rank 0 of a trace: computes\.0\.operators\.0"):
        read_trace(file)


def test_ranks_that_agree():
    assert disagreements(two_ranks()) == []


@pytest.mark.parametrize(
    ("first", "message"),
    [
        (call(input_splits=(1, 3), input_bytes=32), "rank 0 sends 3 rows to rank 1, which exp"),
        (call(output_splits=(1, 5), output_bytes=48), "rank 1 sends 4 rows to rank 0, which exp"),
        (call(op="all_gather"), "ranks call it differently"),
        (call(dtype="float32"), "ranks call it differently"),
    ],
)
def test_ranks_that_disagree(first, message):
    (line,) = disagreements(two_ranks(first))
    assert line.startswith("group ep of ranks 0, 1, call 0: ")
    assert message in line


def test_rows_that_are_sent_have_as_many_bytes_as_are_expected():
    lines = disagreements(two_ranks(call(input_bytes=48)))
    assert any("rank 0 sends rows of other bytes than rank 1 expects" in line for line in lines)


@pytest.mark.parametrize(
    ("op", "field"),
    [("all_reduce", "input_bytes"), ("reduce_scatter", "input_bytes"),
     ("all_gather", "output_bytes"), ("broadcast", "input_bytes")],
)  # fmt: skip
def test_ranks_of_one_call_have_as_many_bytes(op, field):
    first, second = (call(op=op, **{field: size}) for size in (16, 24))
    assert disagreements(two_ranks(first, first)) == []
    (line,) = disagreements(two_ranks(first, second))
    assert f"{op} with other numbers of bytes by rank: {{0: 16, 1: 24}}" in line


def test_a_call_that_one_rank_leaves_out():
    trace = make_trace(2, ["python"], [recording(0, PLAIN, PLAIN), recording(1, PLAIN)])
    (line,) = disagreements(trace)
    assert "numbers of calls differ: {0: 2, 1: 1}" in line


def test_messages_are_received_as_they_are_sent():
    sent = call(op="send", peer=1, input_bytes=8, output_bytes=0)
    received = call(op="receive", peer=0, input_bytes=0, output_bytes=8)
    assert disagreements(two_ranks(sent, received)) == []
    (line,) = disagreements(two_ranks(sent, call(op="receive", peer=0, output_bytes=9)))
    assert "8 bytes of bfloat16 are sent, 9 of bfloat16 expected" in line
    (line,) = disagreements(two_ranks(sent, call(op="barrier", group="world")))
    assert line == "rank 0 sends 1 messages to rank 1, which receives 0"


def test_volumes_add_up_by_kind():
    received = call(op="receive", group="pp", peer=1, input_bytes=0, output_bytes=100)
    trace = make_trace(2, ["python"], [recording(0, PLAIN, call(input_bytes=30), received)])
    pipeline, experts = volumes(trace, 0)
    assert (pipeline.op, pipeline.input_bytes) == ("receive", 100)
    assert (experts.calls, experts.input_bytes, experts.largest_bytes) == (2, 54, 30)
    assert summary_as_json(trace)["volumes"]["0"][1]["input_bytes"] == 54


def test_volumes_of_groups_are_those_of_their_calls():
    small, large = call(group="tp", input_bytes=6, call_id=1), call(input_bytes=30, call_id=2)
    trace = make_trace(2, ["python"], [recording(0, PLAIN, small, large)])
    experts, tensors = group_volumes(trace, 0)
    assert (experts.group, experts.calls, experts.input_bytes) == ("ep", 2, 54)
    assert (experts.share, tensors.share) == (0.9, 0.1)
    assert [largest_call.call_id for largest_call in largest_calls(trace, 0, 2)] == [2, 0]
    assert sum(volume.input_bytes for volume in volumes(trace, 0)) == 60


def test_skew_is_the_largest_part_over_the_mean_part():
    # one rank sends 1 and 2 rows, the other 4 and 5: 2 / 1.5 and 5 / 4.5
    (skew,) = skews(two_ranks())
    assert (skew.group, skew.calls) == ("ep", 2)
    assert skew.largest == pytest.approx(4 / 3)
    assert skew.mean == pytest.approx((4 / 3 + 10 / 9) / 2)
    even = call(input_splits=(2, 2), output_splits=(2, 2))
    assert [skew.largest for skew in skews(two_ranks(even, even))] == [1.0]
    assert skews(two_ranks(call(op="all_gather", input_splits=None))) == skews(
        make_trace(2, [], [two_ranks().ranks[1]])
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected JSON of lightloom trace record"),
        ('{"format": "lightloom trace 1"}', "expected ranks, program and world_size"),
        (
            '{"format": "lightloom trace 1", "ranks": {"x": {}}, "program": [], "world_size": 1}',
            "by their numbers",
        ),
        (
            '{"format": "lightloom trace 1", "ranks": {"0": 1}, "program": [], "world_size": 1}',
            "rank 0 of a trace: expected a table",
        ),
        (
            '{"format": "lightloom trace 1", "ranks": {"0": {"calls": [{"op": 3}]}},'
            ' "program": [], "world_size": 1}',
            "rank 0 of a trace: calls.0.op: Input should be a valid string",
        ),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "trace.json"
    file.write_text(content)
    with pytest.raises(InputError) as refused:
        read_trace(file)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_recording_of_another_type_is_refused():
    with pytest.raises(InputError, match="expected a table"):
        rank_trace(0, [])


def test_commands_that_start_python(tmp_path):
    script = tmp_path / "train.py"
    script.touch()
    name = str(script)
    python = sys.executable
    assert split_command([python, name, "--layers", "8"]) == (python, [name, "--layers", "8"])
    assert split_command([python, "-u", "-m", "train", "x"]) == (python, ["-m", "train", "x"])
    torchrun = ["torchrun", "--standalone", "--nproc-per-node", "8", "--rdzv-id=1", name, "-x"]
    assert split_command(torchrun) == (python, [name, "-x"])
    assert split_command(["torchrun", "-m", "train"]) == (python, ["-m", "train"])


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([], "no program"),
        (["ls"], "'ls': expected python"),
        (["python3"], "no script"),
        (["python3", "-m"], "no script"),
        (["python3", "nowhere.py"], "no such script"),
        (["python-that-is-not-there", "x"], "not found on the PATH"),
        (["torchrun", "--standalone"], "no script"),
    ],
)
def test_other_commands_are_refused(program, message):
    with pytest.raises(InputError, match=message):
        split_command(program)


@pytest.mark.parametrize(
    ("text", "ranks"), [("0", [0]), ("3, 0,3", [0, 3]), ("all", list(range(8)))]
)
def test_ranks_are_numbers_or_all(text, ranks):
    assert parse_ranks(text, 8) == ranks


@pytest.mark.parametrize("text", ["", "x", "-1", "1-2", "8", "٣", "1" * 30])
def test_other_ranks_are_refused(text):
    with pytest.raises(InputError, match="--rank"):
        parse_ranks(text, 8)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0,3", (False, [0, 3], 0)),
        ("all", (False, list(range(8)), 0)),
        ("roles", (True, [], 0)),
        ("roles,7,random:2, 5", (True, [5, 7], 2)),
    ],
)
def test_roles_and_ranks_in_addition(text, expected):
    assert parse_roles(text, 8) == expected


@pytest.mark.parametrize("text", ["roles,8", "roles,random:x", "roles,random:1,random:2", "role"])
def test_other_roles_are_refused(text):
    with pytest.raises(InputError, match="--rank"):
        parse_roles(text, 8)
