"""Profiles of PyTorch: kernels that are made by hand, and a real one of gloo."""

import gzip
import json
import math
import socket
import subprocess

import pytest
from tests.kineto_files import Profile, event
from tests.torch_python import PYTHON

from lightloom.errors import InputError
from lightloom.trace.computes import StreamPlace, StreamWait
from lightloom.trace.importers.kineto import read_kineto
from lightloom.trace.importers.kineto_events import Intervals, numbers_of

US = 1e-6


def overlapped():
    """Compute, an all-reduce next to the second compute, a third one that waits for it.

    ::

        stream 7    |  0-100  | 100-160      | 200-230 |
        stream 20             |  100 - 200   |
    """
    profile = Profile()
    profile.step(5, -10, 300)
    profile.kernel("gemm", 0, 100, launched=-9)
    profile.nccl("allreduce", 100, 100, 1000, launched=-8)
    profile.kernel("gemm", 100, 60, launched=-7)
    profile.kernel("add", 200, 30, launched=-6)
    return profile


def test_kernels_become_calls_and_computes(tmp_path):
    imported = read_kineto(overlapped().write(tmp_path / "p.json"))
    recorded = imported.trace.ranks[0]
    (call,) = recorded.calls
    assert (call.op, call.function, call.group, call.ranks) == (
        "all_reduce", "allreduce", "default_pg", (0, 1),
    )  # fmt: skip
    assert (call.input_bytes, call.output_bytes, call.dtype) == (2000, 2000, "bfloat16")
    assert (call.step, call.stream, call.asynchronous) == (5, 20, False)
    assert call.duration_s == pytest.approx(100 * US)
    assert [compute.duration_s for compute in recorded.computes] == pytest.approx(
        [100 * US, 60 * US, 30 * US]
    )
    assert recorded.stream_waits == (
        # the all-reduce waits for the first kernel, the last kernel for the all-reduce
        StreamWait(StreamPlace(20, 0, 1), StreamPlace(7, 0, 1)),
        StreamWait(StreamPlace(7, 1, 2), StreamPlace(20, 1, 1)),
    )
    assert imported.remarks == ("1 of 2 ranks have files",)


def test_nobody_waits_for_what_was_hidden(tmp_path):
    profile = Profile()
    profile.kernel("gemm", 0, 100, launched=-9)
    profile.nccl("allreduce", 100, 20, 8, launched=-8)
    profile.kernel("gemm", 100, 60, launched=-7)
    profile.kernel("add", 161, 30, launched=-6)
    recorded = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0]
    assert [wait.at.stream for wait in recorded.stream_waits] == [20]
    # one piece of computation after the call, with the microsecond in which nothing was done
    assert [c.duration_s for c in recorded.computes] == pytest.approx([100 * US, 91 * US])


def test_waits_that_were_recorded(tmp_path):
    """The all-reduce waits for the first kernel alone; the third kernel for it, though hidden."""
    profile = Profile()
    profile.kernel("gemm", 0, 100, launched=-90)
    profile.wait(20, 7, recorded=-85, launched=-80)
    profile.nccl("allreduce", 170, 20, 8, launched=-70)
    profile.kernel("gemm", 100, 60, launched=-60)
    profile.wait(7, 20, recorded=-65, launched=-55)
    profile.kernel("add", 200, 30, launched=-50)
    # the stream of copies waits for nobody
    profile.kernel("Memcpy", 240, 5, 9, launched=-40, category="gpu_memcpy")
    recorded = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0]
    assert recorded.stream_waits == (
        StreamWait(StreamPlace(20, 0, 1), StreamPlace(7, 0, 1)),
        StreamWait(StreamPlace(7, 1, 2), StreamPlace(20, 1, 1)),
    )
    # the last kernel began 10 us after what it waited for: its CPU's time, or the GPU's own
    assert [compute.duration_s for compute in recorded.computes] == pytest.approx(
        [100 * US, 60 * US, 40 * US, 5 * US]
    )


def test_time_in_which_the_cpu_was_late_is_computation(tmp_path):
    """The GPU stood still from 100 to 200, until a kernel was launched, not for the all-reduce."""
    profile = Profile()
    profile.kernel("gemm", 0, 100, launched=-9)
    profile.nccl("allreduce", 100, 95, 8, launched=-8)
    profile.kernel("add", 200, 30, launched=199)
    recorded = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0]
    assert [wait.at.stream for wait in recorded.stream_waits] == [20]
    assert [c.duration_s for c in recorded.computes] == pytest.approx([100 * US, 130 * US])


