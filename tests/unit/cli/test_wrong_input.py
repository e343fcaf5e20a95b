"""Every kind of wrong input is one line that says what to do, exit status 2, and no file."""

import json
import os
import re

import pytest

from lightloom.cli import run_command
from lightloom.cli.root import root_command
from lightloom.cli.usage import one_line
from lightloom.fabric import FABRICS

JOB = "compare mixtral-8x7b --gpus 128 --rate 400"
SCHEDULE = "schedule --synthetic pair --servers 4 --reconfiguration-delay 0"
KNOWN_FABRICS = ", ".join(FABRICS)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        # the command line itself
        ("comprae", "no command 'comprae'; did you mean 'compare'?; there are compare, run, "
         "sweep, explore, explain, price, advise, diff, goodput, map, memory, collective, "
         "alltoall, traffic, schedule, predict, demand, packets, trace, calibrate, control, "
         "ocs-emulator, testbed, models, fabrics, example"),
        ("--foo", "no option --foo; see lightloom --help"),
        ("compare mixtral-8x7b --rate 400", "--gpus is missing; add it, such as --gpus 1024"),
        ("compare --rate 400", "no job is given: expected a model (a name from 'lightloom models', "
         "or the path of a config.json), or a trace or table of phases with --workload; for "
         "example: lightloom compare mixtral-8x22b --gpus 1024 --rate 400 --html report.html"),
        ("compare mixtral-8x7b --gpus 8 --rate 400 --step-tokens 5", "step_tokens is for a "
         "trace: a model's plan says it; leave it out"),
        ("run", "STUDY is missing (A study (TOML), such as examples/study.toml, with paths "
         "relative to it; jobs that share a cluster (lightloom example jobs); or results (JSON), "
         "which are repeated); for example: "
         "lightloom run examples/study.toml"),
        (f"{JOB} --fabric x", "no option --fabric; did you mean '--fabrics'?; see lightloom "
         "compare --help"),
        ("compare mixtral-8x7b --gpus 128 --rate",
         "option '--rate' requires an argument; see lightloom --help"),
        (f"{JOB} more", "more arguments than expected: more; see lightloom compare --help"),
        (f"{JOB} --tp two", "--tp two: expected a whole number"),
        (f"{JOB} --compute-spread much", "--compute-spread much: expected a number"),
        # all-to-alls
        ("alltoall --cluster a800x61 --hidden 8192", "unknown cluster 'a800x61'; did you mean "
         "'a800x16'?; known: a800x16"),
        ("alltoall --cluster ours.toml --hidden 8192", "ours.toml: no such file"),
        ("alltoall --cluster a800x16 --hidden 8192 --tp 3", "--tp 3: expected a divisor of the 8 "
         "GPUs of a server, which TP ranks share"),
        ("alltoall --cluster a800x16 --hidden 8192 --ep 3", "--ep 3: with TP 8 the 16 GPUs hold 2 "
         "data-parallel ranks; expected a divisor of 2"),
        ("alltoall --cluster a800x16 --hidden 8192 --chunks 0",
         "--chunks 0: expected auto, or a number from 1 to 1,024"),
        # numbers
        ("compare mixtral-8x7b --gpus abc --rate 400", "--gpus abc: expected a whole number; "
         "several are joined by commas, such as 64,128,256"),
        ("compare mixtral-8x7b --gpus 64..256 --rate 400", "--gpus 64..256: expected a whole "
         "number; several are joined by commas, such as 64,128,256"),
        ("compare mixtral-8x7b --gpus 1k --rate 400", "--gpus 1k: expected a whole number; write "
         "1000 or 1024"),
        ("compare mixtral-8x7b --gpus 64,2K --rate 400", "--gpus 2K: expected a whole number; "
         "write 2000 or 2048"),
        (f"{JOB} --seq-len 4q",
         "--seq-len 4q: expected a number of tokens, such as 8192, 128K or 1M"),
        (f"{JOB} --set plan.seq_len=1.5M",
         "plan.seq_len = 1.5M: expected a number of tokens, such as 8192, 128K or 1M"),
        (f"{JOB} --micro-batches 4k",
         "--micro-batches 4k: expected a whole number; write 4000 or 4096"),
        ("compare mixtral-8x7b --gpus 0 --rate 400", "--gpus 0: expected at least 1"),
        ("compare mixtral-8x7b --gpus 128 --rate -400", "--rate -400: expected more than 0"),
        ("compare mixtral-8x7b --gpus 128 --rate 0", "--rate 0: expected more than 0"),
        ("compare mixtral-8x7b --gpus 128 --rate fast",
         "--rate fast: cannot read 'fast' as a rate such as 400, 400G or '400 Gb/s'"),
        ("compare mixtral-8x7b --gpus 128 --rate nan", "--rate nan: expected a finite number, "
         "got 'nan'"),
        ("compare mixtral-8x7b --gpus 128 --rate 25ms",
         "--rate 25ms: cannot read '25ms' as a rate such as 400, 400G or '400 Gb/s'"),
        (f"{JOB} --steps 0", "--steps 0: expected at least 1"),
        (f"{JOB} --seeds 0", "--seeds 0: expected at least 1"),
        (f"{JOB} --seed -1", "--seed -1: expected at least 0"),
        (f"{JOB} --compute-spread 1", "--compute-spread 1.0: expected less than 1"),
        (f"{JOB} --dispatch-bytes 0", "--dispatch-bytes 0.0: expected more than 0"),
        (f"{JOB} --micro-batches 100000000", "micro-batches = 100000000: expected at most 16,384, "
         "since each is simulated; larger micro-batches need fewer"),
        # times
        (f"{JOB} --fixed 25",
         "--fixed 25: a time needs its unit, such as '25 ms'"),
        ("schedule --synthetic pair --servers 4 --fixed 1e-3",
         "--fixed 1e-3: a time needs its unit, such as '1e-3 ms'"),
        # names
        ("compare mixtral-8x7 --gpus 128 --rate 400", "unknown model 'mixtral-8x7'; did you mean "
         "'mixtral-8x7b'?; expected a name from 'lightloom models' or the path of a config.json"),
        (f"{JOB} --gpu a101",
         "unknown GPU 'a101'; did you mean 'a100'?; known: a100, h100, h800, h200, b200, gb200, "
         "gb300, b300, mi300x, mi325x, mi350x, mi355x"),
        (f"{JOB} --gpu no.toml", "no.toml: no such file"),
        (f"{JOB} --fabrics mixnett", "unknown fabric 'mixnett'; did you mean 'mixnet'?; known: "
         f"{KNOWN_FABRICS}, or a .toml file"),
        (f"{JOB} --fabrics ,", "fabrics: expected at least one name, such as fat-tree,mixnet"),
        (f"{JOB} --fabrics rail,rail",
         "two fabrics are called 'rail'; a fabric's own file may have another label"),
        (f"{JOB} --demand mixtrall", "'mixtrall' is neither a regime (balanced, skewed, "
         "auxiliary, natural, learned, mixtral, pair, sparse, calm, volatile, extreme, drifting, "
         "uniform, W0_balanced to W7_burst) nor a number nor a file; did you mean 'mixtral'?"),
        (f"{JOB} --demand W8", "'W8' is neither a regime (balanced, skewed, auxiliary, natural, "
         "learned, mixtral, pair, sparse, calm, volatile, extreme, drifting, uniform, W0_balanced "
         "to W7_burst) nor a number nor a file"),
        (f"{JOB} --demand 0.8", "demand: expected the load of the busiest EP rank over the "
         "mean load, a number of at least 1, got 0.8"),
        (f"{JOB} --demand 9", "demand: expected at most 4 times the mean load on one of 8 EP "
         "ranks of 1 expert(s), top-2, got 9"),
        (f"{JOB} --set memory.sharded=states --set plan.zero1=off", "memory.sharded = states with "
         "plan.zero1 = off: without ZeRO the ranks share nothing out; leave one of them out"),
        ("memory mixtral-8x7b --gpus 64 --set plans.mtp=1", "--set plans.mtp=1: unknown table "
         "'plans'; did you mean 'plan'?"),
        ("memory mixtral-8x7b --gpus 64 --set foo.bar=1", "--set foo.bar=1: unknown table 'foo'; "
         "known: plan, compute, memory"),
        ("memory mixtral-8x7b --gpus 64 --sharded parameters --set plan.zero1=off",
         "memory.sharded = parameters with plan.zero1 = off: without ZeRO the ranks share nothing "
         "out; leave one of them out"),
        (f"{JOB} --recompute ful",
         "--recompute ful: expected one of auto, none, selective, attention, products, full; did "
         "you mean 'full'?"),
        (f"{JOB} --ep-mode fold",
         "--ep-mode fold: expected one of axis, folded; did you mean 'folded'?"),
        (f"{JOB} --network packets",
         "--network packets: expected one of flow, packet; did you mean 'packet'?"),
        (f"{JOB} --network packet --mtu much",
         "--mtu much: cannot read 'much' as a size such as '9 kB'"),
        (f"{JOB} --network packet --mtu 70kB", "--mtu 70kB: expected at most 65,000"),
        (f"{JOB} --network packet --queue 0", "--queue 0: expected at least 1"),
        (f"{JOB} --transport ndp", "--transport is for packets; add --network packet"),
        (
            f"{JOB} --network packet --phases 0",
            "--phases 0: expected whole, all or a number of phases from 1 on",
        ),
        # options that nothing would read
        (f"{JOB} --fabrics fat-tree --set mixnet.ports=4", "--set mixnet.ports is for mixnet, "
         "which is not compared; add mixnet to --fabrics (a custom fabric sets ports in its TOML "
         "file)"),
        (f"{JOB} --fabrics fat-tree --fixed 1s", "--fixed is for "
         "mixnet, which is not compared; add mixnet to --fabrics (a custom fabric sets "
         "fixed_s in its TOML file)"),
        (f"{JOB} --resample", "demand 'auxiliary' is a regime; 'resample' has no meaning for it"),
        (f"{JOB} --scale", "demand 'auxiliary' is a regime; 'scale' has no meaning for it"),
        ("compare llama-3-405b --gpus 1024 --rate 400 --demand pair", "llama-3-405b has no "
         "experts, so that nothing would read the demand's source; leave it out"),
        # fabrics and costs
        (f"{JOB} --set mixnet.ports=8", "mixnet: ports = 8: a server has 8 NICs and one at least "
         "must stay on the packet fabric"),
        ("compare mixtral-8x7b --gpus 128 --rate 50", "prices (prices.toml): nothing for 50 Gb/s "
         "links; known rates: 100, 200, 400, 800, 1600 Gb/s (rates between are not interpolated); "
         "add a row to a custom file"),
        (f"{JOB} --prices no.toml", "no.toml: no such file"),
        (f"{JOB} --power no.toml", "no.toml: no such file"),
        # plans
        (f"{JOB} --pp-layout 1,x", "--pp-layout x: expected a whole number"),
        (f"{JOB} --pp-layout -1,33,0,0", "--pp-layout -1: expected at least 0"),
        (f"{JOB} --pp-layout 16,16", "pp-layout has 2 entries, expected pp x vpp = 4 x 1 = 4"),
        (f"{JOB} --pp-layout 8,8,8,9", "pp-layout 8,8,8,9 has 33 layers, the model has 32; change "
         "the layout, or leave it out for a balanced one"),
        (f"{JOB} --tp 3 --pp 1 --ep 1 --dp 1", "tp x cp x ep x dp x pp = 3 x 1 x 1 x 1 x 1 = 3, "
         "but there are 128 GPUs; gpus must be a multiple of 3; use 129 GPUs or change a degree"),
        (f"{JOB} --vpp 2 --micro-batches 6", "6 micro-batches are not divisible by pp = 4, "
            "which the interleaved schedule needs; change micro-batches, or set vpp to 1",
        ),
        ("compare mixtral-8x7b --gpus 96 --rate 400 --tp 3 --pp 4 --ep 8 --seq-len 3072",
         "mixtral-8x7b: 32 attention heads are not divisible by tp = 3; use tp = 2"),
        ("compare mixtral-8x7b --gpus 96 --rate 400 --tp 4 --pp 4 --ep 6",
         "mixtral-8x7b: 8 experts are not divisible by ep = 6; use ep = 4"),
        # outputs
        (f"{JOB} --json /no/x", "/no/x: there is no folder /no; make it first"),
        (f"{JOB} --csv tests", "tests: is a folder; give the name of a file"),
        (f"{JOB} --json x --csv x", "x: named for two outputs; give each a file of its own"),
        (f"{JOB} --json - --csv -",
         "--json - and --csv - both ask for standard output; name one's file"),
        (f"{JOB} --html -", "--html -: expected the name of a file, such as ./out"),
        # other commands
        ("run no.toml", "no.toml: no such file"),
        ("run tests", "tests: expected a file, got a folder"),
        ("explain no.json a b", "no.json: no such file"),
        ("explain", "RESULTS is missing (Results that 'lightloom compare --json' has written); for "
         "example: lightloom explain results.json fat-tree mixnet"),
        ("fabrics mixnt", f"unknown fabric 'mixnt'; did you mean 'mixnet'?; known: {KNOWN_FABRICS}"
         ", or a .toml file"),
        ("fabrics --gpus x", "--gpus x: expected a whole number"),
        ("fabrics --gpus 0", "--gpus 0: expected at least 1"),
    ],
)  # fmt: skip
def test_exact_line(refused, command, expected, monkeypatch, request):
    monkeypatch.chdir(request.config.rootpath)
    assert refused(command) == expected


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, content):
    mode = "wb" if isinstance(content, bytes) else "w"
    with open(name, mode) as file:
        file.write(content)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{", "config.json: not valid JSON: Expecting property name enclosed in double quotes at "
         "column 2"),
        (b"\xff\xfe", "config.json: not UTF-8 text"),
        ("[]", "config.json: expected a JSON object, as in config.json, got []"),
    ],
)  # fmt: skip
def test_unreadable_config(refused, content, expected):
    write("config.json", content)
    line = refused("compare ./config.json --gpus 128 --rate 400")
    assert line.replace("'config.json'", "config.json") == expected


