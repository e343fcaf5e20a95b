"""``lightloom packets``: what it prints and writes, and every kind of wrong input in one line."""

import csv
import io
import json
import re
import signal
import time
from pathlib import Path

import numpy as np
import polars
import pytest

from lightloom.cli import run_command
from lightloom.packets import TRANSPORTS

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "packets.toml"
NET = "packets --hosts 8 --rate 100"
RUN = f"{NET} --transport ndp --pattern permutation --bytes 200kB"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("flows.csv").write_text("src,dst,bytes,start_us\n0,7,20000,0\n1,7,10000,1.5\n")
    Path("far.csv").write_text("src,dst,bytes\n0,1,5\n\n0,8,5\n")
    halves = [f"{host},{'left' if host < 4 else 'right'}" for host in range(8)]
    Path("parts.csv").write_text("\n".join(["a,b", *halves]) + "\n")
    np.save("m.npy", np.array([[0, 5000], [700, 0]]))
    return tmp_path


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_flows_of_a_file(lightloom):
    outcome = lightloom(f"{NET} --transport ideal --flows flows.csv --csv -")
    assert outcome.status == 0
    first, second = rows(outcome.out)
    assert list(first) == ["flow", "src", "dst", "bytes", "start_us", "fct_us", "slowdown"]
    assert (first["flow"], second["start_us"], first["bytes"]) == ("0", "1.5", "20000")
    assert "All 2 flows finished" in outcome.err
    # 4 packets of 4,160 B and one of 3,680 B over 6 links of 100 Gb/s and 1 us, and an
    # acknowledgment back, alone
    alone_us = (4 + 5) * 0.3328 + 0.2944 + 6 + 6 * 0.00512 + 6
    assert float(first["fct_us"]) == pytest.approx(alone_us)
    assert float(second["fct_us"]) > (3 + 3) * 0.3328


def test_periods_that_nothing_shows_are_refused(refused):
    line = "series.period_s is for --series, --html and --json; give one of them as well"
    assert refused(f"{RUN} --set series.period_s=5us") == line
    assert refused(f"{RUN} --csv - --set series.period_s=5us") == line


def test_periods_of_series_are_as_long_as_asked_for(lightloom):
    for period_us in (5.0, 20.0):
        call = f"{RUN} --series s.csv --set series.period_s={period_us}us"
        assert lightloom(call).status == 0
        rows = list(csv.DictReader(io.StringIO(Path("s.csv").read_text())))
        spans = {round(float(row["end_us"]) - float(row["begin_us"]), 6) for row in rows[:-1]}
        assert max(spans) == period_us


def test_series_of_links_and_flows(lightloom):
    call = f"{NET} --transport ideal --flows flows.csv --json r.json"
    assert lightloom(call).status == 0
    alone = json.loads(Path("r.json").read_text())
    for name in ("s.csv", "s.parquet"):
        outcome = lightloom(f"{call} --series {name}")
        assert outcome.status == 0
        assert f"wrote {name}" in outcome.err
    found = rows(Path("s.csv").read_text())
    assert list(found[0]) == [
        "begin_us", "end_us", "kind", "number", "from_node", "to_node", "layer", "bytes", "gbps",
        "max_queue_bytes",
    ]  # fmt: skip
    first = found[0]
    assert [first[name] for name in ("from_node", "to_node", "layer")] == ["0", "tor-0", "host up"]
    # payload comes out of the first link after 1 us, at its rate
    assert (first["begin_us"], first["gbps"]) == ("1.0", "100.0")
    to_seven = [row for row in found if row["kind"] == "flow" and row["to_node"] == "7"]
    for flow, size in (("0", 20_000), ("1", 10_000)):
        own = [row for row in to_seven if row["number"] == flow]
        assert sum(int(row["bytes"]) for row in own) == size
        assert {row["from_node"] for row in own} == {flow}
        assert {(row["layer"], row["max_queue_bytes"]) for row in own} == {("", "")}
    # all that any link has carried is there, to the last acknowledgment
    carried = [0] * len(alone["links"]["sent_bytes"])
    for row in found:
        carried[int(row["number"])] += int(row["bytes"]) * (row["kind"] == "link")
    assert carried == alone["links"]["sent_bytes"]
    table = polars.read_parquet("s.parquet")
    assert table.columns == list(first)
    assert table["bytes"].to_list() == [int(row["bytes"]) for row in found]
    watched = json.loads(Path("r.json").read_text())
    for result in (alone, watched):
        del result["work"]["wall_s"]
    assert alone == watched