def test_steps_are_those_in_which_kernels_were_launched(tmp_path):
    profile = Profile()
    profile.step(3, 0, 100)
    profile.step(4, 100, 100)
    profile.kernel("before", -20, 5, launched=-30)
    profile.kernel("third", 90, 30, launched=50)
    profile.kernel("fourth", 120, 30, launched=100)
    profile.kernel("after", 300, 30, launched=200)
    # launched before the profiler began: no launch is there
    profile.add("kernel", "orphan", 1, 5, stream=7, correlation=99)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    assert [(span.name, span.step) for span in imported.spans[0]] == [("third", 3), ("fourth", 4)]
    assert imported.trace.ranks[0].steps == 2
    assert imported.remarks[0] == "3 kernels outside of steps are left out"
    assert imported.spans[0][0].start_s == 0


def test_phases(tmp_path):
    profile = Profile()
    profile.add("user_annotation", "Optimizer.step#Adam.step", 200, 50)
    profile.events.append(
        event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 100, 50, 9)
    )
    profile.kernel("forward", 10, 5)
    profile.kernel("elsewhere", 110, 5, thread=1)
    profile.kernel("backward", 120, 5, thread=9)
    profile.kernel("update", 210, 5)
    computes = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0].computes
    assert [compute.phase for compute in computes] == ["forward", "backward", "optimizer"]


@pytest.mark.parametrize(
    ("collective", "op", "elements", "size"),
    [
        ("_allgather_base", "all_gather", (10, 20), (20, 40)),
        ("allgather_into_tensor_coalesced", "all_gather", (10, 20), (20, 40)),
        ("_reduce_scatter_base", "reduce_scatter", (20, 10), (40, 20)),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter", (20, 10), (40, 20)),
        ("all_to_allv", "all_to_all", (30, 50), (60, 100)),
        ("allreduce_coalesced", "all_reduce", (8, 8), (16, 16)),
        ("send", "send", (8, 8), (16, 0)),
        ("recv", "receive", (8, 8), (0, 16)),
        ("barrier", "barrier", (1, 1), (0, 0)),
    ],
)
def test_operations_and_sizes(tmp_path, collective, op, elements, size):
    profile = Profile()
    profile.kernel("gemm", 0, 5)
    profile.nccl(collective, 10, 5, elements, Dst_Rank=1, Src_Rank=1)
    (call,) = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0].calls
    assert (call.op, call.input_bytes, call.output_bytes) == (op, *size)
    assert call.peer == (1 if op in ("send", "receive") else None)


def test_splits_of_an_all_to_all(tmp_path):
    profile = Profile()
    profile.kernel("gemm", 0, 5)
    splits = {"In_split_size": "[3, 5]", "Out_split_size": "[3, 4]"}
    profile.nccl("all_to_allv", 10, 5, (80, 70), **splits)
    profile.nccl("all_to_allv", 20, 5, (80, 70), In_split_size="[3, 5, ...]")
    first, second = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[0].calls
    assert (first.input_splits, first.output_splits) == ((3, 5), (3, 4))
    assert second.input_splits is None


def test_what_the_cpu_says_completes_what_the_kernel_says(tmp_path):
    """Kineto before 2024 left collectives' sizes at the operator of the CPU."""
    profile = Profile()
    profile.add("cpu_op", "record_param_comms", 1, 1, **{
        "External id": 77, "Collective name": "allreduce", "In msg nelems": 4, "Out msg nelems": 4,
        "Group size": 2, "dtype": "Float", "Process Group Name": "0",
    })  # fmt: skip
    name = "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)"
    profile.kernel("gemm", 0, 1)
    profile.kernel(name, 5, 9, stream=20, **{"External id": 77})
    profile.kernel(name, 15, 9, stream=20)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    stated, unknown = imported.trace.ranks[0].calls
    assert (stated.op, stated.input_bytes) == ("all_reduce", 16)
    assert (unknown.op, unknown.input_bytes) == ("all_reduce", 0)
    assert "1 kernels do not say how many bytes they carry, and count as 0" in imported.remarks


