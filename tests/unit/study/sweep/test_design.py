"""Points of a sweep: axes, conditions, designs and their order."""

import itertools
import math
import random
from pathlib import Path

import pytest

from lightloom.errors import InputError
from lightloom.study.sweep.condition import Condition
from lightloom.study.sweep.numbers import NumberSet
from lightloom.study.sweep.study import SweepStudy

BASE = {
    "model": "mixtral-8x7b",
    "gpus": 64,
    "fabrics": ["fat-tree", "mixnet"],
    "cluster": {"rate_gbps": 400},
}


def study(axes, base=BASE, **options):
    return SweepStudy.of({**base, "sweep": {"axes": axes, **options}}, "s.toml", Path())


def points(swept):
    return [values for _, values in swept.design.points(range(swept.design.size))]


def refused(axes, **options):
    with pytest.raises(InputError) as error:
        study(axes, **options)
    return str(error.value)


def test_a_grid_has_every_combination_once():
    axes = {"cluster.rate_gbps": ["100 Gb/s", 200], "mixnet": {"ports": [4, 6, 8]}, "seeds": [1, 2]}
    found = [tuple(values.values()) for values in points(study(axes))]
    assert sorted(found) == sorted(itertools.product([100.0, 200.0], [4, 6, 8], [1, 2]))


def test_axes_that_change_the_step_vary_slowest():
    swept = study({"cluster.rate_gbps": [100, 200], "plan.micro_batches": [4, 8, 16]})
    assert [v["plan.micro_batches"] for v in points(swept)] == [4, 4, 8, 8, 16, 16]
    assert list(swept.design.runs()) == [range(0, 2), range(2, 4), range(4, 6)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"from": "1 us", "to": "1 s", "count": 3, "scale": "log"}, [1e-6, 1e-3, 1.0]),
        ({"from": 0, "to": 1, "count": 5}, [0, 0.25, 0.5, 0.75, 1]),
        ({"values": ["25 ms", 0.025, "1 s"]}, [0.025, 1.0]),
    ],
)
def test_ranges_and_lists_with_units(given, expected):
    assert [v["mixnet.fixed_s"] for v in points(study({"mixnet.fixed_s": given}))] == expected


def test_a_range_of_whole_numbers_is_rounded_and_has_each_once():
    given = {"from": 1, "to": 4, "count": 20}
    assert [v["seeds"] for v in points(study({"seeds": given}))] == [1, 2, 3, 4]


def test_zipped_axes_move_together():
    axes = {"gpus": [64, 128], "plan.global_batch_size": [16, 32], "seeds": [1, 2]}
    found = points(study(axes, zip=[["gpus", "plan.global_batch_size"]]))
    assert len(found) == 4
    assert {(v["gpus"], v["plan.global_batch_size"]) for v in found} == {(64, 16), (128, 32)}


def test_conditions_leave_points_out():
    axes = {"gpus": [64, 128, 256], "cluster.rate_gbps": [100, 400]}
    swept = study(axes, where="gpus <= 64 or cluster.rate_gbps == 400")
    assert swept.design.count() == 4 == len(points(swept))
    assert all(v["gpus"] <= 64 or v["cluster.rate_gbps"] == 400 for v in points(swept))


def test_an_axis_with_a_condition_is_absent_where_it_does_not_count():
    axes = {
        "fabrics": [["fat-tree"], ["mixnet"]],
        "mixnet.ports": {"values": [4, 6], "when": "'mixnet' in fabrics"},
    }
    swept = study(axes)
    assert [(v["fabrics"], v["mixnet.ports"]) for v in points(swept)] == [
        (("fat-tree",), None),
        (("mixnet",), 4),
        (("mixnet",), 6),
    ]
    for values in points(swept):
        swept.scenario(values)


@pytest.mark.parametrize("design", ["random", "sobol"])
def test_drawn_designs_stay_inside_and_repeat_with_their_seed(design):
    axes = {"mixnet.fixed_s": {"from": 1e-6, "to": 10, "scale": "log"}, "gpus": [64, 128]}
    swept = study(axes, design=design, points=33, seed=5)
    found = points(swept)
    assert found == points(study(axes, design=design, points=33, seed=5))
    assert found != points(study(axes, design=design, points=33, seed=6))
    assert len(found) == 33
    assert all(1e-6 <= v["mixnet.fixed_s"] <= 10 for v in found)
    assert sorted(number for run in swept.design.runs() for number in run) == list(range(33))
    assert [v["gpus"] for v in found] == sorted(v["gpus"] for v in found)


def test_a_sobol_sequence_fills_its_axes_evenly():
    axes = {"mixnet.fixed_s": {"from": 0, "to": 1}, "compute_spread": {"from": 0, "to": 0.5}}
    found = points(study(axes, design="sobol", points=64))
    for name, end in (("mixnet.fixed_s", 1), ("compute_spread", 0.5)):
        cells = [int(8 * values[name] / end) for values in found]
        assert all(cells.count(cell) == 8 for cell in range(8)), name


