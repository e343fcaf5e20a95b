"""A step of many micro-batches from recordings of few.

A pipeline warms up, does the same for micro-batch after micro-batch, and cools down. Two recordings
that differ by some micro-batches tell what these add: a *period*, which has to stand in the
longer one at least twice in succession. A step of more micro-batches has it more often. Nothing
is known of schedules: a program without such a period is refused. Sizes that depend on data are
those of the repeated period; its choices of experts are numbered on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import Any

from lightloom.errors import InputError
from lightloom.trace.computes import Compute, RouterChoice, StreamPlace, StreamWait
from lightloom.trace.trace import Call, RankTrace, Trace, make_trace

#: of a call, what cannot depend on data
_SAME = (
    "op", "function", "group", "ranks", "dtype", "reduction", "peer", "root", "tag", "phase",
    "layer", "stream", "asynchronous", "call_site", "tensors", "duration_s",
)  # fmt: skip
_SIZES = ("shape", "input_bytes", "output_bytes", "input_splits", "output_splits")

#: of a call or a compute, what counts on from period to period
_COUNTERS = ("routed", "micro_batch")

#: what stands in a program's arguments for the number of micro-batches
PLACEHOLDER = "{micro_batches}"


@dataclass(frozen=True, slots=True)
class _Item:
    """A call, a compute or a wait of a stream, among all of a rank in their order.

    Attributes
    ----------
    value
        Itself.
    step
        It belongs to.
    key
        Equal where two do the same.
    places
        What it refers to: indices of items before which something is.
    """

    value: Call | Compute | StreamWait
    step: int
    key: tuple[object, ...]
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Period:
    """What the longer recording has in addition in one step.

    Attributes
    ----------
    start
        Its first item in the longer recording.
    length
        Items.
    """

    start: int
    length: int


def micro_batch_programs(
    program: Sequence[str], micro_batches: Sequence[int]
) -> list[tuple[str, ...]]:
    """A program with each number of micro-batches in the place that it names.

    Raises
    ------
    InputError
        If it names none, or the numbers do not lead from one to the last.
    """
    numbers = ",".join(map(str, micro_batches))
    if not any(PLACEHOLDER in word for word in program):
        raise InputError(
            f"--micro-batches {numbers}: write {PLACEHOLDER} where the program takes their number, "
            f"such as --num-microbatches {PLACEHOLDER}"
        )
    rising = all(count < other for count, other in pairwise(micro_batches))
    if len(micro_batches) < 3 or not rising or micro_batches[0] < 1:
        raise InputError(
            f"--micro-batches {numbers}: expected two or more numbers to record, and the number "
            "of the job, rising, such as 9,10,64"
        )
    first, second = micro_batches[:2]
    for number in micro_batches[2:]:
        if (number - first) % (second - first):
            raise InputError(
                f"--micro-batches {numbers}: {number} is not {first} and a multiple of the "
                f"{second - first} that {second} adds"
            )
    return [tuple(word.replace(PLACEHOLDER, str(n)) for word in program) for n in micro_batches]


def extend(traces: Sequence[Trace], micro_batches: Sequence[int]) -> Trace:
    """The trace of a step of more micro-batches than were recorded.

    Parameters
    ----------
    traces
        Of the same ranks with `micro_batches`: the first two tell the period, further ones are
        what the extension is held against.
    micro_batches
        Of each trace, and after them that of the job.

    Raises
    ------
    InputError
        If a rank has no period, or a further recording is another than the extension.
    """
    first, second = traces[:2]
    added = micro_batches[1] - micro_batches[0]
    wanted = (micro_batches[-1] - micro_batches[0]) // added
    ranks = []
    for rank, few in first.ranks.items():
        more = second.ranks[rank]
        extension = _Extension(few, more, micro_batches)
        for recorded, number in zip(traces[2:], micro_batches[2:-1], strict=True):
            copies = (number - micro_batches[0]) // added
            check_same(extension.repeated(copies), recorded.ranks[rank], number)
        ranks.append(extension.repeated(wanted))
    before, after = (str(micro_batches[place]) for place in (0, -1))
    program = tuple(
        word if word == other else word.replace(before, after)
        for word, other in zip(first.program, second.program, strict=True)
    )
    return make_trace(first.world_size, program, ranks, first.groups)


def check_same(extended: RankTrace, recorded: RankTrace, micro_batches: int) -> None:
    """Hold an extension against a recording of as many micro-batches, item by item.

    Raises
    ------
    InputError
        The first item that is another.
    """
    ours, theirs = list(_items(extended)), list(_items(recorded))
    for place, (item, other) in enumerate(zip(ours, theirs, strict=False)):
        if (item.key, item.places, item.step) != (other.key, other.places, other.step):
            raise InputError(
                f"rank {recorded.rank}: with {micro_batches} micro-batches item {place} of its "
                f"calls and computes is {_shown(other.value)}, by extension {_shown(item.value)}"
            )
    if len(ours) != len(theirs):
        raise InputError(
            f"rank {recorded.rank}: with {micro_batches} micro-batches it has {len(theirs):,} "
            f"calls and computes, by extension {len(ours):,}"
        )


class _Extension:
    """One rank's two recordings, and the period of each step."""

    def __init__(self, few: RankTrace, more: RankTrace, micro_batches: Sequence[int]) -> None:
        self.few, self.more = few, more
        self.few_items, self.more_items = list(_items(few)), list(_items(more))
        numbers = f"{micro_batches[0]} and {micro_batches[1]} micro-batches"
        ends = [_ends(items) for items in (self.few_items, self.more_items)]
        if len(ends[0]) != len(ends[1]):
            raise InputError(f"rank {few.rank}: {numbers} take different numbers of steps")
        added = [
            (end[1] - start[1]) - (end[0] - start[0])
            for start, end in pairwise([(0, 0), *zip(*ends, strict=True)])
        ]
        #: by how much places may move for one copy more
        self._lengths = set(accumulate(added, initial=0))
        self.periods: list[_Period] = []
        for start, end in pairwise([(0, 0), *zip(*ends, strict=True)]):
            period = _period(
                self.few_items[start[0] : end[0]], self.more_items[start[1] : end[1]],
                start[1], self._lengths,
            )  # fmt: skip
            if period is None:
                raise InputError(
                    f"rank {few.rank}: {numbers} do not differ by a period that repeats; record "
                    "more micro-batches than the pipeline has stages, or, where it is "
                    "interleaved, multiples of its stages, such as 2 and 3 times as many"
                )
            self.periods.append(period)
        if not any(added):
            raise InputError(
                f"rank {few.rank}: {numbers} make the same calls; does the program heed the "
                f"argument that has {PLACEHOLDER}?"
            )

    def repeated(self, copies: int) -> RankTrace:
        """The recording with each period `copies` times as often as the longer one has it."""
        moved = list(self._moved(copies))
        counts, calls, computes = [(0, 0)], 0, 0
        for value, _ in moved:
            calls += isinstance(value, Call)
            computes += isinstance(value, Compute)
            counts.append((calls, computes))
        parts = _renumbered(moved, counts)
        chosen = {choice.number: choice for choice in self.more.choices}
        choices: dict[int, RouterChoice] = {}
        for call, original in zip(parts[0], self._originals, strict=True):
            if call.routed is not None and original in chosen:
                choices[call.routed] = chosen[original]._replace(number=call.routed)
        return replace(
            self.more,
            calls=tuple(parts[0]), computes=tuple(parts[1]), stream_waits=tuple(parts[2]),
            choices=tuple(choices[number] for number in sorted(choices)),
            invented=_grown(self.few.invented, self.more.invented, copies),
            assumed=_grown(self.few.assumed, self.more.assumed, copies),
        )  # fmt: skip

    def _moved(self, copies: int) -> Iterator[tuple[Any, tuple[int, ...]]]:
        """Every item, with what it refers to among all."""
        self._originals: list[int | None] = []
        position = missing = shift = 0
        for period in self.periods:
            end = period.start + period.length
            #: by how much what counts has moved on before the period
            counted = dict.fromkeys(_COUNTERS, 0)
            while position < period.start:
                yield self._linear(position, position - missing, copies, counted)
                position += 1
            for copy in range(copies):
                for place in range(period.start, end):
                    yield self._repeated(period, place, copy, shift, counted, copies)
            position, missing = end, missing + period.length
            shift += (copies - 1) * period.length
        while position < len(self.more_items):
            yield self._linear(position, position - missing, copies, {})
            position += 1

    def _linear(
        self, place: int, few_place: int, copies: int, counted: dict[str, int]
    ) -> tuple[Any, tuple[int, ...]]:
        """An item that both recordings have: what it refers to moves on by every copy."""
        few, more = self.few_items[few_place], self.more_items[place]
        places = []
        for earlier, other in zip(few.places, more.places, strict=True):
            if other - earlier not in self._lengths:
                raise self._moving(more)
            places.append(earlier + copies * (other - earlier))
        changes = {}
        for name, before, after in _counters(few.value, more.value):
            counted[name] = (copies - 1) * (after - before)
            changes[name] = after + counted[name]
        return self._changed(more.value, changes), tuple(places)

    def _moving(self, item: _Item) -> InputError:
        return InputError(
            f"rank {self.more.rank}: what waits for {_shown(item.value)}, or what it waits for, is "
            "not the same in each period"
        )

    def _repeated(
        self, period: _Period, place: int, copy: int, shift: int, counted: dict[str, int],
        copies: int,
    ) -> tuple[Any, tuple[int, ...]]:  # fmt: skip
        """An item of one copy of the period: what it refers to is in turn, or outside of all."""
        now, before = self.more_items[place], self.more_items[place - period.length]
        places = []
        for current, earlier in zip(now.places, before.places, strict=True):
            if current - earlier == period.length:
                places.append(current + shift + copy * period.length)
            elif current == earlier and not period.start < current < period.start + period.length:
                places.append(current + self._shift(current, copies))
            else:
                raise self._moving(now)
        changes = {
            name: after + counted[name] + copy * (after - earlier)
            for name, earlier, after in _counters(before.value, now.value)
        }
        return self._changed(now.value, changes), tuple(places)

    def _changed(self, value: Any, changes: dict[str, int]) -> Any:
        if isinstance(value, Call):
            self._originals.append(value.routed)
        return replace(value, **changes) if changes else value

    def _shift(self, place: int, copies: int) -> int:
        """By how much a place of the longer recording, outside of periods, moves."""
        return sum(
            (copies - 1) * span.length for span in self.periods if span.start + span.length <= place
        )


