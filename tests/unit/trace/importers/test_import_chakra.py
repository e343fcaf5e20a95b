"""Chakra execution traces, read: what our own writer wrote, and what is made by hand."""

import dataclasses
import io
import json
import tarfile

import pytest
from tests.chakra_files import content, delimited, field, node, write
from tests.trace_jobs import GridJob, recording

from lightloom.errors import InputError
from lightloom.trace.chakra import GroupNumbers, execution_trace
from lightloom.trace.computes import StreamPlace, StreamWait
from lightloom.trace.importers.chakra import read_chakra
from lightloom.trace.importers.open import read_any

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7


def written(folder, recordings):
    """What ``trace expand --chakra`` writes."""
    folder.mkdir()
    groups = GroupNumbers()
    for rank, calls in recordings.items():
        (folder / f"trace.{rank}.et").write_bytes(execution_trace(rank, calls, groups))
    (folder / "groups.json").write_text(groups.to_json())
    return folder


def kept(calls):
    """Calls without what the format does not hold: what does not go through a message, too."""
    lost = {"function": "", "shape": (), "call_site": "", "tensors": 1}
    one_sided = {"send": {"output_bytes": 0}, "receive": {"input_bytes": 0}}
    return [dataclasses.replace(call, **lost, **one_sided.get(call.op, {})) for call in calls]


def test_what_is_written_is_read_back(tmp_path):
    grid = GridJob(tp=2, pp=2, dp=2, ep=2)
    calls = {}
    for rank in range(grid.ranks):
        issued = recording(rank, grid.calls(rank)).calls
        # every call is waited for at once, or two calls later, or never
        waits = [i + 1 if i % 3 == 0 else i + 2 if i % 3 == 1 else None for i in range(len(issued))]
        calls[rank] = [
            dataclasses.replace(
                call, waited_before=wait if wait and wait < len(issued) else None,
                asynchronous=call.call_id % 3 > 0, input_splits=(3, 5), output_splits=(4, 4),
                reduction="sum", layer="decoder.layers.3", routed=7, stream=2, tag=None,
            )
            if call.op == "all_to_all"
            else dataclasses.replace(call, tag=0 if call.peer is not None else None)
            for call, wait in zip(issued, waits, strict=True)
        ]  # fmt: skip
    imported = read_chakra(written(tmp_path / "traces", calls))
    assert imported.remarks == ()
    assert imported.trace.world_size == 8
    for rank in range(grid.ranks):
        assert kept(imported.trace.ranks[rank].calls) == kept(calls[rank])
    listed = {(group.name, group.ranks) for group in imported.trace.groups}
    assert listed == {(call.group, call.ranks) for issued in calls.values() for call in issued}


def test_some_ranks_of_a_job_whose_groups_are_known(tmp_path):
    grid = GridJob(tp=2, pp=1, dp=2, ep=2)
    calls = recording(1, grid.calls(1)).calls
    imported = read_chakra(written(tmp_path / "traces", {1: calls}))
    assert list(imported.trace.ranks) == [1]
    assert imported.trace.world_size == 4


@pytest.mark.parametrize(
    ("op", "code", "got"),
    [
        ("all_reduce", 0, 80),
        ("all_gather", 2, 320),
        ("all_to_all", 6, 80),
        ("reduce_scatter", 7, 20),
    ],
)
def test_the_size_is_what_a_rank_puts_in(tmp_path, op, code, got):
    nodes = [node(3, COLLECTIVE, comm_type=code, comm_size=80)]
    imported = read_chakra(write(tmp_path / "job", *[nodes] * 4))
    (call,) = imported.trace.ranks[2].calls
    assert (call.op, call.input_bytes, call.output_bytes) == (op, 80, got)
    assert (call.group, call.ranks) == ("world", (0, 1, 2, 3))
    assert imported.remarks == (
        "4 calls name no group that is known: they are taken to be of all 4 ranks",
    )


