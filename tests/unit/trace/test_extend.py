"""Steps of more micro-batches than were recorded: the same as if all had been recorded."""

import dataclasses

import pytest
from tests.trace_jobs import PLAIN

from lightloom.errors import InputError
from lightloom.trace.computes import Compute, Operator, RouterChoice, StreamPlace, StreamWait
from lightloom.trace.extend import check_same, extend, micro_batch_programs
from lightloom.trace.trace import RankTrace, make_trace

STAGES, LAYERS = 4, 2


class Recorded:
    """A rank's recording as it is written: two steps, the first of one micro-batch or group."""

    def __init__(self, experts=True):
        self.calls, self.computes, self.waits, self.choices = [], [], [], []
        self.experts, self.step = experts, 0
        self.made = 0

    def call(self, op, **changes):
        sent = dataclasses.replace(PLAIN, op=op, call_id=len(self.calls), step=self.step, **changes)
        self.calls.append(sent)
        return sent.call_id

    def compute(self, phase, size, stream=0):
        product = Operator("matmul", "bfloat16", 1, 1, size, size)
        self.computes.append(Compute(len(self.calls), stream, phase, "", self.step, (product,)))

    def place(self, stream=0):
        return StreamPlace(stream, len(self.calls), len(self.computes))

    def waited(self, call):
        """The program waits for a call from here on."""
        self.calls[call] = dataclasses.replace(
            self.calls[call], waited_before=len(self.calls), waited_at=self.place()
        )

    def routed(self, phase, number):
        """An all-to-all whose rows stem from a choice; of another size each time."""
        rows = (number + 1, 2 * number + 1)
        self.call(
            "all_to_all", group="ep", phase=phase, routed=number, input_splits=rows,
            output_splits=rows, shape=(sum(rows),), input_bytes=2 * sum(rows),
        )  # fmt: skip

    def forward(self, chunk=0):
        """Layers of a micro-batch; returns the choice of its experts."""
        number = None
        for _ in range(LAYERS):
            self.compute("forward", 1000 + chunk)
            self.call("all_gather", phase="forward")
        if self.experts:
            number, self.made = self.made, self.made + 3
            self.choices.append(RouterChoice(number, 16, 4, 2))
            self.routed("forward", number)
            self.compute("forward", 7 * number + 1)
        return number

    def backward(self, number, chunk=0):
        self.compute("backward", 2000 + chunk)
        if number is not None:
            self.routed("backward", number)
        self.compute("backward", 2001, stream=5)
        until = self.place(5)
        self.compute("backward", 2002)
        self.waits.append(StreamWait(self.place(), until))

    def pipeline(self, stage, micro_batches):
        """1F1B: warm up, one forward and one backward in turn, cool down."""
        first, last = stage == 0, stage == STAGES - 1
        warm = min(STAGES - stage - 1, micro_batches)
        pending = []
        sent = None

        def receive(phase, there):
            if there:
                self.waited(self.call("receive", group="pp", phase=phase, peer=1))

        for _ in range(warm):
            receive("forward", not first)
            pending.append(self.forward())
            if not last:
                self.call("send", group="pp", phase="forward", peer=2)
        for number in range(micro_batches - warm):
            receive("forward", not first)
            pending.append(self.forward())
            if sent is not None:
                self.waited(sent)  # of the period before
            if not last:
                sent = self.call("send", group="pp", phase="forward", peer=2)
            receive("backward", not last)
            self.backward(pending.pop(0))
            if number < micro_batches - warm - 1:
                self.call("send", group="pp", phase="backward", peer=3, asynchronous=True)
        while pending:
            receive("backward", not last)
            self.backward(pending.pop(0))
        if sent is not None:
            self.waited(sent)

    def interleaved(self, stage, micro_batches, chunks=2):
        """Chunks of a rank in turn, for as many micro-batches as there are stages."""
        virtual = micro_batches * chunks
        warm = min(virtual, 2 * (STAGES - stage - 1) + (chunks - 1) * STAGES)
        pending = {chunk: [] for chunk in range(chunks)}

        def chunk_of(place, backward):
            chunk = place % (STAGES * chunks) // STAGES
            return chunks - 1 - chunk if backward else chunk

        for place in range(warm):
            chunk = chunk_of(place, False)
            self.call("receive", group="pp", phase="forward", peer=1)
            pending[chunk].append(self.forward(chunk))
        for place in range(virtual - warm):
            chunk = chunk_of(place + warm, False)
            pending[chunk].append(self.forward(chunk))
            self.call("send", group="pp", phase="forward", peer=2)
            chunk = chunk_of(place, True)
            self.backward(pending[chunk].pop(0), chunk)
        for place in range(virtual - warm, virtual):
            chunk = chunk_of(place, True)
            self.backward(pending[chunk].pop(0), chunk)


def recorded(stage, micro_batches, schedule="pipeline", experts=True):
    """Parameters are gathered, waited for in the step; gradients are reduced, and not all waited
    for before the next step.
    """
    job = Recorded(experts)
    gathered = job.call("all_gather", group="dp", phase="setup")
    late = None
    for job.step, number in enumerate((STAGES, micro_batches)):
        if late is not None:
            job.waited(late)
        getattr(job, schedule)(stage, number)
        if job.step == 0:
            job.waited(gathered)
        late = job.call("reduce_scatter", group="dp", phase="backward", asynchronous=True)
        job.compute("optimizer", 4000)
        job.call("all_reduce", group="world", phase="optimizer")
    invented = {"topk.default": job.made}
    return RankTrace(
        stage, tuple(job.calls), 2, invented, (), {"all_reduce at a.py:3": 3 * job.made},
        tuple(job.computes), tuple(job.waits), tuple(job.choices),
    )  # fmt: skip


