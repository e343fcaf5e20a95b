"""Commands that read a trace: what they print and write, and what they refuse."""

import json

import numpy as np
import polars
import pytest
from tests.chakra_files import node, write
from tests.trace_jobs import GridJob

from lightloom.cli.trace import expand


@pytest.fixture
def trace_file(tmp_path):
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(GridJob(tp=2, pp=2, dp=4, ep=2).trace().to_json()))
    return file


def test_permutations_are_written(lightloom, tmp_path, trace_file):
    outputs = [tmp_path / name for name in ("s.json", "s.npz", "s.html")]
    done = lightloom(
        f"trace permutations {trace_file} --leaf 4 --json {outputs[0]} --out {outputs[1]} "
        f"--html {outputs[2]}"
    )
    assert not done.status
    assert "is delivered once" in done.out
    content = json.loads(outputs[0].read_text())
    arrays = np.load(outputs[1])
    assert arrays["permutations"].shape == (content["permutations"], 16)
    assert arrays["leaf_switches"].shape[1:] == (4, 8)
    for role in content["roles"]:
        assert role["slots"] == sum(content["calls"][index]["slots"] for index in role["calls"])
    assert outputs[2].read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--pod 2", "--up-links, --pod and --cores need --leaf"),
        ("--leaf 4 --cores 2", "--cores is for three tiers: add --pod"),
        ("--leaf 3", "16 hosts do not fill leaves of 3"),
        ("--step 4", "the trace has steps 0 to 0"),
    ],
)
def test_wrong_options_of_permutations_get_one_line(lightloom, trace_file, options, message):
    done = lightloom(f"trace permutations {trace_file} {options}")
    assert done.status == 2
    assert message in done.err


def test_slots_of_tiers(lightloom, trace_file):
    done = lightloom(
        f"trace slots {trace_file} --leaf 4 --latency 100ns --latency 2us --guard 1ms --json -"
    )
    assert not done.status
    leaf, spine = json.loads(done.out)["tiers"]
    assert (leaf["tier"], spine["tier"]) == (1, 2)
    for tier, latency_s in ((leaf, 1e-7), (spine, 2e-6)):
        best, smallest = tier["best"], tier["smallest"]
        assert best["time_s"] <= smallest["time_s"]
        assert best["slot_s"] > 1e-3 + latency_s
        lost = best["overhead_s"] + best["rounding_s"]
        assert best["time_s"] == pytest.approx(best["sending_s"] + lost)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--latency 1us --latency 2us", "given 2 times: expected once; --leaf has tiers"),
        ("--leaf 4 --latency 1us --latency 2us --latency 3us", "once for each of 2 tiers"),
        ("--latency 0 --guard 0", "neither latency nor guard time"),
    ],
)
def test_wrong_options_of_slots_get_one_line(lightloom, trace_file, options, message):
    done = lightloom(f"trace slots {trace_file} {options}")
    assert done.status == 2
    assert message in done.err


def test_expanded_ranks_are_written(lightloom, tmp_path, trace_file):
    parquet, again = tmp_path / "calls.parquet", tmp_path / "all.json"
    done = lightloom(f"trace expand {trace_file} --parquet {parquet} --json {again}")
    assert not done.status
    assert "no rank was recorded in addition" in done.out
    table = polars.read_parquet(parquet)
    written = json.loads(again.read_text())
    assert len(written["ranks"]) == 16
    assert len(table) == sum(len(one["calls"]) for one in written["ranks"].values())
    # what was recorded, and what it was expanded to, is one job
    stacks = [lightloom(f"trace permutations {file} --json -").out for file in (trace_file, again)]
    assert stacks[0] == stacks[1]
    assert "of 14 more recorded ranks are those" in lightloom(f"trace expand {again}").out


def test_roles_are_written_with_the_ranks_that_they_stand_for(lightloom, tmp_path, trace_file):
    roles, ranks = tmp_path / "roles.csv", tmp_path / "ranks.csv"
    command = f"trace expand {trace_file} --only-ranks roles --csv {roles} --map {ranks}"
    assert not lightloom(command).status
    table, places = polars.read_csv(roles), polars.read_csv(ranks)
    assert places["rank"].to_list() == list(range(16))
    assert places["recorded_rank"].unique().sort().to_list() == table["rank"].unique().to_list()
    assert places["role"].n_unique() == 2


