"""Structured logs: one JSON object per line, of named facts alone, and never a secret.

In a terminal a line is for people: the time of day, the event, and its facts in words.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TextIO

from lightloom.control.metrics import ControlMetrics
from lightloom.control.report import ChangeReport
from lightloom.control.switch_set import SwitchReplies
from lightloom.errors import printable

_HIDDEN = "[hidden]"
_MIN_SECRET = 4


class ControlLog:
    """Writes what a controller does, and counts it.

    Parameters
    ----------
    stream
        Where lines go: JSON, but words if it is a terminal.
    region
        Name of the region, in every line.
    secrets
        Texts that are replaced wherever they appear.
    metrics
        What counts.
    clock
        Seconds since the epoch.
    """

    def __init__(
        self,
        stream: TextIO,
        region: str,
        secrets: Collection[str] = (),
        metrics: ControlMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream, self._region, self._metrics = stream, region, metrics
        self._secrets = [secret for secret in secrets if len(secret) >= _MIN_SECRET]
        self._clock = clock

    def __call__(self, event: str, facts: Mapping[str, object]) -> None:
        """Write one event; the listener of a controller."""
        report, replies = facts.get("report"), facts.get("replies")
        if isinstance(report, ChangeReport) and isinstance(replies, SwitchReplies):
            if self._metrics is not None:
                self._metrics.observe_change(report, replies)
            facts = {"kind": facts.get("kind"), **_facts_of(report)}
        self.write(event, facts)

    def write(self, event: str, facts: Mapping[str, object]) -> None:
        """Write one line."""
        record: dict[str, Any] = {
            "at": round(self._clock(), 6),
            "region": self._region,
            "event": event,
        }
        record |= self._plain(facts)
        if self._stream.isatty():
            text = _in_words(record)
        else:
            # JSON leaves one control character as it is
            text = json.dumps(record, ensure_ascii=True).replace("\x7f", "\\u007f")
        with contextlib.suppress(OSError, ValueError):
            # a full disk, or a reader that has gone, is no reason to leave a change half done
            print(text, file=self._stream, flush=True)

    def hide(self, secrets: Collection[str]) -> None:
        """Replace these texts as well from now on, wherever they appear."""
        self._secrets += [secret for secret in secrets if len(secret) >= _MIN_SECRET]

    def _plain(self, value: object) -> Any:
        """A fact as JSON has it, without secrets."""
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, Mapping):
            return {self.masked(str(name)): self._plain(item) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [self._plain(item) for item in value]
        return self.masked(str(value))

    def masked(self, text: str) -> str:
        """Return a text without secrets."""
        for secret in self._secrets:
            # also as errors show it
            for form in (secret, repr(secret)[1:-1], json.dumps(secret)[1:-1]):
                text = text.replace(form, _HIDDEN)
        return text


def _in_words(record: dict[str, Any]) -> str:
    """A line such as ``12:30:01 rack7: changed: kind apply, change 4, result done``."""
    at = time.strftime("%H:%M:%S", time.localtime(record.pop("at")))
    head = f"{at} {record.pop('region')}: {record.pop('event')}"
    facts = ", ".join(f"{name} {_word(value)}" for name, value in record.items() if value)
    return printable(f"{head}: {facts}" if facts else head)


def _word(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}: {_word(item)}" for name, item in value.items())
    return " ".join(map(_word, value)) if isinstance(value, list) else str(value)


def _facts_of(report: ChangeReport) -> dict[str, object]:
    return {
        "change": report.number,
        "result": report.result,
        "pairs": report.change.pairs,
        "seconds": round(sum(report.timings.values()), 6),
        "failed": {str(circuit): problem for circuit, problem in report.failed.items()},
    }
