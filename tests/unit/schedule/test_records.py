"""A record is written once: its fields are those of the core at every door, named by none.

Run as a program, it writes ``records.pyi`` anew.
"""

import dataclasses
import inspect
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from lightloom import _core
from lightloom.control.region_file import (
    PolicySection,
    RatesSection,
    RelaySection,
    TimingSection,
)
from lightloom.errors import InputError
from lightloom.fabric import MixNet
from lightloom.inputs.fields import describe
from lightloom.schedule import record_fields, records

STUB = Path(records.__file__).with_suffix(".pyi")
KINDS = [kind for kind in vars(records).values() if dataclasses.is_dataclass(kind)]
C_HEADER = Path(__file__).parents[3] / "crates/c/include/lightloom.h"
#: what a region's port map or controller states, and not its file
KNOWN_OTHERWISE = {"ports", "allowed", "planes", "failed"}


def fields_of(kind: type) -> list:
    """What the core's record has, without the NICs of a region, which are arguments."""
    nics = {"planes", "numa_nodes"} if kind is records.Region else set()
    return [field for field in _core.record_fields(kind.__name__) if field.name not in nics]


def has_default(field: dataclasses.Field) -> bool:
    none = dataclasses.MISSING
    return not (field.default is none and field.default_factory is none)


def stub() -> str:
    """What type checkers see of the records: their fields, and their methods as written."""
    first = inspect.getdoc(records).splitlines()[0]
    lines = [f'"""{first}"""', "", "from collections.abc import Sequence"]
    lines += ["from dataclasses import dataclass", "", "import numpy.typing as npt"]
    for kind in KINDS:
        fields = dataclasses.fields(kind)
        lines += ["", "@dataclass(frozen=True, init=False)", f"class {kind.__name__}:"]
        # what is read is a number, whatever was written
        lines += [f"    {field.name}: {field.type.replace(' | str', '')}" for field in fields]
        given = [
            f"        {field.name}: {field.type}" + (" = ...," if has_default(field) else ",")
            for field in fields
        ]
        lines += ["    def __init__(", "        self,", *given, "    ) -> None: ..."]
        for name, method in vars(kind).items():
            if isinstance(method, property):
                returned = inspect.signature(method.fget).return_annotation
                lines += ["    @property", f"    def {name}(self) -> {returned}: ..."]
            elif not name.startswith("_") and callable(getattr(kind, name)):
                is_class = isinstance(method, classmethod)
                signature = str(inspect.signature(method.__func__ if is_class else method))
                lines += ["    @classmethod"] * is_class
                lines.append(f"    def {name}{signature.replace(chr(39), '')}: ...")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_class_has_the_fields_of_the_core(kind):
    fields = fields_of(kind)
    made = dataclasses.fields(kind)
    assert [field.name for field in made] == [field.name for field in fields]
    for field, own in zip(fields, made, strict=True):
        assert f"{field.name}\n    {field.description.split()[0]}" in kind.__doc__
        if own.default_factory is dataclasses.MISSING:
            assert has_default(own) is not field.required
            assert field.required or own.default == field.default


def test_type_checkers_see_the_fields_of_the_core():
    assert STUB.read_text() == stub(), f"write it anew: python {__file__}"


def test_every_part_of_the_timing_is_a_key_of_a_region_and_an_option_of_a_fabric():
    described = {field.name: field.text for field in describe(MixNet)}
    for field in _core.record_fields("SwitchTiming"):
        assert TimingSection.model_fields[field.name].description
        assert described[field.name]
    for field in _core.record_fields("RelayCost"):
        assert RelaySection.model_fields[field.name].description
    for field in _core.record_fields("Policy"):
        # what relaying costs is a table of its own
        assert field.takes == "record" or PolicySection.model_fields[field.name].description


def test_every_part_of_a_region_is_a_key_of_its_file_and_of_c():
    tables = RatesSection.model_fields | PolicySection.model_fields
    text = C_HEADER.read_text()
    for field in _core.record_fields("Region"):
        assert field.name in KNOWN_OTHERWISE or tables[field.name].description
        assert f'"{field.name}": ' in text


def test_a_region_is_what_the_core_decides_for():
    values = vars(
        records.Region([2, 1, 1], "400 Gb/s", 100, failed=records.Failures(nics=[(0, 1)]))
    )
    working = _core.schedule_working_region(3, values)
    assert working["ports"].tolist() == [1, 1, 1]
    assert (working["circuit_bps"], working["eps_bps"].tolist()) == (400 * 10**9, [10**11] * 3)
    with pytest.raises(ValueError, match="ports: expected one number or 4, got 3"):
        _core.schedule_working_region(4, values)


