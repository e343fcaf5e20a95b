"""Comparisons at several points: what changes between them, by hand and in processes."""

import dataclasses
import json
import math
import os

import pytest

from lightloom.errors import InputError
from lightloom.progress import Monitor
from lightloom.report.page_scaling import write_scaling_page
from lightloom.report.scaling_table import (
    best_rows,
    opening,
    plans_grid,
    scaling_grid,
    verdicts,
    warnings,
)
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario
from lightloom.study.compare.scaling import Scaling, ScalingPoint, compare_points
from lightloom.study.compare.scaling_plans import with_one_source


def scenario(gpus=128, rate_gbps=400.0, **more):
    return Scenario(
        model="mixtral-8x7b", gpus=gpus, cluster=ClusterOptions(rate_gbps=rate_gbps),
        fabrics=("fat-tree", "mixnet"), plan=PlanOptions(micro_batches=4), seeds=1,
        policies=False, imbalances=False, compute_spread=0, **more,
    )  # fmt: skip


def point(gpus, rate_gbps=400.0):
    values = {"gpus": gpus, "rate_gbps": rate_gbps, "gpu": "a100"}
    return ScalingPoint(values, scenario())


def content(**tokens_per_s):
    """Results whose value per dollar is as their speed."""
    best = max(tokens_per_s.values())
    return {
        "inputs": {"model": {"name": "mixtral-8x7b"}},
        "results": [
            {
                "fabric": name.replace("_", "-"), "kind": name.replace("_", "-"),
                "tokens_per_s": speed, "step_time_s": 1 / speed,
                "perf_per_cluster_usd": speed / 100, "network_cost_usd": 1e6,
                "ratio_to_fastest": best / speed, "tied_with_fastest": speed == best,
            }
            for name, speed in tokens_per_s.items()
        ],
    }  # fmt: skip


@pytest.fixture
def by_hand():
    """The fat-tree is twice as fast at 128 GPUs, and half as fast at 2,048."""
    results = {
        0: content(fat_tree=2.0, mixnet=1.0),
        1: content(fat_tree=4.0, mixnet=4.0),
        2: content(fat_tree=4.0, mixnet=8.0),
    }
    return Scaling((point(128), point(512), point(2048)), results)


def test_a_crossover_is_where_two_fabrics_are_equal(by_hand):
    del by_hand.results[1]
    speed, _ = by_hand.crossovers()
    assert (speed.metric, speed.axis) == ("tokens_per_s", "gpus")
    assert (speed.below, speed.above, speed.low, speed.high) == ("fat-tree", "mixnet", 128, 2048)
    # ratios 2 and 1/2: half way on a logarithmic scale
    assert speed.at == pytest.approx(math.sqrt(128 * 2048))
    assert speed.fixed == {"rate_gbps": 400.0, "gpu": "a100"}


def test_a_crossover_is_nearer_to_where_fabrics_are_more_alike(by_hand):
    by_hand.results = {0: content(fat_tree=2.0, mixnet=1.0), 2: content(fat_tree=1.0, mixnet=8.0)}
    # ratios 2 and 1/8: a quarter of the way on a logarithmic scale
    assert by_hand.crossovers()[0].at == pytest.approx(128 * (2048 / 128) ** 0.25)


def test_points_are_compared_in_the_order_of_their_values(by_hand):
    backwards = Scaling(by_hand.points[::-1], {2 - n: one for n, one in by_hand.results.items()})
    assert backwards.lines("gpus") == [[2, 1, 0]]
    assert backwards.crossovers() == by_hand.crossovers()


def test_points_that_differ_in_more_are_no_line(by_hand):
    apart = (point(128), point(2048, rate_gbps=800.0))
    assert Scaling(apart, {0: by_hand.results[0], 1: by_hand.results[2]}).crossovers() == []


def test_equal_fabrics_are_no_crossover(by_hand):
    only = {0: by_hand.results[0], 1: by_hand.results[1]}
    assert dataclasses.replace(by_hand, results=only).crossovers() == []


