"""The board of public runs: what is kept is what its predictions give, and intervals are honest."""

import csv
import dataclasses
import math
import random
import sys
from pathlib import Path

import pytest

REAL = Path(__file__).parents[2] / "experiments" / "real-systems"
sys.path[:0] = [str(REAL), str(REAL.parent)]
import board  # noqa: E402
from board_figure import figure  # noqa: E402
from intervals import expected, family  # noqa: E402
from predictions import FILE, as_csv, read  # noqa: E402

ENTRIES = board.entries()


def with_sizes(sizes, part="calibrate", group=None):
    """Entries that are off by given factors."""
    run = next(e.run for e in ENTRIES if e.run.group == (group or "dense BF16"))
    run = dataclasses.replace(run, part=part)
    return [board.Entry(run, run.published * size, run.published) for size in sizes]


def test_what_is_kept_is_what_the_predictions_give():
    """This is the check of every commit: rows cannot change unseen."""
    assert board.BOARD.read_text() == board.render(ENTRIES)
    assert board.FIGURE.read_text() == figure(ENTRIES, board.factors(ENTRIES))
    assert board.ERRORS.read_text() == board.errors_file(ENTRIES)


def test_predictions_are_those_of_the_table():
    table = (REAL / "table.md").read_text()
    for entry in ENTRIES:
        row = next(line for line in table.splitlines() if f"| {entry.run.name} | " in line)
        *_, published, predicted, ratio, part, _ = (cell.strip() for cell in row.split("|"))
        assert published == f"{entry.run.published:,.0f}"
        # six digits are kept: what they end with may round to the other side
        if predicted == "refused":
            assert entry.predicted == 0
        else:
            assert float(predicted.replace(",", "")) == pytest.approx(entry.predicted, abs=0.6)
            assert float(ratio) == pytest.approx(entry.ratio, abs=0.0051)
        assert part == entry.run.part


def test_predictions_are_read_as_they_were_written(tmp_path):
    runs = [entry.run for entry in ENTRIES]
    path = tmp_path / "kept.csv"
    path.write_text(as_csv(runs, {entry.run.name: entry.predicted for entry in ENTRIES}))
    assert read(path) == read(FILE)


def families(sizes, part="calibrate", group=None):
    """Entries that are off by given factors, each of a model of its own."""
    found = with_sizes(sizes, part, group)
    return [
        dataclasses.replace(entry, run=dataclasses.replace(entry.run, where=f"release {10 + k}.01"))
        for k, entry in enumerate(found)
    ]


def test_an_interval_is_a_rank_of_what_calibrates_alone():
    """Nine errors of 1.01 to 1.09: of ten equal shares, eight lie below the eighth."""
    sizes = [1 + k / 100 for k in range(1, 10)]
    found = families(sizes)
    assert board.spread(found, "dense BF16") == pytest.approx(1.08)
    assert board.shown([*found, *families([9.0], "test")]) == found
    # too fast and too slow count alike
    assert board.spread(families([1 / size for size in sizes]), "dense BF16") == pytest.approx(1.08)
    # between errors: rank 8.8 of ten
    assert board.spread(families([*sizes, 1.1]), "dense BF16") == pytest.approx(1.088)


def test_a_family_counts_once():
    """Five runs of one model on one release with the largest error are one observation."""
    sizes = [1 + k / 100 for k in range(1, 10)]
    found = families(sizes)
    assert board.spread([*found, *[found[-1]] * 4], "dense BF16") == pytest.approx(1.08)
    # copies of every family move it no further than to the next error
    rng = random.Random(0)
    for _ in range(50):
        drawn = families([1 + rng.expovariate(10) for _ in range(rng.randint(8, 30))])
        alone = board.spread(drawn, "dense BF16")
        above = min(entry.size for entry in drawn if entry.size >= alone)
        copies = [entry for entry in drawn for _ in range(3)]
        assert alone - 1e-9 <= board.spread(copies, "dense BF16") <= above + 1e-9


def test_an_interval_holds_what_it_says_of_new_families():
    """Eighty in a hundred new observations on average, whatever the distribution."""
    rng = random.Random(1)
    held = []
    for _ in range(400):
        *known, new = families([1 + rng.paretovariate(2) for _ in range(16)])
        held.append(new.size <= board.spread(known, "dense BF16"))
    assert sum(held) / len(held) == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / len(held)))


def test_a_family_is_a_model_on_a_release_of_a_source():
    run = ENTRIES[0].run
    first = dataclasses.replace(run, where="26.04.01, Qwen3 30B", gpus=8)
    assert family(first) == family(dataclasses.replace(first, where="26.04.01", gpus=64))
    assert family(first) != family(dataclasses.replace(first, where="26.04, Qwen3 30B"))
    assert family(first) != family(dataclasses.replace(first, model="mpt-7b"))
    assert family(first) != family(dataclasses.replace(first, source="megascale"))
    plain = dataclasses.replace(run, where="benchmarks/asyncTP 2025-06, training_results_v5.1")
    assert family(plain)[2] == ""


def test_a_class_of_few_families_is_pooled_with_what_is_nearest():
    dense = families([1 + k / 100 for k in range(1, 10)], group="dense FP8")
    moe = families([2.0] * 9, group="MoE FP8")
    nvfp4 = families([1.5], group="dense NVFP4")
    # its own run counts: the rank of ten and not of nine
    assert board.spread([*dense, *moe, *nvfp4], "dense NVFP4") == pytest.approx(
        board.spread([*dense, *nvfp4], "dense NVFP4")
    )
    assert 1.08 < board.spread([*dense, *moe, *nvfp4], "dense NVFP4") < 1.5
    # where FP8 has too few as well, all
    few = [*dense[:3], *moe, *nvfp4]
    assert board.spread(few, "dense NVFP4") == board.spread(few, "dense FP8") > 1.5


