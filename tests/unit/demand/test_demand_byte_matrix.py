"""Byte matrices from files: every format, and what is refused in which words."""

import io
import json
import zipfile

import numpy as np
import polars
import pytest

from lightloom.demand import byte_matrix, byte_table
from lightloom.demand.byte_matrix import (
    MAX_ENTRY,
    check_bytes,
    parse_npy,
    read_byte_matrix,
    read_whole_matrix,
    write_npz,
)
from lightloom.demand.byte_table import parse_text_table
from lightloom.errors import DemandError

MATRIX = np.array([[0, 5, 7], [2, 0, 1], [9, 4, 0]], dtype=np.uint64)


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Write a file, read it, return why it is refused."""
    monkeypatch.chdir(tmp_path)

    def call(name, content=None):
        if content is not None:
            data = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(data)
        with pytest.raises(DemandError) as caught:
            read_byte_matrix(name, token_bytes=10)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return call


def npy(array, **options):
    content = io.BytesIO()
    np.lib.format.write_array(content, np.asarray(array), **options)
    return content.getvalue()


@pytest.mark.parametrize("kind", ["<u8", ">i4", "<f8", "<f4", "<f2", "|u1", "|i1", ">u2"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_numpy_files(tmp_path, kind, order, version):
    array = np.asarray(MATRIX.astype(kind), order=order)
    path = tmp_path / "a.npy"
    path.write_bytes(npy(array, version=version))
    read = read_byte_matrix(path)
    assert read.dtype == np.uint64
    assert read.flags.c_contiguous
    assert (read == MATRIX).all()
    assert (np.load(path) == array).all()


@pytest.mark.parametrize(
    "text",
    [
        "0,5,7\n2,0,1\n9,4,0\n",
        "0;5;7\r\n2;0;1\r\n9;4;0\r\n",
        "0\t5\t7\n2\t0\t1\n9\t4\t0",
        "# by numpy.savetxt\n0e+00 5.0e+00 7e0\n2 0 1\n\n9 4 0\n",
        "\ufeffa,b,c\n0,5,7\n2,0,1\n9,4,0\n",  # names of columns
        ",a,b,c\na,0,5,7\nb,2,0,1\nc,9,4,0\n",  # of both
        "a,0,5,7\nb,2,0,1\nc,9,4,0\n",  # of rows
        ",0,1,2\n0,0,5,7\n1,2,0,1\n2,9,4,0\n",  # pandas
        "0,1,2\n0,5,7\n2,0,1\n9,4,0\n",  # pandas without its index
        "server,a,b,c\n0,0,5,7\n1,2,0,1\n2,9,4,0\n",
        '"0","5","7"\n2,0,1\n9,4,0\n',
        "src,dst,bytes\n0,1,5\n0,2,7\n1,0,2\n1,2,1\n2,0,4\n2,1,4\n2,0,5\n",  # added
        "size_bytes,tokens,source_server,destination_server\n"
        "5,1,0,1\n7,1,0,2\n2,1,1,0\n1,0,1,2\n9,2,2,0\n4,1,2,1\n",
    ],
)
def test_text_tables(tmp_path, text):
    path = tmp_path / "a.csv"
    path.write_text(text, encoding="utf-8")
    assert (read_byte_matrix(path) == MATRIX).all()


def test_a_rectangle_is_read_as_it_is(tmp_path):
    (tmp_path / "a.txt").write_text("1,2,3,4\n4,5,6,7\n")
    assert read_byte_matrix(tmp_path / "a.txt").tolist() == [[1, 2, 3, 4], [4, 5, 6, 7]]


@pytest.mark.parametrize(
    "rows",
    [
        "0,1,20\n1,2,40\n2,0,10\n",
        "1 2 500\n2 3 500\n3 1 500\n",
        "0,1,20\n1,2,40\n",
        "1,2,3\n4,5,6\n",
        "0\t1\t20\n1\t0\t20\n2\t3\t1\n3\t2\t1\n",
    ],
)
def test_pairs_without_a_header_are_not_guessed(tmp_path, rows):
    path = tmp_path / "a.csv"
    path.write_text(rows)
    with pytest.raises(DemandError, match=r"begin with the line 'src,dst,bytes' if they are pairs"):
        read_byte_matrix(path)
    path.write_text("src,dst,bytes\n" + rows.replace("\t", ",").replace(" ", ","))
    total = sum(int(row.split()[-1]) for row in rows.replace(",", " ").splitlines())
    assert read_byte_matrix(path).sum() == total


@pytest.mark.parametrize("rows", ["0,1,2\n1,0,2\n2,1,0\n", "0,1,9\n2,0,9\n5,5,0\n"])
def test_a_matrix_of_three_small_rows_stays_one(tmp_path, rows):
    path = tmp_path / "a.csv"
    path.write_text(rows)
    assert (read_byte_matrix(path).diagonal() == 0).all()


def test_nodes_of_pairs_may_have_names(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("src,dst,bytes\ngpu-a, gpu-b,100\ngpu-b,gpu-c,30\ngpu-a,gpu-b,1\n")
    assert read_byte_matrix(path).tolist() == [[0, 101, 0], [0, 0, 30], [0, 0, 0]]
    path.write_text("src,dst,bytes\na,b,many\n")
    with pytest.raises(DemandError, match="line 2: expected whole bytes, got 'many'"):
        read_byte_matrix(path)


@pytest.mark.parametrize("kind", [np.uint64, np.int32, np.float64])
def test_parquet_square_and_long(tmp_path, kind):
    square, long = tmp_path / "square.parquet", tmp_path / "long.parquet"
    polars.DataFrame(MATRIX.astype(kind), schema=["a", "b", "c"]).write_parquet(square)
    assert (read_byte_matrix(square) == MATRIX).all()
    rows, columns = np.nonzero(MATRIX)
    pairs = {"dst": columns, "bytes": MATRIX[rows, columns].astype(kind), "src": rows}
    polars.DataFrame(pairs).write_parquet(long)
    assert (read_byte_matrix(long) == MATRIX).all()


def test_token_matrices_become_bytes_between_ranks(tmp_path):
    path = tmp_path / "tokens.txt"
    path.write_text(json.dumps([[6, 2, 0, 1], [1, 2, 3, 2]]))
    assert read_byte_matrix(path, token_bytes=100).tolist() == [[0, 100], [300, 0]]
    with pytest.raises(DemandError, match=r"tokens.txt: expected a table of whole numbers"):
        read_byte_matrix(path)


def test_archives_hold_arrays_by_name(tmp_path):
    path = tmp_path / "out.npz"
    path.write_bytes(write_npz({"demand": MATRIX, "circuits": MATRIX + 1}))
    assert (read_byte_matrix(path) == MATRIX).all()
    assert (read_whole_matrix(path, "circuits") == MATRIX + 1).all()


def test_standard_input(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1,2\n3,4\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert read_byte_matrix("-").tolist() == [[1, 2], [3, 4]]
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DemandError, match="standard input: is closed; give a file"):
        read_byte_matrix("-")


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("no.npy", None, "no.npy: no such file"),
        ("a.xlsx", "x", "a.xlsx: expected a name that ends in .npy, .npz, .csv, .tsv, .txt, "
         ".json, .parquet"),
        # numpy
        ("a.npy", "", "a.npy: the file is empty; expected a matrix saved by numpy.save"),
        ("a.npy", "1,2", "a.npy: not a NumPy file; expected a matrix saved by numpy.save"),
        ("a.npy", npy(np.array([[{}]], dtype=object)), "a.npy: holds Python objects (pickle), "
         "which are never loaded; save whole numbers, such as numpy.save(file, "
         "matrix.astype('uint64'))"),
        ("a.npy", npy([["1"]]), "a.npy: expected whole numbers, got entries of type '<U1'"),
        ("a.npy", npy([[True]]), "a.npy: expected whole numbers, got entries of type '|b1'"),
        ("a.npy", npy([[1j]]), "a.npy: expected whole numbers, got entries of type '<c16'"),
        ("a.npy", npy(MATRIX)[:-1], "a.npy: cut off: (3, 3) numbers take 72 bytes, there are 71"),
        ("a.npy", npy(MATRIX)[:20], "a.npy: not a NumPy file: its header is cut off or too long"),
        ("a.npy", npy(MATRIX).replace(b"(3, 3)", b"(3,-3)"),
         "a.npy: not a NumPy file: its header cannot be read"),
        ("a.npy", npy(MATRIX).replace(b"(3, 3), }  ", b"(4000,999)}"),
         "a.npy: cut off: (4000, 999) numbers take 31,968,000 bytes, there are 72"),
        ("a.npy", npy([1, 2]), "a.npy: expected a matrix of 1 to 4,096 rows and columns, got the "
         "shape (2,)"),
        ("a.npy", npy(np.zeros((0, 3))), "a.npy: expected a matrix of 1 to 4,096 rows and "
         "columns, got the shape (0, 3)"),
        ("a.npy", npy(np.zeros((4097, 1))), "a.npy: expected a matrix of 1 to 4,096 rows and "
         "columns, got the shape (4097, 1)"),
        ("a.npy", npy([[0, -1]]), "a.npy: entry [0, 1] is -1: expected whole bytes from 0 to 2^53"),
        ("a.npy", npy([[0.0, np.nan]]), "a.npy: entry [0, 1] is nan: expected whole bytes from 0 "
         "to 2^53"),
        ("a.npy", npy([[np.inf]]), "a.npy: entry [0, 0] is inf: expected whole bytes from 0 to "
         "2^53"),
        ("a.npy", npy([[0.5]]), "a.npy: entry [0, 0] is 0.5: expected whole bytes from 0 to 2^53"),
        ("a.npy", npy([[2**53 + 1]]), "a.npy: entry [0, 0] is 9007199254740993: expected whole "
         "bytes from 0 to 2^53"),
        # archives
        ("a.npz", "PK", "a.npz: not an archive of NumPy: File is not a zip file"),
        ("a.npz", write_npz({"x": MATRIX}), "a.npz: expected an array 'demand', there is 'x'"),
        ("a.npz", write_npz({"demand": MATRIX - 0.5}), "a.npz: entry [0, 0] is -0.5: expected "
         "whole bytes from 0 to 2^53"),
        # text
        ("a.csv", "", "a.csv: the file is empty; expected a table of bytes"),
        ("a.csv", "\n# nothing\n\n", "a.csv: the file is empty; expected a table of bytes"),
        ("a.csv", "1,2\n3", "a.csv, line 2: 1 cells, expected 2 as in the first row"),
        ("a.csv", "1,2\n\n3,x", "a.csv, line 3: expected whole bytes, got 'x'"),
        ("a.csv", "1,nan\n3,4", "a.csv, line 1: expected whole bytes, got 'nan'"),
        ("a.csv", "1,\n3,4", "a.csv, line 1: expected whole bytes, got ''"),
        ("a.csv", "1,2.5\n3,4", "a.csv, line 1: expected whole bytes, got '2.5'"),
        ("a.csv", "1,-2\n3,4", "a.csv: entry [0, 1] is -2: expected whole bytes from 0 to 2^53"),
        ("a.csv", "1,2\n3,1e300", "a.csv, line 2: expected whole bytes from 0 to 2^53, got "
         "'1e300'"),
        ("a.csv", f"1,{2**53 + 1}", "a.csv, line 1: expected whole bytes from 0 to 2^53, got "
         "'9007199254740993'"),
        ("a.csv", f"1,{'9' * 5000}", "a.csv, line 1: expected whole bytes, got "
         f"'{'9' * 56}..."),
        ("a.csv", "a,b\n", "a.csv: expected rows of numbers below the header"),
        ("a.csv", b"\xff\xfe1", "a.csv: not UTF-8 text"),
        ("a.csv", '1,"2\n3,4"', "a.csv: not a table of bytes: a quoted cell spans lines"),
        ("a.csv", '1,"2\n3,4', "a.csv: not a table of bytes: unexpected end of data"),
        ("a.csv", "src,dst,bytes\n", "a.csv: expected rows below the header"),
        ("a.csv", "src,dst,bytes\n0,1,-5\n0,1,6", "a.csv: row 1 below the header has -5 bytes"),
        ("a.csv", "src,dst,bytes\n0,4096,5", "a.csv: expected sources and destinations from 0 to "
         "4,095, got 0 to 4096"),
        ("a.csv", "src,dst,bytes\n0,n1,5", "a.csv, line 2: expected a number of a "
         "node, as in other lines"),
        ("a.csv", f"src,dst,bytes\n0,1,{2**53}\n0,1,2", "a.csv: entry [0, 1] is "
         "9007199254740994.0: expected whole bytes from 0 to 2^53"),
        ("a.csv", "src,dst,gigabytes\n0,1,5", "a.csv: column 'gigabytes': expected the columns "
         "src, dst and bytes alone"),
        ("a.csv", "src,dst\n0,1", "a.csv: columns src, dst: expected the columns src, dst and "
         "bytes alone"),
        ("a.csv", "src,dst,bytes,layer\n0,1,5,0", "a.csv: column 'layer': expected the columns "
         "src, dst and bytes alone"),
        ("a.csv", "source_ep_rank,expert,tokens,size_bytes\n0,1,2,3", "a.csv: column 'expert': "
         "expected destinations; write it by 'lightloom demand ... --view rank --csv' (or --view "
         "server)"),
        # token matrices
        ("a.json", "[[1, 2, 3], [4, 5, 6]]", "3 experts do not divide over 2 EP ranks"),
        ("a.json", "[[1, -2]]", "a.json: row 1: expected token counts, whole numbers from 0 to "
         "2147483647, got -2"),
        ("a.json", '{"a": 1}', "a.json: expected a table or a token matrix (a JSON list of "
         "lists); 'lightloom demand ... --view rank --csv -' writes one"),
        # Parquet
        ("a.parquet", "PAR1", "a.parquet: not a Parquet file: "),
    ],
)  # fmt: skip
def test_exact_line(refused, name, content, expected):
    line = refused(name, content)
    assert line.startswith(expected) if expected.endswith(": ") else line == expected


def test_folders_and_large_files(refused, tmp_path, monkeypatch):
    (tmp_path / "folder.npy").mkdir()
    assert refused("folder.npy") == "folder.npy: expected a file, got a folder"
    monkeypatch.setattr(byte_matrix, "MAX_FILE_BYTES", 100)
    large = npy(np.zeros((9, 9)))
    assert refused("a.npy", large) == f"a.npy: {len(large)} bytes exceed the limit of 100"
    bomb = write_npz({"demand": np.zeros((1000, 1000))})
    monkeypatch.setattr(byte_matrix, "MAX_FILE_BYTES", 100_000)
    assert len(bomb) < 100_000
    assert refused("a.npz", bomb) == (
        "a.npz: 'demand' of 8,000,128 bytes exceeds the limit of 100,000"
    )
    monkeypatch.setattr(byte_table, "_MAX_ROWS", 3)
    assert refused("a.csv", "1\n2\n3\n4") == "a.csv: 4 rows exceed the limit of 3"


def test_parquet_of_text_nothing_or_too_much(refused, tmp_path):
    def write(columns):
        polars.DataFrame(columns).write_parquet(tmp_path / "a.parquet")

    write({"a": ["x"]})
    assert refused("a.parquet") == "a.parquet: column 'a' holds String: expected whole numbers"
    write({"a": [True]})
    assert refused("a.parquet") == "a.parquet: column 'a' holds Boolean: expected whole numbers"
    write({"a": [1, None]})
    assert refused("a.parquet") == "a.parquet: has empty cells: expected whole numbers"
    write({"a": [1.5]})
    assert refused("a.parquet") == (
        "a.parquet: entry [0, 0] is 1.5: expected whole bytes from 0 to 2^53"
    )
    for value in (float("nan"), 2**60, -(2**63)):
        write({"a": [value]})
        assert (
            refused("a.parquet") == "a.parquet: expected whole bytes from 0 to 2^53 in every cell"
        )
    write({"a": np.zeros(5000)})
    assert refused("a.parquet") == (
        "a.parquet: expected up to 4,096 rows and 4,096 columns, got 5,000 and 1"
    )
    write({"src": [0], "dst": [1], "layer": [1]})
    assert "column 'layer': expected the columns src, dst and bytes alone" in refused("a.parquet")
    write({"a": np.zeros(0)})
    assert "got 0 and 1" in refused("a.parquet")


def test_archives_that_are_damaged(refused):
    whole = write_npz({"demand": MATRIX})
    assert refused("a.npz", whole[:60]).startswith("a.npz: not an archive of NumPy: ")
    damaged = bytearray(whole)
    damaged[60] ^= 0xFF
    assert refused("a.npz", bytes(damaged)).startswith("a.npz: not an archive of NumPy: ")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("demand", b"no array")
    assert refused("a.npz", content.getvalue()) == (
        "a.npz, 'demand': not a NumPy file; expected a matrix saved by numpy.save"
    )


def test_the_largest_entry_is_exact():
    assert check_bytes(np.array([[float(MAX_ENTRY)]]), "x")[0, 0] == MAX_ENTRY
    assert parse_text_table(f"{MAX_ENTRY - 1}".encode(), "x")[0, 0] == MAX_ENTRY - 1
    assert parse_npy(npy(np.array([[MAX_ENTRY - 1]])), "x")[0, 0] == MAX_ENTRY - 1


@pytest.mark.parametrize("token_bytes", [0, -1, 1.5, 2**54])
def test_tokens_need_a_size(tmp_path, token_bytes):
    path = tmp_path / "a.json"
    path.write_text("[[1]]")
    with pytest.raises(DemandError, match="bytes per token: expected a whole number above 0"):
        read_byte_matrix(path, token_bytes=token_bytes)


def test_tokens_whose_bytes_exceed_the_limit(tmp_path):
    path = tmp_path / "a.json"
    path.write_text("[[0, 2147483647], [0, 0]]")
    with pytest.raises(DemandError, match=r"2,147,483,647 tokens of 8,388,608 bytes exceed 2\^53"):
        read_byte_matrix(path, token_bytes=2**23)
