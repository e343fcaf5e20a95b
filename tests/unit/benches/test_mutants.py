"""Fault lists that fit the code, and a runner that leaves no trace."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _runner():
    spec = importlib.util.spec_from_file_location(
        "mutants_run", ROOT / "benches" / "mutants" / "run.py"
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants_run"] = module
    spec.loader.exec_module(module)
    return module


mutants = _runner()
FAULTS = [(room, fault) for room in mutants.room_names() for fault in mutants.load(room).faults]


@pytest.mark.parametrize(
    ("room", "fault"), FAULTS, ids=[f"{room}-{fault.name}" for room, fault in FAULTS]
)
def test_each_fault_fits_its_file(room, fault):
    text = (ROOT / fault.file).read_text()
    assert fault.inject(text) != text, room


@pytest.fixture
def tree(tmp_path):
    """A repository of one file, and a test that it says yes."""
    (tmp_path / "said.txt").write_bytes(b"yes\r\nyes again\r\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *identity, "commit", "-qm", "a"], cwd=tmp_path, check=True)
    return tmp_path


def _room(test, build=(), limit_s=60.0, name="toy", faults=()):
    return mutants.Room(name, ["bash", "-c", test], list(build), limit_s, list(faults))


def _fault(find, replace, count=1):
    return mutants.Fault("a fault", "said.txt", find, replace, count)


@pytest.mark.parametrize(
    ("fault", "result"),
    [
        (_fault("yes\r", "no\r"), "noticed"),
        (_fault("again", "always"), "missed"),
        (_fault("yes", "no", count=2), "noticed"),
    ],
)
def test_faults_are_noticed_by_tests_that_fail(tree, fault, result):
    room = _room("head -1 said.txt | grep -q yes")
    assert mutants.try_fault(room, fault, tree) == result
    assert (tree / "said.txt").read_bytes() == b"yes\r\nyes again\r\n"


def test_what_does_not_build_is_invalid_and_what_never_ends_is_noticed(tree):
    fault = _fault("again", "always")
    broken = _room("true", build=["grep", "-q", "again", "said.txt"])
    assert mutants.try_fault(broken, fault, tree) == "invalid"
    assert mutants.try_fault(_room("sleep 60", limit_s=0.1), fault, tree) == "noticed"


def test_a_file_is_restored_when_a_run_is_interrupted(tree, monkeypatch):
    seen = []

    def interrupt(*_):
        seen.append((tree / "said.txt").read_bytes())
        raise KeyboardInterrupt

    monkeypatch.setattr(mutants, "succeeds", interrupt)
    with pytest.raises(KeyboardInterrupt):
        mutants.try_fault(_room("true"), _fault("again", "always"), tree)
    assert seen == [b"yes\r\nyes always\r\n"]
    assert (tree / "said.txt").read_bytes() == b"yes\r\nyes again\r\n"


def test_a_changed_tree_is_refused(tree):
    mutants.require_clean_tree(tree)
    (tree / "said.txt").write_text("maybe")
    with pytest.raises(mutants.MutantsError, match=r"uncommitted changes.*\n.*said\.txt"):
        mutants.require_clean_tree(tree)


def test_a_text_that_does_not_fit_is_refused():
    with pytest.raises(mutants.MutantsError, match=r"occurs 2 times in said.txt, expected 1"):
        _fault("yes", "no").inject("yes yes")
    with pytest.raises(mutants.MutantsError, match="by the same"):
        _fault("yes", "yes").inject("yes")


def test_tests_that_fail_by_themselves_are_refused(tree):
    with pytest.raises(mutants.MutantsError, match="fail without any fault"):
        mutants.run_room(_room("false"), [], tree)


def _trial(minutes=7.4, **results):
    return mutants.Trial(results, "2026-11-25", "0a1b2c3d", minutes)


def test_a_row_replaces_that_of_its_room():
    report = f"# Title\n\n| a | b | c | d | e | f |\n{mutants.RULE}\nEnd.\n"
    x, y = _fault("yes", "no"), _fault("again", "always")
    first, second = _room("true", name="a", faults=[x]), _room("true", name="b", faults=[x, y])
    once = mutants.with_row(report, second, _trial(x="noticed", y="missed"))
    twice = mutants.with_row(once, first, _trial(x="noticed", minutes=0.2))
    again = mutants.with_row(twice, second, _trial(x="noticed", y="noticed"))
    assert "| `b` | 2 | 1 | 50% | 2026-11-25, 0a1b2c3d, 7 min | y |\n\nEnd." in once
    assert again.splitlines()[4:] == [
        "| `a` | 1 | 1 | 100% | 2026-11-25, 0a1b2c3d, 1 min | none |",
        "| `b` | 2 | 2 | 100% | 2026-11-25, 0a1b2c3d, 7 min | none |",
        "",
        "End.",
    ]


def test_a_row_says_how_many_of_a_list_were_tried():
    room = _room("true", faults=[_fault("yes", "no")] * 5)
    row = mutants.with_row(mutants.RULE, room, _trial(x="noticed", y="missed"))
    assert "| `toy` | 5, 2 of them tried | 1 | 50% | " in row


def test_the_report_has_the_columns_of_rows_and_says_when_each_was_tried():
    rates = mutants.REPORT.read_text().partition("## Hostile inputs")[0]
    rows = [line for line in rates.splitlines() if line.startswith("| `")]
    assert mutants.RULE in rates
    assert {row.split("`")[1] for row in rows} == set(mutants.room_names())
    for row in rows:
        assert re.search(r"% \| 20\d\d-\d\d-\d\d, [0-9a-f]{8}(, \d+ min)? \| ", row), row


def test_a_trial_knows_its_day_its_commit_and_its_time(tree):
    faults = [_fault("yes\r", "no\r"), mutants.Fault("b", "said.txt", "again", "always")]
    trial = mutants.run_room(_room("head -1 said.txt | grep -q yes", faults=faults), faults, tree)
    assert trial.results == {"a fault": "noticed", "b": "missed"}
    command = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True).stdout
    assert head.startswith(trial.commit)
    assert len(trial.commit) == 8
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", trial.date)
    assert trial.minutes > 0
    assert trial.rate() == "50%"


def test_a_sample_is_that_of_its_seed():
    faults = [mutants.Fault(f"fault {number:02}", "f", "a", "b") for number in range(50)]
    room = _room("true", faults=faults)

    def drawn(seed, sample=5, only=""):
        return [fault.name for fault in mutants.choose(room, only, sample, seed)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len(set(drawn(1))) == 5
    assert drawn(3) == sorted(drawn(3)), "in the order of the list"
    every = [fault.name for fault in faults]
    assert drawn(1, sample=None) == drawn(1, sample=50) == drawn(1, sample=99) == every
    assert drawn(1, sample=99, only="fault 4") == every[40:]
    assert {name for seed in range(100) for name in drawn(seed)} == set(every)


def test_a_file_names_the_faults_to_try(tmp_path):
    faults = [mutants.Fault(f"fault {number}", "f", "a", "b") for number in range(4)]
    rooms = [_room("true", name="a", faults=faults[:3]), _room("true", name="b", faults=faults[3:])]
    names = tmp_path / "names.txt"
    names.write_text("fault 2\n\n  fault 0\n")
    (room,) = mutants.with_names(rooms, names)
    assert (room.name, room.faults) == ("a", [faults[0], faults[2]]), "in the order of the list"
    names.write_text("fault 3\nfault 2\n")
    assert [room.faults for room in mutants.with_names(rooms, names)] == [faults[2:3], faults[3:]]


def test_a_file_that_names_no_fault_of_the_rooms_is_refused(tmp_path, capsys):
    names = tmp_path / "names.txt"
    names.write_text("fault 9\n")
    with pytest.raises(mutants.MutantsError, match=r"no fault 'fault 9' in these rooms"):
        mutants.with_names([_room("true", faults=[])], names)
    assert mutants.main(["cost", "--names", str(tmp_path / "none.txt")]) == 2
    assert "none.txt: No such file or directory" in capsys.readouterr().err
    assert mutants.main(["cost", "--record", "--names", str(names)]) == 2
    assert "leave --only and --names out" in capsys.readouterr().err


def test_each_result_comes_with_its_seconds(tree, capsys):
    mutants.run_room(_room("true"), [_fault("yes\r", "no\r")], tree)
    assert re.match(r"toy: missed +0 s  a fault\n", capsys.readouterr().out)
