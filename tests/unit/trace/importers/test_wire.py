"""Protocol Buffers by hand: the examples of their documentation, and lengths that are not true."""

import struct

import pytest
from tests.chakra_files import field, varint

from lightloom.trace.importers import wire


def read(content):
    return [
        (number, kind, value if isinstance(value, int) else bytes(value))
        for number, kind, value in wire.fields(memoryview(content))
    ]


def test_the_examples_of_the_documentation():
    # protobuf.dev/programming-guides/encoding: 150 as field 1, "testing" as field 2
    assert read(bytes.fromhex("089601")) == [(1, 0, 150)]
    assert read(bytes.fromhex("120774657374696e67")) == [(2, 2, b"testing")]
    # repeated numbers 3, 270 and 86942, packed into field 6
    ((number, kind, packed),) = wire.fields(memoryview(bytes.fromhex("3206038e029ea705")))
    assert (number, kind, list(wire.numbers(packed))) == (6, 2, [3, 270, 86942])


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, (1 << 63) - 1, (1 << 64) - 1])
def test_numbers_are_read_back(value):
    assert wire.varint(memoryview(varint(value)), 0) == (value, len(varint(value)))


def test_negative_numbers_are_those_of_64_bits():
    assert wire.signed(wire.varint(memoryview(varint(-2)), 0)[0]) == -2
    assert wire.signed(5) == 5


def test_numbers_of_fixed_size():
    content = b"\x09" + struct.pack("<d", 0.25) + b"\x15" + struct.pack("<f", -2.0)
    fields = list(wire.fields(memoryview(content)))
    assert [wire.double(value, kind) for _, kind, value in fields] == [0.25, -2.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x08", "ends within a number"),
        (b"\x08\xff", "ends within a number"),
        (b"\x08" + b"\xff" * 11, "a number of more than 64 bits"),
        (b"\x08" + b"\xff" * 9 + b"\x7f", "a number of more than 64 bits"),
        (b"\x12\x05abc", "ends 2 bytes too early"),
        (b"\x12" + varint(1 << 62) + b"abc", "bytes too early"),
        (b"\x09abc", "ends 5 bytes too early"),
        (b"\x0b", "a field of wire type 3"),
        (b"\x00\x00", "a field 0"),
    ],
)
def test_what_is_no_message(content, message):
    with pytest.raises(wire.WireError, match=message):
        read(content)


def test_messages_after_their_lengths():
    content = varint(3) + b"abc" + varint(0) + varint(1) + b"d"
    assert [bytes(m) for m in wire.delimited(memoryview(content))] == [b"abc", b"", b"d"]
    with pytest.raises(wire.WireError, match="ends 2 bytes too early"):
        list(wire.delimited(memoryview(content[:2])))


def test_types_that_are_not_expected():
    with pytest.raises(wire.WireError, match="a number where a text"):
        wire.text(3)
    with pytest.raises(wire.WireError, match="bytes where a number"):
        wire.number(memoryview(b"x"))
    with pytest.raises(wire.WireError, match="not UTF-8"):
        wire.text(memoryview(b"\xff"))
    assert read(field(3, "é")) == [(3, 2, "é".encode())]
