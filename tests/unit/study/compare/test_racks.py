"""Racks of which a job uses some GPUs: which jobs do, as fast as what, at what cost."""

import pytest

from lightloom.errors import InputError, PlanError
from lightloom.models import load_model
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario, compare
from lightloom.study.compare.job import prepare
from lightloom.study.compare.racks import with_servers
from lightloom.study.compare.summary import summary_of


def scenario(gpus=128, size=72, nics=None, spares=None, **plan):
    return Scenario(
        model="olmoe-1b-7b",
        gpus=gpus,
        fabrics=("fat-tree",),
        cluster=ClusterOptions(
            rate_gbps=400,
            gpu="gb200",
            gpus_per_server=size,
            nics_per_server=nics,
            spare_gpus_per_server=spares,
        ),
        plan=PlanOptions(**{"tp": 1, "pp": 1, "ep": 32, "micro_batches": 2, **plan}),
        seeds=1,
        compute_spread=0.0,
        imbalances=False,
    )


@pytest.mark.parametrize(
    ("gpus", "size", "ep", "spares"),
    [
        # as published: 64 of each rack
        (128, 72, 32, 8),
        (256, 72, 64, 8),
        # full racks, whose groups are of 8, or of two racks
        (144, 72, 8, 0),
        (576, 72, 8, 0),
        (576, 72, 32, 8),
        # as many GPUs of each of as few racks as there can be
        (320, 72, 32, 8),
        (200, 72, 2, 22),
        (96, 72, 16, 24),
        # one rack in part, servers of a power of two, and jobs that fill neither
        (64, 72, 32, 0),
        (128, 8, 32, 0),
        (130, 72, 2, 0),
    ],
)
def test_gpus_are_left_idle_where_groups_would_not_divide_servers(gpus, size, ep, spares):
    found = with_servers(scenario(gpus, size, ep=ep), load_model("olmoe-1b-7b"))
    assert found.cluster.spare_gpus_per_server == spares
    assert with_servers(found, load_model("olmoe-1b-7b")) == found


def test_what_is_given_stands():
    given = scenario(144, spares=40, ep=2)
    assert with_servers(given, load_model("olmoe-1b-7b")).cluster.spare_gpus_per_server == 40
    with pytest.raises(PlanError, match="144 GPUs do not fill servers of 32; use 160 GPUs"):
        prepare(given)
    with pytest.raises(InputError, match="leaves no GPU of a server's 72; expected fewer"):
        ClusterOptions(rate_gbps=400, gpus_per_server=72, spare_gpus_per_server=72)


def test_the_published_groups_count_unless_a_plan_is_searched():
    """DeepSeek-V3 was published with EP 64 and PP 16."""
    model = load_model("deepseek-v3")
    own = scenario(9216, ep=None, tp=None, pp=None)
    assert with_servers(own, model).cluster.spare_gpus_per_server == 8
    searched = scenario(9216, ep=None, tp=None, pp=None, source="search")
    assert with_servers(searched, model).cluster.spare_gpus_per_server == 0
    # where it cannot be scaled to the GPUs, it says nothing of them
    other = scenario(1152, ep=None, tp=None, pp=None)
    assert with_servers(other, model).cluster.spare_gpus_per_server == 0


def test_steps_are_those_of_smaller_servers_and_costs_those_of_whole_ones():
    with_idle = compare(scenario()).result("fat-tree")
    small = compare(scenario(size=64)).result("fat-tree")
    whole = compare(scenario(144, ep=8)).result("fat-tree")
    assert with_idle.step_time_s == small.step_time_s
    for name in ("network_cost_usd", "cluster_cost_usd", "network_power_w", "cluster_power_w"):
        assert getattr(with_idle, name) == getattr(whole, name) > getattr(small, name)


def test_nics_of_idle_gpus_are_not_used():
    assert prepare(scenario(nics=36)).cluster.nics_per_server == 32
    # which are shared unevenly
    assert prepare(scenario(nics=10)).cluster.nics_per_server == 10


def test_spares_are_said():
    line = "72 NICs of 400 Gb/s per 72-GPU server, of which 64 GPUs are used and 8 are spares: "
    assert any(
        f"{line}2 servers, 144 GPUs bought" in one for one in summary_of(prepare(scenario()))
    )
    full = summary_of(prepare(scenario(144, ep=8)))
    assert any(one.endswith("72 NICs of 400 Gb/s per 72-GPU server") for one in full)


def test_jobs_that_fill_no_racks_are_told_how_many_gpus_would():
    advice = ", or a multiple of 64, to use 64 of each server"
    with pytest.raises(PlanError, match=f"fill servers of 72; use 144 GPUs{advice}"):
        prepare(scenario(130, ep=2))
    with pytest.raises(PlanError, match=f"make it a divisor or a multiple of 72{advice}"):
        prepare(scenario(144, spares=0, ep=16))


def test_a_gpu_comes_in_its_own_servers():
    def made(gpus=256, **cluster):
        found = with_servers(
            Scenario(model="deepseek-v3", gpus=gpus, cluster={"rate_gbps": 400, **cluster}),
            load_model("deepseek-v3"),
        ).cluster
        return found.gpus_per_server, found.nics_per_server, found.spare_gpus_per_server

    assert made(gpu="gb200") == made(gpu="gb300") == (72, 72, 8)
    assert made(gpu="gb200", gpus_per_server=64) == (64, 64, 0)
    assert made(gpu="gb200", gpus_per_server=4, nics_per_server=2) == (4, 2, 0)
    assert made(gpu="b200") == (8, 8, 0)
    assert made(gpu="h100", gpus_per_server=4) == (4, 4, 0)
    assert made(gpu="gb200", spare_gpus_per_server=0) == (72, 72, 0)
    with pytest.raises(InputError, match="leaves no GPU of a server's 8"):
        made(gpu="h100", spare_gpus_per_server=8)


def test_a_file_of_a_gpu_may_say_its_servers(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text('like = "gb300"\nnics_per_server = 36\n')
    own = Scenario(model="olmoe-1b-7b", gpus=128, cluster={"rate_gbps": 400, "gpu": str(path)})
    found = with_servers(own, load_model("olmoe-1b-7b")).cluster
    assert (found.gpus_per_server, found.nics_per_server) == (72, 36)


def test_a_rack_that_is_used_in_part_and_groups_inside_racks_are_said():
    alone = summary_of(prepare(scenario(8, size=None, ep=8)))
    assert "8 NVIDIA GB200 186GB NVL72 GPUs, 72 NICs of 400 Gb/s per 72-GPU server; 72 GPUs are" \
        " bought, since servers are bought whole" in alone  # fmt: skip
    inside = "EP groups of 32 GPUs are inside servers: no all-to-all of experts leaves them"
    assert inside in summary_of(prepare(scenario()))
    assert inside not in alone
    wide = summary_of(prepare(scenario(size=16, ep=32)))
    assert not any(line.startswith("EP groups") for line in wide)
