"""The TL1 session against a scripted switch: what no emulator of ours would send."""

import asyncio

import pytest
from tests.control_switches import until
from tests.simulated_network import SimulatedLoop

from lightloom.control.drivers.tl1_session import MAX_REPORTS, Tl1Session
from lightloom.control.switch import (
    InvalidTargetError,
    SwitchDisconnectedError,
    SwitchProtocolError,
    SwitchTimeoutError,
)


def run(check):
    """Time passes in waits alone, however busy the processor is."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(check)


class ScriptedStream:
    """A connection whose other end is a list of things to send after each command."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.sent = []
        self.is_open = True
        self.arrived = asyncio.Queue()

    async def read(self):
        return await self.arrived.get()

    async def write(self, data):
        if not self.is_open:
            raise SwitchDisconnectedError("cut")
        self.sent.append(data.decode())
        tag = self.sent[-1].split(":")[3]
        for piece in self.replies.pop(0) if self.replies else []:
            self.arrived.put_nowait(piece.replace("TAG", tag).encode())

    def abort(self):
        self.is_open = False
        self.arrived.put_nowait(b"")

    async def close(self):
        self.is_open = False


HEADER = "\r\n   OCS 26-11-20 20:33:34\r\n"
COMPLETED = f'{HEADER}M  TAG COMPLD\r\n   "row"\r\n;'
DENIED = f"{HEADER}M  TAG DENY\r\n   IDNV\r\n   /* no */\r\n;"
REPORT = f'{HEADER}A  1 REPT EVT\r\n   "text"\r\n;'
ACKNOWLEDGED = "IP TAG\r\n<"


def session(*replies, timeout_s=0.5):
    stream = ScriptedStream(*replies)
    return stream, Tl1Session(stream, reply_timeout_s=timeout_s)


def test_commands_have_rising_tags_and_their_replies():
    async def check():
        stream, tl1 = session([COMPLETED], [COMPLETED[:20], COMPLETED[20:]])
        for _ in range(2):
            assert (await tl1.command("RTRV-X", "1&2", ":a")).rows == ("row",)
        assert stream.sent == ["RTRV-X::1&2:1::a;", "RTRV-X::1&2:2::a;"]
        assert tl1.sid == "OCS"
        await tl1.close()

    run(check())


def test_commands_wait_for_their_turn():
    async def check():
        stream, tl1 = session(*[[COMPLETED]] * 20)
        await asyncio.gather(*(tl1.command("RTRV-X") for _ in range(20)))
        assert len(stream.sent) == 20
        await tl1.close()

    run(check())


def test_a_refusal_does_not_end_the_session():
    async def check():
        _, tl1 = session([DENIED], [COMPLETED])
        with pytest.raises(InvalidTargetError, match="for ENT-X 1: IDNV: no"):
            await tl1.command("ENT-X", "1")
        assert (await tl1.command("RTRV-X")).is_completed
        await tl1.close()

    run(check())


def test_an_acknowledgment_extends_the_time():
    async def check():
        stream, tl1 = session([], timeout_s=0.8)
        waiting = asyncio.create_task(tl1.command("ENT-X"))
        await until(lambda: stream.sent)
        for _ in range(3):
            await asyncio.sleep(0.3)
            stream.arrived.put_nowait(b"IP 1\r\n<")
        await asyncio.sleep(0.05)
        stream.arrived.put_nowait(COMPLETED.replace("TAG", "1").encode())
        assert (await waiting).is_completed
        await tl1.close()

    run(check())


def test_an_echo_of_the_command_is_skipped():
    async def check():
        _, tl1 = session(["RTRV-X:::TAG:;\r\n", COMPLETED, "\r\n> "])
        assert (await tl1.command("RTRV-X")).rows == ("row",)
        await tl1.close()

    run(check())


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (["HTTP/1.1 400 Bad Request\r\n;"], "not TL1"),
        ([COMPLETED.replace("TAG", "999")], "a reply to no command"),
        ([COMPLETED, COMPLETED], None),
        (["x" * 9000], "a line of over"),
    ],
)
def test_a_reply_that_cannot_be_right_ends_the_session(pieces, message):
    async def check():
        stream, tl1 = session(pieces)
        if message is None:
            await tl1.command("RTRV-X")
        else:
            with pytest.raises(SwitchProtocolError, match=message) as caught:
                await tl1.command("RTRV-X")
            assert caught.value.state_unknown
        await until(lambda: not tl1.is_open)
        assert not stream.is_open
        with pytest.raises(SwitchDisconnectedError, match="connect again"):
            await tl1.command("RTRV-X")
        assert len(stream.sent) == 1
        await tl1.close()

    run(check())


