"""The calibration experiment: its step composer by closed forms, and its scores."""

import functools
import importlib
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightloom.hardware import load_gpu
from lightloom.workload.compute_operators import load_efficiencies

ROOT = Path(__file__).parents[3]
EXPERIMENT = ROOT / "experiments" / "compute-calibration"
SHARED = ROOT.parent / "shared"
DATA = ROOT / "python" / "lightloom" / "hardware" / "data"

MODULES = (
    *("cases", "composer", "fitting", "fit_amd", "fit_blackwell", "fit_hopper", "fit_operators"),
    *("mixnet_figures", "run"),
)


def load_experiment():
    """Import the experiment's modules, and leave their common names to other experiments."""
    others = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    sys.path.insert(0, str(EXPERIMENT))
    try:
        return [importlib.import_module(name) for name in MODULES]
    finally:
        sys.path.remove(str(EXPERIMENT))
        for name in MODULES:
            sys.modules.pop(name, None)
        sys.modules.update(others)


cases, composer, _, _, _, fit_hopper, fit_operators, mixnet_figures, run = load_experiment()

needs_measurements = pytest.mark.skipif(
    not (SHARED / "data" / "simumax").is_dir(),
    reason="the measurements of ../shared/data/simumax are not here",
)


def stage(forward_s, backward_s):
    return composer.Stage(forward_s, backward_s, 0.0, 0.0)


@given(st.integers(1, 8), st.integers(1, 40), st.floats(0.1, 2), st.floats(0.1, 2))
def test_1f1b_of_equal_stages_is_the_closed_form(depth, micro_batches, forward_s, backward_s):
    """(m + p - 1)(f + b), Megatron-LM (SC 2021), section 2.2."""
    stages = [stage(forward_s, backward_s)] * depth
    expected = (micro_batches + depth - 1) * (forward_s + backward_s)
    assert composer.one_f_one_b(stages, micro_batches, 0.0) == pytest.approx(expected)


@given(st.lists(st.tuples(st.floats(0.1, 2), st.floats(0.1, 2)), min_size=1, max_size=5))
def test_1f1b_is_bounded_by_its_busiest_stage_and_by_running_alone(times):
    stages = [stage(*pair) for pair in times]
    micro_batches = 6
    total = composer.one_f_one_b(stages, micro_batches, 0.0)
    busiest = max(sum(pair) for pair in times)
    through = sum(sum(pair) for pair in times)
    assert total >= max(micro_batches * busiest, through) - 1e-9
    assert total <= micro_batches * through + 1e-9


def test_sends_delay_the_pipeline():
    stages = [stage(1.0, 2.0)] * 2
    assert composer.one_f_one_b(stages, 4, 0.1) > composer.one_f_one_b(stages, 4, 0.0)
    assert composer.one_f_one_b(stages[:1], 4, 0.1) == pytest.approx(12.0)


def test_ring_collective_by_hand():
    operation = {"scale": 2, "efficient_factor": 0.5, "latency_us": 7, "fixed_latency_us": 3}
    collectives = composer.Collectives({"all_reduce": operation}, 1e9)
    # six steps of 7 us, and 3 us once
    assert collectives.seconds("all_reduce", 1e6, 4) == pytest.approx(2 * 0.75 * 1e6 / 5e8 + 45e-6)
    assert collectives.seconds("all_reduce", 1e6, 1) == 0


@pytest.fixture(scope="module")
def calibration():
    experiment = cases.read_experiment()
    return run.Calibration(
        cases.load_cases(SHARED, experiment), cases.load_collectives(SHARED, experiment)
    )


@pytest.fixture(scope="module")
def shipped():
    return tomllib.loads(run.SERVER.read_text())["sustained"]["value"]


