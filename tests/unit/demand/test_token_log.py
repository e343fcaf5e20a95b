"""Logs of one line per token and layer: the order of tokens, and what is refused."""

import json

import numpy as np
import pytest

from lightloom.demand.load_history import history_of_log
from lightloom.demand.log_formats import Limits, read_routing_log
from lightloom.demand.routing_log import replay
from lightloom.demand.source import Shape
from lightloom.errors import DemandError


def line(request, token, layer, chosen, **others):
    names = {"req_id": request, "token_idx": token, "layer": layer, "topk_ids": chosen}
    return json.dumps({**names, **others})


@pytest.fixture
def log(tmp_path):
    def write(*lines):
        path = tmp_path / "tokens.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


#: two requests, decoded in turn; the second layer sees them in another order
LINES = (
    line("a", 0, 3, [0, 1], weights=[0.5, 0.5]),
    line("b", 0, 3, [2, 3]),
    line("a", 1, 3, [4, 5]),
    line("b", 0, 7, [3, 2]),
    line("a", 1, 7, [1, 0]),
    line("a", 0, 7, [5, 4]),
)


def test_tokens_are_in_the_order_of_the_first_layer(log):
    read = read_routing_log(log(*LINES))
    assert (read.form, read.top_k, read.experts, read.streamed) == ("tokens", 2, None, True)
    assert read.layers == [3, 7]
    assert read.calls[0, 0, 3][0].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert read.calls[0, 0, 7][0].tolist() == [[5, 4], [3, 2], [1, 0]]
    assert read.notes["requests"] == "2"


def test_the_order_of_lines_within_a_layer_is_all_that_counts(log):
    by_token = read_routing_log(log(LINES[0], LINES[5], LINES[1], LINES[3], LINES[2], LINES[4]))
    by_layer = read_routing_log(log(*LINES))
    for place, calls in by_layer.calls.items():
        assert np.array_equal(by_token.calls[place][0], calls[0])


def test_request_names_may_be_numbers(log):
    read = read_routing_log(log(line(7, 0, 0, [1]), line(8, 0, 0, [2])))
    assert read.calls[0, 0, 0][0].tolist() == [[1], [2]]


def test_tokens_that_come_again_are_of_later_passes(log):
    """As a logger of vLLM writes them: what the run was, one name for all requests, and tokens
    that every pass counts from 0."""
    meta = '{"type": "meta", "model_id": "m", "vllm_version": "0.15.1", "top_k": 2}'
    passes = [
        line("r1", token, layer, [token + layer, number + 3], type="route")
        for number in (0, 1)
        for layer in (0, 1)
        for token in (0, 1)
    ]
    read = read_routing_log(log(meta, *passes))
    assert read.calls[0, 0, 0][0].tolist() == [[0, 3], [1, 3], [0, 4], [1, 4]]
    assert read.calls[0, 0, 1][0].tolist() == [[1, 3], [2, 3], [1, 4], [2, 4]]
    assert read.notes["requests"] == "1"
    assert read.notes["repeated"] == "2 tokens came before: they were routed again"


def test_it_is_demand_and_loads_as_any_stream_is(log):
    tokens = [
        line("r", token, layer, [(token + layer) % 4, (token + layer + 1) % 4])
        for token in range(8)
        for layer in (0, 1)
    ]
    read = read_routing_log(log(*tokens))
    shape = Shape(ranks=2, experts=4, tokens_per_rank=4, top_k=2)
    matrix = replay(read, shape).tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0]
    assert matrix.tolist() == [[2, 2, 2, 2], [2, 2, 2, 2]]
    trace = history_of_log(read, experts=4, tokens_per_step=2)
    assert trace.counts.shape == (4, 2, 1, 4)
    assert trace.counts.sum() == 8 * 2 * 2


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((LINES[0], line("a", 0, 7, [1])), "line 2: top-1 routing, but the lines before are top-2"),
        ((LINES[0], line("a", 0, 7, [1, 2, 3])), "line 2: top-3 routing, but the lines before are"),
        ((LINES[0], line("a", 1, 7, [1, 0])), "token 0 of request 'a' is in only one of the"),
        (LINES[:4], "token 0 of request 'a' is in only one of the layers 3 and 7"),
        (
            (*LINES, LINES[0]),
            "token 0 of request 'a' is 2 times in layer 3 and 1 times in layer 7; expected every",
        ),
        (('{"type": "meta", "top_k": 2}',), "no router call of the decoder"),
        ((LINES[0], '{"req_id": "a"}'), "line 2: 'token_idx' is missing"),
        ((line("a", -1, 0, [1]),), "line 1: token_idx: expected a whole number, got -1"),
        ((line("a", 1 << 32, 0, [1]),), "line 1: token_idx: expected a whole number"),
        ((line("a", 0, 0, [1, 1]),), "line 1: a token chooses an expert twice: [1, 1]"),
        ((line("a", 0, 0, [-1]),), "line 1: expected expert numbers below"),
        ((line("a", 0, 0, [True]),), "line 1: expected expert numbers below"),
        ((line("a", 0, 0, []),), "line 1: topk_ids: expected a list of experts, got []"),
        ((line(None, 0, 0, [1]),), "line 1: req_id: expected text"),
        ((line([], 0, 0, [1]),), "line 1: req_id: expected text"),
        ((line(True, 0, 0, [1]),), "line 1: req_id: expected text"),
        ((line("x" * 201, 0, 0, [1]),), "line 1: req_id: expected text"),
        (("[1]",), "line 1: expected a JSON object"),
        ((LINES[0], '{"row_type": "header"}'), "line 2: 'req_id' is missing"),
    ],
)
def test_what_cannot_be_used_is_named(log, lines, message):
    with pytest.raises(DemandError) as error:
        read_routing_log(log(*lines))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_number_of_lines_and_choices_is_bounded(log):
    with pytest.raises(DemandError, match="line 3: more than 2 lines"):
        read_routing_log(log(*LINES), Limits(lines=2))
    with pytest.raises(DemandError, match="line 3: more than 5 expert choices"):
        read_routing_log(log(*LINES), Limits(choices=5))