@pytest.mark.parametrize(
    ("said", "groups", "name", "ranks"),
    [
        ({}, {"0": [1, 0]}, "default_pg", (1, 0)),
        ({"Process_Group_Description": "mesh_tp"}, None, "mesh_tp", (0, 1)),
        ({"Process_Group_Description": "undefined"}, None, "group of 2", (0, 1)),
        (
            {"Process_Group_Ranks": "[0, 2, ...]", "Group_size": 4, "Global_rank_start": 0,
             "Global_rank_stride": 2},
            None, "default_pg", (0, 2, 4, 6),
        ),
        ({"Process_Group_Ranks": "", "Group_size": 4}, None, "default_pg", (0, 1, 2, 3)),
    ],
)  # fmt: skip
def test_groups_from_whatever_says_them(tmp_path, said, groups, name, ranks):
    profile = Profile(world_size=8, groups=groups)
    profile.kernel("gemm", 0, 5)
    profile.nccl("allreduce", 10, 5, 8, **said)
    trace = read_kineto(profile.write(tmp_path / "p.json")).trace
    assert (trace.ranks[0].calls[0].group, trace.ranks[0].calls[0].ranks) == (name, ranks)
    assert [(group.name, group.ranks) for group in trace.groups] == [(name, ranks)]


def test_what_encloses_the_launch_completes_what_the_kernel_says(tmp_path):
    """PyTorch 1.13 to 2.1 with ``record_shapes``: sizes are in ``Input Dims`` alone."""
    profile = Profile()
    record = {"Input Dims": [[6144], [], []], "Input type": ["float", "Scalar", ""]}
    listed = {"Input Dims": [[], [], []], "Input type": ["TensorList", "Scalar", ""]}
    base = {"Input Dims": [[768], [3392], []], "Input type": ["int", "int", ""]}
    name = "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)"
    profile.kernel("gemm", 0, 5)
    profile.add("cpu_op", "record_param_comms", 10, 9, **record)
    profile.add(
        "cpu_op", "nccl:all_to_all", 8, 15, **{"Input Dims": [[6144]], "Input type": ["float"]}
    )
    profile.kernel(name, 30, 5, 20, launched=12)
    # outputs of other ranks' choices: the operator is given where to put them first
    profile.add("cpu_op", "c10d::alltoall_base_", 40, 9, **base)
    profile.add(
        "cpu_op",
        "record_param_comms",
        41,
        7,
        **{"Input Dims": [[], []], "Input type": ["TensorList", "Scalar"]},
    )
    profile.kernel(name, 50, 5, 20, launched=42)
    # tensors of a list are of the annotation alone
    profile.add("cpu_op", "record_param_comms", 60, 9, **listed)
    profile.add(
        "cpu_op",
        "nccl:all_reduce",
        61,
        7,
        **{"Input Dims": [[2, 50], [12]], "Input type": ["float", "float"]},
    )
    profile.kernel("ncclKernel_AllReduce_RING_LL_Sum_float(x)", 70, 5, 20, launched=62)
    profile.add(
        "cpu_op",
        "c10d::_reduce_scatter_base_",
        80,
        9,
        **{
            "Input Dims": [[4, 8], [8, 8], []],
            "Input type": ["c10::BFloat16", "c10::BFloat16", ""],
        },
    )
    profile.kernel("ncclKernel_ReduceScatter_RING_LL_Sum_bf16(x)", 90, 5, 20, launched=82)
    # nothing encloses this one, or it is another thread's
    profile.kernel(name, 100, 5, 20, launched=101)
    profile.kernel(name, 110, 5, 20, launched=62, thread=2)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    calls = imported.trace.ranks[0].calls
    assert [(call.op, call.input_bytes, call.output_bytes) for call in calls] == [
        ("all_to_all", 24_576, 24_576), ("all_to_all", 13_568, 3_072), ("all_reduce", 448, 448),
        ("reduce_scatter", 128, 64),
    ]  # fmt: skip
    assert [call.dtype for call in calls] == ["float", "int", "float", "bfloat16"]
    assert imported.remarks[1:] == (
        "2 kernels communicate in an unknown manner: they are no calls", "1 of 2 ranks have files",
    )  # fmt: skip


def said(collective, elements, others=None, **more):
    arguments = {
        "Collective name": collective, "dtype": "BFloat16", "In msg nelems": elements,
        "Out msg nelems": elements, "Process Group Name": "5", "Group size": 3,
        "Process Group Description": "pipeline", "Process Group Ranks": "[1, 3, 5]",
    }  # fmt: skip
    return arguments | (others or {}) | more