def _counters(item: Any, other: Any) -> Iterator[tuple[str, int, int]]:
    """What counts on, of two items that do the same."""
    for name in _COUNTERS:
        before, after = getattr(item, name, None), getattr(other, name, None)
        if before is not None and after is not None:
            yield name, before, after


def _renumbered(
    moved: list[tuple[Any, tuple[int, ...]]], counts: list[tuple[int, int]]
) -> tuple[list[Call], list[Compute], list[StreamWait]]:
    """Items with indices among calls and computes in place of those among all items."""
    calls: list[Call] = []
    computes: list[Compute] = []
    waits: list[StreamWait] = []
    for number, (value, places) in enumerate(moved):
        if isinstance(value, Call):
            waited = value.waited_before
            waited_at = value.waited_at
            if waited is not None:
                waited = counts[places[0]][0]
            if waited_at is not None:
                waited_at = StreamPlace(waited_at.stream, *counts[places[1]])
            calls.append(
                replace(value, call_id=len(calls), waited_before=waited, waited_at=waited_at)
            )
        elif isinstance(value, Compute):
            computes.append(replace(value, before=counts[number][0]))
        else:
            at, until = value.at.stream, value.until.stream
            waits.append(
                StreamWait(StreamPlace(at, *counts[number]), StreamPlace(until, *counts[places[0]]))
            )
    return calls, computes, waits


