"""Mirrors as messages to the kernel, with a kernel that is played by a socket pair."""

import errno
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.testbed.crossbar import Crossbar, filter_message, links, messages

MAKE, DELETE = 44, 45


class FakeKernel:
    """Acknowledges requests and remembers them."""

    def __init__(self, refuse=()):
        self.asked, self.refuse = [], set(refuse)

    def send(self, content):
        ((kind, number, body),) = messages(content)
        device = struct.unpack_from("=i", body, 4)[0]
        self.asked.append((kind, device))
        problem = -errno.EINVAL if (kind, device) in self.refuse else 0
        content = struct.pack("=i", problem) + bytes(16)
        self.reply = struct.pack("=IHHII", 16 + len(content), 2, 0, number, 0) + content

    def recv(self, _):
        return self.reply


def test_all_that_ends_ends_before_anything_begins():
    """Two ports that send to one while a circuit moves: make before break."""
    kernel = FakeKernel()
    mirrors = Crossbar(kernel, {1: 11, 2: 12, 3: 13})
    mirrors.show({1: 2, 2: 1})
    assert kernel.asked == [(MAKE, 11), (MAKE, 12)]
    kernel.asked.clear()
    mirrors.show({1: 3, 3: 1})
    assert kernel.asked == [(DELETE, 11), (DELETE, 12), (MAKE, 11), (MAKE, 13)]
    assert mirrors.lit == {1: 3, 3: 1}
    kernel.asked.clear()
    mirrors.show({1: 3, 3: 1})
    assert kernel.asked == []


def test_what_the_kernel_refuses_is_not_believed():
    """A mirror that was not made, and is never tried again."""
    kernel = FakeKernel(refuse={(MAKE, 12)})
    mirrors = Crossbar(kernel, {1: 11, 2: 12})
    with pytest.raises(OSError, match="Invalid argument"):
        mirrors.show({1: 2, 2: 1})
    assert mirrors.lit == {1: 2}
    kernel.refuse.clear()
    mirrors.show({1: 2, 2: 1})
    assert kernel.asked[-1] == (MAKE, 12)
    assert mirrors.lit == {1: 2, 2: 1}


def test_a_message_is_made_of_aligned_attributes():
    """A kernel reads lengths: what does not fill them shifts everything behind it."""
    body = filter_message(7, 9)
    family, device, handle, parent, info = struct.unpack_from("=B3xiIII", body)
    assert (family, device, handle, parent) == (socket.AF_UNSPEC, 7, 0x80000800, 0xFFFFFFF2)
    assert info == 1 << 16 | socket.htons(3)
    rest, names = body[20:], []
    while rest:
        size, attribute = struct.unpack_from("=HH", rest)
        assert 4 <= size <= len(rest)
        names.append(attribute & 0x7FFF)
        rest = rest[(size + 3) & ~3 :]
    assert names == [1, 2]
    assert struct.pack("=I", 9) in body
    assert len(filter_message(7)) < len(body)


@given(st.binary(max_size=200))
def test_no_bytes_from_a_socket_hang_the_reader(content):
    """A message whose length is 0, before which a reader stands still."""
    assert len(list(messages(content))) <= len(content)
    assert len(list(links(content))) <= len(content)


def test_events_say_which_devices_are_up():
    def event(kind, index, flags):
        body = struct.pack("=BxHiII", 0, 1, index, flags, 0)
        return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body

    content = event(16, 3, 1) + event(16, 4, 0) + event(20, 5, 1)
    assert list(links(content)) == [(3, True), (4, False)]
    assert list(links(b"")) == []
