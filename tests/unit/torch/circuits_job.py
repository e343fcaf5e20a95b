"""A job of 4 servers: a program that ``test_mixnet`` runs; the reference is plain gloo.

On loopback each NIC is an address of its own, and a server has 2 ranks; on a testbed each rank is
a process in the network namespace of its server.
"""

import argparse
import datetime
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter

import numpy as np
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from lightloom.errors import LightloomError
from lightloom.torch import DemandMonitor, MixNet, NicAddress, ServerNics, StreamLimits
from lightloom.torch.region_member import DrainedFence
from lightloom.torch.wires import end

IS_TESTBED = "LIGHTLOOM_NICS" in os.environ
SERVERS, EACH, OPTICAL, PACKET = 4, int(os.environ.get("LOCAL_WORLD_SIZE", "2")), 2, 2
RANKS = SERVERS * EACH
#: of a job that lasts some seconds: a busy machine takes longer
LEAST_STEPS = 8
TYPES = (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool, torch.complex64)


def servers():
    return [
        ServerNics(
            [NicAddress(f"127.8.{server}.{nic + 1}") for nic in range(OPTICAL)],
            [NicAddress(f"127.9.{server}.{nic + 1}") for nic in range(PACKET)],
        )
        for server in range(SERVERS)
    ]


def draw(counts, seed, kind=torch.float32, width=5):
    """The rows of this rank."""
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(seed * 1000 + rank)
    rows = torch.randint(-8, 9, (int(counts[rank].sum()), width), generator=generator)
    return rows.to(kind)


def random_counts(seed, most=40, zero=0.3):
    generator = torch.Generator().manual_seed(seed)
    counts = torch.randint(0, most, (RANKS, RANKS), generator=generator)
    counts[torch.rand(RANKS, RANKS, generator=generator) < zero] = 0
    return counts


def plain(rows, counts):
    """What gloo makes of it, as bytes."""
    rank = dist.get_rank()
    whole = rows.contiguous().view(torch.uint8)
    out = whole.new_empty((int(counts[:, rank].sum()), *whole.shape[1:]))
    dist.all_to_all_single(out, whole, counts[:, rank].tolist(), counts[rank].tolist())
    return out.view(rows.dtype)


def check_moved(mixnet, counts, rows, **named):
    moved, route = mixnet.all_to_all(rows, counts[dist.get_rank()].tolist(), **named)
    assert torch.equal(moved, plain(rows, counts))
    return moved, route


def check_equal(mixnet, _given):
    """Every type, uneven and empty splits, rows that do not lie together, gradients, returns."""
    rank = dist.get_rank()
    for seed, kind in enumerate(TYPES):
        counts = random_counts(seed)
        if seed == 1:
            counts[2], counts[:, RANKS - 1] = 0, 0
        if seed == 2:
            counts[:] = 0
        moved, route = check_moved(mixnet, counts, draw(counts, seed, kind))
        assert torch.equal(route.combine(moved), draw(counts, seed, kind))
    counts = random_counts(20)
    wide = draw(counts, 20, width=10)[:, ::2]
    assert not wide.is_contiguous() or not len(wide)
    check_moved(mixnet, counts, wide)
    rows = draw(counts, 21).requires_grad_()
    moved, route = mixnet.all_to_all(rows, counts[rank].tolist())
    (moved**3).sum().backward()
    assert torch.equal(rows.grad, 3 * rows.detach() ** 2)
    rows.grad = None
    home = route.combine(mixnet.all_to_all(rows, counts[rank].tolist())[0] * 2)
    (home * rows.detach()).sum().backward()
    assert torch.equal(rows.grad, 2 * rows.detach())
    flat = torch.arange(int(counts[rank].sum()))
    check_moved(mixnet, counts, flat.reshape(-1, 1))
    assert mixnet.all_to_all(flat, counts[rank].tolist())[0].dim() == 1
    return "equal"