def test_after_a_time_out_nothing_is_sent():
    async def check():
        stream, tl1 = session([], timeout_s=0.03)
        with pytest.raises(SwitchTimeoutError):
            await tl1.command("ENT-X", "1,9")
        with pytest.raises(SwitchDisconnectedError):
            await tl1.command("ENT-X", "1,9")
        assert len(stream.sent) == 1
        await tl1.close()

    run(check())


def test_a_secret_is_in_no_message():
    async def check():
        _, tl1 = session([DENIED], [])
        with pytest.raises(InvalidTargetError) as refused:
            await tl1.command("ACT-USER", "admin", ":hunter2", shown="ACT-USER")
        with pytest.raises(SwitchTimeoutError) as silent:
            await tl1.command("ACT-USER", "admin", ":hunter2", shown="ACT-USER")
        assert "hunter2" not in f"{refused.value!r} {silent.value!r}"
        await tl1.close()

    run(check())


def test_reports_are_kept_up_to_a_bound():
    async def check():
        stream, tl1 = session([REPORT, COMPLETED])
        await tl1.command("RTRV-X")
        for number in range(MAX_REPORTS + 50):
            stream.arrived.put_nowait(REPORT.replace("text", str(number)).encode())
        await until(stream.arrived.empty)
        await tl1.close()
        texts = [message.text async for message in tl1.reports()]
        assert len(texts) == MAX_REPORTS
        assert texts[-1] == str(MAX_REPORTS + 49)

    run(check())


def test_keepalive_is_sent_only_when_nothing_else_is():
    async def check():
        stream, tl1 = session(*[[COMPLETED]] * 100)
        tl1.keep_alive("RTRV-HDR", 0.05)
        await asyncio.sleep(0.18)
        quiet = len(stream.sent)
        assert 2 <= quiet <= 4
        for _ in range(8):
            await tl1.command("RTRV-X")
            await asyncio.sleep(0.01)
        assert sum("HDR" in sent for sent in stream.sent) <= quiet + 2
        await tl1.close()

    run(check())


def page(row, code="COMPLD", end=";"):
    return f'{HEADER}M  TAG {code}\r\n   "{row}"\r\n{end}'


@pytest.mark.parametrize("code", ["COMPLD", "RTRV"])
def test_pages_are_one_reply(code):
    # a client of a Calient switch divides what RTRV-CRS prints into pages at each COMPLD
    async def check():
        pages = "".join([page("1", code, ">"), page("2", code, "\r\n>"), REPORT, page("3")])
        _, tl1 = session([pages], [page("4")])
        assert (await tl1.command("RTRV-CRS")).rows == ("1", "2", "3")
        assert (await tl1.command("RTRV-CRS")).rows == ("4",)
        await tl1.close()

    run(check())


def test_a_refusal_after_a_page_is_a_refusal():
    async def check():
        _, tl1 = session([page("1", end=">"), DENIED])
        with pytest.raises(InvalidTargetError):
            await tl1.command("RTRV-CRS")
        await tl1.close()

    run(check())


@pytest.mark.parametrize("busy", [ACKNOWLEDGED, page("1", end=">")])
def test_a_switch_that_is_always_busy_is_not_waited_for(busy):
    async def check():
        stream, tl1 = session([], timeout_s=0.1)
        waiting = asyncio.create_task(tl1.command("ENT-X"))
        await until(lambda: stream.sent)
        began_s = asyncio.get_running_loop().time()
        while not waiting.done():
            stream.arrived.put_nowait(busy.replace("TAG", "1").encode())
            await asyncio.sleep(0.02)
        with pytest.raises(SwitchTimeoutError, match=r"no reply within 0.4 s"):
            await waiting
        assert asyncio.get_running_loop().time() - began_s < 1
        await tl1.close()

    run(check())
