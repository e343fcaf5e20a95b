"""Whatever a file holds, the readers of byte matrices give whole bytes or one line."""

import io

import numpy as np
import polars
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lightloom.demand.byte_matrix import (
    MAX_ENTRY,
    check_bytes,
    parse_npy,
    read_byte_matrix,
    write_npz,
)
from lightloom.demand.byte_table import parse_text_table
from lightloom.errors import DemandError

shapes = arrays.array_shapes(min_dims=2, max_dims=2, max_side=6)
matrices = arrays.arrays(np.uint64, shapes, elements=st.integers(0, MAX_ENTRY))
cells = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats().map(str),
    st.text(max_size=4),
    st.sampled_from(["src", "dst", "bytes", "source", "destination", "expert", '"', "0", "1"]),
)
tables = st.lists(st.lists(cells, max_size=5).map(",".join), max_size=6).map("\n".join)


def outcome(read):
    """What is read, or why not."""
    try:
        return check_bytes(read(), "x"), "x"
    except DemandError as error:
        return np.zeros((1, 1), np.uint64), str(error)


def only_bytes_or_one_line(read):
    found, line = outcome(read)
    assert found.dtype == np.uint64
    assert found.max() <= MAX_ENTRY
    assert line.startswith("x")
    assert "\n" not in line


@given(st.one_of(tables, st.text()))
def test_any_text(text):
    only_bytes_or_one_line(lambda: parse_text_table(text.encode(errors="replace"), "x"))


@given(st.binary(max_size=60))
def test_any_bytes_as_text(content):
    only_bytes_or_one_line(lambda: parse_text_table(content, "x"))


@given(st.binary(max_size=200), st.integers(1, 3))
def test_any_bytes_after_the_magic(content, version):
    start = b"\x93NUMPY" + bytes([version, 0])
    only_bytes_or_one_line(lambda: parse_npy(content, "x"))
    only_bytes_or_one_line(lambda: parse_npy(start + content, "x"))


headers = st.fixed_dictionaries(
    {},
    optional={
        "descr": st.one_of(st.sampled_from(["<u8", "|O", "<f8", "<U3", "", "|V8"]), st.integers()),
        "fortran_order": st.one_of(st.booleans(), st.none()),
        "shape": st.one_of(
            st.lists(st.integers(-3, 2**66), max_size=4).map(tuple), st.text(max_size=3)
        ),
    },
)


@given(headers, st.binary(max_size=64))
def test_any_header(header, content):
    text = repr(header).encode()
    whole = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content
    only_bytes_or_one_line(lambda: parse_npy(whole, "x"))


@given(matrices, st.data())
def test_a_damaged_file(matrix, data):
    content = io.BytesIO()
    np.save(content, matrix)
    damaged = bytearray(content.getvalue())
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(damaged)))
    only_bytes_or_one_line(lambda: parse_npy(bytes(damaged), "x"))
    only_bytes_or_one_line(lambda: parse_npy(bytes(damaged[:end]), "x"))


@given(matrices, st.data(), st.sampled_from(["x.npz", "x.parquet"]))
def test_a_damaged_archive_or_parquet(tmp_path_factory, matrix, data, name):
    path = tmp_path_factory.mktemp("fuzz") / name
    if name == "x.npz":
        path.write_bytes(write_npz({"demand": matrix}))
    else:
        columns = {str(c): matrix[:, c] for c in range(matrix.shape[1])}
        polars.DataFrame(columns).write_parquet(path)
    assert (read_byte_matrix(path) == matrix).all()
    damaged = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(damaged) - 1))
    damaged[place] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    assert "\n" not in outcome(lambda: read_byte_matrix(path))[1]


@given(matrices, st.sampled_from([",", ";", "\t", " "]), st.booleans(), st.booleans())
def test_tables_round_trip(matrix, delimiter, named_rows, named_columns):
    names = [f"n{c}" for c in range(matrix.shape[1])]
    rows = [[str(value) for value in row] for row in matrix.tolist()]
    if named_rows:
        rows = [[f"r{number}", *row] for number, row in enumerate(rows)]
    if named_columns:
        rows.insert(0, ["-", *names] if named_rows else names)
    text = "\n".join(delimiter.join(row) for row in rows)
    # three columns without a header may be pairs, unless they are a square with nothing on it
    is_plain = matrix.shape[0] == matrix.shape[1] and not matrix.diagonal().any()
    assume(named_columns or is_plain or len(rows[0]) != 3)
    read = check_bytes(parse_text_table(text.encode(), "x"), "x")
    unnamed = np.array_equal(matrix[0], np.arange(matrix.shape[1])) and not named_columns
    if not unnamed:  # a first row 0, 1, 2 ... may be the names of a table that pandas wrote
        assert (read == matrix).all()
