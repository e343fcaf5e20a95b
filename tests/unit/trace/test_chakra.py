"""Chakra execution traces, read back by Protocol Buffers with the fields of et_def.proto."""

import dataclasses
import json
import random

import pytest
from tests.trace_jobs import PLAIN, GridJob, recording

from lightloom.errors import InputError
from lightloom.trace.chakra import SCHEMA_VERSION, GroupNumbers, execution_trace

protobuf = pytest.importorskip("google.protobuf")

#: name, field, type of FieldDescriptorProto, and whether repeated
_MESSAGES = {
    "GlobalMetadata": [("version", 1, 9, False)],
    "AttributeProto": [
        ("name", 1, 9, False), ("int32_val", 7, 5, False), ("int64_val", 9, 3, False),
        ("bool_val", 27, 8, False), ("string_val", 29, 9, False),
    ],
    "Node": [
        ("id", 1, 4, False), ("name", 2, 9, False), ("type", 3, 5, False),
        ("ctrl_deps", 4, 4, True), ("data_deps", 5, 4, True), ("attr", 10, 11, True),
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def schema():
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")
    for message, members in _MESSAGES.items():
        added = file.message_type.add(name=message)
        for name, number, kind, repeated in members:
            field = added.field.add(name=name, number=number, type=kind, label=3 if repeated else 1)
            if kind == 11:
                field.type_name = ".et.AttributeProto"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
        for name in _MESSAGES
    }


def read(schema, content):
    import io

    from google.protobuf import proto

    stream = io.BytesIO(content)
    metadata = proto.parse_length_prefixed(schema["GlobalMetadata"], stream)
    nodes = []
    while (node := proto.parse_length_prefixed(schema["Node"], stream)) is not None:
        nodes.append(node)
    return metadata, nodes


def attributes(node):
    return {
        a.name: a.string_val or a.int64_val or a.int32_val or int(a.bool_val) for a in node.attr
    }


def test_a_node_is_its_call(schema):
    grid = GridJob(tp=2, pp=2, dp=2, ep=2)
    calls = recording(5, grid.calls(5)).calls
    groups = GroupNumbers()
    metadata, nodes = read(schema, execution_trace(5, calls, groups))
    assert metadata.version == SCHEMA_VERSION
    listed = json.loads(groups.to_json())
    for call, node in zip(calls, nodes, strict=True):
        values = attributes(node)
        assert (node.id, node.type) == (call.call_id, {"send": 5, "receive": 6}.get(call.op, 7))
        assert listed[values["pg_name"]] == list(call.ranks)
        if call.op in ("send", "receive"):
            ends = (5, call.peer) if call.op == "send" else (call.peer, 5)
            assert (values["comm_src"], values["comm_dst"]) == ends
            assert values["comm_size"] == 4096
        else:
            assert values["comm_size"] == call.input_bytes


def test_a_node_waits_for_what_the_program_has_waited_for(schema):
    """Call 0 is waited for at once, call 1 before call 3, call 2 never."""
    waits = [1, 3, None, 4, None]
    calls = [
        dataclasses.replace(PLAIN, call_id=i, waited_before=wait) for i, wait in enumerate(waits)
    ]
    _, nodes = read(schema, execution_trace(0, calls, GroupNumbers()))
    assert [list(node.data_deps) for node in nodes] == [[], [0], [0], [1], [3]]
    # where the call that it was waited before is left out, the next one waits
    _, nodes = read(schema, execution_trace(0, [calls[1], calls[4]], GroupNumbers()))
    assert [list(node.data_deps) for node in nodes] == [[], [1]]


def test_every_node_comes_after_all_that_the_program_has_waited_for(schema):
    draw = random.Random(3)
    for count in [1, 2, *(draw.randint(3, 40) for _ in range(60))]:
        calls = [
            dataclasses.replace(
                PLAIN,
                call_id=i,
                op=draw.choice(["all_gather", "barrier"]),
                waited_before=draw.choice([None, i + 1, i + 1, draw.randint(i + 1, count + 1)]),
            )
            for i in range(count)
        ]
        _, nodes = read(schema, execution_trace(0, calls, GroupNumbers()))
        after = {}
        for node in nodes:
            named = set(node.data_deps)
            after[node.id] = named.union(*(after[other] for other in named))
            # none is named that another one comes after
            assert not any(named & after[other] for other in named)
            assert after[node.id] == {
                call.call_id
                for call in calls
                if call.waited_before is not None and call.waited_before <= node.id
            }


def test_an_operation_that_chakra_does_not_have():
    call = dataclasses.replace(PLAIN, op="juggle")
    with pytest.raises(InputError, match="'juggle': Chakra has no such collective"):
        execution_trace(0, [call], GroupNumbers())
