"""``lightloom schedule``: what it prints, and every kind of wrong input in one line."""

import contextlib
import csv
import io
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from lightloom import schedule as schedulers
from lightloom.cli import run_command
from lightloom.cli.schedule import EXAMPLES
from lightloom.demand.byte_matrix import write_npz

DRAWN = "schedule --synthetic pair --servers 4"
DELAY = "--fixed"
ZERO = f"schedule a.npy {DELAY} 0"
PARTS = "expected of server:3, nic:2/1 (server/NIC), eps:0/1, plane:5, joined by commas"
MATRIX = np.array([[0, 500, 700], [200, 0, 100], [900, 400, 0]])


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    np.save("a.npy", MATRIX)
    np.save("wide.npy", MATRIX[:2])
    np.save("empty.npy", np.zeros((3, 3)))
    np.save("inside.npy", np.eye(3))
    np.save("held.npy", np.ones((3, 3)) - np.eye(3))
    np.save("small.npy", np.array([[0, 5], [7, 0]]))
    return tmp_path


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("schedule a.npy", f"{DELAY} is missing (Time that a reconfiguration takes, such as "
         f"'25 ms'); for example: {EXAMPLES[0]}"),
        (f"schedule {DELAY} 0", "expected a demand FILE or --synthetic REGIME, neither is given; "
         f"for example: {EXAMPLES[1]}"),
        (f"{DRAWN} a.npy {DELAY} 0", "expected a demand FILE or --synthetic REGIME, both are "
         f"given; for example: {EXAMPLES[1]}"),
        # the switch
        (f"schedule a.npy {DELAY} soon",
         f"{DELAY} soon: cannot read 'soon' as a time such as '25 ms'"),
        (f"schedule a.npy {DELAY} 5Gbps",
         f"{DELAY} 5Gbps: cannot read '5Gbps' as a time such as '25 ms'"),
        (f"schedule a.npy {DELAY} -1", f"{DELAY} -1: expected at least 0"),
        (f"schedule a.npy {DELAY} -1us", f"{DELAY} -1us: expected at least 0"),
        (f"schedule a.npy {DELAY} nan", f"{DELAY} nan: expected a finite number, got 'nan'"),
        (f"schedule a.npy {DELAY} 1e30s", f"{DELAY} 1e30s: expected at most 1,000,000"),
        (f"{ZERO} --rate 0", "--rate 0: expected at least 1e-09"),
        (f"{ZERO} --rate -400", "--rate -400: expected at least 1e-09"),
        (f"{ZERO} --rate 1e99", "--rate 1e99: expected at most 1,000,000,000"),
        (f"{ZERO} --rate x", "--rate x: cannot read 'x' as a rate such as 400, 400G or '400 Gb/s'"),
        (f"{ZERO} --switches 0", "--switches 0: expected at least 1"),
        (f"{ZERO} --switches 1025", "--switches 1025: expected at most 1,024"),
        (f"{ZERO} --switches 2 --partial",
         "partial reconfiguration is for one switch, got 2 switches"),
        (f"{ZERO} --time-limit -1", "--time-limit -1: expected at least 0"),
        (f"{ZERO} --methods bnv", "--methods bnv: expected one of round-robin, "
         "open-shop, bvn, threshold, maximal, greedy, critical, auto; did you mean 'bvn'?"),
        (f"{ZERO} --methods ,", "--methods: expected one of round-robin, open-shop, "
         "bvn, threshold, maximal, greedy, critical, auto"),
        # chunks
        (f"{ZERO} --chunks 0", "--chunks 0: expected at least 1"),
        (f"{ZERO} --chunks 4", "--chunks needs the time over which compute produces them; for "
         "example: --chunks 4 --produced-over 2ms"),
        (f"{ZERO} --produced-over 1ms", "--produced-over is for chunks; give --chunks as well, or "
         "leave it out"),
        (f"{ZERO} --needed-over 1ms", "--needed-over is for chunks; give --chunks as well, or "
         "leave it out"),
        (f"{ZERO} --chunks 2 --produced-over 1ms --partial", "chunks are for one all-stop "
         "crossbar; leave --ports, --partial and --switches out"),
        # circuits
        (f"{ZERO} --ports 0", "--ports 0: expected at least 1"),
        (f"{ZERO} --ports -6", "--ports -6: expected at least 1"),
        (f"{ZERO} --ports 99999", "--ports 99999: expected at most 65,535"),
        (f"{ZERO} --ports six", "--ports six: expected a whole number"),
        (f"{ZERO} --eps-rate -1", "--eps-rate -1: expected at least 0"),
        (f"{ZERO} --held-circuits held.npy", "--held-circuits is for circuits; give "
         "--ports as well, or leave it out"),
        (f"{ZERO} --relay", "--relay is for circuits; give --ports or --eps-rate as well, or "
         "leave it out"),
        (f"{ZERO} --planes", "--planes is for circuits; give --ports as well, or "
         "leave it out"),
        (f"{ZERO} --allocators best", "--allocators is for circuits; give --ports "
         "as well, or leave it out"),
        (f"{ZERO} --ports 2 --eps-rate -1",
         "--eps-rate -1: expected at least 0"),
        (f"{ZERO} --failed nic:0/0", "--failed is for circuits; give --ports as "
         "well, or leave it out"),
        (f"{ZERO} --ports 2 --failed srver:1", f"--failed 'srver:1': {PARTS}; "
         "did you mean 'server'?"),
        (f"{ZERO} --ports 2 --failed nic:1", f"--failed 'nic:1': {PARTS}"),
        (f"{ZERO} --ports 2 --failed eps:1/-1", f"--failed 'eps:1/-1': {PARTS}"),
        (f"{ZERO} --ports 2 --failed ,", f"--failed ',': {PARTS}"),
        (f"{ZERO} --ports 2 --failed server:3", "failed server: 3, expected 0 to 2"),
        (f"{ZERO} --ports 2 --failed nic:1/2", "failed NIC of server 1: 2, "
         "expected 0 to 1"),
        (f"{ZERO} --ports 2 --failed eps:1/2", "failed EPS NIC of server 1: 2, "
         "expected 0 to 1"),
        (f"{ZERO} --ports 2 --eps-rate 700 --failed eps:1/0", "--failed: EPS "
         "NICs need an --eps-rate that is a multiple of 400 Gb/s, got 700"),
        (f"{ZERO} --ports 2 --relay --failed eps:1/0", "failed: EPS NIC 1/0: "
         "relaying expects one EPS rate for all servers; leave relaying out"),
        (f"schedule wide.npy {DELAY} 0 --ports 2 --failed server:1", "wide.npy: circuits need a "
         "square demand, got 2 sources and 3 destinations; leave --ports out for schedules of "
         "permutations"),
        (f"schedule small.npy {DELAY} 0 --ports 2 --held-circuits held.npy",
         "held.npy: circuits of 3 servers, but the demand has 2"),
        (f"{ZERO} --ports 1 --held-circuits held.npy",
         "circuits: server 0 has 1 port but 2 circuits"),
        (f"{ZERO} --ports 2 --held-circuits held.npy --failed nic:1/1",
         "circuits: server 1 has 1 port but 2 circuits; leave circuits that end at failed parts "
         "out of those held"),
        (f"{ZERO} --ports 6 --held-circuits a.npy",
         "circuits: expected a symmetric matrix with zeros on the diagonal"),
        (f"{ZERO} --ports 6 --held-circuits no.npy", "no.npy: no such file"),
        (f"{ZERO} --ports 6 --held-circuits out.npz",
         "out.npz: expected an array 'circuits', there is 'demand'"),
        (f"schedule wide.npy {DELAY} 0 --ports 6", "wide.npy: circuits need a square demand, got "
         "2 sources and 3 destinations; leave --ports out for schedules of permutations"),
        # demand
        (f"schedule empty.npy {DELAY} 0", "empty.npy: has no bytes to send; nothing to schedule"),
        (f"schedule inside.npy {DELAY} 0", "inside.npy: has no bytes to send; "
         "nothing to schedule"),
        (f"schedule no.npy {DELAY} 0", "no.npy: no such file"),
        (f"schedule . {DELAY} 0", ".: expected a file, got a folder"),
        (f"{ZERO} --servers 4", "--servers is for --synthetic; nothing reads it "
         "with a file"),
        (f"{ZERO} --seed 4", "--seed is for --synthetic; nothing reads it with a "
         "file"),
        (f"{DRAWN} {DELAY} 0 --token-bytes 0", "--token-bytes 0: expected at least 1"),
        (f"schedule --synthetic mixtrall {DELAY} 0", "unknown demand regime 'mixtrall'; did you "
         "mean 'mixtral'?; known: balanced, skewed, auxiliary, natural, learned, mixtral, pair, "
         "sparse, calm, volatile, extreme, drifting, uniform, W0_balanced to W7_burst"),
        (f"schedule --synthetic pair --servers 0 {DELAY} 0", "--servers 0: expected at least 2"),
        (f"schedule --synthetic pair --servers 1 {DELAY} 0", "--servers 1: expected at least 2"),
        (f"{DRAWN} {DELAY} 0 --tokens 0", "--tokens 0: expected at least 1"),
        (f"{DRAWN} {DELAY} 0 --seed -1", "--seed -1: expected at least 0"),
    ],
)  # fmt: skip
def test_exact_line(refused, command, expected, folder):
    (folder / "out.npz").write_bytes(write_npz({"demand": MATRIX}))
    before = sorted(folder.iterdir())
    assert refused(command.replace('"', "")) == expected
    assert sorted(folder.iterdir()) == before


