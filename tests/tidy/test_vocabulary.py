"""The project speaks the language of its field: docs/glossary.md, and glossary.toml beside it.

Words to avoid are looked for in documentation, help texts, names, docstrings, comments and
messages; one name of a public type has one meaning.
"""

import ast
import io
import re
import tokenize
import tomllib
from collections import defaultdict
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from lightloom.cli.commands import COMMANDS, END, SUMMARY

ROOT = Path(__file__).parents[2]
ENTRIES = tomllib.loads((ROOT / "docs" / "glossary.toml").read_text())["avoid"]

#: documents that quote words to avoid: the glossary itself, and the old names of the changelog
QUOTING = {
    "docs/glossary.md",
    "docs/decisions/0001-programs-per-stage.md",
    "docs/decisions/0002-a-network-is-a-list-of-parts.md",
    "docs/decisions/0007-one-event-per-hop.md",
}
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "experiments/*/*.md", "benches/*.md")
    for path in ROOT.glob(pattern)
    if path.relative_to(ROOT).as_posix() not in QUOTING
)
SOURCES = sorted(
    path
    for folder in ("python", "crates", "tests", "docs/site", "examples", "experiments", "benches")
    for pattern in (f"{folder}/**/*.py", f"{folder}/**/*.rs")
    for path in ROOT.glob(pattern)
    if path != Path(__file__)
)

#: underscores from which on a name is the sentence that a test states
SENTENCE = 4


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def forbidden_text() -> re.Pattern[str]:
    """One pattern for all words and phrases; spaces match line breaks and comment signs."""
    words = [word for entry in ENTRIES for word in entry.get("text", [])]
    alternatives = (r"[\s/#*]+".join(map(re.escape, word.split())) for word in words)
    return re.compile(rf"(?<![\w`])({'|'.join(alternatives)})(?![\w`])", re.IGNORECASE)


@cache
def forbidden_names() -> re.Pattern[str]:
    """One pattern for words of identifiers that were split by ``_``."""
    words = [word for entry in ENTRIES for word in entry.get("names", [])]
    return re.compile(rf"(?:^|_)({'|'.join(words)})(?=_|$)")


@cache
def allowed_names() -> re.Pattern[str]:
    """One pattern for successions of words that are right."""
    allowed = [word for entry in ENTRIES for word in entry.get("allow", [])]
    return re.compile(rf"(?:^|(?<=_))(?:{'|'.join(allowed)})(?=_|$)")


def words_of(identifier: str) -> str:
    """``PairAsks`` and ``PAIR_ASKS`` as ``pair_asks``."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", identifier)
    return parts.lower()


def wrong_text(text: str) -> list[str]:
    return [" ".join(match.split()) for match in forbidden_text().findall(text)]


def wrong_names(identifiers: set[str]) -> list[str]:
    words = {name: allowed_names().sub("", words_of(name)) for name in identifiers}
    return sorted(
        name
        for name in identifiers
        if words[name].count("_") < SENTENCE and forbidden_names().search(words[name])
    )


def python_parts(source: str) -> tuple[str, set[str]]:
    """Text (comments and strings) and identifiers of a Python file."""
    text, identifiers = [], set()
    texts = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in texts:
            text.append(token.string)
        elif token.type == tokenize.NAME:
            identifiers.add(token.string)
    return "\n".join(text), identifiers


def rust_parts(source: str) -> tuple[str, set[str]]:
    """The same of a Rust file, well enough: ``//`` comments, ordinary strings, the rest."""
    pattern = re.compile(r'//[^\n]*|"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)\'', re.DOTALL)
    text = "\n".join(pattern.findall(source))
    return text, set(re.findall(r"[A-Za-z_]\w*", pattern.sub(" ", source)))


def test_documents_use_the_words_of_the_field():
    """Two names of one idea, of which a reader learns one page by page."""
    wrong = {name_of(path): wrong_text(path.read_text()) for path in DOCUMENTS}
    assert not {name: words for name, words in wrong.items() if words}


def help_texts() -> dict[str, str]:
    """Help of all commands and their options, by where it is shown."""
    texts = {"lightloom": f"{SUMMARY} {END}"}
    for name, entry in COMMANDS.items():
        described = import_module(f"lightloom.cli.{entry.module}").command()
        texts[f"lightloom {name}"] = f"{entry.summary} {' '.join(described.examples)}"
        texts[f"lightloom {name}"] += f" {described.notes}"
        for option in (option for panel in described.panels for option in panel.options):
            text = f"{option.described.sentence()} {option.described.metavar}"
            texts[f"lightloom {name} {' '.join(option.flags)}"] = text
    return texts


def test_help_uses_the_words_of_the_field():
    """An option whose name a user of Megatron does not know."""
    texts = help_texts()
    found = {place: wrong_text(text) for place, text in texts.items() if wrong_text(text)}
    assert found == {}
    options = {word.lstrip("-").replace("-", "_") for place in texts for word in place.split()}
    assert wrong_names(options) == []


def test_code_uses_the_words_of_the_field():
    """An option, a function and a page that call one thing `exchange`, `round` and all-to-all."""
    wrong = {}
    for path in SOURCES:
        parts = python_parts if path.suffix == ".py" else rust_parts
        text, identifiers = parts(path.read_text())
        if words := wrong_text(text) + wrong_names(identifiers):
            wrong[name_of(path)] = words
    assert not wrong


def public_types(language: str) -> dict[str, list[str]]:
    """Where each public type of a language is defined."""
    found = defaultdict(list)
    if language == "rust":
        for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
            if "tests" not in path.parts:
                pattern = r"^pub (?:struct|enum|trait|type|union) (\w+)"
                for name in re.findall(pattern, path.read_text(), re.MULTILINE):
                    found[name].append(name_of(path))
    else:
        for path in sorted((ROOT / "python" / "lightloom").rglob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(name_of(path))
    return found


@pytest.mark.parametrize("language", ["rust", "python"])
def test_one_public_type_name_has_one_meaning(language):
    """`Placement` of experts on ranks, and of roles on workers, in one line.

    Python shows a type of Rust by its name, and so a name may be there once in each.
    """
    several = {name: places for name, places in public_types(language).items() if len(places) > 1}
    assert not several


def test_the_patterns_find_words():
    assert wrong_text("a region\n// its domains") == ["domains"]
    assert wrong_text("the trace\n/// hash") == ["trace /// hash"]
    assert wrong_text("domainwise `domain`") == []
    names = {"PairExchange", "compare_exchange", "trace_hash", "hash_of_trace", "subdomain"}
    assert wrong_names(names) == ["PairExchange", "trace_hash"]
    assert wrong_names({"test_a_domain_is_no_region_here", "of_domain"}) == ["of_domain"]


def test_every_word_to_avoid_has_another():
    for entry in ENTRIES:
        assert entry.keys() <= {"text", "names", "use", "allow"}
        assert entry["use"]
        assert entry.get("text") or entry.get("names")
