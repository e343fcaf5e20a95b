"""Measure what the stages of an all-to-all take on the machines of a job.

Started as the job is, such as ``torchrun --nproc-per-node 8 -m lightloom.torch.calibrate --tp 8
--out ours.toml``; the first rank writes a file of the cluster, which ``lightloom alltoall
--cluster`` and :func:`~lightloom.torch.all_to_all_tp` read. A time is the median over repeats of
the slowest rank.
"""

from __future__ import annotations

import argparse
import datetime
import functools
import os
import statistics
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.distributed as dist

from lightloom.inputs.strict import check
from lightloom.planner.all_to_all import AllToAll
from lightloom.planner.cluster import StrategyCluster
from lightloom.planner.strategy import AllToAllStrategy
from lightloom.planner.volume import AllToAllVolume, balanced
from lightloom.torch.all_to_all import all_to_all_tp
from lightloom.torch.moves import Groups

#: bytes of the smallest operation, and by how much the next one is larger
SMALLEST, STEP = 2**14, 4
#: chunks, and the EP ranks' rows of this many bytes, with which penalties are measured
CHUNKS, ROW_BYTES = 4, 4096

Table = list[tuple[int, float]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the file on the first rank."""
    parser = argparse.ArgumentParser(
        prog="python -m lightloom.torch.calibrate", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tp", type=int, required=True, help="TP ranks, which follow one another")
    parser.add_argument("--out", type=Path, required=True, help="file of the cluster (TOML)")
    parser.add_argument("--largest", type=int, default=2**28, help="bytes of the largest operation")
    parser.add_argument("--repeats", type=int, default=10, help="times that each is repeated")
    options = parser.parse_args(arguments)
    if options.tp < 1 or options.repeats < 1 or options.largest < SMALLEST * STEP:
        parser.error(f"expected --tp and --repeats of 1 or more, --largest of {SMALLEST * STEP:,}")
    device = _device()
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    ranks = dist.get_world_size()
    if ranks % options.tp or ranks < 2 * options.tp:
        parser.error(f"--tp {options.tp}: {ranks} ranks; expected two or more whole TP groups")
    measured = Calibration(_groups(options.tp), device, options.repeats, options.largest).text()
    if dist.get_rank() == 0:
        options.out.write_text(measured, encoding="utf-8")
        print(f"wrote {options.out}: lightloom alltoall MODEL --cluster {options.out}")
    dist.destroy_process_group()


class Calibration:
    """The measurements of one rank; all ranks take part in each."""

    def __init__(self, groups: Groups, device: torch.device, repeats: int, largest: int) -> None:
        self.groups = groups
        self.device = device
        self.repeats = repeats
        self.sizes = [SMALLEST]
        while self.sizes[-1] * STEP <= largest:
            self.sizes.append(self.sizes[-1] * STEP)

    def text(self) -> str:
        """The file of the cluster."""
        operations = {"gather": self.gather, "copy": self.copy} | self.ways()
        tables = {key: self._table(operation) for key, operation in operations.items()}
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "CPU"
        date = datetime.datetime.now(tz=datetime.UTC).date()
        source = (
            f"measured {date} on {name}, {dist.get_world_size()} ranks, "
            f"TP {self.groups.tp_size}, EP {self.groups.ep_size}, {dist.get_backend()}, "
            f"PyTorch {torch.__version__}"
        )
        head = [
            f'title = "{name}, {dist.get_world_size()} ranks"',
            f"gpus_per_server = {_gpus_per_server()}",
            f"grouped_gather = {self.grouped_gather():.4g}",
        ]
        parts = ["\n".join(head), *(_section(key, rows, source) for key, rows in tables.items())]
        # a way that no rank has decides nothing; a file has both
        for key in {"all_to_all", "within"} - tables.keys():
            (other,) = {"all_to_all", "within"} & tables.keys()
            parts.append(_section(key, tables[other], f"no EP ranks send so: that of {other}"))
        curves = "\n\n".join(parts)
        costs = self.penalties(check(StrategyCluster, tomllib.loads(curves), "measured"))
        keys = "\n".join(f"{key} = {cost_s:.4g}" for key, cost_s in costs.items())
        return f'{curves}\n\n[penalties]\n{keys}\nsource = "{source}, {CHUNKS} chunks"\n'

    def ways(self) -> dict[str, Callable[[int], Callable[[], object]]]:
        """How EP ranks send to each other, by key of the file: between servers, or within one."""
        far = {"all_to_all": True, "within": False}
        return {
            key: functools.partial(self.send, between=between)
            for key, between in far.items()
            if any(self._others(rank, between) for rank in range(self.groups.ep_size))
        }

    def send(self, size: int, *, between: bool) -> Callable[[], object]:
        """An all-to-all in which a rank sends so many bytes to other servers, or within its own."""
        others = self._others(self.groups.ep_rank, between)
        sent, got = [0] * self.groups.ep_size, [0] * self.groups.ep_size
        for other in others:
            sent[other] = -(-size // len(others))
            got[other] = -(-size // len(self._others(other, between)))
        rows, out = self._bytes(sum(sent)), self._bytes(sum(got))
        return lambda: dist.all_to_all_single(out, rows, got, sent, group=self.groups.ep)

    def _others(self, ep_rank: int, between: bool) -> list[int]:
        """EP ranks of other servers than that of an EP rank, or the others of the same one."""
        members = max(1, _gpus_per_server() // self.groups.tp_size)
        return [
            other
            for other in range(self.groups.ep_size)
            if other != ep_rank and (other // members != ep_rank // members) == between
        ]

    def gather(self, size: int) -> Callable[[], object]:
        """A gather in which a TP rank gets so many bytes of others."""
        ranks = self.groups.tp_size
        part = self._bytes(-(-size // max(1, ranks - 1)))
        whole = self._bytes(ranks * len(part))
        return lambda: dist.all_gather_into_tensor(whole, part, group=self.groups.tp)

    def copy(self, size: int) -> Callable[[], object]:
        """A copy of so many bytes."""
        rows, out = self._bytes(size), self._bytes(size)
        return lambda: out.copy_(rows)

    def grouped_gather(self) -> float:
        """Start-ups that each further one of several gathers adds, over that of one."""
        ranks, smallest = self.groups.ep_size, SMALLEST // STEP
        part, wholes = (
            self._bytes(smallest),
            [self._bytes(smallest * self.groups.tp_size) for _ in range(ranks)],
        )

        def several() -> None:
            works = [
                dist.all_gather_into_tensor(whole, part, group=self.groups.tp, async_op=True)
                for whole in wholes
            ]
            for work in works:
                assert work is not None, "asked to run beside others"
                work.wait()

        alone, together = self._time_s(self.gather(smallest)), self._time_s(several)
        return min(10.0, max(0.0, (together / alone - 1) / (ranks - 1)))

    def penalties(self, cluster: StrategyCluster) -> dict[str, float]:
        """What a chunk costs beyond its operations, by key of the file; 0 if nothing."""
        ranks, tp = self.groups.ep_size, self.groups.tp_size
        each = max(tp * CHUNKS, self.sizes[-1] // ROW_BYTES // ranks)
        x = self._bytes(each * ranks * ROW_BYTES).view(-1, ROW_BYTES)
        expected = AllToAll(cluster, tp, ranks)
        volume = AllToAllVolume.of(balanced(ranks), x.numel(), expected.ranks_per_server)
        costs = {}
        for key, strategy in (("copy_s", AllToAllStrategy.O2), ("gather_s", AllToAllStrategy.O3)):

            def run(name: str = strategy) -> None:
                all_to_all_tp(
                    x, [each] * ranks, ep_group=self.groups.ep, tp_group=self.groups.tp,
                    strategy=name, chunks=CHUNKS,
                )  # fmt: skip

            beyond_s = self._time_s(run) - expected.time_s(strategy, volume, CHUNKS)
            costs[key] = max(0.0, beyond_s / CHUNKS)
        return costs

    def _table(self, operation: Callable[[int], Callable[[], object]]) -> Table:
        """Times of an operation by its bytes; they never fall as bytes grow, as noise may."""
        rising, longest = [], 0.0
        for size in self.sizes:
            longest = max(longest, self._time_s(operation(size)))
            rising.append((size, longest))
        return rising

    def _bytes(self, size: int) -> torch.Tensor:
        return torch.zeros(size, dtype=torch.uint8, device=self.device)

    def _time_s(self, operation: Callable[[], object]) -> float:
        """The median time of an operation on the slowest rank."""
        operation()
        times = []
        for _ in range(self.repeats):
            dist.barrier()
            self._wait()
            begin = time.perf_counter()
            operation()
            self._wait()
            times.append(time.perf_counter() - begin)
        median = torch.tensor([statistics.median(times)], device=self.device)
        dist.all_reduce(median, op=dist.ReduceOp.MAX)
        return float(median)

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


def _groups(tp: int) -> Groups:
    """TP ranks that follow one another, and EP ranks across them."""
    rank, world = dist.get_rank(), dist.get_world_size()
    tps = [_group(range(at, at + tp)) for at in range(0, world, tp)]
    eps = [_group(range(at, world, tp)) for at in range(tp)]
    ep, tp_group = eps[rank % tp], tps[rank // tp]
    assert ep is not None, "each rank is in one"
    assert tp_group is not None, "each rank is in one"
    return Groups(ep, tp_group)


def _group(ranks: range) -> dist.ProcessGroup | None:
    """A new group; none for a rank that is not in it."""
    group = dist.new_group(list(ranks))
    return group if isinstance(group, dist.ProcessGroup) else None


def _gpus_per_server() -> int:
    return int(os.environ.get("LOCAL_WORLD_SIZE", dist.get_world_size()))


def _section(key: str, rows: Table, source: str) -> str:
    sizes = ", ".join(str(size) for size, _ in rows)
    times = ", ".join(f"{time_s:.4g}" for _, time_s in rows)
    return f'[{key}]\nsizes_bytes = [{sizes}]\ntimes_s = [{times}]\nsource = "{source}"'


if __name__ == "__main__":
    main()