@pytest.mark.parametrize(
    ("axes", "options", "expected"),
    [
        ({"cluster.rate": [1]}, {}, "axis cluster.rate: no option of a study; did you mean "
         "'cluster.rate_gbps'?"),
        ({"mixnet.port": [1]}, {}, "axis mixnet.port: no option of a study; did you mean"),
        ({"cluster": {}}, {}, "a sweep has no axis"),
        ({"gpus": []}, {}, "axis gpus has no value"),
        ({"gpus": ["many"]}, {}, "gpus = many: expected a whole number"),
        ({"cluster.rate_gbps": ["fast"]}, {}, "cannot read 'fast' as a rate"),
        ({"gpus": {"from": 8, "to": 64}}, {}, "a range of a grid needs its count"),
        ({"gpus": {"from": 0, "to": 64, "count": 3, "scale": "log"}}, {}, "above 0"),
        ({"gpus": {"from": 8, "count": 3}}, {}, "a range needs its end"),
        ({"gpus": {"from": 8, "too": 3}}, {}, "unknown key 'too'"),
        ({"gpus": [64]}, {"where": "gpus >"}, "expected a comparison"),
        ({"gpus": [64]}, {"where": "open('x')"}, "expected comparisons of options"),
        ({"gpus": [64]}, {"where": "gpu == 3"}, "gpu: no option of a study; did you mean "
         "'cluster.gpu'?"),
        ({"gpus": [64]}, {"where": "gpus > 64"}, "no point fulfills the conditions"),
        ({"gpus": [64]}, {"zip": [["gpus", "seeds"]]}, "zip seeds: no axis has this name"),
        ({"gpus": [64, 8], "seeds": [1]}, {"zip": [["gpus", "seeds"]]}, "as many values"),
        ({"gpus": [64]}, {"design": "sobol"}, "needs its number of points"),
        ({"gpus": [64]}, {"points": 4}, "a grid has every combination"),
        ({"gpus": [64]}, {"disign": "grid"}, "unknown key 'disign'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(axes, options, expected):
    message = refused(axes, **options)
    assert message.startswith("s.toml: ")
    assert expected in message
    assert "\n" not in message


def test_a_study_without_a_sweep_is_refused():
    with pytest.raises(InputError, match=r"no table \[sweep.axes\]"):
        SweepStudy.of(BASE, "s.toml", Path())


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a.b < 3 and not c == 'x'", {"a.b": 2, "c": "y"}, True),
        ("a.b + 1 < 2 * 1.5", {"a.b": 2}, False),
        ("1 < a <= 3", {"a": 3}, True),
        ("a in ['x', 'y'] or b % 2 == 1", {"a": "z", "b": 3}, True),
        ("-a < 0", {"a": 1}, True),
    ],
)
def test_conditions(text, values, expected):
    assert Condition.of(text).holds(values) is expected


def test_number_sets_are_sets():
    rng = random.Random(1)
    for _ in range(300):
        numbers = {rng.randrange(40) for _ in range(rng.randrange(40))}
        others = {rng.randrange(40) for _ in range(rng.randrange(40))}
        made, other = NumberSet(rng.sample(sorted(numbers), len(numbers))), NumberSet(others)
        assert [n for n in range(45) if n in made] == sorted(numbers)
        assert len(made) == len(numbers)
        left = made.without(other)
        assert [n for n in range(45) if n in left] == sorted(numbers - others)
        parts = [part.split("-") for part in filter(None, str(made).split(","))]
        said = [n for part in parts for n in range(int(part[0]), int(part[-1]) + 1)]
        assert said == sorted(numbers)


def test_a_billion_points_take_no_memory():
    swept = study({"mixnet.fixed_s": {"from": 1e-6, "to": 1, "count": 1000},
                   "cluster.link_delay_s": {"from": 1e-6, "to": 1e-3, "count": 1000},
                   "compute_spread": {"from": 0, "to": 0.5, "count": 1000}})  # fmt: skip
    assert swept.design.size == 10**9
    last = swept.design.values(10**9 - 1)
    assert math.isclose(last["mixnet.fixed_s"], 1.0)


def test_an_axis_that_does_not_matter_leaves_the_others_of_its_group():
    axes = {
        "cluster.rate_gbps": [100, 400],
        "gpus": [64, 128],
        "mixnet.ports": {"values": [2, 4], "when": "cluster.rate_gbps > 200"},
    }
    found = points(study(axes, zip=[["gpus", "mixnet.ports"]]))
    assert sorted((v["cluster.rate_gbps"], v["gpus"], v["mixnet.ports"] or 0) for v in found) == [
        (100, 64, 0), (100, 128, 0), (400, 64, 2), (400, 128, 4),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"where": f"{'gpus >= 1 and ' * 80}gpus <= 256"}, "1000 characters at most"),
        ({"where": "'%' % gpus == 'x'"}, "only numbers are computed with"),
        ({"where": "'a' * 99999999999 == 'x'"}, "only numbers are computed with"),
        ({"zip": [[]]}, "expected the names of axes"),
    ],
)
def test_what_no_point_can_be_told_by_is_one_line(options, text):
    assert text in refused({"cluster.rate_gbps": [100, 200]}, **options)


def test_a_range_is_finite():
    assert "between two numbers" in refused({"gpus": {"from": 8, "to": math.inf, "count": 3}})


def test_options_of_a_custom_fabric_are_found_beside_the_study(tmp_path, monkeypatch):
    folder, elsewhere = tmp_path / "study", tmp_path / "elsewhere"
    for place in (folder, elsewhere):
        place.mkdir()
    (folder / "own.toml").write_text('kind = "mixnet"\nlabel = "own"\n')
    monkeypatch.chdir(elsewhere)
    axes = {"fabric_options": {"own.toml": {"ports": [4, 6]}}}
    tables = {**BASE, "fabrics": ["own.toml"], "sweep": {"axes": axes}}
    swept = SweepStudy.of(tables, "s.toml", folder)
    assert [values["own.toml.ports"] for values in points(swept)] == [4, 6]
    wrong = {**tables, "sweep": {"axes": {"fabric_options": {"own.toml": {"prots": [4]}}}}}
    with pytest.raises(InputError, match="did you mean"):
        SweepStudy.of(wrong, "s.toml", folder)