@needs_measurements
def test_all_rows_are_read(calibration):
    cases = calibration.cases
    assert len(cases) == 43
    assert sum(case.is_moe for case in cases) == 12
    for case in cases:
        assert case.tp * case.cp * case.pp * case.dp == composer.WORLD
        assert case.dp * case.cp % case.ep == 0
    longest = max(cases, key=lambda case: case.seq_len)
    assert longest.seq_len == 131072
    assert longest.tokens * longest.cp == 131072


@needs_measurements
def test_errors_are_below_ten_percent(calibration, shipped):
    for moe, limit in ((False, 0.10), (True, 0.10)):
        rows = [case for case in calibration.cases if case.is_moe == moe]
        score = run.Score.of(calibration.errors(shipped, rows))
        assert score.mean_absolute < limit
        assert abs(score.mean) < 0.03
        # Llama 70B with TP8, whose kernels are the shortest
        assert score.largest < 0.17


@needs_measurements
def test_shipped_factor_is_the_one_that_is_fitted_to_dense_rows(calibration, shipped):
    dense = [case for case in calibration.cases if not case.is_moe]
    assert calibration.fit(dense) == pytest.approx(shipped, abs=0.002)


@needs_measurements
def test_fit_holds_across_models(calibration):
    dense = [case for case in calibration.cases if not case.is_moe]
    for name in ("llama3-70b", "llama3-405b"):
        outside = [case for case in dense if case.model.name != name]
        inside = [case for case in dense if case.model.name == name]
        score = run.Score.of(calibration.errors(calibration.fit(outside), inside))
        assert score.mean_absolute < 0.06


@needs_measurements
def test_document_says_what_is_computed(calibration, shipped):
    text = (ROOT / "docs" / "explanation" / "compute-calibration.md").read_text()
    dense = [case for case in calibration.cases if not case.is_moe]
    score = run.Score.of(calibration.errors(shipped, dense))
    match = re.search(r"dense \| fitted on them \| .*?mean absolute ([\d.]+) %", text)
    assert float(match[1]) == pytest.approx(100 * score.mean_absolute, abs=0.11)
    steps = run.TABLE.read_text()
    assert len(re.findall(r"^\| llama3-", steps, re.MULTILINE)) == 31
    assert len(re.findall(r"^\| deepseekv", steps, re.MULTILINE)) == 12


@needs_measurements
@pytest.mark.parametrize(
    "name", ["b200_server", *(f"efficiency_{gpu}" for gpu in ("a100", "b200", "gb300", "mi325x"))]
)
def test_shipped_curves_are_what_the_fit_gives(name):
    fitted = tomllib.loads(built()[f"{name}.toml"])
    shipped = tomllib.loads(fit_operators.place_of(f"{name}.toml").read_text())
    assert fitted["memory"] == shipped["memory"]
    assert fitted["operators"].keys() == shipped["operators"].keys()
    for operator, table in fitted["operators"].items():
        other = shipped["operators"][operator]
        assert table["flops"] == pytest.approx(other["flops"])
        assert table["efficiency"] == pytest.approx(other["efficiency"], rel=0.02)
        assert table.get("rows") == other.get("rows")
        assert table.get("assumed", False) == other.get("assumed", False)
        # products in NVFP4 scatter most
        assert other.get("error", 0.0) < (0.26 if operator.endswith("_fp4") else 0.16)


@functools.cache
def built():
    """The files that the fits make."""
    return fit_operators.build(SHARED)


def test_shipped_hopper_curves_are_what_the_measured_rows_give():
    fitted = tomllib.loads(fit_hopper.build()["efficiency_h100.toml"])
    shipped = tomllib.loads((DATA / "efficiency_h100.toml").read_text())
    assert fitted["memory"] == shipped["memory"]
    for operator, table in fitted["operators"].items():
        assert table["efficiency"] == pytest.approx(
            shipped["operators"][operator]["efficiency"], rel=0.02
        )


