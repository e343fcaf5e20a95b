"""Operators change circuits in their windows, or at once where that is said and journaled."""

import asyncio
from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from tests.control_regions import controlled, emulated, pairs
from tests.unit.control.test_operator import served

from lightloom.control import change_window
from lightloom.control.change_window import ChangeWindow, next_window
from lightloom.control.client import ControlClient
from lightloom.control.example import write_example
from lightloom.control.journal import Journal
from lightloom.control.lease import Lease
from lightloom.control.operations import check_window
from lightloom.control.refusals import RegionFileError, StateError
from lightloom.control.region_file import ChangeSection, read_region
from lightloom.control.token import ClientRole, token_for

#: Monday
MONDAY = "2026-11-30"
NIGHT = ChangeWindow(days=("sat",), begins=time(22), ends=time(4))
NOON = ChangeWindow(days=("mon", "wed"), begins=time(12), ends=time(13, 30))


def at(text, zone=UTC):
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


@pytest.mark.parametrize(
    ("window", "now", "begins"),
    [
        (NOON, "2026-11-30 11:59:59", "2026-11-30 12:00"),
        (NOON, "2026-11-30 12:00:00", None),
        (NOON, "2026-11-30 13:29:59", None),
        (NOON, "2026-11-30 13:30:00", "2026-12-02 12:00"),
        (NOON, "2026-12-02 14:00:00", "2026-12-07 12:00"),
        # over midnight: it belongs to the day on which it begins
        (NIGHT, "2026-11-28 21:59:59", "2026-11-28 22:00"),
        (NIGHT, "2026-11-28 23:59:59", None),
        (NIGHT, "2026-11-29 00:00:00", None),
        (NIGHT, "2026-11-29 03:59:59", None),
        (NIGHT, "2026-11-29 04:00:00", "2026-12-05 22:00"),
        (NIGHT, "2026-11-29 22:30:00", "2026-12-05 22:00"),
        (NIGHT, "2026-11-28 03:00:00", "2026-11-28 22:00"),
        # a day that ends when it begins has 24 hours
        (ChangeWindow(days=("sun",), begins=time(0), ends=time(0)), "2026-11-29 23:59:59", None),
        (
            ChangeWindow(days=("sun",), begins=time(0), ends=time(0)),
            "2026-11-30 00:00:00",
            "2026-12-06 00:00",
        ),
        (ChangeWindow(begins=time(23), ends=time(0)), "2026-11-30 00:00:00", "2026-11-30 23:00"),
        # the end of a year
        (NIGHT, "2026-12-31 12:00:00", "2027-01-02 22:00"),
    ],
)
def test_when_a_window_is_open_and_when_the_next_begins(window, now, begins):
    found = next_window([window], "UTC", at(now))
    assert found == (None if begins is None else datetime.fromisoformat(begins + "+00:00"))


def test_of_several_windows_the_next_counts_and_without_any_there_is_none_to_wait_for():
    assert next_window([NOON, NIGHT], "UTC", at("2026-12-03 00:00")).isoformat() == (
        "2026-12-05T22:00:00+00:00"
    )
    assert next_window([NOON, NIGHT], "UTC", at("2026-11-29 01:00")) is None
    assert next_window([], "UTC", at("2026-11-29 01:00")) is None


def test_every_minute_of_two_weeks_is_as_counting_says():
    minutes = set()
    for day in range(-7, 21):  # Saturdays are days 5 + 7n from a Monday
        if day % 7 == 5:
            minutes |= set(range(day * 1440 + 22 * 60, (day + 1) * 1440 + 4 * 60))
    begin = at(MONDAY)
    for minute in range(0, 14 * 1440, 7):
        opens = next_window([NIGHT], "UTC", begin + 60 * minute)
        assert (opens is None) == (minute in minutes), minute
        if opens is not None:
            first = min(one for one in minutes if one > minute)
            assert opens.timestamp() == begin + 60 * first


def test_hours_are_those_of_the_zone_also_when_its_clocks_are_changed():
    berlin = ZoneInfo("Europe/Berlin")
    early = ChangeWindow(begins=time(1), ends=time(5))
    for date, hours in (("2026-03-29", 3), ("2026-10-25", 5), ("2026-11-29", 4)):
        begin, end = at(f"{date} 01:00", berlin), at(f"{date} 05:00", berlin)
        assert end - begin == 3600 * hours
        assert next_window([early], "Europe/Berlin", begin - 1) is not None
        assert all(
            next_window([early], "Europe/Berlin", begin + 60 * n) is None for n in range(hours * 60)
        )
        assert next_window([early], "Europe/Berlin", end) is not None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('days = ["sat"]\nbegins = 22:00:00', "ends is missing"),
        ('begins = "22:00"\nends = 04:00:00', "expected a time of day such as 22:00:00"),
        ("begins = 22\nends = 04:00:00", "expected a time of day such as 22:00:00"),
        ("days = []\nbegins = 22:00:00\nends = 04:00:00", "days"),
        ('days = ["Saturday"]\nbegins = 22:00:00\nends = 04:00:00', "Saturday"),
        ("begins = 22:00:00\nends = 04:00:00\nzone = 1", "unknown key"),
    ],
)
def test_a_wrong_window_is_one_line(tmp_path, text, message):
    path = write_example(tmp_path, "emulator://", servers=2, nics=1, size=4)
    path.write_text(f"{path.read_text()}\n[[change.window]]\n{text}\n")
    with pytest.raises(RegionFileError) as caught:
        read_region(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["Mars/Olympus", "../../etc/passwd", "/etc/localtime", "CET "])
