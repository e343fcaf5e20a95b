"""Packages that a plain installation does without: imported where they are needed, or named."""

from __future__ import annotations

import importlib.util

from lightloom.errors import LightloomError

#: extra of this package that installs each of them
EXTRAS = {"polars": "tables", "scipy": "exact", "ray": "ray"}


class MissingPackageError(LightloomError):
    """A package is needed that is not installed."""


def need(package: str, purpose: str) -> None:
    """Refuse to go on without a package.

    Parameters
    ----------
    package
        Its name; one of :data:`EXTRAS` is installed with that extra.
    purpose
        What it is needed for.

    Raises
    ------
    MissingPackageError
        One line that says how to install it.
    """
    if importlib.util.find_spec(package) is None:
        what = f"'lightloom[{EXTRAS[package]}]'" if package in EXTRAS else package
        raise MissingPackageError(
            f"{purpose}: {package} is needed, which is not installed: pip install {what}"
        )
