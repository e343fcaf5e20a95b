"""A trace has the calls of a real run, as PyTorch's process groups tell them, not the recorder."""

from pathlib import Path

import numpy as np
import pytest
from tests.real_calls import compared
from tests.torch_python import PYTHON, in_soak

from lightloom.trace.record import TracedJob, TraceError, record, record_roles

HERE = Path(__file__).parent

#: ranks and the program (messages from any of several ranks have no order)
PROGRAMS = [
    (2, "schedules 1F1B"),
    *(
        pytest.param(ranks, program, marks=in_soak)
        for ranks, program in [
            (2, "messages"), (4, "tensor_parallel"), (8, "tensor_parallel"),
            (4, "tensor_parallel fsdp2"), (4, "small_gpt"), (4, "context_parallel allgather"),
            (4, "context_parallel alltoall"), (8, "meshes"), (4, "uneven"),
            (4, "sharded ddp-powersgd"), (4, "sharded ddp-own-hook"),
            (4, "schedules GPipe"), (4, "schedules 1F1B"), (4, "schedules Interleaved1F1B"),
            (2, "schedules InterleavedZeroBubble"), (4, "routers hash"), (4, "sharded ddp"),
            (4, "sharded ddp-compressed"), (4, "sharded fsdp"), (4, "sharded fsdp2"),
            (4, "sharded hsdp"), (4, "sharded zero-1"), (4, "fully_sharded"), (4, "pipeline"),
        ]
    ),
]  # fmt: skip
pytestmark = pytest.mark.usefixtures("pytorch")


def command(program):
    name, *arguments = program.split()
    return [str(HERE / f"programs/{name}.py"), *arguments]


@pytest.mark.parametrize(("ranks", "program"), PROGRAMS)
def test_a_trace_has_the_calls_of_a_real_run(tmp_path, ranks, program):
    trace, pairs = compared(tmp_path, command(program), ranks)
    assert not any(recorded.assumed for recorded in trace.ranks.values())
    for of_rank in pairs:
        assert [mine for mine, _ in of_rank] == [real for _, real in of_rank]


@in_soak
@pytest.mark.parametrize("kind", ["topk", "max", "argmax", "sort", "argsort", "multinomial"])
def test_a_router_sends_all_rows_as_in_a_real_run(tmp_path, kind):
    """Which expert a token visits depends on data: rows are conserved, all else is equal."""
    trace, pairs = compared(tmp_path, command(f"routers {kind}"), 4)
    assert not any(recorded.assumed for recorded in trace.ranks.values())
    rows = [[], []]  # of each rank, in a trace and in a real run
    for of_rank in pairs:
        moved = [pair for pair in of_rank if pair[0][::5] == ("all_to_all", "float32")]
        assert [pair[0] for pair in of_rank if pair not in moved] == [
            pair[1] for pair in of_rank if pair not in moved
        ]
        assert len(moved) == 4
        for number, (mine, real) in enumerate(moved):
            assert mine[:3] == real[:3]
            is_back = number % 2  # from experts
            assert mine[3 + is_back] == real[3 + is_back]
        for way, of_way in enumerate(rows):
            of_way.append([pair[way][3:5] for pair in moved])
    for of_way in rows:
        sent, got = np.array(of_way).sum(axis=0).T
        assert sent.tolist() == got.tolist()


START = "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\n"
STEP = """
weight = torch.nn.Parameter(torch.ones(3))
optimizer = torch.optim.SGD([weight], lr=0.1)
torch.nn.Linear(3, 3)(weight).sum().backward()
optimizer.step()
"""


def recorded(tmp_path, text, world_size, ranks):
    script = tmp_path / "script.py"
    script.write_text(START + text + STEP)
    return record([PYTHON, str(script)], TracedJob(world_size, device="cpu"), ranks)


def test_ranks_that_wait_for_each_other_are_told(tmp_path):
    text = """
number = torch.zeros(1, dtype=torch.int64)
dist.recv(number, 1 - dist.get_rank())
dist.send(number, 1 - dist.get_rank())
"""
    with pytest.raises(TraceError, match=r"waits for rank 1, which waits, too"):
        recorded(tmp_path, text, 2, [0, 1])


def test_a_rank_that_waits_for_one_that_ends_is_told(tmp_path):
    text = "if dist.get_rank(): dist.broadcast(torch.zeros(1, dtype=torch.int64), 0)"
    with pytest.raises(TraceError, match=r"rank 1: .* waits for rank 0, which ends without broad"):
        recorded(tmp_path, text, 2, [0, 1])


