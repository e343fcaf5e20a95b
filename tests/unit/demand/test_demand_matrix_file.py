"""Token matrix files: the public form, what is refused, scaling."""

import json
from pathlib import Path

import numpy as np
import pytest

from lightloom.demand import Shape, from_matrix, read_matrix
from lightloom.demand.matrix_file import parse_matrix, scale_rows
from lightloom.errors import DemandError

PUBLIC = Path(__file__).parents[4] / "shared" / "data" / "mixtral_8x8_token_matrix.txt"

ROWS = [[6, 2, 0, 0], [1, 2, 3, 2]]
SHAPE = Shape(ranks=2, experts=4, tokens_per_rank=8, top_k=1)


@pytest.fixture
def matrix_file(tmp_path):
    def write(content):
        path = tmp_path / "matrix.txt"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def everything(source):
    return source.tokens(group=3, layers=[5, 0], micro_batches=3, step=9)


def test_every_layer_and_micro_batch_gets_the_matrix(matrix_file):
    source = from_matrix(matrix_file(ROWS), SHAPE)
    counts = everything(source)
    assert counts.shape == (2, 3, 2, 4)
    assert (counts == np.array(ROWS)).all()
    assert source.exact
    assert "every" in source.provenance["repeated"]
    counts[:] = 0
    assert (everything(source) == np.array(ROWS)).all()


@pytest.mark.parametrize("shape", [(4, 4, 8, 1), (2, 8, 8, 1), (1, 4, 8, 1), (4, 8, 8, 1)])
def test_a_wrong_size_is_never_tiled(matrix_file, shape):
    with pytest.raises(
        DemandError, match=r"2 ranks x 4 experts does not fit a job of .* not tiled"
    ):
        from_matrix(matrix_file(ROWS), Shape(*shape), scale=True)


def test_rows_are_scaled_only_if_asked(matrix_file):
    path = matrix_file(ROWS)
    shape = Shape(ranks=2, experts=4, tokens_per_rank=12, top_k=1)
    with pytest.raises(DemandError, match="row 1 holds 8 token copies, the job routes 12 per EP"):
        from_matrix(path, shape)
    source = from_matrix(path, shape, scale=True)
    assert everything(source)[0, 0].tolist() == [[9, 3, 0, 0], [2, 3, 4, 3]]
    assert not source.exact
    assert source.provenance["scaled"] == "rows of 8-8 copies scaled to 12"


def test_a_fitting_matrix_is_not_marked_as_scaled(matrix_file):
    source = from_matrix(matrix_file(ROWS), SHAPE, scale=True)
    assert source.exact
    assert "scaled" not in source.provenance


def test_more_copies_than_tokens_are_impossible(matrix_file):
    shape = Shape(ranks=2, experts=4, tokens_per_rank=4, top_k=2)
    with pytest.raises(DemandError, match="rank 0 sends expert 0 6 copies, more than its 4 tokens"):
        from_matrix(matrix_file(ROWS), shape)


def test_scaling_by_largest_remainders():
    assert scale_rows(np.array([[1, 1, 1]]), 4, "m").tolist() == [[2, 1, 1]]
    assert scale_rows(np.array([[1, 2, 4]]), 10, "m").tolist() == [[1, 3, 6]]
    with pytest.raises(DemandError, match="m: row 2 holds no copies and cannot be scaled"):
        scale_rows(np.array([[1], [0]]), 4, "m")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("   \n", "the file is empty"),
        ("{}", "expected a JSON list of lists of counts, got {}"),
        ("[]", r"expected a JSON list of lists of counts, got \[\]"),
        ("[1, 2]", r"expected a JSON list of lists of counts, got \[1, 2\]"),
        ("[[]]", "expected up to 65,536 rows of 1 to 65,535 counts, got 1 rows, the first of 0"),
        ("[[1, 2], [3]]", "row 2 has 1 counts, row 1 has 2"),
        ("[[1, -2]]", "row 1: expected token counts, whole numbers from 0 to 2147483647, got -2"),
        ("[[1, 2.0]]", "got 2.0"),
        ("[[1, true]]", "got True"),
        ("[[1, null]]", "got None"),
        ('[[1, "2"]]', "got '2'"),
        ("[[1, NaN]]", "NaN is not a JSON number"),
        ("[[1, 99999999999]]", "got 99999999999"),
        ("[[1, 2]", "not valid JSON: Expecting ',' delimiter at column 8"),
        ("[[1, 2]] []", "not valid JSON: Extra data"),
        ("[" * 100_000, "nested too deeply"),
        ("[[" + "9" * 5000 + "]]", "not valid JSON: Exceeds the limit"),
    ],
)
def test_what_is_no_matrix(content, message):
    with pytest.raises(DemandError, match=message) as caught:
        parse_matrix(content.encode(), "m.txt")
    assert str(caught.value).startswith("m.txt: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(DemandError, match="no such file"):
        read_matrix(tmp_path / "absent.txt")
    with pytest.raises(DemandError, match="expected a file"):
        read_matrix(tmp_path)
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe[[1]]")
    with pytest.raises(DemandError, match="not UTF-8 text"):
        read_matrix(binary)
    monkeypatch.setattr("lightloom.demand.matrix_file.MAX_FILE_BYTES", 3)
    with pytest.raises(DemandError, match="7 bytes exceed the limit of 3"):
        read_matrix(binary)


def test_the_public_matrix():
    if not PUBLIC.exists():
        pytest.skip("the reference data ../shared/data is absent")
    source = from_matrix(PUBLIC, Shape(ranks=8, experts=8, tokens_per_rank=16_384, top_k=2))
    assert source.exact
    assert everything(source)[0, 0].max() == 10_897