@pytest.mark.usefixtures("folder")
def test_partial_config(refused):
    config = {"architectures": ["MixtralForCausalLM"], "hidden_size": 4096}
    write("config.json", json.dumps(config))
    line = refused("compare ./config.json --gpus 128 --rate 400")
    assert "config.json" in line
    assert "missing" in line or "needs" in line or "lacks" in line


@pytest.mark.usefixtures("folder")
def test_unknown_family_is_named(refused):
    write("config.json", json.dumps({"architectures": ["RwkvForCausalLM"]}))
    line = refused("compare ./config.json --gpus 128 --rate 400")
    assert "Rwkv" in line
    assert "'lightloom example model'" in line


@pytest.mark.usefixtures("folder")
def test_matrix_of_the_wrong_size(refused):
    write("m.txt", json.dumps([[1, 2], [3, 4]]))
    line = refused(f"{JOB} --demand m.txt")
    assert line == (
        "m.txt: a matrix of 2 ranks x 2 experts does not fit a job of 8 EP ranks x 8 experts; it "
        "is not tiled or cut"
    )


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "content", "option", "expected"),
    [
        ("f.toml", "ports = 4\n", "--fabrics f.toml",
         f'f.toml: kind is needed, such as kind = "fat-tree"; known: {KNOWN_FABRICS}'),
        ("f.toml", 'kind = "mixnet"\nprots = 4\n', "--fabrics f.toml",
         "f.toml: mixnet: unknown key 'prots'; did you mean 'ports'?"),
        ("p.toml", "[sourcess]\n", "--prices p.toml",
         "p.toml: unknown key 'sourcess'; did you mean 'sources'?"),
        ("p.toml", "[sources]\n", "--prices p.toml", "p.toml: links is missing; add it"),
        ("w.toml", "[portz]\n", "--power w.toml",
         "w.toml: unknown key 'portz'; did you mean 'ports'?"),
        ("w.toml", "= 1", "--power w.toml",
         "w.toml: not valid TOML: Invalid statement (at line 1, column 1)"),
    ],
)  # fmt: skip
def test_wrong_files(refused, name, content, option, expected):
    write(name, content)
    assert refused(f"{JOB} {option}") == expected


