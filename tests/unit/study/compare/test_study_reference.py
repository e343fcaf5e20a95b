"""The page of the keys of studies: every key, in the table that it belongs to."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from lightloom.study.compare.scenario import Scenario

ROOT = Path(__file__).parents[4]
#: what results record in place of files
RECORDED = {"model_shape", "price_list", "power_list"}


def test_every_key_of_a_study_stands_in_its_table():
    spec = spec_from_file_location("generated", ROOT / "docs/site/generated.py")
    generated = module_from_spec(spec)
    spec.loader.exec_module(generated)
    top, *parts = generated.study().split("\n## ")
    tables = {}
    for part in parts:
        head, _, rows = part.partition("\n")
        tables[head.strip("`[]")] = set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))
    fields = Scenario.model_fields
    outside = set(re.findall(r"^\| `(\w+)` \|", top, re.MULTILINE))
    assert outside | tables.keys() | RECORDED == fields.keys()
    for name, keys in tables.items():
        kinds = generated.parts_of(fields[name].annotation)
        assert keys == set(next(filter(generated.is_table, kinds)).model_fields)