def test_a_tree_of_htsim_needs_no_size(lightloom):
    tier = "Downlink_speed_Gbps 400\nRadix_Down 4\nDownlink_Latency_ns 500\n"
    head = "Nodes 16\nTiers 2\nPodsize 16\n"
    Path("tree.topo").write_text(f"{head}Tier 0\n{tier}Radix_Up 4\nTier 1\n{tier}")
    Path("scenario.toml").write_text(
        'transport = "ndp"\n[network]\nlinks = "tree.topo"\n'
        '[traffic]\npattern = "permutation"\nsize_bytes = "9 kB"\n'
    )
    flows = "--transport ndp --pattern permutation --bytes 9kB"
    size = "--hosts 16 --rate 400"
    found = []
    for call in (f"{flows} --links tree.topo", f"{flows} --links tree.topo {size}",
                 "--scenario scenario.toml"):  # fmt: skip
        outcome = lightloom(f"packets {call} --csv -")
        assert outcome.status == 0
        found.append(outcome.out)
    assert found[0] == found[1] == found[2]
    assert len(rows(found[0])) == 16


def test_every_transport_runs(lightloom):
    for name in TRANSPORTS:
        outcome = lightloom(f"{NET} --transport {name} --pattern incast --fan-in 3 --bytes 50kB")
        assert outcome.status == 0
        text = " ".join(outcome.out.split())
        assert f"3 flows, 150 kB, by {name} over a fat tree of 4-port switches" in text
        assert "All 3 flows finished" in outcome.out


def test_the_tables_fit_a_terminal(lightloom):
    for name in TRANSPORTS:
        command = f"{NET} --transport {name} --pattern all-to-all --bytes 1MB --set seed=3"
        lines = lightloom(command).out.splitlines()
        assert lines[0].startswith("all-to-all in 1 group of 8: 56 flows, 56 MB, by")
        assert max(len(line.rstrip()) for line in lines) <= 80
        text = "\n".join(lines)
        assert re.search(r"time \[[mu]s\] +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+", text)
        assert "host down" in text
        assert re.search(r"packet-hops \([\d,.M]+ data, [\d,.M]+\s+control\)", text)
        assert f"Parameters of {name}'s reference, for the round trip here" in text


def test_parameters_are_shown_and_used(lightloom):
    outcome = lightloom(
        f"{RUN} --initial-window 1 --mtu 2kB --queue 50kB --paths 4 --json out.json"
    )
    assert "Parameters of ndp's reference, for the round trip here (*: as given)" in outcome.out
    assert "mtu_bytes 2,000 B*" in outcome.out
    found = json.loads(Path("out.json").read_text())
    assert found["settings"]["transport"]["window"] == 1
    assert found["settings"]["transport"]["paths"] == 4
    assert found["given"] == [
        "packet.mtu_bytes", "queue.size_bytes", "transport.paths", "transport.window",
    ]  # fmt: skip
    lightloom(f"{RUN} --json wide.json")
    wide = json.loads(Path("wide.json").read_text())
    # a window of one packet takes a round trip for each
    assert found["fct_s"]["min"] > 5 * wide["fct_s"]["min"]
    assert found["work"]["data_hops"] > 1.9 * wide["work"]["data_hops"]


def test_the_example_and_what_takes_precedence(lightloom):
    outcome = lightloom(f"packets --scenario {EXAMPLE} --json a.json")
    assert outcome.status == 0
    assert "by dctcp over 4 leaves and 4" in outcome.out
    changed = (
        f"packets --scenario {EXAMPLE} --transport roce --topology star --seed 7 --json b.json"
    )
    assert "by roce over one switch with 32\nhosts" in lightloom(changed).out
    found = json.loads(Path("b.json").read_text())
    assert (found["seed"], found["network"]["topology"]) == (7, "star")
    # what the file says of the other transport and topology is gone, queues stay
    assert found["settings"]["transport"] == {"preset": "auto", "recovery": "auto"}
    assert found["settings"]["queue"]["size_bytes"] == 800_000
    flows = f"packets --scenario {EXAMPLE} --flows flows.csv"
    assert "2 flows" in lightloom(flows).out


def test_a_matrix(lightloom):
    outcome = lightloom(f"{NET} --transport eqds --matrix m.npy --csv -")
    assert sorted((row["src"], row["bytes"]) for row in rows(outcome.out)) == [
        ("0", "5000"), ("1", "700"),
    ]  # fmt: skip