def test_messages_between_two_ranks(tmp_path):
    sends = [node(0, SEND, comm_src=0, comm_dst=1, comm_tag=9, comm_size=64)]
    receives = [node(0, RECEIVE, comm_src=0, comm_dst=1, comm_tag=9, comm_size=64)]
    imported = read_chakra(write(tmp_path / "job", sends, receives))
    (sent,), (received,) = (imported.trace.ranks[rank].calls for rank in (0, 1))
    assert (sent.op, sent.peer, sent.tag, sent.input_bytes, sent.output_bytes) == (
        "send", 1, 9, 64, 0,
    )  # fmt: skip
    assert (received.op, received.peer, received.output_bytes) == ("receive", 0, 64)


def test_streams_wait_for_each_other(tmp_path):
    """Compute 0, then an all-reduce of its result; compute 2 next to it; compute 3 after both."""
    nodes = [
        node(0, COMPUTE, micros=10),
        node(1, COLLECTIVE, after=[0], micros=7, comm_type=0, comm_size=8),
        node(2, COMPUTE, after=[0], micros=20),
        node(3, COMPUTE, after=[1, 2], micros=30),
    ]
    recorded = read_chakra(write(tmp_path / "job", nodes, nodes)).trace.ranks[0]
    assert [c.duration_s for c in recorded.computes] == pytest.approx([10e-6, 20e-6, 30e-6])
    assert [(c.before, c.stream) for c in recorded.computes] == [(0, 0), (1, 0), (1, 0)]
    (call,) = recorded.calls
    assert (call.stream, call.asynchronous) == (1, False)
    assert call.duration_s == pytest.approx(7e-6)
    assert recorded.stream_waits == (
        StreamWait(StreamPlace(1, 0, 1), StreamPlace(0, 0, 1)),
        StreamWait(StreamPlace(0, 1, 2), StreamPlace(1, 1, 1)),
    )


def test_waiting_passes_through_nodes_that_are_left_out(tmp_path):
    """An operator of the CPU stands between a collective and the kernel that needs it."""
    nodes = [
        node(5, COMPUTE, micros=10, is_cpu_op=False),
        node(6, COLLECTIVE, after=[5], is_cpu_op=False, comm_type=0, comm_size=8),
        node(7, COMPUTE, after=[6], micros=99, is_cpu_op=True),
        node(8, COMPUTE, after=[7], micros=5, is_cpu_op=False),
        node(9, COLLECTIVE, after=[7], is_cpu_op=True, comm_type=0, comm_size=8),
    ]
    imported = read_chakra(write(tmp_path / "job", nodes))
    recorded = imported.trace.ranks[0]
    assert [compute.duration_s for compute in recorded.computes] == pytest.approx([10e-6, 5e-6])
    assert recorded.stream_waits[1].at.stream == 0
    assert imported.remarks[:2] == (
        "left out: 1 operators of the CPU",
        "left out: 1 calls of the CPU, which start those of the GPU",
    )


def test_a_computation_of_which_only_the_size_is_known(tmp_path):
    nodes = [node(0, COMPUTE, num_ops=1000, tensor_size=64)]
    (compute,) = read_chakra(write(tmp_path / "job", nodes)).trace.ranks[0].computes
    (operator,) = compute.operators
    assert compute.duration_s is None
    assert (operator.flops, operator.moved_bytes) == (1000, 64)


def test_the_order_of_the_file_is_changed_only_where_it_must_be(tmp_path):
    nodes = [
        node(9, COLLECTIVE, after=[7], comm_type=0, comm_size=1),
        node(8, COLLECTIVE, comm_type=0, comm_size=2),
        node(7, COLLECTIVE, callers=[8], comm_type=0, comm_size=3),
    ]
    calls = read_chakra(write(tmp_path / "job", nodes)).trace.ranks[0].calls
    assert [call.input_bytes for call in calls] == [2, 3, 1]
    assert [call.waited_before for call in calls] == [1, 2, None]


