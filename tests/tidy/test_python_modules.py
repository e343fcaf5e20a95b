"""Modules of the package import each other one way, and habits that cost clarity only decline."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "python"
FILES = sorted((SOURCES / "lightloom").rglob("*.py"))

#: parameters that are tuples of several things, and that are ``Any``, which is for JSON of others:
#: lower what has become fewer
MAX_TUPLES, MAX_ANY = 80, 780


def name_of(path: Path, root: Path = SOURCES) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_of(tree: ast.AST, package: str) -> set[tuple[str, str]]:
    """Modules that code imports from, at any depth but for types alone, and the imported names."""
    found = set()
    for node in ast.iter_child_nodes(tree):
        if is_for_types(node):
            continue
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*(base if node.level else []), *filter(None, [node.module])])
            found |= {(module, alias.name) for alias in node.names}
        found |= imports_of(node, package)
    return found


def edges_of(root: Path) -> dict[str, set[str]]:
    """Per module, the modules that it imports."""
    files = {name_of(path, root): path for path in sorted(root.rglob("*.py"))}
    edges = {}
    for name, path in files.items():
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        imports = imports_of(ast.parse(path.read_text()), package)
        edges[name] = {
            f"{module}.{part}" if f"{module}.{part}" in files else module
            for module, part in imports
        }
        edges[name] = (edges[name] & files.keys()) - {name}
    return edges


def circles_of(edges: dict[str, set[str]]) -> list[set[str]]:
    """Modules that reach each other, by what each reaches."""
    reached: dict[str, set[str]] = {}
    for start, next_ones in edges.items():
        todo, seen = list(next_ones), set()
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                todo += edges[name]
        reached[start] = seen
    circles = []
    for name in edges:
        circle = {other for other in reached[name] if name in reached[other]}
        if circle and circle not in circles:
            circles.append(circle)
    return circles


def test_modules_import_each_other_one_way():
    """A table that cannot be tested without the comparison that prints it."""
    assert not [sorted(circle) for circle in circles_of(edges_of(SOURCES))]


def parameters() -> list[str]:
    """Annotations of all parameters of the package."""
    return [
        ast.unparse(node.annotation)
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.arg) and node.annotation is not None
    ]


def is_mixed(annotation: str) -> bool:
    """Whether what is annotated is a tuple of several things."""
    node = ast.parse(annotation, mode="eval").body
    return (
        ast.unparse(node).startswith("tuple[")
        and isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Tuple)
        and ast.unparse(node.slice.elts[-1]) != "..."
    )


def test_tuples_of_unlike_things_become_fewer():
    """A rate and a delay of one tuple that a caller gave in the other order."""
    count = sum(map(is_mixed, parameters()))
    assert count <= MAX_TUPLES, "give a type with names to what always goes together"


def test_any_becomes_rarer():
    """A misspelt attribute that mypy let pass, because what had it was ``Any``."""
    count = sum(bool(re.search(r"\bAny\b", annotation)) for annotation in parameters())
    assert count <= MAX_ANY, "say what it is; Any is for JSON that others have written"


def test_the_measures_measure(tmp_path):
    for name, text in {
        "p/__init__.py": "",
        "p/a.py": "def f():\n    from p import b\n",
        "p/b.py": "from .c import x\n",
        "p/c.py": "from typing import TYPE_CHECKING\nimport p.a\n",
        "p/d.py": "if TYPE_CHECKING:\n    from p.e import y\n",
        "p/e.py": "from p.d import z\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert circles_of(edges_of(tmp_path)) == [{"p.a", "p.b", "p.c"}]
    assert is_mixed("tuple[str, float]")
    assert not is_mixed("tuple[str, ...]")
    assert not is_mixed("dict[tuple[str, float], int]")
