"""The journal and its lease: what is kept, in which order, and what is refused."""

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control_regions import WHY, pairs

from lightloom.control.journal import (
    ChangeIntent,
    ChangeOutcome,
    Journal,
    decode_circuits,
    encode_circuits,
    entry_as_json,
)
from lightloom.control.lease import Lease
from lightloom.control.port_map import NicPair
from lightloom.control.refusals import JournalError, LeaseError

INTENT = ChangeIntent("apply", WHY, pairs("0/0-1/0"), pairs("0/0-2/0"), {"ocs": (2, 2)}, 0.04)


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def journal(tmp_path):
    opened = Journal(tmp_path / "j.sqlite", "r0")
    yield opened
    opened.close()


def leased(journal, holder="a", clock=None):
    clock = clock or Clock()
    lease = Lease(journal, holder, 30.0, clock, clock)
    lease.take()
    return lease


NIC = st.integers(0, 10**6)


@given(st.sets(st.builds(NicPair, NIC, NIC, NIC, NIC)))
def test_circuits_survive_as_text(circuits):
    assert decode_circuits(encode_circuits(circuits)) == circuits


def test_an_intent_is_there_before_its_outcome(journal):
    lease = leased(journal)
    number = journal.begin(INTENT, lease.revision, 1001.0)
    (entry,) = journal.unfinished()
    assert (entry.id, entry.intent, entry.outcome) == (number, INTENT, None)
    assert journal.held() is None
    outcome = ChangeOutcome("partial", pairs("0/0-2/0"), {"0/0-1/0": "why"}, {"switch": 0.04})
    journal.end(number, outcome, 1002.0)
    assert journal.unfinished() == []
    assert journal.entry(number).outcome == outcome
    assert journal.held() == pairs("0/0-2/0")
    assert entry_as_json(journal.entry(number))["outcome"]["failed"] == {"0/0-1/0": "why"}


def test_what_another_process_reads(journal, tmp_path):
    lease = leased(journal)
    number = journal.begin(INTENT, lease.revision, 1001.0)
    other = Journal(tmp_path / "j.sqlite", "r0")
    assert other.entry(number).intent == INTENT
    assert Journal(tmp_path / "j.sqlite", "r1").last() == []
    with pytest.raises(JournalError, match=r"j\.sqlite: r1 has no change 1$"):
        Journal(tmp_path / "j.sqlite", "r1").entry(number)
    other.close()


def test_rows_are_never_altered(journal, tmp_path):
    lease = leased(journal)
    number = journal.begin(INTENT, lease.revision, 1001.0)
    journal.end(number, ChangeOutcome("done", frozenset()), 1002.0)
    connection = sqlite3.connect(tmp_path / "j.sqlite")
    for table in ("intents", "outcomes"):
        with pytest.raises(sqlite3.IntegrityError, match="are never altered"):
            connection.execute(f"UPDATE {table} SET at = 0")
    connection.close()
    with pytest.raises(JournalError, match="cannot write the journal: UNIQUE constraint"):
        journal.end(number, ChangeOutcome("failed", frozenset()), 1003.0)


def test_what_is_held_is_what_the_last_change_left(journal):
    lease = leased(journal)
    for after in ("0/0-1/0", "0/0-2/0", "1/0-2/0"):
        number = journal.begin(INTENT, lease.revision, 1001.0)
        journal.end(number, ChangeOutcome("done", pairs(after)), 1002.0)
        assert journal.held() == pairs(after)
    # one that is still open says nothing
    journal.begin(INTENT, lease.revision, 1003.0)
    assert journal.held() == pairs("1/0-2/0")


def test_dropping_old_changes_leaves_other_regions_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("lightloom.control.journal._PRUNE_EVERY", 5)
    other = Journal(tmp_path / "j.sqlite", "r1")
    lease = leased(other, "b")
    for _ in range(3):
        number = other.begin(INTENT, lease.revision, 1001.0)
        other.end(number, ChangeOutcome("done", pairs("0/0-1/0")), 1002.0)
    journal = Journal(tmp_path / "j.sqlite", "r0", keep_changes=2)
    lease = leased(journal)
    for _ in range(10):
        number = journal.begin(INTENT, lease.revision, 1001.0)
        journal.end(number, ChangeOutcome("done", frozenset()), 1002.0)
    assert len(journal.last(100)) == 2
    assert [entry.id for entry in other.last(100)] == [3, 2, 1]
    assert other.held() == pairs("0/0-1/0")
    journal.close()
    other.close()


def test_old_changes_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("lightloom.control.journal._PRUNE_EVERY", 5)
    journal = Journal(tmp_path / "j.sqlite", "r0", keep_changes=10)
    lease = leased(journal)
    for _ in range(25):
        number = journal.begin(INTENT, lease.revision, 1001.0)
        journal.end(number, ChangeOutcome("done", frozenset()), 1002.0)
    assert [entry.id for entry in journal.last(100)] == list(range(25, 15, -1))
    journal.close()


@pytest.mark.parametrize("durability", ["process", "power"])
def test_durability(tmp_path, durability):
    journal = Journal(tmp_path / "j.sqlite", "r0", durability=durability)
    level = journal._connection.execute("PRAGMA synchronous").fetchone()[0]
    assert level == {"process": 1, "power": 2}[durability]
    assert journal._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
    journal.close()


def test_what_is_no_journal(tmp_path):
    (tmp_path / "text").write_text("not a database at all, only a long line of text\n" * 50)
    with pytest.raises(JournalError, match="cannot open the journal: file is not a database; no"):
        Journal(tmp_path / "text", "r0")
    with pytest.raises(JournalError, match="cannot open the journal: No such file"):
        Journal(tmp_path / "none" / "j.sqlite", "r0")
    connection = sqlite3.connect(tmp_path / "other")
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.close()
    with pytest.raises(JournalError, match=r"other: not a journal; name another file$"):
        Journal(tmp_path / "other", "r0")
    connection = sqlite3.connect(tmp_path / "later")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(JournalError, match=r"later: a journal of version 9, expected 2$"):
        Journal(tmp_path / "later", "r0")


def test_revisions_rise_and_old_ones_write_nothing(journal):
    clock = Clock()
    first = leased(journal, "a:1", clock)
    assert first.revision == 1
    second = Lease(journal, "b:1", 30.0, clock, clock)
    with pytest.raises(LeaseError) as refusal:
        second.take()
    assert str(refusal.value) == "r0: a:1 holds the lease for another 30 s; stop it, or wait"
    clock.now += 31
    assert not first.is_held
    with pytest.raises(LeaseError, match="the lease has expired; it was not renewed in time"):
        journal.begin(INTENT, first.revision, clock.now)
    first.renew()  # nobody took it
    assert first.is_held
    clock.now += 31
    assert second.take() == 2
    with pytest.raises(LeaseError, match=r"^r0: another controller took the lease$"):
        first.renew()
    with pytest.raises(LeaseError, match=r"^r0: the lease was lost to b:1; this controller does"):
        journal.begin(INTENT, first.revision, clock.now)
    assert journal.last() == []
    first.release()  # is not its to release
    assert second.is_held
    second.renew()
    second.release()
    assert leased(journal, "c", clock).revision == 3


def test_a_lease_is_due_before_it_expires(journal):
    clock = Clock()
    lease = leased(journal, "a", clock)
    assert not lease.is_due
    clock.now += 21
    assert lease.is_due
    lease.renew()
    assert not lease.is_due
