"""Comparisons: what samples mean, what is tied, what is refused before anything runs."""

import dataclasses
import statistics

import numpy as np
import pytest

from lightloom.errors import DemandError, FabricError, HardwareError, InputError
from lightloom.fabric.context import job_context
from lightloom.progress import Monitor
from lightloom.study.compare import (
    ClusterOptions,
    DemandOptions,
    PacketOptions,
    PlanOptions,
    Sample,
    compare,
    costs,
    summary,
)
from lightloom.study.compare.builds import Networks, Workloads, size_of
from lightloom.study.compare.job import ModelJob, prepare
from lightloom.study.compare.results import SAME
from lightloom.study.compare.runner import timeline_workers


class Rows(Monitor):
    def __init__(self):
        self.rows, self.shares = [], []

    def progress(self, share, what=""):
        self.shares.append(share)
        assert what

    def finished(self, row):
        self.rows.append(row)


def test_samples_are_seeds_x_steps_and_two_speeds(scenario):
    job = prepare(scenario(seeds=2, steps=2, seed=5, compute_spread=0.1))
    assert job.samples() == [
        Sample(5, 0),
        Sample(5, 0, pytest.approx(1 / 1.1)),
        Sample(5, 0, pytest.approx(1 / 0.9)),
        Sample(5, 1),
        Sample(6, 0),
        Sample(6, 1),
    ]
    assert len(prepare(scenario(seeds=2, compute_spread=0.0)).samples()) == 2


def test_step_time_is_the_mean_of_nominal_samples(comparison):
    samples = comparison.inputs["samples"]
    for result in comparison.results:
        pairs = list(zip(result.sample_step_times_s, samples, strict=True))
        nominal = [time for time, sample in pairs if sample["compute_scale"] == 1.0]
        assert len(nominal) == 2
        assert result.step_time_s == pytest.approx(statistics.fmean(nominal))
        assert result.step_time_low_s == min(result.sample_step_times_s)
        assert result.step_time_high_s == max(result.sample_step_times_s)
        tokens = comparison.inputs["tokens_per_step"]
        assert result.tokens_per_s == pytest.approx(tokens / result.step_time_s)


def test_a_scale_below_one_is_a_faster_gpu(comparison):
    samples = comparison.inputs["samples"]
    times = comparison.results[0].sample_step_times_s
    by_scale = {s["compute_scale"]: t for t, s in zip(times[:3], samples[:3], strict=True)}
    fast, nominal, slow = (by_scale[scale] for scale in sorted(by_scale))
    assert fast < nominal < slow
    # communication does not scale, so the step changes by less than compute does
    assert 0.9 < fast / nominal < 1
    assert 1 < slow / nominal < 1 / 0.9


def test_breakdowns_sum_to_the_step(comparison):
    for result in comparison.results:
        for parts in (result.critical_path_s, result.mean_s):
            assert sum(parts.values()) == pytest.approx(result.step_time_s, rel=1e-9)


def test_what_a_sample_lacks_is_nothing_there():
    assert summary._mean([{"ep": 2.0, "dp": 1.0}, {"ep": 4.0}, {}, {}]) == {"ep": 1.5, "dp": 0.25}


def test_ties_and_paired_ratios(comparison):
    fastest = min(comparison.results, key=lambda r: r.step_time_s)
    assert fastest.ratio_to_fastest == (1.0, 1.0, 1.0)
    for result in comparison.results:
        low, ratio, high = result.ratio_to_fastest
        assert ratio == pytest.approx(result.step_time_s / fastest.step_time_s)
        pairs = zip(result.sample_step_times_s, fastest.sample_step_times_s, strict=True)
        ratios = [mine / best for mine, best in pairs]
        assert (low, high) == (min(ratios), max(ratios))
        assert result.tied_with_fastest == (low <= 1 or ratio < SAME)


