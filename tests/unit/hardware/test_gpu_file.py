"""A GPU from a file: what is given, what is taken from another, and what is refused."""

import pytest

from lightloom.errors import HardwareError
from lightloom.fabric.cluster import Cluster
from lightloom.hardware import load_gpu
from lightloom.workload.compute import ComputeModel

OWN = """
title = "Ours"
peak_bf16_flops = 1.2e15
hbm_capacity_bytes = "192 GB"
hbm_rate_gbps = 48000
nvlink_rate_gbps = "4.8 Tb/s"
power_w = "1 kW"
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "ours.toml"
        path.write_text(text)
        return str(path)

    return write


def test_what_is_given_is_taken(written):
    name = written(OWN + "price_usd = 20000")
    gpu = load_gpu(name)
    assert (gpu.name, gpu.title, gpu.operators) == (name, "Ours", "")
    assert (gpu.peak_bf16_flops, gpu.hbm_capacity_bytes, gpu.power_w) == (1.2e15, 192e9, 1000)
    assert (gpu.nvlink_rate_gbps, gpu.price_usd, gpu.formats) == (4800, 20000, ("bf16",))
    assert gpu.provenance["power_w"].source == name


def test_what_is_not_given_is_that_of_a_known_gpu(written):
    gpu, h200 = load_gpu(written('like = "h200"\nhbm_capacity_bytes = "192 GB"')), load_gpu("h200")
    assert gpu.hbm_capacity_bytes == 192e9
    assert (gpu.peak_fp8_flops, gpu.operators) == (h200.peak_fp8_flops, "h100")
    assert gpu.provenance["power_w"] == h200.provenance["power_w"]
    capacity = gpu.provenance["hbm_capacity_bytes"]
    assert (capacity.value, capacity.source) == (192e9, gpu.name)
    # a GPU that is given nothing of its own computes and communicates as that one does
    name = written('like = "b200"')
    alike = [Cluster.of(gpus=16, rate_gbps=400, gpu=gpu) for gpu in (name, "b200")]
    assert alike[0] == alike[1]
    capacity, b200 = (ComputeModel.load(gpu).kernels for gpu in (name, "b200"))
    assert capacity.matmul(512, 512, 512) == b200.matmul(512, 512, 512)


def test_fp8_needs_only_its_peak(written):
    assert load_gpu(written(OWN + "peak_fp8_flops = 2.4e15")).formats == ("bf16", "fp8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "peak_bf16_flops, hbm_capacity_bytes, hbm_rate_gbps, nvlink_rate_gbps, power_w miss"),
        ('like = "h2000"', "like: unknown GPU 'h2000'; did you mean 'h200'"),
        ('like = "mine.toml"', "like = mine.toml: expected one of a100"),
        (OWN + "price = 3", "unknown key 'price'; did you mean 'price_usd'"),
        (OWN + 'price_usd = "cheap"', "price_usd = cheap: cannot read"),
        (OWN.replace("1.2e15", "-1"), "peak_bf16_flops = -1: expected more than 0"),
        (OWN.replace("48000", "nan"), "hbm_rate_gbps = nan: expected a"),
        (OWN + 'formats = ["fp8"]', "formats has fp8, so peak_fp8_flops is needed"),
        (OWN + 'formats = ["fp4"]', "formats.0 = fp4: expected one of"),
        ("title", "ours.toml"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(written, text, message):
    with pytest.raises(HardwareError) as error:
        load_gpu(written(text))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_no_such_file():
    with pytest.raises(HardwareError, match=r"no\.toml: no such file"):
        load_gpu("no.toml")