def sizes_in_order(tmp_path, *nodes):
    calls = read_chakra(write(tmp_path / "job", list(nodes))).trace.ranks[0].calls
    return [(call.input_bytes, call.waited_before) for call in calls]


def call_node(number, size, **dependencies):
    return node(number, COLLECTIVE, comm_type=0, comm_size=size, **dependencies)


def test_numbers_of_nodes_are_no_order(tmp_path):
    assert sizes_in_order(tmp_path, call_node(5, 1), call_node(3, 2)) == [(1, None), (2, None)]


def test_callers_count_only_where_there_is_no_data(tmp_path):
    nodes = [call_node(0, 1), call_node(1, 2, after=[0], callers=[2]), call_node(2, 3)]
    assert sizes_in_order(tmp_path, *nodes) == [(1, 1), (2, None), (3, None)]


def test_a_call_is_waited_for_before_the_first_that_needs_it(tmp_path):
    nodes = [
        call_node(0, 1),
        call_node(1, 2),
        call_node(2, 3, after=[0]),
        call_node(3, 4, after=[0]),
    ]
    assert sizes_in_order(tmp_path, *nodes) == [(1, 2), (2, None), (3, None), (4, None)]


def test_groups_by_number(tmp_path):
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=1, pg_name="12")]
    folder = write(tmp_path / "job", nodes, nodes)
    (folder / "groups.json").write_text('{"12": [1, 0], "13": [2, 3]}')
    trace = read_chakra(folder).trace
    assert trace.ranks[0].calls[0].ranks == (1, 0)
    assert trace.world_size == 4
    assert [(group.name, group.ranks) for group in trace.groups] == [("12", (1, 0)), ("13", (2, 3))]


@pytest.mark.parametrize("name", ["comm_group.json", "job.json", "comm_group_1.json"])
@pytest.mark.parametrize("attribute", ["pg_name", "comm_group"])
def test_groups_as_stage_writes_them(tmp_path, name, attribute):
    """Under other names, and of old traces by another attribute."""
    group = "2" if attribute == "pg_name" else 2
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=8, **{attribute: group})]
    folder = write(tmp_path / "job", *[nodes] * 4)
    (folder / name).write_text('{"1": [0, 1, 2, 3], "2": [0, 2], "3": [1, 3]}')
    (folder / "system.json").write_text('{"scheduling-policy": "LIFO", "preferred": [1]}')
    with pytest.raises(InputError, match="calls group '2' without it"):
        read_chakra(folder)
    for rank in (1, 3):
        (folder / f"job.{rank}.et").write_bytes(
            content(node(0, COLLECTIVE, comm_type=0, comm_size=8, pg_name="3"))
        )
    imported = read_chakra(folder)
    assert [recorded.calls[0].ranks for recorded in imported.trace.ranks.values()] == [
        (0, 2), (1, 3), (0, 2), (1, 3),
    ]  # fmt: skip
    assert imported.remarks == (f"the ranks of groups are those of {name}",)
    assert read_chakra(folder / "job.2.et").trace.ranks[2].calls[0].ranks == (0, 2)


def test_json_of_stage(tmp_path):
    folder = tmp_path / "generated"
    folder.mkdir()
    for rank in (0, 1):
        nodes = [
            {"id": 3, "name": "mm", "node_type": "comp_node", "num_ops": 50, "tensor_size": 8,
             "y_tensor_size": 1, "op_type": "M", "data_deps": [], "ctrl_deps": []},
            {"id": 4, "name": "y", "node_type": "coll_comm_node", "comm_size": 80,
             "comm_type": "REDUCE_SCATTER", "comm_group": 5, "data_deps": [3], "ctrl_deps": []},
        ]  # fmt: skip
        (folder / f"workload_3.{rank}.json").write_text(json.dumps({"nodes": nodes}))
    (folder / "comm_group_3.json").write_text('{"5": [0, 1]}')
    imported = read_any(folder)
    (call,) = imported.trace.ranks[1].calls
    assert (call.op, call.ranks, call.input_bytes, call.output_bytes) == (
        "reduce_scatter", (0, 1), 80, 40,
    )  # fmt: skip
    assert len(imported.trace.ranks[0].computes) == 1
    (folder / "workload_3.1.json").write_text('{"nodes": [{"id": 1, "node_type": "x"}]}')
    with pytest.raises(InputError, match="node 0: NodeType is 'x': expected a whole number"):
        read_any(folder)


