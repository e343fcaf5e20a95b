"""A port map that changes: what is the same in both, and what is done before the new one counts."""

import json
import random
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.control_regions import emulated, port_map_of

from lightloom.control.example import write_example
from lightloom.control.failures import parse_part
from lightloom.control.map_change import MapChange
from lightloom.control.port_map import NicPair, PortMap
from lightloom.control.remap import translate_parts

SERVERS, NICS, SIZE = 4, 2, 12
HEADER = "server,nic,ingress,egress"


@pytest.fixture
def region(tmp_path):
    with emulated() as emulator:
        path = write_example(tmp_path, emulator.url(), servers=SERVERS, nics=NICS, size=SIZE)
        yield path, emulator


def rows_of(path):
    return (path.parent / "ports.csv").read_text().splitlines()[1:]


def write_rows(path, rows):
    (path.parent / "ports.csv").write_text("\n".join([HEADER, *rows]) + "\n")


def lit(emulator):
    return dict(emulator.matrix.circuits)


@given(st.permutations(range(SERVERS)), st.sets(st.integers(0, SERVERS - 1)), st.data())
def test_a_circuit_that_is_kept_joins_the_same_ports_of_the_same_machines(order, gone, data):
    before = port_map_of(SERVERS, NICS, SIZE)
    rows = [row for row in before.rows if int(row[0].removeprefix("node")) not in gone]
    moved = data.draw(st.sets(st.integers(0, max(len(rows) - 1, 0)))) if rows else set()
    rows = [
        (*row[:3], f"{40 + n}", row[4], f"{60 + n}") if n in moved else row
        for n, row in enumerate(rows)
    ]
    servers = [f"node{n}" for n in order if n not in gone]
    if not servers:
        return
    after = PortMap.from_rows("new.csv", servers, rows)
    maps = MapChange(before, after)
    circuits = {
        NicPair(a, x, b, y)
        for a in range(SERVERS)
        for b in range(a + 1, SERVERS)
        for x in range(NICS)
        for y in range(NICS)
    }
    kept = maps.kept(circuits)
    for circuit in circuits:
        names = [before.servers[server] for server in circuit.servers]
        stays = all(
            (name, nic, *before.by_nic[server, nic].ingress, *before.by_nic[server, nic].egress)
            in rows
            for name, server, nic in zip(
                names, circuit.servers, (circuit.nic, circuit.peer_nic), strict=True
            )
        )
        assert (circuit in kept) is stays
    assert len(maps.translate(circuits)) == len(kept)
    light = {placed for circuit in kept for placed in before.cross_connects(circuit)}
    assert light == {
        placed for circuit in maps.translate(kept) for placed in after.cross_connects(circuit)
    }
    back = MapChange(after, before)
    assert back.translate(maps.translate(circuits)) == kept
    assert maps.is_empty is (before.fingerprint == after.fingerprint) is (not list(maps.lines()))


def test_what_differs_is_said_by_name():
    before = port_map_of(3, 2, SIZE)
    rows = [list(row) for row in before.rows]
    rows[1][3] = "9"
    rows = [*rows[:4], ["node9", 0, "ocs", "7", "ocs", "19"]]
    after = PortMap.from_rows("new.csv", ["node9", "node0", "node1"], rows)
    assert list(MapChange(before, after).lines()) == [
        "node2 is gone (2 NICs)",
        "node9 is new (1 NIC)",
        "NIC 1 of node0 moves from ports 2 and 14 of ocs to ports 9 and 14 of ocs",
        "servers have other numbers, and with them the ranks of a job",
    ]


def test_a_server_with_another_name_and_all_its_ports_is_renamed():
    before = port_map_of(3, 2, SIZE)
    after = replace(before, servers=("node0", "spine", "node2"))
    maps = MapChange(before, after)
    assert list(maps.lines()) == ["node1 is called spine"]
    circuit = NicPair(0, 0, 1, 0)
    assert maps.translate([circuit]) == {circuit}


