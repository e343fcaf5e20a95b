"""One name for any demand."""

import json

import pytest

from lightloom.demand import REGIMES, LogLayout, Shape, open_demand
from lightloom.demand.open import kind_of
from lightloom.errors import DemandError

SHAPE = Shape(ranks=2, experts=4, tokens_per_rank=8, top_k=1)


@pytest.fixture
def files(tmp_path):
    matrix = tmp_path / "matrix.json"
    matrix.write_text(json.dumps([[6, 2, 0, 0], [1, 2, 3, 2]]))
    folder = tmp_path / "log"
    folder.mkdir()
    for rank in range(2):
        line = {
            "step": 0,
            "stage": "pre_dispatch",
            "block": "decoder",
            "layer": 0,
            "rank": rank,
            "num_tokens": 8,
            "topk": 1,
            "top_indices": [[rank]] * 8,
        }
        (folder / f"{rank}.jsonl").write_text(json.dumps(line))
    return tmp_path


def counts_of(source):
    return source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0].tolist()


@pytest.mark.parametrize("regime", REGIMES)
def test_regimes(regime):
    assert open_demand(regime, SHAPE, seed=1).name == regime


def test_files(files):
    assert kind_of(str(files / "log" / "0.jsonl")) == "log"
    matrix = open_demand(str(files / "matrix.json"), SHAPE, seed=1)
    assert counts_of(matrix) == [[6, 2, 0, 0], [1, 2, 3, 2]]
    log = open_demand(str(files / "log"), SHAPE, seed=1)
    assert counts_of(log) == [[8, 0, 0, 0], [0, 8, 0, 0]]
    assert log.exact
    drawn = open_demand(str(files / "log"), SHAPE, seed=1, resample=True)
    assert not drawn.exact
    assert sum(counts_of(drawn)[0]) == 8


def test_a_file_may_not_hide_behind_a_regime(files, monkeypatch):
    (files / "mixtral").write_text("[[1]]")
    monkeypatch.chdir(files)
    assert kind_of("mixtral") == "regime"
    assert kind_of("./mixtral") == "matrix"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mixtrl", {}, "'mixtrl' is neither a regime .* nor a file; did you mean 'mixtral'"),
        ("a\0b", {}, "is neither a regime"),
        ("a" * 5000, {}, "is neither a regime"),
        ("mixtral", {"resample": True}, "demand 'mixtral' is a regime; 'resample' has no meaning"),
        ("mixtral", {"scale": True}, "'scale' has no meaning for it"),
        ("mixtral", {"layout": LogLayout(stages=2)}, "'layout' has no meaning for it"),
    ],
)
def test_refusals(name, options, message):
    with pytest.raises(DemandError, match=message):
        open_demand(name, SHAPE, seed=0, **options)
