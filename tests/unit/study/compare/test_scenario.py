"""Studies: strict TOML with paths relative to the file."""

import io
import os
from pathlib import Path

import pytest

from lightloom.errors import DemandError, FabricError, InputError
from lightloom.fabric import FABRICS
from lightloom.inputs.files import MAX_TEXT_BYTES
from lightloom.models import load_model
from lightloom.study.compare import PlanOptions, Scenario, load_study
from lightloom.study.compare.job import prepare, workload_options
from lightloom.study.compare.kernels import dispatch_of

SMALL = 'model = "mixtral-8x7b"\ngpus = 128\n[cluster]\nrate_gbps = "400 Gb/s"\n'


def study(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def message(path):
    with pytest.raises(InputError) as caught:
        load_study(path)
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(str(path), "S")


def test_smallest_study(tmp_path):
    scenario = load_study(study(tmp_path, SMALL))
    assert scenario.cluster.rate_gbps == 400
    assert set(scenario.fabrics) <= set(FABRICS)
    assert scenario.plan.model_dump(exclude_none=True) == {}


def test_paths_are_relative_to_the_study(tmp_path):
    text = """
    model = "models/config.json"
    gpus = 8
    fabrics = ["fat-tree", "own.toml", "/abs/other.toml"]
    prices = "p.toml"
    power = "/abs/w.toml"
    [cluster]
    rate_gbps = 400
    profile = "../profile.csv"
    [demand]
    source = "tokens.txt"
    [fabric_options."own.toml"]
    ports = 4
    """
    scenario = load_study(study(tmp_path, text))
    assert scenario.model == str(tmp_path / "models/config.json")
    assert scenario.fabrics == ("fat-tree", str(tmp_path / "own.toml"), "/abs/other.toml")
    assert scenario.fabric_options == {str(tmp_path / "own.toml"): {"ports": 4}}
    assert scenario.prices == tmp_path / "p.toml"
    assert scenario.power == Path("/abs/w.toml")
    assert scenario.cluster.profile == tmp_path / "../profile.csv"
    assert scenario.demand.source == str(tmp_path / "tokens.txt")


def test_names_are_no_paths(tmp_path):
    text = SMALL.replace("mixtral-8x7b", "qwen3-30b-a3b") + '[demand]\nsource = "pair"\n'
    scenario = load_study(study(tmp_path, text))
    assert (scenario.model, scenario.demand.source) == ("qwen3-30b-a3b", "pair")


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("", "auxiliary"),
        ('source = "balanced"', "balanced"),
        ("source = 1.3", 1.3),
        ("source = 2", 2.0),
        ('source = "1.3"', 1.3),
        ('source = "mixtral"', "mixtral"),
        ('source = "pair"', "pair"),
    ],
)
def test_one_name_says_how_balanced_the_gate_is(tmp_path, line, name):
    assert load_study(study(tmp_path, f"{SMALL}[demand]\n{line}\n")).demand.name == name


def test_an_imbalance_may_be_a_file_of_the_study(tmp_path):
    text = f'{SMALL}[demand]\nsource = "log.jsonl"\n'
    assert load_study(study(tmp_path, text)).demand.name == str(tmp_path / "log.jsonl")


def test_the_same_comparison_with_another_gate(tmp_path):
    text = f"{SMALL}[demand]\ndeduplicate = true\ncapacity_factor = 1.5\n"
    scenario = load_study(study(tmp_path, text))
    for name in ("balanced", "skewed", 1.4):
        other = scenario.with_imbalance(name)
        assert other.demand.name == name
        assert other.demand.deduplicate
        assert other.demand.capacity_factor == 1.5
        assert other.model_copy(update={"demand": scenario.demand}) == scenario
    # options of the file that is replaced are left out
    text = f'{SMALL}[demand]\nsource = "a/log.jsonl"\nresample = true\n'
    assert not load_study(study(tmp_path, text)).with_imbalance("skewed").demand.resample
    with pytest.raises(InputError, match=r"at least 1, got 0\.5"):
        scenario.with_imbalance(0.5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpus = [", "S: not valid TOML: Invalid value (at end of document)"),
        (b"\xff\xfe\x00", "S: not UTF-8 text"),
        ("a = " + "[" * 5000 + "]" * 5000, "S: not valid TOML: nested too deeply"),
        ("# " + "x" * MAX_TEXT_BYTES, "S: 1,000,002 bytes exceed the limit of 1,000,000"),
        ("", 'S: cluster is missing; add it, such as cluster = { rate_gbps = "400 Gb/s" }'),
        (
            "cluster = { rate_gbps = 400 }",
            "S: no job is given: expected a model (a name from 'lightloom models', or the path of"
            " a config.json) or a workload (the path of a trace)",
        ),
        (
            "model = 'mixtral-8x7b'\ncluster = { rate_gbps = 400 }",
            "S: gpus is missing; add it, such as gpus = 1024",
        ),
        (
            SMALL.replace("rate_gbps", "rate_gpbs"),
            "S: unknown key 'cluster.rate_gpbs'; did you mean 'rate_gbps'?",
        ),
        (
            SMALL.replace('rate_gbps = "400 Gb/s"', ""),
            'S: cluster.rate_gbps is missing; add it, such as rate_gbps = "400 Gb/s"',
        ),
        (SMALL.replace('"400 Gb/s"', "-1"), "S: cluster.rate_gbps = -1: expected more than 0"),
        (SMALL.replace("128", '"128"'), "S: gpus = '128': expected a whole number"),
        ("seeds = 0\n" + SMALL, "S: seeds = 0: expected at least 1"),
        ("steps = 0\n" + SMALL, "S: steps = 0: expected at least 1"),
        ("seed = -1\n" + SMALL, "S: seed = -1: expected at least 0"),
        (
            'network = "flows"\n' + SMALL,
            "S: network = flows: expected one of flow, packet; did you mean 'flow'?",
        ),
        (
            SMALL + "[plan]\npp_layout = [3, -1]\n",
            "S: plan.pp_layout.1 = -1: expected at least 0",
        ),
        (
            SMALL + "[demand]\ndispatch_element_bytes = 9\n",
            "S: demand.dispatch_element_bytes = 9: expected at most 8",
        ),
    ],
)
def test_wrong_studies(tmp_path, text, expected):
    assert message(study(tmp_path, text)) == expected


