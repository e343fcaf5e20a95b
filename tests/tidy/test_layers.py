"""A module imports only from the layers below it (ARCHITECTURE.md)."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "python" / "lightloom"

#: lowest first; modules of one layer may import each other only within one package
LAYERS = [
    {
        "units",
        "errors",
        "progress",
        "lazy",
        "optional",
        "plugins",
        "practice",
        "samples",
        "shown",
        "version",
    },
    {"inputs"},
    {"models", "hardware"},
    {"parallel"},
    {"demand"},
    {"schedule"},
    {"workload", "fabric"},
    {"packets"},
    {"simulate", "cost"},
    {"planner"},
    {"trace", "control", "torch"},
    {"testbed"},
    {"study"},
    {"output"},
    {"report"},
    {"api"},
    {"cli"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
CORE_USERS = {"schedule", "simulate", "demand", "packets"}
#: fabric/network.py and fabric/__init__ describe workers by the task graph's layout
#: torch speaks with a controller, by its client alone
SAME_LAYER = {("fabric", "workload"), ("torch", "control")} | {
    (n, "errors") for n in ("units", "lazy", "optional", "plugins", "samples")
}


def nodes_of(tree: ast.AST):
    """Every node of a file but those of imports for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from nodes_of(node)


def imported(path: Path) -> set[str]:
    """Top-level rooms of lightloom that a file imports."""
    rooms = set()
    for node in nodes_of(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = (
                [f"{node.module}.{alias.name}" for alias in node.names]
                if node.module == "lightloom"
                else [node.module]
            )
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("lightloom.")}
    return rooms


def test_every_room_has_a_layer():
    """A new room that imports, and is imported by, whatever it likes."""
    rooms = {p.stem for p in PACKAGE.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    assert rooms - {"__init__", "__main__"} <= LEVEL.keys()


def test_imports_point_downwards():
    """A fabric that reads a comparison's results, and cannot be used without one."""
    wrong = []
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room in {"__init__", "__main__"}:
            continue
        for other in imported(path) - {room, "__version__"}:
            if other == "_core":
                if room not in CORE_USERS:
                    wrong.append(f"{path.name} imports _core")
            elif (room, other) not in SAME_LAYER and LEVEL[other] >= LEVEL[room]:
                wrong.append(f"{path.relative_to(PACKAGE)} imports {other}")
    assert not wrong, wrong


def test_torch_knows_the_controller_by_its_client_alone():
    """A runtime that decides by itself, where the controller's decision is another."""
    found = set()
    for path in (PACKAGE / "torch").glob("*.py"):
        for node in nodes_of(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith(
                "lightloom.control"
            ):
                found.add(str(node.module).rpartition(".")[2])
    assert found == {"client", "documents", "refusals", "token"}


def test_only_the_python_crate_knows_pyo3():
    """A scheduler that a controller in C cannot link, because it returns objects of Python."""
    crates = Path(__file__).parents[2] / "crates"
    users = {
        path.relative_to(crates).parts[0]
        for path in [*crates.rglob("*.rs"), *crates.rglob("Cargo.toml")]
        if "pyo3" in path.read_text()
    }
    assert users == {"python"}
