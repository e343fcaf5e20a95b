"""Every strategy on gloo: a program that ``test_all_to_all_tp`` runs, one process per rank.

The reference is one plain collective: every rank sends whole tokens to all ranks that need them.
"""

import argparse
import datetime
import itertools
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from lightloom.errors import LightloomError
from lightloom.torch import all_to_all_tp
from lightloom.torch.all_to_all import agree_on_strategy
from lightloom.torch.moves import Groups

WIDTH = 5
STRATEGIES = ("baseline", "O1", "O2", "O3", "O4")


def groups(tp, ep):
    """EP group and TP group of this rank; TP ranks follow one another."""
    rank = dist.get_rank()
    tps = [dist.new_group(list(range(p * tp, p * tp + tp))) for p in range(ep)]
    eps = [dist.new_group(list(range(t, tp * ep, tp))) for t in range(tp)]
    return eps[rank % tp], tps[rank // tp]


def draw(counts, source, seed, dtype):
    """Tokens of a source: whole numbers whose sums, in any order, are exact in bfloat16, too."""
    generator = torch.Generator().manual_seed(seed * 1000 + source)
    rows = torch.randint(-3, 4, (sum(counts), WIDTH), generator=generator)
    return rows.to(dtype)


def cases(tp, ep):
    """Counts by source and destination: even, uneven, empty ranks, fewer than chunks or parts."""
    generator = torch.Generator().manual_seed(tp * 10 + ep)
    yield [[4 * tp] * ep for _ in range(ep)]
    yield torch.randint(0, 40, (ep, ep), generator=generator).tolist()
    yield torch.randint(0, 3, (ep, ep), generator=generator).tolist()
    some = torch.randint(0, 30, (ep, ep), generator=generator)
    some[0] = 0
    some[:, -1] = 0
    yield some.tolist()
    yield [[0] * ep for _ in range(ep)]


def expected(counts, seed, dtype, ep_rank, width):
    """What an EP rank gets, by plain slices of what sources draw; ``width`` draws per source."""
    parts = []
    for part in range(width):
        for source, row in enumerate(counts):
            rows = draw(row, source * width + part, seed, dtype)
            start = sum(row[:ep_rank])
            parts.append(rows[start : start + row[ep_rank]])
    return torch.cat(parts)


def check_bits(layout, strategies, tp, ep, report):
    """Forward and backward of every case are bit-equal to the reference."""
    ep_group, tp_group = groups(tp, ep)
    rank = dist.get_rank()
    ep_rank, tp_rank = divmod(rank, tp)
    width = tp if layout == "sharded" else 1
    numbers = [n for s in strategies for n in ((1, 2, 3, 7) if s in ("O2", "O3", "O4") else (1,))]
    named = [s for s in strategies for _ in ((1, 2, 3, 7) if s in ("O2", "O3", "O4") else (1,))]
    types = itertools.cycle([torch.float32, torch.bfloat16, torch.float64])
    for seed, counts in enumerate(cases(tp, ep)):
        for strategy, chunks in zip(named, numbers, strict=True):
            dtype = next(types)
            source = ep_rank * width + (tp_rank if width > 1 else 0)
            x = draw(counts[ep_rank], source, seed, dtype).requires_grad_()
            rows, route = all_to_all_tp(
                x, counts[ep_rank], ep_group=ep_group, tp_group=tp_group, layout=layout,
                strategy=strategy, chunks=chunks,
            )  # fmt: skip
            wanted = expected(counts, seed, dtype, ep_rank, width)
            assert torch.equal(rows, wanted), (strategy, chunks, counts)
            assert sum(route.received) == len(rows)
            # every TP rank computes a part: rank t of them (t + 1) times its rows
            back = route.combine(rows * (tp_rank + 1))
            assert torch.equal(back, x * (tp * (tp + 1) // 2)), (strategy, chunks, counts)
            same = route.combine(rows * 3, partial=False)
            assert torch.equal(same, x * 3)
            assert torch.equal(route.dispatch(x[:, 0].long()), rows[:, 0].long())
            # the gradient of a token is the sum over TP ranks of what each did with it
            (back * back.detach()).sum().backward()
            factor = (tp * (tp + 1) // 2) ** 2
            assert torch.equal(x.grad, x.detach() * factor), (strategy, chunks)
    report[layout] = "equal"


def check_shapes(tp, ep, report):
    """Any type, more dimensions, and rows that are not contiguous."""
    ep_group, tp_group = groups(tp, ep)
    ep_rank = dist.get_rank() // tp
    counts = [[3, 5][:ep], [2, 0][:ep]]
    types = [torch.uint8, torch.bool, torch.complex64, torch.float8_e4m3fn]
    for dtype, strategy in itertools.product(types, STRATEGIES):
        rows = sum(counts[ep_rank])
        x = (torch.arange(rows * 6).view(6, rows).T + 50 * ep_rank).view(rows, 2, 3)
        x = x.to(torch.float32).to(dtype) if dtype is torch.float8_e4m3fn else x.to(dtype)
        assert not x.is_contiguous() or rows < 2
        out, route = all_to_all_tp(
            x, counts[ep_rank], ep_group=ep_group, tp_group=tp_group, strategy=strategy, chunks=2
        )
        assert out.shape == (sum(row[ep_rank] for row in counts), 2, 3)
        back = route.combine(out, partial=False)
        raw = torch.uint8
        assert torch.equal(back.contiguous().view(raw), x.contiguous().view(raw)), (dtype, strategy)
    # one element of a wider table, whose stride is that of the table
    one = torch.arange(10).view(2, 5)[:1, 3]
    for strategy in STRATEGIES:
        rows, _ = all_to_all_tp(
            one, [1] + [0] * (ep - 1), ep_group=ep_group, tp_group=tp_group, strategy=strategy
        )
        assert rows.tolist() == [3] * (0 if ep_rank else ep), strategy
    report["shapes"] = "equal"


def check_sums(tp, ep, report):
    """Parts are added up in the type that is asked for, and travel in their own."""
    ep_group, tp_group = groups(tp, ep)
    share = torch.tensor(256.0 if dist.get_rank() % tp == 0 else 1.0).bfloat16()
    x = torch.ones(2 * ep, WIDTH, dtype=torch.bfloat16)
    report["sums"] = {}
    for strategy in STRATEGIES:
        rows, route = all_to_all_tp(
            x, [2] * ep, ep_group=ep_group, tp_group=tp_group, strategy=strategy, chunks=2
        )
        twice = [route.combine(rows * share, sum_type=t) for t in (None, torch.float64)]
        third = route.combine(rows.double() * share.double())
        assert all(back.dtype is torch.bfloat16 for back in twice)
        report["sums"][strategy] = [back.unique().tolist() for back in (*twice, third)]


def check_refused(tp, ep, report):
    """Rows that are not those of the route."""
    ep_group, tp_group = groups(tp, ep)
    x = torch.ones(2 * ep, WIDTH)
    _, route = all_to_all_tp(x, [2] * ep, ep_group=ep_group, tp_group=tp_group)
    report["refused"] = []
    for call in (route.dispatch, route.combine):
        try:
            call(x[1:])
        except LightloomError as error:
            report["refused"].append(str(error))


def check_bytes(tp, ep, report):
    """What a rank sends to other EP ranks, forward and backward."""
    ep_group, tp_group = groups(tp, ep)
    ep_rank = dist.get_rank() // tp
    plain, sent = dist.all_to_all_single, []

    def counted(out, rows, got, given, **options):
        row_bytes = rows[0].numel() * rows.element_size() if len(rows) else 0
        sent.append(row_bytes * (sum(given) - given[ep_rank]))
        return plain(out, rows, got, given, **options)

    dist.all_to_all_single = counted
    x = torch.ones(1001 * ep, WIDTH, requires_grad=True)
    report["sent"] = {}
    for strategy in STRATEGIES:
        sent.clear()
        rows, route = all_to_all_tp(
            x, [1001] * ep, ep_group=ep_group, tp_group=tp_group, strategy=strategy, chunks=3
        )
        route.combine(rows).sum().backward()
        report["sent"][strategy] = sum(sent)
    dist.all_to_all_single = plain


def check_compiled(tp, ep, report):
    """A compiled function has the results and gradients of the plain one, and graphs around us."""
    ep_group, tp_group = groups(tp, ep)

    def plain(x, counts, strategy):
        x = torch.tanh(x * 2)
        rows, route = all_to_all_tp(
            x, counts, ep_group=ep_group, tp_group=tp_group, strategy=strategy, chunks=2
        )
        return torch.tanh(route.combine(torch.sin(rows))).square()

    compiled = torch.compile(plain, backend="aot_eager")
    report["compiled"] = []
    for counts, strategy in itertools.product(([4, 3][:ep], [1, 6][:ep]), ("O2", "O4")):
        pair = []
        for function in (plain, compiled):
            x = draw(counts, 1, dist.get_rank() // tp, torch.float32).requires_grad_()
            result = function(x, counts, strategy)
            result.sum().backward()
            pair.append((result.detach(), x.grad))
        report["compiled"].append(all(map(torch.equal, *pair)))
    counters = torch._dynamo.utils.counters
    report["graphs"] = counters["stats"]["unique_graphs"]
    report["breaks"] = [reason.splitlines()[0] for reason in counters["graph_break"]]


def check_ways(tp, ep, report):
    """What is sent to whom while the ways between servers, and within one, are measured."""
    from lightloom.torch.calibrate import Calibration

    report["ways"] = {}
    for gpus in (1, 2, 3, 4):
        os.environ["LOCAL_WORLD_SIZE"] = str(tp * gpus)
        measured = Calibration(Groups(*groups(tp, ep)), torch.device("cpu"), 1, 2**16)
        plain, sent = dist.all_to_all_single, []

        def counted(out, rows, got, given, *, sent=sent, plain=plain, **options):
            sent.append(given)
            return plain(out, rows, got, given, **options)

        dist.all_to_all_single = counted
        for way in measured.ways().values():
            way(600)()
        dist.all_to_all_single = plain
        report["ways"][gpus] = dict(zip(measured.ways(), sent, strict=True))


def check_second(tp, ep, report):
    """A second derivative is refused."""
    ep_group, tp_group = groups(tp, ep)
    x = torch.ones(2 * ep, WIDTH, requires_grad=True)
    rows, _ = all_to_all_tp(x, [2] * ep, ep_group=ep_group, tp_group=tp_group)
    (first,) = torch.autograd.grad((rows * rows).sum(), x, create_graph=True)
    try:
        first.sum().backward()
        report["second"] = ""
    except RuntimeError as error:
        report["second"] = str(error)


def check_auto(tp, ep, report):
    """The planner's choice for the tokens of a call, where its libraries are installed."""
    try:
        from lightloom.planner.cluster import load_cluster
    except ImportError as error:
        report["auto"] = str(error)
        return
    ep_group, tp_group = groups(tp, ep)
    free = load_cluster("a800x16").model_dump(by_alias=True) | {
        "choices": STRATEGIES,
        "gpus_per_server": 2,
        "gpus": 4,
        "penalties": {},
        "all_to_all": {"start_up_s": 1e-3, "rate_gbps": 1.0},
        "gather": {"start_up_s": 1e-3, "rate_gbps": 4.0},
    }
    cluster = type(load_cluster("a800x16"))(**free)
    report["auto"] = {}
    for tokens in (64, 200_000):
        x = torch.ones(tokens, WIDTH)
        _, route = all_to_all_tp(
            x, [tokens // ep] * ep, ep_group=ep_group, tp_group=tp_group, cluster=cluster
        )
        report["auto"][tokens] = [str(route.strategy), route.chunks]


def check_wrong(tp, ep, report):
    """What goes wrong on one rank is an error on every rank, within the time-out."""
    ep_group, tp_group = groups(tp, ep)
    rank = dist.get_rank()
    x = torch.zeros(4, WIDTH)
    calls = {
        "splits": {"splits": [1, 1] if rank == 0 else [2, 2]},
        "strategy": {"strategy": "O2" if rank == 0 else "O3"},
        "chunks": {"chunks": 2 if rank == 0 else 3, "strategy": "O2"},
        "layout": {"layout": "rows"},
        "grad": {"grad": "partail"},
        "cluster": {"cluster": "none.toml" if rank == 0 else None},
        "baseline": {"layout": "sharded", "strategy": "baseline"},
        "type": {"x": x.double() if rank == 0 else x},
        "tp_group": {"tp_group": ep_group},
    }
    texts = {}
    for name, changes in calls.items():
        values = {"x": x, "splits": [2, 2], "ep_group": ep_group, "tp_group": tp_group}
        values |= changes
        try:
            all_to_all_tp(values.pop("x"), values.pop("splits"), **values)
            texts[name] = ""
        except LightloomError as error:
            texts[name] = f"{type(error).__name__}: {error}"
    report["wrong"] = texts


def check_asked(tp, _, report):
    """What ranks are asked for is compared before anything is sent, on all of them."""
    rank = dist.get_rank()
    cases = {
        "same": {"strategy": "O2", "chunks": 2},
        "column": {"strategy": "O3" if rank >= tp else "O2"},
        "row": {"chunks": 2 + rank % tp},
        "one": {"strategy": "O9" if rank == 3 else "O2"},
        "whole": {"chunks": True},
        "some": {"mixnet": "circuits" if rank == 2 else "packets"},
        "problem": {},
    }
    report["asked"] = {}
    for name, options in cases.items():
        problem = "layer 1: no" if name == "problem" and rank == 1 else ""
        try:
            report["asked"][name] = agree_on_strategy("sharded", options, problem, rank)
        except LightloomError as error:
            report["asked"][name] = str(error)


def check_lost(tp, ep, report):
    """A rank that is gone is one error on the others."""
    ep_group, tp_group = groups(tp, ep)
    rank = dist.get_rank()
    dist.barrier()
    if rank == 3:
        report["lost"] = report["unasked"] = "gone"
        return
    x = torch.zeros(4, 2)
    calls = {
        "unasked": lambda: agree_on_strategy("sharded", {}, "", 1),
        "lost": lambda: all_to_all_tp(x, [2, 2], ep_group=ep_group, tp_group=tp_group),
    }
    for name, call in calls.items():
        try:
            call()
            report[name] = ""
        except LightloomError as error:
            report[name] = f"{type(error).__name__}: {error}"


def run(rank, options):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{options.folder}/store",
        rank=rank,
        world_size=options.tp * options.ep,
        timeout=datetime.timedelta(seconds=60),
    )
    report = {}
    for name in options.checks.split(","):
        CHECKS[name](options.tp, options.ep, report)
    with open(f"{options.folder}/{rank}.json", "w") as file:
        json.dump(report, file)
    if "lost" not in options.checks:
        dist.destroy_process_group()
    os._exit(0)


CHECKS = {
    "replicated": lambda *given: check_bits("replicated", STRATEGIES, *given),
    "sharded": lambda *given: check_bits("sharded", STRATEGIES[1:], *given),
    "shapes": check_shapes,
    "sums": check_sums,
    "refused": check_refused,
    "bytes": check_bytes,
    "compiled": check_compiled,
    "ways": check_ways,
    "second": check_second,
    "auto": check_auto,
    "wrong": check_wrong,
    "asked": check_asked,
    "lost": check_lost,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--tp", type=int)
    parser.add_argument("--ep", type=int)
    parser.add_argument("--checks")
    parser.add_argument("--folder")
    given = parser.parse_args(sys.argv[1:])
    # PyTorch is imported once, before the processes part
    mp.start_processes(run, args=(given,), nprocs=given.tp * given.ep, start_method="fork")
