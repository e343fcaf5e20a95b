"""Pages from ``templates/``: what all of them share, and how one is filled in.

A page extends ``base.html``, which wants ``title``, ``heading``, ``verdict`` (sentences) and
``version`` of its context. Every text from outside is escaped; a name that is missing is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jinja2

from lightloom.units import show_usd


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
    return environment


def render_page(template: str, context: Mapping[str, Any]) -> str:
    """Text of the page that a template makes of its context."""
    return page_environment().get_template(template).render(context)