def test_missing_folder_and_unreadable(tmp_path):
    assert message(tmp_path / "no.toml") == "S: no such file"
    assert message(tmp_path) == "S: expected a file, got a folder"
    with pytest.raises(InputError, match="cannot read the study: not a usable path"):
        load_study(Path("a\0b"))


def test_standard_input_is_read_to_its_end(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert load_study(Path("-")).gpus == 128


def test_a_pipe_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(InputError, match="expected a file, got a pipe"):
        load_study(tmp_path / "pipe.toml")


def test_an_endless_file_is_refused():
    with pytest.raises(InputError, match="expected a file, got a device"):
        load_study(Path("/dev/zero"))


def test_sizes_of_packets_may_have_units(tmp_path):
    packets = '[packets]\nmtu_bytes = "4 kB"\nqueue_bytes = "unlimited"\n'
    found = load_study(study(tmp_path, f'network = "packet"\n{SMALL}{packets}'))
    assert found.packets is not None
    assert (found.packets.mtu_bytes, found.packets.queue_bytes) == (4000, 2**32 - 1)


@pytest.mark.parametrize(
    ("model", "demand", "dispatcher", "deduplicates"),
    [
        # what was published with the model
        ("deepseek-v3", {}, "flex", True),
        ("qwen3-235b-a22b", {}, "alltoall", False),
        # nothing was: routing is not limited
        ("mixtral-8x7b", {}, "alltoall", False),
        ("mixtral-8x7b", {"dispatcher": "flex"}, "flex", True),
        ("deepseek-v3", {"dispatcher": "alltoall"}, "alltoall", False),
        ("mixtral-8x7b", {"deduplicate": True}, "flex", True),
        ("deepseek-v3", {"deduplicate": False}, "alltoall", False),
        ("mixtral-8x7b", {"dispatcher": "flex", "deduplicate": False}, "flex", False),
    ],
)
def test_the_dispatcher_is_the_users_or_the_published_one(model, demand, dispatcher, deduplicates):
    job = Scenario(model=model, gpus=1024, cluster={"rate_gbps": 400}, demand=demand)
    shape = load_model(model)
    options = workload_options(job, shape)
    dispatch = dispatch_of(job, shape, options)
    assert (dispatch.dispatcher, options.deduplicate) == (dispatcher, deduplicates)
    assert dispatch.dropless


def test_dispatch_knows_bytes_and_whether_copies_are_dropped():
    demand = {"capacity_factor": 1.0, "dispatch_element_bytes": 1.0}
    job = Scenario(model="mixtral-8x7b", gpus=128, cluster={"rate_gbps": 400}, demand=demand)
    model = load_model("mixtral-8x7b")
    dispatch = dispatch_of(job, model, workload_options(job, model))
    assert not dispatch.dropless
    assert dispatch.element_bytes == (1.0, 2.0, 2.0, 2.0)


def test_alltoall_does_not_deduplicate():
    demand = {"dispatcher": "alltoall", "deduplicate": True}
    job = Scenario(model="mixtral-8x7b", gpus=128, cluster={"rate_gbps": 400}, demand=demand)
    with pytest.raises(DemandError) as caught:
        workload_options(job, load_model("mixtral-8x7b"))
    assert str(caught.value) == (
        "deduplicate with dispatcher alltoall: it sends every copy; use dispatcher flex, or "
        "leave deduplicate out"
    )


def test_the_gate_is_the_users_or_the_published_one():
    job = {"model": "deepseek-v3", "gpus": 1024, "cluster": {"gpu": "h800", "rate_gbps": 400}}
    assert prepare(Scenario(**job)).scenario.demand.name == "natural"
    own = Scenario(**job, demand={"source": "balanced"})
    assert prepare(own).scenario.demand.name == "balanced"
    regime = Scenario(**job, demand={"source": "mixtral"})
    assert prepare(regime).scenario.demand.name == "mixtral"


def test_the_batch_is_given_once():
    with pytest.raises(InputError, match="micro_batches and global_batch_size are both given"):
        PlanOptions(micro_batches=2, global_batch_size=64)
    plan = PlanOptions(global_batch_size=64)
    assert plan.degrees == {"global_batch_size": 64}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"mixnet": {"prots": 4}}, "mixnet: unknown key 'prots'; did you mean 'ports'?"),
        ({"all": {"prots": 4}}, "mixnet: unknown key 'prots'; did you mean 'ports'?"),
        ({"mixnet": {"ports": -3}}, "mixnet: ports = -3: expected more than 0"),
    ],
)
def test_options_that_no_fabric_reads_are_refused_with_the_scenario(options, expected):
    job = {"model": "mixtral-8x7b", "gpus": 128, "cluster": {"gpu": "a100", "rate_gbps": 400}}
    with pytest.raises(FabricError) as refused:
        Scenario(**job, fabrics=("mixnet",), fabric_options=options)
    assert str(refused.value) == expected
    assert Scenario(**job, fabrics=("mixnet",), fabric_options={"mixnet": {"ports": 4}})
