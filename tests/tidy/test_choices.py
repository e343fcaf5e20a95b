"""A name of a closed set stands in its table in the core, and appears from there by itself."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from lightloom import _core
from lightloom.cli.help import command_help
from lightloom.errors import FabricError, InputError
from lightloom.fabric import MixNet
from lightloom.inputs.fields import describe
from lightloom.packets import TRANSPORTS, profile_of
from lightloom.schedule import (
    ALL_TO_ALL_STRATEGIES,
    ALLOCATION_METHODS,
    ALLOCATORS,
    FIRST_ALL_TO_ALL_MODES,
    PERMUTATION_METHODS,
    WHEN_POLICIES,
    allocate,
    choices,
    decompose,
)

ROOT = Path(__file__).parents[2]
SETS = [
    "allocator",
    "when",
    "first",
    "all_to_all",
    "permutation method",
    "transport",
    "routing",
]


def help_of(command: str) -> str:
    """All options of a command as one line."""
    described = import_module(f"lightloom.cli.{command}").command()
    return " ".join(command_help(command, "", described, everything=True).split())


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("compare", ["best", *ALL_TO_ALL_STRATEGIES]),
        ("compare", ALLOCATION_METHODS),
        ("compare", WHEN_POLICIES),
        ("compare", TRANSPORTS),
        ("packets", TRANSPORTS),
        ("schedule", ALLOCATION_METHODS),
        ("schedule", (*PERMUTATION_METHODS, "auto")),
    ],
)
def test_help_lists_a_set_as_the_core_has_it(command, names):
    """A transport of the core that no help mentions."""
    assert ", ".join(names) in help_of(command)


def test_options_of_a_fabric_list_a_set_as_the_core_has_it():
    """The same for options of fabrics."""
    fields = {field.name: field.choices for field in describe(MixNet)}
    assert fields["first"] == tuple(FIRST_ALL_TO_ALL_MODES)
    assert fields["all_to_all"] == ("best", *ALL_TO_ALL_STRATEGIES)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: MixNet(allocator="x"), ALLOCATION_METHODS),
        (lambda: MixNet(when="x"), WHEN_POLICIES),
        (lambda: MixNet(first="x"), FIRST_ALL_TO_ALL_MODES),
        (lambda: MixNet(all_to_all="x"), ["best", *ALL_TO_ALL_STRATEGIES]),
        (lambda: decompose([[1]], method="x"), choices("permutation method")),
        (lambda: profile_of("x", 100), TRANSPORTS),
        (
            lambda: allocate([[0]], ports=1, circuit_gbps=1, eps_gbps=1, method="x"),
            ALLOCATION_METHODS,
        ),
    ],
)
def test_errors_list_a_set_as_the_core_has_it(call, names):
    """An error that offers a name which is refused in its turn."""
    with pytest.raises((FabricError, InputError)) as caught:
        call()
    assert str(caught.value).endswith(f"expected one of {', '.join(names)}")


def test_every_allocator_of_the_core_can_be_used():
    """An allocator that is listed and that nothing calls."""
    for name in ALLOCATORS:
        found = allocate([[0, 9], [0, 0]], ports=1, circuit_gbps=1, eps_gbps=1, method=name)
        assert found.circuits.tolist() == [[0, 1], [1, 0]]


def test_the_core_says_which_sets_it_has():
    """A misspelt name of a set that reads as an empty one."""
    with pytest.raises(ValueError, match=r"^no set of choices 'x': expected all_to_all, allocator"):
        _core.choices("x")


def test_descriptions_are_one_line_without_a_full_stop():
    """A description that breaks the table in which it is shown."""
    for key in SETS:
        for name, description in choices(key).items():
            assert description.isprintable(), name
            assert 0 < len(description) <= 90, name
            assert not description.endswith("."), name


def sources() -> list[Path]:
    """Everything but tests and examples."""
    rust = [p for p in (ROOT / "crates").glob("*/src/**/*.rs") if "tests" not in p.parts]
    return [*rust, *(ROOT / "python").rglob("*.py"), *(ROOT / "python").rglob("*.pyi")]


def test_no_file_repeats_a_set():
    """A second list of allocators, which the next allocator is missing from."""
    wrong = []
    for key in SETS:
        name = "|".join(rf'"{re.escape(name)}"' for name in choices(key))
        repeated = re.compile(rf"(?:{name})(?:, *\s*(?:{name})){{2}}")
        wrong += [path.name for path in sources() if repeated.search(path.read_text())]
    assert not wrong, wrong
