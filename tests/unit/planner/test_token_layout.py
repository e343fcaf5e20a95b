"""Chunks of rows: every row in one part of one chunk, alike on both sides."""

import random
from itertools import pairwise

import pytest

from lightloom.planner.token_layout import chunks_of


def random_counts(rng, tp, ep, layout):
    most = rng.choice([1, 3, 40])
    one = [[rng.choice([0, rng.randint(0, most)]) for _ in range(ep)] for _ in range(ep)]
    if layout == "replicated":
        return [one] * tp
    return [
        [[rng.choice([0, rng.randint(0, most)]) for _ in range(ep)] for _ in range(ep)]
        for _ in range(tp)
    ]


def drawn(rng):
    layout = rng.choice(["replicated", "sharded"])
    tp, ep, chunks = rng.choice([1, 2, 3, 8]), rng.choice([1, 2, 5]), rng.choice([1, 2, 3, 7])
    return random_counts(rng, tp, ep, layout), tp, ep, chunks, layout


def cut(counts, ep_rank, tp_rank, chunks, layout):
    return chunks_of(counts, ep_rank=ep_rank, tp_rank=tp_rank, chunks=chunks, layout=layout)


def test_every_row_is_in_one_part_of_one_chunk():
    rng = random.Random(1)
    for _ in range(300):
        counts, tp, ep, chunks, layout = drawn(rng)
        for ep_rank in range(ep):
            cuts = cut(counts, ep_rank, rng.randrange(tp), chunks, layout)
            rows = [
                row for chunk in cuts for parts in chunk.got for r in parts for row in range(*r)
            ]
            senders = counts[:1] if layout == "replicated" else counts
            total = sum(table[other][ep_rank] for table in senders for other in range(ep))
            assert sorted(rows) == list(range(total))


def test_a_receiver_expects_what_each_sender_sends():
    rng = random.Random(2)
    for _ in range(200):
        counts, tp, ep, chunks, layout = drawn(rng)
        cuts = {(p, t): cut(counts, p, t, chunks, layout) for p in range(ep) for t in range(tp)}
        for (source, rank), sender in cuts.items():
            own = rank if layout == "replicated" else 0
            for target in range(ep):
                for number in range(chunks):
                    sent = sender[number].sent[target][own].size
                    assert sent == cuts[target, rank][number].got[source][rank].size


def test_parts_of_replicated_rows_are_equal_but_in_the_last_chunk():
    """So that what TP ranks gather of all other chunks lies where it belongs."""
    rng = random.Random(3)
    for _ in range(200):
        tp, ep, chunks = rng.choice([2, 4, 8]), 3, rng.choice([1, 2, 5])
        counts = random_counts(rng, tp, ep, "replicated")
        *others, last = cut(counts, 1, 0, chunks, "replicated")
        for chunk in others:
            assert all(len({part.size for part in parts}) == 1 for parts in chunk.got)
        sizes = [part.size for parts in last.got for part in parts]
        assert all(max(p.size for p in ps) - min(p.size for p in ps) <= 1 for ps in last.got)
        assert sum(sizes) <= sum(counts[0][p][1] for p in range(ep))
        for chunk in (*others, last):
            for parts in chunk.got:
                assert all(a.stop == b.start for a, b in pairwise(parts))


@pytest.mark.parametrize("chunks", [1, 4])
def test_sharded_rows_lie_as_an_all_to_all_and_then_a_gather_leave_them(chunks):
    counts = [[[1, 4], [2, 5]], [[3, 0], [1, 6]]]
    cuts = cut(counts, 1, 0, chunks, "sharded")
    of_each = [
        [sorted(row for c in cuts for row in range(*c.got[source][rank])) for source in range(2)]
        for rank in range(2)
    ]
    assert of_each == [[list(range(4)), list(range(4, 9))], [[], list(range(9, 15))]]