@pytest.mark.parametrize(
    ("operator", "tflops"),
    [
        # rows of h200_operators.csv: 8192 x 4096 x 14336, 8 x 4096 x 14336 x 4096, 8,192 tokens
        ("matmul", {9.62e11: 671}),
        ("matmul_accumulate", {9.62e11: 705}),
        ("grouped_matmul", {4.81e11: 687}),
        ("grouped_matmul_fp8", {4.81e11: 1158}),
        ("attention_forward", {5.5e11: 546}),
        ("attention_backward", {1.37e12: 480}),
    ],
)
def test_hopper_curves_are_within_ten_percent_of_measured_large_kernels(operator, tflops):
    gpu = load_gpu("h100")
    curve = load_efficiencies(gpu).curves[operator]
    peak = gpu.peak_flops("fp8" if operator.endswith("fp8") else "bf16")
    for flops, published in tflops.items():
        seconds = float(curve.seconds(flops, 0.0, peak, gpu.hbm_bytes_per_s))
        assert flops / seconds / 1e12 == pytest.approx(published, rel=0.1)


@needs_measurements
def test_every_matrix_product_and_attention_row_was_used():
    rows = built()["b200_server.toml"]
    used = sum(table.get("rows", 0) for table in tomllib.loads(rows)["operators"].values())
    # 514 products, 60 of 108 expert products (fp32 gradients), 38 of 64 attentions (contiguous)
    assert used == 514 + 60 + 38


def test_unknown_place_of_measurements(capsys, tmp_path):
    assert run.main(["--shared", str(tmp_path)]) == 2
    assert "not found; give --shared" in capsys.readouterr().err


def test_replacing_between_markers():
    text = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb\n"
    assert run.replace_between(text, "x", "new") == (
        "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb\n"
    )
    with pytest.raises(AssertionError, match="lacks the markers of 'y'"):
        run.replace_between(text, "y", "new")


def test_column_fit_finds_constant_and_volume():
    rates = (100.0, 200.0, 400.0, 800.0)
    column = mixnet_figures.Column("m", "f", rates, tuple(0.9 + 40 / rate for rate in rates))
    constant, volume, residual = column.fit()
    assert (constant, volume) == (pytest.approx(0.9), pytest.approx(40))
    assert residual < 1e-12


def test_expert_flops_of_figure_3():
    """8 x 4096 tokens, 2 copies, 3 products of 4096 x 14336, over TP4."""
    layer = mixnet_figures.Layer.published("mixtral-8x7b")
    assert layer.expert_flops == pytest.approx(65536 * 6 * 4096 * 14336 / 4)
    assert layer.expert_flops / 989.4e12 == pytest.approx(5.84e-3, rel=1e-2)


def test_all_to_all_stays_on_nvswitch_between_ranks_of_a_server():
    small, large = (
        mixnet_figures.Layer.published(name) for name in ("mixtral-8x7b", "mixtral-8x22b")
    )
    assert small.all_to_all_bits(1.0) == pytest.approx(8 * 2 * 16384 * 4096 * 6 / 8)
    assert large.all_to_all_bits(2.0) == pytest.approx(2 * 8 * 2 * 8192 * 6144 * 7 / 8)


@needs_measurements
def test_figure_12_implies_a100_class_compute():
    published = SHARED / "data" / "mixnet_published_mixtral.csv"
    if not published.is_file():
        pytest.skip("the published step times are not here")
    columns = mixnet_figures.read_columns(published)
    assert len(columns) == 8
    shares = []
    for column in columns:
        constant, volume, residual = column.fit()
        assert residual < 0.06
        if column.fabric == "fattree":
            shares.append(volume / 400 / (constant + volume / 400))
    assert np.array(shares) == pytest.approx([0.09, 0.06], abs=0.01)
    imbalance = mixnet_figures.matrix_imbalance(SHARED / "data" / "mixtral_8x8_token_matrix.txt")
    assert imbalance == pytest.approx(2.37, abs=0.01)