def test_several_files_of_groups(tmp_path):
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=8, pg_name="2")]
    folder = write(tmp_path / "traces", nodes)
    for name in ("comm_group_a.json", "comm_group_b.json"):
        (folder / name).write_text('{"2": [0]}')
    (folder / "a_group.json").write_text("[")
    with pytest.raises(InputError, match=r"comm_group_a\.json, comm_group_b\.json may have"):
        read_chakra(folder)
    # the one that is called as the traces are
    (folder / "job.json").write_text('{"2": [0]}')
    assert read_chakra(folder).remarks[0] == "the ranks of groups are those of job.json"


def test_dependencies_on_nodes_that_are_not_there(tmp_path):
    """What a converter left out is waited for by nobody, which is said."""
    nodes = [
        node(1, COMPUTE, micros=10),
        node(2, COLLECTIVE, after=[1, 77], comm_type=0, comm_size=8),
        node(3, COMPUTE, after=[2], callers=[88], micros=5),
        node(4, COMPUTE, callers=[99], micros=5),
    ]
    imported = read_chakra(write(tmp_path / "job", nodes))
    assert imported.remarks[0] == (
        "2 dependencies are on nodes that are not there: nothing waits for them"
    )
    assert len(imported.trace.ranks[0].stream_waits) == 2


def test_archives_and_files_of_json(tmp_path):
    nodes = [node(0, COLLECTIVE, comm_type=6, comm_size=1 << 20)]
    folder = write(tmp_path / "job", nodes, nodes)
    archive = tmp_path / "job.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, "deep/folder")
        packed.addfile(tarfile.TarInfo("deep/._job.0.et"), io.BytesIO())
    assert read_chakra(archive).trace == read_chakra(folder).trace
    graph = {
        "workload_graph": [
            {"Id": 4, "Name": "ncclKernel_AllReduce_RING", "NodeType": 7, "ctrlDeps": [3],
             "data_deps": [], "runtime": 28, "is_cpu_op": False, "comm_size": 12},
        ],
        "ngpus": 8,
    }  # fmt: skip
    file = tmp_path / "small.0.json"
    file.write_text(json.dumps(graph))
    trace = read_chakra(file).trace
    (call,) = trace.ranks[0].calls
    assert (trace.world_size, call.op, call.input_bytes) == (8, "all_reduce", 12)
    assert call.duration_s == pytest.approx(28e-6)


def test_a_file_of_several_tells_how_many_ranks_there_are(tmp_path):
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=1)]
    folder = write(tmp_path / "job", nodes, nodes, nodes)
    trace = read_chakra(folder / "job.1.et").trace
    assert (list(trace.ranks), trace.world_size) == ([1], 3)


def test_files_of_pytorch_have_no_version(tmp_path):
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=1)]
    file = tmp_path / "job.0.et"
    file.write_bytes(content(*nodes, version=""))
    assert len(read_chakra(file).trace.ranks[0].calls) == 1


