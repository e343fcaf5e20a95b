import pytest

from lightloom.control.drivers.tl1 import (
    MessageKind,
    Tl1Message,
    Tl1Parser,
    denial,
    quote,
    unquote,
)
from lightloom.control.switch import (
    InvalidParameterError,
    InvalidTargetError,
    PermissionRefusedError,
    SwitchBusyError,
    SwitchDeniedError,
    SwitchProtocolError,
    UnsupportedCommandError,
)

HEADER = "\r\n   OCS 26-11-20 20:33:34\r\n"
COMPLETED = f'{HEADER}M  12 COMPLD\r\n   "1,9"\r\n   "2,10"\r\n;'
DENIED = f"{HEADER}M  17 DENY\r\n   IDNV\r\n   /* Invalid OXC port: 99 */\r\n;"
REPORT = f'{HEADER}A  3 REPT EVT EQPT\r\n   "OXC:Port 1 disabled"\r\n;'


def parse(text: str) -> list[Tl1Message]:
    return Tl1Parser().feed(text.encode())


def test_a_response():
    (message,) = parse(COMPLETED)
    assert message.kind is MessageKind.RESPONSE
    assert (message.sid, message.tag, message.code) == ("OCS", "12", "COMPLD")
    assert message.rows == ("1,9", "2,10")
    assert message.is_completed


@pytest.mark.parametrize("indent", ["", "   ", "\t"])
def test_a_refusal_with_any_indentation(indent):
    (message,) = parse(DENIED.replace("\r\n   IDNV", f"\r\n{indent}IDNV"))
    assert not message.is_completed
    assert (message.error_code, message.text) == ("IDNV", "Invalid OXC port: 99")


def test_a_report():
    (message,) = parse(REPORT)
    assert message.kind is MessageKind.REPORT
    assert (message.tag, message.code) == ("3", "REPT EVT EQPT")
    assert message.text == "OXC:Port 1 disabled"


@pytest.mark.parametrize("alarm", ["*C", "**", "* ", "A "])
def test_alarm_codes_of_reports(alarm):
    (message,) = parse(f'{HEADER}{alarm} 9 REPT ALM EQPT\r\n   "x"\r\n;')
    assert (message.kind, message.code) == (MessageKind.REPORT, "REPT ALM EQPT")


def test_an_acknowledgment_then_the_response():
    first, second = parse(f"IP 12\r\n<{COMPLETED}")
    assert (first.kind, first.tag, first.code) == (MessageKind.ACKNOWLEDGMENT, "12", "IP")
    assert second.rows == ("1,9", "2,10")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_pieces_of_any_size(size):
    text = (COMPLETED + REPORT + DENIED).encode()
    parser = Tl1Parser()
    messages = []
    for start in range(0, len(text), size):
        messages += parser.feed(text[start : start + size])
    assert messages == parse(COMPLETED + REPORT + DENIED)
    assert len(messages) == 3
    assert parser.buffered_bytes == 0


@pytest.mark.parametrize(
    ("printed", "sid"),
    [("( nil )", ""), ("(nil)", ""), ("lab ocs 1", "lab ocs 1"), ("", ""), ("a-b 7", "a-b 7")],
)
def test_names_of_switches(printed, sid):
    (message,) = parse(COMPLETED.replace("OCS", printed))
    assert (message.sid, message.code) == (sid, "COMPLD")


def test_prompts_are_skipped():
    messages = parse(f"> {COMPLETED}\r\n>{DENIED}\r\n> ")
    assert [message.code for message in messages] == ["COMPLD", "DENY"]


def test_an_echo_is_unknown():
    echo, response = parse(f"RTRV-PATCH:::12:;{COMPLETED}")
    assert (echo.kind, echo.words) == (MessageKind.UNKNOWN, ("RTRV-PATCH:::12:",))
    assert response.is_completed


def test_semicolons_in_quotes_and_comments_end_nothing():
    (message,) = parse(f'{HEADER}M  1 DENY\r\n   IPNV\r\n   /* a; b */\r\n   "c;\\"d"\r\n;')
    assert message.comments == ("a; b",)
    assert message.rows == ('c;"d',)


def test_quotes_and_comments_that_never_close_end_with_their_line():
    messages = parse(f'{HEADER}M  1 COMPLD\r\n   "open\r\n   /* also\r\n;{DENIED}')
    assert [message.code for message in messages] == ["COMPLD", "DENY"]
    assert messages[0].rows == ("open",)


def test_nothing_is_returned_before_the_terminator():
    parser = Tl1Parser()
    assert parser.feed(COMPLETED[:-1].encode()) == []
    assert parser.buffered_bytes > 0
    assert len(parser.feed(b";")) == 1


def test_bytes_that_are_no_text():
    (message,) = Tl1Parser().feed(b"\xff\xfe\x00\x80;")
    assert message.kind is MessageKind.UNKNOWN


def test_long_lines_are_refused():
    parser = Tl1Parser(max_line_bytes=100)
    assert parser.feed(b"x" * 100) == []
    with pytest.raises(SwitchProtocolError, match="a line of over 100 bytes"):
        parser.feed(b"x")


def test_long_lines_are_refused_even_if_complete():
    with pytest.raises(SwitchProtocolError, match="a line of over 100 bytes"):
        Tl1Parser(max_line_bytes=100).feed(b"x" * 101 + b"\n;")


def test_long_messages_are_refused():
    parser = Tl1Parser(max_message_bytes=1000)
    assert parser.feed(b'   "1,9"\r\n' * 100) == []
    with pytest.raises(SwitchProtocolError, match="a message of over 1000 bytes"):
        parser.feed(b'   "1,9"\r\n' * 100)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("IDNV", InvalidTargetError),
        ("IIAC", InvalidTargetError),
        ("IITA", InvalidTargetError),
        ("IPNV", InvalidParameterError),
        ("IICT", InvalidParameterError),
        ("IICM", UnsupportedCommandError),
        ("PICC", PermissionRefusedError),
        ("SROF", SwitchBusyError),
        ("SSTP", SwitchBusyError),
        ("ZZZZ", SwitchDeniedError),
    ],
)
def test_codes_become_errors(code, kind):
    (message,) = parse(DENIED.replace("IDNV", code))
    error = denial(message, "ENT-PATCH 99,9")
    assert type(error) is kind
    assert str(error) == (f"the switch refused for ENT-PATCH 99,9: {code}: Invalid OXC port: 99")
    assert not error.state_unknown


def test_not_logged_in_is_a_matter_of_permission():
    (message,) = parse(DENIED.replace("Invalid OXC port: 99", "Not logged in"))
    assert isinstance(denial(message, ""), PermissionRefusedError)


def test_completion_codes_other_than_completed_are_refusals():
    (message,) = parse(COMPLETED.replace("COMPLD", "PRTL"))
    assert not message.is_completed
    assert message.error_code == "PRTL"


@pytest.mark.parametrize(
    "text", ["admin", "a-b_c.7", "", "two words", 'with "quotes"', "b\\s", "a;b"]
)
def test_quoting_is_undone(text):
    quoted = quote(text)
    assert (unquote(quoted) if quoted.startswith('"') else quoted) == text
    assert quoted.isalnum() or not text.isalnum()