def test_an_unknown_zone_is_one_line(name):
    with pytest.raises(RegionFileError, match="time zone such as UTC or Europe/Berlin"):
        ChangeSection(time_zone=name)


@pytest.fixture
def region(tmp_path):
    """A region with a window that is never open for long: a minute on the day before yesterday."""
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=4, nics=2, size=12, when="always")
        day = change_window.DAYS[(datetime.now(UTC).weekday() - 2) % 7]
        window = f'[[change.window]]\ndays = ["{day}"]\nbegins = 12:00:00\nends = 12:01:00\n'
        path.write_text(f"{path.read_text()}\n{window}")
        yield path, emulator


@pytest.mark.parametrize("is_served", [False, True])
def test_what_operators_do_waits_for_the_window_or_is_done_at_once(region, control, is_served):
    path, emulator = region
    add = ("apply", path, "--add", "0/0-1/0", "--yes")
    drain = ("drain", path, "nic:0/0")

    def scenario():
        for words in (add, drain, ("apply", path, "--clear", "--yes")):
            status, _, err = control(*words)
            assert status == 2
            assert "outside the change window, which begins " in err.splitlines()[-1]
            assert err.endswith("; --now does it all the same, and the journal says so\n")
        assert not emulator.matrix.circuits
        assert control("plan", path, "--add", "0/0-1/0")[0] == 0  # changes nothing
        assert control(*add, "--now")[0] == 0
        assert len(emulator.matrix.circuits) == 2
        assert control("rollback", path)[0] == 0
        rollback = ("rollback", path, "--apply", "--yes")
        assert control(*rollback)[0] == 2
        assert control(*rollback, "--now")[0] == 0
        assert not emulator.matrix.circuits
        assert control(*add, "--now")[0] == 0
        assert control(*drain, "--now", "--why", "new fiber")[0] == 0
        assert not emulator.matrix.circuits
        assert control("resume", path, "nic:0/0")[0] == 0  # nor does this
        emulator.matrix.change([], [(1, 15), (3, 13)])
        assert control("apply", path, "--adopt", "--yes")[0] == 0

    if is_served:
        with served(path):
            scenario()
    else:
        scenario()
    journal = Journal(path.parent / "region.sqlite", "region", is_read_only=True)
    texts = [entry.intent.reason.text for entry in journal.last()]
    journal.close()
    assert texts == [
        "adopt",
        "new fiber (outside the change window)",
        "add 0/0-1/0 (outside the change window)",
        "the circuits before the last change (outside the change window)",
        "add 0/0-1/0 (outside the change window)",
    ]


def test_a_port_map_is_taken_up_in_the_window(region, control):
    path, _ = region
    assert control("apply", path, "--add", "0/0-1/0", "--yes", "--now")[0] == 0
    ports = path.parent / "ports.csv"
    ports.write_text(ports.read_text().replace("node0,0,1,13", "node0,0,9,21"))
    assert control("remap", path)[0] == 0
    assert "outside the change window" in control("remap", path, "--apply", "--yes")[2]
    assert control("remap", path, "--apply", "--yes", "--now")[0] == 0


@pytest.mark.parametrize("binds", [False, True])
def test_demands_and_failures_of_jobs_are_bound_only_where_a_key_says_so(region, binds):
    path, emulator = region
    if binds:
        text = path.read_text().replace(
            "[[change", "[change]\nwindow_binds_jobs = true\n\n[[change"
        )
        path.write_text(text)
    tokens = path.parent / "region.token"
    tokens.write_text(f"job job {'a' * 40}\n")
    tokens.chmod(0o600)
    demand = np.zeros((32, 32), np.uint64)
    demand[:8, 8:16] = 10**8

    async def scenario():
        token = token_for(tokens, ClientRole.JOB)
        async with ControlClient(f"unix:{path.parent / 'region.sock'}", token) as client:
            first = await client.circuits_for(demand)
            failed = await client.request("fail", parts=["nic:3/1"])
            again = await client.request("fail", parts=["nic:3/1"], now=1)
            return first, failed, again

    with served(path):
        first, failed, again = asyncio.run(scenario())
    assert failed["ok"]
    assert again["error"] == "now 1: expected true or false"
    assert bool(emulator.matrix.circuits) != binds
    if binds:
        assert "outside the change window" in first["error"]
        assert first["error"].endswith("; use the EPS")
        assert first["circuits"] == []
    else:
        assert first["result"] == "done"


def test_the_clock_is_that_of_the_wall(tmp_path):
    async def scenario():
        async with controlled(tmp_path, window=(NIGHT,)) as (controller, _):
            lease = controller.lease
            for now, is_open in (("2026-11-28 23:00", True), ("2026-11-29 05:00", False)):
                controller.lease = Lease(controller.journal, "test", clock=lambda now=now: at(now))
                if is_open:
                    check_window(controller, "wait")
                else:
                    with pytest.raises(StateError, match="begins Sat 2026-12-05 22:00 UTC; wait"):
                        check_window(controller, "wait")
            controller.lease = lease
            assert not pairs("") & controller.held

    asyncio.run(scenario())
