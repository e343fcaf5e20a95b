"""``lightloom fabrics`` of a topology file: tables, laws, other formats, and what is refused."""

import json

import pytest

from lightloom.samples import read_sample


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my.toml"
    path.write_bytes(read_sample("leaf-spine"))
    return path


def test_a_topology_is_shown_checked_and_written_in_both_formats(lightloom, file):
    done = lightloom("fabrics my.toml --gpus 64 --check --write my.json")
    assert done.status == 0, done.err
    assert "Switches of my, for 8 servers" in done.out
    assert "leaf - spine" in done.out
    assert "packets are no faster than flows" in done.out
    written = json.loads((file.parent / "my.json").read_text())
    counts = {instance["name"]: instance["count"] for instance in written["instances"]}
    assert counts == {"servers": 8, "leaf": 2, "spine": 32}
    again = lightloom("fabrics my.json --gpus 64 --write again.toml")
    assert again.status == 0, again.err
    text = (file.parent / "again.toml").read_text()
    assert "[switches.leaf]\nservers = 4\nports = 64\n" in text
    assert '[[links]]\nends = ["leaf", "spine"]\nrate_gbps = 400.0\n' in text
    small, large = (lightloom(f"fabrics {name} --gpus 64 --json -") for name in
                    ("my.toml", "again.toml"))  # fmt: skip
    costs = [json.loads(said.out)["network_cost_usd"] for said in (small, large)]
    assert costs[0] == costs[1]


def test_a_topology_is_drawn(lightloom, file):
    done = lightloom("fabrics my.toml --gpus 128 --svg my.svg")
    assert done.status == 0, done.err
    drawn = (file.parent / "my.svg").read_text()
    assert "4 leaf" in drawn
    assert "128 links leaf to spine" in drawn


def test_laws_are_told_apart_from_json(lightloom, file):
    assert file.exists()
    done = lightloom("fabrics my.toml --gpus 64 --check --json -")
    assert json.loads(done.out)["kind"] == "topology"
    assert "Laws" in done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("fabrics --check", "--check and --write are of a topology file: lightloom"),
        ("fabrics rail --check", "rail: expected a topology file, got rail"),
        ("fabrics my.toml --write my.txt",
         "--write my.txt: expected a name that ends in .toml or .json"),
        ("fabrics my.toml --write my.toml", "my.toml: is read as well; write to another file"),
        ("compare mixtral-8x7b --gpus 64 --rate 100 --fabrics other.toml",
         "other.toml: topology: links.0.ends: unknown"),
        ("compare mixtral-8x7b --gpus 64 --rate 100 --fabrics topology",
         "topology: switches is missing; add it"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(lightloom, file, words, message):
    wrong = file.read_text().replace('["servers", "leaf"]', '["servers", "leef"]')
    (file.parent / "other.toml").write_text(wrong)
    done = lightloom(words)
    assert done.status == 2
    if "other" in words:
        message = "other: links.0.ends: unknown switch 'leef'; did you mean 'leaf'?"
    assert message in done.err
    assert "Traceback" not in done.err
