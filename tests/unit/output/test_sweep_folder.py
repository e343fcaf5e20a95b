"""The folder of a sweep: nothing is lost, repeated or changed, whatever ends it."""

import errno
import json
import random
import re
from pathlib import Path

import polars
import pytest
from tests.sweep_workers import AXES, BASE, LossyWorkers, study_of, sweep

from lightloom.errors import InputError, OutputError
from lightloom.output import sweep_folder
from lightloom.output.sweep_results import SweepResults
from lightloom.progress import Monitor

POINTS, FAILED = 24, 2


def table(out):
    """All rows as any reader has them, sorted."""
    return polars.read_parquet(out / "rows/*.parquet").sort("point", "fabric")


def manifest(out):
    return json.loads((out / "manifest.json").read_text())


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    out = tmp_path_factory.mktemp("sweep") / "out"
    assert not sweep(study_of(), out, LossyWorkers(1))
    return table(out).write_csv()


def test_rows_and_manifest(expected, tmp_path):
    out = tmp_path / "out"
    sweep(study_of(), out, LossyWorkers(2))
    content = manifest(out)
    assert (content["points"], content["done"], content["open"]) == (POINTS, POINTS - FAILED, 0)
    assert [failure["reason"] for failure in content["failed"]] == ["no such seed"] * FAILED
    assert all(failure["values"]["seeds"] == 3 for failure in content["failed"])
    frame = table(out)
    assert len(frame) == 2 * (POINTS - FAILED)
    assert frame.schema["cluster.rate_gbps"] == polars.Float64
    assert frame.schema["mixnet.ports"] == polars.Int64
    assert frame.write_csv() == expected


@pytest.mark.parametrize("seed", range(12))
def test_lost_workers_and_interrupts_change_nothing(expected, tmp_path, seed):
    rng = random.Random(seed)
    out, computed, study = tmp_path / "out", [], study_of()
    for attempt in range(50):
        workers = LossyWorkers(rng.randint(1, 5), rng, 0.1, stop_after=rng.randint(1, 12))
        interrupted = sweep(study, out, workers, resume=attempt > 0)
        computed += workers.computed
        if not interrupted:
            break
    assert table(out).write_csv() == expected
    # what was done is not done again
    assert len(computed) == POINTS
    assert manifest(out)["open"] == 0


def test_a_killed_process_leaves_whole_files_and_rows_that_were_not_written_run_again(
    expected, tmp_path
):
    out, study = tmp_path / "out", study_of()
    sweep(study, out, LossyWorkers(2, stop_after=8))
    (out / "rows/.000009.parquet.abc").write_bytes(b"half of a file")
    (out / "manifest.json").unlink()
    workers = LossyWorkers(2)
    sweep(study, out, workers, resume=True)
    assert table(out).write_csv() == expected
    assert len(workers.computed) < POINTS
    assert not list((out / "rows").glob(".*"))


def test_a_point_that_kills_its_workers_is_given_up_and_tried_again_later(expected, tmp_path):
    out, study = tmp_path / "out", study_of()
    sweep(study, out, LossyWorkers(3, killers={5}))
    lost = [failure for failure in manifest(out)["failed"] if failure["point"] == 5]
    assert lost[0]["reason"] == "lost with 3 workers: the process ended with status -9"
    assert manifest(out)["done"] == POINTS - FAILED - 1
    workers = LossyWorkers(3)
    sweep(study, out, workers, resume=True)
    assert workers.computed == [5]
    assert table(out).write_csv() == expected


