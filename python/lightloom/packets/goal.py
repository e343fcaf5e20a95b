"""Programs in GOAL, the text that LogGOPSim and ATLAHS read (Hoefler et al., ICPP 2009).

``num_ranks N``, then for each rank a block of operations and what they wait for::

    rank 0 {
    l1: send 4096b to 1 tag 7
    l2: recv 4096b from 1 tag 7
    l3: calc 1500
    l3 requires l2
    }

``calc`` is in nanoseconds, and operations of one ``cpu`` (0 unless it is named) compute one at a
time. ``a requires b`` lets ``a`` begin when ``b`` has ended, ``a irequires b`` when it has begun. A
``send`` begins without regard to whether the other rank receives yet, and ends when its sender has
the last acknowledgment; a ``recv`` ends when everything has arrived. Sends and receives of two
ranks and one tag belong together in the order in which they are listed. Sending and receiving take
no processor. ``nic`` is which NIC of its host a message leaves or arrives by, from 0 on. A receive
from any rank is refused.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from lightloom.errors import InputError, echo
from lightloom.inputs.arguments import path_of
from lightloom.inputs.files import decode, read_input
from lightloom.packets.flows import MAX_FILE_BYTES, MAX_FLOWS, Flows
from lightloom.packets.operations import MAX_NIC, is_operations, parse_operations
from lightloom.packets.programs import (
    MAX_OPERATIONS,
    MAX_SPAN_S,
    Milestone,
    OperationBuilder,
    Programs,
)
from lightloom.packets.scenario import MAX_HOSTS, MAX_SIZE

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_OPERATION = re.compile(
    r"(?:(?P<label>[A-Za-z]\w*)\s*:\s*)?(?:(?P<kind>send|recv)\s+(?P<bytes>\d{1,18})b\s+"
    r"(?P<way>to|from)\s+(?P<peer>-1|\d{1,9})|calc\s+(?P<span>\d{1,18}))"
    r"(?P<rest>(?:\s+(?:tag|cpu|nic)\s+\d{1,18})*)",
    re.ASCII,
)
_WAIT = re.compile(r"([A-Za-z]\w*)\s+(i?requires)\s+([A-Za-z]\w*)", re.ASCII)
_RANKS = re.compile(r"num_ranks\s+(\d{1,9})", re.ASCII)
_RANK = re.compile(r"rank\s+(\d{1,9})\s*(\{?)", re.ASCII)
_EXPECTED = (
    "expected 'send 8b to 1 tag 0', 'recv 8b from 1 tag 0' or 'calc 100', with 'label:' before it, "
    "or 'a requires b'"
)


def read_goal(path: Path | str) -> Flows:
    """Read programs in GOAL; ``-`` is standard input.

    Returns
    -------
    Flows
        A flow per ``send``, with programs that say when each begins.

    Raises
    ------
    InputError
        If it cannot be read, is too large or no such text; if sends and receives do not fit one
        another, or operations wait for each other.
    """
    path = path_of(path, "programs", "the path of a file in GOAL")
    return parse_goal(*read_input(path, "file in GOAL", MAX_FILE_BYTES))


def read_programs(path: Path | str) -> Flows:
    """Read programs in GOAL or as a table of operations; ``-`` is standard input.

    Raises
    ------
    InputError
        As :func:`read_goal`.
    """
    path = path_of(path, "programs", "the path of a file in GOAL, or of a table of operations")
    content, name = read_input(path, "file of programs", MAX_FILE_BYTES)
    return parse_operations(content, name) if is_operations(content) else parse_goal(content, name)


def parse_goal(content: bytes, name: str) -> Flows:
    """Parse programs in GOAL; ``name`` and the line begin messages.

    Raises
    ------
    InputError
        As :func:`read_goal`.
    """
    text = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), decode(content, name))
    reader = _Reader(name)
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if stripped:
            reader.line(number, stripped)
    return reader.finish()


@dataclass
class _Message:
    """One end of a message, a flow once both are known."""

    operation: int
    size_bytes: int
    line: int
    nic: int


@dataclass
class _Reader:
    """What has been read so far."""

    name: str
    ranks: int = 0
    rank: int = -1
    opens: bool = False
    builder: OperationBuilder = field(default_factory=OperationBuilder)
    #: of the rank that is being read: operations and lines of waits by label
    labels: dict[str, int] = field(default_factory=dict)
    waits: list[tuple[int, str, Milestone, str]] = field(default_factory=list)
    seen: set[int] = field(default_factory=set)
    units: dict[tuple[int, int], int] = field(default_factory=dict)
    #: by source, destination and tag
    sends: dict[tuple[int, int, int], deque[_Message]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    receives: dict[tuple[int, int, int], deque[_Message]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    #: source, destination, bytes and line of each flow
    flows: list[tuple[int, int, int, int]] = field(default_factory=list)
    #: NICs at the ends of each flow
    nics: list[tuple[int, int]] = field(default_factory=list)

    def refuse(self, line: int, text: str) -> InputError:
        return InputError(f"{self.name}, line {line}: {text}")

    def line(self, number: int, text: str) -> None:
        if not self.ranks:
            match = _RANKS.fullmatch(text)
            if match is None or not 1 <= int(match[1]) <= MAX_HOSTS:
                raise self.refuse(
                    number, f"{echo(text)}: expected 'num_ranks N' first, N from 1 to {MAX_HOSTS:,}"
                )
            self.ranks = int(match[1])
        elif self.rank < 0 or self.opens:
            self._open(number, text)
        elif text == "}":
            self._close()
        elif (match := _WAIT.fullmatch(text)) is not None:
            begins = match[2] == "irequires"
            milestone = Milestone.BEGUN if begins else Milestone.ENDED
            self.waits.append((number, match[1], milestone, match[3]))
        elif (match := _OPERATION.fullmatch(text)) is not None:
            self._operation(number, match)
        else:
            raise self.refuse(number, f"{echo(text)}: {_EXPECTED}")

    def _open(self, number: int, text: str) -> None:
        """A rank begins."""
        if self.opens and text == "{":
            self.opens = False
            return
        match = None if self.opens else _RANK.fullmatch(text)
        if match is None:
            expected = "'{'" if self.opens else "'rank N {'"
            raise self.refuse(number, f"{echo(text)}: expected {expected}")
        rank = int(match[1])
        if rank >= self.ranks or rank in self.seen:
            what = "is there twice" if rank in self.seen else f"of {self.ranks:,} ranks, from 0 on"
            raise self.refuse(number, f"rank {rank} {what}")
        self.rank, self.opens = rank, not match[2]
        self.seen.add(rank)

    def _close(self) -> None:
        """A rank ends: its operations are known by label."""
        for number, waiting, milestone, other in self.waits:
            missing = next((label for label in (waiting, other) if label not in self.labels), None)
            if missing is not None:
                raise self.refuse(number, f"rank {self.rank} has no operation {echo(missing)}")
            operation, awaited = self.labels[waiting], self.labels[other]
            self.builder.wait(operation, awaited, milestone)
        self.rank = -1
        self.labels.clear()
        self.waits.clear()

    def _operation(self, number: int, match: re.Match[str]) -> None:
        if len(self.builder) >= MAX_OPERATIONS:
            raise self.refuse(number, f"more than {MAX_OPERATIONS:,} operations")
        label = match["label"] or f"line {number}"
        if label in self.labels:
            raise self.refuse(number, f"rank {self.rank} has two operations {echo(label)}")
        words = match["rest"].split()
        options = dict(zip(words[::2], map(int, words[1::2]), strict=True))
        if len(words) > 2 * len(options):
            raise self.refuse(number, f"{echo(match[0])}: {_EXPECTED}")
        if options.get("nic", 0) > (0 if match["kind"] is None else MAX_NIC):
            raise self.refuse(
                number,
                f"nic {options['nic']}: expected 0 to {MAX_NIC:,} of a message, and none of calc",
            )
        if match["kind"] is None:
            self.labels[label] = self._compute(number, label, int(match["span"]), options)
        else:
            self.labels[label] = self._message(number, label, match, options)

    def _compute(self, number: int, label: str, span_ns: int, options: dict[str, int]) -> int:
        if span_ns > MAX_SPAN_S * 1e9 or "tag" in options:
            raise self.refuse(
                number,
                f"calc {span_ns}: expected at most {MAX_SPAN_S * 1e9:.0f} ns, and no tag",
            )
        unit = self.units.setdefault((self.rank, options.get("cpu", 0)), len(self.units))
        return self.builder.add("compute", self.rank, label, span_ps=1000 * span_ns, unit=unit)

    def _message(
        self, number: int, label: str, match: re.Match[str], options: dict[str, int]
    ) -> int:
        sends, peer = match["kind"] == "send", int(match["peer"])
        if (match["way"] == "to") != sends:
            raise self.refuse(number, f"{echo(match[0])}: expected 'send ... to', 'recv ... from'")
        if peer == -1:
            raise self.refuse(number, "from -1, any rank: expected the number of a rank")
        if peer >= self.ranks or peer == self.rank:
            raise self.refuse(number, f"rank {peer}: expected another of {self.ranks:,} ranks")
        size = int(match["bytes"])
        if size > MAX_SIZE:
            raise self.refuse(number, f"{size:,} bytes: expected at most {MAX_SIZE:,}")
        operation = self.builder.add("send" if sends else "receive", self.rank, label)
        ends = (self.rank, peer) if sends else (peer, self.rank)
        ours, theirs = (self.sends, self.receives) if sends else (self.receives, self.sends)
        key, message = (
            (*ends, options.get("tag", 0)),
            _Message(operation, size, number, options.get("nic", 0)),
        )
        if theirs[key]:
            other = theirs[key].popleft()
            pair = (message, other) if sends else (other, message)
            self._join(ends, *pair)
        else:
            ours[key].append(message)
        return operation

    def _join(self, ends: tuple[int, int], send: _Message, receive: _Message) -> None:
        if receive.size_bytes < send.size_bytes:
            raise self.refuse(
                receive.line,
                f"receives {receive.size_bytes:,} bytes of the {send.size_bytes:,} that line "
                f"{send.line} sends",
            )
        if len(self.flows) >= MAX_FLOWS:
            raise self.refuse(send.line, f"more than {MAX_FLOWS:,} messages")
        for operation in (send.operation, receive.operation):
            self.builder.set_flow(operation, len(self.flows))
        self.flows.append((*ends, send.size_bytes, send.line))
        self.nics.append((send.nic, receive.nic))
        self.builder.wait(receive.operation, send.operation, Milestone.RECEIVED)

    def finish(self) -> Flows:
        """The flows, once everything fits."""
        if not self.ranks:
            raise InputError(f"{self.name}: the file is empty; expected 'num_ranks N' and programs")
        if self.rank >= 0:
            raise InputError(f"{self.name}: rank {self.rank} has no end; expected '}}'")
        for ends, what in ((self.sends, "receives"), (self.receives, "sends")):
            for (source, destination, tag), left in ends.items():
                if left:
                    who = destination if what == "receives" else source
                    raise self.refuse(
                        left[0].line,
                        f"rank {who} never {what} this message from {source} to {destination} "
                        f"with tag {tag}",
                    )
        if not self.flows:
            raise InputError(f"{self.name}: there is no send; expected at least one")
        _split_receives(self.builder)
        programs = self.builder.build()
        programs.check(self.name)
        columns = np.array(self.flows, dtype=np.int64).T
        nics = np.array(self.nics, dtype=np.int64).T
        return Flows(
            source=columns[0],
            destination=columns[1],
            size_bytes=columns[2],
            start_s=np.zeros(len(self.flows)),
            name=self.name,
            lines=columns[3],
            programs=programs,
            nics=(nics[0], nics[1]) if nics.any() else None,
        )


def _split_receives(builder: OperationBuilder) -> None:
    """Part the begin of a receive from its end, where others wait for its begin."""
    posted: dict[int, int] = {}
    for operation in range(len(builder)):
        for place, (other, milestone) in enumerate(builder.waits_of(operation)):
            if milestone is Milestone.BEGUN and builder.kind(other) == "receive":
                if other not in posted:
                    posted[other] = builder.add("", *builder.name(other))
                builder.waits_of(operation)[place] = (posted[other], Milestone.ENDED)
    for receive, begin in posted.items():
        waits = builder.waits_of(receive)
        builder.waits_of(begin)[:] = [wait for wait in waits if wait[1] is not Milestone.RECEIVED]
        waits[:] = [wait for wait in waits if wait[1] is Milestone.RECEIVED]
        builder.wait(receive, begin)


def goal_text(flows: Flows, ranks: int) -> str:
    """Programs in GOAL, as :func:`read_goal` reads them; the tag of a message is its flow.

    Raises
    ------
    InputError
        If flows have no programs of ranks, or programs in which nobody receives what is sent.
    """
    programs = flows.programs
    if programs is None:
        raise InputError(f"{flows.name}: has no programs; expected flows of read_goal")
    if programs.kind.count("receive") != programs.kind.count("send"):
        raise InputError(
            f"{flows.name}: operations that wait across ranks are none of GOAL; expected flows of "
            "read_goal, or the step.goal of a recording"
        )
    blocks: list[list[str]] = [[] for _ in range(ranks)]
    for operation, rank in enumerate(programs.rank.tolist()):
        # what joins others takes no time on a processor that nothing else uses
        cpu = int(programs.unit[operation]) + 1
        text = _operation_text(flows, programs, operation, cpu)
        blocks[rank].append(f"l{operation}: {text}")
    for operation, rank in enumerate(programs.rank.tolist()):
        first, last = programs.wait_starts[operation : operation + 2].tolist()
        for place in range(first, last):
            other, milestone = int(programs.waits[place]), int(programs.milestones[place])
            # a receive waits for its message in any case
            if milestone != Milestone.RECEIVED:
                word = "irequires" if milestone == Milestone.BEGUN else "requires"
                blocks[rank].append(f"l{operation} {word} l{other}")
    parts = [f"rank {rank} {{\n" + "\n".join(lines) + "\n}" for rank, lines in enumerate(blocks)]
    return f"num_ranks {ranks}\n\n" + "\n\n".join(parts) + "\n"


def _operation_text(flows: Flows, programs: Programs, operation: int, cpu: int) -> str:
    flow, kind = int(programs.flow[operation]), programs.kind[operation]
    if flow < 0:
        return f"calc {-(-int(programs.span_ps[operation]) // 1000)} cpu {cpu}"
    size, end = goal_bytes(int(flows.size_bytes[flow])), 0 if kind == "send" else 1
    nic = "" if flows.nics is None else f" nic {flows.nics[end][flow]}"
    if kind == "send":
        return f"send {size}b to {flows.destination[flow]} tag {flow}{nic}"
    return f"recv {size}b from {flows.source[flow]} tag {flow}{nic}"


def goal_bytes(size: int) -> int:
    """Bytes that a message has in GOAL: at least one, as LogGOPSim takes none for endless."""
    return max(1, size)
