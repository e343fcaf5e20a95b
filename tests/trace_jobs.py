"""Traces of jobs that are made by hand: groups of a grid, and calls on them."""

import dataclasses

import numpy as np

from lightloom.trace.computes import Compute, Operator
from lightloom.trace.trace import Call, ProcessGroup, RankTrace, make_trace

PLAIN = Call(
    op="all_gather", call_id=0, function="", group="tp", ranks=(0, 1), shape=(1,),
    dtype="bfloat16", input_bytes=2, output_bytes=4, input_splits=None, output_splits=None,
    reduction=None, peer=None, root=None, tag=None, phase="forward", layer="", step=0, stream=0,
    asynchronous=False, waited_before=None, call_site="", routed=None, tensors=1,
)  # fmt: skip


def recording(rank, calls):
    """The recording of a rank whose calls are numbered in order."""
    numbered = (dataclasses.replace(call, call_id=i) for i, call in enumerate(calls))
    return RankTrace(rank, tuple(numbered), 1, {}, ())


def sized(op, size_bytes, ranks):
    """What goes in and comes out of a collective of a whole buffer."""
    share = size_bytes // ranks
    shares = {"all_gather": (share, size_bytes), "reduce_scatter": (size_bytes, share)}
    return shares.get(op, (size_bytes, size_bytes))


class GridJob:
    """Ranks as [pipeline stage][data-parallel index][tensor-parallel index].

    Its groups are tp, dp and pp, ep (adjacent data-parallel ranks) and world.
    """

    def __init__(self, tp, pp, dp, ep):
        self.ranks = tp * pp * dp
        self.grid = np.arange(self.ranks).reshape(pp, dp, tp)
        self.families = {
            "tp": self.grid.reshape(-1, tp),
            "dp": self.grid.transpose(0, 2, 1).reshape(-1, dp),
            "pp": self.grid.transpose(1, 2, 0).reshape(-1, pp),
            "ep": self.grid.reshape(pp, dp // ep, ep, tp).transpose(0, 1, 3, 2).reshape(-1, ep),
            "world": np.arange(self.ranks)[None],
        }

    def groups(self):
        return [
            ProcessGroup(name, tuple(group))
            for name, family in self.families.items()
            for group in family.tolist()
        ]

    def group_of(self, name, rank):
        row = np.argwhere(self.families[name] == rank)[0][0]
        return tuple(self.families[name][row].tolist())

    def call(self, rank, op, name, size_bytes, **changes):
        ranks = self.group_of(name, rank)
        put, got = sized(op, size_bytes, len(ranks))
        return dataclasses.replace(
            PLAIN, op=op, group=name, ranks=ranks, input_bytes=put, output_bytes=got, **changes
        )

    def calls(self, rank, layers=2, micro_batches=2):
        """A step: layers with tensor and expert parallelism, then gradients and parameters."""
        stage, replica, place = (int(one[0]) for one in np.nonzero(self.grid == rank))
        calls = []

        def message(op, to, phase):
            if 0 <= to < len(self.grid):
                peer = int(self.grid[to, replica, place])
                calls.append(self.call(rank, op, "pp", 4096, phase=phase, peer=peer))

        for phase, step in (("forward", 1), ("backward", -1)):
            for _ in range(micro_batches):
                message("receive", stage - step, phase)
                for _ in range(layers):
                    calls.append(self.call(rank, "all_gather", "tp", 8192, phase=phase))
                    calls.append(self.call(rank, "all_to_all", "ep", 2048, phase=phase, routed=0))
                    calls.append(self.call(rank, "reduce_scatter", "tp", 8192, phase=phase))
                message("send", stage + step, phase)
        calls.append(self.call(rank, "reduce_scatter", "dp", 1 << 20, phase="backward"))
        calls.append(self.call(rank, "all_gather", "dp", 1 << 19, phase="optimizer"))
        calls.append(self.call(rank, "all_reduce", "world", 4, phase="optimizer"))
        return calls

    def trace(self, ranks=None, **sizes):
        """A trace of some ranks; of the first one of each stage by default."""
        ranks = self.grid[:, 0, 0].tolist() if ranks is None else ranks
        recorded = (recording(rank, self.calls(rank, **sizes)) for rank in ranks)
        return make_trace(self.ranks, ["python", "train.py"], recorded, self.groups())


def with_rows(call):
    """All-to-alls carry rows that a router chose, twice per layer."""
    if call.op != "all_to_all":
        return call
    rows = {"input_splits": (4, 8, 12, 16), "output_splits": (10, 8, 12, 16)}
    place = {"routed": call.call_id // 3, "layer": f"layers.{call.call_id % 2}"}
    return dataclasses.replace(call, **rows, **place)


def program(routed=True, measured=None, dtype="bfloat16", dp=4):
    """A step of 4 ``dp`` ranks with experts, in whose passes a layer computes something."""
    job = GridJob(tp=2, pp=2, dp=dp, ep=4)
    product = Operator("matmul", dtype, 4, 4, 4 * 10**12, 10**9)
    trace = job.trace()
    ranks = []
    for recorded in trace.ranks.values():
        calls = [with_rows(one) if routed else one for one in recorded.calls]
        computes = tuple(
            Compute(call.call_id, 0, call.phase, "", 0, (product,), measured)
            for call in calls
            if call.op in ("all_to_all", "reduce_scatter")
        )
        ranks.append(dataclasses.replace(recorded, calls=tuple(calls), computes=computes))
    return make_trace(trace.world_size, ["python", "train.py"], ranks, trace.groups)