def test_equal_inputs_have_equal_results(lightloom):
    def found(seed):
        lightloom(f"{RUN} --seed {seed} --json a.json --csv a.csv")
        return json.loads(Path("a.json").read_text())["run_hash"], Path("a.csv").read_text()

    assert found(1) == found(1)
    assert found(1) != found(2)


def test_a_result_can_be_simulated_again(lightloom):
    lightloom(f"{RUN} --csv a.csv")
    outcome = lightloom(f"{NET} --transport ndp --flows a.csv --csv b.csv")
    assert outcome.status == 0
    assert {row["src"] for row in rows(Path("b.csv").read_text())} == set("01234567")


def test_rows_in_parquet(lightloom):
    lightloom(f"{RUN} --csv a.csv --parquet a.parquet")
    frame = polars.read_parquet("a.parquet")
    assert frame.columns == ["flow", "src", "dst", "bytes", "start_us", "fct_us", "slowdown"]
    assert frame["fct_us"].to_list() == [
        float(row["fct_us"]) for row in rows(Path("a.csv").read_text())
    ]


def test_unfinished_flows_have_empty_cells(lightloom):
    outcome = lightloom(f"{NET} --transport ideal --flows flows.csv --csv a.csv --until 13us")
    assert outcome.status == 0
    # the second one needs 6 packet times, 12 us and some
    cells = {row["flow"]: row["fct_us"] for row in rows(Path("a.csv").read_text())}
    assert cells == {"0": "", "1": ""}
    assert "0 of 2 flows finished by 13 us; unfinished: 0, 1; their receivers have" in outcome.out
    late = lightloom(f"{NET} --transport ideal --flows flows.csv --csv a.csv --until 15.5us")
    assert late.status == 0
    assert sum(row["fct_us"] == "" for row in rows(Path("a.csv").read_text())) == 1


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        # what is missing
        ("packets", "--hosts is missing; for example: lightloom packets --hosts "
         "128 --rate 100 --transport ndp --pattern permutation --bytes 2MB"),
        (NET, "--transport is missing; for example: lightloom packets --hosts 128 --rate 100"
         " --transport ndp --pattern permutation --bytes 2MB"),
        (f"{NET} --transport ndp", "expected --flows FILE, --pattern NAME or --programs FILE, "
         "there is none"),
        (f"{RUN} --flows flows.csv", "expected --flows FILE, --pattern NAME or "
         "--programs FILE, 2 are given"),
        (f"{NET} --transport ndp --pattern incast --bytes 1",
         "--fan-in is missing; --pattern incast needs it"),
        (f"{RUN} --group-size 4",
         "--group-size does not apply to --pattern permutation; leave it out"),
        # numbers and names
        ("packets --hosts 8 --rate 0 --transport ndp", "--rate 0: expected at least 0.001"),
        ("packets --hosts 8 --rate fast --transport ndp",
         "--rate fast: cannot read 'fast' as a rate such as 400, 400G or '400 Gb/s'"),
        ("packets --hosts 1 --rate 9 --transport ndp", "--hosts 1: expected at least 2"),
        ("packets --hosts 99999 --rate 9 --transport ndp",
         "--hosts 99999: expected at most 16,384"),
        (f"{NET} --transport npd", f"transport npd: expected one of {', '.join(TRANSPORTS)}; did "
         "you mean 'ndp'?"),
        (f"{NET} --transport ndp --pattern permutation --bytes -2MB",
         "--bytes -2MB: expected at least 1"),
        (f"{NET} --transport ndp --pattern permutations --bytes 2MB",
         "--pattern permutations: expected one of permutation, incast, all-to-all, matrix, load; "
         "did you mean 'permutation'?"),
        (f"{RUN} --link-delay -1", "--link-delay -1: expected at least 0"),
        (f"{RUN} --link-delay 5Gbps",
         "--link-delay 5Gbps: cannot read '5Gbps' as a time such as '25 ms'"),
        (f"{RUN} --until 0", "--until 0: expected more than 0"),
        (f"{RUN} --seed -1", "--seed -1: expected at least 0"),
        (f"{RUN} --topology tree",
         "--topology tree: expected one of fat-tree, leaf-spine, star, rail, dragonfly, links; did "
         "you mean 'fat-tree'?"),
        (f"{RUN} --topology links", "the topology links is that of a file of links; name it"),
        (f"{RUN} --topology rail --hosts-per-server 3",
         "8 hosts in servers of 3; expected full servers"),
        (f"{RUN} --links no.csv", "no.csv: no such file"),
        (f"{RUN} --links flows.csv --topology star",
         "links is for the topology links, not star; leave it out"),
        (f"{RUN} --outages flows.csv", "flows.csv, line 1: no column is called 'src'; expected a "
         "header with the columns a, b, dark_us, up_us"),
        (f"{RUN} --links parts.csv", "flow from host 6 to host 1: no path of switches joins them; "
         "through hosts, give it a route"),
        (f"{RUN} --links parts.csv --csv parts.csv",
         "parts.csv: is read as well; write results to another file"),
        (f"{RUN} --radix 7", "a fat tree of 8 hosts on 7-port switches; expected at least one host "
         "and an even number of ports, at most 1,024"),
        (f"{RUN} --radix 2", "8 hosts do not fit a fat tree of 2-port switches, which has 2; use 4 "
         "ports"),
        (f"{RUN} --spines 2", "spines is for the topology leaf-spine, not fat-tree; leave it out"),
        # packets and queues
        (f"{RUN} --mtu 200kB", "mtu 200000 B and header 64 B make packets of 200064 B; expected an "
         "MTU above 0 and packets of at most 65,535 B"),
        (f"{RUN} --mtu 9kB --queue 8kB", "packets of 9064 B do not fit a queue of 8000 B; enlarge "
         "the queue or make the MTU smaller"),
        (f"{RUN} --mtu -1", "--mtu -1: expected at least 0"),
        (f"{RUN} --queue 0", "--queue 0: expected at least 1"),
        (f"{RUN} --ecn 1kB,2kB,3,4",
         "--ecn 1kB,2kB,3,4: expected on, off or sizes such as '100kB,400kB,0.2'"),
        (f"{RUN} --ecn 2kB,1kB", "ECN marks from 2000 to 1000 B with probability 1; expected Kmin "
         "<= Kmax and 0 < Pmax <= 1"),
        (f"{RUN} --ecn much", "--ecn much: cannot read 'much' as a size such as '9 kB'"),
        (f"{RUN} --ecn 1kB,2kB,3", "--ecn 3: expected at most 1"),
        (f"{RUN} --pfc 1kB", "--pfc 1kB: expected on, off or sizes such as '60kB,48kB'"),
        (f"{RUN} --pfc 1kB,2kB",
         "PFC pauses above 1000 B and resumes below 2000 B; expected 0 < resume <= pause"),
        # the transport's own
        (f"{NET} --transport roce --pattern permutation --bytes 1 --initial-window 4",
         "--initial-window is no parameter of roce; it has preset, recovery"),
        (f"{NET} --transport roce --pattern permutation --bytes 1 --paths 4",
         "--paths is no parameter of roce; it has preset, recovery"),
        (f"{RUN} --paths 70000", "--paths 70000: expected at most 65,535"),
        (f"{RUN} --initial-window 0", "--initial-window 0: expected at least 1"),
        (f"{RUN} --set transport.windwo=4",
         "transport.windwo is no parameter of ndp; did you mean 'window'?"),
        (f"{RUN} --set transport.window=many",
         "transport.window = many: expected a whole number from 0 to 4,294,967,295"),
        (f"{RUN} --set queue.sise_bytes=4", "unknown key 'queue.sise_bytes'; did you mean "
         "'size_bytes'?"),
        (f"{RUN} --set color=4", "unknown key 'color'; known: network, transport, packet, queue, "
         "priority, classes, seed, until_s, threads, traffic, series"),
        (f"{RUN} --set seed", "--set seed: expected KEY=VALUE, such as queue.size_bytes=1MB"),
        (f"{RUN} --set a..b=1", "--set a..b=1: expected KEY=VALUE, such as queue.size_bytes=1MB"),
        # files
        (f"{NET} --transport ndp --flows no.csv", "no.csv: no such file"),
        (f"{NET} --transport ndp --flows far.csv",
         "far.csv, line 4: dst 8: expected a host from 0 to 7"),
        (f"{NET} --transport ndp --flows m.npy", "m.npy: not UTF-8 text"),
        (f"{NET} --transport ndp --flows flows.csv --csv flows.csv",
         "flows.csv: is read as well; write results to another file"),
        (f"{NET} --transport ndp --pattern matrix --matrix flows.csv",
         "flows.csv: column 'start_us': expected the columns src, dst and bytes alone"),
        ("packets --scenario no.toml",
         "no.toml: no such file"),
        (f"packets --scenario {EXAMPLE} --hosts 4",
         "group 8: expected a divisor of 4 hosts, at least 2"),
        (f"packets --scenario {EXAMPLE} --set traffic.group=x",
         "traffic.group = x: expected a whole number"),
        # outputs
        (f"{RUN} --csv - --json -",
         "--json - and --csv - both ask for standard output; name one's file"),
        (f"{RUN} --csv no/a.csv", "no/a.csv: there is no folder no; make it first"),
        (f"{RUN} --events-flow 1", "--events-flow is for --events; give it a file as well"),
        ("packets --links parts.csv --transport ndp --pattern permutation --bytes 9kB",
         "--hosts is missing: parts.csv does not say it, as a .topo file of htsim does"),
        ("packets --links no.topo --transport ndp --pattern permutation --bytes 9kB",
         "no.topo: no such file"),
        (f"{RUN} --series s.csv --set series.period_s=2s",
         "series.period_s = 2s: expected at most 1"),
        (f"{RUN} --series s.txt",
         "--series s.txt: expected a name that ends in .csv or .parquet"),
        (f"{RUN} --series s.csv --csv s.csv",
         "s.csv: named for two outputs; give each a file of its own"),
        (f"{RUN} --events a.csv --events-flow 8", "trace of flow 8: expected 0 to 7"),
        (f"{RUN} --events a.csv --max-events 0", "--max-events 0: expected at least 1"),
    ],
)  # fmt: skip
def test_exact_line(refused, command, expected, folder):
    before = sorted(folder.iterdir())
    outputs = "" if "--csv" in command else " --csv out.csv --parquet out.parquet --html out.html"
    assert refused(command + outputs) == expected
    assert sorted(folder.iterdir()) == before