def _items(recorded: RankTrace) -> Iterator[_Item]:
    """Calls, computes and waits of streams in their order."""
    order: list[Call | Compute | StreamWait] = []
    of_place: dict[tuple[int, int], int] = {}
    waits = list(recorded.stream_waits)
    calls = computes = 0

    def reached() -> None:
        of_place[calls, computes] = len(order)
        while waits and tuple(waits[0].at[1:]) == (calls, computes):
            order.append(waits.pop(0))

    reached()
    while calls < len(recorded.calls) or computes < len(recorded.computes):
        if computes < len(recorded.computes) and recorded.computes[computes].before <= calls:
            order.append(recorded.computes[computes])
            computes += 1
        else:
            order.append(recorded.calls[calls])
            calls += 1
        reached()
    before_call = {
        entry.call_id: place for place, entry in enumerate(order) if isinstance(entry, Call)
    } | {len(recorded.calls): len(order)}
    step = 0
    for entry in order:
        if isinstance(entry, StreamWait):
            places: tuple[int, ...] = (of_place[entry.until.calls, entry.until.computes],)
        else:
            step = entry.step
            places = _places(entry, before_call, of_place) if isinstance(entry, Call) else ()
        yield _Item(entry, step, _key(entry, bool(recorded.choices)), places)