def test_a_renamed_server_whose_nics_change_as_well_keeps_the_light_of_the_others():
    before = port_map_of(3, 2, SIZE)
    rows = [row for row in before.rows if row[:2] not in {("node1", 1), ("node2", 1)}]
    rows = [("spine", *row[1:]) if row[0] == "node1" else row for row in rows]
    rows += [("spine", 1, "ocs", "12", "ocs", "24"), ("node0", 2, "ocs", "11", "ocs", "23")]
    maps = MapChange(before, PortMap.from_rows("new.csv", ["node0", "spine", "node2"], rows))
    assert list(maps.lines()) == [
        "node1 is called spine",
        "NIC 1 of node1 moves from ports 4 and 16 of ocs to ports 12 and 24 of ocs",
        "NIC 1 of node2 is gone",
        "NIC 2 of node0 is new",
    ]
    kept, gone = NicPair(0, 0, 1, 0), NicPair(0, 1, 1, 1)
    assert maps.translate([kept, gone]) == {kept}


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_renamed_a_nic_with_its_ports_stays(seed):
    rng = random.Random(seed)
    before = port_map_of(4, 3, 12)
    left = {name: rng.randint(1, 3) for name in before.servers}
    rows = [row for row in before.rows if row[1] < left[row[0]]]
    names = {name: rng.choice((name, f"new{rng.random()}")) for name in before.servers}
    rows = [(names[row[0]], *row[1:]) for row in rows]
    servers = rng.sample(list(names.values()), 4)
    maps = MapChange(before, PortMap.from_rows("new.csv", servers, rows))
    for (server, nic), (new_server, new_nic) in maps.same.items():
        assert (servers[new_server], new_nic) == (names[before.servers[server]], nic)
    assert len(maps.same) == len(rows)


def test_failed_parts_follow_their_server():
    before = port_map_of(3, 2, SIZE)
    rows = [row for row in before.rows if row[0] != "node1"]
    after = PortMap.from_rows("new.csv", ["node2", "node0"], rows)
    parts = [parse_part(text) for text in ("nic:0/1", "server:1", "gpu:2/7", "switch:ocs")]
    shown = list(map(str, translate_parts(parts, MapChange(before, after))))
    assert shown == ["nic:1/1", "gpu:0/7", "switch:ocs"]


def test_a_server_inserted_at_the_top_rewires_nobody(region, control):
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    assert control("drain", path, "nic:2/1")[0] == 0
    before = lit(emulator)
    write_rows(path, ["new,0,9,21", *rows_of(path)])
    refused = "ports.csv has changed since the last change of circuits: new is new (1 NIC), and 1 m"
    for words in (("apply", path, "--reapply", "--yes"), ("plan", path, "--clear")):
        status, _, err = control(*words)
        assert status == 2
        assert refused in err.splitlines()[-1]
        assert lit(emulator) == before
    status, out, _ = control("watch", path, "--once")
    assert "ready; 4 servers, 8 NICs on ocs; 2 circuits held" in out
    status, out, _ = control("remap", path)
    assert out.splitlines()[1:] == [
        "  new is new (1 NIC)",
        "  servers have other numbers, and with them the ranks of a job",
        "  2 circuits not touched",
    ]
    assert control("remap", path, "--apply")[2].splitlines()[-1].endswith("give --yes")
    assert control("remap", path, "--apply", "--yes")[0] == 0
    assert lit(emulator) == before
    status, out, _ = control("plan", path, "--reapply")
    assert out.splitlines()[-1] == "nothing changes: 2 circuits stay"
    # the circuits and the failed NIC are those of the same machines, under other numbers
    status, out, _ = control("plan", path, "--clear")
    assert "  delete       2  1/0-2/0  3/0-4/0" in out
    assert control("resume", path, "nic:3/1")[0] == 0
    status, out, _ = control("rollback", path, "--change", 1)
    assert "  delete       2  1/0-2/0  3/0-4/0" in out


