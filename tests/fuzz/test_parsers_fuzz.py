"""No input makes a parser of switches or of the emulator crash, hang or grow without bound.

A few thousand inputs per parser, drawn by seed; a million under ``make soak``.
"""

import contextlib
import faulthandler
import json
import os
import random
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control_switches import emulate
from tests.fuzz.parser_inputs import inputs, pieces

from lightloom.control.drivers.options import parse_switch_url, settings_from
from lightloom.control.drivers.polatis_restconf import _port, _rows
from lightloom.control.drivers.sonic import parse_table, readback_of, rows_of
from lightloom.control.drivers.tl1 import (
    MAX_LINE_BYTES,
    MAX_MESSAGE_BYTES,
    MessageKind,
    Tl1Parser,
)
from lightloom.control.emulator.faults import Fault
from lightloom.control.emulator.polatis_model import PolatisModel
from lightloom.control.emulator.polatis_netconf import MAX_MESSAGE_BYTES as MAX_NETCONF
from lightloom.control.emulator.polatis_netconf import MessageReader
from lightloom.control.emulator.polatis_restconf import RequestRefusedError, _json_rows
from lightloom.control.emulator.sonic import SonicRefusedError, SonicTables
from lightloom.control.emulator.sonic_tree import PathStep, SonicPathError, SonicTree
from lightloom.control.emulator.tl1_commands import (
    MAX_COMMAND_BYTES,
    MAX_LIST,
    CommandDeniedError,
    CommandReader,
    Tl1Reply,
    parse_command,
    ports_from,
)
from lightloom.control.switch import SwitchProtocolError
from lightloom.errors import InputError

COUNT = 10_000 * int(os.environ.get("LIGHTLOOM_SOAK", "0")) or 3_000
#: a parser that takes longer for all its inputs hangs
LIMIT_S = 3600

REPLIES = [
    b'\r\n   OCS 26-11-20 20:33:34\r\nM  12 COMPLD\r\n   "1,9"\r\n   "2,10"\r\n;',
    b'\r\n   ( nil ) 26-11-20 20:33:34\r\nM  17 DENY\r\n   IDNV\r\n   /* Invalid; "port" */\r\n;',
    b'\r\n   lab ocs 26-11-20 20:33:34\r\nA  3 REPT EVT EQPT\r\n   "OXC:Port 1 disabled"\r\n;',
    b"IP 12\r\n<",
    b"\r\n> ",
]
REPLY_WORDS = [
    *(b"\r\n", b"\n", b";", b"<", b">", b'"', b"\\", b'\\"', b"/*", b"*/", b"M  1 ", b"COMPLD"),
    *(
        b"DENY",
        b"A  7 REPT ",
        b"*C",
        b"IP 1",
        b"26-11-20 20:33:34",
        b"( nil )",
        b" ",
        b"\0",
        b"\xff",
    ),
]
COMMANDS = [
    b"ENT-PATCH::1&2&3,9&10&11:123:;",
    b'RTRV-EQPT:"lab ocs":SYSTEM:7:::PARAMETER=SIZE,X="a;b";',
    b"\r\nact-user::admin:1::root;",
    b"DLT-PATCH::1&&48:c:;",
]
COMMAND_WORDS = [
    *(b":", b"::", b";", b",", b"&", b"&&", b'"', b"\\", b"=", b"1", b"99999999999999999999", b"-"),
    *(b"ENT-PATCH", b"RTRV-PATCH", b"ALL", b"\r\n", b" ", b"\xff", b"\0", b"1&&999999"),
]


@pytest.fixture(autouse=True)
def _no_hang():
    """End the process, with a trace of where it is, if a test hangs."""
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_replies_and_reports():
    """Any split gives the same messages, and what is kept stays within the bounds."""
    rng = random.Random(1)
    num_messages = 0
    for data in inputs(1, COUNT, REPLIES, REPLY_WORDS):
        outcomes = []
        for parts in ([data], pieces(rng, data)):
            parser, messages = Tl1Parser(), []
            try:
                for part in parts:
                    messages += parser.feed(part)
                    assert parser.buffered_bytes <= MAX_LINE_BYTES + MAX_MESSAGE_BYTES
                outcomes.append(messages)
            except SwitchProtocolError:
                outcomes.append(None)
        assert outcomes[0] == outcomes[1], data
        num_messages += len(outcomes[0] or ())
    assert num_messages > COUNT / 2, "too few inputs are messages"


