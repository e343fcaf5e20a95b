"""The files of a crate import each other one way: no cycles."""

import re
from pathlib import Path

CRATES = Path(__file__).parents[2] / "crates"

NAMES = sorted(path.name for path in CRATES.iterdir())

#: a path in code that begins at the root, at a parent or at the module itself; a path of a macro
#: (``$crate``) is one of whoever uses it
PATHS = re.compile(r"(?<![\w$])((?:crate|super|self)(?:::(?:super|[a-z_]\w*|[A-Z]\w*|\{))+)")
MODULES = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)
#: where the tests of a file begin
TESTS = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[[^\n]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod \w+ \{")


def code_of(path: Path) -> str:
    """The text of a file without comments, strings and tests in it."""
    text = path.read_text()
    text = re.sub(r'"(?:\\.|[^"\\])*"', '""', text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    return TESTS.split(text)[0]


def modules_of(sources: Path) -> dict[tuple[str, ...], Path]:
    """Files by the paths of their modules, without those that are tests."""
    found = {}
    for path in sorted(sources.rglob("*.rs")):
        parts = path.relative_to(sources).with_suffix("").parts
        if "tests" in parts or parts[0] == "main":
            continue
        module = parts[:-1] if parts[-1] in {"lib", "mod"} else parts
        found[module] = path
    return found


def expand(text: str) -> list[tuple[str, ...]]:
    """All paths of a file's code, those in braces included.

    >>> expand("use crate::a::{B, c::{D, E}};")
    [('crate', 'a', 'B'), ('crate', 'a', 'c', 'D'), ('crate', 'a', 'c', 'E')]
    """
    paths = []
    for match in PATHS.finditer(text):
        words = match[1].split("::")
        if words[-1] == "{":
            paths += braces(tuple(words[:-1]), text, match.end())[0]
        else:
            paths.append(tuple(words))
    return paths


def braces(prefix: tuple[str, ...], text: str, begin: int) -> tuple[list[tuple[str, ...]], int]:
    """Paths in the braces that open before ``begin``, and where these close."""
    paths, words, place = [], (), begin
    for token in re.finditer(r"\w+|::|[{},]", text[begin:]):
        if begin + token.end() <= place:
            continue
        place = begin + token.end()
        if token[0] == "{":
            inner, place = braces(prefix + words, text, place)
            paths += inner
            words = ()
        elif token[0] in {",", "}"}:
            if words:
                paths.append(prefix + words)
            words = ()
            if token[0] == "}":
                break
        elif token[0] != "::":
            words += (token[0],)
    return paths, place


def resolve(
    path: tuple[str, ...], here: tuple[str, ...], modules: dict[tuple[str, ...], Path]
) -> tuple[str, ...]:
    """The module whose file a path leads to, as far as its words name modules."""
    base = () if path[0] == "crate" else here
    words = list(path[1:]) if path[0] in {"crate", "self"} else list(path)
    while words and words[0] == "super":
        base, words = base[:-1], words[1:]
    while words and (*base, words[0]) in modules:
        base, words = (*base, words[0]), words[1:]
    return base


def edges_of(sources: Path) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Per module, the modules that its code uses."""
    modules = modules_of(sources)
    edges: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, path in modules.items():
        text = code_of(path)
        children = {(*module, name) for name in MODULES.findall(text)} & modules.keys()
        paths = expand(text)
        for child in children:
            # "use child::Item" and "child::function()" without "self::"
            if re.search(rf"(?<![:\w]){child[-1]}::", text):
                paths.append(("crate", *child))
        edges[module] = {resolve(path, module, modules) for path in paths} - {module}
    return edges


def cycle_in(edges: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[str]:
    """One cycle by the names of its modules; empty if there is none."""
    done: set[tuple[str, ...]] = set()

    def visit(module: tuple[str, ...], trail: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        for other in sorted(edges.get(module, ())):
            found = visit(other, [*trail, module])
            if found:
                return found
        done.add(module)
        return []

    for module in sorted(edges):
        found = visit(module, [])
        if found:
            return ["::".join(("crate", *part)) for part in found]
    return []


def test_files_import_each_other_one_way():
    """A part of `execute` that nobody could read or move without the engine which uses it."""
    cycles = [cycle_in(edges_of(CRATES / crate / "src")) for crate in NAMES]
    assert not any(cycles), [" -> ".join(cycle) for cycle in cycles if cycle]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_cycles_over_children_and_grouped_imports_are_found(tmp_path):
    files = {
        "lib.rs": "mod a;\nmod b;\npub use a::A;\n",
        "a/mod.rs": "mod inner;\nuse crate::{b::B, b::C};\n",
        "a/inner.rs": "use super::A;\n",
        "b.rs": "use crate::a::inner::Deep;\n",
    }
    edges = edges_of(write(tmp_path, files))
    assert edges[("a",)] == {("b",)}
    assert edges[("a", "inner")] == {("a",)}
    assert cycle_in(edges) == ["crate::a", "crate::b", "crate::a::inner", "crate::a"]


def test_comments_strings_and_tests_are_no_imports(tmp_path):
    files = {
        "lib.rs": "mod a;\nmod b;\n",
        "a.rs": "/// See [`crate::b::B`].\nuse crate::b::B;\n",
        "b.rs": '// use crate::a::A;\nconst T: &str = "crate::a::A";\n'
        "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
    }
    assert cycle_in(edges_of(write(tmp_path, files))) == []