def test_help_teaches(lightloom):
    text = lightloom("packets --help").out
    assert "lightloom packets --scenario examples/packets.toml" in text
    assert "permutation (one cycle)" in text


def test_an_interrupt_leaves_what_finished(spawn, folder):
    # 8 flows end soon, the others last for seconds
    lines = ["src,dst,bytes,start_us"]
    lines += [f"{host},{host + 64},1000,0" for host in range(8)]
    lines += [f"{host},{(host + 37) % 128},4000000000,1" for host in range(8, 128)]
    (folder / "many.csv").write_text("\n".join(lines) + "\n")
    out = folder / "out.csv"
    process = spawn(
        f"packets --hosts 128 --rate 100 --transport roce --flows {folder}/many.csv "
        f"--csv {out} --parquet {folder}/out.parquet"
    )
    for _ in range(600):
        if out.exists() and out.read_text().count("\n") >= 9:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.decode().splitlines()[-2:] == [
        "8 of 128 flows had finished", "lightloom: interrupted",
    ]  # fmt: skip
    assert sorted(int(row["flow"]) for row in rows(out.read_text())) == list(range(8))
    assert polars.read_parquet(folder / "out.parquet").height == 8


def test_a_ring_of_pauses_leaves_a_row_per_flow():
    ring = f"packets --scenario {ROOT}/examples/ring/deadlock.toml --csv a.csv"
    assert run_command(ring.split()) == 3
    assert [row["fct_us"] for row in rows(Path("a.csv").read_text())] == [""] * 3


