"""Pages from ``templates/``: what all of them share, and how one is filled in.

A page extends ``base.html``, which wants ``title``, ``heading``, ``verdict`` (sentences) and
``version`` of its context. Every text from outside is escaped; a name that is missing is an error.
Scripts and what they read are put in as they are: scripts by ``asset``, data by ``data``.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from lightloom.output.files import csv_text, json_text
from lightloom.units import show_usd


@cache
def asset(name: str) -> Markup:
    """A script of ``templates/`` or ``vendor/``, unchanged."""
    text = files("lightloom.report").joinpath(name).read_text(encoding="utf-8")
    assert "</script" not in text.lower(), f"{name} would end the element that it stands in"
    return Markup(text)


def data(value: Any) -> Markup:
    """Plain data for a script element: no text in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def packed(column: npt.NDArray[Any]) -> str:
    """Numbers as compressed text, four bytes each; ``charts.js`` has the opposite.

    The first bytes of all come first, then the second bytes and so on: they compress better.
    """
    values = np.asarray(column, dtype=np.int64)
    assert not len(values) or np.abs(values).max() < 2**31, "a number of more than four bytes"
    by_place = values.astype("<i4").view(np.uint8).reshape(-1, 4).T
    return base64.b64encode(zlib.compress(by_place.tobytes(), 9)).decode()


def download(content: str, kind: str) -> Markup:
    """Text as the address of a link that saves it, which needs no script."""
    text = base64.b64encode(content.encode()).decode()
    return Markup(f"data:{kind};base64,{text}")


@dataclass(frozen=True)
class Download:
    """A file that a page holds: its name, what it has, and the address of its link."""

    name: str
    has: str
    address: Markup


def files_of(
    name: str, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], row_is: str
) -> list[Download]:
    """Results as JSON, and their rows as CSV if there are any."""
    files = [
        Download(
            f"{name}.json", "everything", download(json_text(dict(content)), "application/json")
        )
    ]
    if rows:
        text = csv_text({column: [row[column] for row in rows] for column in rows[0]})
        files.append(Download(f"{name}.csv", row_is, download(text, "text/csv")))
    return files


def linked(text: str, url: str = "") -> Markup:
    """Text whose addresses are links; the whole of it one to ``url``, if there is one."""
    if url.startswith(("https://", "http://")):
        return Markup('<a href="{}" rel="noopener noreferrer">{}</a>').format(url, text)
    parts = re.split(r"(https?://[^\s,;)\"'<>]+[^\s,;.)\"'<>])", text)
    link = Markup('<a href="{0}" rel="noopener noreferrer">{0}</a>')
    return Markup("").join(
        link.format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def anchor(name: str) -> str:
    """A name as part of an address within a page: letters, digits and hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")


def page_environment() -> jinja2.Environment:
    """Where templates are found and how they are read."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lightloom.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["usd"] = show_usd
    environment.filters |= {"anchor": anchor, "linked": linked}
    environment.globals |= {"asset": asset, "data": data}
    return environment


def render_page(template: str, context: Mapping[str, Any]) -> str:
    """Text of the page that a template makes of its context."""
    return page_environment().get_template(template).render(context)
