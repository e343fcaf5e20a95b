"""What a point is: a hash of all its inputs, of the files that they name, and of this version."""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from lightloom.study.compare.scenario import Scenario
from lightloom.version import __version__

#: rooms of the package that no row depends on
_ASIDE = ("cli", "report", "output", "samples", "control", "testbed", "torch", "trace/recorder")
#: characters of a hash, 128 bits
_LENGTH = 32


@functools.cache
def code_version() -> str:
    """The version, with a hash of the code and of the data that results depend on."""
    package = Path(str(resources.files("lightloom")))
    content = hashlib.sha256()
    for file in sorted(package.rglob("*")):
        place = file.relative_to(package).as_posix()
        if place.startswith(_ASIDE) or "__pycache__" in place or not file.is_file():
            continue
        content.update(place.encode() + b"\0")
        content.update(hashlib.sha256(file.read_bytes()).digest())
    return f"{__version__}+{content.hexdigest()[:12]}"


class Identities:
    """Hashes of scenarios; a file that they name is read once."""

    def __init__(self) -> None:
        self._files: dict[Path, str] = {}

    def of(self, scenario: Scenario) -> str:
        """The identity of a scenario: 32 hexadecimal digits."""
        return self.digest(scenario.model_dump(mode="json"), Path())

    def digest(self, inputs: object, folder: Path) -> str:
        """A hash of plain values, of this version, and of the files below ``folder`` in them."""
        text = json.dumps(
            [code_version(), self._with_contents(inputs, folder)], sort_keys=True, default=str
        )
        return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]

    def _with_contents(self, value: object, folder: Path) -> Any:
        """The value with a hash of its content in the place of each file."""
        if isinstance(value, Mapping):
            return {
                str(self._with_contents(key, folder)): self._with_contents(inner, folder)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._with_contents(inner, folder) for inner in value]
        # names of models and fabrics have neither
        if isinstance(value, str) and not {"/", "."}.isdisjoint(value) and len(value) < 4096:
            return self._content(folder / value) or value
        return value

    def _content(self, path: Path) -> str:
        """A hash of a file, or of the configuration in a folder; empty if there is neither."""
        if path not in self._files:
            self._files[path] = self._hash(path)
        return self._files[path]

    def _hash(self, path: Path) -> str:
        try:
            place = path / "config.json" if path.is_dir() else path
            if path.is_dir() and not place.exists():
                return _hash_of_folder(path)
            content = place.read_bytes() if place.is_file() else None
        except (OSError, ValueError):
            return ""
        if content is None:
            return ""
        named: Any = None
        if place.suffix == ".toml":  # which may name other files
            try:
                named = self._with_contents(tomllib.loads(content.decode()), place.parent)
            except (UnicodeDecodeError, ValueError):
                named = None
        whole = content + json.dumps(named, sort_keys=True, default=str).encode()
        return "file:" + hashlib.sha256(whole).hexdigest()


def _hash_of_folder(folder: Path) -> str:
    """A hash of what files a folder has, how large they are and when each was last written."""
    files = [
        (file.name, file.stat().st_size, file.stat().st_mtime_ns)
        for file in sorted(folder.iterdir())
        if file.is_file()
    ]
    return "folder:" + hashlib.sha256(repr(files).encode()).hexdigest()
