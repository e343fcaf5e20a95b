"""Every option of ``run`` and ``trace record``: what is refused, with which line, and what is used.

The tables are by option, so that a new one without an entry fails.
"""

import os
from importlib import import_module
from pathlib import Path

import pytest

from lightloom.errors import InputError
from lightloom.trace import record as recording

STUDY = """
model = "mixtral-8x7b"
gpus = 128
fabrics = ["fat-tree"]
seeds = 1
compute_spread = 0
cluster = { rate_gbps = 400 }
plan = { micro_batches = 4 }
"""
PROGRAM = ("--", "python", "train.py")

#: by option, words of it and the line that refuses them
WRONG_OF_RUN = {
    "STUDY": {
        "nothing.toml": "nothing.toml: no such file",
        "folder": "folder: expected a file, got a folder",
        "pipe": "pipe: expected a file, got a pipe; '-' stands for standard input",
        "/dev/zero": "/dev/zero: expected a file, got a device",
    },
    **{
        option: {
            f"{option} folder": "folder: is a folder; give the name of a file",
            f"{option} none/of": "none/of: there is no folder none; make it first",
            f"{option} study.toml": "study.toml: is read as well; write results to another file",
        }
        for option in ("--html", "--json", "--csv", "--timeline", "--parquet", "--launch")
    },
    "--gpus": {"--gpus 1k": "--gpus 1k: expected a whole number; write 1000 or 1024"},
    "--rate": {"--rate 0": "--rate 0: expected more than 0"},
    "--gpu": {
        "--gpu h10": "unknown GPU 'h10'; did you mean 'h100'?; known: a100, h100, h800, h200, "
        "b200, gb200, gb300, b300, mi300x, mi325x, mi350x, mi355x"
    },
    "--fabrics": {"--fabrics ,": "fabrics: expected at least one name, such as fat-tree,mixnet"},
    "--demand": {
        "--demand 0.5": "demand: expected the load of the busiest EP rank over the mean load, a "
        "number of at least 1, got 0.5"
    },
    "--set": {"--set plan.tp=x": "plan.tp = x: expected a whole number"},
    "--network": {"--network x": "--network x: expected one of flow, packet"},
    "--point": {"--point x": "--point x: expected a whole number"},
    "--seeds": {"--seeds 0": "--seeds 0: expected at least 1"},
    "--open": {"--open=maybe": "option '--open' does not take a value; see lightloom --help"},
}

WRONG_OF_RECORD = {
    "PROGRAM": {"--world-size 4 -- python": "no script: "},
    "--world-size": {
        "--world-size 0": "--world-size 0: expected at least 1",
        "--world-size two": "--world-size two: expected a whole number",
        "--world-size 1048577": "--world-size 1048577: expected at most 1,048,576",
    },
    "--rank": {
        "--rank 4": "--rank 4: the job has ranks 0 to 3",
        "--rank -1": "--rank -1: expected numbers such as 0,3, all, or roles",
        "--rank 1-2": "--rank 1-2: expected numbers such as 0,3, all, or roles",
        "--rank roles,x": "--rank x: expected numbers such as 0,3, or random:2",
    },
    "--local-world-size": {
        "--local-world-size 0": "--local-world-size 0: expected at least 1",
        "--local-world-size 1025": "--local-world-size 1025: expected at most 1,024",
    },
    "--device": {"--device tpu": "--device tpu: expected one of cuda, cpu; did you mean 'cpu'?"},
    "--seed": {
        "--seed -1": "--seed -1: expected at least 0",
        "--seed 1.5": "--seed 1.5: expected a whole number",
    },
    "--skew": {
        "--skew -1": "--skew -1.0: expected at least 0",
        "--skew 5": "--skew 5.0: expected at most 4",
        "--skew nan": "--skew nan: expected a finite number",
    },
    "--timeout": {
        "--timeout 5": "--timeout 5: a time needs its unit, such as '5 ms'",
        "--timeout 0s": "--timeout 0s: expected more than 0",
        "--timeout 1e9s": "--timeout 1e9s: expected at most 1,000,000",
    },
    "--memory-limit": {
        "--memory-limit much": "--memory-limit much: cannot read 'much' as a size such as '9 kB'",
        "--memory-limit 5": "--memory-limit 5: expected at least 100,000,000",
    },
    "--writable": {
        "--writable": "option '--writable' requires an argument; see lightloom --help",
        "--writable none": "--writable none: expected a folder that exists",
    },
    "--micro-batches": {
        "--micro-batches 9,10,64": "--micro-batches 9,10,64: write {micro_batches} where the "
        "program takes their number, such as --num-microbatches {micro_batches}",
        "--micro-batches x,y,z": "--micro-batches x,y,z: expected numbers such as 0,3",
    },
    "--routing-log": {"--routing-log none.jsonl": "none.jsonl: no such file"},
    "--processes": {
        "--processes 0": "--processes 0: expected at least 1",
        "--processes 1025": "--processes 1025: expected at most 1,024",
    },
    "--strict": {"--strict=no": "option '--strict' does not take a value; see lightloom --help"},
    "--connections": {
        "--connections=no": "option '--connections' does not take a value; see lightloom --help"
    },
    "--json": {
        "--json folder": "folder: is a folder; give the name of a file",
        "--json none/of": "none/of: there is no folder none; make it first",
    },
}