@pytest.mark.parametrize(
    ("times", "tied"),
    [
        ((1.0, 2.0, 3.0), True),
        # no slower on one sample
        ((1.1, 2.0, 3.3), True),
        ((1.2, 1.9, 3.3), True),
        ((1.01, 2.02, 3.03), False),
        # nearer than a simulation resolves, in the mean
        ((1.004, 2.008, 3.012), True),
        ((1.006, 2.012, 3.018), False),
    ],
)
def test_a_tie_is_no_slower_on_a_sample_or_near_in_the_mean(comparison, times, tied):
    first, second = (
        dataclasses.replace(result, sample_step_times_s=own, step_time_s=statistics.fmean(own))
        for result, own in zip(comparison.results, ((1.0, 2.0, 3.0), times), strict=True)
    )
    for results in ([first, second], [second, first]):
        found = {one.fabric: one for one in summary._with_ties(results)}
        assert found[first.fabric].tied_with_fastest
        assert found[second.fabric].tied_with_fastest is tied
        low, ratio, high = found[second.fabric].ratio_to_fastest
        ratios = [mine / best for mine, best in zip(times, (1.0, 2.0, 3.0), strict=True)]
        assert (low, high) == (min(ratios), max(ratios))
        assert ratio == pytest.approx(statistics.fmean(times) / 2)


@pytest.mark.parametrize(
    ("free", "message"),
    [
        ("capital_cost", "would cost nothing, so that its performance per dollar is undefined"),
        ("power", "would take no power, so that its performance per watt is undefined"),
    ],
)
def test_a_network_for_nothing_has_no_performance_per_dollar_or_watt(
    scenario, monkeypatch, free, message
):
    whole = getattr(costs.PartsCostModel, free)

    def none(model, bill, rates):
        return whole(model, dataclasses.replace(bill, lines=()), rates)

    monkeypatch.setattr(costs.PartsCostModel, free, none)
    with pytest.raises(HardwareError, match=message):
        prepare(scenario())


def test_the_papers_cost_is_noted_where_it_is_another_one(scenario):
    """Two tiers carry 128 GPUs; the paper charges three whatever the size."""
    changes = {"seeds": 1, "compute_spread": 0.0, "imbalances": False, "policies": False}

    def notes(**counting):
        found = compare(scenario(counting=counting, fabrics=("fat-tree",), **changes)).results[0]
        return [note for note in found.notes if "by the MixNet paper's counting" in note]

    (note,) = notes()
    assert note.startswith("by the MixNet paper's counting the network costs $")
    assert notes(tiers=3) == []


@pytest.mark.parametrize(("seeds", "averaged"), [(1, [0]), (3, [0, 1, 2]), (7, [0, 2, 4, 6])])
def test_a_fixed_topology_knows_the_mean_of_up_to_four_samples(scenario, seeds, averaged):
    job = prepare(scenario(seeds=seeds, compute_spread=0.1))
    workloads = Workloads(job)
    nominal = [Sample(job.scenario.seed + seed, 0) for seed in averaged]
    expected = job_context(workloads.get(sample, 8).graph for sample in nominal)
    found = Networks(job, workloads).context(job.fabrics[0])
    assert np.array_equal(found.mean().demand_bytes, expected.mean().demand_bytes)


@pytest.mark.parametrize(("fabric", "built"), [("mixnet", 1), ("fat-tree", 4), ("topoopt", 4)])
def test_samples_are_built_for_their_mean_only_where_a_fabric_looks_at_it(
    scenario, monkeypatch, fabric, built
):
    # the packet fabric looks at how even the ranks of a server are
    job = prepare(scenario(seeds=4, fabrics=(fabric,)))
    workloads, used = Workloads(job), set()
    get = workloads.get
    monkeypatch.setattr(workloads, "get", lambda *of: used.add(of) or get(*of))
    networks = Networks(job, workloads)
    networks.get(job.fabrics[0])
    assert (len(used), networks.is_averaged) == (built, built > 1)