def test_the_same_ring_without_pauses_or_with_other_routes(lightloom):
    ring = f"packets --scenario {ROOT}/examples/ring/deadlock.toml"
    outcome = lightloom(f"{ring} --transport ndp --csv a.csv")
    assert outcome.status == 0
    assert "3 flows, 6 MB, by ndp over the links of" in " ".join(outcome.out.split())
    first = rows(Path("a.csv").read_text())[0]
    assert first["route"] == "0 north east west 2"
    # the result has the routes as well, so that it can be simulated again
    assert lightloom(f"{ring} --transport ndp --flows a.csv --csv b.csv").status == 0
    again = {row["src"]: row["fct_us"] for row in rows(Path("b.csv").read_text())}
    assert set(again) == set("012")
    Path("flows.csv").write_text("src,dst,bytes\n0,2,2000000\n1,0,2000000\n2,1,2000000\n")
    assert lightloom(f"{ring} --flows flows.csv").status == 0


def test_a_circuit_that_is_dark_for_a_while(lightloom):
    links = f"packets --hosts 3 --rate 100 --transport ideal --links {ROOT}/examples/ring/links.csv"
    Path("flows.csv").write_text("src,dst,bytes\n0,1,100000\n")
    Path("dark.csv").write_text("a,b,dark_us,up_us\neast,north,0,50\n")

    def fct_us(options):
        outcome = lightloom(f"{links} --flows flows.csv --csv - {options}")
        assert outcome.status == 0
        return float(rows(outcome.out)[0]["fct_us"])

    # 24 packets of 4,160 B and one of 1,760 B over three links, with delays of 1, 0.5 and 1 us,
    # and 64 B back
    sent, last, back = 0.3328, 0.1408, 3 * 0.00512 + 2.5
    assert fct_us("") == pytest.approx(26 * sent + last + 2.5 + back)
    # all but the first link: from 50 us on
    assert fct_us("--outages dark.csv") == pytest.approx(50 + 25 * sent + last + 1.5 + back)
    Path("dark.csv").write_text("a,b,dark_us\neast,north,3\n")
    assert run_command(f"{links} --flows flows.csv --outages dark.csv".split()) == 3