def test_more_calls_than_fit_into_memory(lightloom, monkeypatch, trace_file, tmp_path):
    monkeypatch.setattr(expand, "MAX_CALLS", 10)
    done = lightloom(f"trace expand {trace_file} --parquet {tmp_path}/calls.parquet")
    assert done.status == 2
    assert "calls of 16 ranks: expected at most 10; --csv and --chakra take more" in done.err
    assert "--only-ranks roles" in done.err
    assert not lightloom(f"trace expand {trace_file} --csv {tmp_path}/calls.csv").status
    monkeypatch.setattr(expand, "MAX_STREAMED", 10)
    done = lightloom(f"trace expand {trace_file} --csv {tmp_path}/calls.csv")
    assert "expected at most 10; write one rank of each role" in done.err


def test_ranks_that_a_job_does_not_have(lightloom, trace_file):
    done = lightloom(f"trace expand {trace_file} --only-ranks 16 --csv -")
    assert done.status == 2
    assert "--only-ranks 16: the job has ranks 0 to 15" in done.err


def test_chakra_traces_are_written_to_a_new_folder(lightloom, tmp_path, trace_file):
    folder = tmp_path / "traces"
    assert not lightloom(f"trace expand {trace_file} --chakra {folder}").status
    names = {path.name for path in folder.iterdir()}
    assert names == {"groups.json", *(f"trace.{rank}.et" for rank in range(16))}
    done = lightloom(f"trace expand {trace_file} --chakra {folder}")
    assert done.status == 2
    assert "is there already; name a new folder" in done.err
    nowhere = lightloom(f"trace expand {trace_file} --chakra {tmp_path}/no/folder")
    assert "cannot make the folder: No such file or directory" in nowhere.err


def test_a_trace_becomes_programs_that_packets_play(lightloom, tmp_path, trace_file):
    goal = tmp_path / "step.goal"
    assert not lightloom(f"trace expand {trace_file} --goal {goal}").status
    done = lightloom(
        f"packets --hosts 16 --rate 400 --topology star --transport ideal --programs {goal} --json "
        f"{tmp_path}/run.json"
    )
    assert not done.status
    found = json.loads((tmp_path / "run.json").read_text())
    assert found["unfinished"] == []
    assert 0 < found["operations"]["makespan_s"] <= found["end_s"]
    refused = lightloom(f"trace expand {trace_file} --goal {goal} --only-ranks 0,1")
    assert refused.status == 2
    assert "--goal is for all ranks; leave out --only-ranks" in refused.err


def test_what_went_through_chakra_is_the_same_programs(lightloom, tmp_path, trace_file):
    traces, before, after = (tmp_path / name for name in ("traces", "before.goal", "after.goal"))
    assert not lightloom(f"trace expand {trace_file} --goal {before} --chakra {traces}").status
    assert not lightloom(f"trace expand {traces} --goal {after}").status
    assert after.read_text() == before.read_text()


def test_traces_of_chakra_are_played_as_packets(lightloom, tmp_path):
    """A message of 100 packets from 0 to 1, then an all-to-all of all four: three rounds of one."""
    compute, send, receive, collective = 4, 5, 6, 7
    ends = {"comm_src": 0, "comm_dst": 1, "comm_size": 409_600}
    message = {0: [node(1, send, **ends)], 1: [node(1, receive, **ends)]}
    ranks = [
        [
            *message.get(rank, [node(1, compute, micros=3)]),
            node(2, collective, after=[1], comm_type=6, comm_size=4 * 4096),
        ]
        for rank in range(4)
    ]
    write(tmp_path / "job", *ranks)
    goal, run = tmp_path / "step.goal", tmp_path / "run.json"
    assert not lightloom(f"trace expand {tmp_path}/job --goal {goal}").status
    assert not lightloom(
        f"packets --hosts 4 --rate 100 --topology star --link-delay 1us --transport ideal "
        f"--programs {goal} --json {run}"
    ).status
    found = json.loads(run.read_text())
    assert found["unfinished"] == []
    packet_s, ack_s = 4160 * 8 / 100e9, 64 * 8 / 100e9
    # what ranks 2 and 3 send each other waits for nobody; the message of 0 is acknowledged before
    # it begins, and the last round of 0 and 1 is the last of all
    message_s = 101 * packet_s + 2 * (2e-6 + ack_s)
    rounds_s = 3 * (2 * packet_s + 2e-6)
    makespan_s = found["operations"]["makespan_s"]
    assert message_s + rounds_s <= makespan_s <= message_s + rounds_s + 6 * (2e-6 + 2 * ack_s)