def test_standard_input(refused, monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"1,x\n2,3\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    line = refused(f"schedule - {DELAY} 0")
    assert line == "standard input, line 1: expected whole bytes, got 'x'"


def test_outputs_are_refused_before_anything_is_computed(refused):
    job = f"{DRAWN} {DELAY} 0"
    assert refused(f"{job} --json - --csv -") == (
        "--json - and --csv - both ask for standard output; name one's file"
    )
    assert refused(f"{job} --svg -") == "--svg -: expected the name of a file, such as ./out"
    assert refused(f"{job} --out x") == "--out x: expected a name that ends in .npz"
    assert refused(f"{job} --html /no/x") == "/no/x: there is no folder /no; make it first"
    assert refused(f"{job} --html x --svg x") == (
        "x: named for two outputs; give each a file of its own"
    )


def test_golden_table(lightloom, golden, folder):
    """Everything that is printed but the time to compute, on a matrix that is stored with it."""
    matrix = Path(__file__).parents[2] / "golden" / "schedule_demand.csv"
    (folder / "demand.csv").write_text(matrix.read_text())
    outcome = lightloom(
        f"schedule demand.csv {DELAY} 100us --rate 100 --ports 3 "
        "--allocators paper,reference,static,best"
    )
    assert outcome.status == 0
    assert outcome.err == ""
    lines = [line.rstrip() for line in outcome.out.splitlines()]
    # the last column of a table, and the padding that is as wide
    untimed = [
        re.sub(r"(?<=[\d-]) {2,}[\d,]+$", " #", line) if "." in line else line for line in lines
    ]
    rules = [re.sub("─+", "─", line) for line in untimed]
    golden("schedule.txt", "\n".join(rules) + "\n")


def test_what_demand_writes_is_what_schedule_reads(lightloom, folder):
    for view in ("rank", "server --ranks-per-server 2"):
        lightloom(f"demand mixtral --view {view} --csv demand.csv")
        outcome = lightloom(f"schedule demand.csv {DELAY} 1us --methods bvn --json -")
        content = json.loads(outcome.out)
        rows = (folder / "demand.csv").read_text().splitlines()[1:]
        cells = [[int(cell) for cell in row.split(",")] for row in rows]
        between = sum(size for source, target, _, size in cells if source != target)
        assert content["profile"]["total_bytes"] == between


def test_drawn_demand_is_that_of_demand(lightloom):
    lightloom("demand pair --view rank --csv demand.csv --seed 5")
    files = ["demand.csv", "--synthetic pair --servers 8 --seed 5"]
    read, made = (
        json.loads(lightloom(f"schedule {name} --reconfiguration-delay 1us --json -").out)[
            "profile"
        ]
        for name in files
    )
    assert read == made


def test_outputs(lightloom, folder):
    outcome = lightloom(
        f"schedule a.npy {DELAY} 1us --ports 2 --json a.json --csv a.csv --out a.npz "
        "--html a.html --svg a.svg"
    )
    assert outcome.status == 0
    content = json.loads((folder / "a.json").read_text())
    assert set(content["circuits"]) == set(schedulers.ALLOCATION_METHODS) - {"exact"}
    rows = csv.DictReader(io.StringIO((folder / "a.csv").read_text()))
    assert next(row["method"] for row in rows if row["best"] == "True") == content["winner"]
    with np.load(folder / "a.npz") as arrays:
        assert (arrays["demand"] == MATRIX).all()
        served = np.zeros((3, 3))
        for slot, hold in zip(arrays["permutations"], arrays["holds_bytes"], strict=True):
            for row, column in enumerate(slot):
                served[row, column] += hold * (column >= 0)
        assert (served >= MATRIX).all()
    assert "<svg" in (folder / "a.html").read_text()
    assert (folder / "a.svg").read_text().startswith("<svg")


def test_an_earlier_answer_is_what_is_held(lightloom):
    lightloom(f"schedule a.npy {DELAY} 1us --ports 2 --out a.npz")
    outcome = lightloom(f"schedule a.npy {DELAY} 1us --ports 2 --held-circuits a.npz")
    assert "Keep the circuits given: no other circuits are faster" in outcome.out


def test_standard_output_has_the_rows_alone(lightloom):
    outcome = lightloom(f"schedule a.npy {DELAY} 1us --csv -")
    assert outcome.out.startswith("kind,method,best,length_s")
    assert "Schedules of permutations" in outcome.err
    outcome = lightloom(f"schedule a.npy {DELAY} 1us --json -")
    assert json.loads(outcome.out)["interrupted"] is False


def test_the_diagonal_is_left_out_and_said(lightloom, folder):
    np.save(folder / "b.npy", MATRIX + np.diag([1000, 2000, 3000]))
    lines = lightloom(f"schedule b.npy {DELAY} 1us").out.splitlines()
    assert lines[0] == "6 kB on the diagonal stay in their server: left out"


def test_chosen_methods_alone(lightloom):
    out = lightloom(f"{ZERO} --methods bvn,critical,bvn --ports 1 --allocators best")
    assert out.out.count(" bvn ") == 1
    for name in ("maximal", "round-robin", "reference", "auto"):
        assert f" {name} " not in out.out


def test_other_systems_and_relaying_are_asked_for(lightloom):
    job = f"schedule a.npy {DELAY} 1us --ports 1"
    outputs = (lightloom(job).out, lightloom(f"{job} --relay --no-systems").out)
    plain, more = (" ".join(text.split()) for text in outputs)
    assert "RotorNet, relaying" in plain
    assert "relayed: split" not in plain
    assert "RotorNet" not in more
    assert "relayed: split" in more


def test_exact_circuits_are_asked_for_and_prove_a_bound(lightloom):
    out = lightloom(f"{ZERO} --methods bvn --ports 1 --allocators all,exact").out
    assert " exact " in out
    assert "static " in out
    assert re.search(
        r"No circuits beat [\d.]+ ns \(proved with split\); exact is within 0\.\d\d%", out
    )


def test_failed_parts_are_not_used_and_are_named(lightloom, folder):
    job = f"schedule --synthetic mixtral --servers 4 {DELAY} 0 --methods bvn --ports 3"
    files = "--out a.npz --json a.json"
    parts = "--failed server:3,nic:2/1,nic:2/2,eps:0/1,plane:0"
    out = lightloom(f"{job} {parts} --planes {files}").out
    words = "failed: server 3, NIC 2/1, NIC 2/2, EPS NIC 0/1, plane 0"
    assert words in " ".join(out.split())
    assert "from and to failed servers: left out" in out
    with np.load(folder / "a.npz") as arrays:
        assert arrays["circuits"].sum(axis=1).tolist() == [2, 2, 0, 0]
        assert not arrays["demand"][3].any()
        assert not arrays["demand"][:, 3].any()
        assert not (arrays["nics"][:, [1, 3]] == 0).any()
    assert json.loads((folder / "a.json").read_text())["inputs"]["failed"] == {
        "nics": [[2, 1], [2, 2]],
        "eps_nics": [[0, 1]],
        "servers": [3],
        "planes": [0],
    }
    lightloom(f"{job} {files}")
    assert json.loads((folder / "a.json").read_text())["inputs"]["failed"] is None


def test_a_failed_eps_nic_slows_its_server(lightloom, folder):
    job = f"{ZERO} --methods bvn --no-systems --ports 1 --allocators static"
    times = []
    for failed in ("", "--failed eps:0/1,eps:2/1"):
        lightloom(f"{job} {failed} --json a.json")
        times.append(json.loads((folder / "a.json").read_text())["circuits"]["static"]["split_s"])
    assert times[1] > times[0]


def test_planes_that_fit_and_that_do_not(lightloom, folder):
    job = f"{ZERO} --methods bvn --planes --allocators static --no-systems"
    # three circuits that all meet each other: two planes cannot hold them, three can
    out = lightloom(f"{job} --ports 2 --out two.npz").out
    assert "Planes: the circuits of static do not lie on 2 planes, NIC i of every server" in out
    with np.load(folder / "two.npz") as arrays:
        assert "nics" not in arrays
    path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    np.save(folder / "path.npy", path)
    line = np.where(path, 10**9, 0)
    np.save(folder / "line.npy", line)
    job = f"schedule line.npy {DELAY} 0 --methods bvn --planes --allocators best --no-systems"
    out = lightloom(
        f"{job} --ports 2 --held-circuits path.npy --eps-rate 0 --out a.npz --json a.json"
    )
    assert (
        "Planes: the circuits of best lie on 2 planes, NIC i of every server on plane i." in out.out
    )
    with np.load(folder / "a.npz") as arrays:
        nics = arrays["nics"]
        assert len(nics) == arrays["circuits"].sum() // 2
        assert (nics[:, 1] == nics[:, 3]).all()
    assert json.loads((folder / "a.json").read_text())["planes"] == "assigned"


def test_rectangles_have_schedules_without_circuits(lightloom):
    outcome = lightloom(f"schedule wide.npy {DELAY} 1us")
    assert outcome.status == 0
    assert "wide.npy: 2 x 3" in outcome.out
    assert "Circuits" not in outcome.out


def test_an_interrupt_keeps_what_finished(lightloom, monkeypatch, folder):
    calls = itertools.count()
    decompose = schedulers.decompose

    def interrupted(*arguments, **options):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return decompose(*arguments, **options)

    monkeypatch.setattr(schedulers, "decompose", interrupted)
    outcome = lightloom(f"schedule a.npy {DELAY} 1us --ports 2 --json a.json --svg a.svg")
    assert outcome.status == 130
    assert outcome.err == "wrote a.svg\nwrote a.json\nlightloom: interrupted\n"
    assert "open-shop" in outcome.out
    assert "Interrupted: only finished results are shown." in outcome.out
    content = json.loads((folder / "a.json").read_text())
    assert content["interrupted"] is True
    assert list(content["schedules"]) == ["round-robin", "open-shop"]


@pytest.mark.parametrize(("text", "delay_s"), [("25 ms", 0.025), ("0.5s", 0.5), ("0", 0.0)])
def test_a_delay_has_a_unit(text, delay_s):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = run_command(["schedule", "a.npy", "--reconfiguration-delay", text, "--json", "-"])
    assert status == 0
    assert json.loads(out.getvalue())["inputs"]["delay_s"] == pytest.approx(delay_s)


def test_an_eps_and_one_crossbar_have_a_table_of_its_own(capsys):
    command = "--reconfiguration-delay 10us --no-systems --json a.json"
    run_command(f"{DRAWN} {command} --eps-rate 100".split())
    shown = capsys.readouterr().out
    assert "Circuits and packets: 400 Gb/s per circuit, 100 Gb/s of each" in shown
    found = json.loads(Path("a.json").read_text())["hybrids"]
    assert list(found) == ["balanced", "solstice", "eclipse"]
    assert found["balanced"]["length_s"] == min(row["length_s"] for row in found.values())
    assert all(row["over_bound"] >= 1 for row in found.values())
    run_command(f"{DRAWN} {command} --eps-rate 100 --relay --time-limit 1s --csv -".split())
    assert "relayed_bytes,relay_memory_bytes" in capsys.readouterr().out
    relayed = json.loads(Path("a.json").read_text())["hybrids"]
    assert all(relayed[name]["length_s"] <= row["length_s"] for name, row in found.items())
    for none in ("", " --eps-rate 0", " --eps-rate 100 --ports 2"):
        run_command(f"{DRAWN} {command}{none}".split())
        assert "hybrids" not in json.loads(Path("a.json").read_text())


def test_an_eps_and_a_crossbar_of_many_lines_is_refused(lightloom):
    np.save("many.npy", np.ones((257, 257), dtype=np.int64))
    outcome = lightloom(f"schedule many.npy {DELAY} 0 --eps-rate 1")
    assert "257 x 257: schedules of circuits and packets have at most 256 lines" in outcome.err


def test_chunks_have_a_table_of_its_own(capsys):
    command = f"{DRAWN} --reconfiguration-delay 10us --no-systems --methods greedy --json a.json"
    run_command(f"{command} --chunks 3 --produced-over 100us --eps-rate 100".split())
    shown = " ".join(capsys.readouterr().out.split())
    assert "3 chunks, produced over 100 us: 400 Gb/s per circuit, 100 Gb/s of each" in shown
    found = json.loads(Path("a.json").read_text())
    assert found["inputs"]["chunks"] == 3
    assert list(found["chunked"]) == ["pipelined", "in-order", "together"]
    lengths = {name: row["length_s"] for name, row in found["chunked"].items()}
    assert lengths["pipelined"] == min(lengths.values()) >= 100e-6
    # waiting is no shorter than compute and the whole demand after it
    assert lengths["together"] >= 100e-6 + found["hybrids"]["balanced"]["lower_bound_s"]
    run_command(f"{command} --chunks 3 --produced-over 0 --needed-over 1ms --csv -".split())
    assert "lateness_s,lateness_bound_s,late_chunks" in capsys.readouterr().out
    found = json.loads(Path("a.json").read_text())["chunked"]["pipelined"]
    assert found["lateness_s"] >= found["lateness_bound_s"]
    assert set(found["late_chunks"]) <= {0, 1, 2}
    run_command(command.split())
    assert "chunked" not in json.loads(Path("a.json").read_text())