def check_sums(mixnet, _given):
    """Whole numbers, whose sums have no order; sizes that no server or rank divides."""
    for size in (0, 1, 7, 1000, 10_007):
        mine = torch.arange(size) * (dist.get_rank() + 1)
        assert torch.equal(mixnet.all_reduce(mine), torch.arange(size) * sum(range(RANKS + 1)))
    drawn = torch.rand(999, generator=torch.Generator().manual_seed(dist.get_rank()))
    total = mixnet.all_reduce(drawn)
    every = [torch.empty_like(total) for _ in range(RANKS)]
    dist.all_gather(every, total)
    assert all(torch.equal(other, total) for other in every)
    dist.all_reduce(drawn)
    assert torch.allclose(drawn, total, rtol=1e-6)
    return "equal"


def check_planned(mixnet, _given):
    """Bytes of each NIC are those of the plan, as sent and as received."""
    counts = random_counts(3, most=20_000 if not IS_TESTBED else 60_000)
    dist.barrier()  # a rank takes bytes for others, too
    mixnet.streams.sent.clear()
    mixnet.arrivals.received.clear()
    dist.barrier()
    _, route = check_moved(mixnet, counts, draw(counts, 3, width=7))
    dist.barrier()
    every, came = [None] * RANKS, [None] * RANKS
    dist.all_gather_object(every, mixnet.nic_bytes())
    dist.all_gather_object(came, dict(mixnet.arrivals.received))
    demand = counts.numpy().astype(np.uint64) * np.uint64(28)
    parts = []
    for server in range(SERVERS):
        parts += mixnet.planners.plan(demand, route.decision, server)
    planned = Counter()
    for hop, size in ((hop, part.size_bytes) for part in parts for hop in part.hops):
        planned[hop.sender, "sent"] += size
        planned[hop.receiver, "received"] += size
    for end_of_hop, size in planned.items():
        assert sum(row.get(end_of_hop, 0) for row in every) == size, end_of_hop
    ends = {}
    for part in parts:
        nic = part.hops[-1].receiver
        ends[nic] = ends.get(nic, 0) + part.size_bytes
    assert {nic: sum(row.get(nic, 0) for row in came) for nic in ends} == ends
    optical = sum(sent for (nic, way), sent in planned.items() if nic.is_optical and way == "sent")
    return {
        "circuits": len(route.decision.circuits),
        "optical_bytes": optical,
        "hops": max(len(part.hops) for part in parts),
        "sent": {str(nic): size for (nic, way), size in planned.items() if way == "sent"},
    }


def pairings():
    """Demands in which each server sends much to one other, which changes."""
    partners = [[1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0]]
    while True:
        for partner in partners:
            counts = torch.full((RANKS, RANKS), 3)
            for server, peer in enumerate(partner):
                counts[server * EACH :, peer * EACH :][:EACH, :EACH] = 300
            yield counts


def assert_dark(mixnet, fences):
    """No frame is on its way over a circuit between servers behind a fence.

    From when a server has drained until it hears that circuits are there it begins none, and from
    when all have drained until the first hears that, none of the others' is on its way either.
    """
    windows = {}
    for server, told in enumerate(fences[::EACH]):
        for fence in told:
            windows.setdefault(fence.number, []).append((server, fence))
    for event in mixnet.streams.events:
        ends = {event.way[0].sender.server, event.way[0].receiver.server}
        for found in windows.values():
            drained = max(fence.drained_s for _, fence in found)
            opened = min(fence.opened_s for _, fence in found)
            spans = [(drained, opened)]
            spans += [
                (fence.drained_s, fence.opened_s)
                for server, fence in found
                if server == event.way[0].sender.server
            ]
            if ends <= found[0][1].servers:
                for begin, end in spans:
                    assert event.acknowledged_s <= begin or event.began_s >= end, (event, begin)


def check_fenced(mixnet, given):
    """Circuits change before each all-to-all, while another one is under way; all is equal."""
    mixnet.streams.events = []
    changes, rank = 0, dist.get_rank()
    before = moved = route = home = None
    for step, counts in zip(range(given.changes), pairings(), strict=False):
        if route is not None:  # circuits change while these bytes are on their way over them
            mixnet.upcoming((counts[rank] * 2048).tolist(), layer=step)
            for _ in range(2):
                assert torch.equal(route.combine(moved), home)
        home = draw(counts, step, width=512)
        moved, route = check_moved(mixnet, counts, home, layer=step)
        changes += route.decision.circuits != before
        before = route.decision.circuits
    fences = [None] * RANKS
    told = mixnet.member.fences if mixnet.member is not None else []
    dist.all_gather_object(fences, [tuple(fence) for fence in told])
    assert_dark(mixnet, [[DrainedFence(*fence) for fence in told] for told in fences])
    return {
        "changes": changes,
        "over_circuits": sum(event.size_bytes for event in mixnet.streams.events),
        "fences": sum(map(len, fences)),
    }


