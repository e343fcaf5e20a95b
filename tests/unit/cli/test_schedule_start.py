"""``lightloom schedule --start-from``: what is kept of an earlier schedule, and what is refused."""

import json
import re

import numpy as np
import pytest

from lightloom.demand.byte_matrix import write_npz
from lightloom.schedule import decompose

MATRIX = np.array([[0, 500, 700], [200, 0, 100], [900, 400, 0]])
FROM = "--reconfiguration-delay 1ns --rate 8 --start-from"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", MATRIX)
    return tmp_path


def test_matchings_of_an_earlier_run_are_kept(lightloom, folder):
    lightloom("schedule a.npy --reconfiguration-delay 1ns --rate 8 --out now.npz")
    np.save("next.npy", MATRIX + np.array([[0, 9, 0], [3, 0, 0], [0, 0, 0]]))
    text = lightloom(f"schedule next.npy {FROM} now.npz --json a.json --csv a.csv").out
    content = json.loads((folder / "a.json").read_text())
    with np.load(folder / "now.npz") as arrays:
        earlier = len(arrays["holds_bytes"])
    before = decompose(MATRIX, delay_s=1e-9, rate_gbps=8)
    kept = decompose(
        np.load("next.npy"), delay_s=1e-9, rate_gbps=8, method="previous", previous=before
    )
    row, auto = content["schedules"]["previous"], content["schedules"]["auto"]
    assert row["length_s"] == pytest.approx(kept.length_s)
    assert row["new_slots"] == kept.new_slots == 0
    assert content["kept"]["matchings"] == kept.configurations
    assert content["kept"]["earlier"] == earlier == before.configurations
    assert content["kept"]["anew"] == "auto"
    assert content["kept"]["length_over_anew"] == pytest.approx(row["length_s"] / auto["length_s"])
    assert re.search(
        rf"Kept {kept.configurations} of {earlier} earlier matchings, with 0 new ones: .*, "
        rf"{row['length_s'] / auto['length_s']:.3f} x auto anew, found in \S+ x its time\.",
        text,
    )
    assert "schedule,previous," in (folder / "a.csv").read_text()


def test_it_is_compared_with_the_shortest_method_that_was_asked_for(lightloom, folder):
    lightloom("schedule a.npy --reconfiguration-delay 1ns --rate 8 --out now.npz")
    lightloom(f"schedule a.npy {FROM} now.npz --methods round-robin,bvn --json a.json")
    content = json.loads((folder / "a.json").read_text())
    lengths_s = {name: row["length_s"] for name, row in content["schedules"].items()}
    assert set(lengths_s) == {"previous", "round-robin", "bvn"}
    anew = content["kept"]["anew"]
    assert lengths_s[anew] == min(lengths_s["round-robin"], lengths_s["bvn"])


def test_new_pairs_are_said(lightloom):
    forward = {"permutations": np.array([[1, 2, 0]]), "holds_bytes": np.array([900])}
    with open("now.npz", "wb") as file:
        file.write(write_npz(forward))
    text = lightloom(f"schedule a.npy {FROM} now.npz").out
    assert "Kept 1 of 1 earlier matchings, with 1 new ones" in text


def test_slots_may_be_added(lightloom, folder):
    np.save("spread.npy", [[0, 10, 1, 1], [1, 0, 1, 10], [1, 1, 0, 1], [10, 1, 1, 0]])
    shifts = [[(row + shift) % 4 for row in range(4)] for shift in (1, 2, 3)]
    arrays = {"permutations": np.array(shifts), "holds_bytes": np.full(3, 10)}
    with open("now.npz", "wb") as file:
        file.write(write_npz(arrays))
    lightloom(f"schedule spread.npy {FROM} now.npz --json without.json")
    lightloom(f"schedule spread.npy {FROM} now.npz --new-slots 2 --json with.json")
    without, with_new = (
        json.loads((folder / name).read_text())["schedules"]["previous"]
        for name in ("without.json", "with.json")
    )
    assert without["new_slots"] == 0
    assert 1 <= with_new["new_slots"] <= 2
    assert with_new["length_s"] < without["length_s"]


@pytest.mark.parametrize(
    ("permutations", "holds", "more", "expected"),
    [
        ([[1, 0]], [9], "", "now.npz: expected permutations of 3 rows, as the demand has, got "
         "int64 of shape (1, 2)"),
        ([[1, 2, 3]], [9], "", "now.npz: expected columns below 3, as the demand has, or -1, got "
         "1 to 3"),
        ([[1.5, 2, 0]], [9], "", "now.npz: expected permutations of 3 rows, as the demand has, "
         "got float64 of shape (1, 3)"),
        ([[1, 2, 0]], [9, 9], "", "now.npz: 1 permutations, but 2 holds"),
        ([[1, 2, 0]], [-9], "", "now.npz: holds_bytes: expected 0 to 9007199254740992, got -9"),
        ([[1, 2, 0]], [9], "--ports 2", "an earlier schedule is for one all-stop switch, got 2 "
         "switches; give --switches 1"),
        ([[1, 2, 0]], [9], "--partial", "an earlier schedule is for one all-stop switch, got "
         "partial reconfiguration"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_one_line(refused, permutations, holds, more, expected):
    arrays = {"permutations": np.array(permutations), "holds_bytes": np.array(holds)}
    with open("now.npz", "wb") as file:
        file.write(write_npz(arrays))
    assert refused(f"schedule a.npy {FROM} now.npz {more}") == expected


def test_two_rows_of_one_column_are_no_matching(refused):
    arrays = {"permutations": np.array([[1, 1, 0]]), "holds_bytes": np.array([9])}
    with open("now.npz", "wb") as file:
        file.write(write_npz(arrays))
    assert refused(f"schedule a.npy {FROM} now.npz").startswith("now.npz: ")


def test_slots_are_added_to_an_earlier_schedule_alone(refused):
    line = refused("schedule a.npy --reconfiguration-delay 0 --new-slots 1")
    assert line == "--new-slots is for --start-from; give it as well, or leave it out"


def test_files_that_hold_no_schedule(refused):
    with open("demand.npz", "wb") as file:
        file.write(write_npz({"demand": MATRIX}))
    assert refused(f"schedule a.npy {FROM} no.npz") == "no.npz: no such file"
    assert refused(f"schedule a.npy {FROM} a.npy") == (
        "a.npy: expected the .npz file of an earlier --out"
    )
    assert refused(f"schedule a.npy {FROM} demand.npz") == (
        "demand.npz: expected an array 'permutations', there is 'demand'"
    )