def test_a_server_that_is_gone_takes_its_circuits_with_it(region, control):
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    write_rows(path, [row for row in rows_of(path) if not row.startswith("node3")])
    for words in (("plan", path, "--clear"), ("apply", path, "--clear", "--yes"), ("serve", path)):
        status, _, err = control(*words)
        assert (status, "node3 is gone (2 NICs)" in err) == (2, True)
    status, out, _ = control("remap", path)
    assert "  delete node2/0 - node3/0 (5-19 of ocs, 7-17 of ocs)" in out.splitlines()
    status, out, _ = control("remap", path, "--apply", "--yes")
    assert status == 0
    assert sorted(lit(emulator).items()) == [(1, 15), (3, 13)]
    status, out, _ = control("watch", path, "--once")
    assert out.startswith("region: ready; 3 servers, 6 NICs on ocs; 1 circuit held")
    status, out, _ = control("rollback", path, "--change", 2)
    assert status == 2
    kinds = [line.split()[3] for line in control("audit", path)[1].splitlines()]
    assert kinds == ["remap", "remap", "apply"]


def test_a_rollback_beyond_a_map_says_which_nics_are_missing(region, control):
    path, _ = region
    assert control("apply", path, "--add", "2/0-3/0", "--yes")[0] == 0
    assert control("apply", path, "--clear", "--yes")[0] == 0
    write_rows(path, [row for row in rows_of(path) if not row.startswith("node3")])
    assert control("remap", path, "--apply", "--yes")[0] == 0
    status, _, err = control("rollback", path, "--change", 2, "--apply", "--yes")
    assert status == 2
    assert re.search(r"before change 2, 1 circuit joined NICs that the port map does not have", err)
    assert "node3 is gone (2 NICs)" in err


def test_drift_stays_visible_under_the_new_map(region, control):
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    emulator.matrix.change([1], [])
    write_rows(path, ["new,0,9,21", *rows_of(path)])
    assert control("remap", path, "--apply", "--yes")[0] == 0
    out = control("watch", path, "--once")[1]
    assert "drift: 1 circuit missing (1/0-2/0)" in out


@pytest.mark.parametrize(
    ("row", "spares", "message"),
    [
        ("node3,1,99,24", "", "has no port "),
        (None, 'spares = ["3/7"]', "job.spares '3/7': expected a GPU"),
    ],
)
def test_a_map_by_which_the_region_could_not_start_is_not_taken_up(
    region, control, row, spares, message
):
    path, emulator = region
    assert control("apply", path, "--add", "0/0-1/0,2/0-3/0", "--yes")[0] == 0
    before, rows = lit(emulator), rows_of(path)
    path.write_text(path.read_text().replace("[job]", f"[job]\n{spares}"))
    write_rows(path, [*rows[:-1], row] if row else rows[:-2])
    for words in (("remap", path), ("remap", path, "--apply", "--yes")):
        status, _, err = control(*words)
        assert (status, message in err.splitlines()[-1]) == (2, True)
        assert lit(emulator) == before
    write_rows(path, rows)
    assert control("plan", path, "--reapply")[0] == 0


def test_a_failed_switch_that_the_map_lacks_is_forgotten():
    before = port_map_of(3, 2, SIZE)
    after = port_map_of(3, 2, SIZE, switch="other")
    part = parse_part("switch:ocs")
    assert translate_parts([part], MapChange(before, after)) == []
    assert translate_parts([part], MapChange(before, before)) == [part]


def test_a_map_that_is_taken_up_already_has_the_keys_of_a_plan(region, control):
    path, _ = region
    for words in ((), ("--apply",)):
        shown = json.loads(control("remap", path, *words, "--json", "-")[1])
        assert (shown["plan"], shown["map"], shown["dark"], shown["change"]) == (None, [], [], None)
        assert shown.get("result") == ("unchanged" if words else None)
    write_rows(path, [*rows_of(path), "new,0,9,21"])
    assert "not touched" not in control("remap", path)[1]  # there is no circuit
