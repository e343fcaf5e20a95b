"""One name per idea: what a record calls a field, every door and the glossary call it."""

import dataclasses
import json
import re
from pathlib import Path

import pytest

from lightloom import _core
from lightloom.cli import compare, predict, schedule
from lightloom.control.region_file import PolicySection, RatesSection, RelaySection, TimingSection
from lightloom.fabric import Cluster, MixNet
from lightloom.fabric.circuit_options import CircuitOptions
from lightloom.fabric.network import Ocs
from lightloom.schedule import Region
from lightloom.schedule.circuit_rules import CircuitRules
from lightloom.study.compare.results import PolicyResult
from lightloom.study.compare.scenario import ClusterOptions
from lightloom.study.scheduling import PortBudget

ROOT = Path(__file__).parents[2]


def of(record):
    """Fields of a record of the core."""
    return {field.name for field in _core.record_fields(record)}


def of_class(kind):
    """Fields of a dataclass."""
    return {field.name for field in dataclasses.fields(kind)}


def of_command(module):
    """Fields that a command sets."""
    panels = module.command().panels
    return {option.name for panel in panels for option in panel.options}


def of_c():
    """Keys of the description that the C interface takes, as its guide has it."""
    guide = (ROOT / "docs" / "how-to" / "decide-from-c.md").read_text()
    (text,) = re.findall(r"```json\n(.*?)```", guide, re.DOTALL)
    described = json.loads(text)
    tables = [value for value in described.values() if isinstance(value, dict)]
    return {*described, *(key for table in tables for key in table)}


TIMING, POLICY, REGION = of("SwitchTiming"), of("Policy"), of_class(Region)


@pytest.mark.parametrize(
    ("door", "names"),
    [
        (set(MixNet.model_fields), TIMING | {"allocator", "when", "ports", "split", "failed"}),
        (set(CircuitOptions.model_fields), TIMING | {"allocator", "when", "ports", "split"}),
        (of_class(CircuitRules), {"circuit_gbps", "eps_gbps", "eps_nics", "split"}),
        (of_class(Ocs), {"allocator", "when", "ports", "split", "planes", "timing", "relaying"}),
        (of_command(compare), {"allocator", "when", "fixed_s", "rate_gbps"}),
        (of_command(schedule), {"ports", "eps_gbps", "failed", "rate_gbps"}),
        (of_command(predict), {"ports", "split", "rate_gbps"}),
        (set(TimingSection.model_fields), TIMING),
        (set(PolicySection.model_fields), (POLICY - {"relaying"}) | {"split"}),
        (set(RatesSection.model_fields), {"circuit_gbps", "eps_gbps", "eps_nics"}),
        (set(RelaySection.model_fields), of("RelayCost")),
        (of_class(PortBudget), {"ports", "eps_gbps", "eps_nics", "failed"}),
        (of_class(PolicyResult), {"when"}),
        (set(MixNet.model_fields) & set(ClusterOptions.model_fields), {"rate_gbps"}),
        (of_class(Cluster), {"rate_gbps"}),
        (of_c(), {"region", "policy", "timing", "ports", "circuit_gbps", "eps_gbps", "when"}),
        (of_c(), {"fixed_s"}),
    ],
)  # fmt: skip
def test_a_door_has_the_names_of_the_records(door, names):
    """The delay of a switch in ten places under four names."""
    assert names <= door


def test_the_names_of_these_doors_are_those_of_the_records():
    """A record that calls a field otherwise than the options above."""
    assert {"allocator", "when"} <= POLICY
    assert {"ports", "circuit_gbps", "eps_gbps", "eps_nics", "split", "failed"} <= REGION


def test_the_glossary_tells_the_names_of_quantities_apart():
    """A name of a rate or a time that nobody can tell from another."""
    glossary = set(re.findall(r"`(\w+)`", (ROOT / "docs" / "glossary.md").read_text()))
    rates = {name for name in REGION | set(ClusterOptions.model_fields) if name.endswith("_gbps")}
    times = {name for name in TIMING if name.endswith("_s")}
    assert rates | times | {"when", "allocator", "ports"} <= glossary
