"""``lightloom models``: what it prints, and that it fits a terminal of 80 columns."""

import contextlib
import io
import json
from pathlib import Path

import pytest

from lightloom.cli.commands import COMMANDS
from lightloom.cli.root import make_entry
from lightloom.errors import ModelError
from lightloom.models import catalog


def run(*arguments: str) -> str:
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.setenv("COLUMNS", "80")
        patch.setenv("TERM", "dumb")
        make_entry("models", COMMANDS["models"])(list(arguments), standalone_mode=False)
    return out.getvalue()


def row(output: str, name: str) -> list[str]:
    lines = [line.split() for line in output.splitlines() if line.split()[:1] == [name]]
    assert len(lines) == 1, output
    return lines[0]


def test_lists_every_model_with_units_and_plan() -> None:
    output = run()
    for name in catalog():
        assert name == row(output, name)[0]
    assert row(output, "mixtral-8x22b") == (
        ["mixtral-8x22b", "56", "6144", "8", "2", "140.62", "38.96", "TP8", "PP8", "EP8"]
    )
    assert row(output, "llama-3-405b")[3:6] == ["dense", "-", "405.85"]
    assert row(output, "olmoe-1b-7b")[-1] == "-"
    assert "[elem.]" in output
    assert output.count("[B]") == 2
    assert "active: those that one token" in output


def test_the_list_names_a_source_for_every_shape() -> None:
    output = run()
    for name, model in catalog().items():
        assert f"  {name}: {model.sources['config']}; " in output


def test_the_list_says_what_each_shape_was_checked_against() -> None:
    output = run()
    said = {
        name: line.rpartition("; ")[2]
        for name in catalog()
        for line in output.splitlines()
        if line.startswith(f"  {name}: ")
    }
    assert said["mixtral-8x7b"] == "46.7B, 12.9B active"
    assert said["llama-3-8b"] == "8.03B"
    assert said["qwen-moe"] == "no published counts"
    for name, model in catalog().items():
        assert (said[name] == "no published counts") == (model.published_parameters is None)


def test_active_parameters_are_counted_alike_for_every_model() -> None:
    for model in json.loads(run("--json", "-"))["models"]:
        parts = {part["name"]: part for part in model["parts"]}
        assert model["active_parameters"] == sum(
            part["each"] * part["active"] for part in model["parts"]
        )
        tied = "output projection" not in parts
        assert (parts["input embedding"]["active"] > 0) == tied
        if "router" in parts:
            assert parts["router"]["active"] == parts["router"]["count"]


def test_the_table_fits_80_columns() -> None:
    table = run().split("total: all parameters")[0]
    assert max(len(line.rstrip()) for line in table.splitlines()) <= 80
    assert "…" not in table


@pytest.mark.parametrize("name", ["deepseek-r1", "llama-3-405b", "gpt-oss-120b"])
def test_details_add_up_and_fit(name: str) -> None:
    output = run(name)
    table = output.split("active: ")[0].splitlines()[1:]
    assert max(len(line.rstrip()) for line in table) <= 80
    assert "…" not in output
    assert output.count("[parameters]") == 3
    rows = [line.split() for line in table if line.strip() and line.split()[-1][0].isdigit()]
    numbers = [[int(cell.replace(",", "")) for cell in cells[-2:]] for cells in rows]
    *parts, whole = numbers
    assert [sum(column) for column in zip(*parts, strict=True)] == whole


def test_details_say_convention_published_counts_plan_and_sources() -> None:
    output = run("deepseek-r1")
    flat = " ".join(output.split())
    assert "active: the parameters of one token's path, without the input table" in flat
    assert "published: 671 B in total (here +0.00%), 37 B active (here 36.52 B," in flat
    assert "counted as there: without the input table and routers)" in flat
    assert "note: 1 multi-token prediction layer(s) left out" in flat
    assert "published plan: TP1 PP16 EP64, sequences of 4096 tokens, 8 per micro-batch" in flat
    for what, source in catalog()["deepseek-r1"].sources.items():
        assert f"source of {what}: {source}" in flat


def test_a_dense_model_publishes_no_active_count() -> None:
    assert "published: 405 B in total (here +0.21%)\n" in run("llama-3-405b")


def test_a_file_with_markup_in_its_name_is_shown_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "[red]odd.json"
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_hidden_layers": 3,
        "vocab_size": 100,
    }
    path.write_text(json.dumps(config))
    output = run(str(path))
    assert output.startswith("[red]odd: llama; 3 layers of 64 elements; attention of 4 heads")
    assert f"source of config: {path}" in output
    assert "published" not in output.split("source of config")[0].split("as the publisher")[0]


def test_an_unknown_model_is_left_to_the_command_line() -> None:
    with pytest.raises(ModelError, match="unknown model 'nope'"):
        run("nope")
