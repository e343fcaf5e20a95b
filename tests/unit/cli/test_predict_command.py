"""``lightloom predict``: what it prints, writes and refuses."""

import csv
import io
import json
import signal
import time
from pathlib import Path

import polars as pl
import pytest

from lightloom.demand.predictors import PREDICTORS

LOGS = Path(__file__).parents[3] / "../shared/data/routing"
DRAWN = "predict --synthetic calm --seed 3 --steps 20 --layers 2 --experts 8 --tokens 512"


@pytest.fixture
def table(tmp_path):
    """A table of 12 steps, 2 layers, 4 experts on two ranks."""
    rows = [
        {"step": step, "layer": layer, "rank": rank, "expert": expert,
         "load": 100 + (step * 7 + layer * 3 + rank + expert * 5) % 11}
        for step in range(12) for layer in range(2) for rank in range(2) for expert in range(4)
    ]  # fmt: skip
    path = tmp_path / "loads.csv"
    pl.DataFrame(rows).write_csv(path)
    return path


def rows_of(text):
    return {row["predictor"]: row for row in csv.DictReader(io.StringIO(text))}


def test_drawn_traces_are_called_synthetic(lightloom):
    outcome = lightloom(DRAWN)
    assert outcome.status == 0
    text = outcome.out
    assert "calm: SYNTHETIC loads, drawn by the generator; 20 steps x 2 layers x 8 experts" in text
    assert "seed: 3" in text
    assert "synthetic loads: they do not show how predictable a real model is" in text
    for name in [*(set(PREDICTORS) - {"copilot"}), "static circuits"]:
        assert f" {name} " in text
    assert "top-2" in text
    assert "Scores begin at step 10 and layer 1, the first with a layer before it." in text
    assert "10 scored steps of 20, at least 100 are needed" in text


def test_csv_has_a_row_per_predictor_and_the_tables_go_aside(lightloom):
    outcome = lightloom(f"{DRAWN} --csv -")
    rows = rows_of(outcome.out)
    assert list(rows)[-1] == "static circuits"
    assert float(rows["uniform"]["top_k_overlap"]) == pytest.approx(0.25)
    assert rows["static circuits"]["l1"] == ""
    assert float(rows["ridge"]["best_time_s"]) > 0
    assert int(rows["ewma"]["predictions"]) == 10
    assert "Predictors" in outcome.err


def test_same_seed_same_scores(lightloom):
    def scores(seed):
        rows = rows_of(lightloom(f"{DRAWN.replace('--seed 3', '')} --seed {seed} --csv -").out)
        keys = ("top_k_overlap", "l1", "regret_s", "regret_ratio")
        return {name: [row[key] for key in keys] for name, row in rows.items()}

    assert scores(4) == scores(4)
    assert scores(4) != scores(5)


def test_json_holds_inputs_and_scores(lightloom, tmp_path):
    path = tmp_path / "scores.json"
    lightloom(f"{DRAWN} --window 5 --ports 3 --rate 200 --predictors ewma,ridge --json {path}")
    content = json.loads(path.read_text())
    assert content["schema_version"] == 1
    assert content["interrupted"] is False
    inputs = content["inputs"]
    assert inputs["synthetic"] is True
    assert inputs["servers"] == 8
    assert (inputs["ports"], inputs["circuit_gbps"], inputs["eps_gbps"]) == (3, 200, 1000)
    assert inputs["window"] == 5
    assert inputs["first_scored_step"] == 6
    assert inputs["optimum_s"] > 0
    assert [row["predictor"] for row in content["scores"]] == ["ewma", "ridge", "static circuits"]


def test_a_table_of_loads_is_scored(lightloom, table):
    outcome = lightloom(f"predict {table} --experts-per-server 2 --predictors copilot,ewma --csv -")
    rows = rows_of(outcome.out)
    assert set(rows) == {"copilot", "ewma", "static circuits"}
    assert "loads.csv: log; 12 steps x 2 layers x 4 experts" in outcome.err
    assert "SYNTHETIC" not in outcome.err
    assert "too short to judge a predictor: 6 scored steps of 12" in outcome.err


def test_a_table_without_ranks_says_that_servers_send_the_same(lightloom, table):
    pl.read_csv(table).group_by("step", "layer", "expert").agg(pl.col("load").sum()).write_csv(
        table
    )
    assert "each sends the same" in lightloom(f"predict {table} --predictors ewma").out


