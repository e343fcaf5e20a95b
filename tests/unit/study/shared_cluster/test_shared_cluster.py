"""Several jobs on one cluster: laws of sharing, placements, and what a file of jobs may say."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.errors import InputError
from lightloom.fabric import FabricContext, mean_demand
from lightloom.simulate import simulate
from lightloom.study.compare.job import load_fabrics, prepare
from lightloom.study.compare.run import compare
from lightloom.study.compare.scenario import Scenario
from lightloom.study.shared_cluster import SharedCluster, load_jobs, share
from lightloom.study.shared_cluster.jobs_file import SharedJob, jobs_of
from lightloom.study.shared_cluster.placement import check_given, jain, place
from lightloom.study.shared_cluster.run import start_times, steps_of, undisturbed
from lightloom.workload.side_by_side import END_OF_STEP, repeated, side_by_side

PLAN = {"tp": 1, "pp": 1, "ep": 16, "micro_batches": 1, "seq_len": 1024}


#: a comparison of one sample
SINGLE = {"imbalances": False, "seeds": 1, "steps": 1, "compute_spread": 0.0}


def scenario(gpus=16, fabrics=("fat-tree",), **more):
    plan = PLAN | more.pop("plan", {})
    return Scenario(
        model="mixtral-8x7b",
        gpus=gpus,
        fabrics=fabrics,
        cluster={"rate_gbps": 100, "gpu": "h200"},
        plan=plan | {"ep": 8, "tp": 2},
        memory={"sharded": "states"},
        **more,
    )


def shared(*jobs, **more):
    named = [SharedJob(f"job {n}", job) for n, job in enumerate(jobs)]
    return SharedCluster(tuple(named), **{"placements": ("packed",), "starts": 1, **more})


@pytest.fixture(scope="module")
def step():
    job = prepare(scenario(32))
    return job, job.workload(job.samples()[0], 8).graph


def network_of(job, graph, fabric="fat-tree", gpus=None, **options):
    made = load_fabrics(scenario(job.scenario.gpus, (fabric,), fabric_options={fabric: options}))[0]
    cluster = dataclasses.replace(job.cluster, gpus=gpus or job.scenario.gpus)
    return made.network(cluster, FabricContext.of(graph, lambda: mean_demand([graph])))


@pytest.mark.parametrize("fabric", ["fat-tree", "mixnet", "topoopt"])
def test_steps_one_after_another_take_as_long_as_so_many(step, fabric):
    job, graph = step
    network = network_of(job, graph, fabric)
    single = simulate(graph, network)
    workers = [int(role.workers[0]) for role in graph.roles]
    three = simulate(repeated(graph, 3), network, timeline_workers=workers)
    assert three.step_time_s == pytest.approx(3 * single.step_time_s, rel=2e-3)
    for purpose, row in single.purpose_bytes.items():
        assert sum(three.purpose_bytes[purpose].values()) == 3 * sum(row.values())
    marks = three.timeline.category == three.timeline.categories.index(END_OF_STEP)
    lasting = marks & (three.timeline.end_s > three.timeline.start_s)
    assert lasting.sum() == 3 * len(workers)


def test_a_wait_before_the_first_step_shifts_it(step):
    job, graph = step
    network = network_of(job, graph)
    early, late = (simulate(repeated(graph, 2, start), network) for start in (0.0, 0.25))
    assert late.step_time_s - early.step_time_s == pytest.approx(0.25, abs=1e-9)


def test_a_job_alone_is_the_same_on_any_servers_of_a_tree_that_does_not_block(step):
    job, graph = step
    network = network_of(job, graph, gpus=96, ecmp=1.0, servers_per_tor=4)
    times = [
        simulate(side_by_side([graph], [np.array(servers)]), network).step_time_s
        for servers in ([0, 1, 2, 3], [4, 5, 6, 7], [11, 10, 9, 8])
    ]
    assert times == pytest.approx([times[0]] * 3, rel=1e-9)


@pytest.mark.parametrize("fabric", ["fat-tree", "oversub", "mixnet"])
def test_jobs_that_share_no_link_are_as_alone_to_the_last_byte(step, fabric):
    job, graph = step
    options = {"servers_per_tor": 4}
    both = side_by_side([graph, graph], [np.arange(4), np.arange(4, 8)])
    network = network_of(job, both, fabric, gpus=64, **options)
    alone = [
        simulate(side_by_side([graph], [servers]), network)
        for servers in (np.arange(4), np.arange(4, 8))
    ]
    together = simulate(both, network)
    assert together.step_time_s == max(run.step_time_s for run in alone)
    for purpose, row in together.purpose_bytes.items():
        for carrier, count in row.items():
            assert count == sum(run.purpose_bytes[purpose][carrier] for run in alone)


def test_the_order_of_jobs_changes_nothing(step):
    job, graph = step
    small = prepare(scenario(16))
    other = small.workload(small.samples()[0], 8).graph
    places = [np.array([0, 2, 4, 5]), np.array([1, 3])]
    network = network_of(
        job, side_by_side([graph, other], places), "oversub", 48, servers_per_tor=2
    )
    one = simulate(side_by_side([graph, other], places), network)
    two = simulate(side_by_side([other, graph], places[::-1]), network)
    assert one.step_time_s == pytest.approx(two.step_time_s, rel=1e-6)
    assert one.carried_bytes == two.carried_bytes


def test_one_job_alone_is_the_job_of_a_comparison():
    fabrics = ("oversub", "mixnet")
    job = scenario(32, fabrics)
    found = share(shared(job))
    expected = {r.fabric: r.step_time_s for r in compare(job.model_copy(update=SINGLE)).results}
    for placement in found.placements:
        single = placement.jobs[0]
        assert single.slowdown == 1.0
        assert single.together_s == pytest.approx(expected[placement.fabric], rel=5e-3)


def test_two_jobs_over_one_link_each_have_half_of_it():
    """Two jobs of two servers each, under two ToRs: their uplinks carry what one link would."""
    tight = {"oversub": {"ratio": 8, "servers_per_tor": 2}}
    job = scenario(16, ("oversub",), fabric_options=tight)
    crossing = SharedCluster((SharedJob("a", job, (0, 2)), SharedJob("b", job, (1, 3))), starts=1)
    apart = SharedCluster((SharedJob("a", job, (0, 1)), SharedJob("b", job, (2, 3))), starts=1)
    slow, fast = share(crossing).placements[0], share(apart).placements[0]
    assert fast.speed == pytest.approx(1.0, rel=1e-6)
    assert slow.jobs[0].slowdown == pytest.approx(slow.jobs[1].slowdown, rel=1e-6)
    assert 1.2 < slow.jobs[0].slowdown < 2
    assert slow.fairness == pytest.approx(1.0)
    # what is not the network takes as long: the longer part of the step is at most doubled
    added = slow.jobs[0].together_s - slow.jobs[0].alone_s
    assert added < slow.jobs[0].alone_s


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    unit=st.integers(1, 5),
    more=st.integers(0, 9),
    placement=st.sampled_from(["packed", "spread", "tor", "region"]),
)
def test_placements_give_each_job_servers_of_its_own(sizes, unit, more, placement):
    rounded = sum(-(-size // unit) * unit for size in sizes)
    placed = place(placement, sizes, rounded + more, unit)
    assert [len(servers) for servers in placed] == sizes
    every = np.concatenate(placed)
    assert len(np.unique(every)) == sum(sizes)
    assert every.max() < rounded + more
    if placement in {"tor", "region"}:
        blocks = [set((servers // unit).tolist()) for servers in placed]
        assert all(not one & other for one, other in itertools.combinations(blocks, 2))
    if placement == "spread":
        # wherever the cluster is cut, each job has its share, but for one server
        for cut in range(sum(sizes)):
            for servers, size in zip(placed, sizes, strict=True):
                share_of_cut = size * cut / sum(sizes)
                assert abs((servers < cut).sum() - share_of_cut) <= len(sizes)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_fairness_is_between_that_of_one_and_of_all(rates):
    assert 1 / len(rates) - 1e-9 <= jain(rates) <= 1 + 1e-9
    assert jain([rates[0]] * len(rates)) == pytest.approx(1)


@settings(max_examples=50)
@given(
    times=st.lists(st.floats(1.0, 9.0), min_size=1, max_size=5),
    slower=st.floats(1.0, 1.2),
    seed=st.integers(0, 99),
)
def test_steps_are_measured_while_all_train(times, slower, seed):
    steps = steps_of(times)
    starts = start_times(times, 2, seed)[1]
    alone = [
        [time * (n + 1) for n in range(count)] for time, count in zip(times, steps, strict=True)
    ]
    together = [
        [start + slower * end for end in ends] for start, ends in zip(starts, alone, strict=True)
    ]
    for measured, time in zip(undisturbed(starts, together, alone), times, strict=True):
        assert measured.together_s == pytest.approx(slower * time)
        assert measured.alone_s == pytest.approx(time)
    longest = times.index(max(times))
    assert undisturbed(starts, together, alone)[longest].steps >= 1


FILE = {
    "fabrics": ["fat-tree"],
    "cluster": {"rate_gbps": 100},
    "jobs": [{"model": "mixtral-8x7b", "gpus": 16}],
}


def jobs_table(**values):
    return FILE | {"jobs": [FILE["jobs"][0] | values]}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (FILE | {"jobs": []}, "0 jobs: expected 1 to 64"),
        (FILE | {"jobs": 3}, "jobs: expected a table [[jobs]] for each"),
        (jobs_table(copies=65), "job 1: copies = 65: expected"),
        (jobs_table(copies=0), "job 1: copies = 0: expected"),
        (jobs_table(cluster={"rate_gbps": 1}), "job 1: cluster is of the whole cluster"),
        (jobs_table(servers=[0, 1], copies=2), "copies cannot be on the same servers"),
        (jobs_table(servers=[0, 0]), "servers: 0 is there 2 times"),
        (jobs_table(network="packet"), "several jobs are simulated as flows"),
        (jobs_table(modle="x"), "modle"),
        (FILE | {"fail": ["nic:0/1"]}, "fail is of one job"),
        (FILE | {"seeds": 5}, "seeds is of one job"),
        (jobs_table(compute_spread=0.1), "compute_spread is of one job"),
        (jobs_table(designs="tuned"), "designs is of one job"),
        (FILE | {"placements": ["middle"]}, "placements"),
        (FILE | {"placements": []}, "placements: expected some of packed, spread, tor, region"),
        (FILE | {"starts": 0}, "starts = 0"),
        (
            FILE | {"jobs": [FILE["jobs"][0] | {"servers": [0, 1]}, FILE["jobs"][0]]},
            "has servers, others have none",
        ),
    ],
)
def test_wrong_files_are_one_line(tmp_path, values, message):
    with pytest.raises(InputError) as raised:
        jobs_of(values, "jobs.toml", tmp_path)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_jobs_have_what_is_common_and_what_is_their_own(tmp_path):
    path = tmp_path / "jobs.toml"
    path.write_text(
        'fabrics = ["fat-tree"]\nstarts = 2\n[cluster]\nrate_gbps = 100\n'
        "[plan]\nmicro_batches = 4\n"
        '[[jobs]]\nmodel = "mixtral-8x7b"\ngpus = 16\ncopies = 2\n'
        '[[jobs]]\nname = "big"\nmodel = "mixtral-8x7b"\ngpus = 32\nplan.seq_len = 2048\n'
    )
    read = load_jobs(path)
    assert [job.name for job in read.jobs] == ["mixtral-8x7b (1)", "mixtral-8x7b (2)", "big"]
    assert [job.scenario.plan.micro_batches for job in read.jobs] == [4, 4, 4]
    assert [job.scenario.plan.seq_len for job in read.jobs] == [None, None, 2048]
    assert read.starts == 2


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        ([(0,), (1,)], "job 1: 1 servers are given: expected 2"),
        ([(0, 9), (1,)], "job 1: server 9: the cluster has 3"),
        ([(0, 1), (1,)], "jobs 1 and 2 both have server 1"),
    ],
)
def test_wrong_servers_are_one_line(servers, message):
    with pytest.raises(InputError, match=message):
        check_given(servers, [2, 1], 3)


def test_a_cluster_that_is_too_small_is_refused():
    jobs = shared(scenario(16), scenario(16), gpus=24)
    with pytest.raises(InputError, match="jobs need 4 servers of 8 GPUs on fat-tree, the cluster"):
        share(jobs)
    with pytest.raises(InputError, match="placement tor: jobs need"):
        share(dataclasses.replace(jobs, gpus=32, placements=("tor",)))


def test_jobs_that_divide_servers_in_other_ways_are_refused(step):
    _, graph = step
    other = dataclasses.replace(graph, gpus_per_worker=4)
    with pytest.raises(InputError, match="groups of 4 and 8 GPUs: expected the same"):
        side_by_side([graph, other], [np.arange(4), np.arange(4, 8)])
