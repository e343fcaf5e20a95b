import pytest

from lightloom.errors import HardwareError
from lightloom.hardware import gpu_names, load_gpu

MINE = """
[sources.me]
text = "measured"
date = "2025"

[gpus.mine]
title = "Mine"
peak_bf16_flops = { value = 1e12, source = "me" }
hbm_capacity_bytes = { value = 1e9, source = "me" }
hbm_rate_gbps = { value = 80, source = "me" }
nvlink_rate_gbps = { value = 0, source = "me" }
power_w = { value = 10, source = "me" }
"""


def test_catalog_names():
    assert gpu_names() == [
        *("a100", "h100", "h800", "h200", "b200", "gb200", "gb300", "b300"),
        *("mi300x", "mi325x", "mi350x", "mi355x"),
    ]


@pytest.mark.parametrize(
    ("name", "bf16", "memory_bytes_per_s", "nvlink_bytes_per_s"),
    [
        ("a100", 312e12, 2.039e12, 300e9),
        ("h100", 989.4e12, 3.35e12, 450e9),
        ("h800", 989.4e12, 3.35e12, 200e9),
        ("h200", 989.4e12, 4.8e12, 450e9),
        ("b200", 2250e12, 8e12, 900e9),
        ("b300", 2250e12, 8e12, 900e9),
        ("mi300x", 1307.4e12, 5.3e12, 448e9),
        ("mi355x", 2516.6e12, 8e12, 537.6e9),
    ],
)
def test_published_peaks(name, bf16, memory_bytes_per_s, nvlink_bytes_per_s):
    gpu = load_gpu(name)
    assert gpu.peak_bf16_flops == bf16
    assert gpu.hbm_bytes_per_s == pytest.approx(memory_bytes_per_s)
    assert gpu.nvlink_rate_gbps * 1e9 / 8 == pytest.approx(nvlink_bytes_per_s)


def test_every_value_has_a_source_and_a_date():
    for name in gpu_names():
        for value in load_gpu(name).provenance.values():
            assert value.source
            assert value.date


def test_prices_are_marked_as_assumed():
    assert all(load_gpu(name).provenance["price_usd"].assumed for name in gpu_names())
    assert not load_gpu("b200").provenance["peak_bf16_flops"].assumed
    assert load_gpu("h800").provenance["peak_bf16_flops"].assumed


def test_fp8_doubles_bf16_where_there_is_any():
    assert load_gpu("a100").peak_fp8_flops is None
    for name in ("h100", "h800", "h200", "b200", "b300", "mi300x", "mi355x"):
        gpu = load_gpu(name)
        assert gpu.peak_fp8_flops == pytest.approx(2 * gpu.peak_bf16_flops, rel=1e-3)


def test_peaks_are_those_of_a_precision_that_the_gpu_computes_in():
    a100, b200 = load_gpu("a100"), load_gpu("b200")
    assert b200.peak_flops("bf16") == b200.peak_bf16_flops
    assert b200.peak_flops("fp8") == b200.peak_flops("mxfp8") == b200.peak_fp8_flops
    for precision in ("fp8", "mxfp8"):
        with pytest.raises(HardwareError, match=f"{precision}: GPU 'a100' does not compute in it"):
            a100.peak_flops(precision)


def test_name_is_forgiving():
    assert load_gpu(" B200 ") == load_gpu("b200")


def test_unknown_gpu_suggests():
    with pytest.raises(
        HardwareError, match=r"unknown GPU 'h10'; did you mean 'h100'.; known: a100"
    ):
        load_gpu("h10")


def test_own_file_without_a_price(tmp_path):
    path = tmp_path / "gpus.toml"
    path.write_text(MINE)
    gpu = load_gpu("mine", path)
    assert gpu.hbm_bytes_per_s == 1e10
    with pytest.raises(HardwareError, match="GPU 'mine' has no price_usd"):
        gpu.price()


def test_zero_peak_is_refused(tmp_path):
    path = tmp_path / "gpus.toml"
    path.write_text(MINE.replace("1e12", "0"))
    with pytest.raises(HardwareError, match="peak_bf16_flops must be above 0"):
        load_gpu("mine", path)