def batched(messages, kernel="ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"):
    """The profile of rank 3 with a group of calls that one kernel executes, in 400 us."""
    profile = Profile(rank=3, world_size=6)
    profile.kernel("gemm", 0, 100, launched=-90)
    for place, message in enumerate(messages):
        profile.add("cpu_op", "record_param_comms", 10 * place, 5, **message)
    profile.add("user_annotation", "nccl:coalesced", 100, 5)
    profile.kernel(kernel, 120, 400, 20, launched=110)
    return profile


def test_messages_that_are_sent_as_one_group(tmp_path):
    """``batch_isend_irecv``: the kernel is launched after all records, when the group ends."""
    profile = batched([
        said("send", 1000, {"Dst Rank": 5}), said("recv", 2000, {"Src Rank": 1}),
        said("send", 3000, {"Dst Rank": 1}),
    ])  # fmt: skip
    # the next group has its own
    profile.add("cpu_op", "record_param_comms", 600, 5, **said("recv", 7, {"Src Rank": 5}))
    profile.kernel("ncclDevKernel_SendRecv(x)", 620, 10, 20, launched=610)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    calls = imported.trace.ranks[3].calls
    assert [(call.op, call.peer, call.input_bytes, call.output_bytes) for call in calls] == [
        ("send", 5, 2000, 0), ("receive", 1, 0, 4000), ("send", 1, 6000, 0), ("receive", 5, 0, 14),
    ]  # fmt: skip
    assert {(call.group, call.ranks) for call in calls} == {("pipeline", (1, 3, 5))}
    # two sends share the time of the kernel, in which it receives as well
    assert [c.duration_s for c in calls] == pytest.approx([200 * US, 400 * US, 200 * US, 10e-6])
    spans = [span for span in imported.spans[3] if span.call is not None]
    assert [span.call for span in spans] == [0, 1, 2, 3]
    assert spans[2].start_s - spans[0].start_s == pytest.approx(200 * US)
    assert imported.remarks == ("1 of 6 ranks have files",)


def test_collectives_that_are_called_as_one_group(tmp_path):
    """Those of one kind become one call of several tensors."""
    profile = batched([said("allreduce", 1000), said("allreduce", 24), said("wait", 0)],
                      "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)")  # fmt: skip
    (call,) = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[3].calls
    assert (call.op, call.input_bytes, call.output_bytes, call.tensors) == (
        "all_reduce", 2048, 2048, 2,
    )  # fmt: skip
    # a kernel of another kind is not theirs
    profile = batched([said("allreduce", 1000)], "ncclDevKernel_SendRecv(x)")
    imported = read_kineto(profile.write(tmp_path / "q.json"))
    assert imported.trace.ranks[3].calls == ()
    assert imported.remarks[0].startswith("1 kernels communicate in an unknown manner")


def test_messages_of_old_profiles_are_named(tmp_path):
    """Before 2024 annotations alone say who sends to whom, as places in the group."""
    profile = Profile(rank=1, world_size=4)
    profile.kernel("gemm", 0, 100, launched=-90)
    shapes = {"Input Dims": [[8, 2]], "Input type": ["float"]}
    profile.add("cpu_op", "nccl:send 1->2", 0, 5, **shapes)
    profile.add("cpu_op", "nccl:recv 1<-0", 10, 5, **shapes)
    profile.kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)", 120, 400, 20, launched=20)
    calls = read_kineto(profile.write(tmp_path / "p.json")).trace.ranks[1].calls
    assert [(call.op, call.peer, call.input_bytes, call.output_bytes) for call in calls] == [
        ("send", 2, 64, 0), ("receive", 0, 0, 64),
    ]  # fmt: skip


def test_kernels_of_libraries_that_are_not_nccl(tmp_path):
    """Each was taken for computation."""
    profile = Profile(world_size=8)
    names = [
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
        "void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<x>(y)",
    ]
    shapes = {"Input Dims": [[2727936], [], []], "Input type": ["c10::BFloat16", "", ""]}
    profile.add("cpu_op", "symm_mem::multimem_all_reduce_", 90, 20, **shapes)
    profile.kernel("gemm", 0, 100)
    for place, name in enumerate(names):
        profile.kernel(name, 100 + 100 * place, 100)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    calls = imported.trace.ranks[0].calls
    assert [(call.op, call.group, call.input_bytes) for call in calls] == [
        ("all_reduce", "PyTorch symmetric memory", 5_455_872),
        ("all_reduce", "custom all-reduce", 0),
        ("all_to_all", "TensorRT-LLM", 0),
    ]  # fmt: skip
    assert [span.kind for span in imported.spans[0]] == ["compute", *["communication"] * 3]
    assert imported.remarks[:3] == (
        "3 calls do not say their ranks: they are taken to be adjacent",
        "1 kernels of custom all-reduce do not say how many bytes they carry, and count as 0",
        "1 kernels of TensorRT-LLM do not say how many bytes they carry, and count as 0",
    )


