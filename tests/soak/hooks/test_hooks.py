"""Megatron-Core and DeepSpeed from their packages: training is equal to the bit, whatever moves it.

By strategies of all-to-alls, and over circuits of a testbed that follow the tokens.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent
from tests.unit.testbed.conftest import lacking

from lightloom.testbed import Testbed
from lightloom.testbed.ranks import run_ranks
from lightloom.testbed.service import serving

HERE = Path(__file__).parent
RANKS, STEPS = 4, 12


def reports(package: str, folder: Path) -> list[dict]:
    """What each rank says of the training that its program does."""
    if absent(package):
        pytest.skip(f"not installed: {package} (make soak)")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(RANKS)]
    run = subprocess.run(
        [PYTHON, *launch, HERE / f"{package}_training.py", folder],
        env={
            "PYTHONPATH": str(HERE.parents[2] / "python"),
            "PATH": os.environ["PATH"],
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
            "DS_ACCELERATOR": "cpu",
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


@pytest.fixture(scope="module")
def megatron(tmp_path_factory):
    return reports("megatron", tmp_path_factory.mktemp("megatron"))


@pytest.fixture(scope="module")
def deepspeed(tmp_path_factory):
    return reports("deepspeed", tmp_path_factory.mktemp("deepspeed"))


def check_losses(ways: dict[str, dict]) -> None:
    """Every way has the losses of the plain one, which fall."""
    losses = ways["None"]["losses"]
    assert len(losses) == STEPS
    assert losses[-1] < 0.8 * losses[0]
    for way in ways.values():
        assert way["losses"] == losses


@pytest.mark.parametrize("type_name", ["float32", "bfloat16"])
def test_megatron_trains_to_the_same_losses(megatron, type_name):
    for report in megatron:
        ways = report[type_name]
        check_losses(ways)
        calls = {name: way["all_to_alls"] for name, way in ways.items()}
        assert calls["('O1', 1)"] == calls["None"]
        assert calls["('O2', 3)"] == 3 * calls["None"]
        assert calls["('O3', 2)"] == 2 * calls["None"]
        assert calls["('O4', 3)"] == 3 * calls["None"]


def test_deepspeed_trains_to_the_same_losses(deepspeed):
    for report in deepspeed:
        ways = report["ways"]
        check_losses(ways)
        calls = {name: way["all_to_alls"] for name, way in ways.items()}
        plain = calls.pop("None")
        assert {name: number / plain for name, number in calls.items()} == {
            "('baseline', 1)": 1, "('O1', 1)": 1, "('O2', 3)": 3, "('O3', 2)": 2, "('O4', 2)": 2,
        }  # fmt: skip


def test_deepspeed_without_its_dropping_sends_tp_times_the_bytes(deepspeed):
    for report in deepspeed:
        sent = {name: way["bytes"] for name, way in report["ways"].items()}
        whole = sent.pop("('baseline', 1)")
        assert set(sent.values()) == {whole / 2}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("moe_pad_expert_input_to_capacity", "layer 1: moe_pad_expert_input_to_capacity = True: "),
        ("moe_shared_expert_overlap", "layer 1: moe_shared_expert_overlap = True: expected False"),
        ("cuda_graph_impl", "layer 1: cuda_graph_impl = 'local': expected 'none'"),
        ("tp", "layer 1: expert_tensor_parallel_size = 1, expert_model_parallel_size = 2: "),
        ("derived", "layer 1: a Dispatcher: expected Megatron-Core's own dispatcher"),
    ],
)
def test_a_layer_of_megatron_that_the_hook_does_not_know_is_refused(megatron, name, text):
    assert all(report["refused"][name].startswith(f"rank 0: {text}") for report in megatron)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none", "no MoE layer of Megatron-Core has moe_token_dispatcher_type='alltoall'"),
        ("one rank", "rank 2: layer 1: cuda_graph_impl = 'local': expected 'none'"),
        ("circuits", "rank 1: layer 1: expert_tensor_parallel_size = 2: expected 1 over circuits"),
        ("both", "rank 3: chunks: expected none over circuits (mixnet)"),
        ("chunks", "ranks 0 and 2 disagree: chunks = 2 and 3"),
    ],
)
def test_what_is_wrong_with_a_hook_on_some_ranks_is_said_on_every_rank(megatron, name, text):
    assert all(report["refused"][name].startswith(text) for report in megatron)


def test_ranks_without_layers_take_part_in_the_agreement(megatron):
    assert [report["refused"]["stages"] for report in megatron] == ["0 layers"] * 2 + [
        "2 layers"
    ] * 2


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("derived", "a Layer: expected DeepSpeed's own layers"),
        ("early", "an MoE layer has no process groups yet: call after deepspeed.initialize"),
        ("uncut", "experts are not cut by tensor parallelism: expected an mpu with TP ranks"),
    ],
)
def test_a_layer_of_deepspeed_that_the_hook_does_not_know_is_refused(deepspeed, name, text):
    assert all(report["refused"][name].startswith(f"rank 0: {text}") for report in deepspeed)


def test_a_model_without_layers_of_deepspeed_is_refused(deepspeed):
    text = "no MoE layer of DeepSpeed (deepspeed.moe.layer.MoE) is in the model"
    assert all(report["refused"]["none"] == text for report in deepspeed)


@pytest.fixture(scope="module")
def over_circuits(tmp_path_factory):
    if reason := lacking() or ", ".join(absent("megatron")):
        pytest.skip(f"not here: {reason}")
    folder, said = tmp_path_factory.mktemp("circuits"), []
    program = [PYTHON, str(HERE / "megatron_circuits.py"), str(folder)]
    # the circuits that a controller begins with are none: it makes those that pay
    sizes = {"servers": RANKS, "nics": 4, "rate_gbps": 0.02, "settle_time": "1ms"}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(HERE.parents[2] / "python"))
        patched.setenv("OMP_NUM_THREADS", "1")
        with Testbed.up(folder / "up", **sizes) as testbed, serving(testbed):
            ended = run_ranks(testbed, program, said.append)
    assert not any(rank.status for rank in ended), "\n".join(said[-40:])
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(RANKS)]


def test_megatron_trains_over_circuits_to_the_same_losses(over_circuits):
    for report in over_circuits:
        plain, circuits = report["plain"]["losses"], report["circuits"]["losses"]
        assert plain == circuits
        assert plain[-1] < plain[0]
        # a dispatch, a combine and gradients of both, of two layers; none of the tokens themselves
        assert report["circuits"]["all_to_alls"] == 6 * (2 * 4 - 1)
        assert sum(s for nic, s in report["circuits"]["sent"].items() if nic[:3] == "nic") > 10**5


def test_what_cannot_take_circuits_is_refused(over_circuits):
    refused = over_circuits[0]["refused"]
    assert refused["tp"].endswith("expert_tensor_parallel_size = 2: expected 1 over circuits")
    assert "expert_model_parallel_size = 1: expected the 4 ranks" in refused["groups"]
