"""Files appear whole or not at all, rows survive, devices are never replaced.

No test names a real device as the target of something that replaces files.
"""

import csv
import gzip
import io
import json
import math
import os
import stat
import threading
from pathlib import Path

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.errors import OutputError
from lightloom.output.files import (
    ColumnWriter,
    RowWriter,
    check_all_writable,
    check_writable,
    csv_text,
    whole_file,
    write_json,
)


def test_a_file_appears_when_it_is_whole(tmp_path):
    path = tmp_path / "a.txt"
    with whole_file(path) as stream:
        stream.write("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_leaves_what_was_there(tmp_path, error):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def fail():
        with whole_file(path) as stream:
            stream.write("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_permissions_stay_and_links_are_followed(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    with whole_file(link) as stream:
        stream.write("new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_file_has_usual_permissions(tmp_path):
    with whole_file(tmp_path / "a") as stream:
        stream.write("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def received(path):
    """Read a named pipe in the background."""
    parts = []
    reader = threading.Thread(target=lambda: parts.append(Path(path).read_bytes()))
    reader.start()
    return reader, parts


@pytest.mark.parametrize("kind", ["text", "json", "parquet"])
def test_a_pipe_is_written_to_and_not_replaced(tmp_path, kind):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader, parts = received(path)
    if kind == "text":
        with whole_file(path) as stream:
            stream.write("x")
    elif kind == "json":
        write_json({"a": 1}, str(path))
    else:
        rows = RowWriter(None, path)
        rows.write({"a": 1})
        rows.close()
    reader.join(5)
    assert parts
    assert parts[0]
    assert stat.S_ISFIFO(path.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_no_folder(tmp_path):
    path = tmp_path / "no" / "a.txt"
    text = f"{path}: cannot write: No such file or directory; choose another place"
    with pytest.raises(OutputError) as caught, whole_file(path):
        pass
    assert str(caught.value) == text


def test_checks_before_the_work(tmp_path):
    with pytest.raises(OutputError) as caught:
        check_writable(tmp_path)
    assert str(caught.value) == f"{tmp_path}: is a folder; give the name of a file"
    path = tmp_path / "no" / "a"
    with pytest.raises(OutputError) as caught:
        check_writable(path)
    assert str(caught.value) == f"{path}: there is no folder {path.parent}; make it first"
    check_writable(tmp_path / "fine")
    assert os.listdir(tmp_path) == []


def test_two_outputs_in_one_file(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OutputError) as caught:
        check_all_writable([path, link])
    text = f"{link}: named for two outputs; give each a file of its own"
    assert str(caught.value) == text
    check_all_writable([path, tmp_path / "b"])


def test_json_has_null_for_what_it_cannot_say(tmp_path):
    path = tmp_path / "a.json"
    write_json({"a": [float("inf"), (1.5, float("nan"))], "p": Path("x")}, str(path))
    assert json.loads(path.read_text()) == {"a": [None, [1.5, None]], "p": "x"}


def test_json_is_compressed_by_its_name_and_alike_at_any_time(tmp_path, monkeypatch):
    content = {"a": [1.5] * 1000}
    plain, first, second = (tmp_path / name for name in ("a.json", "a.json.gz", "b.json.gz"))
    write_json(content, str(plain))
    write_json(content, str(first))
    monkeypatch.setattr("time.time", lambda: 0x7000_0000)
    write_json(content, str(second))
    assert gzip.decompress(first.read_bytes()) == plain.read_bytes()
    assert first.stat().st_size < plain.stat().st_size / 10
    assert first.read_bytes() == second.read_bytes()


def test_json_on_standard_output(capsys):
    write_json({"a": 1}, "-")
    assert json.loads(capsys.readouterr().out) == {"a": 1}


ROWS = [{"fabric": "a, b", "s": 1.5}, {"fabric": "c", "s": 2.0}]


def table(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def test_rows_are_there_as_they_come(tmp_path):
    csv_path, parquet_path = tmp_path / "r.csv", tmp_path / "r.parquet"
    rows = RowWriter(csv_path, parquet_path)
    assert not csv_path.exists()
    for number, row in enumerate(ROWS, 1):
        rows.write(row)
        assert len(table(csv_path)) == number
    assert not parquet_path.exists()
    rows.close()
    assert table(csv_path) == [
        {"fabric": "a, b", "s": "1.5"},
        {"fabric": "c", "s": "2.0"},
    ]
    assert polars.read_parquet(parquet_path).to_dicts() == ROWS
    assert rows.count == 2


def test_no_row_no_file(tmp_path):
    RowWriter(tmp_path / "r.csv", tmp_path / "r.parquet").close()
    assert os.listdir(tmp_path) == []


def test_closing_twice_writes_once(tmp_path):
    path = tmp_path / "r.parquet"
    rows = RowWriter(None, path)
    rows.write(ROWS[0])
    rows.close()
    path.unlink()
    rows.close()
    assert not path.exists()


def test_rows_on_standard_output(capsys):
    rows = RowWriter("-", None)
    rows.write(ROWS[1])
    rows.close()
    assert capsys.readouterr().out.split() == ["fabric,s", "c,2.0"]
    print("standard output is still open")
    assert capsys.readouterr().out


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
def test_full_disk_under_the_csv():
    # a CSV is opened and written to, never put in the place of what is there
    rows = RowWriter(Path("/dev/full"), None)
    with pytest.raises(OutputError) as caught:
        rows.write(ROWS[0])
    text = "/dev/full: cannot write: No space left on device; choose another place"
    assert str(caught.value) == text
    rows.close()


def test_columns_are_there_as_they_come(tmp_path):
    csv_path, parquet_path = tmp_path / "c.csv", tmp_path / "c.parquet"
    columns = ColumnWriter(csv_path, parquet_path)
    assert not csv_path.exists()
    columns.write({"flow": np.array([4, 2]), "us": np.array([0.1, np.nan])})
    assert csv_path.read_text() == "flow,us\n4,0.1\n2,\n"
    columns.write({"flow": np.array([9]), "us": np.array([176.434])})
    assert csv_path.read_text().splitlines()[3:] == ["9,176.434"]
    assert not parquet_path.exists()
    columns.close()
    columns.close()
    assert columns.count == 3
    assert polars.read_parquet(parquet_path)["us"].to_list() == [0.1, None, 176.434]


def test_a_column_may_be_empty_in_one_batch(tmp_path):
    columns = ColumnWriter(None, tmp_path / "c.parquet")
    columns.write({"peer": [None, None]})
    columns.write({"peer": [3]})
    columns.close()
    assert polars.read_parquet(tmp_path / "c.parquet")["peer"].to_list() == [None, None, 3]


def test_no_column_no_file(tmp_path):
    ColumnWriter(tmp_path / "c.csv", tmp_path / "c.parquet").close()
    assert os.listdir(tmp_path) == []


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**63), 2**63 - 1),
            st.floats(width=64, allow_infinity=False),
            st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=5),
            st.booleans(),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_columns_as_text_are_read_back(rows):
    names = ("count", "time", "words", "is_done")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    columns["time"] = np.array(columns["time"])
    read = list(csv.DictReader(io.StringIO(csv_text(columns), newline="")))
    for row, (count, seconds, words, is_done) in zip(read, rows, strict=True):
        assert int(row["count"]) == count
        if math.isnan(seconds):
            assert row["time"] == ""
        else:
            assert float(row["time"]) == seconds
        assert row["words"] == words
        assert row["is_done"] == str(is_done).lower()