def test_the_operator_tells_what_a_kernel_of_symmetric_memory_does(tmp_path):
    """A reduce-scatter is executed by the kernel of two-shot all-reduces."""
    profile = Profile(world_size=2)
    profile.kernel("gemm", 0, 50)
    profile.add("cpu_op", "symm_mem::reduce_scatter_out", 90, 20, **{
        "Input Dims": [[64], [], [], [32]],
        "Input type": ["c10::BFloat16", "", "Scalar", "c10::BFloat16"],
    })  # fmt: skip
    profile.kernel("void (anonymous namespace)::two_shot_all_reduce_kernel<x>(y)", 100, 10)
    profile.kernel("Memcpy PtoP (Device -> Device)", 120, 5, 9, category="gpu_memcpy")
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    (call,) = imported.trace.ranks[0].calls
    assert (call.op, call.group, call.input_bytes, call.output_bytes) == (
        "reduce_scatter", "PyTorch symmetric memory", 128, 64,
    )  # fmt: skip
    assert "1 copies between GPUs count as copies, not as communication" in imported.remarks


def test_kernels_of_unknown_libraries_are_a_remark(tmp_path):
    profile = Profile()
    profile.kernel("gemm", 0, 100)
    profile.kernel("void acme::ring_all_reduce_kernel<float>(float*)", 100, 50)
    profile.kernel("void acme::internode::dispatch<8>(int*)", 150, 50)
    profile.kernel("acme::gemm_reduce_scatter(x)", 200, 50)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    assert [call.op for call in imported.trace.ranks[0].calls] == ["all_reduce", "all_to_all"]
    assert [span.kind for span in imported.spans[0]] == [
        "compute", "communication", "communication", "compute",
    ]  # fmt: skip
    unknown, fused = [remark for remark in imported.remarks if "library" in remark]
    assert unknown == (
        "2 kernels of a library that is not known count as communication by their names: "
        "acme::ring_all_reduce_kernel, acme::internode::dispatch"
    )
    assert fused.endswith("and count as computation: acme::gemm_reduce_scatter")


def test_kernels_of_deep_ep(tmp_path):
    profile = Profile()
    profile.kernel("gemm", 0, 5)
    profile.kernel("void deep_ep::intranode::notify_dispatch<8>(int const*)", 5, 2, stream=30)
    profile.kernel("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*)", 7, 10, stream=30)
    profile.kernel("void deep_ep::internode_ll::combine<true>(void*)", 20, 10, stream=30)
    imported = read_kineto(profile.write(tmp_path / "p.json"))
    calls = imported.trace.ranks[0].calls
    assert [(call.op, call.group) for call in calls] == [
        ("all_to_all", "DeepEP inside a server"), ("all_to_all", "DeepEP low latency"),
    ]  # fmt: skip
    assert [span.kind for span in imported.spans[0]] == ["compute", *["communication"] * 3]
    remark = "2 kernels of DeepEP do not say how many bytes they carry, and count as 0"
    assert remark in imported.remarks


def test_lists_that_kineto_cuts_short():
    assert numbers_of("[0, 1, 12]") == (0, 1, 12)
    assert numbers_of("[]") == ()
    assert numbers_of("[0, 1, ...]") is None
    assert numbers_of([3, 4]) == (3, 4)
    assert numbers_of(None) is None


def test_joined_intervals():
    intervals = Intervals.of([(5, 7), (0, 2), (1, 3), (6, 6.5)])
    assert (intervals.starts, intervals.ends) == ([0, 5], [3, 7])
    assert [intervals.hold(at) for at in (-1, 0, 2.9, 3, 4, 5, 7)] == [
        False, True, True, False, False, True, False,
    ]  # fmt: skip