#: by option, a value and what the recorder is then told: a field of the job, or its other arguments
USED_BY_RECORD = {
    "PROGRAM": ("", "program", ("python", "train.py")),
    "--world-size": ("--world-size 16", "world_size", 16),
    "--rank": ("--rank 3,0", "ranks", [0, 3]),
    "--local-world-size": ("--local-world-size 2", "local_world_size", 2),
    "--device": ("--device cpu", "device", "cpu"),
    "--seed": ("--seed 7", "seed", 7),
    "--skew": ("--skew 0.5", "skew", 0.5),
    "--timeout": ("--timeout 2min", "time_limit_s", 120.0),
    "--memory-limit": ("--memory-limit 2GB", "memory_limit_bytes", 2_000_000_000),
    "--writable": ("--writable folder,.", "writable", (Path("folder"), Path("."))),
    "--connections": ("--connections", "network", True),
    "--processes": ("--processes 3", "processes", 3),
    "--routing-log": ("--routing-log log.jsonl", "routing", Path("log.jsonl")),
    "--micro-batches": ("--micro-batches 2,3,9", "programs", ["2", "3"]),
}


def flags(module):
    command = import_module(f"lightloom.cli.{module}").command()
    return {option.flag for panel in command.panels for option in panel.options}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Work in a folder with a study, a program, a folder and a pipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "folder").mkdir()
    os.mkfifo("pipe")
    return tmp_path


@pytest.fixture
def seen(monkeypatch):
    """Stop before anything is recorded; what would be."""
    found = {}

    def stop(program, job, ranks, *_):
        stop_all([program], job, ranks)

    def stop_all(programs, job, ranks, *_):
        last = [program[-1] for program in programs]
        found.update(vars(job), program=tuple(programs[0]), programs=last, ranks=ranks)
        raise InputError("enough")

    monkeypatch.setattr(recording, "record", stop)
    monkeypatch.setattr(recording, "record_roles", stop_all)
    monkeypatch.setattr(recording, "record_programs", stop_all)
    return found


def cases(table):
    return [(words, line) for of_option in table.values() for words, line in of_option.items()]


def test_every_option_has_an_entry():
    assert set(WRONG_OF_RUN) == flags("run")
    assert set(WRONG_OF_RECORD) == flags("trace.record")
    assert set(USED_BY_RECORD) == flags("trace.record") - {"--json", "--strict"}


@pytest.mark.parametrize(("words", "line"), cases(WRONG_OF_RUN))
def test_run_refuses(refused, folder, words, line):
    before = sorted(folder.iterdir())
    study = () if words in WRONG_OF_RUN["STUDY"] else ("study.toml",)
    assert refused("run", *study, words) == line
    assert sorted(folder.iterdir()) == before
    assert (folder / "study.toml").read_text() == STUDY


@pytest.mark.parametrize(("words", "line"), cases(WRONG_OF_RECORD))
def test_record_refuses(refused, folder, words, line):
    before = sorted(folder.iterdir())
    size = () if "--world-size" in words else ("--world-size 4",)
    if words.endswith("-- python"):
        found = refused("trace record", words)
        assert found.startswith(line)
    elif words == "--writable":
        assert refused("trace record", *size, words) == line
    else:
        assert refused("trace record", *size, words, *PROGRAM) == line
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(("words", "name", "value"), USED_BY_RECORD.values())
def test_record_uses(refused, seen, words, name, value):
    size = () if "--world-size" in words else ("--world-size 4",)
    place = ("{micro_batches}",) if name == "programs" else ()
    assert refused("trace record", *size, words, *PROGRAM, *place) == "enough"
    assert seen[name] == value
    if words:
        refused("trace record --world-size 8", *PROGRAM)
        assert seen[name] != value, "it is not the default"


def test_roles_are_recorded_with_the_ranks_beside_them(refused, seen):
    refused("trace record --world-size 4 --rank roles,3", *PROGRAM)
    assert seen["ranks"] == [3]