def test_commands():
    rng = random.Random(2)
    num_commands = 0
    for data in inputs(2, COUNT, COMMANDS, COMMAND_WORDS):
        whole, split = CommandReader().feed(data), CommandReader()
        parts = [text for part in pieces(rng, data) for text in split.feed(part)]
        assert whole == parts, data
        for text in whole:
            num_commands += 1
            try:
                command = parse_command(text)
                _ = command.values
                assert len(ports_from(command.aid)) <= 2 * MAX_LIST
            except CommandDeniedError as error:
                Tl1Reply("DENY", error=error.code, comment=error.text).render("1", "", "")
    assert num_commands > COUNT / 2, "too few inputs are commands"


TABLE = b"""\
id       a_side    b_side    a_side_status    b_side_status
-------  --------  --------  ---------------  ---------------
1A-1B    1A        1B        tuned            tuned
2A-5B    2A        5B        tuning           failed
"""


def test_tables_of_sonic():
    words = [b"\n", b"--", b"  ", b"1A-2B", b"id", b"tuned", b"\xff", b"-------  ----\n"]
    num_tables = 0
    for data in inputs(3, COUNT, [TABLE], words):
        try:
            rows = parse_table(data.decode("utf-8", "replace"))
            readback_of(rows, rows, [])
            num_tables += bool(rows)
        except SwitchProtocolError:
            pass
    assert num_tables > COUNT / 50


PAIRS = json.dumps({"optical-switch:cross-connects": {"pair": [{"ingress": 1, "egress": 9}]}})
JSON_WORDS = [
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b'"pair"',
        b'"ingress"',
        b'"egress"',
        b"1",
        b"-1",
        b"1e9",
    ),
    *(b"null", b"true", b'"', b"\\u0000", b"\xff", b'{"ingress":1,"egress":9}', b"[" * 50),
]


def test_bodies_of_restconf_and_gnmi():
    good = 0
    switch = emulate((8, 8)).switch
    circuits, tree = PolatisModel(switch).cross_connects(), SonicTree(SonicTables(switch))
    table = [PathStep("sonic-ocs:sonic-ocs", {}), PathStep("OCS_CROSS_CONNECT", {})]
    rows = b'{"sonic-ocs:OCS_CROSS_CONNECT_LIST":[{"cross_connect_id":"1A-2B","a_side":"1A"}]}'
    for data in inputs(4, COUNT, [PAIRS.encode(), rows], JSON_WORDS):
        try:
            assert all(len(pair) == 2 for pair in _json_rows(data, circuits, is_list=False))
            good += 1
        except RequestRefusedError:
            pass
        with contextlib.suppress(ValueError, RecursionError, SonicPathError):
            assert all(a < b for a, b in tree.given(table, json.loads(data)))
        with contextlib.suppress(SwitchProtocolError):
            assert isinstance(rows_of(data), list)
        try:
            for row in _rows(json.loads(data)):
                assert _port(row, "ingress").isdecimal()
        except (ValueError, RecursionError, SwitchProtocolError):
            pass
    assert good > COUNT / 50


def test_datagrams_of_snmp():
    v2c = pytest.importorskip("pysnmp.proto.api.v2c")
    from pyasn1.codec.ber import decoder, encoder

    from lightloom.control.emulator.snmp import MAX_OBJECTS, SnmpService

    def request(kind, *names):
        message, pdu = v2c.Message(), kind()
        defaults = v2c.apiBulkPDU if kind is v2c.GetBulkRequestPDU else v2c.apiPDU
        defaults.set_defaults(pdu)
        v2c.apiPDU.set_varbinds(pdu, [(name, v2c.Null("")) for name in names])
        v2c.apiMessage.set_defaults(message)
        v2c.apiMessage.set_community(message, "public")
        v2c.apiMessage.set_pdu(message, pdu)
        return encoder.encode(message)

    system = (1, 3, 6, 1, 2, 1, 1)
    valid = [
        request(v2c.GetRequestPDU, (*system, 1, 0), (*system, 5, 0)),
        request(v2c.GetNextRequestPDU, (1, 3, 6, 1, 4, 1, 26592)),
        request(v2c.GetBulkRequestPDU, system),
        request(v2c.SetRequestPDU, (*system, 5, 0)),
    ]
    words = [b"\x30", b"\x80", b"\xa5\x10", b"\x02\x01\x7f", b"\x06\x03+\x06\x01", b"\x05\x00"]
    service, num_replies = SnmpService(emulate((8, 8)).switch), 0
    for data in inputs(9, COUNT, valid, [*words, b"\x04\x06public", b"\x84\xff\xff\xff\xff"]):
        reply = service.reply_to(data)
        if reply is not None:
            message, rest = decoder.decode(reply, asn1Spec=v2c.Message())
            num_replies += 1
            assert not rest
            assert len(v2c.apiPDU.get_varbinds(v2c.apiMessage.get_pdu(message))) <= MAX_OBJECTS
    assert num_replies > COUNT / 50


