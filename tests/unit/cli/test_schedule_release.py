"""``lightloom schedule --release``: chunks that are produced when a file says."""

import json

import numpy as np
import pytest

from lightloom.schedule import decompose_chunks

MATRIX = np.array([[0, 500, 700], [200, 0, 100], [900, 400, 0]])
RUN = "schedule a.npy --reconfiguration-delay 1ns --rate 8 --release times.txt"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", MATRIX)
    return tmp_path


def test_chunks_are_sent_once_they_are_released(lightloom, folder):
    (folder / "times.txt").write_text("100 ns\n\n0.4 us\n  900 ns\n")
    text = lightloom(f"{RUN} --json a.json").out
    assert "3 chunks, released from 100 ns to 900 ns: 8 Gb/s per circuit" in text
    content = json.loads((folder / "a.json").read_text())
    releases = [1e-7, 4e-7, 9e-7]
    assert content["inputs"]["chunks"] == 3
    assert content["inputs"]["releases_s"] == pytest.approx(releases)
    parts = [MATRIX // 3 + (index < MATRIX % 3) for index in range(3)]
    direct = decompose_chunks(parts, releases, delay_s=1e-9, rate_gbps=8)
    found = content["chunked"]["pipelined"]
    assert found["length_s"] == pytest.approx(direct.length_s)
    assert found["lower_bound_s"] >= 9e-7


def test_even_releases_are_those_of_produced_over(lightloom, folder):
    (folder / "times.txt").write_text("1 us\n2 us\n")
    lightloom(f"{RUN} --needed-over 1us --json file.json")
    even = RUN.replace("--release times.txt", "--chunks 2 --produced-over 2us")
    lightloom(f"{even} --needed-over 1us --json even.json")
    found, expected = (
        json.loads((folder / name).read_text())["chunked"] for name in ("file.json", "even.json")
    )
    for rows in (found, expected):
        for row in rows.values():
            del row["time_spent_s"]
    assert found == expected


@pytest.mark.parametrize(
    ("text", "more", "expected"),
    [
        ("1 us\n2\n", "", "times.txt, line 2: expected a time with its unit, such as '0.5 ms', "
         "got '2'"),
        ("soon", "", "times.txt, line 1: cannot read 'soon' as a time such as '25 ms'"),
        ("1 GB", "", "times.txt, line 1: cannot read '1 GB' as a time such as '25 ms'"),
        ("-1 us", "", "times.txt, line 1: expected 0 s to 1e+06 s, got '-1 us'"),
        ("\n", "", "times.txt: expected 1 to 64 release times, a chunk on each line, got 0"),
        ("1 us\n" * 65, "", "times.txt: expected 1 to 64 release times, a chunk on each line, "
         "got 65"),
        ("1 us\n2 us", "--chunks 3", "--chunks 3: times.txt has 2 release times"),
        ("1 us", "--produced-over 1us", "--release and --produced-over both say when chunks are "
         "produced; give one"),
        ("1 us", "--partial", "chunks are for one all-stop crossbar; leave --ports, --partial "
         "and --switches out"),
    ],
)  # fmt: skip
def test_wrong_files_are_one_line(refused, folder, text, more, expected):
    (folder / "times.txt").write_text(text)
    assert refused(f"{RUN} {more}") == expected


def test_a_file_that_is_not_there(refused):
    assert refused(RUN) == "times.txt: no such file"
