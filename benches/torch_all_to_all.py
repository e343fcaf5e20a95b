"""Bytes and time of an all-to-all to experts by strategy, in PyTorch with gloo over loopback.

Bytes between EP ranks are counted, of one rank, forward and backward. Times are medians over rounds
in which every way has its turn twice: as it is, and with each collective waited for before the next
one begins. Their ratio is what overlap saves of the same chunks; the other one is over O1. With a
rate, EP ranks talk over an interface of that rate, in a network namespace of its own, so that
sending is waiting, as it is between servers; over loopback it is copying by the same processors.

    .venv/torch/bin/python benches/torch_all_to_all.py [MEGABYTES] [ROUNDS] [RATE, such as 2gbit]
"""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from lightloom.torch import all_to_all_tp

TP, EP, WIDTH = 2, 2, 1024
#: which interface EP ranks talk over; what is sent to its address has the rate
SLOW = "LIGHTLOOM_EP_INTERFACE"
SETUP = """
ip link set lo up
ip link add ep0 type veth peer name ep1
ip addr add 10.9.0.1/24 dev ep0
ip link set ep0 up
ip link set ep1 up
tc qdisc add dev lo root handle 1: htb default 1
tc class add dev lo parent 1: classid 1:1 htb rate 100gbit quantum 60000
tc class add dev lo parent 1: classid 1:2 htb rate {rate} burst 1m quantum 60000
tc filter add dev lo parent 1: u32 match ip dst 10.9.0.1 flowid 1:2
"""
WAYS = [("baseline", 1), ("O1", 1)] + [(s, n) for s in ("O2", "O3", "O4") for n in (1, 2, 4)]


def measure(rank: int, store: str, megabytes: int, rounds: int) -> None:
    """Run every way in turn; rank 0 prints."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=TP * EP)
    tps = [dist.new_group(list(range(p * TP, p * TP + TP))) for p in range(EP)]
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ.get(SLOW, "lo")
    eps = [dist.new_group(list(range(t, TP * EP, TP))) for t in range(TP)]
    ep_group, tp_group = eps[rank % TP], tps[rank // TP]
    sent: list[int] = []
    waits = [False]
    for name in ("all_to_all_single", "all_gather_into_tensor", "reduce_scatter_tensor"):
        setattr(dist, name, watched(getattr(dist, name), sent, waits, rank // TP))
    each = max(1, megabytes * 10**6 // (4 * WIDTH * EP))
    x = torch.ones(each * EP, WIDTH, requires_grad=True)
    times: dict[tuple[str, int, bool], list[float]] = {}
    moved = {}
    for _ in range(rounds + 1):
        for way, waits[0] in itertools.product(WAYS, (False, True)):
            sent.clear()
            dist.barrier()
            begin = time.perf_counter()
            rows, route = all_to_all_tp(
                x, [each] * EP, ep_group=ep_group, tp_group=tp_group, strategy=way[0], chunks=way[1]
            )
            route.combine(rows).backward(x.detach())
            dist.barrier()
            times.setdefault((*way, waits[0]), []).append(time.perf_counter() - begin)
            moved[way] = sum(sent)
    if rank == 0:
        # the first round warms up
        median = {way: statistics.median(taken[1:]) for way, taken in times.items()}
        print(f"{EP} EP ranks of {TP} TP ranks, {megabytes} MB of a rank, {rounds} rounds")
        print("| strategy | chunks | sent [MB] | over baseline | time over O1 | over no overlap |")
        print("|---|---:|---:|---:|---:|---:|")
        for way in WAYS:
            own, other = median[*way, False], median[*way, True]
            share, ratio = moved[way] / moved[WAYS[0]], own / median["O1", 1, False]
            cells = (*way, f"{moved[way] / 1e6:.1f}", f"{share:.3f}", f"{ratio:.2f}")
            print("|", *(f"{cell} |" for cell in (*cells, f"{own / other:.2f}")))


def watched(plain: Callable[..., Any], sent: list[int], waits: list[bool], ep_rank: int) -> Any:
    """A collective whose bytes to other EP ranks are counted, and that is waited for if asked."""

    def call(out: torch.Tensor, rows: torch.Tensor, *given: Any, **options: Any) -> Any:
        if len(given) == 2:
            sent.append(rows[0].nbytes * (sum(given[1]) - given[1][ep_rank]) if len(rows) else 0)
        work = plain(out, rows, *given, **options)
        if waits[0] and work is not None:
            work.wait()
        return work

    return call


def main(megabytes: str = "32", rounds: str = "10", rate: str = "") -> None:
    """Start the ranks, in a namespace of their own if there is a rate."""
    if rate and SLOW not in os.environ:
        setup = SETUP.format(rate=rate) + 'exec "$0" "$@"'
        space = ["unshare", "--user", "--map-root-user", "--net", "sh", "-ec", setup]
        os.execvpe("unshare", [*space, sys.executable, *sys.argv], os.environ | {SLOW: "ep0"})
    with tempfile.TemporaryDirectory() as folder:
        options = (f"file://{folder}/s", int(megabytes), int(rounds))
        mp.start_processes(measure, options, TP * EP, start_method="fork")


if __name__ == "__main__":
    main(*sys.argv[1:])
