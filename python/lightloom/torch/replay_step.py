"""A step whose demand is given and whose computation only takes time: what a simulator assumes.

Each rank waits in the place of attention and experts for as long as its job says, sends rows to
experts and takes them back over circuits, and does the same for the gradients, which compute twice
as long. Then gradients are added up. So nothing but the network, the circuits and this runtime is
measured, on any machine.

Run as the ranks of a job, with the file that :class:`lightloom.testbed.replay.ReplayJob` writes.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.autograd.function import FunctionCtx

from lightloom.control.documents import Document
from lightloom.torch import MixNet
from lightloom.torch.step_record import recorded_step

#: calls that measure what the runtime takes where there is nothing to send
_IDLE_CALLS = 15


class Pause(torch.autograd.Function):
    """Computation that takes time, and for gradients twice as long."""

    @staticmethod
    def forward(ctx: FunctionCtx, x: torch.Tensor, seconds: float) -> torch.Tensor:
        """Wait."""
        ctx.seconds = seconds  # type: ignore[attr-defined]
        time.sleep(seconds)
        return x.clone()

    @staticmethod
    def backward(  # type: ignore[override]
        ctx: FunctionCtx, gradient: torch.Tensor
    ) -> tuple[torch.Tensor, None]:
        """Wait twice as long."""
        time.sleep(2 * ctx.seconds)  # type: ignore[attr-defined]
        return gradient, None


def forward(mixnet: MixNet, job: Document, x: torch.Tensor) -> torch.Tensor:
    """All layers."""
    for layer, counts in enumerate(job["counts"]):
        x = Pause.apply(x, job["attention_s"])
        splits = counts[dist.get_rank()]
        mixnet.upcoming([rows * job["row_bytes"] for rows in splits], layer=layer)
        rows, route = mixnet.all_to_all(x, splits, layer=layer)
        x = route.combine(Pause.apply(rows, job["experts_s"]))
    return x


def idle_s(mixnet: MixNet) -> dict[str, float]:
    """Seconds that the runtime takes where there is almost nothing to send: medians.

    To agree on an all-to-all, to move its rows, to decide on circuits that stay, and for a sum.
    """
    ranks = dist.get_world_size()
    rows, few = torch.zeros(ranks, 1), torch.zeros(ranks)
    mixnet.records, calls, sums = [], [], []
    for _ in range(_IDLE_CALLS):
        begin = time.monotonic()
        mixnet.all_to_all(rows, [1] * ranks)[1].combine(rows)
        middle = time.monotonic()
        mixnet.all_reduce(few)
        calls.append(middle - begin)
        sums.append(time.monotonic() - middle)
    decide = statistics.median(r.waited_s for r in mixnet.records if r.name == "all_to_all")
    move = statistics.median(r.end_s - r.begin_s for r in mixnet.records)
    agree = max(0.0, statistics.median(calls) - decide - 2 * move) / 2
    return {"agree": agree, "move": move, "decide": decide, "sum": statistics.median(sums)}


def main() -> None:
    """Replay a job and print a line of JSON per step."""
    torch.set_num_threads(1)
    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    mixnet = MixNet.from_environment(timeout_s=120.0)
    x = torch.ones(sum(job["counts"][0][dist.get_rank()]), job["row_bytes"] // 4)
    x.requires_grad_()
    shared = torch.ones(job["sum_bytes"] // 4)
    gc.collect()
    gc.freeze()  # a collection over all objects of PyTorch takes longer than an all-to-all
    for step in range(job["steps"]):
        with recorded_step(mixnet, step) as facts:
            y = forward(mixnet, job, x)
            y.backward(y.detach())
            mixnet.all_reduce(shared)
            facts["loss"] = 0.0
        assert torch.equal(y, x), "rows came back other than they were sent"
    idle = idle_s(mixnet)
    if dist.get_rank() == 0:
        print(json.dumps({"idle_s": idle}), flush=True)
    dist.barrier()
    mixnet.close()
    os._exit(0)  # threads of process groups need not be waited for


if __name__ == "__main__":
    main()
