"""Traces of loads from the generator and from routing logs."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightloom.demand import read_routing_log, synthetic
from lightloom.demand.load_history import (
    MAX_ENTRIES,
    LoadHistory,
    check_entries,
    history_of_log,
    history_of_source,
)
from lightloom.demand.regime import TOPIC_REGIMES
from lightloom.errors import DemandError

LOGS = Path(__file__).parents[3] / "../shared/data/routing"


def source(regime, seed=0, **shape):
    sizes = {"ranks": 4, "experts": 16, "tokens_per_rank": 4096, "top_k": 2, **shape}
    return synthetic(regime, seed=seed, **sizes)


def megatron(path, calls):
    """Router calls as (step, rank, layer, choices) in one file."""
    rows = [
        {"step": step, "stage": 0, "block": "decoder", "layer": layer, "rank": rank,
         "num_tokens": len(choices), "topk": 1, "top_indices": [[c] for c in choices]}
        for step, rank, layer, choices in calls
    ]  # fmt: skip
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_routing_log(path)


def test_trace_of_a_source_holds_its_counts():
    drawn = source("volatile")
    shares = []
    history = history_of_source(
        drawn, steps=3, layers=2, synthetic=True, progress=lambda share, _: shares.append(share)
    )
    assert shares == pytest.approx([1 / 3, 2 / 3, 1])
    assert (history.steps, history.layers, history.sources, history.experts) == (3, 2, 4, 16)
    expected = drawn.tokens(group=0, layers=[1], micro_batches=1, step=2)[0, 0]
    assert np.array_equal(history.counts[2, 1], expected)
    assert history.synthetic
    assert history.sources_known
    assert history.provenance["seed"] == "0"
    assert history.copies_per_step == 4 * 4096 * 2


def test_same_seed_same_trace_and_another_seed_another():
    first, two, three = (
        history_of_source(source("calm", seed), steps=2, layers=2, synthetic=True)
        for seed in (5, 5, 6)
    )
    assert np.array_equal(first.counts, two.counts)
    assert not np.array_equal(first.counts, three.counts)


@pytest.mark.parametrize(
    ("regime", "low", "high"),
    [("calm", 0.08, 0.16), ("volatile", 0.22, 0.4), ("extreme", 0.4, 0.7)],
)
def test_topics_spread_the_loads_as_stated(regime, low, high):
    """CV of a load from step to step: .12 calm, .30 volatile, .5 extreme."""
    drawn = synthetic(
        regime, ranks=4, experts=64, tokens_per_rank=2**16, top_k=2, seed=0, rho=1.0,
        concentration=1e6,
    )  # fmt: skip
    loads = history_of_source(drawn, steps=80, layers=2, synthetic=True).counts.sum(axis=2)
    assert low < (loads.std(axis=0) / loads.mean(axis=0)).mean() < high


@pytest.mark.parametrize("regime", TOPIC_REGIMES)
def test_layers_of_a_step_are_tied(regime):
    """A linear map fitted on half of the steps explains the next layer in the other half."""
    drawn = synthetic(
        regime, ranks=2, experts=32, tokens_per_rank=2**16, top_k=2, seed=1, rho=1.0,
        concentration=1e6,
    )  # fmt: skip
    loads = history_of_source(drawn, steps=120, layers=2, synthetic=True).counts.sum(axis=2)
    before, after = (loads[:, layer] / loads[:, layer].sum(-1, keepdims=True) for layer in (0, 1))
    halves = slice(0, 80), slice(80, 120)
    center = before[halves[0]].mean(0), after[halves[0]].mean(0)
    fitted, *_ = np.linalg.lstsq(before[halves[0]] - center[0], after[halves[0]] - center[1], 1e-2)
    left = after[halves[1]] - center[1] - (before[halves[1]] - center[0]) @ fitted
    assert (left**2).sum() < 0.2 * ((after[halves[1]] - center[1]) ** 2).sum()


def test_the_smallest_step_of_a_layer_says_how_many_copies_there_are():
    counts = np.ones((3, 2, 2, 4))
    counts[1, 0] = 0.5
    counts[2, 1] = 7.0
    assert LoadHistory("uneven", counts, True).copies_per_step == 4


@pytest.mark.parametrize("experts", [2, 3, 16])
def test_sampling_noise_is_what_draws_deviate(experts):
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.full(experts, 16.0))
    counts = rng.multinomial(2000, shares, size=(4000, 1, 1)).astype(float)
    history = LoadHistory("drawn", counts, False)
    actual = np.abs(counts[:, 0, 0] / 2000 - shares).sum(axis=1).mean()
    assert history.sampling_noise() == pytest.approx(actual, rel=0.05)


def test_stream_is_cut_into_steps():
    if not LOGS.exists():
        pytest.skip("../shared/data/routing is not there")
    log = read_routing_log(LOGS / "granite-3.0-1b-a400m_sglang.jsonl")
    whole = history_of_log(log)
    assert (whole.steps, whole.layers, whole.experts) == (1, 24, 32)
    cut = history_of_log(log, tokens_per_step=50)
    tokens = int(whole.counts[0, 0].sum()) // 8
    assert cut.steps == tokens // 50
    assert (cut.counts.sum(axis=(2, 3)) == 50 * 8).all()
    used = cut.steps * 50
    layer = log.layers[3]
    expected = np.bincount(log.calls[0, 0, layer][0][:used].ravel(), minlength=32)
    assert np.array_equal(cut.counts[:, 3, 0].sum(axis=0), expected)
    assert not cut.sources_known
    assert "cut every 50 tokens" in cut.provenance["steps"]
    with pytest.raises(DemandError, match="the log is one stream; it has no pipeline stages"):
        history_of_log(log, stages=2)
    with pytest.raises(DemandError, match="tokens per step: expected 1 to the"):
        history_of_log(log, tokens_per_step=10**6)
    with pytest.raises(DemandError, match="a log of 32 experts, 64 were given"):
        history_of_log(log, experts=64)


@pytest.mark.parametrize("name", ["length_cap", "sglang"])
def test_every_public_log_becomes_a_trace(name):
    path = LOGS / f"granite-3.0-1b-a400m_{name}.jsonl"
    if not path.exists():
        pytest.skip(f"../shared/data/routing/{path.name} is not there")
    history = history_of_log(read_routing_log(path), tokens_per_step=4)
    assert history.experts == 32
    assert history.steps >= 2
    assert (history.counts.sum(axis=(2, 3)) == 4 * 8).all()


def test_micro_batches_follow_each_other_as_steps(tmp_path):
    calls = [
        (step, rank, layer, [(step + rank + layer + part) % 4] * 2)
        for step in (10, 20) for part in range(2) for layer in (3, 7) for rank in (0, 1)
    ]  # fmt: skip
    history = history_of_log(megatron(tmp_path / "log.jsonl", calls), experts=4)
    assert history.counts.shape == (4, 2, 2, 4)
    # second micro-batch of step 20, layer 7, rank 1
    assert history.counts[3, 1, 1, (20 + 1 + 7 + 1) % 4] == 2
    assert history.sources_known


def test_stages_stack_their_layers(tmp_path):
    calls = [(0, rank, layer, [rank]) for layer in (0, 1) for rank in range(4)]
    history = history_of_log(megatron(tmp_path / "log.jsonl", calls), experts=4, stages=2)
    assert history.counts.shape == (1, 4, 2, 4)
    # layers of stage 0 by ranks 0 and 1, then those of stage 1 by ranks 2 and 3
    assert history.counts[0, :, 0].argmax(axis=-1).tolist() == [0, 0, 2, 2]
    assert history.counts[0, :, 1].argmax(axis=-1).tolist() == [1, 1, 3, 3]


def test_logs_that_do_not_fit(tmp_path):
    calls = [(0, 0, 0, [1]), (0, 1, 0, [1]), (1, 0, 0, [1])]
    log = megatron(tmp_path / "log.jsonl", calls)
    for options, message in (
        (
            {},
            "the log does not say how many experts there are (at least 2); give their number "
            "(--experts)",
        ),
        ({"experts": 1}, "a log of at least 2 experts, 1 were given"),
        ({"experts": 0}, "experts: expected 1 to 65535, got 0"),
        ({"experts": 4}, "step 1 has 0 router calls of layer 0 by rank 1, and 1 of layer 0"),
        ({"experts": 4, "stages": 3}, "2 ranks in the log are not of 3 stages"),
        ({"experts": 4, "tokens_per_step": 1}, "the log has steps; leave out the tokens per step"),
    ):
        with pytest.raises(DemandError) as caught:
            history_of_log(log, **options)
        assert message in str(caught.value)


def test_traces_that_cannot_be():
    with pytest.raises(DemandError, match=r"^empty: no tokens in layer 1 of step 0$"):
        LoadHistory("empty", np.array([[[[1.0]], [[0.0]]]]), False)
    with pytest.raises(DemandError, match="steps: expected a whole number above 0, got 0"):
        history_of_source(source("calm"), steps=0, layers=1, synthetic=True)
    with pytest.raises(DemandError, match=f"numbers exceed {MAX_ENTRIES:,}; use fewer steps"):
        history_of_source(source("calm"), steps=10**9, layers=10, synthetic=True)
    check_entries("just", (MAX_ENTRIES,))
