"""A change leads where it should and touches nothing else; no bytes crash a reader."""

import asyncio
import contextlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.control_regions import port_map_of

from lightloom.control.change import ConflictMode, check_owned, plan_commands
from lightloom.control.circuit_file import parse_circuits
from lightloom.control.port_map import NicPair, ObservedCircuits
from lightloom.control.port_map_files import parse_csv_map, parse_toml_map
from lightloom.control.refusals import ConflictError, PortMapError, RequestError
from lightloom.control.switch import CrossConnect, SwitchChange
from lightloom.control.wire import encode, read_frame
from lightloom.errors import InputError
from lightloom.schedule import SwitchTiming, plan_change

SERVERS, NICS, SIZE = 4, 2, 10
PORTS = port_map_of(SERVERS, NICS, SIZE)
MODES = st.sampled_from(ConflictMode)


@st.composite
def matchings(draw):
    nics = draw(st.permutations([(s, n) for s in range(SERVERS) for n in range(NICS)]))
    count = draw(st.integers(0, len(nics) // 2))
    ends = [sorted(nics[2 * i : 2 * i + 2]) for i in range(count)]
    return frozenset(NicPair(*a, *b) for a, b in ends if a[0] != b[0])


@st.composite
def cross_connects(draw):
    """What a switch may hold: each port in one cross-connect at most, ours or not."""
    ingress = draw(st.permutations(range(1, SIZE + 1)))
    egress = draw(st.permutations(range(SIZE + 1, 2 * SIZE + 1)))
    count = draw(st.integers(0, SIZE))
    pairs = zip(ingress[:count], egress[:count], strict=True)
    return frozenset(CrossConnect(str(a), str(b)) for a, b in pairs)


def after(present, commands):
    """What a switch holds after a change that succeeds."""
    found = set(present)
    for command in commands.values():
        found -= set(command.deletes)
        assert not found & set(command.creates)
        used = {port for one in found for port in (one.ingress, one.egress)}
        for one in command.creates:
            assert not used & {one.ingress, one.egress}, "made where there is one"
            found.add(one)
    return found


@pytest.mark.parametrize("ports", [("1", "20"), ("10", "11")])
@pytest.mark.parametrize("kind", ["deletes", "creates"])
def test_a_command_on_a_port_of_others_is_stopped(ports, kind):
    assert not set(ports) <= PORTS.owned("ocs")
    command = SwitchChange(**{kind: (CrossConnect(*ports),)})
    with pytest.raises(AssertionError):
        check_owned(PORTS, {"ocs": command})


@given(cross_connects(), matchings(), matchings(), MODES)
def test_a_change_leads_to_what_is_wanted_and_touches_nothing_else(present, managed, wanted, mode):
    observed = PORTS.observe({"ocs": present})
    try:
        change = plan_commands(PORTS, observed, managed, wanted, mode=mode)
    except ConflictError:
        return
    check_owned(PORTS, change.commands)
    found = after(present, change.commands)
    now = PORTS.observe({"ocs": found})
    assert now.circuits >= wanted
    assert now.crossing == observed.crossing
    owned = PORTS.owned("ocs")
    outside = {one for one in present if not {one.ingress, one.egress} & owned}
    assert outside <= found
    stayed = observed.circuits & wanted
    touched = {one for c in change.commands.values() for one in (*c.deletes, *c.creates)}
    for circuit in stayed:
        assert not touched & {one.cross_connect for one in PORTS.cross_connects(circuit)}
    if mode is ConflictMode.SAFE:
        assert not change.replaced
        ours = {one for c in managed | wanted for one in PORTS.cross_connects(c)}
        for command in change.commands.values():
            assert set(command.deletes) <= {one.cross_connect for one in ours}
    again = plan_commands(PORTS, now, managed | wanted, wanted, mode=mode)
    assert again.is_empty


@given(matchings(), matchings())
def test_every_circuit_of_a_change_is_named_once(before, wanted):
    none = frozenset()
    change = plan_commands(PORTS, ObservedCircuits(before, none, none), before, wanted)
    moved_from = {moved.before for moved in change.moved}
    moved_to = {moved.after for moved in change.moved}
    assert before == {*change.deletes, *change.unchanged} | moved_from
    assert wanted == {*change.creates, *change.unchanged} | moved_to
    assert all(moved.before.servers == moved.after.servers for moved in change.moved)
    assert change.pairs == max(len(before - wanted), len(wanted - before))


@given(matchings(), matchings())
def test_a_change_of_pairs_on_the_eps_is_the_one_batch_of_the_planner(before, wanted):
    none = frozenset()
    timing = SwitchTiming(0.01, 0.001, 0.002, 0.003)
    observed = ObservedCircuits(before, none, none)
    change = plan_commands(PORTS, observed, before, wanted, timing=timing)
    rows = [np.array(sorted(one), dtype=np.uint32).reshape(-1, 4) for one in (before, wanted)]
    ordered = plan_change(
        *rows, timing=SwitchTiming(0.01, 0.001, 0.002, 0.003), eps_servers=range(SERVERS)
    )
    assert len(ordered.batches) == (before != wanted)
    assert ordered.expected_s == change.expected_s
    for batch in ordered.batches:
        for rows, kind in ((batch.delete, "deletes"), (batch.create, "creates")):
            circuits = [NicPair(*row) for row in rows.tolist()]
            connects = {one.cross_connect for c in circuits for one in PORTS.cross_connects(c)}
            assert connects == set(getattr(change.commands["ocs"], kind))


async def read(data):
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame(reader, 4096, 4096, 1.0)


@given(st.binary(max_size=200))
@example(b"\x00\x00\x00\x02\x00\x00\x00\x00{}")
@example(b"\x00\x00\x00\x04\x00\x00\x00\x00[[[[")
def test_no_bytes_crash_the_reader_of_frames(data):
    with contextlib.suppress(RequestError):
        frame = asyncio.run(read(data))
        assert frame is None or isinstance(frame.header, dict)


TEXTS = st.dictionaries(st.text(max_size=8), st.one_of(st.integers(), st.text(max_size=8)))


@given(TEXTS, st.binary(max_size=100))
def test_frames_survive_the_wire(header, body):
    frame = asyncio.run(read(encode(header, body)))
    assert (frame.header, frame.body) == (header, body)


@given(st.binary(max_size=300))
@example(b"server,nic,port\na,0,1\n")
@example(b"side_a_device,side_a_name,side_b_device,side_b_name\na,b,ocs,1\n")
def test_no_bytes_crash_the_readers_of_port_maps(data):
    for parse in (parse_csv_map, parse_toml_map):
        try:
            parse(data, "m", ["ocs"])
        except PortMapError as refusal:
            assert "\n" not in str(refusal)  # noqa: PT017


@given(st.text(alphabet="0123/-# \n\tx", max_size=60))
def test_no_text_crashes_the_reader_of_circuits(text):
    with contextlib.suppress(InputError):
        found = parse_circuits(text, "c", PORTS)
        ends = [end for one in found for end in (one[:2], one[2:])]
        assert len(set(ends)) == len(ends)