@pytest.mark.parametrize("is_chunked", [False, True])
def test_frames_of_netconf(is_chunked):
    rng = random.Random(5)
    words = [b"]]>]]>", b"\n#", b"\n##\n", b"1\n", b"9999999999\n", b"<a/>", b"\n", b"\xff"]
    num_messages = 0
    for data in inputs(5, COUNT, [b"\n#4\n<a/>\n##\n", b"<a/>]]>]]>"], words):
        reader = MessageReader()
        reader.is_chunked = is_chunked
        with contextlib.suppress(ValueError):
            for part in pieces(rng, data):
                messages = list(reader.feed(part))
                assert all(len(message) <= MAX_NETCONF for message in messages)
                num_messages += len(messages)
    assert num_messages > COUNT / 20


def test_lists_of_sonic():
    tables = SonicTables(emulate((8, 8)).switch)
    words = [b"1A", b"2B", b"..", b"-", b",", b"99999A", b"8A-8B", b" ", b"0A"]
    good = 0
    for data in inputs(6, COUNT, [b"1A-2B,3A-4B", b"1A..4A-5B..8B"], words):
        try:
            found = tables.parse_pairs(data.decode("utf-8", "replace"))
            assert all(1 <= a <= 8 < b <= 16 for a, b in found)
            good += 1
        except SonicRefusedError:
            pass
    assert good > COUNT / 50


def test_what_users_write():
    words = [
        b"deny",
        b"slow",
        b":",
        b"@",
        b"command:",
        b"1",
        b"0.5",
        b"-",
        b"://",
        b"?",
        b"=",
        b"&",
    ]
    for data in inputs(7, COUNT, [b"slow:0.2@command:5", b"stuck:3@9"], words):
        text = data.decode("utf-8", "replace")
        with contextlib.suppress(InputError):
            assert Fault.parse(text).at >= 1
        with contextlib.suppress(InputError):
            settings_from(parse_switch_url(text)[3])


@pytest.mark.parametrize(
    "data", [b"x", b'"', b"/*", b"\\", b" ", b"\n", b'"\n', b"/*\n", b"A\r\n", b"<", b">"]
)
def test_endless_streams_are_refused_or_use_no_memory(data):
    """A switch or a client that never ends a message costs a bounded amount of memory."""
    block = data * (64 * 1024 // len(data))
    tracemalloc.start()
    try:
        parser, reader = Tl1Parser(), CommandReader()
        with contextlib.suppress(SwitchProtocolError):
            for _ in range(20):
                parser.feed(block)
        with contextlib.suppress(ValueError):
            for _ in range(20):
                reader.feed(block)
        assert tracemalloc.get_traced_memory()[0] < 4 * (MAX_MESSAGE_BYTES + MAX_COMMAND_BYTES)
    finally:
        tracemalloc.stop()


TEXT = st.text(st.characters(codec="ascii", categories=["L", "N", "P", "Zs"]), max_size=40)


@given(rows=st.lists(TEXT, max_size=5), sid=st.sampled_from(["", "OCS", "lab ocs 1"]))
def test_replies_of_the_emulator_are_understood(rows, sid):
    """What the emulator writes, the driver's parser returns."""
    rows = [row.replace('"', "'").replace("\\", "/").replace(";", ",") for row in rows]
    data = Tl1Reply(rows=tuple(rows)).render("12", sid, "26-11-20 20:33:34")
    (message,) = Tl1Parser().feed(data)
    assert (message.kind, message.sid, message.rows) == (MessageKind.RESPONSE, sid, tuple(rows))


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_bytes_in_any_pieces(parts):
    split = Tl1Parser()
    messages = [message for part in parts for message in split.feed(part)]
    assert messages == Tl1Parser().feed(b"".join(parts))
