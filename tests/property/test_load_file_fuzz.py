"""No bytes make the reader of load tables fail otherwise than by its own error."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lightloom.demand.load_file import is_load_file, read_load_file
from lightloom.errors import DemandError

GOOD = "step,layer,expert,load\n0,0,0,5\n0,0,1,6\n1,0,0,7\n1,0,1,2\n"
PIECES = ["-1", "x", "", "1e400", "nan", "9" * 30, "\n", ",", '"', "0.5", "\x00", "é"]


def read(path):
    problem, trace = None, None
    try:
        is_load_file(path)
        trace = read_load_file(path)
    except DemandError as error:
        problem = str(error)
    if trace is None:
        assert problem.startswith(str(path))
        assert "\n" not in problem
        return
    assert np.isfinite(trace.counts).all()
    assert (trace.counts >= 0).all()
    assert (trace.counts.sum(axis=(2, 3)) > 0).all()


@settings(max_examples=150, deadline=None)
@given(
    content=st.binary(max_size=200), ending=st.sampled_from([".csv", ".parquet", ".jsonl", ".txt"])
)
def test_any_bytes(tmp_path_factory, content, ending):
    path = tmp_path_factory.mktemp("any") / f"loads{ending}"
    path.write_bytes(content)
    read(path)


@settings(max_examples=150, deadline=None)
@given(
    edits=st.lists(st.tuples(st.integers(0, 60), st.sampled_from(PIECES)), max_size=4),
    as_json=st.booleans(),
)
def test_damaged_tables(tmp_path_factory, edits, as_json):
    text = GOOD
    if as_json:
        rows = [line.split(",") for line in GOOD.splitlines()]
        text = "\n".join(
            "{" + ",".join(f'"{k}":{v}' for k, v in zip(rows[0], row, strict=True)) + "}"
            for row in rows[1:]
        )
    for place, piece in edits:
        text = text[:place] + piece + text[place + 1 :]
    path = tmp_path_factory.mktemp("damaged") / ("loads.jsonl" if as_json else "loads.csv")
    path.write_text(text, encoding="utf-8")
    read(path)