def test_what_a_later_sample_lacks_is_refused_before_anything_runs(scenario, monkeypatch):
    def workload(job, sample, size):
        if sample.seed > 0:
            raise DemandError("rank 3 is missing")
        return build(job, sample, size)

    build, rows = ModelJob.workload, Rows()
    monkeypatch.setattr(ModelJob, "workload", workload)
    monkeypatch.setattr(ModelJob, "is_drawn", False)
    with pytest.raises(DemandError, match="rank 3 is missing"):
        compare(scenario(fabrics=("mixnet",), seeds=2), monitor=rows)
    assert rows.rows == []


def test_servers_of_another_size_have_a_context_of_their_own(scenario):
    options = {"mixnet": {"gpus_per_server": 16, "nics_per_server": 16}}
    job = prepare(scenario(fabric_options=options, seeds=1, compute_spread=0.0))
    networks = Networks(job, Workloads(job))
    servers = [
        len(set(networks.context(fabric).layout.worker_server.tolist())) for fabric in job.fabrics
    ]
    assert servers == [128 // 8, 128 // 16]


def test_equal_scenarios_have_equal_results(scenario, comparison):
    again = compare(scenario())
    for one, other in zip(comparison.results, again.results, strict=True):
        assert dataclasses.replace(one, simulation_wall_s=0) == dataclasses.replace(
            other, simulation_wall_s=0
        )


def test_fabrics_do_not_depend_on_their_company(scenario, comparison):
    alone = compare(scenario(fabrics=("mixnet",))).result("mixnet")
    among = comparison.result("mixnet")
    assert alone.run_hash == among.run_hash
    assert alone.sample_step_times_s == among.sample_step_times_s


def test_another_seed_gives_another_demand(scenario, comparison):
    other = compare(scenario(fabrics=("fat-tree",), seed=77, seeds=1))
    assert other.results[0].run_hash != comparison.results[0].run_hash


def test_rows_and_progress(scenario):
    rows = Rows()
    result = compare(scenario(), monitor=rows)
    # 2 fabrics x 4 samples, and other settings on the first sample
    variants = {
        (each.fabric, name): seconds
        for each in result.results
        for name, seconds in each.variants_s.items()
    }
    assert ("mixnet", "first=reuse") in variants
    assert ("fat-tree", "all_to_all=rail") in variants
    own = [row for row in rows.rows if not row["imbalance"]]
    assert len(own) == 2 * 4 + len(variants)
    by_variant = {
        (row["fabric"], row["variant"]): row["step_time_s"] for row in own if row["variant"]
    }
    assert by_variant == variants
    loads = {
        (row["fabric"], row["imbalance"]): row["step_time_s"]
        for row in rows.rows
        if row["imbalance"] and not row["variant"]
    }
    for each in result.results:
        names = ("balanced", "skewed", "learned early", "learned late")
        assert {name: loads[each.fabric, name] for name in names} == {
            load.imbalance: load.step_time_s for load in each.loads
        }
        assert each.load("balanced").step_time_s < each.step_time_s
        assert each.step_time_s < each.load("skewed").step_time_s
    assert rows.shares[0] == 0
    assert rows.shares[-1] == pytest.approx(1)
    for row in own:
        if not row["variant"]:
            times = result.result(row["fabric"]).sample_step_times_s
            assert row["step_time_s"] in times


def test_timelines_only_if_asked(scenario):
    recorded = compare(scenario(seeds=1, fabrics=("mixnet",)), with_timeline=True)
    done = recorded.details["runs"]["mixnet"]
    workers = timeline_workers(recorded.details["workload"])
    assert set(done.run.timeline.worker.tolist()) == set(workers)
    plain = compare(scenario(seeds=1, fabrics=("mixnet",)))
    assert plain.details["runs"]["mixnet"].run.timeline.worker.size == 0
    assert plain.results[0].run_hash == recorded.results[0].run_hash


class Never(Monitor):
    """Must not hear of any run."""

    def finished(self, row):
        raise AssertionError(row)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"fabric_options": {"mixnet": {"region_servers": 1000}}}, FabricError),
        ({"cluster": ClusterOptions(rate_gbps=50)}, HardwareError),
        ({"network": "packet", "packets": PacketOptions(transport="tcp")}, FabricError),
        ({"packets": PacketOptions()}, InputError),
        ({"fabric_options": {"rail": {"rate_gbps": 100}}}, FabricError),
        ({"counting": {"tiers": 9}}, FabricError),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(scenario, changes, error):
    with pytest.raises(error):
        compare(scenario(**changes), monitor=Never())