def check_monitored(mixnet, _given):
    """Decisions on predicted demand, made before the all-to-all is known."""
    monitor = DemandMonitor(RANKS)
    assert monitor.predict(0) is None
    whys = []
    for step, counts in zip(range(3), pairings(), strict=False):
        predicted = monitor.predict(0)
        if predicted is not None:
            mixnet.upcoming(predicted, layer=0, hidden_s=0.01)
        _, route = check_moved(mixnet, counts, draw(counts, step), layer=0)
        monitor.observe(0, counts.numpy().astype(np.uint64) * np.uint64(20))
        whys.append(route.decision.why)
    assert (monitor.predict(0) == counts.numpy() * 20).all()
    return whys


def check_gradients(mixnet, _given):
    """Two layers whose demands need other circuits: gradients of the first one get them back."""
    rank = dist.get_rank()
    counts = [counts for counts, _ in zip(pairings(), range(2), strict=False)]
    x = draw(counts[0], 1).requires_grad_()
    for _ in range(2):
        mixnet.records, x.grad = [], None
        y = x
        for layer, count in enumerate(counts):
            rows, route = mixnet.all_to_all(y, count[rank].tolist(), layer=layer)
            y = route.combine(rows * (layer + 2))
        (y * x.detach()).sum().backward()
        assert torch.equal(y, 6 * x)
        assert torch.equal(x.grad, 6 * x.detach())
    changed = [record.changed for record in mixnet.records]
    # a layer that nobody asks gradients of is expected no more
    assert not mixnet.gradients.expected
    with torch.no_grad():
        mixnet.all_to_all(x, counts[0][rank].tolist())
    assert not mixnet.gradients.expected
    return changed


def check_broken(mixnet, _given):
    """Connections break in the middle; a NIC of packets and one of circuits are lost for good."""
    rank = dist.get_rank()
    for seed in range(3):
        counts = random_counts(seed, most=60_000, zero=0.1)
        rows = draw(counts, seed, width=16)
        want = plain(rows, counts)
        breaking = threading.Timer(0.02, lambda: list(map(break_off, mixnet.streams.all())))
        breaking.start()
        moved, _ = mixnet.all_to_all(rows, counts[rank].tolist())
        breaking.join()
        assert torch.equal(moved, want)
        dist.barrier()
    nics = list(mixnet.nics.all_of(1))
    for lost in (nics[0], nics[-1]):
        counts = random_counts(5, most=60_000, zero=0.1)
        rows = draw(counts, 5, width=16)
        want = plain(rows, counts)
        losing = threading.Timer(0.02, mixnet.arrivals.lose, [lost])
        losing.start()
        moved, _ = mixnet.all_to_all(rows, counts[rank].tolist())
        losing.join()
        assert torch.equal(moved, want)
        check_moved(mixnet, counts, rows)
    counts = random_counts(6)
    for _ in range(50):  # until the controller knows, and all ranks of it
        _, route = check_moved(mixnet, counts, draw(counts, 6))
        if {str(nics[0]), str(nics[-1])} <= set(route.decision.failures):
            break
        time.sleep(0.1)
    return {"failures": list(route.decision.failures), "mended": mixnet.streams.mended}


def check_cut_off(mixnet, _given):
    """Both packet NICs of a server are lost in the middle: its circuits carry all."""
    rank = dist.get_rank()
    packet = [nic for nic in mixnet.nics.all_of(1) if not nic.is_optical]
    for seed in range(2):
        counts = random_counts(seed + 30, most=30_000, zero=0.1)
        rows = draw(counts, seed, width=16)
        want = plain(rows, counts)
        if seed == 0:
            losing = threading.Timer(0.02, lambda: [lose(mixnet, nic) for nic in packet])
            losing.start()
        moved, _ = mixnet.all_to_all(rows, counts[rank].tolist())
        losing.join()
        assert torch.equal(moved, want)
    return "equal"


