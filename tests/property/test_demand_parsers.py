"""Whatever a file holds, only ``DemandError`` comes out of the parsers, in one line."""

import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.demand.log_formats import Limits, LogReader
from lightloom.demand.matrix_file import parse_matrix
from lightloom.demand.routing_log import replay
from lightloom.demand.source import Shape
from lightloom.errors import DemandError

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)

SIMLLM = [
    {
        "row_type": "header",
        "schema": "simllm-preplay-trace-v1",
        "provenance": {"expert_count": 4, "top_k": 2, "moe_layer_indices": [0, 1]},
    },
    *(
        {
            "row_type": "forward-token",
            "schema": "simllm-preplay-trace-v1",
            "phase": "prefill",
            "routing": [
                {"layer_index": 0, "expert_ids": [0, 3]},
                {"layer_index": 1, "expert_ids": [number, number + 1]},
            ],
        }
        for number in range(3)
    ),
    {
        "row_type": "footer",
        "schema": "simllm-preplay-trace-v1",
        "prefill_forward_token_count": 3,
        "decode_forward_token_count": 0,
    },
]
MEGATRON = [
    {
        "step": 0,
        "stage": "pre_dispatch",
        "block": "decoder",
        "layer": layer,
        "rank": rank,
        "num_tokens": 2,
        "topk": 2,
        "top_indices": [[0, 1], [3, 2]],
    }
    for layer in range(2)
    for rank in range(2)
]


def read(text):
    reader = LogReader("log", Limits(line_bytes=10_000, lines=100, choices=1000))
    reader.read(io.BytesIO(text), "log.jsonl")
    return reader.finish()


def check(action):
    """Run; a refusal is one short line, anything else that escapes fails the test."""
    try:
        return action()
    except DemandError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) < 300
    return None


def use(log):
    """Replay what was read, exactly and resampled."""
    shape = check(lambda: Shape(1, max(4, log.largest_expert + 1), 2, log.top_k))
    if shape is None:
        return
    index = {"group": 0, "layers": [0], "micro_batches": 1, "step": 0}
    for options in ({}, {"resample": True, "seed": 0}):
        source = check(lambda options=options: replay(log, shape, **options))
        if source is None:
            continue
        counts = check(lambda source=source: source.tokens(**index))
        if counts is not None:
            assert (counts.sum(axis=-1) == shape.copies_per_rank).all()
            distinct = source.distinct(**index, members=1)
            assert (distinct == shape.tokens_per_rank).all()


@given(st.binary(max_size=200))
def test_matrix_of_any_bytes(text):
    check(lambda: parse_matrix(text, "m.txt"))


@given(values)
def test_matrix_of_any_json(value):
    matrix = check(lambda: parse_matrix(json.dumps(value).encode(), "m.txt"))
    if matrix is not None:
        assert matrix.tolist() == value


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=3, max_size=3), min_size=1, max_size=4))
def test_matrix_of_counts_comes_back(rows):
    assert parse_matrix(json.dumps(rows).encode(), "m.txt").tolist() == rows


@given(st.binary(max_size=300))
def test_log_of_any_bytes(text):
    log = check(lambda: read(text))
    if log is not None:
        use(log)


@st.composite
def damaged(draw, rows):
    """A good log with one value somewhere replaced, or bytes cut out or put in."""
    rows = json.loads(json.dumps(rows))
    for _ in range(draw(st.integers(0, 3))):
        place = rows[draw(st.integers(0, len(rows) - 1))]
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(place[key], dict | list) and draw(st.booleans()):
                place = place[key]
                continue
            place[key] = draw(values)
            break
    order = draw(st.permutations(rows)) if draw(st.booleans()) else rows
    text = "\n".join(json.dumps(row) for row in order).encode()
    if draw(st.booleans()):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 40)))
        text = text[:start] + draw(st.binary(max_size=10)) + text[end:]
    return text


@settings(deadline=None, max_examples=300)
@given(damaged(SIMLLM))
def test_damaged_simllm_logs(text):
    log = check(lambda: read(text))
    if log is not None:
        use(log)


@settings(deadline=None, max_examples=300)
@given(damaged(MEGATRON))
def test_damaged_megatron_logs(text):
    log = check(lambda: read(text))
    if log is not None:
        use(log)


def test_the_undamaged_logs_are_read():
    for rows, tokens in ((SIMLLM, 3), (MEGATRON, 2)):
        log = read("\n".join(json.dumps(row) for row in rows).encode())
        assert len(next(iter(log.calls.values()))[0]) == tokens
        use(log)