def _places(
    call: Call, before_call: dict[int, int], of_place: dict[tuple[int, int], int]
) -> tuple[int, ...]:
    places: tuple[int, ...] = ()
    if call.waited_before is not None:
        places = (before_call[call.waited_before],)
        if call.waited_at is not None:
            places += (of_place[call.waited_at.calls, call.waited_at.computes],)
    return places


def _key(entry: Call | Compute | StreamWait, by_data: bool) -> tuple[object, ...]:
    """What is equal where two do the same; sizes only where they cannot depend on data."""
    if isinstance(entry, StreamWait):
        return (StreamWait, entry.at.stream, entry.until.stream)
    if isinstance(entry, Compute):
        operators: object = entry.operators
        if by_data:
            operators = frozenset(operator.kind for operator in entry.operators)
        return (Compute, entry.stream, entry.phase, entry.layer, operators, entry.duration_s)
    sizes = () if entry.routed is not None or entry.input_splits is not None else _SIZES
    at = None if entry.waited_at is None else entry.waited_at.stream
    return (
        Call, entry.waited_before is None, at, entry.routed is None,
        *(getattr(entry, name) for name in (*_SAME, *sizes)),
    )  # fmt: skip


def _ends(items: list[_Item]) -> list[int]:
    """Where the items of each step end."""
    lengths = [len(list(group)) for _, group in groupby(items, key=lambda item: item.step)]
    return [sum(lengths[: number + 1]) for number in range(len(lengths))]


def _period(few: list[_Item], more: list[_Item], start: int, moves: set[int]) -> _Period | None:
    """What one step has in addition, if it stands there twice in succession.

    The additional items may be taken to begin anywhere in the steady state: from where all items
    refer to what they do in the shorter recording or a period before, near the end. A step that is
    the same in both, such as one to warm up, has a period of no items.
    """
    length = len(more) - len(few)
    same = _common(few, more, lambda items, place: items[place])
    same_end = _common(few, more, lambda items, place: items[-1 - place])
    first = len(few) - same_end
    if length < 0 or same - first < length:
        return None
    turns = {0, length}
    alike = [
        _refer_alike(more[place - length], more[place], turns)
        for place in range(first + length, same + length)
    ]
    steady = range(first, same)
    before = [_refer_alike(few[place], more[place], moves) for place in steady]
    after = [_refer_alike(few[place], more[place + length], moves) for place in steady]
    for place in range(same, first + length - 1, -1):
        block = alike[place - first - length : place - first]
        if all(block) and all(before[: place - first]) and all(after[place - first :]):
            return _Period(start + place, length)
    return _Period(start + same, length)  # told by the item that is in the way


def _refer_alike(item: _Item, other: _Item, moves: set[int]) -> bool:
    """Whether what two items refer to is as far apart as it may be."""
    pairs = zip(item.places, other.places, strict=True)
    return all(later - earlier in moves for earlier, later in pairs)


def _common(few: list[_Item], more: list[_Item], at: Callable[[list[_Item], int], _Item]) -> int:
    """Items that are the same from one end on."""
    for place in range(len(few)):
        if at(few, place).key != at(more, place).key:
            return place
    return len(few)


def _grown(few: Mapping[str, int], more: Mapping[str, int], copies: int) -> dict[str, int]:
    """Counts after so many more periods as there are from few to more."""
    return {
        name: few.get(name, 0) + copies * (number - few.get(name, 0))
        for name, number in more.items()
    }


def _shown(value: Call | Compute | StreamWait) -> str:
    if isinstance(value, Call):
        return f"call {value.call_id}, {value.op} of {value.group}"
    if isinstance(value, Compute):
        return f"a compute of {value.layer or value.phase}"
    return "a wait of a stream"