def test_a_changed_study_runs_what_is_missing_and_keeps_what_it_no_longer_has(expected, tmp_path):
    out = tmp_path / "out"
    small = study_of({**AXES, "seeds": [2, 1]})
    sweep(small, out, LossyWorkers(2))
    workers = LossyWorkers(2)
    sweep(study_of(), out, workers, resume=True)
    assert len(workers.computed) == POINTS // 2
    assert table(out).write_csv() == expected
    # fewer rates: their rows go aside, and come back
    sweep(study_of({**AXES, "cluster.rate_gbps": [400]}), out, LossyWorkers(1), resume=True)
    assert set(table(out)["cluster.rate_gbps"]) == {400.0}
    assert list((out / "other").iterdir())
    workers = LossyWorkers(1)
    sweep(study_of(), out, workers, resume=True)
    assert len(workers.computed) == FAILED
    assert table(out).write_csv() == expected
    assert not list((out / "other").iterdir())


def test_another_axis_keeps_rows_of_its_default(tmp_path):
    out = tmp_path / "out"
    sweep(study_of(), out, LossyWorkers(2))
    wider = study_of({**AXES, "compute_spread": [0.1, 0.2]})
    workers = LossyWorkers(2)
    sweep(wider, out, workers, resume=True)
    assert len(workers.computed) == POINTS + FAILED
    frame = table(out)
    assert len(frame) == 2 * 2 * (POINTS - FAILED)
    assert set(frame["compute_spread"]) == {0.1, 0.2}


def test_points_with_equal_inputs_keep_a_row_each(tmp_path):
    axes = {
        "cluster.rate_gbps": [100, 400],
        "mixnet.ports": [4],
        "mixnet.link_up_s": {"from": 1, "to": 5, "when": "cluster.rate_gbps > 200"},
    }
    drawn = {"design": "random", "points": 8}
    out = tmp_path / "out"
    sweep(study_of(axes, **drawn), out, LossyWorkers(2))
    rows = len(table(out))
    sweep(study_of(axes, **drawn, best="step_time_s"), out, LossyWorkers(2), resume=True)
    assert len(table(out)) == rows == 2 * manifest(out)["done"]


def test_changed_content_of_a_file_is_another_point(tmp_path):
    from importlib import resources

    prices = resources.files("lightloom.hardware").joinpath("data/prices.toml").read_text()
    (tmp_path / "prices.toml").write_text(prices)
    base = {**BASE, "prices": "prices.toml"}
    out = tmp_path / "out"
    sweep(study_of(base=base, folder=tmp_path), out, LossyWorkers(1))
    workers = LossyWorkers(1)
    sweep(study_of(base=base, folder=tmp_path), out, workers, resume=True)
    assert workers.computed == []
    (tmp_path / "prices.toml").write_text(prices + "\n# changed\n")
    with pytest.raises(InputError, match="results of another study"):
        sweep(study_of(base=base, folder=tmp_path), out, LossyWorkers(1), resume=True)


def test_another_version_runs_all_again(tmp_path, monkeypatch):
    out = tmp_path / "out"
    sweep(study_of(), out, LossyWorkers(1))
    for module in ("lightloom.study.sweep.identity", "lightloom.output.sweep_folder"):
        monkeypatch.setattr(f"{module}.code_version", lambda: "0.2.0+new")
    workers = LossyWorkers(1)
    sweep(study_of(), out, workers, resume=True)
    assert len(workers.computed) == POINTS
    assert manifest(out)["lightloom"] == "0.2.0+new"
    assert len(table(out)) == 2 * (POINTS - FAILED)


def test_folders_that_are_not_this_sweeps(tmp_path):
    out = tmp_path / "out"
    sweep(study_of(), out, LossyWorkers(1))
    with pytest.raises(InputError, match="has results of a sweep; go on with --resume"):
        sweep(study_of(), out, LossyWorkers(1))
    other = study_of(base={**BASE, "gpus": 128})
    with pytest.raises(InputError, match="results of another study"):
        sweep(other, out, LossyWorkers(1), resume=True)
    assert len(table(out)) == 2 * (POINTS - FAILED)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.tex").write_text("x")
    with pytest.raises(InputError, match="has files that are no sweep's"):
        sweep(study_of(), tmp_path / "full", LossyWorkers(1))
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="is no folder"):
        sweep(study_of(), tmp_path / "file", LossyWorkers(1))
    (out / "manifest.json").write_text("{}")
    with pytest.raises(InputError, match="no manifest of a sweep"):
        sweep(study_of(), out, LossyWorkers(1), resume=True)


