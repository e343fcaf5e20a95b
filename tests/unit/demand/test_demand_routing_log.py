"""Routing logs: both forms, exact replay, resampling, refusals with their line."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightloom.demand import (
    MemberPlacement,
    PerTokenSource,
    Shape,
    expected_distinct,
    from_routing_log,
    member_tokens,
    read_routing_log,
)
from lightloom.demand.log_formats import Limits
from lightloom.demand.routing_log import LogLayout
from lightloom.errors import DemandError

DATA = Path(__file__).parents[4] / "shared" / "data" / "routing"

HEADER = {
    "row_type": "header",
    "schema": "simllm-preplay-trace-v1",
    "provenance": {
        "expert_count": 8,
        "top_k": 2,
        "moe_layer_indices": [1, 3],
        "model_id": "test/model",
    },
}
FOOTER = {
    "row_type": "footer",
    "schema": "simllm-preplay-trace-v1",
    "prefill_forward_token_count": 4,
    "decode_forward_token_count": 2,
}
#: experts of each of 6 tokens in layers 1 and 3
CHOICES = [
    ([0, 1], [2, 3]),
    ([0, 2], [4, 5]),
    ([7, 6], [6, 7]),
    ([4, 0], [0, 1]),
    ([5, 4], [7, 0]),
    ([1, 0], [1, 2]),
]


def token(number, **changes):
    first, second = CHOICES[number]
    return {
        "row_type": "forward-token",
        "schema": "simllm-preplay-trace-v1",
        "phase": "prefill" if number < 4 else "decode",
        # the order of layers does not matter
        "routing": [
            {"layer_index": 3, "expert_ids": second, "gate_weights": [0.5, 0.5]},
            {"layer_index": 1, "expert_ids": first},
        ],
        **changes,
    }


def simllm():
    return [HEADER, *(token(number) for number in range(6)), FOOTER]


def call(rank, layer, choices, step=0, **changes):
    return {
        "step": step,
        "stage": "pre_dispatch",
        "block": "decoder",
        "layer": layer,
        "rank": rank,
        "num_tokens": len(choices),
        "topk": 2,
        "top_indices": choices,
        **changes,
    }


@pytest.fixture
def log_file(tmp_path):
    def write(rows, name="log.jsonl"):
        path = tmp_path / name
        lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def counts_of(source, group=0, layers=(0,), micro_batches=1, step=0):
    return source.tokens(group=group, layers=layers, micro_batches=micro_batches, step=step)


def random_choices(rng, tokens, experts=8, top_k=2):
    return [rng.permutation(experts)[:top_k].tolist() for _ in range(tokens)]


# --- simllm ---------------------------------------------------------------------------------


def test_a_stream_of_tokens_is_dealt_out_in_order(log_file):
    source = from_routing_log(log_file(simllm()), Shape(2, 8, 1, 2))
    counts = counts_of(source, layers=[0, 1], micro_batches=3)
    for micro_batch in range(3):
        for rank in range(2):
            for layer in range(2):
                expected = np.bincount(CHOICES[2 * micro_batch + rank][layer], minlength=8)
                assert (counts[layer, micro_batch, rank] == expected).all()
    assert source.exact
    assert isinstance(source, PerTokenSource)
    assert source.provenance["model"] == "test/model"


def test_tokens_are_counted_once_per_member(log_file):
    source = from_routing_log(log_file(simllm()), Shape(2, 8, 3, 2))
    distinct = source.distinct(group=0, layers=[0], micro_batches=1, step=0, members=2)
    # experts 0-3 are on member 0; tokens 0-2 are of rank 0: {0,1} {0,2} {7,6}
    assert distinct[0, 0].tolist() == [[2, 1], [2, 2]]
    result = member_tokens(
        source,
        MemberPlacement(2, 1, deduplicate=True),
        group=0,
        layers=[0],
        micro_batches=1,
        step=0,
    )
    # rank 0 sends token {7,6} once and it is copied on arrival; rank 1 sends {4,0} and {1,0}
    assert result.tokens[0, 0].tolist() == [[1, 1], [2, 1]]
    assert result.exact
    assert not result.expected
    plain = member_tokens(
        source, MemberPlacement(2, 1), group=0, layers=[0], micro_batches=1, step=0
    )
    assert plain.tokens[0, 0].tolist() == [[0, 2], [3, 0]]
    assert plain.tokens.sum() == result.tokens.sum()
    assert (result.combine()[0, 0] == result.tokens[0, 0].T).all()


def test_node_limit_is_checked_token_by_token(log_file):
    source = from_routing_log(log_file(simllm()), Shape(2, 8, 3, 2))
    source.check_node_limit(4, 2)
    with pytest.raises(
        DemandError, match="layer 1: token 1 reaches 2 of 4 expert groups, the model's routing all"
    ):
        source.check_node_limit(4, 1)
    with pytest.raises(DemandError, match="reaches 2 of 4 expert groups"):
        member_tokens(
            source,
            MemberPlacement(2, 1, num_groups=4, top_groups=1),
            group=0,
            layers=[0],
            micro_batches=1,
            step=0,
        )


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ({"group": 1}, "EP group 1 of a log of 1; use a log of this job or resample"),
        ({"layers": [2]}, "MoE layer 2 of a log of 2; use a log of this job or resample"),
        ({"step": 1}, "step 1 of a log of 1; use a log of this job or resample"),
        ({"micro_batches": 2}, "6 tokens in the log are too few for micro-batch 1 of 2 EP ranks"),
    ],
)
def test_a_stream_replays_only_what_it_holds(log_file, index, message):
    source = from_routing_log(log_file(simllm()), Shape(2, 8, 3, 2))
    with pytest.raises(DemandError, match=message):
        counts_of(source, **index)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 16, 1, 2), "a log of 8 experts does not fit a job of 16"),
        ((2, 4, 1, 2), "a log of 8 experts does not fit a job of 4"),
        ((2, 8, 1, 3), "a log of top-2 routing does not fit a job of top-3"),
    ],
)
def test_another_model_is_refused(log_file, shape, message):
    path = log_file(simllm())
    for options in ({}, {"resample": True, "seed": 0}):
        with pytest.raises(DemandError, match=message):
            from_routing_log(path, Shape(*shape), **options)


def edited(position, value):
    rows = simllm()
    rows[position] = value
    return rows


def without(row, key):
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the file is empty"),
        (["nonsense"], "line 1: not valid JSON"),
        (["[1]"], "line 1: expected a JSON object, got"),
        ([{"row_type": "request"}], "line 1: expected the header of a simllm log"),
        ([{**HEADER, "schema": "v9"}], "line 1: schema 'v9' is not known; known: simllm"),
        ([{**HEADER, "provenance": 3}], "line 1: the header has no 'provenance'"),
        (
            [{**HEADER, "provenance": {"expert_count": 0}}],
            "expert_count: expected a whole number from 1 to 65535, got 0",
        ),
        (
            [{**HEADER, "provenance": {**HEADER["provenance"], "moe_layer_indices": [1, 1]}}],
            "moe_layer_indices: expected different layer numbers",
        ),
        (simllm()[:-1], "the footer is missing; the log was cut off"),
        (simllm()[:3] + simllm()[4:], "the footer counts 4 prefill tokens, the log has 3"),
        ([*simllm(), token(0)], "line 9: a line after the footer"),
        (
            [
                HEADER,
                {
                    **FOOTER,
                    "prefill_forward_token_count": 0,
                    "decode_forward_token_count": 0,
                },
            ],
            "no token was routed",
        ),
        (edited(2, token(1, schema="other")), "line 3: schema 'other' differs"),
        (edited(2, token(1, row_type="rumour")), "line 3: row_type 'rumour' is not known"),
        (edited(2, token(1, phase="pause")), "line 3: phase: expected prefill or decode"),
        (edited(2, token(1, routing=[])), r"line 3: routing: expected 2 layers, got \[\]"),
        (edited(2, token(1, routing=[1, 2])), "line 3: routing: no layer of the header in 1"),
        (
            edited(2, token(1, routing=[{"layer_index": 1, "expert_ids": [0, 1]}] * 2)),
            "line 3: routing: layer 1 occurs twice",
        ),
    ],
)
def test_broken_simllm_logs(log_file, rows, message):
    with pytest.raises(DemandError, match=message) as caught:
        read_routing_log(log_file(rows))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("experts", "message"),
    [
        ([0], r"expected 2 experts per token, got \[0\]"),
        ("01", "expected 2 experts per token, got '01'"),
        ([0, 0], r"a token chooses an expert twice: \[0, 0\]"),
        ([0, 8], "expert 8 of a model with 8 experts"),
        ([0, -1], "expected expert numbers below 65535, got -1"),
        ([0, True], "expected expert numbers below 65535, got True"),
        ([0, 1.0], "expected expert numbers below 65535, got 1.0"),
    ],
)
def test_wrong_experts_are_named_with_their_line(log_file, experts, message):
    routing = [
        {"layer_index": 1, "expert_ids": experts},
        {"layer_index": 3, "expert_ids": [0, 1]},
    ]
    with pytest.raises(DemandError, match=f"line 4: {message}"):
        read_routing_log(log_file(edited(3, token(2, routing=routing))))


# --- Megatron -------------------------------------------------------------------------------


def megatron(ranks=4, layers=2, micro_batches=2, tokens=5, steps=1, seed=0):
    """Rows of a log, and what they say: ``said[step][micro-batch][layer][rank]``."""
    rng = np.random.default_rng(seed)
    rows, said = [], np.empty((steps, micro_batches, layers, ranks), dtype=object)
    for step in range(steps):
        for micro_batch in range(micro_batches):
            for layer in range(layers):
                for rank in range(ranks):
                    choices = random_choices(rng, tokens)
                    said[step, micro_batch, layer, rank] = choices
                    rows.append(call(rank, layer, choices, step=step + 7))
    return rows, said


def test_megatron_replay_by_step_group_rank_layer_and_micro_batch(log_file):
    rows, said = megatron(steps=2)
    source = from_routing_log(log_file(rows), Shape(2, 8, 5, 2))
    for step in range(2):
        for group in range(2):
            counts = counts_of(source, group, [1, 0], 2, step)
            for place, micro_batch, rank in np.ndindex(2, 2, 2):
                choices = said[step, micro_batch, [1, 0][place], 2 * group + rank]
                expected = np.bincount(np.ravel(choices), minlength=8)
                assert (counts[place, micro_batch, rank] == expected).all()
    assert source.exact


def test_one_file_per_rank_in_a_folder(tmp_path, log_file):
    rows, _ = megatron()
    whole = from_routing_log(log_file(rows, "whole.jsonl"), Shape(2, 8, 5, 2))
    folder = tmp_path / "ranks"
    folder.mkdir()
    for rank in range(4):
        lines = [json.dumps(row) for row in rows if row["rank"] == rank]
        (folder / f"router_trace_rank{rank}.jsonl").write_text("\n".join(lines))
    split = from_routing_log(folder, Shape(2, 8, 5, 2))
    for group in range(2):
        assert (counts_of(split, group, [0, 1], 2) == counts_of(whole, group, [0, 1], 2)).all()


def test_ranks_of_one_source_add_up(log_file):
    rows, said = megatron()
    layout = LogLayout(ranks_per_source=2)
    source = from_routing_log(log_file(rows), Shape(2, 8, 10, 2), layout=layout)
    counts = counts_of(source)
    for rank in range(2):
        both = said[0, 0, 0, 2 * rank] + said[0, 0, 0, 2 * rank + 1]
        assert (counts[0, 0, rank] == np.bincount(np.ravel(both), minlength=8)).all()


def test_stages_number_their_layers_from_their_own_first(log_file):
    rows, said = megatron(ranks=8, layers=2)
    # ranks 0-3 are stage 0 with MoE layers 0 and 1, ranks 4-7 stage 1 with layers 2 and 3
    source = from_routing_log(log_file(rows), Shape(2, 8, 5, 2), layout=LogLayout(stages=2))
    counts = counts_of(source, group=1, layers=[3, 0])
    for place, (layer, rank) in enumerate([(1, 6), (0, 2)]):
        expected = np.bincount(np.ravel(said[0, 0, layer, rank]), minlength=8)
        assert (counts[place, 0, 0] == expected).all()
    with pytest.raises(DemandError, match="MoE layer 4 of a log of 4; use a log of this job"):
        counts_of(source, layers=[4])
    with pytest.raises(DemandError, match="EP group 2 of a log of 2; use a log of this job"):
        counts_of(source, group=2)


def test_lines_outside_the_decoder_are_left_out_and_counted(log_file):
    rows, _ = megatron()
    extra = call(0, 0, [[0, 1]], block="mtp", mtp_idx=0)
    log = read_routing_log(log_file([*rows, extra, extra]))
    assert log.notes["left out"] == "2 router calls outside the decoder"
    assert len(log.calls[7, 0, 0]) == 2


@pytest.mark.parametrize(
    ("shape", "index", "message"),
    [
        ((8, 8, 5, 2), {}, "4 ranks in the log do not make 1 stage.* of EP groups of 8 ranks x 1"),
        ((2, 8, 6, 2), {}, "5 tokens of EP rank 0 in the log, the job routes 6"),
        ((2, 8, 5, 2), {"micro_batches": 3}, "rank 0 has 2 router call.* needs micro-batch 2"),
        ((2, 8, 5, 2), {"layers": [2]}, "MoE layer 2 of a log of 2;"),
        ((2, 8, 5, 2), {"step": 1}, "step 1 of a log of 1;"),
    ],
)
def test_megatron_replays_only_what_it_holds(log_file, shape, index, message):
    rows, _ = megatron()
    with pytest.raises(DemandError, match=message):
        counts_of(from_routing_log(log_file(rows), Shape(*shape)), **index)


def test_missing_rank_is_named(log_file):
    rows, _ = megatron()
    rows = [row for row in rows if (row["rank"], row["layer"]) != (1, 1)]
    source = from_routing_log(log_file(rows), Shape(2, 8, 5, 2))
    with pytest.raises(DemandError, match=r"rank 1 has 0 router call\(s\) of layer 1 in step 7"):
        counts_of(source, layers=[1])


GOOD = call(0, 0, [[0, 1], [2, 3]])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (without(GOOD, "rank"), "'rank' of a Megatron router call is missing"),
        ({**GOOD, "step": -1}, "step: expected a whole number, got -1"),
        ({**GOOD, "layer": "3"}, "layer: expected a whole number, got '3'"),
        ({**GOOD, "topk": 0}, "topk: expected a number above 0, got 0"),
        ({**GOOD, "num_tokens": 3}, "num_tokens is 3, but top_indices has 2"),
        ({**GOOD, "top_indices": 5}, "expected a list of expert lists, got 5"),
        ({**GOOD, "top_indices": [[0, 1], [2]]}, r"expected 2 experts per token, got \[2\]"),
        ({**GOOD, "top_indices": [[0, 1], [2, 2]]}, "a token chooses an expert twice"),
        (
            {**GOOD, "top_indices": [[0, 1], [2, 70000]]},
            "expected expert numbers below 65535, got 70000",
        ),
    ],
)
def test_broken_megatron_lines(log_file, row, message):
    rows = [row] if "topk: expected" in message else [GOOD, row]
    with pytest.raises(DemandError, match=f"line {len(rows)}: {message}"):
        read_routing_log(log_file(rows))


def test_a_log_is_of_one_model_and_one_form(log_file):
    other = call(0, 1, [[0, 1, 2]], topk=3)
    with pytest.raises(DemandError, match="line 2: top-3 routing, but the lines before are top-2"):
        read_routing_log(log_file([GOOD, other]))
    with pytest.raises(
        DemandError, match="line 1: 'block' of a Megatron router call is missing, and it is neither"
    ):
        read_routing_log(log_file([without(GOOD, "block"), HEADER]))


def test_a_simllm_log_stands_alone(tmp_path, log_file):
    log_file(simllm(), "a.jsonl")
    log_file([GOOD], "b.jsonl")
    with pytest.raises(DemandError, match=r"b\.jsonl, line 1: a simllm log must be the only file"):
        read_routing_log(tmp_path)
    (tmp_path / "a.jsonl").rename(tmp_path / "c.jsonl")
    with pytest.raises(DemandError, match=r"c\.jsonl, line 1: a simllm log must be the only file"):
        read_routing_log(tmp_path)


def test_nothing_to_replay(log_file, tmp_path):
    with pytest.raises(DemandError, match="no router call of the decoder"):
        read_routing_log(log_file([call(0, 0, [[0, 1]], block="mtp")]))
    with pytest.raises(DemandError, match="no router call of the decoder"):
        read_routing_log(log_file([call(0, 0, [])]))
    folder = tmp_path / "empty"
    folder.mkdir()
    with pytest.raises(DemandError, match=r"the folder has no \*\.jsonl file"):
        read_routing_log(folder)
    with pytest.raises(DemandError, match="no such file"):
        read_routing_log(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(file_bytes=10), "bytes exceed the limit of 10"),
        (Limits(line_bytes=50), "line 1: longer than the limit of 50 bytes"),
        (Limits(lines=2), "line 3: more than 2 lines"),
        (Limits(choices=9), "line 4: more than 9 expert choices"),
    ],
)
def test_reading_is_bounded(log_file, limits, message):
    with pytest.raises(DemandError, match=message):
        read_routing_log(log_file(simllm()), limits)


# --- resampling -----------------------------------------------------------------------------


def test_resampling_must_be_asked_for_and_is_marked(log_file):
    path = log_file(simllm())
    source = from_routing_log(path, Shape(4, 8, 100, 2), resample=True, seed=1)
    counts = counts_of(source, group=9, layers=range(5), micro_batches=3, step=4)
    assert (counts.sum(axis=-1) == 200).all()
    assert not source.exact
    assert source.provenance["resampled"] == (
        "100 tokens per EP rank drawn with replacement from 6 logged tokens per layer; "
        "layers beyond 2 repeat"
    )
    assert (counts[0] == counts[2]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"resample": True}, "resampling draws tokens; give a seed"),
        ({"seed": 1}, "an exact replay draws nothing; leave it out"),
        (
            {"resample": True, "seed": 1, "layout": LogLayout(ranks_per_source=2)},
            "ranks_per_source has no effect",
        ),
        ({"layout": LogLayout(stages=2)}, "the log has no ranks to lay out"),
    ],
)
def test_options_that_contradict(log_file, options, message):
    with pytest.raises(DemandError, match=message):
        from_routing_log(log_file(simllm()), Shape(1, 8, 6, 2), **options)


def test_layouts_must_fit_the_ranks(log_file):
    rows, _ = megatron()
    for options in ({}, {"resample": True, "seed": 0}):
        with pytest.raises(DemandError, match="4 ranks in the log are not of 3 stages"):
            from_routing_log(
                log_file(rows), Shape(2, 8, 5, 2), layout=LogLayout(stages=3), **options
            )
    with pytest.raises(DemandError, match="a layout of ranks has numbers above 0 only"):
        from_routing_log(log_file(rows), Shape(2, 8, 5, 2), layout=LogLayout(ranks_per_source=0))


@pytest.mark.parametrize("small", [4096, 0])
def test_resampled_tokens_are_tokens_of_the_log(log_file, monkeypatch, small):
    monkeypatch.setattr("lightloom.demand.routing_log._SMALL_POOL", small)
    source = from_routing_log(log_file(simllm()), Shape(1, 8, 20_000, 2), resample=True, seed=2)
    counts = counts_of(source, layers=[0, 1], micro_batches=2)
    share = counts.mean(axis=(1, 2)) / 20_000
    for layer in range(2):
        drawn = np.bincount(np.ravel([choice[layer] for choice in CHOICES]), minlength=8) / 6
        assert share[layer] == pytest.approx(drawn, abs=0.01)
    distinct = source.distinct(group=0, layers=[0], micro_batches=2, step=0, members=2)
    # of the six tokens in layer 1, four touch experts 0-3 and three touch experts 4-7
    assert distinct.mean(axis=(0, 1, 2)) / 20_000 == pytest.approx([4 / 6, 3 / 6], abs=0.01)
    # the same tokens are drawn for copies and for distinct tokens
    assert (distinct.sum(axis=-1) <= counts[0].sum(axis=-1)).all()
    single = distinct[0, :, 0, 0] + distinct[0, :, 0, 1]
    both = single - 20_000
    tokens_on_both = counts[0, :, 0, 2]  # expert 2 occurs once, in token {0, 2} of member 0
    assert (both >= 0).all()
    assert (tokens_on_both > 0).all()


def test_resampled_layers_keep_their_tokens(log_file):
    # token 2 alone chooses experts 6 and 7 in both layers: equal counts in both
    rows = edited(
        5,
        token(
            4,
            routing=[
                {"layer_index": 1, "expert_ids": [5, 4]},
                {"layer_index": 3, "expert_ids": [5, 0]},
            ],
        ),
    )
    source = from_routing_log(log_file(rows), Shape(2, 8, 50, 2), resample=True, seed=3)
    counts = counts_of(source, layers=[0, 1], micro_batches=4)
    assert (counts[0, ..., 6] == counts[1, ..., 6]).all()
    assert (counts[0, ..., 7] == counts[1, ..., 7]).all()


@pytest.mark.parametrize("small", [4096, 0])
def test_resampling_does_not_depend_on_the_order_of_calls(log_file, monkeypatch, small):
    monkeypatch.setattr("lightloom.demand.routing_log._SMALL_POOL", small)
    path = log_file(simllm())

    def make():
        return from_routing_log(path, Shape(2, 8, 50, 2), resample=True, seed=4)

    whole = counts_of(make(), 1, [0, 1], 3, 2)
    other = make()
    counts_of(other, 5, [1], 1, 9)
    assert (counts_of(other, 1, [1], 3, 2)[0] == whole[1]).all()
    assert (counts_of(other, 1, [0, 1], 2, 2) == whole[:, :2]).all()
    assert (counts_of(other, 0, [0, 1], 3, 2) != whole).any()
    assert (counts_of(other, 1, [0, 1], 3, 3) != whole).any()


def test_resampling_tells_stages_apart(log_file):
    rows = [call(rank, 0, [[2 * rank, 2 * rank + 1]]) for rank in range(2)]
    layout = LogLayout(stages=2)
    source = from_routing_log(
        log_file(rows), Shape(1, 8, 10, 2), resample=True, seed=0, layout=layout
    )
    assert counts_of(source, layers=[0, 1, 2])[:, 0, 0, :4].tolist() == [
        [10, 10, 0, 0],
        [0, 0, 10, 10],
        [10, 10, 0, 0],
    ]


def test_a_layer_without_tokens_cannot_be_resampled(log_file):
    rows = [call(0, 0, [[0, 1]]), call(0, 1, [])]
    with pytest.raises(DemandError, match="a layer without tokens has nothing to draw from"):
        from_routing_log(log_file(rows), Shape(1, 8, 10, 2), resample=True, seed=0)


def test_logs_of_unequal_layers_resample_each_layer_from_its_own(log_file):
    rows = [call(0, 0, [[0, 1]] * 3), call(0, 1, [[2, 3]] * 5)]
    source = from_routing_log(log_file(rows), Shape(1, 8, 10, 2), resample=True, seed=0)
    assert counts_of(source, layers=[0, 1])[:, 0, 0].tolist() == [
        [10, 10, 0, 0, 0, 0, 0, 0],
        [0, 0, 10, 10, 0, 0, 0, 0],
    ]
    assert "from 3 to 5 logged tokens" in source.provenance["resampled"]


# --- the public logs ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("granite-3.0-1b-a400m_length_cap.jsonl", 22), ("granite-3.0-1b-a400m_sglang.jsonl", 216)],
)
def test_public_logs(name, tokens):
    path = DATA / name
    if not path.exists():
        pytest.skip("the reference data ../shared/data is absent")
    log = read_routing_log(path)
    assert (log.experts, log.top_k, len(log.layers)) == (32, 8, 24)
    source = from_routing_log(path, Shape(2, 32, tokens // 2, 8))
    counts = counts_of(source, layers=range(24))
    assert counts.sum() == tokens * 8 * 24
    distinct = source.distinct(group=0, layers=range(24), micro_batches=1, step=0, members=2)
    assert (distinct <= tokens // 2).all()
    assert distinct.sum() < counts.sum()


@pytest.mark.parametrize(("members", "sent"), [(2, 1.997), (4, 3.715), (8, 5.704), (16, 7.162)])
def test_expected_tokens_against_a_public_log(members, sent):
    path = DATA / "granite-3.0-1b-a400m_sglang.jsonl"
    if not path.exists():
        pytest.skip("the reference data ../shared/data is absent")
    source = from_routing_log(path, Shape(1, 32, 216, 8))
    index = {"group": 0, "layers": range(24), "micro_batches": 1, "step": 0}
    exact = source.distinct(**index, members=members)
    expected = expected_distinct(source.tokens(**index), source.shape, members=members)
    assert exact.sum() / 24 / 216 == pytest.approx(sent, abs=5e-4)
    assert expected.sum() == pytest.approx(exact.sum(), rel=0.006)
    assert expected.sum(axis=-1) == pytest.approx(exact.sum(axis=-1), rel=0.11)