GOOD = node(0, COLLECTIVE, comm_type=0, comm_size=1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty: expected a Chakra trace"),
        (content(GOOD)[:-1], "no whole Chakra trace: it ends 1 bytes too early"),
        (content(GOOD, version="0.0.9"), "expected a Chakra trace of schema 0.0.4, got '0.0.9'"),
        (delimited(field(1, field(1, "x") + field(2, 4))), "this one is of 0.0.3 or earlier"),
        (delimited(GOOD), "this one is of 0.0.3 or earlier"),
        (
            content(field(1, 1) + field(11, field(1, "comm_size") + field(2, 3) + field(7, 1))),
            "this one is of 0.0.3 or earlier",
        ),
        (content(node(0, 11)), "node 0 is of type 11, which schema 0.0.4 has not"),
        (content(node(4, COLLECTIVE, comm_size=1)), "node 4 has no comm_type"),
        (content(node(4, COLLECTIVE, comm_type=12)), "node 4 has comm_type 12: expected one of"),
        (content(node(4, COLLECTIVE, comm_type=0, comm_size=-1)), "node 4: comm_size is -1"),
        (content(node(4, SEND, comm_dst=0)), "node 4: comm_dst is 0: expected another of 1 ranks"),
        (content(node(4, SEND, comm_src=3, comm_dst=1)), "has comm_src of another rank"),
        (
            content(node(4, COLLECTIVE, comm_type=0, involved_dim=[1, 0])),
            "node 4 involves some dimensions of a network only: expected its group by pg_name",
        ),
        (content(GOOD, GOOD), "node 0 is there twice"),
        (
            content(node(0, COMPUTE, after=[1]), node(1, COMPUTE, after=[0])),
            "node 0 depends on itself, by way of others",
        ),
        (content(node(0, COMPUTE)), "the trace neither computes nor communicates"),
        (b'{"workload_graph": 3}', "expected a list of nodes as workload_graph"),
        (b'{"workload_graph": [{"Id": "x"}]}', "node 0: Id is 'x': expected a whole number"),
        (b'{"x": []}', "expected JSON with a workload_graph"),
        (b"{", "not valid JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, data, message):
    file = tmp_path / "job.0.et"
    file.write_bytes(data)
    with pytest.raises(InputError) as refused:
        read_chakra(file)
    assert message in str(refused.value)
    assert "job.0.et" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_missing_and_mixed_files_are_refused(tmp_path):
    nodes = [GOOD]
    folder = write(tmp_path / "job", nodes, nodes, nodes, nodes)
    (folder / "job.1.et").unlink()
    with pytest.raises(InputError, match="has files of 3 ranks up to 3; missing are 1"):
        read_chakra(folder)
    write(folder, nodes, name="other")
    with pytest.raises(InputError, match=r"holds several traces \('job', 'other'\)"):
        read_chakra(folder)
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match=r"expected files named NAME\.RANK\.et"):
        read_chakra(tmp_path / "none")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ("[]", "expected lists of ranks by the names of groups"),
        ('{"1": [0, 0]}', "group '1': expected different ranks"),
        ('{"1": [-1]}', "group '1': expected different ranks"),
        ('{"2": [0, 1]}', "node 0 is of group '1', which groups.json lacks"),
        ('{"1": [1, 2]}', "node 0 of rank 0 calls group '1' without it"),
    ],
)
def test_groups_that_cannot_be_used(tmp_path, groups, message):
    nodes = [node(0, COLLECTIVE, comm_type=0, comm_size=1, pg_name="1")]
    folder = write(tmp_path / "job", nodes)
    (folder / "groups.json").write_text(groups)
    with pytest.raises(InputError) as refused:
        read_chakra(folder)
    assert message in str(refused.value)


def test_streams_and_nodes_are_bounded(tmp_path, monkeypatch):
    nodes = [node(i, COMPUTE, micros=1, stream=i) for i in range(70)]
    with pytest.raises(InputError, match="has more than 64 streams of a rank"):
        read_chakra(write(tmp_path / "job", nodes))
    monkeypatch.setattr("lightloom.trace.importers.chakra_nodes.MAX_NODES", 50)
    with pytest.raises(InputError, match="has more than 50 nodes"):
        read_chakra(tmp_path / "job")
