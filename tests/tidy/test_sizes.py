"""Functions, files, lines and nesting stay small."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_FILE, MAX_FUNCTION, MAX_LINE, MAX_NESTING = 800, 70, 100, 4
PYTHON = sorted(
    p
    for top in ("python", "tests", "examples", "experiments", "benches")
    for p in (ROOT / top).rglob("*.py")
)
RUST = sorted((ROOT / "crates").rglob("*.rs"))
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*PYTHON, *RUST], ids=name_of)
def test_files_and_lines_are_short(path):
    lines = path.read_text().splitlines()
    assert len(lines) <= MAX_FILE
    assert not [i for i, line in enumerate(lines, 1) if len(line) > MAX_LINE]


def nesting(node: ast.AST, depth: int = 0) -> int:
    deepest = depth
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        # "elif" is a nested If in the tree, but not to the reader
        chained = isinstance(node, ast.If) and [child] == node.orelse
        deeper = isinstance(child, BLOCKS) and not (chained and isinstance(child, ast.If))
        deepest = max(deepest, nesting(child, depth + deeper))
    return deepest


@pytest.mark.parametrize("path", PYTHON, ids=name_of)
def test_python_functions_are_short_and_flat(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= MAX_FUNCTION, f"{node.name} has {length} lines"
            assert nesting(node) <= MAX_NESTING, f"{node.name} nests too deeply"


@pytest.mark.parametrize("path", RUST, ids=name_of)
def test_rust_functions_are_short(path):
    start, name, indent = 0, "", ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        header = re.match(r"( *)(?:pub(?:\(\w+\))? )?(?:const )?fn (\w+)", line)
        if header and not name:
            indent, name, start = header[1], header[2], number
        elif name and line == f"{indent}}}":
            length = number - start + 1
            assert length <= MAX_FUNCTION, f"{name} has {length} lines"
            name = ""