def traces(counts, **how):
    return [
        make_trace(
            STAGES, ["train.py", str(number)], [recorded(s, number, **how) for s in range(STAGES)]
        )
        for number in counts
    ]


def without_sizes(rank):
    """A recording without what depends on data: the same in all micro-batches, or in none."""
    calls = [
        dataclasses.replace(call, shape=(), input_bytes=0, input_splits=(), output_splits=())
        if call.routed is not None
        else call
        for call in rank.calls
    ]
    computes = [dataclasses.replace(compute, operators=()) for compute in rank.computes]
    return dataclasses.replace(rank, calls=tuple(calls), computes=tuple(computes))


@pytest.mark.parametrize(
    "counts", [(6, 7, 7), (6, 7, 8), (6, 7, 19), (8, 11, 11), (8, 11, 20)], ids=str
)
def test_a_dense_pipeline_is_what_it_would_be_in_full(counts):
    few = traces(counts[:2], experts=False)
    (whole,) = traces(counts[2:], experts=False)
    extended = extend(few, counts)
    assert extended == whole
    assert extended.program == ("train.py", str(counts[2]))


@pytest.mark.parametrize(("schedule", "counts"), [("pipeline", (6, 7)), ("interleaved", (16, 20))])
def test_experts_are_chosen_anew_in_each_period(schedule, counts):
    """All but sizes that depend on data, of which the period's are repeated."""
    full = counts[1] + 5 * (counts[1] - counts[0])
    few = traces(counts, schedule=schedule)
    (whole,) = traces([full], schedule=schedule)
    extended = extend(few, (*counts, full))
    for stage in range(STAGES):
        ours, theirs = extended.ranks[stage], whole.ranks[stage]
        assert without_sizes(ours) == without_sizes(theirs)
        check_same(ours, theirs, full)


def test_an_interleaved_pipeline_is_what_it_would_be_in_full():
    few = traces((12, 16), schedule="interleaved", experts=False)
    (whole,) = traces([28], schedule="interleaved", experts=False)
    assert extend(few, (12, 16, 28)) == whole


def test_a_further_recording_is_held_against_the_extension():
    counts = (6, 7, 9)
    assert extend(traces(counts), (*counts, 11)).ranks[0].calls[-1].op == "all_reduce"
    few = traces(counts)
    calls = list(few[2].ranks[1].calls)
    calls[40] = dataclasses.replace(calls[40], dtype="float32")
    few[2].ranks[1] = dataclasses.replace(few[2].ranks[1], calls=tuple(calls))
    with pytest.raises(InputError, match=r"^rank 1: with 9 micro-batches item \d+ .* call 40, "):
        extend(few, (*counts, 11))


def test_a_further_recording_that_is_longer():
    few = traces((6, 7, 8))
    few[2] = traces([9])[0]
    with pytest.raises(InputError, match=r"^rank 0: with 8 micro-batches"):
        extend(few, (6, 7, 8, 11))


@pytest.mark.parametrize("counts", [(2, 3), (4, 5)])
def test_without_a_steady_state_there_is_no_period(counts):
    """Stage 0 only warms up and cools down: a micro-batch more is not a period more."""
    with pytest.raises(InputError, match=r"^rank 0: . and . micro-batches do not differ by"):
        extend(traces(counts), (*counts, 20))


def test_as_many_micro_batches_as_stages_only_warm_up():
    few = traces((4, 8), schedule="interleaved", experts=False)
    with pytest.raises(InputError, match="multiples of its stages"):
        extend(few, (4, 8, 28))


def test_a_program_that_does_not_heed_the_number():
    with pytest.raises(InputError, match="make the same calls; does the program heed"):
        extend(traces((6, 6)), (6, 7, 20))


def test_a_wait_that_moves_from_period_to_period():
    """What is waited for once all periods are over, but not in each of them alike."""
    few = traces((6, 7))
    rank = few[1].ranks[2]
    calls = list(rank.calls)
    number = max(i for i, call in enumerate(calls) if call.op == "receive")
    calls[number] = dataclasses.replace(calls[number], waited_before=len(calls))
    few[1].ranks[2] = dataclasses.replace(rank, calls=tuple(calls))
    with pytest.raises(InputError, match=r"rank 2: what waits for call \d+, receive of pp, or"):
        extend(few, (6, 7, 20))


def test_numbers_are_put_into_the_program():
    program = ["python", "train.py", "--batches={micro_batches}", "{micro_batches}"]
    assert micro_batch_programs(program, [9, 10, 64])[1] == (
        "python", "train.py", "--batches=10", "10",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([9, 64], "expected two or more numbers to record, and the number of the job, rising"),
        ([9, 9, 64], "rising, such as 9,10,64"),
        ([10, 9, 64], "rising"),
        ([8, 16, 60], "60 is not 8 and a multiple of the 8 that 16 adds"),
        ([8, 16, 20, 64], "20 is not 8 and a multiple"),
    ],
)
def test_numbers_that_lead_nowhere(numbers, message):
    with pytest.raises(InputError, match=message):
        micro_batch_programs(["python", "{micro_batches}"], numbers)


def test_a_program_without_a_place_for_the_number():
    with pytest.raises(InputError, match=r"write \{micro_batches\} where the program takes"):
        micro_batch_programs(["python", "train.py", "9"], [9, 10, 64])