def test_two_sweeps_do_not_write_to_one_folder(tmp_path):
    folder = sweep_folder.SweepFolder(tmp_path / "out", study_of())
    folder.open(resume=False)
    with pytest.raises(InputError, match="another sweep writes there"):
        sweep(study_of(), tmp_path / "out", LossyWorkers(1), resume=True)
    folder.close()
    assert not sweep(study_of(), tmp_path / "out", LossyWorkers(1), resume=True)


def test_a_full_disk_is_one_line_and_leaves_what_is_there(expected, tmp_path, monkeypatch):
    out, study = tmp_path / "out", study_of()
    monkeypatch.setattr(sweep_folder, "EVERY_S", 0.0)
    monkeypatch.setattr(sweep_folder, "TIMES", 1e9)
    write, written = Path.write_bytes, []

    def fill(path, content):
        written.append(path)
        if len(written) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", fill)
        with pytest.raises(OutputError, match=r"rows/000003.parquet: cannot write: No space left"):
            sweep(study, out, LossyWorkers(2))
    assert table(out)["point"].n_unique() >= 3
    sweep(study, out, LossyWorkers(2), resume=True)
    assert table(out).write_csv() == expected


def test_no_point_is_begun_after_the_budget(tmp_path):
    out = tmp_path / "out"
    workers = LossyWorkers(2)
    assert not sweep(study_of(), out, workers, budget_s=1e-9)
    assert workers.computed == []
    assert manifest(out)["open_points"] == f"0-{POINTS - 1}"


def test_what_results_say(tmp_path):
    out = tmp_path / "out"
    sweep(study_of(), out, LossyWorkers(1))
    results = SweepResults.read(out)
    best = results.best()
    assert [row["perf_per_cluster_usd"] for row in best] == [100.0] * 5
    assert best[0]["mixnet.ports"] == 4
    assert len({(row["fabric"], row["step_time_s"]) for row in best}) == len(best)
    assert len(results.to_polars()) == 2 * (POINTS - FAILED)
    content = results.to_json()
    assert content["done"] == POINTS - FAILED
    assert repr(results) == f"SweepResults({out}: {POINTS - FAILED} of {POINTS} points)"
    with pytest.raises(InputError, match="no rows of a sweep"):
        SweepResults.read(tmp_path)


def test_where_the_plan_changes_its_source(tmp_path):
    axes = {**AXES, "gpus": [32, 64, 128]}
    sweep(study_of(axes), tmp_path / "sizes", LossyWorkers(1))
    assert (
        SweepResults.read(tmp_path / "sizes")
        .plan_note()
        .startswith("plans change their source: searched at 32, 64 GPUs, published at 128 GPUs,")
    )
    sweep(study_of(), tmp_path / "size", LossyWorkers(1))
    assert SweepResults.read(tmp_path / "size").plan_note() == ""


def test_progress_says_how_far_it_is_and_what_is_best(tmp_path):
    said = []

    class Listener(Monitor):
        def progress(self, share, activity="", /):
            said.append((share, activity))

    sweep(study_of(), tmp_path / "out", LossyWorkers(2), monitor=Listener())
    shares = [share for share, _ in said]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    start = rf"{POINTS} of {POINTS}, {FAILED} failed, [\d.,]+/s, best: "
    assert re.fullmatch(start + r"fat-tree at rate_gbps=400 por\.\.\.", said[-1][1])


def test_a_monitor_stops_a_sweep(tmp_path):
    class Stopper(Monitor):
        def progress(self, share, _activity="", /):
            return share < 0.4

    assert sweep(study_of(), tmp_path / "out", LossyWorkers(2), monitor=Stopper())
    assert 0 < manifest(tmp_path / "out")["done"] < POINTS