def test_a_folder_has_a_file_per_rank(tmp_path):
    for rank in (0, 1):
        profile = Profile(rank=rank)
        profile.kernel("gemm", 0, 5)
        profile.nccl("allreduce", 10, 5 + rank, 8)
        content = json.dumps(profile.to_json()).encode()
        (tmp_path / f"r{rank}.pt.trace.json.gz").write_bytes(gzip.compress(content))
    seen = []
    imported = read_kineto(tmp_path, lambda *progress: seen.append(progress))
    assert sorted(imported.trace.ranks) == [0, 1]
    assert (imported.trace.world_size, imported.remarks, seen) == (
        2, (), [(0.0, "reading r0.pt.trace.json.gz"), (0.5, "reading r1.pt.trace.json.gz")],
    )  # fmt: skip


def test_files_that_do_not_fit_each_other(tmp_path):
    first, second = Profile(rank=1), Profile(rank=1)
    for profile, name in ((first, "a.json"), (second, "b.json")):
        profile.kernel("gemm", 0, 5)
        profile.write(tmp_path / name)
    with pytest.raises(InputError, match=r"b\.json: is of rank 1, as is .*a\.json"):
        read_kineto(tmp_path)
    second.info |= {"rank": 0, "world_size": 4}
    second.write(tmp_path / "b.json")
    with pytest.raises(InputError, match="is of a job of 4 ranks, others are of 2"):
        read_kineto(tmp_path)
    second.info = {}
    second.write(tmp_path / "b.json")
    with pytest.raises(InputError, match="does not say of which rank it is"):
        read_kineto(tmp_path)
    (tmp_path / "b.json").rename(tmp_path / "x-rank_0.json")
    assert sorted(read_kineto(tmp_path).trace.ranks) == [0, 1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"traceEvents": 3}, "expected a list of traceEvents"),
        ({"traceEvents": []}, "neither kernels nor collectives"),
        ([event("cpu_op", "aten::mm", 0, 1)], "neither kernels nor collectives"),
        ([event("kernel", "x", 0, -1, stream=1)], "event 'x' has ts 0 and dur -1: expected micro"),
        ([event("kernel", "x", "0", 1, stream=1)], "event 'x' has ts '0' and dur 1"),
        ([event("kernel", "x", 0, 1, stream=-3)], "event 'x' has stream -3: expected a number"),
        ([event("kernel", None, 0, 1)], "an event has no name"),
        (
            [event("kernel", "x", 0, 1, stream=place) for place in range(300)],
            "the GPU has more than 256 streams",
        ),
        (
            {"distributedInfo": {"rank": 5, "world_size": 2},
             "traceEvents": [event("kernel", "x", 0, 1, stream=1)]},
            "rank 5 of a job of 2",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(content))
    with pytest.raises(InputError) as refused:
        read_kineto(file)
    assert message in str(refused.value)
    assert "profile.json" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_folder_without_profiles(tmp_path):
    with pytest.raises(InputError, match=r"the folder has no \*\.json"):
        read_kineto(tmp_path)


PROGRAM = """
import os, sys
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

rank, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
dist.init_process_group("gloo", rank=rank, world_size=2)
save = lambda one: one.export_chrome_trace(f"{folder}/rank{rank}.json")
plan = schedule(wait=0, warmup=1, active=1, repeat=1)
options = {"schedule": plan, "record_shapes": True, "on_trace_ready": save}
with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
    for _ in range(2):
        dist.all_reduce(torch.ones(100))
        rows = torch.ones(8, 4)
        dist.all_gather_into_tensor(torch.empty(16, 4), rows)
        dist.all_to_all_single(torch.empty(8, 4), rows)
        profiler.step()
dist.destroy_process_group()
"""


@pytest.mark.usefixtures("pytorch")
def test_a_real_profile_of_gloo(tmp_path):
    """Two processes that PyTorch's profiler records: its own fields, and what they say."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    folder = tmp_path / "profiles"
    folder.mkdir()
    running = [
        subprocess.Popen([PYTHON, program, str(rank), port, folder], stderr=subprocess.DEVNULL)
        for rank in (0, 1)
    ]
    assert [process.wait(120) for process in running] == [0, 0]
    imported = read_kineto(folder)
    assert (imported.trace.world_size, sorted(imported.trace.ranks)) == (2, [0, 1])
    for recorded in imported.trace.ranks.values():
        assert [(call.op, call.input_bytes, call.output_bytes) for call in recorded.calls] == [
            ("all_reduce", 400, 400), ("all_gather", 128, 256), ("all_to_all", 128, 128),
        ]  # fmt: skip
        assert all(0 < call.duration_s < math.inf for call in recorded.calls)
        assert {call.ranks for call in recorded.calls} == {(0, 1)}
