"""A backup GPU in a task graph: what crosses to it, what it costs, what stays as it was."""

import numpy as np
import pytest

from lightloom.errors import InputError
from lightloom.fabric.network import Eps, Network, NvSwitch
from lightloom.simulate import simulate
from lightloom.workload.backup_gpu import BackupGpu, backup_traffic, with_backup_gpu
from lightloom.workload.builder import Block, Entry, TaskGraphBuilder
from lightloom.workload.task_graph import Collective, Kind

#: of the NVSwitch and of each NIC
INSIDE_BPS, NIC_BPS = 800 * 10**9, 100 * 10**9
MEGABYTE = 10**6


def step(*, inside=8 * MEGABYTE, tokens=((0, 4), (2, 0)), servers=2):
    """Two servers of one worker of four GPUs: tensor parallelism, then an all-to-all."""
    builder = TaskGraphBuilder(range(servers), gpus_per_worker=4)
    group = builder.family("ep", [range(servers)])
    demand = builder.demand("tokens", group, np.array(tokens, np.uint32)[None, None])
    worker = builder.role("worker", range(servers))
    worker.inside(inside, "tp", peers=3)
    worker.compute("expert", 1e-3)
    worker.all_to_all(group, Block(demand, 0, MEGABYTE), "ep", layer=5)
    return builder.build()


def network(servers=2):
    return Network(
        servers=servers,
        gpus_per_server=4,
        nvswitch=NvSwitch(gpu_rate_bps=INSIDE_BPS, latency_ps=0),
        all_to_all="hierarchical",
        parts=(
            Eps(
                nics=1,
                nic_rate_bps=NIC_BPS,
                link_delay_ps=0,
                servers_per_tor=servers,
                servers_per_pod=servers,
            ),
        ),
    )


def seconds(graph):
    return simulate(graph, network()).step_time_s


def with_backup(graph, server=0, gpu=1, path_bps=NIC_BPS):
    return with_backup_gpu(graph, BackupGpu(server, gpu, path_bps), INSIDE_BPS)


def test_traffic_is_that_of_one_gpu():
    traffic = backup_traffic(step(), 0, 1)
    # 8 MB inside, and a quarter of the 4 MB that the worker sends
    assert traffic.crossing == 9 * MEGABYTE
    assert traffic.all_to_all == 4 * MEGABYTE


def test_a_backup_takes_the_time_that_its_bytes_take_on_the_path():
    graph = step()
    # 8 MB at 100 Gb/s instead of 800 Gb/s, and 1 MB more; the rest as before
    added_s = 640e-6 - 80e-6 + 80e-6
    assert seconds(with_backup(graph)) - seconds(graph) == pytest.approx(added_s, rel=1e-6)


def test_a_faster_path_costs_less_but_never_less_than_the_nvswitch():
    graph = step(tokens=((0, 0), (0, 0)))
    paths = [NIC_BPS, 2 * NIC_BPS, INSIDE_BPS, 4 * INSIDE_BPS]
    times = [seconds(with_backup(graph, path_bps=path)) for path in paths]
    assert times[0] > times[1] > times[2] == times[3] == pytest.approx(seconds(graph))


def test_bytes_are_counted_once():
    graph = step()
    healthy, failed = (
        simulate(workload, network()).purpose_bytes for workload in (graph, with_backup(graph))
    )
    assert healthy == failed


def test_only_the_worker_of_the_gpu_is_slower():
    graph = step()
    replaced = with_backup(graph, server=1, gpu=3)
    per_gpu, total = replaced.tables[-2:]
    assert per_gpu.values[0].tolist() == [8 * MEGABYTE, 0]
    assert per_gpu.values[1].tolist() == [64 * MEGABYTE, 8 * MEGABYTE]
    assert total.values.tolist() == [[32 * MEGABYTE, 0]] * 2


def test_the_share_comes_before_the_all_to_all_in_its_place():
    program = with_backup(step()).roles[0].program
    kinds = [Kind.COLLECTIVE, Kind.COMPUTE, Kind.COLLECTIVE, Kind.COLLECTIVE]
    assert program.kind.tolist() == kinds
    assert program.collective[2:].tolist() == [Collective.ALL_REDUCE, Collective.ALL_TO_ALL]
    assert program.layer[2] == program.layer[3] == 5


def test_numbers_of_each_worker_are_kept():
    builder = TaskGraphBuilder(range(2), gpus_per_worker=4)
    table = builder.table("inside", np.array([[3], [5]]) * MEGABYTE)
    total = builder.table("all", np.array([[9], [11]]) * MEGABYTE)
    builder.role("worker", range(2)).inside(Entry(table, 0), "tp", total=Entry(total, 0))
    replaced = with_backup(builder.build())
    assert replaced.tables[-2].values.tolist() == [[24 * MEGABYTE], [5 * MEGABYTE]]
    assert replaced.tables[-1].values.tolist() == [[9 * MEGABYTE], [11 * MEGABYTE]]


def test_ranks_have_their_own_share():
    builder = TaskGraphBuilder(range(2), gpus_per_worker=2)
    group = builder.family("ep", [range(2)])
    ranks = np.zeros((1, 1, 4, 4), np.uint32)
    ranks[0, 0, 1] = [7, 1, 20, 30]
    members = np.array([[7, 50], [0, 0]], np.uint32)[None, None]
    demand = builder.demand("tokens", group, members, ranks_per_member=2, rank_counts=ranks)
    worker = builder.role("worker", range(2))
    worker.all_to_all(group, Block(demand, 0, 10), "ep")
    worker.all_to_all(group, Block(demand, 0, 10, transposed=True), "ep")
    graph = builder.build()
    # what a rank sends to all others, those of its server included, in each of two all-to-alls
    assert backup_traffic(graph, 0, 1).crossing == 2 * 570
    assert backup_traffic(graph, 0, 0).crossing == 2 * 70
    assert backup_traffic(graph, 0, 1).all_to_all == 500


@pytest.mark.parametrize(("server", "gpu"), [(2, 0), (0, 4)])
def test_a_gpu_that_the_job_does_not_use_is_refused(server, gpu):
    with pytest.raises(InputError, match=rf"^gpu:{server}/{gpu}: the job does not use this GPU$"):
        backup_traffic(step(), server, gpu)
