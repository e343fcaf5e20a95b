"""What every command has: less or more to read, no color, completion, and a user's defaults."""

import json
import os
import subprocess
import sys

import pytest

SMALL = (
    "compare mixtral-8x7b --gpus 128 --plan published --micro-batches 4 --no-policies "
    "--no-imbalances"
)
FULL = f"{SMALL} --seeds 1 --rate 400 --fabrics fat-tree"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A user without defaults."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "lightloom").mkdir()
    return tmp_path / "lightloom" / "defaults.toml"


def test_quiet_prints_results_alone(lightloom):
    done = lightloom(f"{FULL} -q")
    assert done.err == ""
    assert "tokens/s" in done.out
    # not of the next call
    assert "compared in" in lightloom(FULL).err


def test_quiet_prints_errors(lightloom):
    done = lightloom("compare nonsense --gpus 8 --rate 1 --quiet")
    assert done.status == 2
    assert done.err.startswith("lightloom: ")


def test_verbose_prints_every_run_and_where_an_error_was_raised(lightloom):
    done = lightloom(f"{FULL} -v")
    assert "fat-tree, seed 0 step 0: " in done.err
    assert "events" in done.err
    wrong = lightloom("compare nonsense --gpus 8 --rate 1 -v")
    assert "Traceback" in wrong.err
    assert wrong.err.splitlines()[-1].startswith("lightloom: ")


@pytest.mark.parametrize("where", ["before", "after", "environment"])
def test_nothing_is_colored_where_that_is_not_wanted(lightloom, monkeypatch, where):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in lightloom("models mixtral-8x7b").out
    if where == "environment":
        monkeypatch.setenv("NO_COLOR", "1")
    words = ["--no-color"] if where == "before" else []
    out = lightloom(*words, "models mixtral-8x7b", *(["--no-color"] * (where == "after"))).out
    assert "\x1b[3" not in out


def test_the_environment_stands_for_options(lightloom, monkeypatch):
    monkeypatch.setenv("LIGHTLOOM_RATE", "200")
    monkeypatch.setenv("LIGHTLOOM_FABRICS", "fat-tree")
    monkeypatch.setenv("LIGHTLOOM_SEEDS", "2")
    done = lightloom(f"{SMALL} --seeds 1 --json -")
    scenario = json.loads(done.out)["inputs"]["scenario"]
    assert scenario["cluster"]["rate_gbps"] == 200
    assert scenario["seeds"] == 1
    assert "from the environment: --rate 200 --fabrics fat-tree\n" in done.err


def test_a_file_of_defaults(lightloom, home, monkeypatch):
    home.write_text(
        'gpu = "h100"\nhosts = 4\n[compare]\nrate = 400\nseeds = 1\nfabrics = ["fat-tree"]\n'
    )
    done = lightloom(f"{SMALL} --json -")
    scenario = json.loads(done.out)["inputs"]["scenario"]
    assert scenario["cluster"]["gpu"] == "h100"
    assert scenario["fabrics"] == ["fat-tree"]
    assert f"from {home}: --rate 400 --gpu h100 --seeds 1 --fabrics fat-tree\n" in done.err
    monkeypatch.setenv("LIGHTLOOM_GPU", "h200")
    both = json.loads(lightloom(f"{SMALL} --json -").out)["inputs"]["scenario"]
    assert both["cluster"]["gpu"] == "h200"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('gpuu = "h100"', "no command has an option --gpuu; did you mean 'gpu'?"),
        ("[compare]\nrat = 1", "compare has no option --rat; did you mean 'rate'?"),
        ("compare = 1", "compare = 1: expected a table, [compare]"),
        ("[compare", "not valid TOML"),
    ],
)
def test_wrong_defaults_are_refused(lightloom, home, text, message):
    home.write_text(text)
    done = lightloom(FULL)
    assert done.status == 2
    assert done.err.count("\n") == 1
    assert f"{home}" in done.err
    assert message in done.err


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("lightloom co", {"collective", "compare", "control"}),
        ("lightloom compare mixtral-8x7b --gpu h", {"h100", "h200", "h800"}),
        ("lightloom compare mixtral-8x7b --reconf", {"--reconfiguration-delay"}),
        ("lightloom schedule --allocators best,gre", {"best,greedy"}),
    ],
)
def test_a_shell_completes(words, expected):
    count = len(words.split()) - 1
    names = {"COMP_WORDS": words, "COMP_CWORD": str(count)}
    done = subprocess.run(
        [sys.executable, "-m", "lightloom"],
        env={**os.environ, **names, "_LIGHTLOOM_COMPLETE": "complete_bash"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert set(done.stdout.split()) == expected, done.stderr


def test_a_page_is_opened(lightloom, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    page = tmp_path / "page.html"
    lightloom(f"{FULL} --html {page} --open")
    assert opened == [page.as_uri()]
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = lightloom(f"{FULL} --open")
    assert opened[1].startswith((tmp_path / "lightloom-").as_uri())
    assert "no browser here" not in done.err
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    assert f"no browser here: open {page}" in lightloom(f"{FULL} --html {page} --open").err


@pytest.mark.parametrize("command", ["models", "models mixtral-8x7b", "fabrics", "fabrics mixnet"])
def test_what_is_looked_up_is_json_as_well(lightloom, tmp_path, command):
    path = tmp_path / "found.json"
    done = lightloom(f"{command} --json {path}")
    assert done.out
    content = json.loads(path.read_text())
    assert content["schema_version"] == 1
    assert json.loads(lightloom(f"{command} --json -").out) == content