def test_what_agrees_with_eighty_percent():
    """The binomial distribution, added up by hand."""
    for tested in (1, 5, 16, 30, 68):
        chances = [math.comb(tested, k) * 0.8**k * 0.2 ** (tested - k) for k in range(tested + 1)]
        low, high = expected(tested)
        assert sum(chances[:low]) < 0.05 <= sum(chances[: low + 1])
        assert sum(chances[:high]) < 0.95 <= sum(chances[: high + 1])
    assert board.agreement(27, 30) == "yes (20 to 27)"
    assert board.agreement(28, 30) == "**no** (20 to 27)"


def test_classes_whose_intervals_do_not_hold_are_named():
    """Intervals of 1.08, of which eight of ten runs that test should be inside."""
    calibrating = [1 + k / 100 for k in range(1, 10)]

    def of(group, inside, outside):
        tested = with_sizes([1.01] * inside + [2.0] * outside, "test", group)
        return [*families(calibrating, group=group), *tested]

    assert board.coverage(of("MoE FP8", 8, 2)) == (
        "holds for all of them together (8 of 10, 80 %), by families 0.8 of 1 (80 %)"
    )
    few = board.coverage([*of("MoE FP8", 6, 4), *of("dense BF16", 10, 0)])
    assert few == (
        "holds for all of them together (16 of 20, 80 %), by families 1.6 of 2 (80 %); not for "
        "these classes of few runs: MoE FP8 (6 of 10), dense BF16 (10 of 10)"
    )
    assert board.coverage(of("MoE FP8", 2, 8)) == (
        "does not hold for all of them together (2 of 10, 20 %), by families 0.2 of 1 (20 %); not "
        "for these classes of few runs: MoE FP8 (2 of 10); chance does not explain "
        "MoE FP8, all of them together"
    )


def test_a_row_that_moved_is_named_and_one_that_did_not_is_not():
    still, moved = with_sizes([1.0, 1.2])
    moved = dataclasses.replace(moved, run=dataclasses.replace(moved.run, name="moved"))
    text = "\n".join(board.changes([still, moved]))
    assert "| moved | calibrate | 1.00 | 1.20 | further |" in text
    assert f"| {still.run.name} | calibrate" not in text


def test_a_registered_row_whose_inputs_were_changed_is_shown(tmp_path, monkeypatch):
    run = ENTRIES[0].run
    monkeypatch.setattr(board, "REGISTERED", tmp_path / "registered.csv")
    rows = [(run.name, board.inputs_digest(run)), ("later", "0" * 64)]
    lines = [",".join(board.COLUMNS)]
    lines += [
        f"{name},{digest},{'a' * 64},{run.published / 2:.6g},2026-11-29" for name, digest in rows
    ]
    board.REGISTERED.write_text("\n".join(lines) + "\n")
    text = "\n".join(board.registered(ENTRIES))
    assert f"| {run.name} | 2026-11-29 | aaaaaaaa | 0.50 |" in text
    assert "same" in text
    assert "| later | 2026-11-29 | aaaaaaaa | - | - | not opened |" in text
    changed = dataclasses.replace(ENTRIES[0], run=dataclasses.replace(run, rate_gbps=100))
    assert "**changed**" in "\n".join(board.registered([changed]))
    # what was published is no input
    opened = dataclasses.replace(run, given={"tokens_per_s_per_gpu": 1.0})
    assert board.inputs_digest(opened) == board.inputs_digest(run)


def test_the_digest_is_of_the_predictor(tmp_path, monkeypatch):
    for name in ("python/lightloom/a.py", "crates/b.rs"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(board, "ROOT", tmp_path)
    before = board.predictor_digest()
    assert board.predictor_digest() == before
    (tmp_path / "crates/b.rs").write_text("two")
    assert board.predictor_digest() != before


def test_every_row_of_the_page_is_used_or_has_a_reason():
    with (board.HERE / "unused.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert all(row["reason"] and int(row["gpus"]) > 0 for row in rows)
    assert not any("tokens" in name or "speed" in name for name in rows[0])
    runs, _ = board.read_runs()
    used = [run for run in runs if run.source.startswith("megatron-bridge")]
    readme = (board.HERE / "README.md").read_text(encoding="utf-8")
    # the page of one configuration has the same speed in two releases
    assert f"Of {len(rows) + 72} speeds" in readme
    assert f"{len(rows)} are not here" in readme
    assert 70 <= len(used) <= 78


def test_registered_runs_are_among_the_runs_as_they_were_registered():
    """All but those that were left out when they were opened, or corrected, which files say."""
    runs = {run.name: run for run in board.read_runs()[0]}
    left_out = {run.name: run for run in board.read_runs(board.PLANNED)[0] if run.given}
    assert len(left_out) == 2
    assert not runs.keys() & left_out.keys()
    for row in board._registered():
        run = (runs | left_out)[row["run"]]
        assert (board.inputs_digest(run) != row["inputs"]) == bool(run.corrected), run.name
    assert sum(bool(run.corrected) for run in runs.values()) == 5


def test_users_are_shown_intervals_of_all_runs():
    """Those that test judge the rule; once they are opened, errors of all of them are known."""
    text = board.errors_file(ENTRIES)
    for group in {e.run.group for e in ENTRIES}:
        section = text.split(f"[classes.{group.lower().replace(' ', '-')}]")[1].split("[classes")[0]
        assert f"interval = {{ value = {board.spread(ENTRIES, group):.3f}" in section
