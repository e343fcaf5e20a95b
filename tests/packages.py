"""Packages that add fabrics, allocators and the like, as an installer leaves them."""

import re
import tomllib
from pathlib import Path

GUIDES = Path(__file__).parents[1] / "docs" / "how-to"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: str, language: str) -> list[str]:
    """Blocks of a guide in one language."""
    text = (GUIDES / page).read_text()
    return [code for other, code in FENCED.findall(text) if other == language]


def code_of(page: str) -> str:
    """The module that a guide shows."""
    return "\n".join(blocks_of(page, "python"))


def entry_points_of(page: str) -> dict[str, dict[str, str]]:
    """The entry points that a guide shows, by group and name."""
    block = next(code for code in blocks_of(page, "toml") if "entry-points" in code)
    return tomllib.loads(block)["project"]["entry-points"]


def install(folder: Path, module: str, source: str, points: dict[str, dict[str, str]]) -> Path:
    """Write a module and its entry points below a folder for Python's path."""
    (folder / f"{module}.py").write_text(source)
    about = folder / f"{module}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    lines = []
    for group, names in points.items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in names.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return folder
