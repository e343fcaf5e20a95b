"""Samples come with the package, and every one of them is of use."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lightloom
from lightloom.demand.log_formats import read_routing_log
from lightloom.errors import InputError
from lightloom.hardware import load_gpu
from lightloom.models import load_model
from lightloom.samples import SAMPLES, read_sample

PACKAGE = Path(lightloom.__file__).parents[1]


def call(*words: str, folder=None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "lightloom", *words]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    return subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with all samples."""
    folder = tmp_path_factory.mktemp("samples")
    for name, sample in SAMPLES.items():
        (folder / sample.file).write_bytes(read_sample(name))
    return folder


def test_the_list_names_every_sample():
    lines = call("example").stdout.decode().splitlines()
    assert [line.split()[2] for line in lines] == list(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_written_as_it_is(name):
    done = call("example", name)
    assert done.returncode == 0
    assert done.stdout == read_sample(SAMPLES[name].file) == read_sample(name)


def test_unknown_names_are_refused():
    with pytest.raises(InputError, match=r"no example 'demnad'; did you mean 'demand'"):
        read_sample("demnad")


def test_samples_fit_each_other(folder):
    model = load_model(str(folder / "config.json"))
    log = read_routing_log(folder / "routing.jsonl")
    assert (len(log.layers), log.top_k) == (model.num_layers, model.experts_per_token)
    assert log.largest_expert < model.num_experts
    assert load_model(str(folder / "model.toml")).num_layers == 8
    assert load_gpu(str(folder / "gpu.toml")).hbm_capacity_bytes == 192e9
    demand = np.load(folder / "demand.npy")
    assert demand.shape == (16, 16)
    assert (demand.diagonal() == 0).all()


@pytest.mark.parametrize(
    "line",
    [
        "packets --hosts 8 --rate 100 --transport roce --flows flows.csv",
        "packets --scenario packets.toml",
        "run study.toml --set plan.source=published",
        "schedule demand.npy --reconfiguration-delay 25ms --ports 6 --methods bvn",
        "compare model.toml --gpus 64 --rate 400 --gpu gpu.toml --seeds 1 "
        "--tp 2 --ep 8 --pp 1 --micro-batches 1 --fabrics fat-tree,mixnet",
        "predict routing.jsonl --experts 64 --tokens-per-step 4 --predictors last-step",
    ],
)
def test_commands_take_the_samples(folder, line):
    done = call(*line.split(), folder=folder)
    assert done.returncode == 0, done.stderr.decode()
