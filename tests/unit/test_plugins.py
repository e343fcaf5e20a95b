"""What a user adds: as an object, and by name from an installed package, as the guides show it."""

import dataclasses
import json
import sys

import numpy as np
import pytest
from tests.packages import code_of, entry_points_of, install
from tests.rotor_fabric import Rotor

import lightloom
from lightloom.cli import run_command as main
from lightloom.errors import FabricError, InputError
from lightloom.fabric import load_fabric
from lightloom.fabric.read import fabric_names

JOB = {"gpus": 64, "rate": 100, "seeds": 1, "compute_spread": 0.0, "imbalances": False}
PLAN = {"tp": 1, "pp": 2, "ep": 16, "micro_batches": 2}
COMMAND = (
    "compare qwen-moe --gpus 64 --rate 100 --tp 1 --pp 2 --ep 16 --micro-batches 2 --seeds 1 --json"
)
PREDICTOR = """
import numpy as np

class Even:
    def __init__(self, experts):
        self.experts = experts
    def observe(self, step, layer, loads):
        pass
    def predict(self, step, layer):
        return np.full(self.experts, 1 / self.experts)
"""
FAMILY = """
from lightloom.models.families_moe import Mixtral

class Ours(Mixtral):
    name = "ours"
    architectures = ("OursForCausalLM",)
"""


@pytest.fixture
def add(tmp_path, monkeypatch):
    def package(module, source, points):
        monkeypatch.syspath_prepend(install(tmp_path, module, source, points))

    return package


def compared(fabrics, **more):
    return lightloom.compare("qwen-moe", fabrics=fabrics, plan=PLAN, **{**JOB, **more})


def test_a_fabric_is_compared_as_an_object():
    found = compared(["fat-tree", Rotor(uplinks=8, label="rotors")])
    assert [result.fabric for result in found.results] == ["fat-tree", "rotors"]
    (_, recorded) = found.to_json()["inputs"]["scenario"]["fabrics"]
    assert (recorded["kind"], recorded["uplinks"]) == ("rotor", 8)


class Stranger:
    """A fabric that derives from nothing of the package: a fat-tree inside."""

    kind = name = "stranger"

    def __init__(self, **options):
        self._options = options
        self._tree = load_fabric("fat-tree", {**options, "label": "stranger"})

    def __getattr__(self, part):
        if part not in {
            *("adapt", "network", "bill_of_materials", "parameters", "effective"),
            *("reconfiguration", "candidates", "without"),
        }:
            raise AttributeError(part)
        return getattr(self._tree, part)

    def knobs(self, cluster):
        return {"planes": sorted({1, cluster.nics_per_server} - {self._tree.planes})}

    def replace(self, **options):
        return type(self)(**{**self._options, **options})


def test_a_fabric_of_a_stranger_has_its_designs_tuned():
    """A fabric is what has the methods of the protocol: its knobs are moved as those of ours."""
    fabrics = [Stranger(), load_fabric("fat-tree", {"label": "ours"})]
    found = compared(fabrics, rate=400, designs="tuned")
    tried = found.inputs["designs"]
    stranger, ours = ([d for d in tried if d["fabric"] == name] for name in ("stranger", "ours"))
    assert [d["options"] for d in stranger] == [{}, {"planes": 8}]
    assert [d["options"] for d in ours][:1] == [{}]
    assert sum(d["is_chosen"] for d in stranger) == 1
    (first, second) = found.results
    assert first.switching.others == second.switching.others != ()


def test_what_results_record_of_an_object_is_that_fabric_again():
    tree = load_fabric("oversub", {"ratio": 2.0, "label": "two"})
    first = compared([tree])
    scenario = json.loads(json.dumps(first.to_json()["inputs"]["scenario"]))
    (again,) = lightloom.compare(lightloom.Scenario(**scenario)).results
    assert again.run_hash == first.results[0].run_hash


def test_a_model_is_an_object_as_well():
    model = dataclasses.replace(lightloom.load_model("qwen-moe"), name="smaller", top_groups=1)
    fabrics = ["fat-tree"]
    found = lightloom.compare(model, fabrics=fabrics, plan=PLAN, **JOB)
    assert found.to_json()["inputs"]["scenario"]["model"] == "smaller"
    assert found.results[0].run_hash == compared(fabrics).results[0].run_hash


@pytest.mark.parametrize("wrong", [3, Rotor, None, {"no": "kind"}, {"kind": "moon"}])
def test_what_is_no_fabric_is_one_line(wrong):
    with pytest.raises(InputError, match="fabric") as caught:
        compared(["fat-tree", wrong])
    assert "\n" not in str(caught.value)