def test_an_interrupt_stops_running_simulations(scenario):
    class Interrupt(Rows):
        def finished(self, row):
            super().finished(row)
            raise KeyboardInterrupt

    rows = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        compare(scenario(seeds=50), monitor=rows)
    assert len(rows.rows) == 1


def test_a_matrix_is_one_sample(scenario, tmp_path):
    path = tmp_path / "m.txt"
    path.write_text(str([[8192] * 8] * 8))
    demand = DemandOptions(source=str(path), scale=True)
    job = prepare(scenario(demand=demand, seeds=3, steps=2, compute_spread=0.0))
    assert job.samples() == [Sample(0, 0)]
    result = compare(job.scenario)
    line = next(line for line in result.inputs["summary"] if line.startswith("demand: "))
    assert line.endswith("1 sample per fabric: 1 seed x 1 step, the same for every seed and step")


def test_a_dense_model_has_no_demand(scenario):
    dense = scenario(model="llama-3-405b", gpus=256, seeds=3, plan=PlanOptions(micro_batches=4))
    result = compare(dense)
    assert result.demand == {}
    assert result.traffic_shares["ep"] == 0
    assert len(result.inputs["samples"]) == 3
    assert all(r.critical_path_s["ep"] == 0 for r in result.results)


def test_costs_of_a_partly_used_last_server(scenario):
    job = prepare(scenario(model="olmoe-1b-7b", gpus=4, plan=PlanOptions(tp=1, pp=1, ep=4, dp=1)))
    whole = prepare(scenario(model="olmoe-1b-7b", gpus=8, plan=PlanOptions(tp=1, pp=1, ep=8, dp=1)))
    assert job.costs["fat-tree"].cluster.gpus_usd == whole.costs["fat-tree"].cluster.gpus_usd
    assert job.costs["fat-tree"].network.total_usd == whole.costs["fat-tree"].network.total_usd


def test_counting_options_change_the_cost(scenario):
    plain, copper = (
        prepare(scenario(counting=counting)).costs["fat-tree"].network
        for counting in ({}, {"host_links": "dac"})
    )
    assert copper.total_usd < plain.total_usd
    assert copper.conventions["host links"] == "dac"


def test_workloads_at_other_speeds_share_the_demand(scenario):
    job = prepare(scenario())
    workloads = Workloads(job)
    nominal = workloads.get(Sample(0, 0), 8)
    slow = workloads.get(Sample(0, 0, 1.25), 8)
    assert slow.graph.demands[0].counts is nominal.graph.demands[0].counts
    fresh = job.workload(Sample(0, 0, 1.25), 8)
    assert (fresh.graph.tables[0].values == slow.graph.tables[0].values).all()
    assert workloads.get(Sample(0, 0), 8) is nominal
    (demand,) = nominal.graph.demands
    shared = demand.counts.nbytes + demand.rank_counts.nbytes
    assert size_of(nominal, slow) == size_of(nominal) + size_of(slow) - shared


def test_old_workloads_are_given_up(scenario, monkeypatch):
    monkeypatch.setattr("lightloom.study.compare.builds.KEPT_BYTES", 1)
    workloads = Workloads(prepare(scenario()))
    first = workloads.get(Sample(0, 0), 8)
    workloads.get(Sample(1, 0), 8)
    assert workloads.get(Sample(0, 0), 8) is not first


def test_networks_are_planned_once(scenario):
    job = prepare(scenario())
    networks = Networks(job, Workloads(job))
    fabric = job.fabrics[1]
    assert networks.get(fabric) is networks.get(fabric)
    assert networks.get(fabric) is not networks.get(fabric.replace(first="block"))
