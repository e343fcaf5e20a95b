"""Roofline curves: closed forms, properties, profiles and their refusals."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.errors import HardwareError
from lightloom.hardware import gpu_names, load_gpu
from lightloom.workload.compute_operators import (
    FLASH_OPERATORS,
    FP4_OPERATORS,
    FP8_OPERATORS,
    MEMORY_KINDS,
    NARROW_ATTENTION,
    OPERATORS,
    Curve,
    Launches,
    load_efficiencies,
)

PEAK, BANDWIDTH = 1e15, 1e12


def curve(flops=(1e10, 1e12), efficiency=(0.2, 0.6), launch_s=0.0, memory=None, norm=1.0):
    return Curve("x", np.log(flops), np.log(efficiency), launch_s, memory, norm)


def test_efficiency_is_a_power_law_between_sizes():
    assert curve().efficiency_at(1e11) == pytest.approx((0.2 * 0.6) ** 0.5)
    assert curve().efficiency_at(1e12) == pytest.approx(0.6)
    assert curve().efficiency_at(1e15) == pytest.approx(0.6)


def test_time_is_constant_below_the_smallest_size():
    smallest = curve().seconds(1e10, 0, PEAK, BANDWIDTH)
    assert smallest == pytest.approx(1e10 / (PEAK * 0.2))
    assert curve().seconds(1.0, 0, PEAK, BANDWIDTH) == pytest.approx(smallest)


def test_terms_add_with_norm_one_and_the_largest_wins_with_a_large_norm():
    parts = (1e12 / (PEAK * 0.6), 3e9 / (BANDWIDTH * 0.5), 1e-3)
    added = curve(launch_s=1e-3, memory=0.5).seconds(1e12, 3e9, PEAK, BANDWIDTH)
    assert added == pytest.approx(sum(parts))
    largest = curve(launch_s=1e-3, memory=0.5, norm=64).seconds(1e12, 3e9, PEAK, BANDWIDTH)
    assert largest == pytest.approx(max(parts), rel=1e-2)


def test_norm_two_is_the_root_of_squares():
    two = curve(launch_s=3e-3, norm=2).seconds(4e-3 * PEAK * 0.6, 0, PEAK, BANDWIDTH)
    assert two == pytest.approx(5e-3)


def test_no_work_takes_no_time():
    times = curve(launch_s=1e-3).seconds([0, 1e12], [1e9, 0], PEAK, BANDWIDTH)
    assert times[0] == 0
    assert times[1] > 1e-3


def test_high_norms_do_not_overflow():
    assert np.isfinite(curve(launch_s=1e-9, norm=64).seconds(1e30, 0, PEAK, BANDWIDTH))


@given(
    st.floats(1e6, 1e18),
    st.floats(1.01, 100),
    st.floats(0, 1e-4),
    st.floats(0.5, 16),
)
def test_never_faster_than_any_part_and_grows_with_size(flops, factor, launch_s, norm):
    # efficiency that falls with size would still grow in time: 0.6 to 0.4 over two decades
    measured = curve((1e10, 1e12), (0.4, 0.6), launch_s, 0.7, norm)
    first, second = measured.seconds([flops, flops * factor], 0.0, PEAK, BANDWIDTH)
    assert second >= first * (1 - 1e-12)
    assert first >= max(launch_s, flops / (PEAK * 0.6)) * (1 - 1e-12)


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_has_every_operator_of_its_formats_from_a_source(name):
    gpu = load_gpu(name)
    efficiencies = load_efficiencies(gpu)
    wanted = set(OPERATORS)
    wanted |= set(FP8_OPERATORS if gpu.peak_fp8_flops else ())
    wanted |= set(FP4_OPERATORS if gpu.peak_fp4_flops else ())
    wanted |= set(FLASH_OPERATORS if gpu.operators == "h100" else ())
    wanted |= set(NARROW_ATTENTION if gpu.operators in ("gb200", "gb300") else ())
    assert set(efficiencies.curves) == wanted
    assert set(efficiencies.memory) == set(MEMORY_KINDS)
    assert not any(text.endswith(".toml") for text in efficiencies.provenance.values())


@pytest.mark.parametrize("name", ["a100", "h100", "h200"])
def test_gpus_that_were_measured_as_a_whole_assume_no_operator_in_bf16(name):
    assert not load_efficiencies(load_gpu(name)).assumed & set(OPERATORS)


@pytest.mark.parametrize("name", gpu_names())
def test_more_work_of_an_operator_never_takes_less_time(name):
    for curve in load_efficiencies(load_gpu(name)).curves.values():
        rising = np.diff(curve.log_flops) - np.diff(curve.log_efficiency)
        # to four digits, as tables are written
        assert (rising > -1e-3).all(), curve.name


def test_hopper_says_which_operators_are_derived():
    efficiencies = load_efficiencies(load_gpu("h100"))
    derived = {"matmul_accumulate_fp8", "grouped_matmul_dgrad_fp8", "grouped_matmul_wgrad_fp8"}
    assert efficiencies.assumed & efficiencies.curves.keys() == derived


@pytest.mark.parametrize("name", ["b200", "gb200", "b300", "gb300"])
def test_each_blackwell_has_products_of_its_own_in_every_format(name):
    efficiencies = load_efficiencies(load_gpu(name))
    for operator in ("matmul", "matmul_fp8", "matmul_fp4"):
        assert operator not in efficiencies.assumed
        assert "aiconfigurator" in efficiencies.provenance[operator]


def test_products_of_blackwells_rank_as_measured():
    """Large products in TFLOPS: B200 before GB300, and each format faster than the wider one."""
    rates = {}
    for name in ("b200", "gb200", "gb300"):
        gpu = load_gpu(name)
        curves = load_efficiencies(gpu).curves
        for precision, suffix in (("bf16", ""), ("fp8", "_fp8"), ("nvfp4", "_fp4")):
            peak = gpu.peak_flops(precision)
            seconds = curves[f"matmul{suffix}"].seconds(5e12, 0, peak, gpu.hbm_bytes_per_s)
            rates[name, precision] = 5e12 / float(seconds) / 1e12
        assert rates[name, "bf16"] < rates[name, "fp8"] < rates[name, "nvfp4"]
    assert 1400 < rates["b200", "bf16"] < rates["gb200", "bf16"] < rates["gb300", "bf16"] < 2100


def test_gpu_of_no_measured_generation_is_assumed_and_says_so():
    gpu = dataclasses.replace(load_gpu("h100"), operators="")
    efficiencies = load_efficiencies(gpu)
    assert efficiencies.assumed >= {*OPERATORS, *MEMORY_KINDS, "sustained"}
    assert all("not on this GPU" in efficiencies.provenance[name] for name in OPERATORS)


def test_sustained_is_measured_on_one_generation_only():
    measured, other = (load_efficiencies(load_gpu(name)) for name in ("h100", "a100"))
    assert 0.8 < measured.sustained < 1
    assert "sustained" not in measured.assumed
    assert "sustained" in other.assumed
    assert "taken equal to the B200" in other.provenance["sustained"]


def test_host_bounds_many_short_kernels_unless_they_are_a_graph():
    launches = Launches(host_s=10e-6, gap_s=2e-6, graph_gap_s=1e-6, synchronize_s=0.0)
    assert launches.seconds(1e-3, (10, 10), False) == pytest.approx(1.02e-3)
    assert launches.seconds(1e-3, (10, 5), False) == pytest.approx(1.01e-3)
    assert launches.seconds(1e-5, (10, 10), False) == pytest.approx(1e-4)
    assert launches.seconds(1e-5, (10, 10), True) == pytest.approx(2e-5)


@pytest.mark.parametrize("name", ["a100", "h100", "b200"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_shipped_curves_are_plausible_and_monotone_in_time(name, operator):
    gpu = load_gpu(name)
    shipped = load_efficiencies(gpu).curves[operator]
    flops = np.logspace(6, 16, 400)
    times = shipped.seconds(flops, 0.0, gpu.peak_bf16_flops, gpu.hbm_bytes_per_s)
    assert (np.diff(times) >= -1e-12).all()
    reached = flops[-1] / times[-1] / gpu.peak_bf16_flops
    assert 0.25 < reached < 0.9


def profile(tmp_path, text, suffix=".csv"):
    path = tmp_path / f"profile{suffix}"
    path.write_text(text)
    return path


def test_csv_overrides_what_it_names(tmp_path):
    gpu = load_gpu("h100")
    text = "operator,flops,efficiency\nmatmul,1e12,0.7\nmatmul,1e11,0.5\npermute,,0.3\n\n"
    base = load_efficiencies(gpu)
    efficiencies = load_efficiencies(gpu, profile(tmp_path, text))
    matmul = efficiencies.curves["matmul"]
    assert matmul.efficiency_at(10**11.5) == pytest.approx((0.5 * 0.7) ** 0.5)
    assert (matmul.launch_s, matmul.bandwidth_efficiency) == (0, None)
    assert efficiencies.memory["permute"].bandwidth_efficiency == 0.3
    assert efficiencies.memory["permute"].launch_s == 0
    assert base.assumed - efficiencies.assumed == {"permute"} & base.assumed
    untouched = [e.curves["attention_forward"].efficiency_at(1e11) for e in (efficiencies, base)]
    assert untouched[0] == untouched[1]
    assert "profile.csv" in efficiencies.provenance["matmul"]
    assert efficiencies.sustained == base.sustained


def test_toml_overrides_and_keeps_its_sources(tmp_path):
    text = """