def test_a_region_that_the_core_gains_a_field_of_is_so_at_every_door(monkeypatch):
    gained = gained_field(takes="whole", limits=(0, 9), default=3, per_server=True)
    fields = [*_core.record_fields("Region"), gained]
    monkeypatch.setattr(_core, "record_fields", lambda _: fields)
    monkeypatch.setattr(_core, "record_values", lambda _, written: written)
    nics = ("planes", "numa_nodes")
    kind = record_fields.record(without=nics)(type("Region", (), {"__doc__": "A record."}))
    assert kind(2, 400, 800).gained == 3
    assert vars(kind(2, 400, 800, gained=[1, 2]))["gained"].tolist() == [1, 2]
    table = record_fields.with_keys(record_fields.keys_of("Region"))(BaseModel)
    made = table(ports=2, circuit_gbps=400, eps_gbps=[800, 0], gained=[4, 5])
    assert (made.gained, made.eps_gbps) == ([4, 5], [800, 0])


def gained_field(**more) -> SimpleNamespace:
    plain = {"description": "What a test adds.", "of": None, "required": False}
    return SimpleNamespace(**({"name": "gained", "per_server": False} | plain | more))


def test_a_field_that_the_core_gains_is_at_every_door(monkeypatch):
    gained = gained_field(name="settle_s", takes="quantity", limits=(0, 2), default=1.0)
    fields = [*_core.record_fields("SwitchTiming"), gained]
    monkeypatch.setattr(_core, "record_fields", lambda _: fields)
    monkeypatch.setattr(_core, "record_values", lambda _, written: written)
    kind = record_fields.record()(type("SwitchTiming", (), {"__doc__": "A record."}))
    assert kind(0, settle_s="500 ms").settle_s == 0.5
    assert "settle_s\n    What a test adds." in kind.__doc__
    table = record_fields.with_keys(record_fields.keys_of("SwitchTiming"))(BaseModel)
    assert table(fixed_s=0).settle_s == 1.0
    assert "settle_s" in [field.name for field in describe(table) if field.text]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"fixed_s": -1}, "fixed_s: expected 0 to 1e6 s, got -1"),
        ({"fixed_s": 0, "per_pair_s": "2e6 s"}, "per_pair_s: expected 0 to 1e6 s, got 2000000"),
        ({"fixed_s": "1 m"}, "fixed_s: cannot read '1 m' as a time such as '25 ms'"),
        (
            {"fixed_s": 0, "keep_unchanged": "no"},
            "keep_unchanged: expected True or False, got 'no'",
        ),
    ],
)
def test_a_wrong_timing_cannot_be_made(values, text):
    with pytest.raises(InputError) as error:
        records.SwitchTiming(**values)
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"allocator": "bset"}, "allocator 'bset': expected one of .*; did you mean 'best'"),
        ({"when": "often"}, "when 'often': expected one of never, always"),
        ({"when": None}, "when None: expected one of never, always"),
        ({"relaying": True}, "relaying: expected a RelayCost, got True"),
    ],
)
def test_a_wrong_policy_cannot_be_made(values, text):
    with pytest.raises(InputError, match=f"^{text}"):
        records.Policy(**values)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"ports": -1}, "ports: expected a whole number from 0 to 65535, got -1"),
        ({"ports": [2, 70_000]}, "ports: expected a whole number from 0 to 65535, got 70000"),
        ({"ports": [[2]]}, r"ports: expected one number or one per server, got shape \(1, 1\)"),
        ({"circuit_gbps": 0}, "circuit_gbps: expected 0.000000001 to 1e9 Gb/s, got 0"),
        ({"eps_gbps": [800, -1]}, "eps_gbps: expected 0 to 1e9 Gb/s, got -1"),
        ({"allowed": [[1, 1], [0, 1]]}, "allowed: expected a symmetric square matrix"),
        ({"failed": [3]}, r"failed: expected a Failures, got \[3\]"),
    ],
)
def test_a_wrong_region_cannot_be_made(values, text):
    with pytest.raises(InputError, match=f"^{text}"):
        records.Region(**({"ports": 2, "circuit_gbps": 400, "eps_gbps": 800} | values))


def test_a_region_is_its_own():
    ports = [2, 1]
    region = records.Region(ports, 400, 800)
    ports[0] = 9
    assert region == records.Region((2, 1), 400, 800) != records.Region([2, 2], 400, 800)


def test_times_are_whole_picoseconds_of_two_the_even_one():
    for picoseconds in (0.5, 1.5, 2.5, 25e9 + 0.5, 1e15 + 0.5):
        timing = records.SwitchTiming(picoseconds / 1e12)
        assert timing.fixed_s == round(picoseconds / 1e12 * 1e12) / 1e12
        assert timing.expected_s(7) == timing.fixed_s
    assert records.SwitchTiming("25 ms") == records.SwitchTiming(0.025)


if __name__ == "__main__":
    STUB.write_text(stub())