def check_endured(mixnet, given):
    """All-to-alls for some seconds in which a NIC fails; nothing is lost, and none hangs."""
    rank, longest_s, steps, over_circuits = dist.get_rank(), 0.0, 0, 0
    end = torch.tensor([time.time() + given.seconds], dtype=torch.float64)
    dist.broadcast(end, 0)
    going_on = torch.ones(1)
    while going_on.item():
        counts = random_counts(steps, most=8_000)
        begin = time.monotonic()
        moved, route = mixnet.all_to_all(draw(counts, steps, width=16), counts[rank].tolist())
        longest_s = max(longest_s, time.monotonic() - begin)
        over_circuits += bool(route.decision.circuits)
        came = []
        for source, part in enumerate(moved.split(list(route.received))):
            begins = int(counts[source, :rank].sum())
            generator = torch.Generator().manual_seed(steps * 1000 + source)
            rows = torch.randint(-8, 9, (int(counts[source].sum()), 16), generator=generator)
            came.append(torch.equal(part, rows[begins : begins + len(part)].float()))
        assert all(came), (steps, came)
        steps += 1
        if rank == 0 and steps == 3:
            open(os.path.join(given.folder, "begun"), "w").close()
        going_on[0] = rank == 0 and (time.time() < end.item() or steps < LEAST_STEPS)
        going_on = mixnet.all_reduce(going_on)  # a rank that was lost is an error of ours
    return {
        "steps": steps,
        "longest_s": longest_s,
        "over_circuits": over_circuits,
        "mended": mixnet.streams.mended,
        "failures": list(route.decision.failures),
    }


def check_troubled(mixnet, given):
    """As it endures, while connections break at random, at either end, and circuits change."""
    generator, done, faults = random.Random(dist.get_rank()), threading.Event(), [0]

    def trouble():
        while not done.wait(generator.uniform(0.0, 0.08)):
            if generator.random() < 0.5 and (streams := mixnet.streams.all()):
                break_off(generator.choice(streams))
                faults[0] += 1
            elif connections := mixnet.arrivals.connections():
                end(generator.choice(connections))
                faults[0] += 1

    thread = threading.Thread(target=trouble)
    thread.start()
    try:
        report = check_endured(mixnet, given)
    finally:
        done.set()
        thread.join()
    dist.barrier()
    left = mixnet.memory.over_circuits(range(SERVERS))
    assert left == 0, f"{left} bytes are still counted as over circuits"
    return {**report, "faults": faults[0]}


def break_off(stream):
    """Cut a connection, as if a NIC had failed."""
    if (connection := stream._socket) is not None:
        end(connection)


def lose(mixnet, nic):
    """Neither end of a NIC works any more: nothing arrives, and nothing leaves."""
    mixnet.arrivals.lose(nic)
    for stream in mixnet.streams.all():
        if stream.way[0].sender == nic:
            break_off(stream)
    if nic.server == dist.get_rank() // EACH:
        mixnet.streams.wires.lose(nic)


def check_controller(mixnet, given):
    """The controller is killed; all goes over packets, and it is said once, until it is back."""
    counts = random_counts(1, most=400)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_moved(mixnet, counts, draw(counts, 1))
        dist.barrier()
        if dist.get_rank() == 0:
            open(os.path.join(given.folder, "kill"), "w").close()
            while not os.path.exists(os.path.join(given.folder, "killed")):
                time.sleep(0.01)
        dist.barrier()
        for seed in range(3):
            _, route = check_moved(mixnet, counts, draw(counts, seed))
            assert route.decision.circuits == ()
        if dist.get_rank() == 0:
            open(os.path.join(given.folder, "restart"), "w").close()
        for seed in range(200):
            _, route = check_moved(mixnet, counts, draw(counts, seed))
            if route.decision.circuits:
                break
            time.sleep(0.1)
    said = [str(one.message) for one in caught if "packet network" in str(one.message)]
    return {"said": said, "circuits": len(route.decision.circuits)}


