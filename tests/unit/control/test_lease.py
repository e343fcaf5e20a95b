"""The lease between processes, containers, machines and clocks that jump."""

import os
import shutil
import subprocess
import sys

import pytest
from tests.control_regions import WHY, pairs

from lightloom.control import processes
from lightloom.control.journal import ChangeIntent, Journal
from lightloom.control.lease import Lease, since_start, this_holder
from lightloom.control.processes import is_alive, this_process
from lightloom.control.refusals import LeaseError

INTENT = ChangeIntent("apply", WHY, pairs("0/0-1/0"), pairs("0/0-2/0"), {"ocs": (2, 2)}, 0.04)
OWN = this_process()
#: this process in another container, whose processes have numbers of their own
ELSEWHERE = OWN._replace(namespace=1)
DEAD = OWN._replace(number=2**22 - 1, started=1)


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


class Place:
    """Where a lease is wanted: a journal, the time of day, and that since the machine's start."""

    def __init__(self, path):
        self.path, self.day, self.uptime = path, Clock(1e9), Clock(50.0)
        self.journals = []

    def lease(self, name, process=OWN):
        self.journals.append(Journal(self.path, "r0"))
        return Lease(self.journals[-1], name, 30.0, self.day, self.uptime, process)


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path / "j.sqlite")
    yield made
    for journal in made.journals:
        journal.close()


def begin(place, lease):
    return lease._journal.begin(INTENT, lease.revision, place.day())


def is_free(place, process=OWN):
    try:
        place.lease("other", process).take()
    except LeaseError:
        return False
    return True


@pytest.mark.parametrize("jump_s", [-1e8, -3600, 3600, 1e8])
def test_a_clock_that_jumps_neither_ends_nor_prolongs_a_lease(place, jump_s):
    lease = place.lease("a")
    lease.take()
    place.day.now += jump_s
    assert lease.is_held
    assert not is_free(place)
    if lease.is_due:  # so that the next intent is written all the same
        lease.renew()
    assert begin(place, lease) == 1
    place.uptime.now += 31
    assert not lease.is_held
    assert is_free(place)


@pytest.mark.parametrize("clock", ["day", "uptime"])
def test_a_lease_is_renewed_in_the_last_third_of_its_time(place, clock):
    lease = place.lease("a")
    assert (lease.revision, lease.is_held, lease.is_due) == (0, False, False)
    lease.take()
    getattr(place, clock).now += 19.9
    assert not lease.is_due
    getattr(place, clock).now += 0.2
    assert lease.is_due
    lease.renew()
    assert not lease.is_due


def test_a_machine_that_slept_has_lost_its_lease(place):
    lease = place.lease("a")
    lease.take()
    place.uptime.now += 3600
    assert (lease.is_held, lease.is_due) == (False, True)
    other = place.lease("b")
    assert other.take() == 2
    with pytest.raises(LeaseError, match=r"^r0: another controller took the lease$"):
        lease.renew()
    with pytest.raises(LeaseError, match=r"^r0: the lease was lost to b; this controller does"):
        begin(place, lease)


@pytest.mark.parametrize(
    ("holder", "is_free_at_once"),
    [
        (OWN, False),
        (DEAD, True),
        (OWN._replace(started=OWN.started + 1), True),  # its number was used again
        (OWN._replace(boot="of yesterday"), True),  # the machine was started again
        (OWN._replace(boot="of yesterday", host="other"), False),
        (ELSEWHERE, False),
        (DEAD._replace(namespace=1), False),  # nobody here can know
        (OWN._replace(host="container"), False),
        (DEAD._replace(host="container"), True),
    ],
)
def test_whose_lease_is_free_at_once(place, holder, is_free_at_once):
    place.lease("a", holder).take()
    assert is_free(place) is is_free_at_once
    # and whoever holds it: after its time it is
    place.uptime.now += 31
    place.day.now += 31
    assert is_free(place)


def test_the_lease_of_another_machine_ends_by_the_time_of_day(place):
    place.lease("a", OWN._replace(boot="another", host="other")).take()
    place.uptime.now += 1e6
    assert not is_free(place)
    place.day.now += 31
    assert is_free(place)


def test_a_process_that_has_ended_and_a_number_that_is_used_again():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    state, started = processes._status(child.pid)
    assert state in "RSD"
    identity = OWN._replace(number=child.pid, started=started)
    assert is_alive(identity, OWN) is True
    assert is_alive(identity._replace(started=started - 1), OWN) is False
    child.stdin.close()
    while processes._status(child.pid)[0] != "Z":
        pass
    assert is_alive(identity, OWN) is False  # though nobody has waited for it yet
    child.wait()
    assert is_alive(identity, OWN) is False
    assert is_alive(identity._replace(number=2**70), OWN) is None


def test_a_process_of_another_name_space_is_unknown():
    """The same, with a real name space of processes."""
    command = [
        "unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc",
        sys.executable, "-c",
        "import sys; from lightloom.control.processes import this_process\n"
        "print(*this_process(), sep='\\n'); sys.stdout.flush(); input()",
    ]  # fmt: skip
    if shutil.which("unshare") is None:
        pytest.skip("unshare makes a name space")
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ,
    )
    words = [process.stdout.readline().strip() for _ in range(5)]
    process.communicate("\n")
    if not words[0]:
        pytest.skip("no name space may be made here")
    other = processes.ProcessIdentity(words[0], words[1], *map(int, words[2:]))
    assert other.boot == OWN.boot
    assert other.namespace != OWN.namespace
    assert is_alive(other, OWN) is None
    assert is_alive(OWN, other) is None


def test_without_proc_only_time_decides(monkeypatch):
    nobody = processes.ProcessIdentity(None, None, None, None, None)
    assert is_alive(nobody, OWN) is None
    assert is_alive(OWN, nobody) is None
    monkeypatch.setattr(processes, "_status", lambda _number: None)
    assert is_alive(OWN, OWN) is None  # another user's, where these are hidden


@pytest.mark.parametrize("act", ["moved", "deleted", "replaced"])
def test_a_journal_that_is_not_the_same_file_any_more_ends_the_lease(place, tmp_path, act):
    lease = place.lease("a")
    lease.take()
    lease.renew()
    assert not lease.is_due
    if act == "deleted":
        place.path.unlink()
    else:
        place.path.rename(tmp_path / "elsewhere")
    if act == "replaced":
        place.lease("b").take()
    assert lease.is_due  # so that not even the next change is made
    for use in (lease.renew, lease.take, lease.break_lease):
        with pytest.raises(LeaseError) as refusal:
            use()
        assert str(refusal.value) == (
            f"{place.path}: the journal was moved or replaced; this controller does nothing more"
        )


def test_an_operator_breaks_the_lease_of_the_dead_alone(place):
    operator = place.lease("operator")
    assert operator.break_lease() == ""
    living = place.lease("living")
    living.take()
    with pytest.raises(LeaseError, match=r"^r0: living holds the lease and runs; stop it$"):
        operator.break_lease()
    living.release()
    assert operator.break_lease() == ""
    unknown = place.lease("container", ELSEWHERE)
    unknown.take()
    assert not is_free(place)
    assert operator.break_lease() == "container"
    # who was broken does nothing more, though it lives
    with pytest.raises(LeaseError, match="another controller took the lease"):
        unknown.renew()
    with pytest.raises(LeaseError, match="the lease was lost to container"):
        begin(place, unknown)
    assert place.lease("next").take() == 4


def test_names_and_clocks_of_this_process():
    assert this_holder().endswith(f":{os.getpid()}")
    assert is_alive(OWN, OWN) is True
    assert 0 < since_start() <= since_start()
