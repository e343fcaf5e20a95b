"""Folding by hand: ranks, members, combine, bytes."""

import numpy as np
import pytest

from lightloom.demand import bytes_per_token, combine, fold, rank_matrix, received
from lightloom.demand.placement import along_last, fold_ranks
from lightloom.errors import DemandError

#: 4 ranks x 8 experts; rank 0 holds experts 0 and 1
TOKENS = np.array(
    [
        [1, 2, 3, 4, 5, 6, 7, 8],
        [8, 7, 6, 5, 4, 3, 2, 1],
        [1, 0, 1, 0, 1, 0, 1, 0],
        [0, 9, 0, 0, 0, 0, 0, 9],
    ]
)


def test_rank_matrix():
    assert rank_matrix(TOKENS).tolist() == [
        [0, 7, 11, 15],
        [15, 0, 7, 3],
        [1, 1, 0, 1],
        [9, 0, 0, 0],
    ]


def test_received_counts_the_own_tokens_too():
    assert received(TOKENS).tolist() == [[10, 18], [10, 9], [10, 9], [10, 18]]


def test_fold_keeps_copies_between_ranks_of_a_member_on_the_diagonal():
    folded = fold(TOKENS, members=2, ranks_per_member=2)
    assert folded.dtype == np.uint32
    assert folded.tolist() == [[7 + 15, 11 + 15 + 7 + 3], [1 + 1 + 9 + 0, 1 + 0]]


def test_one_rank_per_member_is_the_rank_matrix():
    assert (fold(TOKENS, members=4, ranks_per_member=1) == rank_matrix(TOKENS)).all()


def test_one_member_holds_everything_between_ranks():
    assert fold(TOKENS, members=1, ranks_per_member=4).tolist() == [[rank_matrix(TOKENS).sum()]]


def test_batches_fold_like_single_matrices():
    batch = np.stack([[TOKENS, TOKENS[::-1]], [2 * TOKENS, 0 * TOKENS]])
    folded = fold(batch, members=2, ranks_per_member=2)
    assert folded.shape == (2, 2, 2, 2)
    for index in np.ndindex(2, 2):
        assert (folded[index] == fold(batch[index], members=2, ranks_per_member=2)).all()


@pytest.mark.parametrize("width", [1, 3, 8, 9])
@pytest.mark.parametrize("operation", [np.add, np.maximum])
def test_short_axes_are_reduced_as_numpy_does(width, operation):
    values = np.random.default_rng(1).integers(2**31, 2**32, (5, 4, width), dtype=np.uint32)
    wide = values.astype(np.int64)
    assert np.array_equal(along_last(operation, values), operation.reduce(wide, axis=-1))
    shares = values / 2**32
    assert np.allclose(along_last(operation, shares), operation.reduce(shares, axis=-1))


def test_combine_is_dispatch_transposed():
    folded = fold(np.stack([TOKENS, TOKENS[::-1]]), members=2, ranks_per_member=2)
    assert (combine(folded)[1] == folded[1].T).all()


@pytest.mark.parametrize(
    ("hidden", "element", "scales", "expected"),
    [
        (4096, 2, 0, 8192),
        (7168, 1, 0, 7168),
        # DeepSeek-V3: 56 scales of 4 bytes
        (7168, 1, 128, 7168 + 56 * 4),
        (100, 1, 128, 104),
        (5, 0.5, 0, 3),
    ],
)
def test_bytes_per_token(hidden, element, scales, expected):
    assert bytes_per_token(hidden, element, scales=scales) == expected


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bytes_per_token(0, 2), "hidden size: expected a whole number above 0"),
        (lambda: bytes_per_token(8, 0), "bytes per element: expected above 0 and up to 8, got 0"),
        (lambda: bytes_per_token(8, float("nan")), "bytes per element"),
        (lambda: bytes_per_token(8, 2, scales=-1), "elements per scale"),
        (
            lambda: fold(TOKENS, members=3, ranks_per_member=2),
            "4 EP ranks do not fill 3 members of 2 ranks each",
        ),
        (lambda: rank_matrix(TOKENS[:3]), "8 experts do not divide over 3 EP ranks"),
        (lambda: rank_matrix(TOKENS[0]), r"expected \(..., ranks, experts\)"),
        (
            lambda: fold_ranks(np.full((2, 2), 2**32), members=2, ranks_per_member=1),
            "4,294,967,296 token copies between two members exceed 32 bits",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(DemandError, match=message):
        call()
