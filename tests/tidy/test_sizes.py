"""Functions, files, lines and nesting stay small."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAX_FILE, MAX_FUNCTION, MAX_LINE, MAX_NESTING = 800, 70, 100, 4
PYTHON = sorted(
    p
    for top in ("python", "tests", "examples", "experiments", "benches")
    for p in (ROOT / top).rglob("*.py")
)
RUST = sorted((ROOT / "crates").rglob("*.rs"))
#: a line of Rust that opens a loop, a condition or a match
CONTROL = re.compile(
    r"^(?:'\w+: )?(?:for|while|loop|if|match)\b|(?:=>?|return|\() (?:loop|if|match)\b"
)
#: Rust functions that nest deeper
NESTED = {
    ("crates/schedule/examples/quality.rs", "main"),
    ("crates/schedule/examples/relay.rs", "main"),
    ("crates/schedule/src/allocation/circulant.rs", "fill"),
    ("crates/schedule/src/permutation/improve.rs", "find_paths"),
}
#: parameters that are tuples, by crate; may only become fewer
TUPLES = {"demand": 2, "python": 2, "schedule": 12}
BLOCKS = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.Match)


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_files_and_lines_are_short():
    """A file that several rooms have to change at once, and a line that a diff cuts."""
    wrong = []
    for path in (*PYTHON, *RUST):
        lines = path.read_text().splitlines()
        if len(lines) > MAX_FILE:
            wrong.append(f"{name_of(path)} has {len(lines)} lines")
        long = [number for number, line in enumerate(lines, 1) if len(line) > MAX_LINE]
        wrong += [f"{name_of(path)}:{number} is too long" for number in long]
    assert not wrong, "\n".join(wrong)


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


def test_python_functions_are_short_and_flat():
    """A function of 200 lines with a wrong branch, which nobody saw because nobody read so far."""
    wrong = []
    for path in PYTHON:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                place = f"{name_of(path)}:{node.lineno}: {node.name}"
                if (length := node.end_lineno - node.lineno + 1) > MAX_FUNCTION:
                    wrong.append(f"{place} has {length} lines")
                if nesting(node) > MAX_NESTING:
                    wrong.append(f"{place} nests too deeply")
    assert not wrong, "\n".join(wrong)


def rust_functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Names and lines of the functions of a file that rustfmt has formatted."""
    lines = path.read_text().splitlines()
    start, name, indent = 0, "", ""
    for number, line in enumerate(lines):
        header = re.match(r"( *)(?:pub(?:\([\w ]+\))? )?(?:const |async )?fn (\w+)", line)
        if header and not name:
            indent, name, start = header[1], header[2], number
        if name and (line == f"{indent}}}" or (number == start and line.endswith(("}", ";")))):
            yield name, lines[start : number + 1]
            name = ""


def rust_nesting(lines: list[str]) -> int:
    """Levels of loops, conditions and matches, told by the indentation."""
    deepest, open_blocks = 0, []
    for line in lines[1:]:
        text = line.lstrip()
        depth = len(line) - len(text)
        if text.startswith(("//", "} else")) or not text:
            continue
        while open_blocks and depth <= open_blocks[-1]:
            open_blocks.pop()
        if text.endswith("{") and CONTROL.search(text):
            open_blocks.append(depth)
            deepest = max(deepest, len(open_blocks))
    return deepest


def tuple_parameters(lines: list[str]) -> int:
    """Parameters of a Rust function whose type is a tuple."""
    header = re.split(r" \{$|;$", "\n".join(lines), maxsplit=1, flags=re.MULTILINE)[0]
    return len(re.findall(r"[\w)]: (?:&(?:'\w+ )?(?:mut )?)?\([^()]*,", header.split("->")[0]))


def test_rust_functions_are_short_and_flat():
    """The same in Rust."""
    wrong = []
    for path in RUST:
        for name, lines in rust_functions(path):
            if len(lines) > MAX_FUNCTION:
                wrong.append(f"{name_of(path)}: {name} has {len(lines)} lines")
            if (name_of(path), name) not in NESTED and rust_nesting(lines) > MAX_NESTING:
                wrong.append(f"{name_of(path)}: {name} nests too deeply")
    assert not wrong, "\n".join(wrong)


def test_tuples_are_types():
    """Two numbers of one tuple that a caller gave in the other order."""
    found = Counter()
    for path in RUST:
        if "src" in path.parts and "tests" not in path.parts:
            crate = path.relative_to(ROOT / "crates").parts[0]
            found[crate] += sum(tuple_parameters(lines) for _, lines in rust_functions(path))
    more = {crate: count for crate, count in found.items() if count > TUPLES.get(crate, 0)}
    assert not more, "give a type to what always goes together"


def test_the_measures_of_rust_measure():
    lines = ["fn f(", "    (a, b): (u32, u32),", "    c: &mut (u8, u8),", "    d: u32,", ") {"]
    body = [
        "    for x in y {",
        "        if x {",
        "            z();",
        "        } else {",
        "        }",
    ]
    body += [
        "        match x {",
        "            _ => loop {",
        "            },",
        "        }",
        "    }",
        "}",
    ]
    assert tuple_parameters(lines + body) == 2
    assert rust_nesting(lines + body) == 3