def test_a_rank_that_steers_the_recorded_one_is_run_too(tmp_path):
    text = """
rank = dist.get_rank()
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
count = torch.tensor([rank + 3])
dist.broadcast(count, rank // 2 * 2, group=pairs[rank // 2])
dist.all_gather([torch.empty(int(count)) for _ in range(2)], torch.ones(int(count)),
                group=pairs[rank // 2])
"""
    trace = recorded(tmp_path, text, 4, [3])
    assert list(trace.ranks) == [3]
    assert [call.input_bytes for call in trace.ranks[3].calls] == [8, 4 * (2 + 3)]


def test_what_nobody_recorded_is_assumed_and_said(tmp_path):
    text = "dist.all_reduce(torch.tensor([dist.get_rank(), 1]))"
    (assumed,) = recorded(tmp_path, text, 2, [0]).ranks[0].assumed.items()
    assert assumed[0].endswith("script.py:4 in <module>: other ranks hold what this one holds")
    assert assumed[1] == 1
    assert not recorded(tmp_path, text, 2, [0, 1]).ranks[0].assumed


def test_flags_of_unknown_data_are_an_assumption_once_they_are_read(tmp_path):
    text = """
flags = torch.randn(8) > 0
kept = torch.where(flags, 1.0, 0.0)
{}
dist.all_gather([torch.empty(3) for _ in range(2)], torch.ones(3))
"""
    unread = recorded(tmp_path, text.format("numbers = flags.int() + 1"), 2, [0])
    assert not unread.ranks[0].assumed
    for read in ("int((flags.int() + 1).sum())", "(flags.int() + 1).tolist()", "flags.nonzero()"):
        assumed = recorded(tmp_path, text.format(read), 2, [0]).ranks[0].assumed
        (sentence,) = assumed
        assert "gt at" in sentence
        assert "script.py:5" in sentence
        assert "read at" in sentence
        assert "script.py:7" in sentence


INVENTED = """
flags = torch.randn(8) > 0
known = torch.arange(8)
{}
dist.all_gather([torch.empty(3) for _ in range(2)], torch.ones(3))
"""


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("known[flags]", True),
        ("torch.bincount(flags.long())", True),
        ("assert not torch.equal(known, flags.long())", True),
        ("known[0] = flags.sum(); known.tolist()", True),
        ("known[0] = flags.sum(); known.zero_(); known.tolist()", False),
        ("known[flags] = 3", False),
    ],
)
def test_what_depends_on_unknown_data_is_found_through_views_and_sizes(tmp_path, line, is_read):
    assert bool(recorded(tmp_path, INVENTED.format(line), 2, [0]).ranks[0].assumed) == is_read


STEERING = """
if loss > 3: pass
best = min(loss + 1, 7.0)
rows = int(100 * loss)
rows = round(loss)
if not loss: pass
if math.exp(loss) > 3: pass
rows = math.floor(math.sqrt(loss))
rows = int(numpy.log(loss))
if numpy.float64(3) < loss: pass
mean = numpy.mean([loss, 2.0])
numbers = numpy.exp([loss, 2.0])
rows = int(torch.tensor([loss, 1.0]).sum() * 8)
rows = int(3 * torch.ones(2)[0] * loss)
rows = torch.full((2,), loss).tolist(); rows[0] > 2
known = torch.ones(2); known[0] = loss; int(known.sum())
rows = torch.arange(loss)
rows = float(seen)
rows = int(seen)
rows = math.exp(seen)
if seen.tolist() > 3: pass
if many.tolist()[0] > 3: pass
array = many.numpy()
text = struct.pack("d", loss.as_integer_ratio()[0])
"""
HARMLESS = """
print(f'{loss / 2:.3f}', round(loss, 2), {'loss': loss}, '%.3f' % loss)
print(math.exp(loss), numpy.exp(loss) * 2, numpy.float64(2) * loss, json.dumps(loss), loss.real)
if loss != loss or loss == float('inf'): raise ValueError
if torch.isnan(seen) or torch.isinf(seen): raise ValueError
if not math.isfinite(loss) or numpy.isnan(loss) or not numpy.isfinite(loss): raise ValueError
dist.all_gather_object([None, None], {'loss': loss})
total = 0.0
total += loss
torch.tensor([total, 1.0]).mul_(2)
torch.ones(2).mul_(loss).add_(torch.ones(2), alpha=loss).clamp_(max=loss)
torch.randn(8).mul_(loss)
print(sum([loss, loss]) / 2, many.tolist())
"""
NUMBERS = """
import json, math, struct
import numpy
many = torch.randn(8)
seen = many.sum()
loss = seen.item()
"""


