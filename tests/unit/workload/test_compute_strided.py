"""Kernels that load element by element: bytes or elements, whichever take longer."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compute_cases import MIXTRAL, plain

from lightloom.workload.compute import ComputeModel


def slower(compute, element_s):
    """The same GPU, on which strided kernels take at least so long for an element."""
    kinds = dict(compute.efficiencies.memory)
    kinds["strided"] = dataclasses.replace(kinds["strided"], element_s=element_s)
    return compute.with_efficiencies(dataclasses.replace(compute.efficiencies, memory=kinds))


@given(st.floats(1, 1e9), st.floats(0, 1e10), st.floats(0, 1e-11))
def test_strided_kernels_take_as_long_as_their_bytes_or_their_elements(elements, moved, element_s):
    kernels = slower(plain(), element_s).kernels
    work = kernels.strided(elements, moved, 3)
    assert work.kernel_s == pytest.approx(max(moved / 8e12, elements * element_s))
    assert work.kernels == work.gaps == 3
    twice = kernels.strided(2 * elements, 2 * moved, 3)
    assert twice.kernel_s == pytest.approx(2 * work.kernel_s)


def test_only_what_pytorch_does_itself_is_strided():
    """Biases and clamps of experts take an element once forward, 2 and 2.5 times backward."""
    compute, elements = plain(expert_products="sequential"), 1000 * 4096
    halves = 1000 * 2 * MIXTRAL.expert_ffn_size
    slow = slower(compute, 1e-9)
    every = dataclasses.replace(MIXTRAL, expert_bias=True, expert_clamp=True)
    for backward, bias, clamp in ((False, 1, 1), (True, 2, 2.5)):
        plainly, biased = (
            float(slow.experts(m, 1000, 2, 1, backward) - compute.experts(m, 1000, 2, 1, backward))
            for m in (MIXTRAL, every)
        )
        assert plainly == 0
        expected = bias * elements + clamp * halves
        assert biased == pytest.approx(expected * 1e-9, rel=2e-3)  # less the bytes they moved
        assert slow.attention_layer(MIXTRAL, 1000, 1000, 1, 1, backward) == pytest.approx(
            compute.attention_layer(MIXTRAL, 1000, 1000, 1, 1, backward)
        )


def test_scaled_rotary_positions_are_not_rotated_by_one_kernel():
    attention = MIXTRAL.attention
    scaled = dataclasses.replace(
        MIXTRAL, attention=dataclasses.replace(attention, scaled_rotary=True)
    )
    rotated = 1000 * (attention.num_heads + attention.num_kv_heads) * attention.head_dim
    compute = plain()
    for backward, passes in ((False, 7 + 5), (True, 7 + 7)):
        plainly, more = (
            compute.attention_layer(m, 1000, 1000, 1, 1, backward) for m in (MIXTRAL, scaled)
        )
        assert more - plainly == pytest.approx((passes - 2) * 2 * rotated / 8e12)
        slow = slower(compute, 1e-9).attention_layer(scaled, 1000, 1000, 1, 1, backward)
        taken = 3.77 * rotated * 1e-9 - 7 * 2 * rotated / 8e12
        assert slow - more == pytest.approx(taken)


def test_a_strided_kernel_takes_longer_at_a_lower_clock(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('like = "h100"\npower_w = 500\n')
    whole, capped = (ComputeModel.load(gpu).kernels for gpu in ("h100", str(path)))
    times = [kernels.strided(1e9, 1e6, 1).kernel_s for kernels in (capped, whole)]
    assert times[0] / times[1] == pytest.approx((7 / 5) ** 0.44, rel=1e-3)
