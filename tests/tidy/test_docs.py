"""The documentation is a place to find things: short pages, and snippets that are still true."""

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from lightloom.cli.root import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
#: what else shows commands and Python
OTHERS = sorted([ROOT / "README.md", *(ROOT / "experiments").rglob("*.md")])

#: words of prose on a page: ten minutes of reading, after which nobody finds anything. Tables and
#: code are looked up rather than read, and do not count
MAX_WORDS = 1200
#: pages that are looked up rather than read
LONGER = {"glossary.md": 1500}
#: words of all pages, tables and code included: what a new page adds, another has to give up.
#: An experiment's tables and their discussion belong in its folder. A new family of commands brings
#: its own 250, a transport with a queue of its own 120, what laws hold and who may resume when 800,
#: a purchase and failures 700
MAX_TOTAL = 33_900

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"[^\s|]*\w[^\s|]*")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "docs" if path in PAGES else ROOT).as_posix()


def prose(text: str) -> str:
    """The text of a page without code and tables."""
    lines = FENCED.sub("", text).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("|"))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_is_read_in_ten_minutes(path):
    limit = LONGER.get(name_of(path), MAX_WORDS)
    assert len(WORD.findall(prose(path.read_text()))) <= limit


def test_all_pages_together_stay_short():
    words = {name_of(path): len(path.read_text().split()) for path in PAGES}
    longest = sorted(words, key=words.get, reverse=True)[:5]
    assert sum(words.values()) <= MAX_TOTAL, f"the longest pages are {', '.join(longest)}"


def imports_of(code: str) -> list[tuple[str, str]]:
    """Names that code imports from this package, by module."""
    return [
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lightloom")
        for alias in node.names
    ]


@pytest.mark.parametrize("path", PAGES + OTHERS, ids=name_of)
def test_python_in_a_page_imports_what_there_is(path):
    for language, code in FENCED.findall(path.read_text()):
        if language == "python":
            for module, name in imports_of(code):
                assert hasattr(import_module(module), name), f"{module} has no {name}"


def commands_of(text: str) -> list[list[str]]:
    """Command lines of this program in code blocks: words after ``lightloom``."""
    blocks = [code for _, code in FENCED.findall(text)]
    blocks += re.findall(r"^    lightloom .*$", FENCED.sub("", text), re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    lines = [part.strip().removeprefix("$ ") for line in lines for part in line.split(" | ")]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("lightloom ")]


def flags_of(name: str) -> set[str]:
    """Options that a command takes, also those of every command."""
    described = import_module(f"lightloom.cli.{COMMANDS[name].module}").command()
    flags = {flag for panel in described.panels for one in panel.options for flag in one.flags}
    return flags | {"--help", "--help-all", "--set"}


@pytest.mark.parametrize("path", PAGES + OTHERS, ids=name_of)
def test_commands_in_a_page_take_the_options_that_it_shows(path):
    for words in commands_of(path.read_text()):
        name = next((one for one in (" ".join(words[:2]), words[0]) if one in COMMANDS), None)
        assert name or words[0].isupper() or words[0].startswith("-"), words
        if name:
            own = words[: words.index("--")] if "--" in words else words
            given = {word.split("=")[0] for word in own if word.startswith("--")}
            assert given <= flags_of(name) | no_flags(flags_of(name)), words


def no_flags(flags: set[str]) -> set[str]:
    """The negative form of switches."""
    return {f"--no-{flag.removeprefix('--')}" for flag in flags}


def test_the_checks_see_what_they_are_for():
    text = "one two\n| a | b |\n```python\nfrom lightloom.x import y\n```\n"
    assert WORD.findall(prose(text)) == ["one", "two"]
    assert imports_of("from lightloom.x import y\nimport os") == [("lightloom.x", "y")]
    shown = "    lightloom a --b=1 \n```\n$ lightloom c \\\n  --d\nother\n```\n"
    assert sorted(commands_of(shown)) == [["a", "--b=1"], ["c", "--d"]]