def test_the_guide_of_fabrics_makes_a_package(add, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    points = entry_points_of("add-a-fabric.md")
    add("lightloom_halved", code_of("add-a-fabric.md"), points)
    command = f"{COMMAND} out.json --fabrics halved,oversub --set oversub.ratio=2"
    assert main(command.split()) == 0
    halved, oversub = json.loads((tmp_path / "out.json").read_text())["results"]
    assert halved["run_hash"] == oversub["run_hash"]
    assert main(["fabrics", "halved"]) == 0
    assert "planes" in capsys.readouterr().out
    assert main(["fabrics", "halvd"]) == 2
    assert "did you mean 'halved'" in capsys.readouterr().err


def test_a_class_of_another_kind_is_no_fabric(add):
    add("others", "class Moon: pass", {"lightloom.fabrics": {"moon": "others:Moon"}})
    with pytest.raises(FabricError, match="'moon': expected a class based on FabricOptions"):
        load_fabric("moon")


def test_an_installed_allocator_schedules(add, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    points = entry_points_of("add-an-allocator.md")
    add("lightloom_rings", code_of("add-an-allocator.md"), points)
    command = "schedule --synthetic mixtral --reconfiguration-delay 1ms --ports 6 --json out.json"
    assert main([*command.split(), "--allocators", "all,ring", "--failed", "server:3"]) == 0
    found = json.loads((tmp_path / "out.json").read_text())["circuits"]
    assert "exact" not in found
    assert found["best"]["split_s"] <= found["ring"]["split_s"] < np.inf


def test_an_installed_predictor_predicts(add, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    add("evens", PREDICTOR, {"lightloom.predictors": {"even": "evens:Even"}})
    command = "predict --synthetic drifting --predictors even,last-step --json out.json"
    assert main(command.split()) == 0
    scores = json.loads((tmp_path / "out.json").read_text())["scores"]
    assert {score["predictor"] for score in scores} >= {"even", "last-step"}
    by_name = compared(["mixnet"], predictor="even")
    module = __import__("evens")
    by_object = compared(["mixnet"], predictor=module.Even)
    assert by_name.results[0].run_hash == by_object.results[0].run_hash


def test_an_installed_family_is_read(add, tmp_path):
    add("ours", FAMILY, {"lightloom.families": {"OursForCausalLM": "ours:Ours"}})
    config = json.loads(
        """{"architectures": ["OursForCausalLM"], "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "vocab_size": 100, "num_local_experts": 4, "num_experts_per_tok": 2}"""
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert lightloom.load_model(str(path)).family == "ours"


MOONS = {
    "moon": "raise RuntimeError('made for\\nanother version')",
    "flat-moon": "class Moon: pass",
    "free-moon": (
        "from lightloom.fabric import FatTree\n"
        "class Moon(FatTree):\n"
        "    kind = 'free-moon'\n"
        "    def bill_of_materials(self, cluster, *rest):\n"
        "        return {}[cluster.gpus]\n"
    ),
}


@pytest.fixture(params=MOONS)
def broken(request, add):
    """The kind of a fabric whose package does not work."""
    kind = request.param
    module = kind.replace("-", "_")
    add(module, MOONS[kind], {"lightloom.fabrics": {kind: f"{module}:Moon"}})
    yield kind
    sys.modules.pop(module, None)


def test_a_broken_package_is_not_imported_for_other_fabrics(broken, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command = f"{COMMAND} out.json --fabrics oversub --set oversub.ratio=2"
    assert main(command.split()) == 0
    assert main(["fabrics", "fat-tree"]) == 0
    words = ["--gpus", "16", "--rate", "400", "--bytes", "1MB"]
    assert main(["collective", "all-to-all", *words]) == 0
    assert "moon" not in capsys.readouterr().err
    assert broken.replace("-", "_") not in sys.modules


@pytest.mark.filterwarnings("default")
def test_where_all_fabrics_are_shown_a_broken_one_is_a_line(broken, capsys):
    assert main(["fabrics"]) == 0
    shown = capsys.readouterr()
    assert "mixnet" in shown.out
    assert "moon" not in shown.out
    (line,) = shown.err.splitlines()
    assert line.startswith(f"lightloom: warning: fabric '{broken}': ")
    assert line.endswith("; left out")
    assert main(["--quiet", "fabrics"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("broken", ["moon", "flat-moon"], indirect=True)
def test_a_broken_package_is_one_line_where_it_is_named(broken, capsys):
    for options in (f"--fabrics fat-tree,{broken}", f"--fabrics fat-tree --set {broken}.planes=2"):
        assert main(f"{COMMAND} - {options}".split()) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"lightloom: fabric '{broken}': ")
    with pytest.warns(UserWarning, match=f"^fabric '{broken}': .*; left out$"):
        assert broken not in fabric_names(["all"])
