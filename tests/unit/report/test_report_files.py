"""Files appear whole or not at all; rows survive an interrupt."""

import csv
import errno
import json
import os
import stat

import polars
import pytest

from lightloom.errors import OutputError
from lightloom.report.files import RowWriter, check_writable, whole_file, write_json


def test_file_appears_when_it_is_whole(tmp_path):
    target = tmp_path / "a.txt"
    with whole_file(target) as stream:
        stream.write("half")
        assert not target.exists()
        stream.write(" and half")
    assert target.read_text() == "half and half"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path, error):
    target = tmp_path / "a.txt"
    target.write_text("old")
    with pytest.raises(error), whole_file(target) as stream:  # noqa: PT012
        stream.write("new")
        raise error
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_disk_is_one_line(tmp_path):
    target = tmp_path / "a.txt"
    with pytest.raises(OutputError, match="No space left") as caught, whole_file(target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert str(target) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_one_line(tmp_path):
    target = tmp_path / "nowhere" / "a.txt"
    with pytest.raises(OutputError, match="cannot write"), whole_file(target):
        pass


def test_places_are_checked_early(tmp_path):
    check_writable(tmp_path / "new.html")
    with pytest.raises(OutputError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(OutputError, match="make it first"):
        check_writable(tmp_path / "nowhere" / "a.html")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_is_refused_early(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(OutputError, match="not writable"):
        check_writable(tmp_path / "a.html")


def test_json_to_a_file_and_to_standard_output(tmp_path, capsys):
    write_json({"a": [1, 2.5]}, str(tmp_path / "r.json"))
    write_json({"a": [1, 2.5]}, "-")
    out = capsys.readouterr().out
    assert json.loads(out) == {"a": [1, 2.5]}
    assert (tmp_path / "r.json").read_text() == out


def test_results_can_be_written_as_json(make_comparison, tmp_path):
    comparison = make_comparison()
    write_json(comparison.to_json(), str(tmp_path / "r.json"))
    content = json.loads((tmp_path / "r.json").read_text())
    assert [r["fabric"] for r in content["results"]] == ["fat-tree", "topoopt", "mixnet"]
    assert content["results"][2]["step_time_s"] == 20.5


ROWS = [{"fabric": "a,b", "step_time_s": 1.5}, {"fabric": "c", "step_time_s": 2.0}]


def test_rows_are_in_the_file_as_they_come(tmp_path):
    target = tmp_path / "rows.csv"
    writer = RowWriter(target, None)
    writer.write(ROWS[0])
    assert target.read_text().splitlines() == ["fabric,step_time_s", '"a,b",1.5']
    writer.write(ROWS[1])
    writer.close()
    with target.open(newline="") as stream:
        assert [row["fabric"] for row in csv.DictReader(stream)] == ["a,b", "c"]


def test_parquet_has_the_same_rows(tmp_path):
    target = tmp_path / "rows.parquet"
    writer = RowWriter(None, target)
    for row in ROWS:
        writer.write(row)
    assert not target.exists()
    writer.close()
    assert polars.read_parquet(target).to_dicts() == ROWS
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_no_rows_no_files(tmp_path):
    RowWriter(tmp_path / "r.csv", tmp_path / "r.parquet").close()
    assert list(tmp_path.iterdir()) == []


def test_rows_that_cannot_be_written_are_one_line(tmp_path):
    with pytest.raises(OutputError, match="cannot write"):
        RowWriter(tmp_path / "nowhere" / "r.csv", None).write(ROWS[0])
    writer = RowWriter(None, tmp_path / "nowhere" / "r.parquet")
    writer.write(ROWS[0])
    with pytest.raises(OutputError, match="cannot write"):
        writer.close()
