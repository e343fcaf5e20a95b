"""Tables of loads by step, layer and expert."""

import json

import numpy as np
import polars as pl
import pytest

from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.errors import DemandError

ROWS = {
    "step": [7, 7, 7, 9, 9],
    "layer": [2, 2, 5, 2, 5],
    "expert": [0, 2, 1, 1, 3],
    "load": [10, 30, 5, 4, 8],
}
EXPECTED = np.array([[[10, 0, 30, 0], [0, 5, 0, 0]], [[0, 4, 0, 0], [0, 0, 0, 8]]])


def write(path, table):
    frame = pl.DataFrame(table)
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[
        path.suffix
    ](path)
    return path


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_every_form_is_read(tmp_path, ending):
    path = write(tmp_path / f"loads{ending}", ROWS)
    assert is_load_file(path)
    trace = read_load_file(path)
    assert np.array_equal(trace.counts[:, :, 0], EXPECTED)
    assert not trace.sources_known
    assert not trace.synthetic
    assert trace.provenance["loads"] == str(path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
def test_ranks_are_sources_and_order_does_not_matter(tmp_path, ending):
    table = {
        "load": [1.5, 2.0, 3.0, 0.0],
        "rank": [1, 0, 1, 2],
        "expert": [1, 0, 0, 0],
        "layer": [0, 0, 0, 0],
        "step": [1, 0, 0, 0],
    }
    trace = read_load_file(write(tmp_path / f"loads{ending}", table), experts=3)
    assert trace.counts.shape == (2, 1, 3, 3)
    assert trace.counts[0, 0, 0].tolist() == [2, 0, 0]
    assert trace.counts[0, 0, 1].tolist() == [3, 0, 0]
    assert trace.counts[1, 0, 1].tolist() == [0, 1.5, 0]
    assert trace.sources_known


def test_a_row_for_each_choice(tmp_path):
    """As llama.cpp's moe-trace writes them: a prompt of two tokens, then one token more."""
    path = tmp_path / "moe_trace.csv"
    rows = ["0,3", "0,1", "0,3", "0,2", "1,0", "1,2", "1,0", "1,1", "0,1", "0,2", "1,3", "1,0"]
    path.write_text("\n".join(["layer,expert", *rows]) + "\n")
    assert is_load_file(path)
    trace = read_load_file(path)
    assert trace.counts[:, :, 0].tolist() == [
        [[0, 1, 1, 2], [2, 1, 1, 0]], [[0, 1, 1, 0], [1, 0, 0, 1]],
    ]  # fmt: skip
    path.write_text("layer,expert\n")
    with pytest.raises(DemandError, match="the table has no rows"):
        read_load_file(path)


def test_routing_logs_are_told_apart(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"row_type": "header"}) + "\n")
    assert not is_load_file(path)
    assert not is_load_file(tmp_path)
    path.write_text("\n\n")
    assert not is_load_file(path)
    path.write_text("3\n")
    assert not is_load_file(path)


def changed(**columns):
    table = {**ROWS, **columns}
    return {name: values for name, values in table.items() if values is not None}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(load=None), "column 'load' is missing; expected step, layer, expert, load"),
        (changed(load=None, loads=[1] * 5), "column 'load' is missing; did you mean 'loads'?"),
        (changed(note=["a"] * 5), "column 'note' is not known; leave it out"),
        (changed(load=[1, 2, 3, 4, -1]), "column 'load', row 5: expected 0 to 1e15, got -1"),
        (changed(load=[1.0, 2, 3, 4, 1e16]), "column 'load', row 5: expected 0 to 1e15, got 1e+16"),
        (changed(load=[1, 2, None, 4, 1]), "column 'load', row 3: the value is missing"),
        (changed(load=["a"] * 5), "column 'load': expected numbers, got String"),
        (changed(expert=[0.5, 2, 1, 1, 3]), "column 'expert': expected whole numbers, got Float64"),
        (changed(expert=[0, 2, 1, 1, 70_000]), "column 'expert', row 5: expected 0 to 65534, got "
         "70000"),
        (changed(step=[-1, 7, 7, 9, 9]), "column 'step', row 1: expected 0 to"),
        (changed(layer=[2, None, 5, 2, 5]), "column 'layer', row 2: the value is missing"),
        (changed(expert=[0, 0, 1, 1, 3]), "step 7, layer 2, expert 0 occurs more than once"),
        (changed(layer=[2, 2, 5, 2, 2]), "step 9 has no loads of layer 5"),
        (changed(load=[1, 2, 3, 0, 1]), "step 9 has no loads of layer 2"),
        ({name: values[:0] for name, values in ROWS.items()}, "the table has no rows"),
        (changed(rank=[0, 0, 0, 0, 65_000], expert=[0, 2, 1, 1, 65_000]), "numbers exceed"),
    ],
)  # fmt: skip
def test_tables_that_cannot_be_used(tmp_path, table, message):
    path = write(tmp_path / "loads.parquet", table)
    with pytest.raises(DemandError) as caught:
        read_load_file(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_experts_must_cover_the_table(tmp_path):
    path = write(tmp_path / "loads.csv", ROWS)
    assert read_load_file(path, experts=9).experts == 9
    with pytest.raises(DemandError, match="a table of at least 4 experts, 3 were given"):
        read_load_file(path, experts=3)
    with pytest.raises(DemandError, match="experts: expected 1 to 65535, got 70000"):
        read_load_file(path, experts=70_000)


def test_not_a_number_is_refused(tmp_path):
    path = tmp_path / "loads.csv"
    path.write_text("step,layer,expert,load\n0,0,0,1.5\n0,0,1,NaN\n")
    with pytest.raises(DemandError, match=r"column 'load', row 2: expected 0 to 1e15, got nan"):
        read_load_file(path)


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".jsonl"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe", b"PAR1", b'{"step": 1', b"a,b\n1,2,3\n"])
def test_files_that_are_no_tables(tmp_path, ending, content):
    path = tmp_path / f"loads{ending}"
    path.write_bytes(content)
    with pytest.raises(DemandError) as caught:
        read_load_file(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_absent_files(tmp_path):
    with pytest.raises(DemandError, match="no such file"):
        read_load_file(tmp_path / "none.csv")
