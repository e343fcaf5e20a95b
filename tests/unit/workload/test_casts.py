"""Casts of FP8 operands: bytes by the scales of a run, and their share of a published layer."""

import pytest
from tests.compute_cases import MIXTRAL, plain

from lightloom.models import load_model
from lightloom.workload.compute import ComputeModel
from lightloom.workload.compute_kernels import CASTS, NOTHING, Kernels

#: GPU, format and scales: bytes that a cast moves per element (BF16 values read, FP8 values and
#: their scales written), and after a norm, which has written them in BF16 or in FP8
NARROW = 33 / 32
CAST_BYTES = {
    ("h100", "fp8", "fused"): (2 + 2 * NARROW, 0),
    ("h100", "fp8", "current"): (2 + 2 + 2 * NARROW, 2 + 2 * NARROW),
    ("h100", "fp8", "block"): (2 + 2 * NARROW, 2 + 2 * NARROW),
    ("h100", "fp8", "separate"): (4 + 3 * NARROW, 4 + 3 * NARROW),
    # Blackwell multiplies FP8 with one scale in any layout, blocks along both
    ("b200", "fp8", "current"): (2 + 2 + NARROW, 2 + NARROW),
    ("b200", "mxfp8", "block"): (2 + 2 * NARROW, 2 + 2 * NARROW),
    ("b200", "mxfp8", "fused"): (2 + 2 * NARROW, 0),
}


@pytest.mark.parametrize(("gpu", "precision", "casts"), CAST_BYTES)
def test_casts_move_what_their_scales_need(gpu, precision, casts):
    kernels = plain(gpu, precision=precision, casts=casts).kernels
    rate, elements = kernels.gpu.hbm_bytes_per_s, 1e9
    found = [kernels.quantize(elements, normed=n).kernel_s * rate / elements for n in (False, True)]
    assert found == pytest.approx(CAST_BYTES[gpu, precision, casts])


def test_casts_of_a_layer_are_those_of_its_operands():
    """Dense feed-forward: a norm before one product, an activation function before the other."""
    model, tokens = load_model("llama-3-8b"), 4096
    hidden, width = model.hidden_size, model.ffn_size
    for casts in CASTS:
        with_casts, without = (
            plain("h100", precision="fp8", casts=kind).kernels for kind in (casts, "fused")
        )
        more = [
            float(with_casts.quantize(n, normed=normed).kernel_s)
            - float(without.quantize(n, normed=free).kernel_s)
            for n, normed, free in (
                (tokens * hidden, True, True), (tokens * width, casts == "fused", True),
                # gradients of the results of both products
                (tokens * 2 * width, False, False), (tokens * hidden, False, False),
            )
        ]  # fmt: skip
        times = [
            [
                plain("h100", precision="fp8", casts=kind, cuda_graphs=True).dense_ffn(
                    model, tokens, 1, backward
                )
                for kind in (casts, "fused")
            ]
            for backward in (False, True)
        ]
        # no more than the gaps between the kernels of casts
        assert times[0][0] - times[0][1] == pytest.approx(sum(more[:2]), abs=8e-6)
        assert times[1][0] - times[1][1] == pytest.approx(sum(more[2:]), abs=8e-6)


def test_current_scales_take_longer_than_blocks_and_these_than_fused_casts():
    """On Hopper; with passes of torchao, which transpose apart, longer still."""
    for tokens in (512, 4096, 32768):
        times = [
            plain("h100", precision="fp8", casts=casts).dense_ffn(MIXTRAL, tokens, 1, False)
            for casts in ("fused", "block", "current", "separate")
        ]
        assert times == sorted(times)
        assert len(set(times)) == len(times)


def test_casts_of_deepseek_v3_are_the_share_of_its_published_profile(monkeypatch):
    """Casts and transposes are 13 % of the kernels of a layer of that profile (H800, EP64)."""
    model, tokens = load_model("deepseek-v3"), 4096
    compute = ComputeModel.load(
        "h800", precision="fp8", casts="separate", recompute="selective", expert_products="grouped"
    )

    def layer_s():
        return sum(
            compute.attention_layer(model.variants[0], tokens, 4096, 1, 1, backward)
            + compute.gate(model, tokens, backward)
            + compute.shared_experts(model, tokens, 1, backward)
            + float(compute.experts(model, 8.0 * tokens, 4, 1, backward))
            for backward in (False, True)
        )

    whole = layer_s()
    monkeypatch.setattr(Kernels, "quantize", lambda *_, **__: NOTHING)
    monkeypatch.setattr(Kernels, "quantize_experts", lambda *_: NOTHING)
    assert 1 - layer_s() / whole == pytest.approx(0.13, abs=0.015)