@pytest.mark.usefixtures("folder")
def test_wrong_profile(refused):
    write("profile.toml", "[matmull]\n")
    assert refused(f"{JOB} --profile profile.toml").startswith("profile.toml: ")


@pytest.mark.usefixtures("folder")
def test_a_missing_price(refused):
    text = (
        '[sources.s]\ntext = "t"\ndate = "2026-01-01"\n'
        '[links.400]\ntransceiver_usd = { value = 1, source = "s" }\n'
        "[fiber]\n"
        'price_usd_per_m = { value = 1, source = "s" }\n'
        'mean_length_m = { value = 1, source = "s" }\n'
        "[switches]\n"
        '[server]\ngpus = { value = 8, source = "s" }\n'
    )
    write("p.toml", text)
    assert refused(f"{JOB} --prices p.toml") == (
        "prices (p.toml) at 400 Gb/s: no 'nic_usd'; add it to the file"
    )


def test_wrong_input_leaves_no_file(folder):
    outputs = "--json a.json --csv a.csv --parquet a.parquet --html a.html --timeline a.trace"
    for wrong in (
        "--set mixnet.ports=8",
        "--set mixnet.region_servers=1000",
        "--rate 50",
        "--demand nothing",
    ):
        assert run_command([*f"{JOB} {outputs} {wrong}".split()]) == 2
    assert os.listdir(folder) == []


