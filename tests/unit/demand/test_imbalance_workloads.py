"""The public workloads of uneven routing: token by token those of their benchmark."""

import hashlib

import numpy as np
import pytest

from lightloom.demand import synthetic
from lightloom.demand.imbalance_workloads import random_of, routed
from lightloom.demand.open import kind_of, open_demand
from lightloom.demand.regime import WORKLOADS
from lightloom.demand.source import Shape
from lightloom.errors import DemandError

#: what the benchmark's own code calls their checksums, of (experts, top-k, tokens, steps, seed, EP)
CHECKSUMS = {
    (8, 2, 128, 4, 1234, 4): (
        "de729d3373593f8b a45073361dd6bc62 aae02de588345f38 8acc782cf82a6f02 "
        "c6cfaa371564a7c8 86747b987a42e89e 5eabf2cd8c0e31cb f0c12e720fcfb339"
    ),
    (8, 4, 512, 1, 1234, 4): (
        "0b0c2464eacbe67b 4e05b50718c9efd7 e4c8677adb70acc2 b447867849dfc769 "
        "8e64086430588d55 25ddc8ea49f47435 b81644505cd44bb0 0fd0a1b165fe5766"
    ),
    (128, 4, 512, 4, 7, 8): (
        "f5b7139fbb41c692 f008292b443b12d1 6286164cde2e6f52 2e928d3694082098 "
        "8f1e41fe68568105 7919dbf783c140c2 158d63b347076592 f8a4f2dc99062e9d"
    ),
}

#: busiest expert over mean, and standard deviation over mean, of its README at EP 4 and 8 experts;
#: there W3 is that of an earlier definition: 1.281, 0.159 and 1.047, 0.031
PUBLISHED = {
    (2, 128): {
        "W0_balanced": (1.000, 0.000), "W1_hot_expert_set": (3.312, 1.309),
        "W2_hot_rank": (3.219, 1.272), "W4_source_ragged": (1.281, 0.141),
        "W5_zero_expert_rank": (2.156, 1.007), "W6_rotating_hotspot": (3.312, 1.319),
        "W7_burst": (1.219, 0.126),
    },
    (4, 512): {
        "W0_balanced": (1.000, 0.000), "W1_hot_expert_set": (1.781, 0.744),
        "W2_hot_rank": (1.770, 0.747), "W4_source_ragged": (1.086, 0.046),
        "W5_zero_expert_rank": (2.000, 1.000), "W6_rotating_hotspot": (1.770, 0.742),
        "W7_burst": (1.066, 0.040),
    },
}  # fmt: skip


def checksum(workload, experts, top_k, tokens, steps, seed, ep):
    """The benchmark's: sizes, and of each step experts and gates, which are drawn after them."""
    found = hashlib.sha256(f"{workload}|{experts}|{top_k}|{tokens}|{steps}|{seed}|{ep}".encode())
    for step in range(steps):
        random = random_of(workload, seed, step)
        ids = routed(workload, random, experts=experts, top_k=top_k, tokens=tokens, step=step)
        found.update(ids.tobytes())
        bits = random.randint(0, 1 << 32, size=tokens * top_k, dtype=np.uint32) & 0xFFFFFF
        gates = bits.astype(np.float32) * np.float32(2**-24) * np.float32(0.5) + np.float32(0.5)
        gates = gates.reshape(tokens, top_k)
        found.update((gates / gates.sum(axis=1, keepdims=True)).tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize("sizes", CHECKSUMS)
def test_checksums_are_those_of_the_benchmark(sizes):
    assert [checksum(name, *sizes) for name in WORKLOADS] == CHECKSUMS[sizes].split()


@pytest.mark.parametrize("sizes", PUBLISHED)
def test_imbalances_are_those_that_were_published(sizes):
    top_k, tokens = sizes
    for name, (busiest, spread) in PUBLISHED[sizes].items():
        source = synthetic(name, ranks=4, experts=8, tokens_per_rank=tokens, top_k=top_k, seed=1234)
        counts = source.tokens(group=0, layers=[0], micro_batches=1, step=0)[0, 0].sum(axis=0)
        assert counts.max() / counts.mean() == pytest.approx(busiest, abs=6e-4)
        assert counts.std() / counts.mean() == pytest.approx(spread, abs=6e-4)


@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize(("experts", "top_k"), [(8, 1), (16, 4), (256, 8)])
def test_each_token_chooses_as_many_experts_as_it_should(name, experts, top_k):
    for step in (0, 3, 5):
        random = random_of(name, 1, step)
        ids = routed(name, random, experts=experts, top_k=top_k, tokens=100, step=step)
        assert ids.shape == (100, top_k)
        assert all(len(set(row)) == top_k for row in ids.tolist())
        assert ids.min() >= 0
        assert ids.max() < experts


def test_what_moves_with_the_step():
    shape = Shape(4, 16, 256, 2)
    rotating, burst = (open_demand(n, shape, seed=1) for n in ("W6_rotating_hotspot", "W7_burst"))

    def counts(source, step):
        return source.tokens(group=0, layers=[0, 3], micro_batches=2, step=step)

    hot = [counts(rotating, step)[0, 0, 0].reshape(4, 4).sum(axis=1).argmax() for step in range(12)]
    assert hot == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3
    busiest = [counts(burst, step)[0, 0, 0].max() for step in range(8)]
    assert min(busiest[3], busiest[7]) > 1.5 * max(busiest[:3] + busiest[4:7])
    table = counts(burst, 3)
    assert (table == table[0, 0, 0]).all()
    assert (table.sum(axis=-1) == shape.copies_per_rank).all()


def test_what_cannot_be_is_refused():
    assert kind_of("W5_zero_expert_rank") == "regime"
    with pytest.raises(DemandError, match="W5_zero_expert_rank: top-6 of the 4 experts that get"):
        open_demand("W5_zero_expert_rank", Shape(4, 8, 16, 6), seed=0)
    with pytest.raises(DemandError, match="did you mean 'W7_burst'"):
        open_demand("W7_burts", Shape(4, 8, 16, 2), seed=0)
    with pytest.raises(DemandError, match="is as published and has no parameters, got 'rho'"):
        synthetic("W7_burst", ranks=4, experts=8, tokens_per_rank=8, top_k=2, seed=0, rho=0.9)
