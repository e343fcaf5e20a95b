"""Help of every command: it fits a screen, and every option means one thing."""

import re
from importlib import import_module

import pytest

from lightloom.cli.commands import COMMANDS, FAMILIES
from lightloom.cli.help import command_help
from lightloom.demand import REGIMES
from lightloom.demand.imbalance import IMBALANCES
from lightloom.demand.predictors import PREDICTORS
from lightloom.hardware.gpus import gpu_names
from lightloom.packets import TRANSPORTS
from lightloom.schedule import ALLOCATION_METHODS, PERMUTATION_METHODS, WHEN_POLICIES

LINES, WIDTH = 45, 100
#: options that take other keys, or more words, in some commands; --planes is a number of them, or
#: whether a server has them, --bytes of a flow or of a buffer,
#: --model what is trained or has a layer, --tokens those of a rank or those to train; --demand of
#: strategies has no gate to draw, and --chunks may be left to them; --servers are those of a demand
#: or of a testbed, --ranks-per-server EP ranks or processes, --budget dollars or time, --out a
#: file of arrays or the folder of a sweep, and --goal programs in GOAL or what a buyer wants
DIFFERENT = {
    *("--set", "--fixed", "--micro-batches", "--planes", "--bytes", "--model"),
    *("--tokens", "--demand", "--chunks", "--servers"),
    *("--ranks-per-server", "--budget", "--out", "--goal"),
}


def described(name):
    return import_module(f"lightloom.cli.{COMMANDS[name].module}").command()


def options(name):
    return [option for panel in described(name).panels for option in panel.options]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_screen(lightloom, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    shown = lightloom(f"{name} --help")
    assert shown.status == 0
    lines = shown.out.splitlines()
    assert len(lines) <= LINES
    assert all(len(line) <= WIDTH for line in lines)
    assert lightloom(f"{name} -h").out == shown.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_all_has_every_option(lightloom, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    text = lightloom(f"{name} --help-all").out
    for option in options(name):
        assert re.search(rf"^  {re.escape(option.flag)}\b", text, re.MULTILINE), option.flag
    assert "more option" not in text


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_what_is_common_and_says_how_much_is_hidden(lightloom, name):
    text = lightloom(f"{name} --help").out
    hidden = [option.flag for option in options(name) if not option.common]
    for option in options(name):
        found = re.search(rf"^  {re.escape(option.flag)}[ /\n]", text, re.MULTILINE)
        assert bool(found) == option.common, option.flag
    assert (f"{len(hidden)} more option" in text) == bool(hidden)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_full_sentences(name):
    for option in options(name):
        text = option.described.sentence()
        assert text.endswith("."), option.flag
        assert text[0].isupper() or text.split(":")[0].replace("-", "").isalpha(), option.flag
        assert "{" not in text, option.flag


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_defined_twice(name):
    flags = [flag for option in options(name) for flag in option.flags]
    assert len(flags) == len(set(flags))
    keys = [option.key for option in options(name)]
    assert len(keys) == len(set(keys))


def test_an_option_means_the_same_in_every_command():
    meanings = {}
    for name in COMMANDS:
        for option in options(name):
            if not option.is_argument and option.flag not in DIFFERENT:
                meanings.setdefault(option.flag, set()).add(option.described.text)
    different = {flag: texts for flag, texts in meanings.items() if len(texts) > 1}
    assert different == {}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_commands_that_parse(name):
    examples = described(name).examples
    assert 3 <= len(examples) <= 5
    for example in examples:
        for command in example.split(" | "):
            words = command.split(" > ")[0].split()
            assert words[0] == "lightloom"
            called = words[1] if words[1] in COMMANDS else " ".join(words[1:3])
            known = {flag for option in options(called) for flag in option.flags}
            own = words[2 : words.index("--")] if "--" in words else words[2:]
            given = {word for word in own if word.startswith("--")}
            assert given <= known, example


@pytest.mark.parametrize(
    ("name", "flag", "expected"),
    [
        ("compare", "--allocator", ALLOCATION_METHODS),
        ("compare", "--when", WHEN_POLICIES),
        ("compare", "--transport", TRANSPORTS),
        ("compare", "--gpu", gpu_names()),
        ("compare", "--demand", IMBALANCES),
        ("packets", "--transport", TRANSPORTS),
        ("schedule", "--allocators", (*ALLOCATION_METHODS, "all")),
        ("schedule", "--methods", (*PERMUTATION_METHODS, "auto")),
        ("predict", "--predictors", PREDICTORS),
        ("predict", "--synthetic", REGIMES),
    ],
)
def test_help_lists_the_choices_of_the_tables(name, flag, expected):
    option = next(option for option in options(name) if option.flag == flag)
    assert option.described.choices == tuple(expected)
    assert ", ".join(expected) in option.described.sentence()


@pytest.mark.parametrize(
    ("name", "flag", "metavar", "default"),
    [
        ("compare", "--rate", "Gb/s,...", ""),
        ("predict", "--rate", "Gb/s", "400 Gb/s"),
        ("packets", "--link-delay", "TIME", "1 us"),
        ("packets", "--bytes", "SIZE", ""),
        ("schedule", "--eps-rate", "Gb/s", ""),
        ("compare", "--gpus", "N,...", ""),
        ("compare", "--compute-spread", "X", "0.1"),
        ("compare", "--network", "flow|packet", "flow"),
        ("compare", "--policies", "", "on"),
    ],
)
def test_values_are_shown_with_their_units(name, flag, metavar, default):
    option = next(option for option in options(name) if option.flag == flag)
    assert (option.described.metavar, option.described.default) == (metavar, default)


def test_the_root_lists_commands_with_what_they_do(lightloom, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    text = lightloom("--help").out
    for name, entry in COMMANDS.items():
        family, _, rest = name.partition(" ")
        summary = FAMILIES[family] if rest else entry.summary
        assert re.search(rf"^  {family} +{re.escape(summary)}$", text, re.MULTILINE)
        if rest:
            text_of_family = lightloom(f"{family} --help").out
            row = rf"^  {rest} +{re.escape(entry.summary)}$"
            assert re.search(row, text_of_family, re.MULTILINE)
    assert len(text.splitlines()) <= LINES


def test_help_of_a_narrow_terminal_is_narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    text = command_help("lightloom schedule", "Compare.", described("schedule"))
    body = text[: text.index("Examples")]
    assert max(len(line) for line in body.splitlines()) <= 72
