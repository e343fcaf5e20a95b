"""The local protocol: frames of a JSON header and a binary body, bounded in size and time.

A frame is eight bytes (the lengths of header and body, each 32 bits, big-endian), the header as
UTF-8 JSON and the body. Demand travels in the body: 64-bit little-endian whole numbers.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from lightloom.control.refusals import RequestError
from lightloom.inputs.formats import JsonLimits, parse_json

_PREFIX = struct.Struct(">II")
#: largest header, of a request and of a reply
MAX_HEADER_BYTES = 1 << 16
MAX_REPLY_BYTES = 1 << 24
_LIMITS = JsonLimits(depth=8)


class Frame(NamedTuple):
    """A message: its header, and the bytes of its body."""

    header: dict[str, Any]
    body: bytes = b""


def encode(header: Mapping[str, Any], body: bytes = b"") -> bytes:
    """Return a frame as bytes."""
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    return _PREFIX.pack(len(text), len(body)) + text + body


async def read_frame(
    reader: asyncio.StreamReader,
    max_header: int,
    max_body: int,
    timeout_s: float | None = None,
) -> Frame | None:
    """Read a frame; None if the other side has closed before one began.

    Parameters
    ----------
    reader
        Where from.
    max_header, max_body
        Maximum sizes.
    timeout_s
        Seconds in which the frame must be complete once its first byte is there.

    Raises
    ------
    RequestError
        If it is too large, no JSON object, cut short or too slow.
    """
    first = await reader.read(1)
    if not first:
        return None
    try:
        async with asyncio.timeout(timeout_s):
            prefix = first + await reader.readexactly(_PREFIX.size - 1)
            header_bytes, body_bytes = _PREFIX.unpack(prefix)
            if header_bytes > max_header:
                raise RequestError(f"a header of {header_bytes:,} bytes; limit {max_header:,}")
            if body_bytes > max_body:
                raise RequestError(f"a body of {body_bytes:,} bytes; limit {max_body:,}")
            text = await reader.readexactly(header_bytes)
            body = await reader.readexactly(body_bytes) if body_bytes else b""
    except TimeoutError:
        raise RequestError(f"a frame was not complete within {timeout_s:g} s") from None
    except asyncio.IncompleteReadError:
        raise RequestError("the connection was cut inside a frame") from None
    header = parse_json(text, "header", RequestError, _LIMITS)
    if not isinstance(header, dict):
        raise RequestError("header: expected a JSON object")
    return Frame(header, body)
