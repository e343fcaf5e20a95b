"""Clusters by name, from a file and from a GPU; wrong ones are one line."""

import tomllib
from importlib import resources

import pytest

from lightloom.errors import InputError
from lightloom.planner.choose import choose_strategies
from lightloom.planner.cluster import derived_cluster, load_cluster
from lightloom.planner.scenario import AllToAllScenario

#: of the clusters that the package has
NAMES = tomllib.loads(
    resources.files("lightloom.planner").joinpath("data/clusters.toml").read_text()
)

FILE = """
title = "Ours"
gpus = 64
gpus_per_server = 8
grouped_gather = 0.1

[all_to_all]
sizes_bytes = [0, 1e6, 1e8]
times_s = ["50 us", "90 us", "2.1 ms"]
source = "measured on 2026-11-20"

[within]
start_up_s = "30 us"
rate_gbps = 2700

[gather]
start_up_s = "33 us"
rate_gbps = "2.8 Tbit/s"

[copy]
rate_gbps = 10000
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(FILE)
    return path


def test_every_packaged_cluster_says_where_its_curves_are_from():
    for name in NAMES:
        cluster = load_cluster(name)
        curves = (cluster.all_to_all, cluster.within, cluster.gather, cluster.copy_)
        assert all(curve.source != "given" for curve in curves)


def test_only_one_cluster_has_penalties():
    """They are fitted to a published choice, and belong to no other cluster."""
    fitted = [name for name in NAMES if load_cluster(name).penalties.copy_s]
    assert fitted == ["a800x16"]
    assert "fitted" in load_cluster("a800x16").penalties.source
    assert derived_cluster(gpu="h100", rate_gbps=400, tp=8, ep=8).penalties.copy_s == 0


def test_a_file_of_measured_times(path):
    cluster = load_cluster(str(path))
    assert cluster.all_to_all.time_s(5e5) == pytest.approx(70e-6)
    assert cluster.gather.rate_gbps == 2800
    rows = choose_strategies(
        AllToAllScenario(cluster=str(path), hidden=4096, tp=8, ep=8, seq=(4096, 65536))
    )
    assert [row.seq for row in rows] == [4096, 65536]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[copy]", "[copies]", "unknown key 'copies'"),
        ("rate_gbps = 2700", "rate_gbps = -1", "within.rate_gbps"),
        ('"90 us"', '"10 us"', "expected times_s that do not fall as sizes grow"),
        ("[0, 1e6, 1e8]", "[0, 1e8, 1e6]", "expected sizes_bytes that ascend"),
        ("rate_gbps = 2700", "", "expected rate_gbps, or sizes_bytes with times_s"),
    ],
)
def test_wrong_files_are_one_line(path, old, new, message):
    path.write_text(FILE.replace(old, new))
    with pytest.raises(InputError) as error:
        load_cluster(str(path))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": "a800x61", "hidden": 8}, "unknown cluster 'a800x61'; did you mean 'a800x16'"),
        ({"hidden": 8}, "where it runs is missing"),
        ({"cluster": "a800x16"}, "how many bytes a token has is missing"),
        ({"cluster": "a800x16", "hidden": 8, "tp": 3}, "expected a divisor of the 8 GPUs"),
        ({"cluster": "a800x16", "hidden": 8, "ep": 3}, "expected a divisor of 2"),
        ({"cluster": "a800x16", "hidden": 8, "ep": 1}, "expected 2 or more"),
        ({"cluster": "a800x16", "hidden": 8, "gpu": "h100"}, "leave --gpu and --rate out"),
        ({"cluster": "a800x16", "model": "mixtral-8x7b", "demand": 9.0}, "from 1 to the 2 ranks"),
        ({"gpu": "h100", "rate_gbps": 400, "model": "mixtral-8x7b", "ep": 3}, "the 8 experts"),
        ({"gpu": "h100", "rate_gbps": 400, "model": "llama-3-70b"}, "has no experts"),
        ({"cluster": "a800x16", "hidden": 8, "seq": ("4Q",)}, "such as 8192, 128K or 1M"),
        ({"cluster": "a800x16", "hidden": 8, "chunks": 0}, "expected auto, or a number from 1 to"),
        ({"cluster": "a800x16", "hidden": 8, "chunks": 1025}, "--chunks 1025: expected auto"),
        ({"cluster": "a800x16", "hidden": 8, "chunks": "many"}, "--chunks many: expected auto"),
    ],
)
def test_wrong_options_are_one_line(options, message):
    with pytest.raises(InputError) as error:
        choose_strategies(AllToAllScenario(**options))
    assert message in str(error.value)


def test_a_matrix_says_who_sends_to_whom(tmp_path):
    matrix = tmp_path / "demand.csv"
    matrix.write_text("10,30\n30,10\n")
    scenario = AllToAllScenario(cluster="a800x16", hidden=8192, seq=(8192,), demand=str(matrix))
    balanced, given = choose_strategies(scenario)
    # three quarters leave in place of half
    ratio = given.traffic["baseline"].between_bytes / balanced.traffic["baseline"].between_bytes
    assert ratio == pytest.approx(1.5)


def test_bytes_of_a_token_come_from_the_model_unless_given():
    of_model = AllToAllScenario(model="mixtral-8x7b", cluster="a800x16")
    assert of_model.token_bytes == 4096 * 2 * 2
    assert AllToAllScenario(hidden=8192, cluster="a800x16").token_bytes == 32768
    given = AllToAllScenario(bytes_per_token="31250 B", hidden=8192, cluster="a800x16")
    assert given.token_bytes == 31_250
    assert AllToAllScenario(seq="4K,1M", cluster="a800x16").seq == (4096, 2**20)
