"""``lightloom advise`` and ``lightloom diff`` as users call them."""

import itertools
import json

import numpy as np
import pytest

from lightloom.cli import run_command
from lightloom.cli.advise import deadline_of, numbers_of_gpus
from lightloom.errors import InputError
from lightloom.inputs.amounts import read_amount
from lightloom.study.difference import difference

SMALL = (
    "advise mixtral-8x7b --gpus 32..64 --rate 100 --fabrics rail-only,mixnet "
    "--set plan.tp=2 --set plan.pp=2 --set plan.ep=8 --set plan.micro_batches=2"
)


def test_the_answer_comes_first_and_files_have_all_of_it(lightloom, tmp_path):
    page, table, file = (tmp_path / name for name in ("a.html", "a.csv", "a.json"))
    found = lightloom(f"{SMALL} --budget 750k --html {page} --csv {table} --json {file} -v")
    assert found.status == 0
    assert found.out.startswith("Buy ")
    assert "Traceback" not in found.err
    for title in ("The best by tokens per dollar", "Front of price and speed", "Plans"):
        assert f"\n{title}\n" in found.out
    # sentences are whole lines where nobody wraps them; tables fit 80 columns
    tables = found.out.partition("The best by")[2].partition("\nPlans")[0].splitlines()
    assert all(len(line) <= 80 for line in tables)
    content = json.loads(file.read_text())
    rows = table.read_text().splitlines()
    assert len(rows) == 1 + len(content["candidates"])
    assert content["inputs"]["options"]["budget_usd"] == 7.5e5
    assert "What to buy" in page.read_text()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--gpus", "512.."), "--gpus 512..: expected a number of GPUs, a list such as 512,1024"),
        (("--gpus", "64..32"), "--gpus 64..32: a range goes up; write 32..64"),
        (("--gpus", "0"), "--gpus 0: expected a number of GPUs"),
        (("--budget", "much"), "expected a number such as 15e12, 200M, 1.5B or '30 M$'"),
        (("--budget", "-3M"), "expected more than 0"),
        (("--deadline", "soon"), "expected tokens in a time, such as '15T tokens in 60 days'"),
        (("--deadline", "15T tokens in 60"), "a time needs its unit, such as '60 days'"),
        (("--deadline", "x tokens in 60 days"), "expected a number such as 15e12"),
        (("--deadline", "1T tokens in 6 parsecs"), "cannot read '6 parsecs' as a time"),
        (("--goal", "money"), "--goal money: expected one of tokens-per-dollar, time, power"),
        (("--rate", "fast"), "--rate fast: "),
        (("--fabrics", "mixnett"), "did you mean 'mixnet'"),
        (("--budget", "1k"), "no candidate costs $1,000 at most: the cheapest,"),
        (("--deadline", "15T tokens in 2 hours"), "at its pace that needs"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line(capsys, options, expected):
    words = SMALL.split()
    if options[0] in words:
        place = words.index(options[0])
        words[place : place + 2] = []
    assert run_command([*words, *options]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    last = shown.err.splitlines()[-1]
    assert last.startswith("lightloom: ")
    assert expected in last


def test_a_model_and_gpus_are_needed(refused):
    assert refused("advise mixtral-8x7b").startswith("--gpus is missing")
    assert "no job is given" in refused("advise --gpus 64")


def test_ranges_double_up_to_their_end():
    random = np.random.default_rng(1)
    for _ in range(50):
        low, more = (int(n) for n in random.integers(1, 5000, 2))
        sizes = numbers_of_gpus(f"{low}..{low + more}")
        assert sizes[0] == low
        assert sizes[-1] == low + more
        assert all(b <= 2 * a for a, b in itertools.pairwise(sizes))
        assert list(sizes) == sorted(set(sizes))


def test_amounts_and_deadlines_are_read_as_they_are_written():
    random = np.random.default_rng(2)
    for _ in range(50):
        number = float(f"{random.uniform(0.1, 900):.3g}")
        for letter, size in {"k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "": 1.0}.items():
            texts = (f"{number:g}{letter}", f"${number:g} {letter}", f"{number:g} {letter}$")
            for text in texts:
                assert read_amount(text) == pytest.approx(number * size)
            tokens, seconds = deadline_of(f"{number:g}{letter} tokens in 3 days")
            assert (tokens, seconds) == pytest.approx((number * size, 3 * 86_400))
    with pytest.raises(InputError, match="expected tokens and a time above 0"):
        deadline_of("0 tokens in 3 days")


# diff


@pytest.fixture
def results(tmp_path):
    """Two results, of which the second has other steps and another input."""
    before = {
        "inputs": {"scenario": {"gpus": 64}},
        "results": [
            {"fabric": "rail", "step_time_s": 2.0, "notes": "a", "wall_s": 1.0},
            {"fabric": "mixnet", "step_time_s": 4.0, "notes": "b", "wall_s": 1.0},
        ],
    }
    after = json.loads(json.dumps(before))
    after["inputs"]["scenario"]["gpus"] = 128
    after["results"][0] |= {"step_time_s": 2.2, "wall_s": 9.0}
    after["results"][1] |= {"step_time_s": 3.0}
    # fabrics are found by their names, not by their places
    after["results"].reverse()
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, content in zip(paths, (before, after), strict=True):
        path.write_text(json.dumps(content))
    return paths


def test_what_moved_is_named_the_most_first(lightloom, results):
    found = lightloom(f"diff {results[0]} {results[1]} --json -")
    content = json.loads(found.out)
    assert [row["path"] for row in content["moved"]] == [
        "results.mixnet.step_time_s",
        "results.rail.step_time_s",
    ]
    assert [row["change"] for row in content["moved"]] == pytest.approx([-0.25, 0.1])
    assert [row["path"] for row in content["inputs"]] == ["inputs.scenario.gpus"]
    shown = lightloom(f"diff {results[0]} {results[1]}").out
    assert "Inputs that differ" in shown
    assert "2 values moved; " in shown
    content = json.loads(results[0].read_text())
    content["results"][0]["step_time_s"] *= 2
    results[1].write_text(json.dumps(content))
    assert "\n1 value moved though" in lightloom(f"diff {results[0]} {results[1]}").out


def test_the_same_results_have_not_moved_and_changes_are_mirrored(lightloom, results):
    assert "Nothing moved" in lightloom(f"diff {results[0]} {results[0]}").out
    there, back = (
        json.loads(lightloom(f"diff {a} {b} --json -").out)["moved"]
        for a, b in (results, results[::-1])
    )
    for row, mirrored in zip(there, back, strict=True):
        assert row["path"] == mirrored["path"]
        assert (1 + row["change"]) * (1 + mirrored["change"]) == pytest.approx(1)


def candidate(number, **more):
    one = {"gpus": 64, "rate_gbps": 400.0, "plan": "TP1 PP1", "fabric": "mixnet", "options": {}}
    return {"number": number, **one, "step_time_s": 2.0, "why": "", **more}


def test_candidates_are_matched_by_what_they_are_and_the_answer_is_first():
    others = [
        candidate(0, fabric="rail-only"),
        candidate(1),
        candidate(2, options={"ports": 2}, why="the same purchase as candidate 1"),
    ]
    flip = {"name": "fiber", "value": 3.0, "other": 2, "holds_below": True}
    before = {"recommended": 1, "best": [1, 2], "front": [0, 1], "candidates": others,
              "flips": [flip], "effects": []}  # fmt: skip
    # the same with a candidate more, in front of all
    shifted = [candidate(0, gpus=32)]
    for one in others:
        more = {"why": "the same purchase as candidate 2"} if one["why"] else {}
        shifted.append(one | {"number": one["number"] + 1} | more)
    after = {"recommended": 2, "best": [2, 3], "front": [1, 2], "candidates": shifted,
             "flips": [flip | {"other": 3}], "effects": []}  # fmt: skip
    found = difference(before, after)
    assert all(one.path.startswith("candidates.32x400G mixnet TP1 PP1.") for one in found.moved)
    assert {one.before for one in found.moved} == {None}
    after["recommended"] = 1
    after["candidates"][2]["step_time_s"] = 9.0
    moved = difference(before, after).moved
    assert (moved[0].path, moved[0].before, moved[0].after) == (
        "recommended", "64x400G mixnet TP1 PP1", "64x400G rail-only TP1 PP1"
    )  # fmt: skip
    assert "candidates.64x400G mixnet TP1 PP1.step_time_s" in [one.path for one in moved]


def test_what_every_command_writes_does_not_make_results_comparable(refused, tmp_path):
    paths = [tmp_path / name for name in ("a.json", "b.json")]
    common = {"schema_version": 1, "inputs": {}, "warnings": [], "remarks": [], "summary": []}
    for path, own in zip(paths, ("results", "candidates"), strict=True):
        path.write_text(json.dumps(common | {own: []}))
    text = refused(f"diff {paths[0]} {paths[1]}")
    assert "expected two results of the same command; they have results, and candidates" in text


def test_results_of_two_commands_are_not_compared(refused, results, tmp_path):
    other = tmp_path / "other.json"
    other.write_text('{"curves": []}')
    text = refused(f"diff {results[0]} {other}")
    assert "expected two results of the same command" in text
    other.write_text("[1]")
    assert "no results in it" in refused(f"diff {results[0]} {other}")
    assert "no such file" in refused(f"diff {results[0]} {tmp_path / 'none.json'}")
