"""Whatever is in a file: an answer or one line of LightloomError, never another exception."""

import json
import tempfile
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightloom.errors import InputError, LightloomError
from lightloom.fabric import load_fabric
from lightloom.hardware import load_power, load_prices
from lightloom.inputs.formats import parse_toml
from lightloom.report.explain import load_results
from lightloom.study.compare.job import prepare
from lightloom.study.compare.scenario import Scenario, study_of

MINIMUM = {"model": "mixtral-8x7b", "gpus": 128, "cluster": {"rate_gbps": 400}}

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["400 Gb/s", "25 ms", "mixnet", "fat-tree", "best", "-1", "1e400", "../x"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=8,
)


def toml(value) -> str:
    """A value as inline TOML; TOML has no null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        items = (f"{toml(str(k))} = {toml(v)}" for k, v in value.items() if v is not None)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(v) for v in value if v is not None) + "]"
    if isinstance(value, str):
        return json.dumps(value)
    return str(value)


def lines(table: dict) -> str:
    return "".join(f"{toml(key)} = {toml(value)}\n" for key, value in table.items())


def parse_study(content):
    return study_of(parse_toml(content, "s"), "s", Path())


def survives(call, *arguments):
    """Call; only a LightloomError may come out, and in a study's case of one line."""
    try:
        return call(*arguments)
    except LightloomError as error:
        text = str(error)
    assert text.strip()
    # other readers show an unknown key as it is; the command line then joins the lines
    assert call is not parse_study or text.isprintable()
    return None


def in_file(call, content: bytes, name: str):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        return survives(call, path)


KEYS = list(Scenario.model_fields)

#: the first quantity with a unit loads the table of units, which takes longer than an example may
patient = settings(deadline=None)


@patient
@given(st.binary(max_size=300))
def test_any_bytes(content):
    survives(parse_study, content)
    in_file(load_fabric, content, "f.toml")
    in_file(load_prices, content, "p.toml")
    in_file(load_power, content, "w.toml")
    in_file(load_results, content, "r.json")


@patient
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), values, max_size=5))
def test_studies_of_any_values(table):
    content = lines({k: v for k, v in {**MINIMUM, **table}.items() if v is not None})
    survives(parse_study, content.encode("utf-8", "surrogatepass"))


PARTS = ["cluster", "plan", "demand"]


@patient
@given(st.sampled_from(PARTS), st.data())
def test_studies_of_any_options(part, data):
    known = Scenario.model_fields[part].annotation.model_fields
    key = data.draw(st.sampled_from(list(known)))
    table = {**MINIMUM, part: {**MINIMUM.get(part, {}), key: data.draw(scalars | values)}}
    content = lines(table).encode("utf-8", "surrogatepass")
    scenario = survives(parse_study, content)
    if scenario is not None:
        text = scenario.model_dump_json()
        assert Scenario.model_validate_json(text) == scenario


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=60, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tp": st.sampled_from([1, 2, 3, 4, 8, 16]),
            "pp": st.sampled_from([1, 2, 4, 5, 32, 64]),
            "ep": st.sampled_from([1, 2, 3, 8, 16]),
            "dp": st.sampled_from([1, 2, 4, 7]),
            "cp": st.sampled_from([1, 2, 3]),
            "etp": st.sampled_from([1, 2, 4]),
            "vpp": st.sampled_from([1, 2, 3]),
            "micro_batches": st.integers(1, 9),
            "micro_batch_size": st.integers(1, 3),
            "seq_len": st.sampled_from([1, 7, 1024, 4096]),
            "expert_mode": st.sampled_from(["axis", "folded"]),
            "pp_layout": st.lists(st.integers(0, 40), max_size=6),
        },
    ),
    st.sampled_from([1, 8, 12, 64, 100, 128, 1000]),
    st.sampled_from(["mixtral-8x7b", "olmoe-1b-7b", "llama-3-405b"]),
)
def test_plans_of_any_degrees(plan, gpus, model):
    content = lines({**MINIMUM, "model": model, "gpus": gpus, "plan": plan})
    scenario = survives(parse_study, content.encode())
    if scenario is not None:
        job = survives(prepare, scenario)
        if job is not None:
            assert job.plan.gpus == gpus
            assert job.samples()


@patient
@given(st.dictionaries(st.sampled_from(["ports", "allocator", "first", "label", "technology",
                                        "fixed_s", "rate_gbps",
                                        "gpus_per_server", "split"])
                       | st.text(max_size=8), values, max_size=4),
       st.sampled_from(["mixnet", "topoopt", "fat-tree"]))  # fmt: skip
def test_fabrics_of_any_options(options, kind):
    content = lines({"kind": kind, **{k: v for k, v in options.items() if v is not None}})
    in_file(load_fabric, content.encode("utf-8", "surrogatepass"), "f.toml")


sourced = st.fixed_dictionaries({"value": scalars, "source": st.sampled_from(["s", "t"])})
LISTS = [
    (load_prices, ["links", "fiber", "switches", "server"], ["nic_usd", "price_usd", "gpus"]),
    (load_power, ["links", "ports", "server"], ["nic_w", "power_w", "gpus", "ocs_port_w"]),
]


@patient
@given(st.sampled_from(LISTS), st.data())
def test_prices_and_powers_of_any_values(which, data):
    load, parts, names = which
    inner = st.dictionaries(
        st.sampled_from(names) | st.text(max_size=5), sourced | values, max_size=3
    )
    tables = {part: data.draw(inner) for part in parts}
    tables["links"] = data.draw(
        st.dictionaries(st.sampled_from(["400", "x", "-1"]), inner, max_size=2)
    )
    tables["sources"] = {"s": {"text": "t", "date": "2026-01-01"}}
    in_file(load, lines(tables).encode("utf-8", "surrogatepass"), "p.toml")


RESULT = {"fabric": "a", "step_time_s": 1.0, "breakdown_critical_path_s": {"ep": 1.0}}


@patient
@given(st.dictionaries(st.sampled_from(["schema_version", "results"]), values, max_size=2),
       st.dictionaries(st.sampled_from(list(RESULT)), values, max_size=3))  # fmt: skip
def test_results_of_any_values(top, inner):
    content = {"schema_version": 1, "results": [{**RESULT, **inner}], **top}
    in_file(load_results, json.dumps(content).encode(), "r.json")


@given(values)
def test_the_writer_of_these_tests_writes_toml(value):
    text = lines({"a": value}) if value is not None else ""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        # surrogates and control characters have no TOML form; everything else must have one
        assert not text.isprintable()


def test_a_study_of_another_encoding():
    with pytest.raises(InputError) as caught:
        parse_study("model = 'x'".encode("utf-16"))
    assert str(caught.value) == "s: not UTF-8 text"