def test_a_region_too_large_is_refused_before_anything_runs(lightloom, folder):
    done = lightloom(f"{JOB} --set mixnet.region_servers=1000 --csv a.csv")
    assert done.status == 2
    # the job comes first: whether a network carries it is known once its demand is
    assert "tokens/s" not in done.out
    assert done.err.startswith("lightloom: mixnet: ")
    assert done.err.count("\n") == 1
    assert os.listdir(folder) == []


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("job", "output"),
    [(JOB, "--html"), (JOB, "--timeline"), (SCHEDULE, "--html"), (SCHEDULE, "--svg")],
)
def test_devices_are_not_replaced(refused, job, output):
    os.mkfifo("pipe")
    line = refused(f"{job} {output} pipe")
    assert line == f"{output} pipe: expected the name of a file, not a device"


def test_help_and_version(lightloom):
    shown = lightloom()
    assert (shown.status, shown.err) == (0, "")
    assert "compare" in shown.out
    assert "lightloom compare mixtral-8x22b --gpus 1024 --rate 400" in shown.out
    assert lightloom("--help").out == shown.out
    version = lightloom("--version")
    assert version.status == 0
    assert version.out.startswith("lightloom 0.")


def test_help_has_panels_examples_and_defaults(lightloom, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    text = lightloom("compare --help").out
    for panel in ("Job", "Parallelism plan", "Fabrics", "Output", "Examples"):
        assert re.search(rf"^{panel}.*:$", text, re.MULTILINE), panel
    assert "lightloom compare path/to/config.json --gpus 512" in text
    for default in ("[default: a100]", "[default: default]", "[default: best]"):
        assert default in text, default


def test_a_value_of_thousands_of_characters_does_not_fill_the_screen(refused):
    for command in ("fabrics", "models --json", "explain results.json", "demand"):
        line = refused(f"{command} {'9' * 5000}")
        assert len(line) < 700


def test_an_option_is_no_file(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = refused("models --json --csv")
    assert line == "--csv: expected a file to write to; name it ./--csv if it is one"
    assert not list(tmp_path.iterdir())


class UnknownCommandError(Exception):
    """An unknown command as click 8.5 has it, which older typer raises: it has possibilities."""

    def __init__(self, context):
        super().__init__("No such command 'cmpare'.")
        self.message, self.ctx, self.possibilities = str(self), context, ["compare"]


def test_an_unknown_command_is_said_with_every_version_of_the_parser():
    command = root_command()
    said = one_line(UnknownCommandError(command.make_context("lightloom", ["models"])))
    assert said.startswith("no command 'cmpare'; did you mean 'compare'?; there are compare, run,")