sustained = { value = 0.9, source = "me", assumed = true }
[sources.me]
text = "my bench"
date = "2025-01"
[operators.grouped_matmul]
flops = [1e9, 1e11]
efficiency = [0.1, 0.5]
launch_s = 1e-5
bandwidth_efficiency = 0.6
norm = 2
source = "me"
[memory.optimizer]
bandwidth_efficiency = 0.9
"""
    efficiencies = load_efficiencies(load_gpu("b200"), profile(tmp_path, text, ".toml"))
    assert efficiencies.sustained == 0.9
    assert efficiencies.curves["grouped_matmul"].norm == 2
    assert efficiencies.provenance["grouped_matmul"] == "my bench, 2025-01"
    assert efficiencies.memory["optimizer"].bandwidth_efficiency == 0.9
    assert "grouped_matmul" not in efficiencies.assumed
    assert "sustained" in efficiencies.assumed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty; expected a table of efficiencies"),
        (
            "op,flops,eff\n",
            "line 1: no column is called 'op'; expected a header",
        ),
        (
            "operator,flops,efficiency\nmatmul,1e12\n",
            "line 2: 2 cells, expected 3",
        ),
        ("operator,flops,efficiency\nmatmull,1,1\n", "unknown operator 'matmull'; did you mean"),
        (
            "operator,flops,efficiency\nmatmul,big,1\n",
            "line 2, cell 2: expected a number, got",
        ),
        ("operator,flops,efficiency\nmatmul,1e12,0\n", "efficiency in"),
        ("operator,flops,efficiency\nmatmul,1e12,50\n", "efficiency in"),
        ("operator,flops,efficiency\nmatmul,-1,0.5\n", "flops must be above 0"),
        (
            "operator,flops,efficiency\nmatmul,nan,0.5\n",
            "line 2, cell 2: expected a number",
        ),
        (
            "operator,flops,efficiency\nmatmul,1,0.5\nmatmul,1,0.6\n",
            "'matmul' has a size twice",
        ),
    ],
)
def test_wrong_csv_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(HardwareError) as caught:
        load_efficiencies(load_gpu("b200"), profile(tmp_path, text))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[operators.matmul]\nflops = [1]\n", "operators.matmul.efficiency is missing; add it"),
        ("[operators.matmul]\nflops = [2, 1]\nefficiency = [0.1, 0.2]\n", "flops must ascend"),
        ("[operators.matmul]\nflops = [1]\nefficiency = [0.1, 0.2]\n", "equal lengths"),
        ("[operators.matmul]\nflops = [0]\nefficiency = [0.1]\n", "flops must be above 0"),
        ("[operators.matmul]\nflops = [1]\nefficiency = [9]\n", "efficiency in"),
        ("[operators.matmul]\nflop = [1]\n", "did you mean 'flops'"),
        ("[operators.gemm]\nflops = [1]\nefficiency = [0.1]\n", "unknown operator 'gemm'"),
        ("[memory.permut]\nbandwidth_efficiency = 0.5\n", "did you mean 'permute'"),
        (
            "[memory.permute]\nbandwidth_efficiency = 0\n",
            "efficiency = 0: expected more than 0",
        ),
        ('sustained = { value = 0, source = "x" }\n', "sustained must be above 0"),
        (
            '[sources.a]\ntext = "t"\ndate = "d"\n'
            '[memory.permute]\nbandwidth_efficiency = 0.5\nsource = "b"\n',
            "source 'b' is not in [sources]",
        ),
    ],
)
def test_wrong_toml_is_refused_in_one_line(tmp_path, text, message):
    with pytest.raises(HardwareError) as caught:
        load_efficiencies(load_gpu("b200"), profile(tmp_path, text, ".toml"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("suffix", [".csv", ".toml"])
def test_absent_and_binary_profiles(tmp_path, suffix):
    with pytest.raises(HardwareError, match="no such file"):
        load_efficiencies(load_gpu("b200"), tmp_path / f"absent{suffix}")
    path = tmp_path / f"binary{suffix}"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(HardwareError, match="not UTF-8"):
        load_efficiencies(load_gpu("b200"), path)


@given(st.text(max_size=120))
def test_any_csv_text_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("fuzz") / "p.csv"
    path.write_text("operator,flops,efficiency\n" + text, encoding="utf-8")
    message = ""
    try:
        load_efficiencies(load_gpu("b200"), path)
    except HardwareError as error:
        message = str(error)
    assert "\n" not in message
