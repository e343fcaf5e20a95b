"""What can go wrong because of the input; our own bugs raise ``AssertionError``.

Every message is one line: what was given, what was expected, how to fix it. The command line
prints it and exits with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: maximum number of characters of a wrong value in a message
MAX_ECHO = 60


#: what keys are called elsewhere, with their name here where letters do not show it
_OTHER_NAMES = {
    "degree": "ports",
    "nic_gbps": "rate_gbps",
    "reconfigure": "when",
    "reconfiguration_delay_s": "fixed_s",
    "control_delay_s": "control_s",
    "link_up_delay_s": "link_up_s",
    "delay": "fixed_s",
    "chunk_latency_s": "relay_delay_s",
    "reconfigure_policies": "when_policies",
}


class LightloomError(Exception):
    """Base of every error that Lightloom raises on purpose.

    Examples
    --------
    >>> import lightloom
    >>> try:
    ...     lightloom.load_model("mixtral-8x7")
    ... except lightloom.LightloomError as error:
    ...     print(str(error).partition(";")[0])
    unknown model 'mixtral-8x7'
    """


class InputError(LightloomError):
    """A value of the user cannot be used.

    Examples
    --------
    >>> import lightloom
    >>> try:
    ...     lightloom.compare("mixtral-8x7b", gpus=0, rate=400)
    ... except lightloom.InputError as error:
    ...     print(error)
    compare: gpus = 0: expected at least 1
    """


class ModelError(InputError):
    """A model's name or configuration cannot be used."""


class PlanError(InputError):
    """A parallelism plan is impossible."""


class DemandError(InputError):
    """A demand matrix, regime or routing log cannot be used."""


class HardwareError(InputError):
    """A GPU, price or power is unknown."""


class FabricError(InputError):
    """A fabric or its options cannot be used."""


class StuckError(LightloomError):
    """Flows of a simulated network can never finish.

    The message has the cause and the flows, separated by semicolons.
    """


class OutputError(LightloomError):
    """A result cannot be written."""


def echo(value: object, *, quoted: bool = True, limit: int = MAX_ECHO) -> str:
    """Return a wrong value as one short printable line, for a message.

    Parameters
    ----------
    value
        What was given.
    quoted
        Whether text is shown in quotes; else as it was typed, unless nothing would be seen of it.
    limit
        Maximum number of characters.
    """
    try:
        text = value if isinstance(value, str) and not quoted else " ".join(repr(value).split())
    except ValueError:  # a whole number of thousands of digits
        return f"a huge {type(value).__name__}"
    if not text.isprintable():
        text = ascii(text)[1:-1]
    if not text.strip():
        text = repr(text)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def printable(text: str) -> str:
    """Return a text as a terminal may show it: what is no character of a line is an escape."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest known word, else an empty string.

    The closest is the one that is called so elsewhere, or the one with the most similar letters,
    else the longest that ``word`` begins with, as ``rail-optimized`` begins with ``rail``. Capitals
    do not count.
    """
    words = {choice.lower(): choice for choice in choices}
    if (other := words.get(_OTHER_NAMES.get(word.lower(), ""))) is not None:
        return f"; did you mean '{other}'?"
    close = difflib.get_close_matches(word.lower(), list(words), n=1, cutoff=0.6)
    begun = [choice for choice in words if len(choice) > 2 and word.lower().startswith(choice)]
    best = close[:1] or sorted(begun, key=len)[-1:]
    return f"; did you mean '{words[best[0]]}'?" if best else ""


def expected_one_of(value: object, choices: Iterable[str]) -> str:
    """Return ``"expected one of x, y"``, with a suggestion if ``value`` is close to a word."""
    words = list(choices)
    hint = did_you_mean(value[:MAX_ECHO], words) if isinstance(value, str) else ""
    return f"expected one of {', '.join(words)}{hint}"
