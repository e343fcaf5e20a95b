"""All-to-alls of PyTorch by every strategy, on gloo: bit-equal, fewer bytes, one clear error."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent, in_soak

from lightloom.planner.choose import choose_strategies
from lightloom.planner.cluster import load_cluster
from lightloom.planner.scenario import AllToAllScenario

PROGRAM = Path(__file__).with_name("rows.py")
PACKAGE = Path(__file__).parents[3] / "python"
#: ranks talk over loopback, whatever the machine is called
ENVIRONMENT = {
    "PYTHONPATH": str(PACKAGE),
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "GLOO_SOCKET_IFNAME": "lo",
}

if absent("torch", "numpy"):
    pytest.skip("no PyTorch: make torch", allow_module_level=True)


def run(*words: str | Path) -> None:
    """Run a program with PyTorch."""
    run = subprocess.run(
        [PYTHON, *words],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]


def reports(folder: Path, tp: int, ep: int, checks: str) -> list[dict]:
    """What each rank says."""
    run(PROGRAM, "--tp", str(tp), "--ep", str(ep), "--checks", checks, "--folder", folder)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(tp * ep)]


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    """Every check on 2 EP ranks of 2 TP ranks."""
    checks = "replicated,sharded,shapes,refused,bytes,compiled,second,auto,wrong,asked,lost"
    return reports(tmp_path_factory.mktemp("ranks"), 2, 2, checks)


@pytest.mark.parametrize("check", ["replicated", "sharded", "shapes"])
def test_rows_and_gradients_are_those_of_plain_collectives(four, check):
    assert [report[check] for report in four] == ["equal"] * 4


def test_rows_between_ep_ranks_fall_to_one_in_tp(four):
    for report in four:
        whole = report["sent"]["baseline"]
        for strategy in ("O1", "O2", "O3", "O4"):
            assert report["sent"][strategy] == pytest.approx(whole / 2, rel=0.02)


def test_sums_over_tp_ranks_have_the_type_that_is_asked_for(tmp_path):
    # 256 + 1 + 1 + 1 is 259, rounded once 260; bfloat16 has no number between 256 and 258
    for report in reports(tmp_path, 4, 1, "sums"):
        for own, double, plain in report["sums"].values():
            assert (double, plain) == ([260], [259])
            assert set(own) <= {256, 258, 260}
        assert any(own != [260] for own, _, _ in report["sums"].values())


def test_rows_that_are_not_those_of_the_route_are_refused(four):
    assert four[0]["refused"] == [
        "dispatch: 3 rows; expected the 4 of its tokens",
        "combine: 3 rows; expected the 4 that came",
    ]


def test_compiled_functions_have_the_results_of_plain_ones(four):
    for report in four:
        assert report["compiled"] == [True] * 4
        # what is before, between and after the two calls, and again for other numbers of rows
        assert report["graphs"] >= 3
        assert len(report["breaks"]) == 2
        assert all("`torch.compiler.disable()`d function" in text for text in report["breaks"])


def test_a_second_derivative_is_refused(four):
    assert all("once_differentiable" in report["second"] for report in four)


def test_the_planner_chooses_for_the_tokens_of_a_call(four):
    if isinstance(four[0]["auto"], str):
        pytest.skip(f"the planner needs more than PyTorch: {four[0]['auto']}")
    assert all(report["auto"] == four[0]["auto"] for report in four)
    few, many = (four[0]["auto"][tokens] for tokens in ("64", "200000"))
    assert few[1] == 1
    assert many[0] in ("O2", "O3", "O4")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("splits", "rank 0: splits add up to 2: expected the 4 tokens of x"),
        ("strategy", "ranks 0 and 2 disagree: strategy = O2 and O3"),
        ("chunks", "ranks 0 and 2 disagree: chunks = 2 and 3"),
        ("layout", "layout: expected one of replicated, sharded"),
        ("baseline", "strategy of sharded tokens: expected one of auto, O1, O2, O3, O4"),
        ("grad", "grad: expected one of partial, replicated; did you mean"),
        ("cluster", "rank 0: none.toml: "),
        ("type", "ranks 0 and 2 disagree: type = float64 and float32"),
        ("tp_group", "expected EP groups across TP groups"),
    ],
)
def test_what_is_wrong_on_one_rank_is_said_on_every_rank(four, name, text):
    for report in four:
        assert text in report["wrong"][name]
        assert report["wrong"][name].startswith("InputError: ")


def test_what_ranks_are_asked_for_is_compared_on_all_of_them(four):
    """As hooks do each time, whatever is wrong on a rank: none waits for one that has given up."""
    strategies = "strategy of sharded tokens: expected one of auto, O1, O2, O3, O4"
    for report in four:
        assert report["asked"] == {
            "same": 0 + 1 + 2 + 3,
            "column": "ranks 0 and 2 disagree: strategy = O2 and O3",
            "row": "ranks 0 and 1 disagree: chunks = 2 and 3",
            "one": report["asked"]["one"],
            "whole": "rank 0: chunks = True: expected a number of 1 or more, or 'auto'",
            "some": "ranks 0 and 2 disagree: mixnet = packets and circuits",
            "problem": "rank 1: layer 1: no",
        }
        assert report["asked"]["one"].startswith(f"rank 3: {strategies}")


def test_a_lost_rank_is_one_error_on_those_that_wait_for_it(four):
    for rank, report in enumerate(four[:3]):
        assert report["lost"].startswith(f"RankError: rank {rank}: one of ranks [")
        assert "does not answer" in report["lost"]
        assert "\n" not in report["lost"]
        unasked = f"RankError: rank {rank}: one of the 4 ranks does not answer; "
        assert report["unasked"].startswith(unasked)


def test_calibration_writes_a_cluster_that_the_planner_reads(tmp_path):
    path = tmp_path / "ours.toml"
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    program = ["-m", "lightloom.torch.calibrate", "--tp", "2", "--out", path]
    run(*launch, *program, "--largest", "262144", "--repeats", "3")
    cluster = load_cluster(str(path))
    assert cluster.gpus_per_server == 4
    assert all(len(curve.sizes_bytes) == 3 for curve in (cluster.all_to_all, cluster.gather))
    assert "4 ranks, TP 2, EP 2, gloo" in cluster.gather.source
    assert cluster.within.source == cluster.gather.source
    assert cluster.all_to_all.source == "no EP ranks send so: that of within"
    scenario = AllToAllScenario(cluster=str(path), hidden=1024, tp=2, ep=2, seq=(1024,))
    assert choose_strategies(scenario)[0].choice.speed_up >= 1


def test_calibration_measures_each_way_by_itself(tmp_path):
    """EP ranks 0 to 3 by GPUs of a server: what rank 1 and the last one send."""
    if absent("pydantic"):
        pytest.skip("calibration needs the planner's libraries")
    _, second, _, last = reports(tmp_path, 1, 4, "ways")
    assert second["ways"] == {
        "1": {"all_to_all": [200, 0, 200, 200]},
        "2": {"all_to_all": [0, 0, 300, 300], "within": [600, 0, 0, 0]},
        "3": {"all_to_all": [0, 0, 0, 600], "within": [300, 0, 300, 0]},
        "4": {"within": [200, 0, 200, 200]},
    }
    assert last["ways"]["3"] == {"all_to_all": [200, 200, 200, 0], "within": [0, 0, 0, 0]}


@pytest.mark.parametrize(
    ("tp", "ep"),
    [
        (2, 4),
        pytest.param(3, 2, marks=in_soak),
        pytest.param(4, 2, marks=in_soak),
        pytest.param(1, 4, marks=in_soak),
    ],
)
def test_more_ranks(tmp_path, tp, ep):
    for report in reports(tmp_path, tp, ep, "replicated,sharded"):
        assert report == {"replicated": "equal", "sharded": "equal"}