def test_a_number_of_unknown_data_is_an_assumption_where_it_steers(tmp_path):
    assumed = recorded(tmp_path, NUMBERS + STEERING, 2, [0, 1]).ranks[0].assumed
    lines = STEERING.strip().splitlines()
    first = 5 + len(NUMBERS.splitlines())
    for number, line in enumerate(lines, start=first):
        assert any(f"script.py:{number} in <module>" in text for text in assumed), line
    for sentence in assumed:
        assert "numbers that depend on data were invented" in sentence
    assert len(assumed) == len(lines)


def test_a_number_of_unknown_data_that_is_shown_or_sent_is_no_assumption(tmp_path):
    assert not recorded(tmp_path, NUMBERS + HARMLESS, 2, [0, 1]).ranks[0].assumed


def test_a_program_may_ask_whether_something_has_come(tmp_path):
    text = """
number, go = torch.zeros(1, dtype=torch.int64), torch.ones(1, dtype=torch.int64)
if dist.get_rank() == 0:
    work = dist.irecv(number, 1)
    assert not work.is_completed()
    dist.send(go, 1)
    while not work.is_completed():
        pass
    assert int(number) == 7
    work = dist.all_reduce(number, async_op=True)
    assert not work.is_completed()
    dist.send(go, 1)
    while not work.is_completed():
        pass
    assert int(number) == 14
else:
    dist.recv(go, 0)
    dist.send(number + 7, 0)
    dist.recv(go, 0)
    dist.all_reduce(number + 7)
"""
    assert recorded(tmp_path, text, 2, [0, 1])


def test_a_rank_that_asks_for_what_never_comes_is_told(tmp_path):
    text = """
if dist.get_rank() == 0:
    work = dist.irecv(torch.zeros(1, dtype=torch.int64), 1)
    while not work.is_completed():
        pass
"""
    with pytest.raises(TraceError, match=r"waits for rank 1, which ends without sending"):
        recorded(tmp_path, text, 2, [0, 1])


@in_soak
@pytest.mark.parametrize(
    "wait",
    [
        "while not work.is_completed(): pass",
        "while not store.check(['done']): pass",
        "while store.add('done', 0) < 1: time.sleep(0.01)",
        "while store.get('count') != b'2': pass",
    ],
)
def test_ranks_that_ask_for_ever_are_told(tmp_path, wait):
    text = f"""
import time
store = dist.distributed_c10d._get_default_store()
store.set("count", "1")
other = 1 - dist.get_rank()
number = torch.zeros(1, dtype=torch.int64)
if dist.get_rank():
    dist.recv(number, 0)
work = dist.irecv(number, other)
{wait}
dist.send(number, other)
"""
    with pytest.raises(TraceError, match=r"waits for rank [01], which waits, too, without"):
        recorded(tmp_path, text, 2, [0, 1])


def test_a_rank_that_asks_until_another_answers_goes_on(tmp_path):
    text = """
import time
number = torch.zeros(1, dtype=torch.int64)
if dist.get_rank():
    work = dist.irecv(number, 0)
    while not work.is_completed():
        pass
    assert int(number) == 7
else:
    time.sleep(0.5)
    dist.send(torch.tensor([7]), 1)
"""
    assert recorded(tmp_path, text, 2, [0, 1])


def test_a_thread_that_hears_a_rank_has_it_run_too(tmp_path):
    text = """
import threading
group = [dist.new_group([0, 1]), dist.new_group([2, 3])][dist.get_rank() // 2]
count = torch.tensor([dist.get_rank() + 3])
work = threading.Thread(target=lambda: dist.broadcast(count, dist.get_rank() // 2 * 2, group=group))
work.start()
work.join()
dist.all_reduce(torch.ones(int(count)))
"""
    assert recorded(tmp_path, text, 4, [3]).ranks[3].calls[-1].input_bytes == 4 * (2 + 3)