def check_lost(mixnet, _given):
    """A rank ends in the middle of a step."""
    rank = dist.get_rank()
    counts = random_counts(9, most=20_000, zero=0.0)
    rows = draw(counts, 9, width=32)
    if rank == RANKS - 3:
        threading.Timer(0.03, os._exit, [0]).start()
    begin = time.monotonic()
    try:
        for _ in range(1000):
            mixnet.all_to_all(rows, counts[rank].tolist())
    except LightloomError as error:
        return [f"{type(error).__name__}: {error}", time.monotonic() - begin]
    return ["none", 0.0]


def check_hung(mixnet, _given):
    """A rank is stopped in the middle of a step, and goes on once all others have given up."""
    rank = dist.get_rank()
    numbers = [0] * RANKS
    dist.all_gather_object(numbers, os.getpid())
    counts = random_counts(9, most=20_000, zero=0.0)
    rows = draw(counts, 9, width=32)
    if rank == RANKS - 3:
        threading.Timer(0.03, os.kill, [os.getpid(), signal.SIGSTOP]).start()
    begin = time.monotonic()
    said = "none"
    try:
        for _ in range(1000):
            mixnet.all_to_all(rows, counts[rank].tolist())
    except LightloomError as error:
        said = f"{type(error).__name__}: {error}"
    took = time.monotonic() - begin
    if rank == 0:
        time.sleep(1.0)
        os.kill(numbers[RANKS - 3], signal.SIGCONT)
    return [said, took]


def check_large_sum(mixnet, _given):
    """Two megabytes, whose bytes the kernel counts."""
    mine = torch.arange(500_000, dtype=torch.float32) * (dist.get_rank() + 1)
    want = torch.arange(500_000, dtype=torch.float32) * sum(range(RANKS + 1))
    assert torch.equal(mixnet.all_reduce(mine), want)
    return "equal"


def check_wrong(mixnet, _given):
    """What is wrong on one rank is said on all."""
    rank, said = dist.get_rank(), {}
    rows = torch.zeros(RANKS, 4)
    ones = [1] * RANKS
    calls = {
        "splits": (rows, ones[1:] if rank == 2 else ones),
        "sum": (rows, [2] * RANKS if rank == 3 else ones),
        "type": (rows.double() if rank == 5 else rows, ones),
        "scalar": (torch.zeros(()) if rank == 0 else rows, ones),
    }
    for name, (values, splits) in calls.items():
        try:
            mixnet.all_to_all(values, splits)
        except LightloomError as error:
            said[name] = f"{type(error).__name__}: {error}"
    return said


CHECKS = {
    name.removeprefix("check_"): function
    for name, function in list(globals().items())
    if name.startswith("check_") and name != "check_moved"
}


def begin(rank, given):
    """The process group and the collectives of a rank."""
    span = datetime.timedelta(seconds=30)
    with open(os.path.join(given.folder, f"{rank}.pid"), "w") as file:
        file.write(str(os.getpid()))
    if IS_TESTBED:
        dist.init_process_group("gloo", timeout=span)
        return MixNet.from_environment(timeout_s=given.timeout)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{given.folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS, timeout=span)
    return MixNet(
        servers(),
        controller=given.controller,
        token=os.environ.get("CONTROLLER_TOKEN", ""),
        policy=given.policy,
        timeout_s=given.timeout,
        limits=StreamLimits(stall_s=1.0, connect_s=0.5),
    )


def run(rank, given):
    torch.set_num_threads(1)
    mixnet = begin(rank, given)
    report = {}
    for name in given.checks.split(","):
        report[name] = CHECKS[name](mixnet, given)
    with open(os.path.join(given.folder, f"{rank}.json"), "w") as file:
        json.dump(report, file)
    if not {"lost", "hung"} & report.keys():
        dist.barrier()
        mixnet.close()
    sys.stdout.flush()
    os._exit(0)  # what gloo still waits for after a rank is lost is of no interest


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--checks", required=True)
    parser.add_argument("--controller")
    parser.add_argument("--policy", default="break-even")
    parser.add_argument("--timeout", type=float, default=10.0)
    parser.add_argument("--changes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=5.0)
    given = parser.parse_args()
    if IS_TESTBED:
        run(int(os.environ["RANK"]), given)
    mp.start_processes(run, args=(given,), nprocs=RANKS, start_method="fork")


if __name__ == "__main__":
    main()
