"""Hooks of the documentation site: pages from outside docs/, and reference made from the code.

README, ARCHITECTURE, CONTRIBUTING, CHANGELOG, the experiments and the benchmark results stay where
a reader of the repository looks for them, and are pages of the site as well. Links are written as
they work in the repository; this module translates them. A line ``<!-- generated: NAME -->`` in a
page is replaced by what the function of that name in :mod:`generated` returns; a word after the
name is its argument.
"""

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

import generated

ROOT = Path(__file__).parents[2]
#: files outside docs/ that are part of the site
OUTSIDE = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benches/RESULTS.md",
    "experiments/*/*.md",
    "experiments/*/experiment.toml",
    "examples/**/*.*",
)
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"^<!-- generated: (\w+)(?: (.+))? -->$", re.MULTILINE)


def site_path(source: str) -> str:
    """The place in the site of a file of the repository."""
    if source == "README.md":
        return "index.md"
    return source.removeprefix("docs/")


def repository_path(page: str) -> str:
    """The file of the repository that a page of the site is made from."""
    if page == "index.md":
        return "README.md"
    return page if (ROOT / page).exists() else f"docs/{page}"


def on_config(config: dict[str, Any]) -> dict[str, Any]:
    """Replace each folder of the navigation by its pages, in the order of their names."""
    config["nav"] = [expanded(entry) for entry in config["nav"]]
    return config


def expanded(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of the navigation with its pages, if it is a folder."""
    ((title, target),) = entry.items()
    if not isinstance(target, str) or not target.endswith("/"):
        return entry
    folder = ROOT / repository_path(target)
    pages = sorted(folder.rglob("*.md"))
    return {title: [site_path(path.relative_to(ROOT).as_posix()) for path in pages]}


def on_files(files: Files, config: object) -> Files:
    """Add the pages and files that lie outside docs/."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            source = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, site_path(source), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: object, config: object, files: Files) -> str:
    """Fill in what is generated and translate links from the repository to the site."""
    markdown = GENERATED.sub(filled_in, markdown)
    here = page.file.src_uri
    kept: list[str] = []
    start = 0
    for fence in FENCE.finditer(markdown):
        kept.append(translated(markdown[start : fence.start()], here, files))
        kept.append(fence[0])
        start = fence.end()
    return "".join([*kept, translated(markdown[start:], here, files)])


def filled_in(match: re.Match[str]) -> str:
    """The generated text that a line requests."""
    function = getattr(generated, match[1])
    return function(match[2]) if match[2] else function()


def translated(text: str, here: str, files: Files) -> str:
    """Text of a page with its links as the site needs them."""
    folder = posixpath.dirname(repository_path(here))

    def replace(match: re.Match[str]) -> str:
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        source = posixpath.normpath(posixpath.join(folder, target))
        if (ROOT / source).is_dir():
            source = f"{source}/README.md"
        place = site_path(source)
        if files.get_file_from_path(place) is None:
            return match[0]  # the strict build says that it leads nowhere
        link = os.path.relpath(place, posixpath.dirname(here) or ".")
        return f"{match[1]}{link}{match[3] or ''}{match[4]}"

    return LINK.sub(replace, text)