def test_what_is_best_where_is_a_sentence(by_hand):
    speed, value = verdicts(by_hand)
    # at 512 GPUs both are as good: the former one stays
    assert speed == (
        "400 Gb/s, a100: fastest is fat-tree from 128 to 512 GPUs; mixnet at 2,048 GPUs "
        "(the two are equal at about 510)."
    )
    assert value.startswith("400 Gb/s, a100: best per dollar of the cluster is fat-tree from 128")
    flat = Scaling(tuple(map(point, (128, 512))), dict.fromkeys((0, 1), by_hand.results[0]))
    assert "fastest is fat-tree from 128 to 512 GPUs." in verdicts(flat)[0]


def test_the_table_has_every_fabric_of_every_point(by_hand):
    rows = scaling_grid(by_hand).rows
    assert [row[:4] for row in rows[:2]] == [
        ["128", "400", "a100", "fat-tree"],
        ["128", "400", "a100", "mixnet"],
    ]
    assert len(rows) == 6
    assert best_rows(by_hand) == {0, 2, 5}


def test_a_page_has_curves_and_crossovers(by_hand, tmp_path):
    by_hand.failures[3] = "no such plan"
    by_hand = dataclasses.replace(by_hand, points=(*by_hand.points, point(4096)))
    write_scaling_page(by_hand, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert text.count("<polyline") == 4
    assert "Crossovers" in text
    assert "4,096 GPUs, 400 Gb/s, a100: no such plan" in text


class Watcher(Monitor):
    """Notes rows, and stops after so many."""

    def __init__(self, limit=math.inf):
        self.rows, self.limit, self.widest, self.lowest = [], limit, 0, 1.0

    def progress(self, share, activity="", /):
        assert 0 <= share <= 1.0001
        self.lowest = min(self.lowest, share)
        self.widest = max(self.widest, len(activity.split("; ")))
        return len(self.rows) < self.limit

    def finished(self, result):
        self.rows.append(result)


def points_of(*scenarios):
    return [
        ScalingPoint({"gpus": s.gpus, "rate_gbps": s.cluster.rate_gbps, "gpu": "a100"}, s)
        for s in scenarios
    ]


def test_points_are_compared_in_processes_as_one_by_one():
    from lightloom.study.compare import compare

    watcher = Watcher()
    bad = scenario(gpus=130)
    found = compare_points(points_of(scenario(), bad, scenario(rate_gbps=200.0)), monitor=watcher,
                           processes=2)  # fmt: skip
    assert set(found.results) == {0, 2}
    assert list(found.failures) == [1]
    assert "130" in found.failures[1]
    assert watcher.lowest >= 1 / 3, "what cannot be compared is done"
    alone = compare(scenario()).to_json()
    hashes = [[r["run_hash"] for r in one["results"]] for one in (alone, found.results[0])]
    assert hashes[0] == hashes[1]
    assert {row["rate_gbps"] for row in watcher.rows} == {200.0, 400.0}
    json.dumps(found.to_json())


def test_points_that_have_finished_are_kept():
    watcher = Watcher(limit=3)
    found = compare_points(points_of(scenario(), *[scenario(rate_gbps=r) for r in (100.0, 200.0)]),
                           monitor=watcher, processes=1)  # fmt: skip
    assert found.interrupted
    assert len(found.results) < 3
    assert watcher.widest == 1


def leave(_comparison, _path):
    """Ends the process of a point before it has told anything."""
    os._exit(3)


def sign(_comparison, path):
    """Writes which process a point was compared by."""
    path.write_text(str(os.getpid()))


def test_a_process_compares_one_point_after_another(tmp_path):
    """To start a process is most of the time of small points."""
    several = points_of(*[scenario(rate_gbps=rate) for rate in (100.0, 200.0)])
    files = [tmp_path / "first", tmp_path / "second"]
    several = [dataclasses.replace(p, timeline=f) for p, f in zip(several, files, strict=True)]
    assert set(compare_points(several, processes=1, write_timeline=sign).results) == {0, 1}
    assert len({file.read_text() for file in files} - {str(os.getpid())}) == 1


def test_a_process_that_ends_early_is_a_failure_of_its_point(tmp_path):
    lost = dataclasses.replace(points_of(scenario())[0], timeline=tmp_path / "timeline.json")
    with pytest.raises(InputError, match="the process ended with status 3"):
        compare_points([lost], processes=1, write_timeline=leave)
    (other,) = points_of(scenario(rate_gbps=200.0))
    scaling = compare_points([lost, other], processes=1, write_timeline=leave)
    assert scaling.failures == {0: "the process ended with status 3"}
    assert set(scaling.results) == {1}


def test_if_no_point_can_be_compared_the_first_says_why():
    with pytest.raises(InputError, match="130"):
        compare_points(points_of(scenario(gpus=130), scenario(gpus=131)), processes=1)


def test_the_best_value_of_each_point_is_marked_on_the_page(by_hand, tmp_path):
    grid = scaling_grid(by_hand)
    values = [float(row[-1]) for row in grid.rows]
    marked = {row for row, column in grid.best_cells() if column == len(grid.headers) - 1}
    assert marked == best_rows(by_hand)
    for first in (0, 2, 4):
        pair = values[first : first + 2]
        assert pair[min(marked & {first, first + 1}) - first] == max(pair)
    write_scaling_page(by_hand, tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text().count('class="best"') == 3


def test_a_heading_says_each_value_once(by_hand, tmp_path):
    write_scaling_page(by_hand, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert '<p class="heading">128, 512 and 2,048 GPUs; 400 Gb/s; a100</p>' in text


def test_a_curve_has_plans_of_one_source():
    def curve(*gpus, **plan):
        made = [scenario(n).model_copy(update={"plan": PlanOptions(**plan)}) for n in gpus]
        found, text = with_one_source(made)
        return [(one.plan.source, one.plan.global_batch_size) for one in found], text

    # published for 128 GPUs and multiples of them
    assert curve(128, 256) == (
        [(None, None)] * 2,
        "plans: published, scaled in data parallelism; --plan search finds the fastest",
    )
    # 1,024 sequences at 128 GPUs, and as many per GPU elsewhere
    assert curve(32, 64, 128) == (
        [("search", 256), ("search", 512), ("search", 1024)],
        "plans: the fastest that a search finds for each point, since there is no published plan"
        " for 32, 64 GPUs",
    )
    assert curve(64, 128, source="search")[0] == [("search", 512), ("search", 1024)]
    assert curve(32, 64)[0] == [("search", None)] * 2
    assert curve(64, 128, global_batch_size=1024)[0] == [("search", 1024)] * 2
    assert curve(64, 128, micro_batches=8)[0] == [("search", None)] * 2
    assert curve(64, 128, tp=1, pp=1, ep=8) == ([(None, None)] * 2, "plans: as given")
    assert curve(64, 128, source="published")[0] == [("published", None)] * 2


def planned(speed, batch, **plan):
    """Results of a point with a plan."""
    degrees = {"tp": 1, "pp": 1, "ep": 8, "cp": 1, "etp": 1, "vpp": 1, "micro_batch_size": 1}
    found = content(fat_tree=speed, mixnet=speed / 2)
    found["inputs"] |= {"plan": degrees | plan, "sequences_per_step": batch, "summary": ["a", "b"]}
    return found | {"memory": {"recompute": "none"}}


def test_plans_and_efficiency_are_a_table(by_hand):
    assert plans_grid(by_hand) is None
    by_hand.results = {
        0: planned(128.0, 64),
        1: planned(4 * 128.0 * 0.9, 256, pp=2, vpp=4),
        2: planned(16 * 128.0 * 0.5, 1024, tp=8),
    }
    assert [row[3:] for row in plans_grid(by_hand).rows] == [
        ["TP1 PP1 EP8", "64", "none", "1", "100.0"],
        ["TP1 PP2 EP8 VPP4", "256", "none", "1", "90.0"],
        ["TP8 PP1 EP8 ETP1", "1,024", "none", "0", "50.0"],
    ]


def test_what_points_share_is_said_once_and_warnings_with_their_points(by_hand):
    by_hand.results = {n: planned(1.0, 1) for n in range(3)}
    by_hand.results[1]["inputs"]["summary"] = ["b", "c"]
    by_hand.plans = "plans: as given"
    assert opening(by_hand) == ["b", "plans: as given"]
    for number in range(3):
        by_hand.results[number]["warnings"] = ["everywhere", *(["here"] if number else [])]
    places = "512 GPUs, 400 Gb/s, a100; 2,048 GPUs, 400 Gb/s, a100"
    assert warnings(by_hand) == ["everywhere", f"{places}: here"]
