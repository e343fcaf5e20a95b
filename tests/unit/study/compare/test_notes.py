"""What a reader is told of a job before any result: of its model, its GPUs, its formats."""

import dataclasses

import pytest

from lightloom.hardware import load_gpu
from lightloom.study.compare import ClusterOptions, PlanOptions, Scenario
from lightloom.study.compare.job import prepare
from lightloom.study.compare.scenario import ComputeOptions
from lightloom.study.compare.summary import summary_of
from lightloom.workload.compute_operators import measures_operators

PLAN = PlanOptions(tp=1, pp=16, ep=64)


def job(model="deepseek-v3", gpu="h800", precision=None, plan=PLAN):
    return prepare(
        Scenario(
            model=model,
            gpus=1024,
            fabrics=("fat-tree",),
            cluster=ClusterOptions(rate_gbps=400, gpu=gpu),
            plan=plan,
            compute=ComputeOptions(precision=precision),
            memory_check=False,
        )
    )


def test_what_a_model_leaves_out_is_said():
    made = job()
    note = "1 multi-token prediction layer(s) left out"
    assert made.model.notes == (note,)
    assert f"about the model: {note}" in summary_of(made)
    without = job("mixtral-8x7b", "a100", plan=PlanOptions(tp=4, pp=4, ep=8))
    assert not any(line.startswith("about the model") for line in summary_of(without))


@pytest.mark.parametrize(
    ("gpu", "precision", "is_warned"),
    [("a100", None, True), ("a100", "bf16", False), ("h800", None, False), ("b200", None, False)],
)
def test_gpus_without_the_published_format_are_warned_of(gpu, precision, is_warned):
    made = job(gpu=gpu, precision=precision)
    warning = (
        "products are in BF16: the published run's were in FP8, in which "
        f"{load_gpu(gpu).title} does not compute"
    )
    assert (warning in made.warnings()) == is_warned


def test_any_gpu_without_the_format_is_warned_of():
    """Not only those of the list."""
    made = job("mixtral-8x7b", "h100", plan=PlanOptions(tp=4, pp=4, ep=8))
    run = dataclasses.replace(made.model.plan, precision="mxfp8")
    made = dataclasses.replace(made, model=dataclasses.replace(made.model, plan=run))
    assert any("in which NVIDIA H100 80GB SXM does not" in one for one in made.warnings())


OWN = """
title = "Ours"
formats = ["bf16", "fp8"]
peak_bf16_flops = 1e15
peak_fp8_flops = 2e15
hbm_capacity_bytes = "192 GB"
hbm_rate_gbps = 40000
nvlink_rate_gbps = 3600
power_w = 700
price_usd = 1
"""
ADVICE = "measure yours with 'lightloom calibrate gpu'"


@pytest.mark.parametrize(("precision", "also"), [("bf16", ""), ("fp8", ", in FP8 as on H100")])
def test_assumed_compute_times_are_warned_of(precision, also, tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text(OWN)
    made = job("mixtral-8x7b", str(path), precision, PlanOptions(tp=4, pp=4, ep=8))
    expected = f"compute times of Ours are assumed: fractions of peak as on A100{also}; {ADVICE}"
    assert expected in made.warnings()


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_published_rates_are_no_measurement(precision):
    made = job("mixtral-8x7b", "mi325x", precision, PlanOptions(tp=4, pp=4, ep=8))
    expected = (
        "compute times of AMD Instinct MI325X 256GB are assumed: products by published rates of "
        f"large ones, the rest by fractions of peak as on A100; {ADVICE}"
    )
    assert expected in made.warnings()


def test_a_gpu_like_another_says_so(tmp_path):
    path = tmp_path / "ours.toml"
    path.write_text('like = "h200"\ntitle = "Ours"\npeak_bf16_flops = 1.2e15\n')
    made = job("mixtral-8x7b", str(path), "bf16", PlanOptions(tp=4, pp=4, ep=8))
    expected = (
        "compute times of Ours are assumed: at the fractions of peak of NVIDIA H200 141GB SXM, "
        f"which its file says it is like; {ADVICE}"
    )
    assert expected in made.warnings()


def test_sequences_beyond_the_positions_of_the_model_are_warned_of():
    degrees = {"tp": 4, "pp": 4, "ep": 8}
    longer = job("mixtral-8x7b", "h100", plan=PlanOptions(**degrees, seq_len=65536))
    warning = (
        "sequences of 65,536 tokens are longer than the 32,768 positions of mixtral-8x7b: as if "
        "it had as many"
    )
    assert warning in longer.warnings()
    fits = job("mixtral-8x7b", "h100", plan=PlanOptions(**degrees, seq_len=32768))
    assert not [one for one in fits.warnings() if "positions" in one]


def test_links_of_a_profile_do_not_make_a_gpu_measured(tmp_path):
    profile = tmp_path / "links.toml"
    profile.write_text('[network]\nnic_efficiency = { value = 0.5, source = "ours" }\n')
    assert not measures_operators(profile)
    profile.write_text("[memory.permute]\nbandwidth_efficiency = 0.5\n")
    assert measures_operators(profile)
    assert not measures_operators(None)
