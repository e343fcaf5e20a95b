"""Results of rows have one face: tables of polars and pandas, a drawing, a page, JSON."""

import functools
import importlib.util
import json

import pytest

from lightloom.errors import LightloomError
from lightloom.output.files import json_text
from lightloom.output.sweep import run_sweep
from lightloom.shown import ShownRows
from lightloom.study.compare.scenario import Scenario
from lightloom.study.difference import difference
from lightloom.study.goodput import goodput
from lightloom.study.goodput.options import RecoveryOptions
from lightloom.study.purchase import PurchaseOptions, advise_purchase
from lightloom.study.sweep.study import SweepStudy
from lightloom.study.switch_map import switch_map
from lightloom.study.switch_map.options import MapOptions

PLAN = {"tp": 2, "pp": 2, "ep": 8, "micro_batches": 2}
TABLES = {"model": "mixtral-8x7b", "gpus": 32, "cluster": {"rate_gbps": 100}, "plan": PLAN}
JOB = functools.partial(Scenario, **TABLES)


def swept(folder):
    study = {**TABLES, "fabrics": ["fat-tree"], "seeds": 1, "compute_spread": 0.0,
             "sweep": {"axes": {"cluster.rate_gbps": [100, 200]}}}  # fmt: skip
    return run_sweep(SweepStudy.of(study, "s.toml", folder), folder / "out", workers=1)


MAKE = {
    "sweep": swept,
    "goodput": lambda _: goodput(JOB(fabrics=("fat-tree",)), RecoveryOptions(runs=3, days=5)),
    "map": lambda _: switch_map(JOB(), MapOptions(rates=(100.0,), degrees=(4,), variants=False)),
    "advise": lambda _: advise_purchase(
        JOB(),
        PurchaseOptions(gpus=(32,), rates_gbps=(100.0,), fabrics=("rail-only",), uncertainty=False),
    ),
}


@pytest.mark.parametrize("name", MAKE)
def test_each_has_rows_tables_a_drawing_a_page_and_json(name, tmp_path):
    result = MAKE[name](tmp_path)
    assert isinstance(result, ShownRows)
    rows = result.rows()
    assert rows
    assert len({tuple(row) for row in rows}) == 1
    table = result.to_polars()
    assert table.height == len(rows)
    assert table.columns == list(rows[0])
    assert "<svg" in result.plot().svg
    assert result.to_html().startswith("<!doctype html>")
    json.loads(json_text(result.to_json()))
    assert "<pre" in result._repr_html_()


def test_pandas_is_named_where_it_is_missing():
    found = difference({"results": {"a": 1}}, {"results": {"a": 2}})
    if importlib.util.find_spec("pandas") is not None:
        assert len(found.to_pandas()) == 1
        return
    with pytest.raises(LightloomError, match=r"pandas is needed.*pip install pandas"):
        found.to_pandas()


def test_what_has_no_drawing_says_so():
    found = difference({"results": {"a": 1}}, {"results": {"a": 2}})
    with pytest.raises(LightloomError, match="there is no drawing of a Difference"):
        found.plot()
    with pytest.raises(LightloomError, match="there is no page of a Difference"):
        found.to_html()
