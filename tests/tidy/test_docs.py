"""The documentation is a place to find things: short pages, and snippets that are still true."""

import ast
import re
import shlex
from importlib import import_module
from pathlib import Path

from lightloom.cli.commands import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs").rglob("*.md"))
#: what else shows commands and Python
OTHERS = sorted([ROOT / "README.md", *(ROOT / "experiments").rglob("*.md")])

#: words of prose on a page: ten minutes of reading, after which nobody finds anything. Tables and
#: code are looked up rather than read, and do not count
MAX_WORDS = 1200
#: pages that are looked up rather than read
LONGER = {"glossary.md": 1500, "reference/results.md": 1500}

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WORD = re.compile(r"[^\s|]*\w[^\s|]*")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT / "docs" if path in PAGES else ROOT).as_posix()


def prose(text: str) -> str:
    """The text of a page without code and tables."""
    lines = FENCED.sub("", text).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith("|"))


def test_a_page_is_read_in_ten_minutes():
    """A page to which every change adds a paragraph, until nobody finds the one that matters."""
    words = {name_of(path): len(WORD.findall(prose(path.read_text()))) for path in PAGES}
    long = {name: count for name, count in words.items() if count > LONGER.get(name, MAX_WORDS)}
    assert not long


def imports_of(code: str) -> list[tuple[str, str]]:
    """Names that code imports from this package, by module."""
    return [
        (node.module or "", alias.name)
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("lightloom")
        for alias in node.names
    ]


def test_python_in_a_page_imports_what_there_is():
    """A guide that imports a name which has moved."""
    shown = {
        (name_of(path), module, name)
        for path in PAGES + OTHERS
        for language, code in FENCED.findall(path.read_text())
        if language == "python"
        for module, name in imports_of(code)
    }
    # PyTorch need not be installed: what a page takes of it is found in the source
    runtime = (ROOT / "python/lightloom/torch/__init__.py").read_text()
    wrong = [
        (page, module, name)
        for page, module, name in shown
        if not (
            f'"{name}"' in runtime
            if module == "lightloom.torch"
            else hasattr(import_module(module), name)
        )
    ]
    assert not wrong


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


def wrong_words(words: list[str]) -> set[str]:
    """The command or the options of a command line that do not exist."""
    name = next((one for one in (" ".join(words[:2]), words[0]) if one in COMMANDS), None)
    if name is None:
        return set() if words[0].isupper() or words[0].startswith("-") else {words[0]}
    own = words[: words.index("--")] if "--" in words else words
    given = {word.split("=")[0] for word in own if word.startswith("--")}
    return given - flags_of(name) - no_flags(flags_of(name))


def test_commands_in_a_page_take_the_options_that_it_shows():
    """A guide that shows an option which has another name now."""
    wrong = [
        (name_of(path), *wrong_words(words))
        for path in PAGES + OTHERS
        for words in commands_of(path.read_text())
        if wrong_words(words)
    ]
    assert not wrong


def no_flags(flags: set[str]) -> set[str]:
    """The negative form of switches."""
    return {f"--no-{flag.removeprefix('--')}" for flag in flags}


def test_the_checks_see_what_they_are_for():
    text = "one two\n| a | b |\n```python\nfrom lightloom.x import y\n```\n"
    assert WORD.findall(prose(text)) == ["one", "two"]
    assert imports_of("from lightloom.x import y\nimport os") == [("lightloom.x", "y")]
    shown = "    lightloom a --b=1 \n```\n$ lightloom c \\\n  --d\nother\n```\n"
    assert sorted(commands_of(shown)) == [["a", "--b=1"], ["c", "--d"]]
    assert wrong_words(["compare", "m", "--gpus", "8", "--", "--x"]) == set()
    assert wrong_words(["compare", "--gpu5=8"]) == {"--gpu5"}
    assert wrong_words(["comapre"]) == {"comapre"}
