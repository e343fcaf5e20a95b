"""Protocol Buffers of unknown origin, field by field, without a schema and within bounds.

A message is a series of fields: a key, which is a varint of the field's number and its wire type,
and a value. Nothing is copied and no length is believed before it is compared with what is there
(https://protobuf.dev/programming-guides/encoding). Groups, which proto3 does not have, are refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from lightloom.errors import InputError

#: wire types
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_SIZES = {FIXED64: 8, FIXED32: 4}
#: bytes of a varint of 64 bits
_MAX_VARINT = 10

#: a field's value: a number, or the bytes of a text, a message or a packed list
Value = int | memoryview


class WireError(InputError):
    """Bytes that are no message; the message says why, without the name of the file."""


def varint(content: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next thing begins.

    Raises
    ------
    WireError
        If it does not end, or has more than 64 bits.
    """
    if at < len(content) and (value := content[at]) < 128:
        return value, at + 1
    value = 0
    for index, byte in enumerate(content[at : at + _MAX_VARINT]):
        value |= (byte & 127) << 7 * index
        if byte < 128:
            if value >> 64:
                break
            return value, at + index + 1
    if at + _MAX_VARINT > len(content):
        raise WireError("ends within a number")
    raise WireError("has a number of more than 64 bits")


def taken(content: memoryview, at: int, size: int) -> memoryview:
    """The `size` bytes at `at`.

    Raises
    ------
    WireError
        If there are fewer.
    """
    if size > len(content) - at:
        raise WireError(f"ends {size - (len(content) - at):,} bytes too early")
    return content[at : at + size]


def delimited(content: memoryview) -> Iterator[memoryview]:
    """Messages that follow their lengths, as Chakra writes them.

    Raises
    ------
    WireError
        If a length says more than there is.
    """
    at = 0
    while at < len(content):
        size, at = varint(content, at)
        yield taken(content, at, size)
        at += size


def fields(message: memoryview) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field.

    Raises
    ------
    WireError
        If it is no message.
    """
    at = 0
    while at < len(message):
        key, at = varint(message, at)
        number, kind = key >> 3, key & 7
        if number == 0:
            raise WireError("has a field 0")
        if kind == VARINT:
            value, at = varint(message, at)
            yield number, kind, value
            continue
        if kind == BYTES:
            size, at = varint(message, at)
        elif kind in _SIZES:
            size = _SIZES[kind]
        else:
            raise WireError(f"has a field of wire type {kind}")
        content = taken(message, at, size)
        at += size
        yield number, kind, content if kind == BYTES else int.from_bytes(content, "little")


def text(value: Value) -> str:
    """A text.

    Raises
    ------
    WireError
        If it is a number, or not UTF-8.
    """
    if isinstance(value, int):
        raise WireError("has a number where a text is expected")
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise WireError("has a text that is not UTF-8") from None


def content_of(value: Value) -> memoryview:
    """The bytes of a message or a list.

    Raises
    ------
    WireError
        If it is a number.
    """
    if isinstance(value, int):
        raise WireError("has a number where a message is expected")
    return value


def signed(value: int) -> int:
    """A varint as the number of 64 bits that may be negative."""
    return value - (1 << 64) if value >> 63 else value


def number(value: Value) -> int:
    """A number.

    Raises
    ------
    WireError
        If it is bytes.
    """
    if not isinstance(value, int):
        raise WireError("has bytes where a number is expected")
    return value


def double(value: int, kind: int) -> float:
    """The floating-point number that four or eight bytes are."""
    size, form = (8, "<d") if kind == FIXED64 else (4, "<f")
    number: float = struct.unpack(form, value.to_bytes(size, "little"))[0]
    return number


def numbers(value: Value) -> Iterator[int]:
    """The numbers of a repeated field: one, or a packed list of varints."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = varint(value, at)
        yield number