def test_rails(lightloom):
    outcome = lightloom(
        f"{NET} --transport ideal --topology rail --hosts-per-server 4 --nvlink 900 "
        "--pattern all-to-all --bytes 50kB --events t.csv"
    )
    assert outcome.status == 0
    text = " ".join(outcome.out.split())
    assert "4 rails and servers of 4, NVLinks of 900 Gb/s, with 8 hosts at 100 Gb/s" in text
    found = rows(Path("t.csv").read_text())
    # from host 0 to host 5, that is on the rail of host 1
    path = [
        (row["from_node"], row["to_node"])
        for row in found
        if (row["flow"], row["number"], row["event"], row["kind"]) == ("4", "0", "sent", "data")
    ]
    assert path == [("0", "nvswitch-0"), ("nvswitch-0", "1"), ("1", "rail-1"), ("rail-1", "5")]


def test_a_stuck_network_has_a_status_of_its_own(monkeypatch, capsys):
    from lightloom import _core

    def stuck(*_arguments):
        raise _core.PacketsStuck("links wait for one another, 1 -> 2 -> 1; 1 unfinished: flow 0")

    monkeypatch.setattr(_core, "packet_simulate", stuck)
    assert run_command([*f"{NET} --transport ideal --flows flows.csv --csv a.csv".split()]) == 3
    assert capsys.readouterr().err == (
        "lightloom: links wait for one another, 1 -> 2 -> 1\n  1 unfinished: flow 0\n"
    )
    assert [row["fct_us"] for row in rows(Path("a.csv").read_text())] == ["", ""]


GOAL = """num_ranks 3
rank 0 {
c: calc 2000
s: send 40960b to 1
s requires c
}
rank 1 {
r: recv 40960b from 0
s: send 40960b to 2
s requires r
}
rank 2 {
r: recv 40960b from 1
}
"""


def test_programs_are_simulated_and_their_operations_written(lightloom, tmp_path):
    programs, rows, out = (tmp_path / name for name in ("x.goal", "operations.csv", "out.csv"))
    programs.write_text(GOAL)
    network = "--hosts 4 --rate 100 --topology star --transport ideal"
    done = lightloom(
        f"packets {network} --programs {programs} --operations {rows} --csv {out} --json -"
    )
    assert not done.status
    printed = " ".join(done.err.split())
    assert "1 computations that take 2 us, and 2 flows that take 11.33 us" in printed
    head, *lines = rows.read_text().splitlines()
    assert head == "rank,label,kind,flow,peer,bytes,begin_us,end_us,critical"
    assert lines[0] == "0,c,compute,-1,-1,0,0.0,2.0,true"
    assert lines[1].startswith("0,s,send,0,1,40960,2.0,")
    assert lines[2].startswith("1,r,receive,0,0,40960,7.66")
    assert out.read_text().splitlines()[0] == "flow,src,dst,bytes,start_us,began_us,fct_us,slowdown"
    several = lightloom(f"packets {network},roce --programs {programs} --operations {rows}")
    assert not several.status
    written = {path.name for path in tmp_path.iterdir()}
    assert {"operations-ideal.csv", "operations-roce.csv"} <= written


def test_operations_are_for_programs(lightloom, tmp_path):
    done = lightloom(
        "packets --hosts 4 --rate 100 --transport ideal --pattern permutation --bytes 1kB "
        f"--operations {tmp_path}/x.csv"
    )
    assert done.status == 2
    assert "--operations is for --programs, or flows with the column 'after'" in done.err