@pytest.mark.parametrize("name", ["length_cap", "sglang"])
def test_the_public_logs_are_too_short_and_it_says_so(lightloom, refused, name):
    path = LOGS / f"granite-3.0-1b-a400m_{name}.jsonl"
    if not path.exists():
        pytest.skip(f"../shared/data/routing/{path.name} is not there")
    path = path.resolve()
    line = refused(f"predict {path}")
    assert "a log of one step, of which nothing can be predicted; expected 100 steps" in line
    text = lightloom(f"predict {path} --tokens-per-step 8 --predictors ewma").out
    assert "too short to judge a predictor" in text
    assert "2 token copies per expert and step, at least 64 are needed" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("predict", "expected either a LOG or --synthetic REGIME"),
        ("predict x.csv --synthetic calm", "expected either a LOG or --synthetic REGIME"),
        ("predict none.csv", "none.csv: no such file"),
        ("predict --synthetic clam", "unknown demand regime 'clam'; did you mean 'calm'?"),
        ("predict --synthetic uniform", "equal loads leave nothing to predict"),
        (f"{DRAWN} --stages 2", "--stages does not apply to a synthetic log"),
        (f"{DRAWN} --tokens-per-step 2", "--tokens-per-step does not apply to a synthetic log"),
        (f"{DRAWN} --predictors ridg", "unknown predictor 'ridg'; did you mean 'ridge'?"),
        (f"{DRAWN} --predictors ewma,ewma", "--predictors: 'ewma' is named twice"),
        (f"{DRAWN} --window 1", "window: expected a whole number from 2 to 1024, got 1"),
        (f"{DRAWN} --busiest 9", "top-k: expected 1 to 8 experts, got 9"),
        (f"{DRAWN} --ports 9", "--ports 9 of --nics 8: expected 1 to the number of NICs"),
        (f"{DRAWN} --rate 0", "--rate 0: expected more than 0"),
        (f"{DRAWN} --rate fast",
         "--rate fast: cannot read 'fast' as a rate such as 400, 400G or '400 Gb/s'"),
        (f"{DRAWN} --experts-per-server 3", "8 experts do not fill servers of 3 experts each"),
        (f"{DRAWN} --experts-per-server 0", "--experts-per-server 0: expected at least 1"),
        (f"{DRAWN} --experts-per-server 8", "8 experts do not fill two or more servers of 8"),
        (f"{DRAWN} --seed -1", "--seed -1: expected at least 0"),
        (f"{DRAWN} --steps 1", "calm: a log of one step, of which nothing can be predicted"),
        (f"{DRAWN} --hidden 0", "--hidden 0: expected at least 1"),
        (f"{DRAWN} --ports 2 --nics 2", "some servers cannot reach each other"),
        (f"{DRAWN} --csv - --json -", "--json - and --csv - both ask for standard output"),
        (f"{DRAWN} --csv none/x.csv", "none/x.csv: there is no folder none; make it first"),
        ("predict --synthetic calm --experts 64 --predictors copilot",
         "copilot takes at most 32 experts, got 64"),
    ],
)  # fmt: skip
def test_wrong_input_is_one_line(refused, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(arguments)
    assert list(tmp_path.iterdir()) == []


def test_options_that_a_log_does_not_read(refused, table):
    for option in ("--seed 1", "--steps 3", "--layers 2", "--tokens 3", "--experts-per-token 1"):
        line = refused(f"predict {table} {option}")
        assert line == f"{option.split()[0]} does not apply to a log"
    line = refused(f"predict {table} --stages 2")
    assert line == "--stages does not apply to a table of loads"


def test_an_interrupt_keeps_what_was_finished(spawn, tmp_path):
    """Ewma ends in a moment, copilot with 32 experts would take many seconds."""
    rows, whole = tmp_path / "rows.csv", tmp_path / "whole.json"
    process = spawn(
        "predict --synthetic calm --experts 32 --steps 200 --predictors ewma,copilot "
        f"--csv {rows} --json {whole}"
    )
    for _ in range(600):
        if rows.exists() and "ewma" in rows.read_text():
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "lightloom: interrupted"
    assert set(rows_of(rows.read_text())) == {"ewma"}
    content = json.loads(whole.read_text())
    assert content["interrupted"] is True
    assert [row["predictor"] for row in content["scores"]] == ["ewma"]


def test_no_predictors_and_regimes_without_their_option_get_a_hint(
    lightloom, tmp_path, monkeypatch
):
    outcome = lightloom("predict --synthetic calm --predictors ,")
    assert outcome.status == 2
    assert outcome.err.startswith("lightloom: --predictors: expected one of uniform, previous-")
    monkeypatch.chdir(tmp_path)
    outcome = lightloom("predict pair")
    assert outcome.status == 2
    assert outcome.err == "lightloom: pair: no such file; to draw it: --synthetic pair\n"


def test_two_drawn_steps_are_too_few_as_well(lightloom):
    outcome = lightloom("predict --synthetic calm --steps 2 --layers 1 --predictors ewma")
    assert outcome.status == 0
    text = "too short to judge a predictor: 1 scored step of 2, at least 100 are needed"
    assert f"warning: {text}" in outcome.out
