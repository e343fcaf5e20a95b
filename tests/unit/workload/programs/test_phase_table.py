"""Demand traces: three forms of one table, and one line for what is wrong."""

import numpy as np
import polars
import pytest

from lightloom.errors import DemandError
from lightloom.workload.programs.phase_table import is_phase_table, read_phases

ROWS = [(0, 0, 1, 100), (0, 1, 0, 50), (2, 3, 0, 7), (2, 3, 0, 5), (2, 1, 1, 9), (3, 0, 1, 100),
        (3, 1, 0, 50)]  # fmt: skip
TEXT = "phase,source,destination,bytes\n" + "\n".join(",".join(map(str, row)) for row in ROWS)


def cube(rows):
    array = np.zeros((4, 4, 4), np.int64)
    for phase, source, destination, size in rows:
        array[phase, source, destination] += size
    return array


def matrices(phases):
    array = np.zeros((len(phases.order), phases.ranks, phases.ranks), np.int64)
    for number, phase in enumerate(phases.order):
        array[number, phase.source, phase.destination] = phase.size_bytes
    return array


def files(folder):
    (folder / "phases.csv").write_text(TEXT)
    (folder / "tabs.tsv").write_text("# who\n" + TEXT.replace(",", "\t").upper())
    heads = ("phase", "source", "destination", "bytes")
    columns = {head: [row[place] for row in ROWS] for place, head in enumerate(heads)}
    polars.DataFrame(columns).write_parquet(folder / "phases.parquet")
    np.save(folder / "phases.npy", cube(ROWS))
    return ("phases.csv", "tabs.tsv", "phases.parquet", "phases.npy")


def test_all_forms_say_the_same(tmp_path):
    for name in files(tmp_path):
        assert is_phase_table(tmp_path / name)
        trace = read_phases(tmp_path / name)
        assert trace.gpus == 4
        assert (matrices(trace.phases) == cube(ROWS)).all(), name


def test_phases_that_are_alike_are_one(tmp_path):
    for name in files(tmp_path):
        order = read_phases(tmp_path / name).phases.order
        assert order[0] is order[3]
        assert len(read_phases(tmp_path / name).phases.distinct) == 3


def test_computes_are_the_longest_of_a_source(tmp_path):
    path = tmp_path / "phases.csv"
    path.write_text(
        "phase,source,destination,bytes,compute_s\n0,0,1,5,0.25\n0,0,2,5,\n0,2,0,5,1e-3\n1,0,1,5,"
    )
    first, second = read_phases(path).phases.order
    assert first.compute_s.tolist() == [0.25, 0, 1e-3]
    assert second.compute_s == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("phase,source,destination\n0,0,1", "line 1: column 'bytes' is missing"),
        ("phase,source,destination,bytes\n0,0,1,-1", "row 1 below the header: bytes is -1"),
        ("phase,source,destination,bytes\n0,0,1,1\n0,0,99999,1", "row 2 below the header: dest"),
        ("phase,source,destination,bytes\n0,0,x,1", "line 2"),
        ("phase,source,destination,bytes\n", "expected rows below the header"),
        ("phase,source,destination,bytes,compute_s\n0,0,1,1,nan", "line 2"),
        ("phase,source,destination,bytes,weight\n0,0,1,1,1", "no column is called 'weight'"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path, text, said):
    path = tmp_path / "phases.csv"
    path.write_text(text)
    with pytest.raises(DemandError, match=said) as caught:
        read_phases(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((3, 3)), "expected bytes as \\(phases, ranks, ranks\\)"),
        (np.zeros((1, 3, 4)), "expected bytes as \\(phases, ranks, ranks\\)"),
        (np.full((1, 2, 2), -1), "no whole number of bytes"),
        (np.full((1, 2, 2), 0.5), "no whole number of bytes"),
    ],
)
def test_arrays_that_are_no_trace(tmp_path, array, said):
    np.save(tmp_path / "phases.npy", array)
    with pytest.raises(DemandError, match=said):
        read_phases(tmp_path / "phases.npy")


def test_other_tables_are_no_phases(tmp_path):
    (tmp_path / "layers.txt").write_text("HYBRID_TRANSFORMER model_parallel\n4\n")
    (tmp_path / "pairs.csv").write_text("src,dst,bytes\n0,1,5\n")
    assert not is_phase_table(tmp_path / "layers.txt")
    assert not is_phase_table(tmp_path / "pairs.csv")
    assert not is_phase_table(tmp_path / "nothing.csv")
