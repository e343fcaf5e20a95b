"""Users, thresholds and alarms of the emulated Polatis switch, by TL1."""

import asyncio

import pytest
from tests.control_switches import behavior, emulate, run

from lightloom.control.drivers.tl1 import Tl1Parser


async def talk(emulator, *commands, user="admin", password="root"):
    """Log in, send commands, and return error codes or rows of each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", emulator.ports["tl1"])
    replies = []
    for command in (f"ACT-USER::{user}:1::{password};", *commands):
        writer.write(command.encode())
        (message,) = Tl1Parser().feed(await reader.readuntil(b";"))
        replies.append(message.error_code if message.code == "DENY" else list(message.rows))
    writer.close()
    await writer.wait_closed()
    return replies[1:]


def emulated(check, **options):
    async def checked():
        async with emulate(behavior=behavior(**options)) as emulator:
            await check(emulator)

    run(checked())


def test_users_come_change_and_go():
    async def check(emulator):
        replies = await talk(
            emulator,
            "ENT-USER-SECU::bob:1::secret,,view;",
            "ENT-USER-SECU::bob:1::secret,,view;",
            "ENT-USER-SECU::eve:1::secret,,root;",
            "RTRV-USER-SECU:::1:;",
            "ED-USER-SECU::bob:1::,,user;",
            "RTRV-USER:::1:;",
            "ED-USER-SECU::eve:1::x;",
            "DLT-USER-SECU::admin:1:;",
            "DLT-USER-SECU::bob:1:;",
            "DLT-USER-SECU::bob:1:;",
        )
        listed = ["admin:ADMIN", "bob:VIEW"], ["admin:ADMIN", "bob:USER"]
        assert replies == [
            *([], "IDNV", "IPNV", listed[0], [], listed[1]),
            *("IDNV", "PICC", [], "IDNV"),
        ]

    emulated(check)


@pytest.mark.parametrize(("privilege", "code"), [("view", "PICC"), ("user", None)])
def test_who_may_only_look_changes_nothing(privilege, code):
    async def check(emulator):
        await talk(emulator, f"ENT-USER-SECU::bob:1::secret,,{privilege};")
        created, read, entered = await talk(
            emulator,
            "ENT-PATCH::1,9:1:;",
            "RTRV-PATCH:::1:;",
            "ENT-USER-SECU::eve:1::secret;",
            user="bob",
            password="secret",
        )
        assert created == (code or [])
        assert read == ([] if code else ["1,9"])
        assert entered == "PICC"

    emulated(check)


def test_a_user_sets_the_password():
    async def check(emulator):
        replies = await talk(
            emulator,
            "ED-SECU-PID::admin:1::wrong,new;",
            "ED-SECU-PID::admin:1::root,;",
            "ED-SECU-PID::admin:1::root,new;",
        )
        assert replies == ["PICC", "IPNV", []]
        assert await talk(emulator, "RTRV-HDR:::1:;", password="new") == [[]]
        assert await talk(emulator, "RTRV-HDR:::1:;") == ["PLNA"]

    emulated(check)


def test_thresholds_and_alarms():
    async def check(emulator):
        emulator.matrix.launched_dbm |= {1: -3.0, 2: -25.0}
        emulator.switch.fail_port(7)
        replies = await talk(
            emulator,
            "RTRV-ALM-ALL:::1:;",
            "SET-TH-PMON::1&2:1:::TYPE=DEGRADED,LOW=-20;",
            "SET-TH-PMON::1&2:1:::TYPE=LOS,LOW=-30;",
            "RTRV-STATE-PMON::1&2:1:;",
            "RTRV-ALM-EQPT:::1:;",
            "RTRV-TH-PMON::2:1:;",
            "SET-TH-PMON::2:1:::TYPE=DEGRADED,MODE=OFF;",
            "RTRV-STATE-PMON::2:1:;",
            "SET-TH-PMON::2:1:::TYPE=HOT;",
            "SET-TH-PMON::2:1:::TYPE=LOS,MODE=OFTEN;",
        )
        assert replies == [
            *(["7:FAILED"], [], [], ["1:OK", "2:DEGRADED"], ["7:FAILED", "2:DEGRADED"]),
            *(["2:DEGRADED,-20.0", "2:LOS,-30.0"], [], ["2:OK"], "IPNV", "IPNV"),
        ]

    emulated(check)
