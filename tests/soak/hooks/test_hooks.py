"""Megatron-Core and DeepSpeed from their packages: training by strategies is equal to the bit."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.torch_python import PYTHON, absent

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
        ("none", "no MoE layer of Megatron-Core has moe_token_dispatcher_type='alltoall'"),
    ],
)
def test_a_layer_of_megatron_that_the_hook_does_not_know_is_refused(megatron, name, text):
    assert all(report["refused"][name].startswith(text) for report in megatron)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none", "no MoE layer of DeepSpeed (deepspeed.moe.layer.MoE) is in the model"),
        ("derived", "a Layer: expected DeepSpeed's own layers"),
        ("early", "an MoE layer has no process groups yet: call after deepspeed.initialize"),
        ("uncut", "experts are not cut by tensor parallelism: expected an mpu with TP ranks"),
    ],
)
def test_a_layer_of_deepspeed_that_the_hook_does_not_know_is_refused(deepspeed, name, text):
    assert all(report["refused"][name].startswith(text) for report in deepspeed)
