"""Whatever a switch or a client sends, and in whatever pieces, no byte is looked at often.

The patterns of the parsers never go back, so that the bytes which each search passes are its work.
"""

import re

import pytest

from lightloom.control.drivers import calient_tl1, polatis, tl1
from lightloom.control.emulator import polatis_netconf, tl1_commands


class CountingPattern:
    """A pattern that counts the bytes that its searches and matches pass."""

    def __init__(self, pattern, counted):
        self._pattern, self._counted = pattern, counted

    def _count(self, match, data, start, stop):
        stop = min(len(data), stop)
        self._counted.append((match.end() if match else stop) - start)
        return match

    def search(self, data, start=0, stop=2**31):
        return self._count(self._pattern.search(data, start, stop), data, start, stop)

    def match(self, data, start=0, stop=2**31):
        return self._count(self._pattern.match(data, start, stop), data, start, stop)


@pytest.fixture
def counted(monkeypatch):
    """The bytes that all patterns of the parsers pass, a number per search."""
    passed = []
    for module, names in (
        (tl1, ("_BETWEEN", "_INDENT", "_STOP", "_IN_QUOTES", "_IN_COMMENT")),
        (tl1_commands, ("_STOP", "_IN_QUOTES")),
        (polatis_netconf, ("_CHUNK",)),
    ):
        for name in names:
            pattern = getattr(module, name)
            monkeypatch.setattr(module, name, CountingPattern(pattern, passed))
    return passed


#: what costs a careless parser the most, as a function of the length
HOSTILE = {
    "blanks": lambda size: b"M 1 COMPLD\r\nx" + b" " * size,
    "leading blanks": lambda size: b" " * size,
    "indents": lambda size: b"M 1 COMPLD\r\n" + b" " * size,
    "quotes": lambda size: b"M 1 COMPLD\r\n" + b'"' * size,
    "open quotes": lambda size: b'M 1 COMPLD\r\n"' + b"a" * size,
    "escapes": lambda size: b'M 1 COMPLD\r\n"' + b"\\" * size,
    "comments": lambda size: b"M 1 COMPLD\r\n" + b"/**/" * (size // 4),
    "open comments": lambda size: b"M 1 COMPLD\r\n/" + b"*" * size,
    "slashes": lambda size: b"M 1 COMPLD\r\n" + b"/" * size,
    "rows": lambda size: b"M 1 COMPLD\r\n" + b'"1,9"\r\n' * (size // 7),
    "digits": lambda size: b"OCS " + b"26-11-20" * (size // 8),
}


@pytest.mark.parametrize("piece", [1, 7, 10**6])
@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_tl1_switch_sends(kind, piece, counted):
    data = HOSTILE[kind](8000) + b"\r\n;"
    parser = tl1.Tl1Parser()
    for start in range(0, len(data), piece):
        parser.feed(data[start : start + piece])
    assert 0 < sum(counted) <= 4 * len(data)
    assert len(counted) <= 4 * len(data)


@pytest.mark.parametrize("piece", [1, 7, 10**6])
@pytest.mark.parametrize("kind", HOSTILE)
def test_what_a_tl1_client_sends(kind, piece, counted):
    data = HOSTILE[kind](8000) + b";"
    reader = tl1_commands.CommandReader()
    for start in range(0, len(data), piece):
        reader.feed(data[start : start + piece])
    assert sum(counted) <= 4 * len(data)
    assert len(counted) <= 4 * len(data)


@pytest.mark.parametrize("chunk", [1, 1000])
@pytest.mark.parametrize("piece", [1, 10**6])
def test_chunks_of_a_netconf_client(chunk, piece, counted):
    reader = polatis_netconf.MessageReader()
    reader.is_chunked = True
    data = b"\n#%d\n%b" % (chunk, b"x" * chunk) * (8000 // chunk) + b"\n##\n"
    (message,) = (
        message
        for start in range(0, len(data), piece)
        for message in reader.feed(data[start : start + piece])
    )
    assert message == b"x" * 8000
    assert sum(counted) <= 8 * len(data)


@pytest.mark.parametrize(
    "line", ["M" + " " * 8000 + "x", "x" + " " * 8000, "1" * 8000, "A " * 4000]
)
def test_lines_are_divided_without_patterns(line):
    # all patterns that see a line see one word of it, and match it as a whole or not
    for name in ("_DATE", "_TIME", "_COMPLETION"):
        pattern = getattr(tl1, name).pattern
        assert "*" not in pattern
        assert re.fullmatch(r"[^()|]*", pattern)
    tl1.parse_message([line, line])


@pytest.mark.parametrize(
    "pattern", [calient_tl1._VALUE, polatis._SIZE], ids=["values of a row", "size of a model"]
)
def test_a_search_starts_once_in_a_word(pattern):
    # a search that may start at every digit of a long number would look at each of them often
    assert pattern.pattern.startswith(("(?<!\\w)", "(?<!\\d)"))
    assert pattern.findall("1" * 8000) == []