def test_outputs_that_come_together_are_there_whichever_is_read_first(tmp_path):
    text = """
import torch.distributed._functional_collectives as functional
rank = dist.get_rank()
first, second = functional.all_gather_into_tensor_coalesced(
    [torch.tensor([rank]), torch.tensor([rank + 5])], dist.group.WORLD)
assert second.tolist() == [5, 6]
assert first.tolist() == [0, 1]
"""
    assert recorded(tmp_path, text, 2, [0, 1])


def test_ranks_that_compute_beside_waiting_threads_do_not_hang(tmp_path):
    text = """
import threading, time
number = torch.zeros(1, dtype=torch.int64)
if dist.get_rank() == 0:
    work = threading.Thread(target=lambda: dist.recv(number, 1))
    work.start()
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        pass
    dist.send(number, 1)
    work.join()
else:
    dist.recv(number, 0)
    dist.send(number + 7, 0)
dist.all_reduce(torch.ones(3))
assert dist.get_rank() or int(number) == 7
"""
    assert recorded(tmp_path, text, 2, [0, 1])


def test_rows_of_a_rank_that_nobody_recorded_do_not_harm_those_of_others(tmp_path):
    text = """
rank = dist.get_rank()
sent = [[1, 1, 1], [4, 4, 4], [2, 2, 2]][rank]
rows = torch.full((sum(sent),), rank)
out = torch.full((7,), -1)
dist.all_to_all_single(out, rows, [1, 4, 2], sent)
assert out.tolist()[0] == 0 and out.tolist()[5:] == [2, 2] and -1 not in out.tolist(), out.tolist()
"""
    (assumed,) = recorded(tmp_path, text, 3, [0, 2]).ranks[0].assumed
    assert "all_to_all at" in assumed


def test_roles_read_what_earlier_ones_put_into_the_store(tmp_path):
    script = tmp_path / "script.py"
    text = """
store = dist.distributed_c10d._get_default_store()
if dist.get_rank() == 0:
    store.set("size", "3")
dist.all_reduce(torch.ones(int(store.get("size"))))
"""
    script.write_text(START + STEP + text + STEP)
    (trace,) = record_roles([[PYTHON, str(script)]], TracedJob(2, device="cpu"), [1])
    assert [trace.ranks[rank].calls[-1].input_bytes for rank in (0, 1)] == [12, 12]


def test_small_tensors_keep_what_the_program_wrote(tmp_path):
    text = """
shares = torch.tensor([1.0, 3.0]) / 2
counts = (shares * 2).long().tolist()
assert counts == [1, 3]
sums = torch.tensor([0.0, 0.0])
sums += shares
dist.all_reduce(sums)
assert sums.tolist() == [1.0, 3.0]
assert torch.randn(4, 4).cpu().numpy().shape == (4, 4)
"""
    assert recorded(tmp_path, text, 2, [0, 1])


def test_threads_and_the_store_of_the_job_are_followed(tmp_path):
    text = """
import threading
store = dist.distributed_c10d._get_default_store()
store.set(f"size of {dist.get_rank()}", str(dist.get_rank() + 2))
other = int(store.get(f"size of {1 - dist.get_rank()}"))
work = threading.Thread(target=lambda: dist.all_reduce(torch.ones(4)))
work.start()
work.join()
dist.scatter_object_list([None], ["a", "b"] if dist.get_rank() == 0 else None)
dist.all_gather([torch.empty(other) for _ in range(2)], torch.ones(other))
"""
    trace = recorded(tmp_path, text, 2, [0, 1])
    operations = [call.op for call in trace.ranks[0].calls]
    assert operations[0] == "all_reduce"
    assert operations[-1] == "all_gather"
    assert [trace.ranks[rank].calls[-1].input_bytes for rank in (0, 1)] == [12, 8]


def test_a_checkpoint_of_all_ranks_is_refused(tmp_path):
    text = "import torch.distributed.checkpoint as saved\nsaved.save({}, checkpoint_id='there')"
    with pytest.raises(TraceError, match=r"script.py:5 .* saves or loads a checkpoint"):
        recorded(tmp_path, text, 2, [0])


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_memory_that_ranks_share_is_refused(tmp_path, device):
    script = tmp_path / "script.py"
    text = (
        f"import torch.distributed._symmetric_memory as shared\nshared.empty(8, device='{device}')"
    )
    script.write_text(START + text + STEP)
    with pytest.raises(TraceError, match=r"script.py:5 .* uses symmetric memory: .* collectives"):
        record([PYTHON, str(script)], TracedJob(2, device=device), [0])
