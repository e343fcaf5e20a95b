"""What a file of another tool holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightloom.errors import InputError
from lightloom.inputs.files import shown_path
from lightloom.progress import Progress
from lightloom.trace.importers.program import Span
from lightloom.trace.trace import RankTrace, Trace


def json_files(path: Path) -> list[Path]:
    """A file, or the files of a folder, one per rank.

    Raises
    ------
    InputError
        If there is none in the folder.
    """
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.iterdir()) if file.name.endswith((".json", ".json.gz"))]
    if not files:
        raise InputError(f"{shown_path(path)}: the folder has no *.json or *.json.gz")
    return files


def advance(progress: Progress | None, share: float, activity: str) -> None:
    """Say how far reading is, if somebody listens.

    Raises
    ------
    KeyboardInterrupt
        If whoever listens wants it to stop.
    """
    if progress is not None and progress(share, activity) is False:
        raise KeyboardInterrupt


@dataclass(frozen=True)
class Imported:
    """A trace, whoever recorded it.

    Attributes
    ----------
    form
        What recorded it, in words.
    trace
        Its calls and computes.
    spans
        Of each rank what its streams did when, in order of time; empty where times are not known.
    remarks
        What was assumed and what was left out, a sentence each.
    """

    form: str
    trace: Trace
    spans: Mapping[int, tuple[Span, ...]] = field(default_factory=dict, repr=False)
    remarks: tuple[str, ...] = ()

    @property
    def steps(self) -> list[int]:
        """Numbers of the steps in which something was done."""
        numbers = {span.step for of_rank in self.spans.values() for span in of_rank}
        for recorded in self.trace.ranks.values():
            numbers |= {call.step for call in recorded.calls}
            numbers |= {compute.step for compute in recorded.computes}
        return sorted(numbers)

    def at_step(self, step: int) -> Imported:
        """The same of one step alone, with times from its beginning; waits are left out.

        Raises
        ------
        InputError
            If there is no such step.
        """
        if step not in self.steps:
            steps = self.steps
            shown = f"steps {steps[0]} to {steps[-1]}" if steps else "no steps"
            raise InputError(f"--step {step}: the trace has {shown}")
        ranks = {}
        spans = {}
        for rank, recorded in self.trace.ranks.items():
            places = [place for place, call in enumerate(recorded.calls) if call.step == step]
            ranks[rank] = _reduced(recorded, places, step)
            index = {place: number for number, place in enumerate(places)}
            of_step = [span for span in self.spans.get(rank, ()) if span.step == step]
            begin_s = min((span.start_s for span in of_step), default=0.0)
            spans[rank] = tuple(
                replace(
                    span,
                    start_s=span.start_s - begin_s,
                    call=None if span.call is None else index[span.call],
                )
                for span in of_step
            )
        kept = {rank: of_rank for rank, of_rank in spans.items() if of_rank}
        return replace(self, trace=replace(self.trace, ranks=ranks), spans=kept)


def _reduced(recorded: RankTrace, places: list[int], step: int) -> RankTrace:
    computes = tuple(compute for compute in recorded.computes if compute.step == step)
    calls = tuple(recorded.calls[place] for place in places)
    return replace(recorded, calls=calls, computes=computes, stream_waits=())
